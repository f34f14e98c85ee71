"""How fast the stores of URL-seen are that answer at once, and how much memory a URL takes.

    python benchmarks seen [--urls N,..] [--stores A,B] [--links N] [--new N] [--pages N]
                           [--memory BYTES] [--in-bulk N]

Fills a store with keys, then asks it about the links of pages, some of which are new, as the door
of the core does. Gives a row for each store and size, from a process of its own:

- check_ns, check_wall_ns: nanoseconds of CPU and of time for a link. The store gets a list of
  Python's integers, says which are new, and notes these. The door's own loop over the links isn't
  counted.
- fill_ns: nanoseconds of CPU for a key while the store is filled.
- longest_ms: the longest call, without the time for which the thread waited for a processor.
- own_ms: the longest call by the CPU time of this thread alone. The other part is for another
  thread that holds the interpreter lock.
- bytes_per_url: the growth of the resident set since numba was loaded, by the URLs held.
- most_bytes_per_url: the largest such quotient while the store grows beyond 4 million URLs.
- numba_mib: what numba with the compiled functions takes.

--in-bulk: so many of the keys are written as sorted runs at once, without a call for each page.
Only the store `runs` can do that. It lets a store grow to 500 million keys in minutes.
"""

import gc
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from harness import Numbers, Row, Timer, Words, alone, resident_bytes

from crawler.core.seen import MemorySeen, UrlSeen
from crawler.stores.auto import AutoStore, load_runs
from crawler.stores.memory import MemoryStore, load_table
from crawler.stores.runs import RunStore
from crawler.stores.sorted_run import write_run
from crawler.stores.table import unmixed

STORES: dict[str, Callable[[Path, int], UrlSeen]] = {
    "set": lambda folder, memory: MemorySeen(),
    "memory": lambda folder, memory: MemoryStore(),
    "auto": AutoStore,
    "runs": partial(AutoStore, at_once=True),
}
HOT = 20  # pages whose keys are made at a time
PART = 1 << 17  # keys that are written at a time
BATCH = 500  # keys at a time while the store is filled, as of a long page
LOOK = 100 * BATCH  # keys between two looks at the resident set
LARGE = 4_000_000  # keys from which on a few MB of a former plain set mean little


def keys_of(numbers: "np.ndarray") -> "np.ndarray":
    """Return different keys for different numbers."""
    mixed = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed ^ mixed >> np.uint64(31)) * np.uint64(0xBF58476D1CE4E5B9)


def waited_s() -> float:
    """Return for how long this thread has waited for a processor so far."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9


class Phase:
    """Measures calls."""

    def __init__(self) -> None:
        self.cpu_s = self.wall_s = self.longest_s = self.longest_own_s = 0.0

    def __enter__(self) -> None:
        self._began = waited_s(), time.thread_time()
        self._timer = Timer()
        self._timer.__enter__()

    def __exit__(self, *error: object) -> None:
        timer = self._timer
        timer.__exit__()
        self.cpu_s, self.wall_s = self.cpu_s + timer.cpu_s, self.wall_s + timer.wall_s
        waiting_s, own_s = self._began
        self.longest_s = max(self.longest_s, timer.wall_s - (waited_s() - waiting_s))
        self.longest_own_s = max(self.longest_own_s, time.thread_time() - own_s)


def ask(store: UrlSeen, page: list[int], new: int) -> None:
    """Ask a store about the keys of a page, and note the first ones, which are new."""
    unmet = store.unmet(page)
    for key in page[:new]:
        unmet.discard(key)


def write_runs(store: RunStore, directory: Path, keys: int, largest: int) -> None:
    """Write different keys as sorted runs, of the sizes that a grown store has."""
    number = -(-keys // largest)
    for first in range(number):
        parts = (
            mixed_keys(np.arange(start, min(start + PART * number, keys), number), keys)
            for start in range(first, keys, PART * number)
        )
        size = len(range(first, keys, number))
        store._number += 1
        *_, run = write_run(directory / f"{store._number:08}", size, parts)
        assert run is not None
        store._runs.append(run)


def mixed_keys(numbers: "np.ndarray", keys: int) -> "np.ndarray":
    """Return ascending mixed keys, one from each of so many ranges of all 64-bit numbers."""
    stride = 2**64 // (keys + PART)
    jitter = keys_of(numbers) >> np.uint64(65 - stride.bit_length())  # less than the stride
    return numbers.astype(np.uint64) * np.uint64(stride) + jitter


def measure(
    name: str, urls: int, in_bulk: int, links: int, new: int, pages: int, memory: int, at: str
) -> Row:
    gc.collect()
    before = resident_bytes()
    if name != "set":
        load_table(1 << 20)
        load_runs(Path(at) / "trial", 1 << 20).close()
    numba = resident_bytes() - before
    before += numba
    store = STORES[name](Path(at) / "store", memory)
    if in_bulk:
        assert isinstance(store, AutoStore)
        assert store._runs is not None
        largest = 40 * store._runs._table_keys
        write_runs(store._runs, Path(at) / "store", in_bulk, largest)
    filling, most = Phase(), 0.0
    for start in range(0, urls - in_bulk, BATCH):
        batch = array("Q", keys_of(np.arange(start, min(start + BATCH, urls - in_bulk))).tobytes())
        with filling:
            unmet = store.unmet(batch)
            for key in batch:
                if key in unmet:
                    unmet.discard(key)
        if start % LOOK == 0 and len(store) >= LARGE:
            most = max(most, (resident_bytes() - before) / len(store))
    gc.collect()
    row: Row = {"store": name, "urls": urls, "bytes_per_url": (resident_bytes() - before) / urls}
    row |= {"most_bytes_per_url": most}
    row |= {"mib": (resident_bytes() - before) >> 20, "numba_mib": numba >> 20}
    draw = np.random.default_rng(1)
    asked = draw.integers(0, urls, (pages, links))
    asked[:, :new] = np.arange(urls, urls + pages * new).reshape(pages, new)
    checking, calls = Phase(), Phase()
    for start in range(0, pages, HOT):
        numbers = asked[start : start + HOT]
        in_runs = unmixed(mixed_keys(numbers - (urls - in_bulk), max(in_bulk, 1)))
        is_grown = (numbers < urls - in_bulk) | (numbers >= urls)
        # The processor has the numbers of few pages in its cache, as in a crawl.
        lists = np.where(is_grown, keys_of(numbers), in_runs).tolist()
        with checking:  # reading the clock for each page would take a tenth of the time
            for page in lists[::2]:
                ask(store, page, new)
        for page in lists[1::2]:
            with calls:
                ask(store, page, new)
    checks = -(-pages // 2) * links
    assert len(store) == urls + pages * new
    row |= {"check_ns": checking.cpu_s / checks * 1e9}
    row |= {"check_wall_ns": checking.wall_s / checks * 1e9}
    row |= {"fill_ns": filling.cpu_s / max(1, urls - in_bulk) * 1e9}
    row |= {"longest_ms": max(one.longest_s for one in (filling, calls)) * 1e3}
    return row | {"own_ms": max(one.longest_own_s for one in (filling, calls)) * 1e3}


def run(
    *,
    urls: Numbers = (1_000_000, 10_000_000, 50_000_000),
    stores: Words = tuple(STORES),
    links: int = 60,
    new: int = 6,
    pages: int = 10_000,
    memory: int = 1 << 30,
    in_bulk: int = 0,
) -> Iterator[Row]:
    for name in stores:
        for number in urls:
            with tempfile.TemporaryDirectory() as at:
                call = partial(measure, name, number, in_bulk, links, new, pages, memory, at)
                row, _ = alone(call)
            yield row
