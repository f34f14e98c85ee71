"""How fast the registry of a seed server is, and how much memory it takes, by its size.

    python benchmarks registry [--urls N,..] [--sites N] [--batch N] [--updates N]

Fills a registry with URLs on sites of very different sizes. Then it reports back-links in batches,
by Zipf's law, and hands out the best URL once for every 35 updates. Prints a line of JSON for each
size, from a process of its own: nanoseconds for an update in a batch, for handing out and ending a
URL, and for both together ("mixed"); mixed updates per second; microseconds for adding a URL and
for reading a random text; bytes of memory per URL (the growth of the resident set), of which the
records, the table and the compressed texts.
"""

import argparse
import gc
import random
import time
from functools import partial
from pathlib import Path

import numpy as np
from harness import Row, alone, numbers, show

from crawler.core.registry import Registry
from crawler.ports import CrawlUrl

UPDATES_A_POP = 35  # a page has about so many links
PER_SITE = 4
PHI = 0x9E3779B97F4A7C15


def resident() -> int:
    """Bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def key_of(number: int) -> int:
    mixed = (number + 1) * PHI % 2**64
    return (mixed ^ mixed >> 31) * 0xBF58476D1CE4E5B9 % 2**64


def keys_of(numbers: "np.ndarray") -> "np.ndarray":
    """`key_of`, in bulk."""
    mixed = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(PHI)
    return (mixed ^ mixed >> np.uint64(31)) * np.uint64(0xBF58476D1CE4E5B9)


def found(number: int, sites: int) -> CrawlUrl:
    """The same for the same number. Half of the URLs are on sites by Zipf's law."""
    mixed = number * PHI % 2**64
    draw = (mixed >> 11) / 2**53
    site_number = int(sites**draw) if mixed % 2 else int(sites * draw)
    site = f"http://www.site{site_number}.example"
    words = f"{mixed % 9973:x}-{mixed // 9973 % 997:x}"
    text = f"{site}/section-{mixed % 97}/{words}/{number}-the-title"
    return CrawlUrl(key_of(number), text, site, number % 20)


def measure(urls: int, sites: int, batch: int, updates: int) -> Row:
    warm(Registry(PER_SITE))
    registry = Registry(PER_SITE)
    gc.collect()
    before = resident()
    adding = 0.0
    for start in range(0, urls, 100_000):
        new = [found(number, sites) for number in range(start, min(start + 100_000, urls))]
        since = time.perf_counter()
        for one in new:
            registry.add(one, 1, 1, final=False)
        adding += time.perf_counter() - since
    del new
    gc.collect()
    row: Row = {"urls": urls, "sites": len(registry._names), "add_us": adding / urls * 1e6}
    row["bytes_per_url"] = (resident() - before) / urls
    row["record_bytes"] = registry._urls.nbytes / urls
    row["table_bytes"] = registry._table.nbytes / urls
    row["text_bytes"] = sum(map(len, registry._texts._blocks)) / urls  # type: ignore[arg-type]
    row |= mixed(registry, urls, batch, updates)
    rows = [random.randrange(urls) for _ in range(20_000)]
    since = time.perf_counter()
    for one_row in rows:
        registry._texts.read(one_row)
    row["text_us"] = (time.perf_counter() - since) / len(rows) * 1e6
    row["peak_bytes_per_url"] = 0
    return row


def mixed(registry: Registry, urls: int, batch: int, updates: int) -> Row:
    draw = np.random.default_rng(1)
    counting = popping = 0.0
    pops = 0
    ones = np.ones(batch, np.uint32)
    for _ in range(updates // batch):
        # Half of the links lead to popular URLs.
        drawn = draw.random(batch)
        popular = (float(urls) ** drawn).astype(np.int64)
        keys = keys_of(np.where(draw.random(batch) < 0.5, popular, drawn * urls).astype(np.int64))
        since = time.perf_counter()
        registry.count(keys, ones, 1)
        then = time.perf_counter()
        counting += then - since
        for _ in range(batch // UPDATES_A_POP):
            registry.end(registry.pop(0).key)
            pops += 1
        popping += time.perf_counter() - then
    return {
        "update_ns": counting / updates * 1e9,
        "pop_end_ns": popping / pops * 1e9,
        "mixed_ns": (counting + popping) / updates * 1e9,
        "updates_per_s": updates / (counting + popping),
    }


def warm(registry: Registry) -> None:
    """Let numba compile everything."""
    for number in range(10):
        registry.add(found(number, 5), 1, 1, final=False)
    mixed(registry, 10, 70, 70)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    sizes = [1_000_000, 10_000_000]
    parser.add_argument("--urls", type=numbers, default=sizes, metavar="N,..")
    parser.add_argument("--sites", type=int, default=200_000, help="default: 200,000")
    parser.add_argument("--batch", type=int, default=4096, help="updates; default: 4096")
    parser.add_argument("--updates", type=int, default=4_000_000, help="default: 4,000,000")


def run(options: argparse.Namespace) -> None:
    for urls in options.urls:
        about = (urls, options.sites, options.batch, options.updates)
        row, usage = alone(partial(measure, *about))
        row["peak_bytes_per_url"] = usage.peak_bytes / urls
        show(row)
