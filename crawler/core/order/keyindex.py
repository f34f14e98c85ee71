"""A hash index over an array of keys, which takes 6 to 12 bytes for each key."""

from array import array

import numpy as np
from numpy.typing import NDArray

_LEAST = 1024


class KeyIndex:
    """Finds the slot of a key in the array `keys`. Slot 0 is never used.

    The index uses open addressing with linear probing, and is at most two thirds full (Knuth, TAOCP
    6.4, algorithms L and R). The keys are hashes already, so they aren't hashed again. A dict would
    need about 110 bytes for each key.
    """

    def __init__(self, keys: "array[int]") -> None:
        """`keys`: the key of each slot (typecode "Q"). An indexed slot must keep its key."""
        self._keys = keys
        self._table = array("I", bytes(4 * _LEAST))
        self._mask = _LEAST - 1
        self._used = 0

    def __len__(self) -> int:
        return self._used

    def find(self, key: int) -> int:
        """The slot of a key, or 0 if the key isn't indexed."""
        table, keys, mask = self._table, self._keys, self._mask
        at = key & mask
        while (slot := table[at]) and keys[slot] != key:
            at = (at + 1) & mask
        return slot

    def add(self, slot: int) -> None:
        """Index a slot. No other indexed slot may have the same key."""
        if 3 * self._used >= 2 * self._mask:
            self._grow()
        table, mask = self._table, self._mask
        at = self._keys[slot] & mask
        while table[at]:
            at = (at + 1) & mask
        table[at] = slot
        self._used += 1

    def discard(self, key: int) -> bool:
        """Remove a key from the index. Returns whether the key was indexed."""
        table, keys, mask = self._table, self._keys, self._mask
        hole = key & mask
        while (slot := table[hole]) and keys[slot] != key:
            hole = (hole + 1) & mask
        if not slot:
            return False
        self._used -= 1
        at = hole
        while slot := table[at := (at + 1) & mask]:
            # The entry may move into the hole, unless the hole lies before the entry's home.
            if (at - keys[slot]) & mask >= (at - hole) & mask:
                table[hole] = slot
                hole = at
        table[hole] = 0
        return True

    def slots(self) -> NDArray[np.uint32]:
        """All slots that are indexed."""
        table = np.frombuffer(self._table, np.uint32)
        return table[np.flatnonzero(table)]

    def _grow(self) -> None:
        """Double the table.

        The entries are placed in the order of their homes. Each goes to its home, or right behind
        the entry before it if that place is taken.
        """
        slots = self.slots()
        self._mask = 2 * self._mask + 1
        homes = np.frombuffer(self._keys, np.uint64)[slots] & np.uint64(self._mask)
        order = np.argsort(homes, kind="stable")
        steps = np.arange(len(order))
        places = np.maximum.accumulate(homes[order].astype(np.int64) - steps) + steps
        inside = places <= self._mask
        table = np.zeros(self._mask + 1, np.uint32)
        table[places[inside]] = slots[order[inside]]
        self._table = array("I", table.tobytes())
        for slot in slots[order[~inside]].tolist():  # past the table's end: continue at its start
            at = 0
            while self._table[at]:
                at += 1
            self._table[at] = slot
