"""How much memory and time the frontier takes, by order.

    python benchmarks frontier [--urls N] [--sites N] [--orders A,B]

Fills a workbench with URLs of about 75 characters on sites of very different sizes. It reports
back-links of some URLs to the orders that count back-links, then takes URLs out without politeness.
Gives a row for each order, from a process of its own: bytes of memory per waiting URL
(the growth of the resident set, the whole workbench included), and microseconds of CPU for
`enqueue`, for `linked`, for `fetched` per link, and for `acquire` with `release`. For pagerank it
also gives the seconds of one computation of all scores.
"""

import gc
import random
import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

from harness import Row, Timer, Words, alone, batched, random_site, resident_bytes

from crawler import config, url
from crawler.core.order import Scored, make_order
from crawler.core.outcomes import DONE
from crawler.core.workbench import Workbench
from crawler.ports import CrawlUrl
from crawler.session import SpillFiles

ORDERS = ("breadth-first", "depth-first", "random", "backlinks", "opic", "pagerank")
LINKS_A_PAGE = 20


def make_url(number: int, sites: int) -> CrawlUrl:
    site = f"www.site{random_site(number, sites)}.example"
    address = f"https://{site}/section-{number % 97}/2026/11/{number}-the-title-of-an-article"
    return CrawlUrl(url.key(address), address, site, number % 20)


def measure(order_name: str, urls: int, sites: int, memory: int, directory: str) -> Row:
    order = make_order(config.Frontier(order=order_name))
    operations = min(urls // 2, 200_000)
    with SpillFiles(Path(directory) / order_name) as spill:
        bench = Workbench(config.Politeness(delay_s=0), config.Retry(), order, spill, memory)
        gc.collect()
        before, enqueue_s = resident_bytes(), 0.0
        for batch in batched((make_url(number, sites) for number in range(urls)), 100_000):
            with Timer() as timer:
                for one in batch:
                    bench.enqueue(one)
            enqueue_s += timer.cpu_s
        del batch, one
        gc.collect()
        grown = resident_bytes() - before
        row: Row = {"order": order_name, "urls": urls, "sites": len(bench._states)}
        row |= {"urls_on_disk": bench.backlog._store.on_disk, "bytes_per_url": grown / urls}
        row["enqueue_us"] = enqueue_s / urls * 1e6
        draw = random.Random(1)
        keys = [make_url(draw.randrange(urls), sites).key for _ in range(operations)]
        if order.counts:
            with Timer() as timer:
                for key in keys:
                    bench.backlog.count_links(key)
            row["linked_us"] = timer.cpu_s / operations * 1e6
        visits = []
        with Timer() as timer:
            for _ in range(operations):
                visit = bench.acquire(0)
                assert visit is not None
                bench.end(visit, DONE, 0)
                visits.append(visit.found)
        row["acquire_release_us"] = timer.cpu_s / operations * 1e6
        if order.wants_links:
            assert isinstance(order, Scored)
            order.is_stale = lambda: False  # type: ignore[method-assign]
            pages = operations // LINKS_A_PAGE
            cuts = range(0, pages * LINKS_A_PAGE + 1, LINKS_A_PAGE)
            # If all pages had equally many links and as much cash, no score would change.
            ends = [cut + (LINKS_A_PAGE // 2) * (number % 2) for number, cut in enumerate(cuts)]
            targets = [keys[start:end] for start, end in pairwise(ends)]
            with Timer() as timer:
                for page, links in zip(visits[-pages:], targets, strict=True):
                    bench.backlog.note_page(page, links)
            row["fetched_us_per_link"] = timer.cpu_s / operations * 1e6
        if order_name == "pagerank":
            order.is_stale = lambda: True  # type: ignore[attr-defined]
            with Timer() as timer:
                bench.backlog.note_page(visits[0], keys[:LINKS_A_PAGE])
            row["all_scores_s"] = timer.cpu_s
        return row


def run(
    *,
    urls: int = 10_000_000,
    sites: int = 200_000,
    memory: int = config.Frontier().memory,
    orders: Words = ORDERS,
) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as directory:
        for order in orders:
            row, _ = alone(partial(measure, order, urls, sites, memory, directory))
            yield row
