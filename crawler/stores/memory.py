"""The store `memory`: all keys in memory, in a plain set at first and then in a compact table.

A plain set takes about 70 bytes a key, and the table takes about 10. But the table begins with some
memory, and where nothing could compile slots.pyx, it needs numba, which takes about 55 MB and a
second. So small crawls are lighter with the set.
"""

import os
from array import array
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from typing import Final

import numpy as np

from crawler.core.seen import NewKeys
from crawler.stores.table import IS_COMPILED, KeyTable

# Of a set that takes about as much memory as the table, with numba if that is needed.
LIGHT_KEYS: Final = 1 << 15 if IS_COMPILED else 1 << 20
SET_BYTES: Final = 72  # of a key in the set
# So many new keys wait in the set before they move: moving them together takes half the time.
_BATCH: Final = 64
# How many keys move from the set to the table at a time: so many, in under 1 ms, or this part of
# them, in a few milliseconds.
_STEP: Final = 2048
_PARTS: Final = 64


class MemoryStore:
    """An exact set of keys. See `core.seen.UrlSeen`."""

    def __init__(self, light_keys: int = LIGHT_KEYS) -> None:
        """`light_keys`: how many keys the plain set may have, before a table takes its place."""
        self.light_keys = light_keys  # the most keys of the plain set
        self.newest: set[int] = set()  # the keys that aren't in the table
        self.table: KeyTable | None = None
        self._loading: Future[KeyTable] | None = None

    def __len__(self) -> int:
        return len(self.newest) + (0 if self.table is None else len(self.table))

    def nbytes(self) -> int:
        """The bytes of memory in use."""
        return SET_BYTES * len(self.newest) + (0 if self.table is None else self.table.nbytes)

    def unmet(self, keys: Iterable[int]) -> NewKeys:
        """See UrlSeen.unmet."""
        if self.table is None and not self._has_loaded():
            return NewKeys(set(keys).difference(self.newest), self.newest.add)
        assert self.table is not None
        if len(self.newest) >= _BATCH:
            self._move()
        missing = self.table.missing(np.fromiter(keys, np.uint64))
        new = NewKeys(missing.tolist(), self.newest.add)
        if not self.newest.isdisjoint(new):
            new.difference_update(new & self.newest)
        return new

    def __contains__(self, key: object) -> bool:
        return key in self.newest or (self.table is not None and key in self.table)

    def __iter__(self) -> Iterator[int]:
        """All keys, in any order."""
        if self.table is None:
            return iter(self.newest)
        return chain(self.newest, self.table)

    def add(self, key: int) -> None:
        """Note a key that has been met."""
        if key not in self:
            self.newest.add(key)

    def update(self, keys: Iterable[int]) -> None:
        """Note many keys that have been met."""
        if self.table is None and not self._has_loaded():
            self.newest.update(keys)
        else:
            assert self.table is not None
            noted = array("Q", keys)
            self._move()
            self.newest.difference_update(noted)
            self.table.check(np.frombuffer(noted, np.uint64))

    @property
    def kind(self) -> str:
        """The kind of the files, of which there are none."""
        return ""

    def keep(self) -> None:
        """Return no files, as there are none. See `RunStore.keep`."""

    def end(self) -> None:
        """Do nothing: there are no files."""

    def close(self) -> None:
        """Do nothing: there are no files."""

    def _move(self) -> None:
        """Move keys to the table: all of the newest, but few at a time of the first set."""
        assert self.table is not None
        newest = self.newest
        if not newest:
            return
        step = max(_STEP, len(newest) // _PARTS)
        if len(newest) <= step:
            moved = array("Q", newest)
            newest.clear()
        else:
            moved = array("Q", (newest.pop() for _ in range(step)))
        self.table.check(np.frombuffer(moved, np.uint64))

    def _has_loaded(self) -> bool:
        """Whether there is a table. It is loaded in a thread, once the set is large."""
        if self._loading is None:
            if len(self.newest) < self.light_keys:
                return False
            loader = ThreadPoolExecutor(1, "table")
            self._loading = loader.submit(load_table)
            loader.shutdown(wait=False)
        if self._loading.done():
            self.table = self._loading.result()
        return self.table is not None


def load_table(most_bytes: int | None = None) -> KeyTable:
    """Return an empty table whose functions are compiled.

    If that needs numba, it takes a second, or a minute if numba's cache is empty. `most_bytes`: how
    far the table may grow; by default to half of the machine's memory.
    """
    if most_bytes is None:
        most_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    table = KeyTable(most_bytes)
    none = np.empty(0, np.uint64)
    table.check(none)
    table.missing(none)
    table.have(none)
    return table
