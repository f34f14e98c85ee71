"""Things by the rank of their heads, which may change: a heap with lazy entries."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, Generic, Protocol, TypeVar

Rank = tuple[float, int]  # the smaller comes first


class Holder(Protocol):
    ticket: int  # of its latest entry; 0: it isn't in there


T = TypeVar("T", bound=Holder)
_TICKETS: Final = count(1)  # of all Heads, as a thing goes from one to another


class Heads(Generic[T]):
    """The one with the best head comes first. Something is in one `Heads` at a time, at most once.

    An entry counts only while it holds the ticket that its thing got last. Those that don't are
    swept out before they outnumber the others, so each operation costs O(log n) amortised. Called
    as a deque is, which it takes the place of.
    """

    def __init__(self, rank: Callable[[T], Rank]) -> None:
        """`rank`: of the head of a thing, as it is now."""
        self._rank = rank
        self._heap: list[tuple[Rank, int, T]] = []
        self._live = 0

    def __len__(self) -> int:
        return self._live

    def __bool__(self) -> bool:  # compiled, `if heads` asks for this alone
        return self._live > 0

    def append(self, thing: T) -> None:
        """Put in; or once more, after its head has changed."""
        if not thing.ticket:
            self._live += 1
        thing.ticket = next(_TICKETS)
        heappush(self._heap, (self._rank(thing), thing.ticket, thing))
        if len(self._heap) > 2 * self._live + 64:
            self._heap = [entry for entry in self._heap if entry[1] == entry[2].ticket]
            heapify(self._heap)

    def appendleft(self, thing: T) -> None:
        """The same: it comes first if it is the best."""
        self.append(thing)

    def first(self) -> T:
        """The best. Raises IndexError if there is none."""
        heap = self._heap
        while heap[0][1] != heap[0][2].ticket:
            heappop(heap)
        return heap[0][2]

    def remove(self, thing: T) -> None:
        """Take out something that is in here."""
        thing.ticket = 0
        self._live -= 1

    def popleft(self) -> T:
        """Take out the best. Raises IndexError if there is none."""
        thing = self.first()
        heappop(self._heap)
        thing.ticket = 0
        self._live -= 1
        return thing
