"""Where a key is: an index over an array of keys, of 6 to 12 bytes a key."""

from array import array

import numpy as np
from numpy.typing import NDArray

_LEAST = 1024


class KeyIndex:
    """Finds slots of `keys` by their key; slot 0 is nobody's. Keys are hashes already.

    Open addressing with linear probing, at most two thirds full (Knuth, TAOCP 6.4, algorithms L
    and R). A dict of the same would need about 110 bytes a key.
    """

    def __init__(self, keys: "array[int]") -> None:
        """`keys` ("Q") by slot; a slot that is indexed keeps its key."""
        self._keys = keys
        self._table = array("I", bytes(4 * _LEAST))
        self._mask = _LEAST - 1
        self._used = 0

    def __len__(self) -> int:
        return self._used

    def find(self, key: int) -> int:
        """The slot, or 0."""
        table, keys, mask = self._table, self._keys, self._mask
        at = key & mask
        while (slot := table[at]) and keys[slot] != key:
            at = (at + 1) & mask
        return slot

    def add(self, slot: int) -> None:
        """Index a slot, whose key isn't in any other one."""
        if 3 * self._used >= 2 * self._mask:
            self._grow()
        table, mask = self._table, self._mask
        at = self._keys[slot] & mask
        while table[at]:
            at = (at + 1) & mask
        table[at] = slot
        self._used += 1

    def discard(self, key: int) -> bool:
        """Forget the slot of a key; whether it had one."""
        table, keys, mask = self._table, self._keys, self._mask
        hole = key & mask
        while (slot := table[hole]) and keys[slot] != key:
            hole = (hole + 1) & mask
        if not slot:
            return False
        self._used -= 1
        at = hole
        while slot := table[at := (at + 1) & mask]:
            # It may move into the hole unless that lies before its home.
            if (at - keys[slot]) & mask >= (at - hole) & mask:
                table[hole] = slot
                hole = at
        table[hole] = 0
        return True

    def slots(self) -> NDArray[np.uint32]:
        """All that are indexed."""
        table = np.frombuffer(self._table, np.uint32)
        return table[np.flatnonzero(table)]

    def _grow(self) -> None:
        """Twice the size. In order of their homes each comes right behind the one before."""
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
        for slot in slots[order[~inside]].tolist():  # these go on at the start
            at = 0
            while self._table[at]:
                at += 1
            self._table[at] = slot
