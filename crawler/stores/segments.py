"""An exact set of 64-bit keys in 10 to 11 bytes a key: segments of open addressing.

A key belongs to one of 256 segments, by its hash. When a segment gets full, it alone grows by a
fifth, in place. So no moment needs twice the memory, and no growth takes long: at 50 million keys
it moves 200,000 of them. The segments begin with different sizes, so they grow at different times,
and the mean load stays between the loads before and after a growth.

The memory of all segments is one range of addresses. The system gives memory to the parts of the
range that are used. Importing this module imports numba.
"""

import mmap
from collections.abc import Iterator
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crawler.compiled import compiled

Keys: TypeAlias = NDArray[np.uint64]
Numbers: TypeAlias = NDArray[np.int64]

_SEGMENTS: Final = 256
_FIRST_SIZE: Final = 64  # slots of the smallest segment at the start
_GROWTH: Final = 1.2
_LOAD: Final = 0.85  # the most keys a slot, on average
_SLOT_BYTES: Final = 8
_PAGE_BYTES: Final = mmap.PAGESIZE
_AHEAD: Final = 64  # keys whose slots are read ahead

# Fibonacci hashing (Knuth, volume 3, section 6.4). Keys are hashes already, but those of tests and
# simulators may be small numbers.
PHI: Final = np.uint64(0x9E3779B97F4A7C15)
_SEGMENT_SHIFT: Final = np.uint64(56)
_PLACE_SHIFT: Final = np.uint64(24)
_LOW_HALF: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)

# Rows of `spans`, which has a column for each segment, and a last one for the key 0. A slot with 0
# is free, so that key can't be in a slot.
_SIZE: Final = 0  # slots in use
_HELD: Final = 1  # keys


class Segments:
    """A set of keys that is asked about many keys at once. Nothing is ever removed."""

    def __init__(self, most_bytes: int) -> None:
        """`most_bytes`: how far the memory may grow. Raises OSError if it can't be reserved."""
        pages = -(-most_bytes // _SEGMENTS // _PAGE_BYTES)
        size = max(pages, 1) * _PAGE_BYTES * _SEGMENTS
        self._memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_NOHUGEPAGE"):  # huge pages would fill the range around each segment
            self._memory.madvise(mmap.MADV_NOHUGEPAGE)
        self._slots: Keys = np.frombuffer(self._memory, np.uint64).reshape(_SEGMENTS, -1)
        self._spans = np.zeros((2, _SEGMENTS + 1), np.int64)
        steps = np.arange(_SEGMENTS) / _SEGMENTS
        self._spans[_SIZE, :-1] = _FIRST_SIZE * _GROWTH**steps

    def __len__(self) -> int:
        return int(self._spans[_HELD].sum())

    @property
    def nbytes(self) -> int:
        """The bytes of memory in use."""
        pages = -(-self._spans[_SIZE, :-1] * _SLOT_BYTES // _PAGE_BYTES)
        return int(pages.sum()) * _PAGE_BYTES + self._spans.nbytes

    def check(self, keys: Keys) -> NDArray[np.bool_]:
        """Return which keys are new, and add them. Of equal new keys, the first one is new.

        Raises MemoryError if there is no room; then some of the keys may have been added.
        """
        new = np.empty(len(keys), np.bool_)
        if not _add(self._slots, self._spans, keys, new):
            raise MemoryError("the table of seen URLs is full")
        return new

    def known(self, keys: Keys) -> Keys:
        """Return the keys that are in the set, in their order."""
        found = np.empty_like(keys)
        return found[: _find(self._slots, self._spans, keys, found)]

    def have(self, keys: Keys) -> NDArray[np.bool_]:
        """Return which of the keys are in the set."""
        held = np.empty(len(keys), np.bool_)
        _mark(self._slots, self._spans, keys, held)
        return held

    def pieces(self) -> Iterator[Keys]:
        """Yield all keys, as arrays of a segment each, by the upper bits of key * PHI."""
        if self._spans[_HELD, -1]:
            yield np.zeros(1, np.uint64)
        for slots, size in zip(self._slots, self._spans[_SIZE], strict=False):
            piece = slots[:size]
            yield piece[piece != 0]


@compiled
def _place(key: np.uint64, spans: Numbers) -> tuple[int, int]:  # pragma: no cover - compiled
    """Return the segment of a key, and the slot in it where a search begins."""
    mixed = key * PHI
    segment = int(np.int64(mixed >> _SEGMENT_SHIFT))
    part = (mixed >> _PLACE_SHIFT) & _LOW_HALF
    return segment, int(np.int64((part * np.uint64(spans[_SIZE, segment])) >> _HALF))


@compiled
def _load(slots: Keys, spans: Numbers, keys: Keys) -> np.uint64:  # pragma: no cover - compiled
    """Read the first slot of each search, so that the cache has it. The misses overlap.

    Returns a number that depends on all of the slots, so that no compiler leaves the reads out.
    """
    mixed = np.uint64(0)
    for key in keys:
        segment, place = _place(key, spans)
        mixed ^= slots[segment, place]
    return mixed


@compiled
def _search(
    slots: Keys, spans: Numbers, key: np.uint64
) -> tuple[int, int]:  # pragma: no cover - compiled
    """Return the slot that has a key, or the free one where it belongs: segment, and place."""
    segment, place = _place(key, spans)
    row, size = slots[segment], spans[_SIZE, segment]
    while row[place] != 0 and row[place] != key:
        place += 1
        if place == size:
            place = 0
    return segment, place


@compiled
def _find(
    slots: Keys, spans: Numbers, keys: Keys, found: Keys
) -> int:  # pragma: no cover - compiled
    """Write the known keys to `found`. Returns their number."""
    number = 0
    for start in range(0, len(keys), _AHEAD):
        some = keys[start : start + _AHEAD]
        spans[_SIZE, _SEGMENTS] = _load(slots, spans, some)
        for key in some:
            segment, place = _search(slots, spans, key)
            if slots[segment, place] != 0 or (key == 0 and spans[_HELD, _SEGMENTS]):
                found[number] = key
                number += 1
    return number


@compiled
def _mark(
    slots: Keys, spans: Numbers, keys: Keys, held: NDArray[np.bool_]
) -> None:  # pragma: no cover - compiled
    """Write whether each key is known to `held`."""
    for i in range(len(keys)):
        segment, place = _search(slots, spans, keys[i])
        held[i] = slots[segment, place] != 0 or (keys[i] == 0 and spans[_HELD, _SEGMENTS] != 0)


@compiled
def _add(
    slots: Keys, spans: Numbers, keys: Keys, new: NDArray[np.bool_]
) -> bool:  # pragma: no cover - compiled
    """Add keys, and say which are new. Returns whether there was room for all."""
    for start in range(0, len(keys), _AHEAD):
        some = keys[start : start + _AHEAD]
        spans[_SIZE, _SEGMENTS] = _load(slots, spans, some)
        for i in range(len(some)):
            key = some[i]
            if key == 0:
                new[start + i] = not spans[_HELD, _SEGMENTS]
                spans[_HELD, _SEGMENTS] = 1
                continue
            segment, place = _search(slots, spans, key)
            new[start + i] = slots[segment, place] == 0
            if new[start + i]:
                slots[segment, place] = key
                spans[_HELD, segment] += 1
                if spans[_HELD, segment] > _LOAD * spans[_SIZE, segment] and not _grow(
                    slots, spans, segment
                ):
                    return False
    return True


@compiled
def _grow(slots: Keys, spans: Numbers, segment: int) -> bool:  # pragma: no cover - compiled
    """Let a segment grow. Returns False if it is full and has no room to grow."""
    size = np.int64(spans[_SIZE, segment])
    larger = min(np.int64(size * _GROWTH) + 1, slots.shape[1])
    if larger == size:
        return bool(spans[_HELD, segment] < size - 1)
    keys = np.empty(spans[_HELD, segment], np.uint64)
    number = 0
    for place in range(size):
        if slots[segment, place] != 0:
            keys[number] = slots[segment, place]
            number += 1
        slots[segment, place] = 0
    spans[_SIZE, segment] = larger
    for key in keys:
        _, place = _place(key, spans)
        while slots[segment, place] != 0:
            place = place + 1 if place + 1 < larger else 0
        slots[segment, place] = key
    return True
