"""An exact set of 64-bit keys in about 10 bytes a key: a sorted array with gaps.

A key is *mixed* first: multiplied by an odd number, which can be undone. A mixed key has a place,
which grows with the key. It is in the first slot from there on that leaves all keys sorted (ordered
linear probing: Amble and Knuth, Ordered hash tables, 1974). So a search ends at the first larger
key.

When the table gets full, it grows by a twelfth. Each 128th new key then moves some of the old
ones, from the last slot downwards: keys above a border are at their places in the larger table, and
those below it are still at their old places. So no moment needs memory for two tables, and none
waits until all keys have moved.

The memory is one range of addresses. The system gives memory to the part of the range that is used,
in huge pages if it can. With small pages, a look-up among 50 million keys takes a third longer.

Importing this module imports numba.
"""

import mmap
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crawler.compiled import compiled

Keys: TypeAlias = NDArray[np.uint64]
Numbers: TypeAlias = NDArray[np.int64]

_FIRST_SIZE: Final = 4096  # slots at the start
_GROWTH: Final = 1.08
_LOAD: Final = 0.85  # the most keys a slot, on average
_FULL: Final = 0.95  # the same if the table can't grow
_MOVED: Final = 4096  # slots whose keys move at a time, and those behind them up to a free one
_MOVES_EVERY: Final = 128  # new keys; so all have moved after a 32nd part as many keys as slots
_SLOT_BYTES: Final = 8
_LINE_SLOTS: Final = 8  # of a line of the cache
_AHEAD: Final = 64  # keys whose slots are read ahead
_HUGE_BYTES: Final = 2 << 20  # of a huge page
_HUGE_FROM: Final = 64 * _HUGE_BYTES  # a table that may grow so far is given huge pages
_SPARE: Final = 4096  # the least slots behind all places, for runs of slots in use
_PIECE: Final = 1 << 15  # slots of a piece

# Fibonacci hashing (Knuth, volume 3, section 6.4). Keys are hashes already, but those of tests and
# simulators may be small numbers.
PHI: Final = np.uint64(0x9E3779B97F4A7C15)
_PHI_INVERSE: Final = np.uint64(pow(int(PHI), -1, 2**64))
_HALF: Final = np.uint64(32)

# The places in `state`.
_SIZE: Final = 0  # slots among which keys have their places
_NEXT: Final = 1  # the same after the growth that is under way, or `_SIZE`
_BORDER: Final = 2  # keys whose places are here or above are where they belong in `_NEXT` slots
_HELD: Final = 3  # keys
_HAS_ZERO: Final = 4  # whether the key 0 is held. A slot with 0 is free, so it is in no slot
_READ: Final = 5  # what was read ahead, so that no compiler leaves the reads out
_LENGTH: Final = 6


class KeyTable:
    """A set of keys that is asked about many keys at once. Nothing is ever removed."""

    def __init__(self, most_bytes: int) -> None:
        """`most_bytes`: how far the memory may grow. Raises OSError if it can't be reserved."""
        least = (_FIRST_SIZE + _SPARE) * _SLOT_BYTES
        size = -(-max(most_bytes, least) // mmap.PAGESIZE) * mmap.PAGESIZE
        self._memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._page_bytes = mmap.PAGESIZE
        if size >= _HUGE_FROM and hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # a kernel without huge pages
                self._memory.madvise(mmap.MADV_HUGEPAGE)
                self._page_bytes = _HUGE_BYTES
        self._slots: Keys = np.frombuffer(self._memory, np.uint64)
        self._state = np.zeros(_LENGTH, np.int64)
        self._state[[_SIZE, _NEXT, _BORDER]] = _FIRST_SIZE
        self._one, self._held = np.empty(1, np.uint64), np.empty(1, np.bool_)

    def __len__(self) -> int:
        return int(self._state[_HELD])

    def __contains__(self, key: object) -> bool:
        assert isinstance(key, int)
        self._one[0] = key
        _mark(self._slots, self._state, self._one, self._held)
        return bool(self._held[0])

    def __iter__(self) -> Iterator[int]:
        """All keys, in any order. Meanwhile no key may be added."""
        for piece in self.pieces():
            yield from unmixed(piece).tolist()

    @property
    def nbytes(self) -> int:
        """The bytes of memory in use."""
        used = int(self._state[_NEXT]) * _SLOT_BYTES
        return min(-(-used // self._page_bytes) * self._page_bytes, self._slots.nbytes)

    def check(self, keys: Keys) -> NDArray[np.bool_]:
        """Return which keys are new, and add them. Of equal new keys, the first one is new.

        Raises MemoryError if there is no room; then some of the keys may have been added.
        """
        new = np.empty(len(keys), np.bool_)
        if not _add(self._slots, self._state, keys, new):
            raise MemoryError("the table of seen URLs is full")
        return new

    def missing(self, keys: Keys) -> Keys:
        """Return the keys that aren't in the set, in their order, as the first part of `keys`.

        The rest of `keys` is useless afterwards.
        """
        return keys[: _keep_missing(self._slots, self._state, keys)]

    def have(self, keys: Keys) -> NDArray[np.bool_]:
        """Return which of the keys are in the set."""
        held = np.empty(len(keys), np.bool_)
        _mark(self._slots, self._state, keys, held)
        return held

    def pieces(self) -> Iterator[Keys]:
        """Yield all keys, mixed and ascending, in pieces. Meanwhile no key may be added."""
        if self._state[_HAS_ZERO]:
            yield np.zeros(1, np.uint64)
        end = int(self._state[_NEXT])
        while self._slots[end]:
            end += 1
        for start in range(0, end, _PIECE):
            piece = self._slots[start : min(start + _PIECE, end)]
            yield piece[piece != 0]


def mixed(keys: Keys) -> Keys:
    """Return the mixed keys."""
    return keys * PHI


def unmixed(keys: Keys) -> Keys:
    """Return the keys that were mixed."""
    return keys * _PHI_INVERSE


# Passing an array to a compiled function takes longer than a look-up. So the inner loops have no
# calls but those of `_place`.


@compiled
def _place(
    mixed: np.uint64, size: np.int64, following: np.int64, border: np.int64
) -> int:  # pragma: no cover - compiled
    """Return the place of a mixed key, where its search begins. See `state` for the numbers."""
    part = mixed >> _HALF
    place = int(np.int64((part * np.uint64(size)) >> _HALF))
    if place >= border:
        place = int(np.int64((part * np.uint64(following)) >> _HALF))
    return place


@compiled
def _read_ahead(slots: Keys, state: Numbers, keys: Keys) -> None:  # pragma: no cover - compiled
    """Read the slots where searches begin, so that the cache has them. The misses overlap.

    A search may end in the following line of the cache, which would be a miss of its own.
    """
    read, last = np.uint64(0), len(slots) - 1
    size, following, border = state[_SIZE], state[_NEXT], state[_BORDER]
    for key in keys:
        place = _place(key * PHI, size, following, border)
        read ^= slots[place] ^ slots[min(place + _LINE_SLOTS, last)]
    state[_READ] = np.int64(read)


@compiled
def _keep_missing(slots: Keys, state: Numbers, keys: Keys) -> int:  # pragma: no cover - compiled
    """Move the unknown keys to the front of `keys`. Returns their number."""
    size, following, border = state[_SIZE], state[_NEXT], state[_BORDER]
    number = 0
    for start in range(0, len(keys), _AHEAD):
        some = keys[start : start + _AHEAD]
        _read_ahead(slots, state, some)
        for key in some:
            mixed = key * PHI
            place = _place(mixed, size, following, border)
            while slots[place] != 0 and slots[place] < mixed:
                place += 1
            if not state[_HAS_ZERO] if mixed == 0 else slots[place] != mixed:
                keys[number] = key
                number += 1
    return number


@compiled
def _mark(
    slots: Keys, state: Numbers, keys: Keys, held: NDArray[np.bool_]
) -> None:  # pragma: no cover - compiled
    """Write whether each key is known to `held`."""
    size, following, border = state[_SIZE], state[_NEXT], state[_BORDER]
    for start in range(0, len(keys), _AHEAD):
        some = keys[start : start + _AHEAD]
        if len(some) > 1:
            _read_ahead(slots, state, some)
        for i in range(len(some)):
            mixed = some[i] * PHI
            place = _place(mixed, size, following, border)
            while slots[place] != 0 and slots[place] < mixed:
                place += 1
            held[start + i] = slots[place] == mixed
            if mixed == 0:
                held[start + i] = state[_HAS_ZERO] != 0


@compiled
def _add(
    slots: Keys, state: Numbers, keys: Keys, new: NDArray[np.bool_]
) -> bool:  # pragma: no cover - compiled
    """Add keys, and say which are new. Returns whether there was room for all."""
    size, following, border = state[_SIZE], state[_NEXT], state[_BORDER]
    for start in range(0, len(keys), _AHEAD):
        some = keys[start : start + _AHEAD]
        _read_ahead(slots, state, some)
        for i in range(len(some)):
            mixed = some[i] * PHI
            if mixed == 0:
                new[start + i] = not state[_HAS_ZERO]
                state[_HELD] += 1 - state[_HAS_ZERO]
                state[_HAS_ZERO] = 1
                continue
            place = _place(mixed, size, following, border)
            while slots[place] != 0 and slots[place] < mixed:
                place += 1
            new[start + i] = slots[place] != mixed
            if new[start + i]:
                if not _insert(slots, state, place, mixed):
                    return False
                size, following, border = state[_SIZE], state[_NEXT], state[_BORDER]
    return True


@compiled
def _insert(
    slots: Keys, state: Numbers, place: int, mixed: np.uint64
) -> bool:  # pragma: no cover - compiled
    """Add a mixed key where it belongs, and let the table grow. Returns whether there was room."""
    if state[_HELD] >= _FULL * state[_NEXT] or not _put(slots, place, mixed):
        return False
    state[_HELD] += 1
    if state[_NEXT] > state[_SIZE]:
        return state[_HELD] % _MOVES_EVERY != 0 or _move_some(slots, state)
    if state[_HELD] > _LOAD * state[_SIZE]:
        most = len(slots) - max(len(slots) // 32, _SPARE)
        state[_NEXT] = min(int(state[_SIZE] * _GROWTH), most)
    return True


@compiled
def _put(slots: Keys, place: int, mixed: np.uint64) -> bool:  # pragma: no cover - compiled
    """Put a mixed key into a slot, and move those behind it on, up to a free slot.

    Returns whether there was one besides the last slot. Otherwise one key is lost.
    """
    while mixed != 0 and place < len(slots) - 1:
        slots[place], mixed = mixed, slots[place]
        place += 1
    return bool(mixed == 0)


@compiled
def _move_some(slots: Keys, state: Numbers) -> bool:  # pragma: no cover - compiled
    """Lower the border to a slot behind a free one, and move the keys above to their places.

    Between two free slots are whole runs of slots in use, so no search for other keys passes here.
    Returns whether there was room.
    """
    border, size = int(state[_BORDER]), np.uint64(state[_NEXT])  # known not to change
    start = max(border - _MOVED, 0)
    while start > 0 and slots[start - 1] != 0:
        start -= 1
    stop = border
    while slots[stop] != 0:
        stop += 1
    moving = np.empty(stop - start, np.uint64)
    keys = 0
    for place in range(start, stop):
        moving[keys] = slots[place]
        keys += slots[place] != 0  # a branch would often be predicted wrongly
        slots[place] = 0
    following = start  # the first slot behind the last key that has moved
    for mixed in moving[:keys]:
        following = max(following, int(np.int64(((mixed >> _HALF) * size) >> _HALF)))
        if slots[following] == 0:
            slots[following] = mixed
        elif not _put(slots, following, mixed):
            return False
        following += 1
    state[_BORDER] = start
    if start == 0:
        state[_SIZE] = state[_BORDER] = state[_NEXT]
    return True
