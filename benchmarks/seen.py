"""How fast the stores of URL-seen are that answer at once, and how much memory a URL takes.

    python benchmarks seen [--urls N,..] [--stores A,B] [--links N] [--new N] [--pages N]
                           [--memory BYTES]

Fills a store with keys, then asks it about the links of pages, some of which are new, as the door
of the core does. Prints a line of JSON for each store and size, from a process of its own:
nanoseconds of CPU and of time for a check of one link, from a list of Python's integers; those of a
key while the store is filled; the longest call while it is filled, in milliseconds; and bytes of
memory per URL (the growth of the resident set, with numba where the store needs it).
"""

import gc
import tempfile
from array import array
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from harness import Numbers, Row, Timer, Words, alone, resident_bytes, show

from crawler.core.seen import MemorySeen, UrlSeen
from crawler.stores.auto import AutoStore
from crawler.stores.memory import MemoryStore

STORES: dict[str, Callable[[Path, int], UrlSeen]] = {
    "set": lambda folder, memory: MemorySeen(),
    "memory": lambda folder, memory: MemoryStore(),
    "auto": AutoStore,
    "runs": partial(AutoStore, at_once=True),
}
HOT = 20  # pages whose keys are made at a time
BATCH = 500  # keys at a time while the store is filled, as of a long page


def keys_of(numbers: "np.ndarray") -> "np.ndarray":
    """Return different keys for different numbers."""
    mixed = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed ^ mixed >> np.uint64(31)) * np.uint64(0xBF58476D1CE4E5B9)


def measure(name: str, urls: int, links: int, new: int, pages: int, memory: int, at: str) -> Row:
    gc.collect()
    before = resident_bytes()
    store = STORES[name](Path(at) / "store", memory)
    fill_s, longest_s = 0.0, 0.0
    for start in range(0, urls, BATCH):
        batch = array("Q", keys_of(np.arange(start, min(start + BATCH, urls))).tobytes())
        with Timer() as timer:
            unmet = store.unmet(batch)
            for key in batch:
                if key in unmet:
                    unmet.discard(key)
        fill_s += timer.cpu_s
        longest_s = max(longest_s, timer.wall_s)
        if name == "auto" and store.nbytes > memory // 2:
            store.give(0)
    del batch
    gc.collect()
    row: Row = {"store": name, "urls": urls, "bytes_per_url": (resident_bytes() - before) / urls}
    draw = np.random.default_rng(1)
    asked = draw.integers(0, urls, (pages, links))
    asked[:, :new] = np.arange(urls, urls + pages * new).reshape(pages, new)
    cpu_s, wall_s = 0.0, 0.0
    for start in range(0, pages, HOT):
        lists = keys_of(asked[start : start + HOT]).tolist()  # in the cache, as in a crawl
        with Timer() as timer:
            for page in lists:
                unmet = store.unmet(page)
                for key in page:
                    if key in unmet:
                        unmet.discard(key)
        cpu_s, wall_s = cpu_s + timer.cpu_s, wall_s + timer.wall_s
    checks = pages * links
    row |= {"check_ns": cpu_s / checks * 1e9, "check_wall_ns": wall_s / checks * 1e9}
    return row | {"fill_ns": fill_s / urls * 1e9, "longest_ms": longest_s * 1e3}


def run(
    *,
    urls: Numbers = (1_000_000, 10_000_000, 50_000_000),
    stores: Words = tuple(STORES),
    links: int = 60,
    new: int = 6,
    pages: int = 10_000,
    memory: int = 1 << 30,
) -> None:
    for name in stores:
        for number in urls:
            with tempfile.TemporaryDirectory() as at:
                row, usage = alone(partial(measure, name, number, links, new, pages, memory, at))
            show(row | {"peak_bytes_per_url": usage.peak_bytes / number})
