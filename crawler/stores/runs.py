"""The store `runs`: sorted runs of keys on disk, and a table of the newest keys in memory.

A log-structured merge (O'Neil et al. 1996) of keys without values. When the table is full, it is
written to disk as a run, and a new table begins. Eight runs of about the same size are merged into
one, or fewer, so that the run isn't too large: both it and they are in memory meanwhile. A run
never changes. In memory it has a filter and an index (`filter`), 1.75 bytes a key. So a
new key is seldom looked for on disk, and a known one takes one read, unless the cache has it.

All writing is done by a thread, in steps of a few milliseconds of computation. The manifest names
the runs that count. It is replaced when a new run is whole and on disk. So after a kill at any
moment the folder holds the runs of before or of after, and `RunStore` removes all other files.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from itertools import accumulate, chain
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from crawler.core.seen import NewKeys
from crawler.ports import NoRoomError
from crawler.session import is_no_room
from crawler.stores.files import (
    RUNS,
    Generation,
    Kind,
    generation_of,
    reading,
    writing,
)
from crawler.stores.filter import (
    Flags,
    Keys,
    search_cache,
)
from crawler.stores.sorted_run import STEP, Run, merged, open_run, run_bytes, write_run
from crawler.stores.table import KeyTable, mixed, unmixed

_LOG = logging.getLogger("crawler")
_MANIFEST: Final = Kind(b"RUNS", 1)
_FAN_OUT: Final = 8
_MOST_MERGED: Final = 50  # tables; then the new filter and index take an eighth of the budget
_SPARE: Final = 8  # times a full table: what a table may hold while the disk has no room
_SLOT_BYTES: Final = 11
_HOLD_S: Final = 0.005  # the most time that a call waits for the thread
_PAUSE: Final = 1000  # calls until a write that found no room is tried again


def _close(runs: list[Run]) -> None:
    """Close runs, and give their memory back. The system takes a while for a large file."""
    for run in runs:
        run.close()
    runs.clear()


class RunStore:
    """An exact set of keys. See `core.seen.UrlSeen`."""

    def __init__(
        self,
        directory: Path,
        table_keys: int,
        cache_keys: int,
    ) -> None:
        """Open the store in a directory, which may be missing. Other files in it are removed.

        `table_keys`: a table with so many keys is written to disk. `cache_keys`: the most keys that
        were found on disk to remember. Raises DamagedStoreError; then remove the directory.
        """
        self.directory = directory
        self._table_keys = table_keys
        self._most_merged = _MOST_MERGED * table_keys  # keys of a run that a merge makes
        self._table = self._new_table()
        self._newest: set[int] = set()
        self._cache: Keys = np.zeros(cache_keys, np.uint64)  # mixed keys that were found on disk
        self._is_full = False
        self._frozen: KeyTable | None = None  # a full table that is being written
        self._flush: Iterator[Run | None] | None = None
        self._merge: Iterator[Run | None] | None = None
        self._merging: list[Run] = []
        self._job: Future[Run | None] | None = None  # the next step of either
        self._thread = ThreadPoolExecutor(1, "runs")
        self._has_room = True  # on the disk
        self._pause = 0  # calls until the next attempt
        directory.mkdir(parents=True, exist_ok=True)
        self._number, named = self._read_manifest()
        kept = {directory / f"{number:08}" for number, _ in named} | {self._manifest}
        for path in set(directory.iterdir()) - kept:
            path.unlink()
        self._runs = [open_run(directory / f"{number:08}", keys) for number, keys in named]

    def __len__(self) -> int:
        tables = [self._table] if self._frozen is None else [self._table, self._frozen]
        return sum(map(len, tables)) + len(self._newest) + sum(run.keys for run in self._runs)

    def nbytes(self) -> int:
        """The bytes of memory in use, with what memory holds of runs that are being written."""
        frozen = writing = 0
        if self._frozen is not None:
            frozen, writing = self._frozen.nbytes, run_bytes(len(self._frozen))
        if self._merging:
            writing += run_bytes(sum(run.keys for run in self._merging))
        runs = sum(run.nbytes for run in self._runs)
        return self._table.nbytes + frozen + writing + self._cache.nbytes + runs

    def unmet(self, keys: Iterable[int]) -> NewKeys:
        """See UrlSeen.unmet. Raises OSError or DamagedStoreError."""
        self._work(wait=False)
        self._move()
        asked = np.fromiter(keys, np.uint64)
        return NewKeys(asked[~self._have(asked)].tolist(), self._newest.add)

    def __contains__(self, key: object) -> bool:
        return key in self._newest or bool(self._have(np.array([key], np.uint64))[0])

    def __iter__(self) -> Iterator[int]:
        """All keys, in any order."""
        tables = [self._table] if self._frozen is None else [self._table, self._frozen]
        stored = (unmixed(part).tolist() for part in merged(self._runs)) if self._runs else ()
        return chain(self._newest, *tables, chain.from_iterable(stored))

    def add(self, key: int) -> None:
        """Note a key that has been met."""
        if key not in self:
            self._newest.add(key)

    def update(self, keys: Iterable[int]) -> None:
        """Note many keys that have been met. This may wait until a table is on disk."""
        self._move()
        noted = np.fromiter(keys, np.uint64)
        for start in range(0, len(noted), STEP):
            some = noted[start : start + STEP]
            self._table.check(some[~self._have(some)])
            self._is_full = len(self._table) >= self._table_keys
            while self._work(wait=True) and self._is_full:
                pass

    def adopt(self, table: KeyTable, newest: set[int]) -> None:
        """Begin with these keys, instead of none, and write the table to disk."""
        assert not len(self)
        self._table, self._newest, self._is_full = table, newest, True

    def settle(self) -> None:
        """Finish all writing that is due."""
        while self._work(wait=True):
            pass

    def flush(self) -> None:
        """Write all keys to disk, if it has room. Raises OSError."""
        self.settle()
        self._move()
        if self._frozen is None and len(self._table):
            self._freeze()
            self.settle()

    def keep(self) -> Generation | None:
        """Write all keys to disk, and return the files. Returns None if the disk has no room."""
        self.flush()
        if self._frozen is not None or len(self._table) or not self._runs:
            return None
        return generation_of(RUNS, self.directory)

    def close(self) -> None:
        """End the thread, and close all files. What isn't on disk is lost."""
        self._thread.shutdown()
        for run in self._runs:
            run.close()

    # --- looking up ---------------------------------------------------------------------------

    def _have(self, keys: Keys) -> Flags:
        hit = self._table.have(keys)
        if self._frozen is not None:
            hit |= self._frozen.have(keys)
        if self._runs:
            sorting = mixed(keys)
            search_cache(sorting, hit, self._cache)
            for run in reversed(self._runs):
                run.search(sorting, hit, self._cache)
        return hit

    def _move(self) -> None:
        if self._newest:
            self._table.check(np.fromiter(self._newest, np.uint64))
            self._newest.clear()
            self._is_full = len(self._table) >= self._table_keys

    # --- writing ------------------------------------------------------------------------------

    def _work(self, *, wait: bool) -> bool:
        """Begin the next step of writing, if none is under way.

        `wait`: until the step is done. Returns whether there was one, and the disk has room.
        """
        if self._job is not None:
            if self._is_full and self._frozen is not None:  # keys come faster than they are written
                wait_for([self._job], _HOLD_S)
            if not (wait or self._job.done()):
                return True
            self._end_step(self._job)
        if self._pause and not wait:
            self._pause -= 1
            return False
        if self._frozen is None and self._is_full:
            self._freeze()
        if self._merge is None:
            self._plan_merge()
        steps = self._flush or self._merge
        if steps is None:
            return False
        self._job = self._thread.submit(next, steps)
        if wait:
            self._end_step(self._job)
        return self._has_room

    def _freeze(self) -> None:
        """Begin to write the table to disk, and begin a new table."""
        frozen = self._frozen = self._table
        self._table, self._is_full = self._new_table(), False
        self._flush = self._write(len(frozen), frozen.pieces(), [])

    def _plan_merge(self) -> None:
        """Begin to merge the smallest runs, if there are enough of about the same size."""
        levels: dict[int, list[Run]] = {}
        for run in self._runs:
            levels.setdefault((max(run.keys, 1).bit_length() - 1) // 3, []).append(run)
        for _, runs in sorted(levels.items()):
            if len(runs) < _FAN_OUT:
                continue
            ends = accumulate(run.keys for run in runs)
            some = [run for run, end in zip(runs, ends, strict=True) if end <= self._most_merged]
            if len(some) > 1:
                self._merging = some
                self._merge = self._write(sum(run.keys for run in some), merged(some), some)
                return

    def _write(self, most: int, parts: Iterator[Keys], old: list[Run]) -> Iterator[Run | None]:
        """Write a run in steps, which replaces old runs. Only the thread calls this."""
        self._number += 1
        path = self.directory / f"{self._number:08}"
        for run in write_run(path, most, parts):
            if run is not None:
                # Only this thread writes, and `_runs` changes only between two of its steps.
                try:
                    self._write_manifest([*(one for one in self._runs if one not in old), run])
                except BaseException:
                    run.close()
                    path.unlink()
                    raise
                for one in old:
                    one.path.unlink()
            yield run

    def _end_step(self, job: "Future[Run | None]") -> None:
        """Take the result of a step of writing. Raises OSError or DamagedStoreError."""
        self._job = None
        is_flush = self._flush is not None
        try:
            run = job.result()
        except (NoRoomError, OSError) as error:
            if isinstance(error, OSError) and not is_no_room(error):
                raise
            if self._has_room:
                _LOG.warning("no room: %s; seen URLs stay in memory meanwhile", error)
            self._give_up(is_flush=is_flush)
            return
        if not self._has_room:
            _LOG.warning("there is room again for seen URLs")
        self._has_room = True
        if run is None:
            return
        old = [] if is_flush else self._merging
        self._runs = [*(one for one in self._runs if one not in old), run]
        if is_flush:
            self._frozen = self._flush = None
        else:
            self._merge, self._merging = None, []
            self._thread.submit(_close, old)

    def _give_up(self, *, is_flush: bool) -> None:
        """Try to write the same again later."""
        self._has_room, self._pause = False, _PAUSE
        if is_flush:
            assert self._frozen is not None
            self._flush = self._write(len(self._frozen), self._frozen.pieces(), [])
        else:
            self._merge, self._merging = None, []

    def _new_table(self) -> KeyTable:
        """Return an empty table. It may get larger than it should while the disk has no room."""
        return KeyTable(_SPARE * self._table_keys * _SLOT_BYTES + (1 << 24))

    # --- the manifest -------------------------------------------------------------------------

    @property
    def _manifest(self) -> Path:
        return self.directory / "manifest"

    def _read_manifest(self) -> tuple[int, list[tuple[int, int]]]:
        """Return the number of the latest run, and the number and the keys of those that count."""
        if not self._manifest.exists():
            return 0, []
        content = b"".join(reading(self._manifest, _MANIFEST))
        return msgspec.msgpack.decode(content, type=tuple[int, list[tuple[int, int]]])

    def _write_manifest(self, runs: Sequence[Run]) -> None:
        named = [(int(run.path.name), run.keys) for run in runs]
        with writing(self._manifest, _MANIFEST) as file:
            file.write(msgspec.msgpack.encode((self._number, named)))
