"""The inner loops of a `table.KeyTable`, compiled by numba where there was no C compiler.

`layout` says how the keys lie in memory. slots.pyx has the same loops, compiled when the crawler
was installed. They need no numba, which takes 55 MB or more and up to a second to load. Both
modules leave the same slots and states. A change here needs the same change there;
tests/test_stores.py compares them. Importing this module imports numba.
"""

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crawler.compiled import compiled
from crawler.stores.layout import (
    AHEAD,
    BORDER,
    FULL,
    GROWTH,
    HAS_ZERO,
    HELD,
    LINE_SLOTS,
    LOAD,
    MOVED,
    MOVES_EVERY,
    NEXT,
    PHI,
    READ,
    SIZE,
    SPARE,
)

Keys: TypeAlias = NDArray[np.uint64]
Numbers: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.uint8]

_HALF: Final = np.uint64(32)

# Passing an array to a compiled function takes longer than a look-up. So the inner loops have no
# calls but those of `_place`.


@compiled
def _place(
    mixed: np.uint64, size: np.int64, following: np.int64, border: np.int64
) -> int:  # pragma: no cover - compiled
    """Return the place of a mixed key, where its search begins. `layout` explains the numbers."""
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
    size, following, border = state[SIZE], state[NEXT], state[BORDER]
    for key in keys:
        place = _place(key * PHI, size, following, border)
        read ^= slots[place] ^ slots[min(place + LINE_SLOTS, last)]
    state[READ] = np.int64(read)


@compiled
def keep_missing(slots: Keys, state: Numbers, keys: Keys) -> int:  # pragma: no cover - compiled
    """Move the keys that aren't in the table to the front of `keys`. Returns their number."""
    size, following, border = state[SIZE], state[NEXT], state[BORDER]
    number = 0
    for start in range(0, len(keys), AHEAD):
        some = keys[start : start + AHEAD]
        _read_ahead(slots, state, some)
        for key in some:
            mixed = key * PHI
            place = _place(mixed, size, following, border)
            while slots[place] != 0 and slots[place] < mixed:
                place += 1
            if not state[HAS_ZERO] if mixed == 0 else slots[place] != mixed:
                keys[number] = key
                number += 1
    return number


@compiled
def mark(
    slots: Keys, state: Numbers, keys: Keys, held: Flags
) -> None:  # pragma: no cover - compiled
    """Write to `held` whether each key is in the table."""
    size, following, border = state[SIZE], state[NEXT], state[BORDER]
    for start in range(0, len(keys), AHEAD):
        some = keys[start : start + AHEAD]
        if len(some) > 1:
            _read_ahead(slots, state, some)
        for i in range(len(some)):
            mixed = some[i] * PHI
            place = _place(mixed, size, following, border)
            while slots[place] != 0 and slots[place] < mixed:
                place += 1
            held[start + i] = slots[place] == mixed
            if mixed == 0:
                held[start + i] = state[HAS_ZERO] != 0


@compiled
def add(slots: Keys, state: Numbers, keys: Keys, new: Flags) -> bool:  # pragma: no cover - compiled
    """Add keys, and write to `new` which are new. Returns whether there was room for all."""
    size, following, border = state[SIZE], state[NEXT], state[BORDER]
    for start in range(0, len(keys), AHEAD):
        some = keys[start : start + AHEAD]
        _read_ahead(slots, state, some)
        for i in range(len(some)):
            mixed = some[i] * PHI
            if mixed == 0:
                new[start + i] = not state[HAS_ZERO]
                state[HELD] += 1 - state[HAS_ZERO]
                state[HAS_ZERO] = 1
                continue
            place = _place(mixed, size, following, border)
            while slots[place] != 0 and slots[place] < mixed:
                place += 1
            new[start + i] = slots[place] != mixed
            if new[start + i]:
                if not _insert(slots, state, place, mixed):
                    return False
                size, following, border = state[SIZE], state[NEXT], state[BORDER]
    return True


@compiled
def _insert(
    slots: Keys, state: Numbers, place: int, mixed: np.uint64
) -> bool:  # pragma: no cover - compiled
    """Add a mixed key where it belongs, and let the table grow. Returns whether there was room."""
    if state[HELD] >= FULL * state[NEXT] or not _put(slots, place, mixed):
        return False
    state[HELD] += 1
    if state[NEXT] > state[SIZE]:
        return state[HELD] % MOVES_EVERY != 0 or _move_some(slots, state)
    if state[HELD] > LOAD * state[SIZE]:
        most = len(slots) - max(len(slots) // 32, SPARE)
        state[NEXT] = min(int(state[SIZE] * GROWTH), most)
    return True


@compiled
def _put(slots: Keys, place: int, mixed: np.uint64) -> bool:  # pragma: no cover - compiled
    """Put a mixed key into a slot, and move the keys from there on by a slot, up to a free one.

    Returns whether there was a free slot besides the last one. Otherwise one key is lost.
    """
    while mixed != 0 and place < len(slots) - 1:
        slots[place], mixed = mixed, slots[place]
        place += 1
    return bool(mixed == 0)


@compiled
def _move_some(slots: Keys, state: Numbers) -> bool:  # pragma: no cover - compiled
    """Lower the border to a slot behind a free one, and move the keys above to their new places.

    The slots that are moved lie between two free slots. So no search for another key passes them.
    Returns whether there was room.
    """
    border, size = int(state[BORDER]), np.uint64(state[NEXT])  # known not to change
    start = max(border - MOVED, 0)
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
    state[BORDER] = start
    if start == 0:
        state[SIZE] = state[BORDER] = state[NEXT]
    return True
