"""Which row has a key: an open-addressing table of rows, and what is done to many keys at once.

The table has 2**bits entries of 32 bits. An entry is 0 if it is free. Otherwise its lower `bits`
bits are the row plus one, and the others are bits of the key's hash. So a look-up seldom reads the
record of another key, which would cost a cache miss.
"""

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crawler.compiled import compiled
from crawler.core.registry.moves import rise
from crawler.core.registry.records import Records

Keys: TypeAlias = NDArray[np.uint64]
Rows: TypeAlias = NDArray[np.int64]
Table: TypeAlias = NDArray[np.uint32]

# Fibonacci hashing (Knuth, volume 3, section 6.4). Keys are hashes already, but those of tests and
# simulators may be small numbers.
_PHI: Final = np.uint64(0x9E3779B97F4A7C15)
_HALF: Final = np.uint64(32)
_ONE: Final = np.uint64(1)  # numba makes floats of an unsigned and a signed number


@compiled
def find(table: Table, urls: Records, key: np.uint64) -> int:  # pragma: no cover - compiled
    """Return the row of a key, or -1."""
    mask = np.uint64(len(table) - 1)
    bits = np.uint64(0)
    while (_ONE << bits) <= mask:
        bits += _ONE
    hashed = (key * _PHI) >> _HALF
    place = hashed >> (_HALF - bits)
    tag = (hashed << bits) & np.uint64(0xFFFFFFFF)
    while True:
        entry = np.uint64(table[place])
        if entry == 0:
            return -1
        if (entry & ~mask) == tag:
            row = (entry & mask) - _ONE
            if urls[row].key == key:
                return int(row)
        place = (place + _ONE) & mask


@compiled
def find_all(table: Table, urls: Records, keys: Keys) -> Rows:  # pragma: no cover - compiled
    """Return the row of each key, or -1."""
    rows = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        rows[i] = find(table, urls, keys[i])
    return rows


@compiled
def enter(
    table: Table, urls: Records, start: int, stop: int
) -> None:  # pragma: no cover - compiled
    """Enter rows whose keys aren't in the table, which has room for them."""
    mask = np.uint64(len(table) - 1)
    bits = np.uint64(0)
    while (_ONE << bits) <= mask:
        bits += _ONE
    for row in range(start, stop):
        hashed = (np.uint64(urls[row].key) * _PHI) >> _HALF
        place = hashed >> (_HALF - bits)
        while table[place] != 0:
            place = (place + _ONE) & mask
        tag = (hashed << bits) & np.uint64(0xFFFFFFFF)
        table[place] = tag | (np.uint64(row) + _ONE)


@compiled
def count(
    table: Table,
    urls: Records,
    sites: Records,
    pools: Records,
    per_site: int,
    keys: Keys,
    links: NDArray[np.uint32],
    more: float,
) -> Rows:  # pragma: no cover - compiled
    """Count back-links; see `Registry.count`. Returns the places of the unknown keys."""
    rows = find_all(table, urls, keys)
    unknown = np.empty(len(keys), np.int64)
    missing = 0
    for i in range(len(keys)):
        row = rows[i]
        if row < 0:
            unknown[missing] = i
            missing += 1
            continue
        urls[row].links += links[i]
        if more:
            rise(urls, sites, pools, per_site, row, more * links[i])
    return unknown[:missing].copy()


@compiled
def increase(
    table: Table,
    urls: Records,
    sites: Records,
    pools: Records,
    per_site: int,
    keys: Keys,
    amount: float,
) -> None:  # pragma: no cover - compiled
    """Add to scores; see `Registry.increase`."""
    for row in find_all(table, urls, keys):
        if row >= 0:
            rise(urls, sites, pools, per_site, row, amount)
