"""The memory budget of a rank: how much its tables of URLs and sites take, and which make room.

Each table registers its name and a function that tells its bytes. A table that can move to disk
also registers a function for that. When the tables together exceed the budget, the largest of those
that can move is told to. A table of many small objects has a share of the budget, which it may
never exceed: the memory that such objects leave can't be used for much else. Nothing else decides
how the budget is divided.
"""

from collections.abc import Callable
from math import inf
from typing import Final, NamedTuple

_FULL: Final = 0.9  # of the budget, from where on tables make room
_RARELY: Final = 64  # calls of `tick` between two looks
_OFTEN: Final = 4  # the same, while tables make room


class Table(NamedTuple):
    """What memory holds of one kind."""

    nbytes: Callable[[], int]  # about how many bytes it takes; cheap
    # Makes room, `excess` bytes if it can, within milliseconds or in a thread. Returns whether it
    # has begun to. None: this table can't.
    give: Callable[[int], bool] | None
    share: float  # of the budget


class Used(NamedTuple):
    """The bytes of memory that something takes."""

    peak: int
    end: int


class Budget:
    """The tables of a rank, and the bytes of memory that they may take together."""

    def __init__(self, most_bytes: float = inf) -> None:
        self._most_bytes = most_bytes
        self._tables: dict[str, Table] = {}
        self._peaks: dict[str, int] = {}
        self._peak = 0  # of all tables together
        self._left = _RARELY  # calls until the next look

    def add(
        self,
        name: str,
        nbytes: Callable[[], int],
        give: Callable[[int], bool] | None = None,
        share: float = 1.0,
    ) -> None:
        """Register a table. See `Table`."""
        self._tables[name] = Table(nbytes, give, share)

    def tick(self) -> None:
        """Look at the tables now and then. Call this after each event."""
        self._left -= 1
        if not self._left:
            self._left = _OFTEN if self.look() else _RARELY

    def look(self) -> bool:
        """Measure all tables, and have one make room if it has too much, or all have.

        Returns whether that is so.
        """
        sizes = {name: table.nbytes() for name, table in self._tables.items()}
        for name, size in sizes.items():
            if size > self._peaks.get(name, 0):
                self._peaks[name] = size
        total = sum(sizes.values())
        self._peak = max(self._peak, total)
        for name, table in self._tables.items():
            excess = sizes[name] - table.share * self._most_bytes
            if excess > 0 and table.give is not None and table.give(int(excess)):
                return True
        if total <= _FULL * self._most_bytes:
            return False
        excess = int(total - _FULL * self._most_bytes)
        for name in sorted(sizes, key=sizes.__getitem__, reverse=True):
            give = self._tables[name].give
            if give is not None and give(excess):
                break
        return True

    def used(self) -> dict[str, Used]:
        """What each table takes, by its name, and all of them together as `all`."""
        self.look()
        ends = {name: table.nbytes() for name, table in self._tables.items()}
        used = {name: Used(self._peaks.get(name, 0), end) for name, end in ends.items()}
        return used | {"all": Used(self._peak, sum(ends.values()))}
