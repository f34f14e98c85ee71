"""How much memory and time the frontier takes, by order.

    python benchmarks frontier [--urls N] [--sites N] [--orders A,B]

Fills a workbench with URLs of about 75 characters on sites of very different sizes. It reports
back-links of some URLs to the orders that count back-links, then takes URLs out without politeness.
Prints a line of JSON for each order, from a process of its own: bytes of memory per waiting URL
(the growth of the resident set, the whole workbench included), and microseconds of CPU for
`enqueue`, for `linked`, for `fetched` per link, and for `acquire` with `release`. For pagerank it
also prints the seconds of one computation of all scores.
"""

import argparse
import gc
import random
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

from harness import Row, alone, show, words

from crawler import config, url
from crawler.core.order import Scored, make_order
from crawler.core.outcomes import DONE
from crawler.core.workbench import Workbench
from crawler.ports import CrawlUrl
from crawler.session import SpillFiles

ORDERS = ["breadth-first", "depth-first", "random", "backlinks", "opic", "pagerank"]
LINKS_A_PAGE = 20


def resident() -> int:
    """Bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def found(number: int, sites: int) -> CrawlUrl:
    """The same for the same number. Half of the URLs are on sites by Zipf's law."""
    mixed = number * 0x9E3779B97F4A7C15 % 2**64
    draw = (mixed >> 11) / 2**53
    site_number = int(sites**draw) if mixed % 2 else int(sites * draw)
    site = f"https://www.site{site_number}.example"
    address = f"{site}/section-{number % 97}/2026/11/{number}-the-title-of-an-article"
    return CrawlUrl(url.key(address), address, site, number % 20)


def numbers(urls: int, count: int) -> Iterator[int]:
    draw = random.Random(1)
    return (draw.randrange(urls) for _ in range(count))


def measure(order_name: str, urls: int, sites: int, memory: int, directory: str) -> Row:
    order = make_order(config.Frontier(order=order_name))
    with SpillFiles(Path(directory) / order_name) as spill:
        bench = Workbench(config.Politeness(delay_s=0), config.Retry(), order, spill, memory)
        gc.collect()
        before, seconds = resident(), 0.0
        step = 100_000
        for start in range(0, urls, step):
            batch = [found(number, sites) for number in range(start, min(start + step, urls))]
            since = time.process_time()
            for one in batch:
                bench.enqueue(one)
            seconds += time.process_time() - since
        del batch
        gc.collect()
        grown = resident() - before
        row: Row = {"order": order_name, "urls": urls, "sites": len(bench._states)}
        row |= {"urls_on_disk": bench.backlog._store.on_disk, "bytes_per_url": grown / urls}
        row["enqueue_us"] = seconds / urls * 1e6
        ops = min(urls // 2, 200_000)
        if order.counts:
            keys = [found(number, sites).key for number in numbers(urls, ops)]
            since = time.process_time()
            for key in keys:
                bench.backlog.count_links(key)
            row["linked_us"] = (time.process_time() - since) / ops * 1e6
        visits = []
        since = time.process_time()
        for _ in range(ops):
            visit = bench.acquire(0)
            assert visit is not None
            bench.end(visit, DONE, 0)
            visits.append(visit.found)
        row["acquire_release_us"] = (time.process_time() - since) / ops * 1e6
        if order.wants_links:
            assert isinstance(order, Scored)
            order.is_stale = lambda: False  # type: ignore[method-assign]
            pages = ops // LINKS_A_PAGE
            cuts = range(0, pages * LINKS_A_PAGE + 1, LINKS_A_PAGE)
            # Pages with as many links and as much cash as all others would change nothing.
            ends = [cut + (LINKS_A_PAGE // 2) * (number % 2) for number, cut in enumerate(cuts)]
            batches = [keys[start:end] for start, end in pairwise(ends)]
            since = time.process_time()
            for page, targets in zip(visits[-pages:], batches, strict=True):
                bench.backlog.note_page(page, targets)
            row["fetched_us_per_link"] = (time.process_time() - since) / ops * 1e6
        if order_name == "pagerank":
            since = time.process_time()
            order.is_stale = lambda: True  # type: ignore[attr-defined]
            bench.backlog.note_page(visits[0], keys[:LINKS_A_PAGE])
            row["all_scores_s"] = time.process_time() - since
        return row


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--urls", type=int, default=10_000_000, help="default: 10,000,000")
    parser.add_argument("--sites", type=int, default=200_000, help="default: 200,000")
    parser.add_argument("--memory", type=int, default=config.Frontier().memory)
    parser.add_argument("--orders", type=words, default=ORDERS, metavar="O,..")


def run(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as directory:
        for order in options.orders:
            about = (order, options.urls, options.sites, options.memory, directory)
            row, _ = alone(partial(measure, *about))
            show(row)
