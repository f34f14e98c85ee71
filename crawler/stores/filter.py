"""Sorted runs of keys as arrays: how they are packed, searched and filtered.

Keys are mixed (`table`), so they are spread evenly, also those of tests. A run holds the lower 48
bits of its mixed keys. Its index says for each value of the upper bits how many keys have lower
ones, so it gives the other bits, and finds a key with one read of about 16 keys. Its filter (Putze,
Sanders, Singler: Cache-, Hash- and Space-Efficient Bloom Filters, 2007) needs one cache line for a
key, and 12 bits. It takes about one in 100 keys that the run lacks for one that the run may have.
"""

from typing import Any, Final, TypeAlias

import numpy as np
from numba import types
from numpy.typing import NDArray

from crawler.compiled import compiled, in_thread
from crawler.stores.layout import PHI

Keys: TypeAlias = NDArray[np.uint64]
Flags: TypeAlias = NDArray[np.bool_]
Index: TypeAlias = NDArray[np.uint32]
Packed: TypeAlias = NDArray[np.uint16]

KEY_BYTES: Final = 6
LEAST_BITS: Final = 16  # of an index; they and the 48 bits of a packed key make 64
_KEYS_A_READ: Final = 16
_FILTER_BITS: Final = 12  # for a key
_LINE_WORDS: Final = 8  # 64-bit words of a cache line

_SCATTER: Final = np.uint64(0xBF58476D1CE4E5B9)
_ONE: Final = np.uint64(1)
_SIX: Final = np.uint64(6)
_16: Final = np.uint64(16)
_32: Final = np.uint64(32)
_LOW_6: Final = np.uint64(63)
_LOW_16: Final = np.uint64(0xFFFF)
_LOW_48: Final = np.uint64(0xFFFFFFFFFFFF)

# numba can call a function of the C library without holding up its own compiled code.
_pread: Any = types.ExternalFunction(
    "pread", types.intp(types.int32, types.voidptr, types.uintp, types.int64)
)


def new_index(keys: int) -> Index:
    """Return an index without counts, for a run of so many keys."""
    return np.zeros(index_bytes(keys) // 4, np.uint32)


def index_bytes(keys: int) -> int:
    """Return the bytes of an index for so many keys."""
    bits = max(LEAST_BITS, (keys // _KEYS_A_READ).bit_length() - 1)
    return 4 * ((1 << bits) + 1)


def new_filter(keys: int) -> Keys:
    """Return an empty filter for so many keys."""
    return np.zeros(filter_bytes(keys) // 8, np.uint64)


def filter_bytes(keys: int) -> int:
    """Return the bytes of a filter for so many keys."""
    lines = max(1, keys * _FILTER_BITS // (64 * _LINE_WORDS))
    return 8 * lines * _LINE_WORDS


def shift_of(index: Index) -> int:
    """Return by how many bits a mixed key is shifted to give its place in an index."""
    return 64 - (len(index) - 2).bit_length() if len(index) > 2 else 64


@in_thread
def pack(
    keys: Keys, shift: int, index: Index, bloom: Keys
) -> Packed:  # pragma: no cover - compiled
    """Return mixed keys in six bytes each. Counts them in the index, and adds them to the filter.

    An entry of the index holds the number of keys of the place before it, until `np.cumsum`.
    """
    packed = np.empty(3 * len(keys), np.uint16)
    lines = len(bloom) // _LINE_WORDS
    for i in range(len(keys)):
        key = keys[i]
        index[np.int64(key >> np.uint64(shift)) + 1] += np.uint32(1)
        packed[3 * i] = key & _LOW_16
        packed[3 * i + 1] = (key >> _16) & _LOW_16
        packed[3 * i + 2] = (key >> _32) & _LOW_16
        line, bits = _line(key, lines), _bits(key)
        for word in range(_LINE_WORDS):
            bloom[line + word] |= _ONE << (bits & _LOW_6)
            bits >>= _SIX
    return packed


@in_thread
def unpack(
    packed: Packed, index: Index, shift: int, start: int, stop: int
) -> Keys:  # pragma: no cover - compiled
    """Return the mixed keys whose places in the index are from `start` to before `stop`."""
    first = np.int64(index[start])
    keys = np.empty(np.int64(index[stop]) - first, np.uint64)
    for place in range(start, stop):
        high = (np.uint64(place) << np.uint64(shift)) & ~_LOW_48
        for i in range(np.int64(index[place]) - first, np.int64(index[place + 1]) - first):
            low = np.uint64(packed[3 * i]) | (np.uint64(packed[3 * i + 1]) << _16)
            keys[i] = high | low | (np.uint64(packed[3 * i + 2]) << _32)
    return keys


@compiled
def search(
    keys: Keys,
    hit: Flags,
    index: Index,
    shift: int,
    bloom: Keys,
    file: int,
    offset: int,
    buffer: Packed,
    cache: Keys,
) -> int:  # pragma: no cover - compiled
    """Mark the mixed keys that a run has. Returns -1, or a number of keys that can't be read.

    Keys that are marked are left out. `file` is the descriptor of the run, whose packed keys begin
    at `offset`. `cache` gets the keys that the run has. `buffer[-1]` may be changed.
    """
    lines = len(bloom) // _LINE_WORDS
    read = np.uint64(0)
    for i in range(len(keys)):  # so that the cache has the lines. The misses overlap
        if not hit[i]:
            read ^= bloom[_line(keys[i], lines)]
    buffer[-1] = read & _LOW_16  # so that no compiler leaves the reads out
    for i in range(len(keys)):
        if hit[i]:
            continue
        line, bits, may_have = _line(keys[i], lines), _bits(keys[i]), _ONE
        for word in range(_LINE_WORDS):
            may_have &= bloom[line + word] >> (bits & _LOW_6)
            bits >>= _SIX
        if not may_have:
            continue
        place = np.int64(keys[i] >> np.uint64(shift))
        first = np.int64(index[place])
        rest = np.int64(index[place + 1]) - first
        while rest > 0 and not hit[i]:
            some = np.int64(len(buffer) // 3)
            some = min(some, rest)
            wanted = KEY_BYTES * some
            if _pread(file, buffer.ctypes, wanted, np.int64(offset + KEY_BYTES * first)) != wanted:
                return int(some)
            for at in range(some):
                low = np.uint64(buffer[3 * at]) | (np.uint64(buffer[3 * at + 1]) << _16)
                if low | (np.uint64(buffer[3 * at + 2]) << _32) == keys[i] & _LOW_48:
                    hit[i] = True
                    cache[_slot(keys[i], len(cache))] = keys[i]
                    break
            first += some
            rest -= some
    return -1


@compiled
def search_cache(keys: Keys, hit: Flags, cache: Keys) -> None:  # pragma: no cover - compiled
    """Mark the mixed keys that are in the cache, which can't hold the key 0."""
    for i in range(len(keys)):
        if keys[i] != 0 and cache[_slot(keys[i], len(cache))] == keys[i]:
            hit[i] = True


# Passing an array to a compiled function takes longer than what these functions do.


@compiled
def _line(key: np.uint64, lines: int) -> int:  # pragma: no cover - compiled
    """Return where the cache line of a key begins in a filter. Larger keys have later lines."""
    return _LINE_WORDS * int(np.int64(((key >> _32) * np.uint64(lines)) >> _32))


@compiled
def _bits(key: np.uint64) -> np.uint64:  # pragma: no cover - compiled
    """Return six bits for each word of the cache line of a key."""
    hashed = (key ^ (key >> _32)) * _SCATTER
    return np.uint64(((hashed ^ (hashed >> _32)) * PHI) >> _16)


@compiled
def _slot(key: np.uint64, slots: int) -> int:  # pragma: no cover - compiled
    """Return the one place where a cache may hold a key."""
    hashed = (key ^ (key >> _32)) * _SCATTER
    return int(np.int64(((hashed >> _32) * np.uint64(slots)) >> _32))
