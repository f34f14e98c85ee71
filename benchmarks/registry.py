"""How fast the registry of a seed server is, and how much memory it takes, by its size.

    python benchmarks registry [--urls N,..] [--sites N] [--batch N] [--updates N]

Fills a registry with URLs on sites of very different sizes, and hands out some. Then it reports
back-links in batches, half of them of popular URLs, and hands out the best URL once for every 35
updates. Gives a row for each size, from a process of its own. All times are CPU times:

- `add_us` is for adding a URL. `first_pops_us` is for handing out and ending a URL soon after all
  URLs were added, and `pop_us` later. Both include reading the text.
- `update_ns` is for an update in a batch, and `mixed_ns` for an update and its share of handing
  out. `updates_per_s` is 1 / `mixed_ns`.
- `text_us` is for reading the text of a random URL.
- `bytes_per_url` is the growth of the resident set. `array_bytes` and `text_bytes` are parts of
  that. `peak_bytes_per_url` is the peak of the whole process.
"""

import gc
import random
from collections.abc import Iterator
from functools import partial
from typing import Annotated

import numpy as np
from harness import (
    Numbers,
    Row,
    Timer,
    alone,
    batched,
    random_site,
    resident_bytes,
)

from crawler.core.hands import Hand
from crawler.core.registry import Registry
from crawler.ports import CrawlUrl

UPDATES_A_POP = 35  # about as many as a page has links
PER_SITE = 4
DEALT_AT_ONCE = 100
PHI = 0x9E3779B97F4A7C15


def key_of(number: int) -> int:
    mixed = (number + 1) * PHI % 2**64
    return (mixed ^ mixed >> 31) * 0xBF58476D1CE4E5B9 % 2**64


def keys_of(numbers: "np.ndarray") -> "np.ndarray":
    """Return `key_of` of many numbers."""
    mixed = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(PHI)
    return (mixed ^ mixed >> np.uint64(31)) * np.uint64(0xBF58476D1CE4E5B9)


def make_url(number: int, sites: int) -> CrawlUrl:
    mixed = number * PHI % 2**64
    site = f"http://www.site{random_site(number, sites)}.example"
    words = f"{mixed % 9973:x}-{mixed // 9973 % 997:x}"
    text = f"{site}/section-{mixed % 97}/{words}/{number}-the-title"
    return CrawlUrl(key_of(number), text, site, number % 20)


def measure(urls: int, sites: int, batch: int, updates: int) -> Row:
    warm(Registry(PER_SITE))
    registry = Registry(PER_SITE)
    gc.collect()
    before, add_s = resident_bytes(), 0.0
    for new in batched((make_url(number, sites) for number in range(urls)), 100_000):
        with Timer() as timer:
            add(registry, new)
            registry.find(0)  # so that all of them are in the arrays
        add_s += timer.cpu_s
    del new
    gc.collect()
    row: Row = {"urls": urls, "sites": len(registry._names), "add_us": add_s / urls * 1e6}
    row["bytes_per_url"] = (resident_bytes() - before) / urls
    row["array_bytes"] = registry._arrays.nbytes / urls
    row["text_bytes"] = registry._texts.memory / urls
    row |= settle(registry, min(3 * sites, urls // 10))
    row |= mixed(registry, urls, batch, updates)
    rows = [random.randrange(urls) for _ in range(20_000)]
    with Timer() as timer:
        for one_row in rows:
            registry._texts.read(one_row)
    row["text_us"] = timer.cpu_s / len(rows) * 1e6
    return row


def add(registry: Registry, urls: list[CrawlUrl]) -> None:
    """Let new URLs wait, to each of which one link leads."""
    registry.add(urls, [(1.0, False)] * len(urls), [1] * len(urls))


def settle(registry: Registry, pops: int) -> Row:
    """Hand out URLs. The first URL of a site costs most, as all its new URLs are compared then."""
    with Timer() as timer:
        for _ in range(pops // DEALT_AT_ONCE):
            deal(registry, DEALT_AT_ONCE)
    return {"first_pops_us": timer.cpu_s / pops * 1e6}


def deal(registry: Registry, count: int) -> int:
    """Hand out and end so many URLs, or all that there are. Returns their number."""
    keys = [
        found.key
        for dealt in registry.deal([Hand(0, (), count, 0)], None, 0, count)
        for found in dealt.found
    ]
    registry.end(np.array(keys, np.uint64))
    return len(keys)


def mixed(registry: Registry, urls: int, batch: int, updates: int) -> Row:
    draw = np.random.default_rng(1)
    count_s = pop_s = 0.0
    pops = 0
    ones = np.ones(batch, np.uint32)
    for _ in range(updates // batch):
        # Half of the links lead to popular URLs.
        drawn = draw.random(batch)
        popular = (float(urls) ** drawn).astype(np.int64)
        keys = keys_of(np.where(draw.random(batch) < 0.5, popular, drawn * urls).astype(np.int64))
        with Timer() as timer:
            registry.count(keys, ones, 1)
        count_s += timer.cpu_s
        with Timer() as timer:
            pops += deal(registry, batch // UPDATES_A_POP)
        pop_s += timer.cpu_s
    return {
        "update_ns": count_s / updates * 1e9,
        "pop_us": pop_s / pops * 1e6,
        "mixed_ns": (count_s + pop_s) / updates * 1e9,
        "updates_per_s": updates / (count_s + pop_s),
    }


def warm(registry: Registry) -> None:
    """Compile all functions before anything is measured."""
    add(registry, [make_url(number, 5) for number in range(10)])
    mixed(registry, 10, 70, 70)


def run(
    *,
    urls: Numbers = (1_000_000, 10_000_000),
    sites: int = 200_000,
    batch: Annotated[int, "updates"] = 4096,
    updates: int = 4_000_000,
) -> Iterator[Row]:
    for number in urls:
        row, usage = alone(partial(measure, number, sites, batch, updates))
        yield row | {"peak_bytes_per_url": usage.peak_bytes / number}
