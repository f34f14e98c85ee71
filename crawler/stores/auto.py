"""The stores `auto` and `runs`: in memory up to a budget, then in sorted runs on disk.

`auto` begins as `memory`. When three quarters of the budget are used, the keys become the first
table of `runs`, which a thread writes to disk. Meanwhile the table answers as before, so no key is
lost and the crawl doesn't stop.
"""

import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from crawler.stores.memory import LIGHT_KEYS, SET_BYTES, MemoryStore

if TYPE_CHECKING:  # it imports numba
    from crawler.stores.runs import RunStore

_MOVES_AT: Final = 0.75  # of the budget; the rest is for the filter and the next table
_LIGHT_SHARE: Final = 4  # the plain set may take this fraction of the budget
_SMALL_SHARE: Final = 32  # the table of the newest keys, and the cache, each
_CALLS: Final = 64  # between two looks at the memory in use


class AutoStore:
    """An exact set of keys. See `core.seen.UrlSeen`."""

    def __init__(self, directory: Path, most_bytes: int, *, at_once: bool = False) -> None:
        """`directory`: for the files of this store alone. Those of an earlier run are removed.

        `most_bytes`: of memory. `at_once`: begin on disk.
        """
        shutil.rmtree(directory, ignore_errors=True)
        self._directory = directory
        self._most_bytes = most_bytes
        light_keys = min(LIGHT_KEYS, most_bytes // _LIGHT_SHARE // SET_BYTES)
        self._memory = MemoryStore(light_keys)
        self._loading: Future[RunStore] | None = None
        self._runs = load_runs(directory, most_bytes) if at_once else None
        self._calls = 0

    @property
    def _store(self) -> "MemoryStore | RunStore":
        return self._memory if self._runs is None else self._runs

    def __len__(self) -> int:
        return len(self._store)

    def among(self, keys: Iterable[int]) -> set[int]:
        """See UrlSeen.among. Raises OSError or DamagedStoreError."""
        if self._runs is not None:
            return self._runs.among(keys)
        self._calls += 1
        if self._calls >= _CALLS:
            self._calls = 0
            if self._memory.nbytes > _MOVES_AT * self._most_bytes and self._have_moved():
                assert self._runs is not None
                return self._runs.among(keys)
        return self._memory.among(keys)

    def __contains__(self, key: object) -> bool:
        return key in self._store

    def __iter__(self) -> Iterator[int]:
        """All keys, in any order."""
        return iter(self._store)

    def add(self, key: int) -> None:
        """Note a key that has been met."""
        self._store.add(key)

    def update(self, keys: Iterable[int]) -> None:
        """Note many keys that have been met. On disk, this may wait until a table is written."""
        self._store.update(keys)

    def close(self) -> None:
        """Remove the files. Afterwards the store is useless."""
        if self._loading is not None:
            self._runs = self._loading.result()
        if self._runs is not None:
            self._runs.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _have_moved(self) -> bool:
        """Whether the keys have moved to runs. The code for runs is loaded in a thread first."""
        segments = self._memory.segments
        if segments is None:
            return False
        if self._loading is None:
            loader = ThreadPoolExecutor(1, "runs")
            self._loading = loader.submit(load_runs, self._directory, self._most_bytes)
            loader.shutdown(wait=False)
        if not self._loading.done():
            return False
        self._runs, self._loading = self._loading.result(), None
        self._runs.adopt(segments, self._memory.newest)
        self._memory = MemoryStore()
        return True


def load_runs(directory: Path, most_bytes: int) -> "RunStore":
    """Return an empty store on disk whose functions are compiled. See `load_segments`."""
    from crawler.stores.runs import RunStore  # noqa: PLC0415  # it imports numba

    with TemporaryDirectory() as folder:
        trial = RunStore(Path(folder), 1, 1)
        for key in (1, 2):
            trial.update([key])
            trial.flush()
        trial.among([1, *trial])
        trial.close()
    small = most_bytes // _SMALL_SHARE
    return RunStore(directory, table_keys=small // 11, cache_keys=small // 8)
