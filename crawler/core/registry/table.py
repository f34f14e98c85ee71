"""Which row has a key: an open-addressing table of rows, and what is done to many keys at once.

The table has 2**bits entries of 32 bits. An entry is 0 if it is free. Otherwise its lower `bits`
bits are the row plus one, and the others are bits of the key's hash. So a look-up seldom reads the
record of another key, which would cost a cache miss.
"""

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crawler.compiled import compiled
from crawler.core.registry.moves import end, is_in_heap, rise, wait
from crawler.core.registry.records import NONE, OUT, SITE, Records

Keys: TypeAlias = NDArray[np.uint64]
Rows: TypeAlias = NDArray[np.int64]
Table: TypeAlias = NDArray[np.uint32]

ENDED: Final = np.dtype(
    [
        ("row", "i8"),
        ("site", "i8"),  # its number
        ("out", "i8"),  # URLs of the site that are handed out afterwards
    ]
)

# Fibonacci hashing (Knuth, volume 3, section 6.4). Keys are hashes already, but those of tests and
# simulators may be small numbers.
_PHI: Final = np.uint64(0x9E3779B97F4A7C15)
_AHEAD: Final = 256  # keys whose cache misses overlap
_HALF: Final = np.uint64(32)
_ENTRY: Final = np.uint64(2**32 - 1)
_ONE: Final = np.uint64(1)  # numba makes floats of an unsigned and a signed number


@compiled
def bits_of(table: Table) -> np.uint64:  # pragma: no cover - compiled
    """Return the logarithm of the table's size."""
    bits = np.uint64(0)
    while (1 << bits) < len(table):
        bits += _ONE
    return bits


@compiled
def search(
    table: Table, bits: np.uint64, urls: Records, key: np.uint64
) -> int:  # pragma: no cover - compiled
    """Return the row of a key, or -1."""
    mask = (_ONE << bits) - _ONE
    hashed = (key * _PHI) >> _HALF
    place = hashed >> (_HALF - bits)
    tag = (hashed << bits) & _ENTRY
    while True:
        entry = np.uint64(table[place])
        if entry == 0:
            return -1
        if (entry & ~mask) == tag:
            row = int(np.int64(entry & mask) - 1)
            if urls[row].key == key:
                return row
        place = (place + _ONE) & mask


@compiled
def find(table: Table, urls: Records, key: np.uint64) -> int:  # pragma: no cover - compiled
    """Return the row of a key, or -1."""
    return search(table, bits_of(table), urls, key)


@compiled
def find_all(table: Table, urls: Records, keys: Keys) -> Rows:  # pragma: no cover - compiled
    """Return the row of each key, or -1."""
    bits = bits_of(table)
    rows = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        rows[i] = search(table, bits, urls, keys[i])
    return rows


@compiled
def enter(
    table: Table, bits: np.uint64, key: np.uint64, row: int
) -> None:  # pragma: no cover - compiled
    """Enter a row. Its key isn't in the table, which has room."""
    mask = (_ONE << bits) - _ONE
    hashed = (key * _PHI) >> _HALF
    place = hashed >> (_HALF - bits)
    while table[place] != 0:
        place = (place + _ONE) & mask
    table[place] = (hashed << bits) & _ENTRY | (np.uint64(row) + _ONE)


@compiled
def enter_all(
    table: Table, urls: Records, start: int, stop: int
) -> None:  # pragma: no cover - compiled
    """Enter rows whose keys aren't in the table, which has room for them."""
    bits = bits_of(table)
    for row in range(start, stop):
        enter(table, bits, urls[row].key, row)


@compiled
def add_all(
    table: Table,
    urls: Records,
    sites: Records,
    pools: Records,
    per_site: int,
    start: int,
    keys: Keys,
    scores: NDArray[np.float64],
    links: NDArray[np.uint32],
    fields: NDArray[np.uint32],
) -> int:  # pragma: no cover - compiled
    """Let new URLs wait, from the row `start` on; `fields` are the sites of their records.

    Stops at the first key that is known. Returns how many were entered.
    """
    bits = bits_of(table)
    for i in range(len(keys)):
        row = start + i
        if search(table, bits, urls, keys[i]) >= 0:
            return i
        urls[row].key = keys[i]
        urls[row].score = scores[i]
        urls[row].links = links[i]
        urls[row].site = fields[i]
        enter(table, bits, keys[i], row)
        wait(urls, sites, pools, per_site, row)
    return len(keys)


@compiled
def finish_all(
    table: Table, urls: Records, sites: Records, pools: Records, per_site: int, keys: Keys
) -> NDArray[np.void]:  # pragma: no cover - compiled
    """Let URLs be visited that are handed out. Stops at the first that isn't.

    Returns, for each, what is described at ENDED.
    """
    bits = bits_of(table)
    ended = np.empty(len(keys), ENDED)
    for i in range(len(keys)):
        row = search(table, bits, urls, keys[i])
        if row < 0 or urls[row].previous != OUT:
            return ended[:i].copy()
        end(urls, sites, pools, per_site, row)
        site = urls[row].site & SITE
        ended[i].row = row
        ended[i].site = site
        ended[i].out = sites[site].out
    return ended


@compiled
def touch(urls: Records, sites: Records, rows: Rows) -> int:  # pragma: no cover - compiled
    """Load what `rise` will need of the rows. Returns a number that is never negative.

    The loads of one row don't depend on those of another. So the processor waits for many of them
    at the same time, and `rise` takes half the time.
    """
    total = 0
    for row in rows:
        if row >= 0 and is_in_heap(urls[row]):
            previous, sibling = urls[row].previous, urls[row].sibling
            if previous != NONE:
                total += urls[previous].child
            if sibling != NONE:
                total += urls[sibling].previous
            first = urls[sites[urls[row].site & SITE].root].child
            if first != NONE:
                total += urls[first].previous
    return total


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
    unknown = np.empty(len(keys), np.int64)
    missing = 0
    for start in range(0, len(keys), _AHEAD):
        rows = find_all(table, urls, keys[start : start + _AHEAD])
        if more and touch(urls, sites, rows) < 0:
            break  # never: but so the compiler can't leave out the call
        for i in range(len(rows)):
            row = rows[i]
            if row < 0:
                unknown[missing] = start + i
                missing += 1
                continue
            urls[row].links += links[start + i]
            if more:
                rise(urls, sites, pools, per_site, row, more * links[start + i])
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
