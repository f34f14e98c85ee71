"""The stores `auto` and `runs`: in memory while there is room, then in sorted runs on disk.

`auto` begins as `memory`. When the rank needs the memory (`core.budget`), the keys become the first
table of `runs`, which a thread writes to disk. Meanwhile the table answers as before, so no key is
lost and the crawl doesn't stop.
"""

import logging
import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from crawler.core.seen import NewKeys
from crawler.session import is_no_room
from crawler.stores.files import RUNS, Generation
from crawler.stores.memory import LIGHT_KEYS, SET_BYTES, MemoryStore

if TYPE_CHECKING:  # it imports numba
    from crawler.stores.runs import RunStore

_LOG = logging.getLogger("crawler")
# Fractions of the budget:
_LIGHT_SHARE: Final = 8  # what the plain set may take
_SMALL_SHARE: Final = 64  # the table of the newest keys, and the cache, each


class AutoStore:
    """An exact set of keys. See `core.seen.UrlSeen`."""

    def __init__(self, directory: Path, most_bytes: int, *, at_once: bool = False) -> None:
        """`directory`: for the files of this store alone. Those of an earlier run are removed.

        `most_bytes`: the budget of the rank. `at_once`: begin on disk.
        """
        shutil.rmtree(directory, ignore_errors=True)
        self.directory = directory
        self._most_bytes = most_bytes
        light_keys = min(LIGHT_KEYS, most_bytes // _LIGHT_SHARE // SET_BYTES)
        self._memory = MemoryStore(light_keys)
        self._loading: Future[RunStore] | None = None
        self._runs = load_runs(directory, most_bytes) if at_once else None
        self._must_move = False
        self._waits = False  # for room on the disk

    @property
    def _store(self) -> "MemoryStore | RunStore":
        return self._memory if self._runs is None else self._runs

    def __len__(self) -> int:
        return len(self._store)

    def unmet(self, keys: Iterable[int]) -> NewKeys:
        """See UrlSeen.unmet. Raises OSError or DamagedStoreError."""
        if self._must_move:
            self._move()
        return self._store.unmet(keys)

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
        if self._must_move:
            self._move()
        self._store.update(keys)

    def nbytes(self) -> int:
        """The bytes of memory in use."""
        return self._store.nbytes()

    def give(self, excess: int) -> bool:
        """Begin to move to disk, if the keys are in memory. See `core.budget.Table`."""
        if self._runs is not None or self._must_move:
            return False
        self._must_move = True
        self._memory.light_keys = 0
        return True

    @property
    def kind(self) -> str:
        """The kind of the files, if there are some. See `files.Generation`."""
        return RUNS

    def keep(self) -> Generation | None:
        """See `RunStore.keep`."""
        return None if self._runs is None else self._runs.keep()

    def go_on_with(self, runs: "RunStore") -> None:
        """Go on with the store of an earlier run, instead of this one, which must be empty."""
        assert not len(self)
        self.end()
        shutil.rmtree(self.directory, ignore_errors=True)
        self._runs, self.directory, self._must_move = runs, runs.directory, False

    def end(self) -> None:
        """End the threads, and close all files. The files stay."""
        if self._loading is not None:
            with suppress(OSError):
                self._runs = self._loading.result()
        if self._runs is not None:
            self._runs.close()

    def close(self) -> None:
        """Remove the files. Afterwards the store is useless."""
        self.end()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _move(self) -> None:
        """Move the keys to runs, once the code for runs is loaded, which a thread does."""
        table = self._memory.table
        if table is None:
            return
        if self._loading is None:
            loader = ThreadPoolExecutor(1, "runs")
            self._loading = loader.submit(load_runs, self.directory, self._most_bytes)
            loader.shutdown(wait=False)
        if not self._loading.done():
            return
        self._must_move = False  # without room on the disk, until `give` is called again
        loading, self._loading = self._loading, None
        try:
            self._runs = loading.result()
        except OSError as error:
            if not is_no_room(error):
                raise
            if not self._waits:
                _LOG.warning("no room: %s; seen URLs stay in memory meanwhile", error)
            self._waits = True
            return
        self._runs.adopt(table, self._memory.newest)
        self._memory = MemoryStore()


def load_runs(directory: Path, most_bytes: int) -> "RunStore":
    """Return the store on disk in a directory, whose functions are compiled. See `load_table`.

    Raises DamagedStoreError or another OSError.
    """
    from tempfile import TemporaryDirectory  # noqa: PLC0415  few crawls get so large

    from crawler.stores.runs import RunStore  # noqa: PLC0415  # it imports numba

    directory.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=directory.parent) as folder:
        trial = RunStore(Path(folder), 1, 1)
        for key in (1, 2):
            trial.update([key])
            trial.flush()
        trial.unmet([1, *trial])
        trial.close()
    small = most_bytes // _SMALL_SHARE
    return RunStore(directory, table_keys=small // 11, cache_keys=small // 8)
