"""Tables of numbers by 64-bit keys, in few bytes. A dict would need about 110 bytes for each key.

`KeyIndex` finds keys in an array, with 6 to 12 bytes for each key. `Numbers` is a whole table, with
22 to 30 bytes.
"""

from array import array
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

_LEAST: Final = 1024
_PARTS: Final = 64
_PART_SHIFT: Final = 58  # the upper 6 bits of a key
_LEAST_PART: Final = 16
_KEY_BYTES: Final = 27


class KeyIndex:
    """Finds the slot of a key in the array `keys`. Slot 0 is never used.

    The index uses open addressing with linear probing, and is at most two thirds full (Knuth, TAOCP
    6.4, algorithms L and R). The keys are hashes already, so they aren't hashed again.
    """

    def __init__(self, keys: "array[int]", least: int = _LEAST) -> None:
        """`keys`: the key of each slot (typecode "Q"). An indexed slot must keep its key.

        `least`: entries of the table at the start, a power of two.
        """
        self._keys = keys
        self._table = array("I", bytes(4 * least))
        self._mask = least - 1
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


class Numbers:
    """Numbers of 64 bits with a sign, by keys of 64 bits. A missing key has the number 0.

    The table has parts, by the upper bits of the keys, that grow one at a time. So no growth takes
    long. To look up a key takes about a microsecond, ten times as long as with a dict.
    """

    def __init__(self) -> None:
        self._keys = [array("Q", [0]) for _ in range(_PARTS)]  # slot 0 is never used
        self._numbers = [array("q", [0]) for _ in range(_PARTS)]
        self._indexes = [KeyIndex(keys, _LEAST_PART) for keys in self._keys]

    def __len__(self) -> int:
        return sum(map(len, self._indexes))

    def __iter__(self) -> Iterator[int]:
        """All keys."""
        for keys in self._keys:
            yield from keys[1:]

    def __getitem__(self, key: int) -> int:
        part = key >> _PART_SHIFT
        return self._numbers[part][self._indexes[part].find(key)]

    def __setitem__(self, key: int, number: int) -> None:
        part = key >> _PART_SHIFT
        slot = self._indexes[part].find(key)
        if slot:
            self._numbers[part][slot] = number
            return
        self._keys[part].append(key)
        self._numbers[part].append(number)
        self._indexes[part].add(len(self._keys[part]) - 1)

    def values(self) -> Iterator[int]:
        """The numbers of all keys, in the order of the keys."""
        for numbers in self._numbers:
            yield from numbers[1:]

    def items(self) -> Iterator[tuple[int, int]]:
        """All keys with their numbers."""
        return zip(self, self.values(), strict=True)

    def update(self, others: Mapping[int, int]) -> None:
        """Add numbers to those of their keys."""
        for key, number in others.items():
            self[key] += number

    def nbytes(self) -> int:
        """About how many bytes of memory the table takes."""
        return _KEY_BYTES * len(self)
