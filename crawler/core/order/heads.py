"""Queues ordered by the priority of their first element, which may change.

A heap with lazy deletion: outdated entries stay in the heap until they are met or swept out. With
`GroupedHeads` the elements of one group come before all others. `Tiers` puts several such queues
one before the other.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Final, Generic, Protocol, TypeVar

Priority = tuple[float, int]  # a priority: the element with the smaller one comes first


class Holder(Protocol):
    """An object that can be in a `Heads`."""

    ticket: int  # the ticket of the object's latest entry; 0 if the object isn't in a `Heads`


T = TypeVar("T", bound=Holder)
_TICKETS: Final = count(1)  # shared by all Heads, because an object may move between them


class Heads(Generic[T]):
    """A priority queue: the object whose first element has the best priority comes first.

    An object is in one `Heads` at a time, and only once. Each new entry of an object gets a new
    ticket, and only the entry with the object's latest ticket counts. Outdated entries are swept
    out before they outnumber the valid ones, so each operation costs O(log n) amortised. The
    methods have the names of a deque's, because the workbench uses either.
    """

    def __init__(self, priority: Callable[[T], Priority]) -> None:
        """`priority(thing)` returns the current priority of the object's first element."""
        self._priority = priority
        self._heap: list[tuple[Priority, int, T]] = []
        self._live = 0

    def __len__(self) -> int:
        return self._live

    def __bool__(self) -> bool:  # compiled code calls only this method for `if heads`
        return self._live > 0

    def append(self, thing: T) -> None:
        """Put in an object, or put it in again after its first element has changed."""
        if not thing.ticket:
            self._live += 1
        thing.ticket = next(_TICKETS)
        heappush(self._heap, (self._priority(thing), thing.ticket, thing))
        if len(self._heap) > 2 * self._live + 64:
            self._heap = [entry for entry in self._heap if entry[1] == entry[2].ticket]
            heapify(self._heap)

    def appendleft(self, thing: T) -> None:
        """Do the same as `append`: the place depends on the priority alone."""
        self.append(thing)

    def first(self) -> T:
        """The object that comes first. Raises IndexError if there is none."""
        heap = self._heap
        while heap[0][1] != heap[0][2].ticket:
            heappop(heap)
        return heap[0][2]

    def remove(self, thing: T) -> None:
        """Take out an object that is in this `Heads`."""
        thing.ticket = 0
        self._live -= 1

    def popleft(self) -> T:
        """Take out the object that comes first. Raises IndexError if there is none."""
        thing = self.first()
        heappop(self._heap)
        thing.ticket = 0
        self._live -= 1
        return thing


class _Group(Generic[T]):
    """The objects of one group."""

    def __init__(self, priority: Callable[[T], Priority]) -> None:
        self.heads: Heads[T] = Heads(priority)
        self.ticket = 0


class GroupedHeads(Generic[T]):
    """The same as a `Heads`, but the objects of the group at hand come before all others.

    Another group may be at hand at any moment. This changes nothing in the heaps, so it costs no
    time, however many objects there are.
    """

    def __init__(
        self,
        priority: Callable[[T], Priority],
        group_of: Callable[[T], int],
        at_hand: Callable[[], int],
    ) -> None:
        """`priority`: see Heads. `at_hand` returns the number of the group whose turn it is."""
        self._priority = priority
        self._group_of = group_of
        self._at_hand = at_hand
        self._groups: dict[int, _Group[T]] = {}
        # The groups that have objects, by their best objects.
        self._best: Heads[_Group[T]] = Heads(lambda group: priority(group.heads.first()))

    def __bool__(self) -> bool:  # see Heads
        return bool(self._best)

    def __len__(self) -> int:
        return sum([len(group.heads) for group in self._groups.values()])

    def append(self, thing: T) -> None:
        """See Heads.append. The group of an object must stay the same."""
        number = self._group_of(thing)
        group = self._groups.get(number)
        if group is None:
            group = self._groups[number] = _Group(self._priority)
        group.heads.append(thing)
        self._best.append(group)

    def first(self) -> T:
        """The object that comes first. Raises IndexError if there is none."""
        return self._first_group().heads.first()

    def popleft(self) -> T:
        """Take out the object that comes first. Raises IndexError if there is none."""
        group = self._first_group()
        thing = group.heads.popleft()
        if group.heads:
            self._best.append(group)
        else:
            self._best.remove(group)
        return thing

    def _first_group(self) -> _Group[T]:
        group = self._groups.get(self._at_hand())
        return group if group is not None and group.heads else self._best.first()


class Tiers(Generic[T]):
    """A queue for each tier, where all objects of a higher tier come first.

    There are only a few tiers, so the queues of empty ones are kept.
    """

    def __init__(self, tier_of: Callable[[T], int], new_queue: Callable[[], Any]) -> None:
        """`tier_of` returns the tier of an object, which never changes.

        `new_queue` makes the empty queue of a tier.
        """
        self._tier_of = tier_of
        self._new_queue = new_queue
        self._queues: dict[int, Any] = {}  # the highest tier first

    def __bool__(self) -> bool:  # see Heads
        return any(map(bool, self._queues.values()))

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def append(self, thing: T) -> None:
        """See Heads.append."""
        self._queue(thing).append(thing)

    def appendleft(self, thing: T) -> None:
        """Put in an object before the others of its tier."""
        self._queue(thing).appendleft(thing)

    def remove(self, thing: T) -> None:
        """Take out an object that is in this queue."""
        self._queue(thing).remove(thing)

    def first(self) -> T:
        """The object that comes first. Raises IndexError if there is none."""
        thing: T = self._first_queue().first()
        return thing

    def popleft(self) -> T:
        """Take out the object that comes first. Raises IndexError if there is none."""
        thing: T = self._first_queue().popleft()
        return thing

    def _queue(self, thing: T) -> Any:
        tier = self._tier_of(thing)
        if tier not in self._queues:
            queues = {**self._queues, tier: self._new_queue()}
            self._queues = dict(sorted(queues.items(), reverse=True))
        return self._queues[tier]

    def _first_queue(self) -> Any:
        for queue in self._queues.values():
            if queue:
                return queue
        raise IndexError("no object waits")
