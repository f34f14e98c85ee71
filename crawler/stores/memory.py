"""The store `memory`: all keys in memory, in a plain set at first and then in segments.

A plain set takes about 70 bytes a key, and segments take 10 to 11. But segments need numba, which
takes about 55 MB. So small crawls are lighter with the set, and they also start faster.
"""

import os
from array import array
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:  # it imports numba
    from crawler.stores.segments import Segments

LIGHT_KEYS: Final = 1 << 20  # of a set that takes about as much memory as numba and segments
SET_BYTES: Final = 72  # of a key in the set
# How many keys move from the set to the segments at a time: so many, in under 1 ms, or this part of
# them, in a few milliseconds.
_STEP: Final = 2048
_PARTS: Final = 64


class Met(set[int]):
    """Those of some keys that a store knows. Keys that are added are added to the store as well."""

    __slots__ = ("_note",)

    def __init__(self, known: Iterable[int], note: Callable[[int], None]) -> None:
        super().__init__(known)
        self._note = note

    def add(self, key: int) -> None:
        """Note a key that has been met."""
        if key not in self:
            super().add(key)
            self._note(key)


class MemoryStore:
    """An exact set of keys. See `core.seen.UrlSeen`."""

    def __init__(self, light_keys: int = LIGHT_KEYS) -> None:
        """`light_keys`: how many keys the plain set may have, before segments take its place."""
        self.light_keys = light_keys  # the most keys of the plain set
        self.newest: set[int] = set()  # the keys that aren't in the segments
        self.segments: Segments | None = None
        self._loading: Future[Segments] | None = None

    def __len__(self) -> int:
        return len(self.newest) + (0 if self.segments is None else len(self.segments))

    @property
    def nbytes(self) -> int:
        """The bytes of memory in use."""
        return SET_BYTES * len(self.newest) + (0 if self.segments is None else self.segments.nbytes)

    def among(self, keys: Iterable[int]) -> set[int]:
        """See UrlSeen.among."""
        if self.segments is None and not self._has_loaded():
            return self.newest
        assert self.segments is not None
        asked = array("Q", keys)
        self._move()
        known = self.segments.known(np.frombuffer(asked, np.uint64)).tolist()
        if self.newest:  # only until the keys of the plain set have moved
            known += self.newest.intersection(asked)
        return Met(known, self.newest.add)

    def __contains__(self, key: object) -> bool:
        if self.segments is None or key in self.newest:
            return key in self.newest
        return len(self.segments.known(np.array([key], np.uint64))) > 0

    def __iter__(self) -> Iterator[int]:
        """All keys, in any order."""
        if self.segments is None:
            return iter(self.newest)
        pieces = (piece.tolist() for piece in self.segments.pieces())
        return chain(self.newest, chain.from_iterable(pieces))

    def add(self, key: int) -> None:
        """Note a key that has been met."""
        if key not in self:
            self.newest.add(key)

    def update(self, keys: Iterable[int]) -> None:
        """Note many keys that have been met."""
        if self.segments is None:
            self.newest.update(keys)
        else:
            noted = array("Q", keys)
            self.newest.difference_update(noted)
            self.segments.check(np.frombuffer(noted, np.uint64))

    def close(self) -> None:
        """Do nothing: there are no files."""

    def _move(self) -> None:
        """Move keys to the segments: all of the newest, but few at a time of the first set."""
        assert self.segments is not None
        newest = self.newest
        if not newest:
            return
        step = max(_STEP, len(newest) // _PARTS)
        if len(newest) <= step:
            moved = array("Q", newest)
            newest.clear()
        else:
            moved = array("Q", (newest.pop() for _ in range(step)))
        self.segments.check(np.frombuffer(moved, np.uint64))

    def _has_loaded(self) -> bool:
        """Whether there are segments. They are loaded in a thread, once the set is large."""
        if self._loading is None:
            if len(self.newest) < self.light_keys:
                return False
            loader = ThreadPoolExecutor(1, "segments")
            self._loading = loader.submit(load_segments)
            loader.shutdown(wait=False)
        if self._loading.done():
            self.segments = self._loading.result()
        return self.segments is not None


def load_segments(most_bytes: int | None = None) -> "Segments":
    """Return empty segments whose functions are compiled.

    This takes a second, or a minute if numba's cache is empty. `most_bytes`: how far the segments
    may grow; by default to half of the machine's memory.
    """
    from crawler.stores.segments import Segments  # noqa: PLC0415  # it imports numba

    if most_bytes is None:
        most_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    trial, segments = Segments(1), Segments(most_bytes)
    for instance in (trial, segments):
        instance.known(np.empty(0, np.uint64))
        instance.check(np.empty(0, np.uint64))
    return segments
