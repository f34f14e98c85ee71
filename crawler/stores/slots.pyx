# cython: language_level=3, boundscheck=True, wraparound=False, initializedcheck=False
"""The compiled form of `probing`: the inner loops of a `table.KeyTable`.

`layout` says how the keys lie in memory, and `probing` what each function does, and why. Both leave
the same slots and states, which tests/test_stores.py checks. Each place is compared with the length
of its array. hatch_build.py compiles this file.
"""

from array import array

from libc.stdint cimport int64_t, uint8_t, uint64_t

from crawler.stores import layout

cdef extern from *:
    """
    #ifndef ABC_SOURCE
    #define ABC_SOURCE ""
    #endif
    """
    const char* ABC_SOURCE

SOURCE = ABC_SOURCE.decode("ascii")  # SHA-256 of this file when it was compiled

cdef double GROWTH = layout.GROWTH
cdef double LOAD = layout.LOAD
cdef double FULL = layout.FULL
cdef Py_ssize_t MOVED = layout.MOVED
cdef int64_t MOVES_EVERY = layout.MOVES_EVERY
cdef Py_ssize_t LINE_SLOTS = layout.LINE_SLOTS
cdef Py_ssize_t AHEAD = layout.AHEAD
cdef Py_ssize_t SPARE = layout.SPARE
cdef uint64_t PHI = layout.PHI

cdef Py_ssize_t SIZE = layout.SIZE
cdef Py_ssize_t NEXT = layout.NEXT
cdef Py_ssize_t BORDER = layout.BORDER
cdef Py_ssize_t HELD = layout.HELD
cdef Py_ssize_t HAS_ZERO = layout.HAS_ZERO
cdef Py_ssize_t READ = layout.READ


cdef inline Py_ssize_t _place(
    uint64_t mixed, int64_t size, int64_t following, int64_t border
) noexcept:
    cdef uint64_t part = mixed >> 32
    cdef Py_ssize_t place = <Py_ssize_t> ((part * <uint64_t> size) >> 32)
    if place >= border:
        place = <Py_ssize_t> ((part * <uint64_t> following) >> 32)
    return place


cdef Py_ssize_t _slot(
    const uint64_t[::1] slots, const int64_t[::1] state, uint64_t mixed
) except -1:
    """Return the slot of a mixed key, or the one where it belongs."""
    cdef Py_ssize_t place = _place(mixed, state[SIZE], state[NEXT], state[BORDER])
    while slots[place] != 0 and slots[place] < mixed:
        place += 1
    return place


cdef int _read_ahead(
    const uint64_t[::1] slots, int64_t[::1] state, const uint64_t[::1] keys,
    Py_ssize_t start, Py_ssize_t stop,
) except -1:
    cdef uint64_t read = 0
    cdef Py_ssize_t at, place, last = slots.shape[0] - 1
    for at in range(start, stop):
        place = _place(keys[at] * PHI, state[SIZE], state[NEXT], state[BORDER])
        read ^= slots[place] ^ slots[min(place + LINE_SLOTS, last)]
    state[READ] = <int64_t> read
    return 0


def keep_missing(const uint64_t[::1] slots, int64_t[::1] state, uint64_t[::1] keys):
    """See `probing`."""
    cdef Py_ssize_t start, stop, at, number = 0
    cdef uint64_t key, mixed
    cdef bint missing
    for start in range(0, keys.shape[0], AHEAD):
        stop = min(start + AHEAD, keys.shape[0])
        _read_ahead(slots, state, keys, start, stop)
        for at in range(start, stop):
            key = keys[at]
            mixed = key * PHI
            if mixed == 0:
                missing = state[HAS_ZERO] == 0
            else:
                missing = slots[_slot(slots, state, mixed)] != mixed
            if missing:
                keys[number] = key
                number += 1
    return number


def mark(
    const uint64_t[::1] slots, int64_t[::1] state, const uint64_t[::1] keys, uint8_t[::1] held
):
    """See `probing`."""
    cdef Py_ssize_t start, stop, at
    cdef uint64_t mixed
    for start in range(0, keys.shape[0], AHEAD):
        stop = min(start + AHEAD, keys.shape[0])
        if stop - start > 1:
            _read_ahead(slots, state, keys, start, stop)
        for at in range(start, stop):
            mixed = keys[at] * PHI
            if mixed == 0:
                held[at] = state[HAS_ZERO] != 0
            else:
                held[at] = slots[_slot(slots, state, mixed)] == mixed


def add(uint64_t[::1] slots, int64_t[::1] state, const uint64_t[::1] keys, uint8_t[::1] new):
    """See `probing`."""
    cdef Py_ssize_t start, stop, at, place
    cdef uint64_t mixed
    for start in range(0, keys.shape[0], AHEAD):
        stop = min(start + AHEAD, keys.shape[0])
        _read_ahead(slots, state, keys, start, stop)
        for at in range(start, stop):
            mixed = keys[at] * PHI
            if mixed == 0:
                new[at] = state[HAS_ZERO] == 0
                state[HELD] += 1 - state[HAS_ZERO]
                state[HAS_ZERO] = 1
                continue
            place = _slot(slots, state, mixed)
            new[at] = slots[place] != mixed
            if new[at] and not _insert(slots, state, place, mixed):
                return False
    return True


cdef bint _insert(
    uint64_t[::1] slots, int64_t[::1] state, Py_ssize_t place, uint64_t mixed
) except -1:
    cdef int64_t most
    if state[HELD] >= FULL * state[NEXT] or not _put(slots, place, mixed):
        return False
    state[HELD] += 1
    if state[NEXT] > state[SIZE]:
        return state[HELD] % MOVES_EVERY != 0 or _move_some(slots, state)
    if state[HELD] > LOAD * state[SIZE]:
        most = slots.shape[0] - max(slots.shape[0] // 32, SPARE)
        state[NEXT] = min(<int64_t> (state[SIZE] * GROWTH), most)
    return True


cdef bint _put(uint64_t[::1] slots, Py_ssize_t place, uint64_t mixed) except -1:
    cdef uint64_t following
    while mixed != 0 and place < slots.shape[0] - 1:
        following = slots[place]
        slots[place] = mixed
        mixed = following
        place += 1
    return mixed == 0


cdef bint _move_some(uint64_t[::1] slots, int64_t[::1] state) except -1:
    cdef Py_ssize_t start = max(state[BORDER] - MOVED, 0)
    cdef Py_ssize_t stop = state[BORDER]
    cdef Py_ssize_t place, at, number = 0
    while start > 0 and slots[start - 1] != 0:
        start -= 1
    while slots[stop] != 0:
        stop += 1
    cdef uint64_t[::1] moving = array("Q", bytes(8 * (stop - start)))
    for place in range(start, stop):
        if slots[place] != 0:
            moving[number] = slots[place]
            number += 1
            slots[place] = 0
    cdef uint64_t mixed
    cdef uint64_t size = state[NEXT]
    cdef Py_ssize_t following = start
    for at in range(number):
        mixed = moving[at]
        following = max(following, <Py_ssize_t> (((mixed >> 32) * size) >> 32))
        if slots[following] == 0:
            slots[following] = mixed
        elif not _put(slots, following, mixed):
            return False
        following += 1
    state[BORDER] = start
    if start == 0:
        state[SIZE] = state[BORDER] = state[NEXT]
    return True
