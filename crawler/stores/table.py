"""An exact set of 64-bit keys in about 10 bytes a key: a sorted array with gaps.

`layout` says how the keys lie in memory. The inner loops are in slots.pyx, if that was compiled
when the crawler was installed, or else in `probing`, which imports numba.

The memory is one range of addresses. The system gives memory to the part of the range that is used,
in huge pages if it can. With small pages, a look-up among 50 million keys takes a third longer.
"""

import mmap
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Final, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from crawler.stores.layout import BORDER, HAS_ZERO, HELD, LENGTH, NEXT, PHI, SIZE, SPARE

Keys: TypeAlias = NDArray[np.uint64]
_Numbers: TypeAlias = NDArray[np.int64]
_Flags: TypeAlias = NDArray[np.uint8]

_FIRST_SIZE: Final = 4096  # slots at the start
_SLOT_BYTES: Final = 8
_HUGE_BYTES: Final = 2 << 20  # of a huge page
_HUGE_FROM: Final = 64 * _HUGE_BYTES  # a table that may grow so far is given huge pages
_PIECE: Final = 1 << 15  # slots of a piece
_PHI_INVERSE: Final = np.uint64(pow(int(PHI), -1, 2**64))

_SLOTS: Final = "crawler.stores.slots"  # import-linter knows only modules with a .py file
IS_COMPILED: Final = find_spec(_SLOTS) is not None  # then no table needs numba


class Loops(Protocol):
    """The inner loops, as in `probing`."""

    def keep_missing(self, slots: Keys, state: _Numbers, keys: Keys) -> int:
        """Move the keys that aren't in the table to the front of `keys`. Returns their number."""

    def mark(self, slots: Keys, state: _Numbers, keys: Keys, held: _Flags) -> None:
        """Write to `held` whether each key is in the table."""

    def add(self, slots: Keys, state: _Numbers, keys: Keys, new: _Flags) -> bool:
        """Add keys, and write to `new` which are new. Returns whether there was room for all."""


@cache
def _loops() -> Loops:
    name = _SLOTS if IS_COMPILED else "crawler.stores.probing"
    return cast("Loops", import_module(name))


class KeyTable:
    """A set of keys that is asked about many keys at once. Nothing is ever removed."""

    def __init__(self, most_bytes: int, loops: Loops | None = None) -> None:
        """`most_bytes`: how far the memory may grow. Raises OSError if it can't be reserved.

        `loops`: the inner loops to use, for tests that compare them.
        """
        self._loops = loops or _loops()
        least = (_FIRST_SIZE + SPARE) * _SLOT_BYTES
        size = -(-max(most_bytes, least) // mmap.PAGESIZE) * mmap.PAGESIZE
        self._memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._page_bytes = mmap.PAGESIZE
        if size >= _HUGE_FROM and hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # a kernel without huge pages
                self._memory.madvise(mmap.MADV_HUGEPAGE)
                self._page_bytes = _HUGE_BYTES
        self._slots: Keys = np.frombuffer(self._memory, np.uint64)
        self._state = np.zeros(LENGTH, np.int64)
        self._state[[SIZE, NEXT, BORDER]] = _FIRST_SIZE
        self._one, self._held = np.empty(1, np.uint64), np.empty(1, np.uint8)

    def __len__(self) -> int:
        return int(self._state[HELD])

    def __contains__(self, key: object) -> bool:
        assert isinstance(key, int)
        self._one[0] = key
        self._loops.mark(self._slots, self._state, self._one, self._held)
        return bool(self._held[0])

    def __iter__(self) -> Iterator[int]:
        """Yield all keys, in any order. Meanwhile no key may be added."""
        for piece in self.pieces():
            yield from unmixed(piece).tolist()

    @property
    def nbytes(self) -> int:
        """The bytes of memory in use."""
        used = int(self._state[NEXT]) * _SLOT_BYTES
        return min(-(-used // self._page_bytes) * self._page_bytes, self._slots.nbytes)

    def check(self, keys: Keys) -> NDArray[np.bool_]:
        """Return which keys are new, and add them. Of equal new keys, the first one is new.

        Raises MemoryError if there is no room; then some of the keys may have been added.
        """
        new = np.empty(len(keys), np.bool_)
        if not self._loops.add(self._slots, self._state, keys, new.view(np.uint8)):
            raise MemoryError("the table of seen URLs is full")
        return new

    def missing(self, keys: Keys) -> Keys:
        """Return the keys that aren't in the set, in their order, as the first part of `keys`.

        The rest of `keys` is useless afterwards.
        """
        return keys[: self._loops.keep_missing(self._slots, self._state, keys)]

    def have(self, keys: Keys) -> NDArray[np.bool_]:
        """Return which of the keys are in the set."""
        held = np.empty(len(keys), np.bool_)
        self._loops.mark(self._slots, self._state, keys, held.view(np.uint8))
        return held

    def pieces(self) -> Iterator[Keys]:
        """Yield all keys, mixed and ascending, in pieces. Meanwhile no key may be added."""
        if self._state[HAS_ZERO]:
            yield np.zeros(1, np.uint64)
        end = int(self._state[NEXT])
        while self._slots[end]:
            end += 1
        for start in range(0, end, _PIECE):
            piece = self._slots[start : min(start + _PIECE, end)]
            yield piece[piece != 0]


def mixed(keys: Keys) -> Keys:
    """Return the keys mixed, as `layout` says."""
    return keys * PHI


def unmixed(keys: Keys) -> Keys:
    """Return the keys that were mixed into these."""
    return keys * _PHI_INVERSE
