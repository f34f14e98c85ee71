"""How the keys of a `table.KeyTable` lie in memory, for the code that reads and writes them.

A key is *mixed* first: it is multiplied by an odd number, which can be undone. A mixed key has a
place, and larger keys have later places. The key is in the first slot from its place on that leaves
all keys sorted (ordered linear probing: Amble and Knuth, Ordered hash tables, 1974). So a search
ends at the first larger key.

When the table gets full, it grows by a twelfth. Each 128th new key then moves some of the old
ones, from the last slot downwards: keys above a border are at their places in the larger table, and
keys below it are still at their old places. So the table never takes the memory of two, and no call
waits until all keys have moved.
"""

from typing import Final

import numpy as np

GROWTH: Final = 1.08
LOAD: Final = 0.85  # the most keys a slot, on average
FULL: Final = 0.95  # the same if the table can't grow
MOVED: Final = 4096  # slots whose keys move at a time, and more slots up to a free one
MOVES_EVERY: Final = 128  # new keys; so all have moved after one new key for every 32 slots
LINE_SLOTS: Final = 8  # of a line of the cache
AHEAD: Final = 64  # keys whose slots are read ahead
SPARE: Final = 4096  # the least slots behind all places, for runs of slots in use

# Fibonacci hashing (Knuth, volume 3, section 6.4). Keys are hashes already, but those of tests and
# simulators may be small numbers.
PHI: Final = np.uint64(0x9E3779B97F4A7C15)

# The places in the state of a table, an array of `LENGTH` numbers.
SIZE: Final = 0  # slots among which keys have their places
NEXT: Final = 1  # the same after the growth that is under way, or `SIZE`
BORDER: Final = 2  # keys whose places are here or above are where they belong in `NEXT` slots
HELD: Final = 3  # keys
HAS_ZERO: Final = 4  # whether the key 0 is held. A slot with 0 is free, so it is in no slot
READ: Final = 5  # what was read ahead, so that no compiler leaves the reads out
LENGTH: Final = 6
