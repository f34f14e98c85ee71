"""Which site comes next.

WAITING sites are in a heap, by the time of their next allowed request. With an order by scores, the
sites whose time has come move to a second heap. They are DUE, and the site with the best URL comes
first. If the store of URL-seen works with one group of sites at a time, the DUE sites of that group
come before the others. Then there is such a heap without scores, too. If `[[sites]]`
sets priorities, there is such a heap for each priority.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final, TypeAlias

from crawler.core.order import GroupedHeads, Heads, Priority, Tiers
from crawler.core.seen import SiteGroups
from crawler.core.visits import DUE, PARKED, WAITING, VisitState, tier_of

_Due: TypeAlias = "Heads[VisitState] | GroupedHeads[VisitState]"

_COUNTED: Final = 1000


class Schedule:
    """The sites of a workbench that wait for their time or their turn."""

    def __init__(
        self,
        priority: Callable[[VisitState], Priority] | None,
        groups: SiteGroups | None = None,
        *,
        has_tiers: bool = False,
    ) -> None:
        """`priority` returns the priority of a site's best URL; None without an order by scores.

        `groups`: if sites of the group at hand come first. `has_tiers`: if sites of higher tiers
        come before all others. Set `pass_turn` before anything else is
        called. It is called with each site whose turn has come but which must rest.
        """
        self.pass_turn: Callable[[VisitState], None]
        self._heap: list[tuple[float, int, VisitState]] = []
        self._turn = 0  # sites of equal time take turns
        self._priority, self._groups = priority, groups
        self._due: _Due | Tiers[VisitState] | None = None
        if has_tiers:
            self._due = Tiers(tier_of, self._new_due)
        elif groups is not None or priority is not None:
            self._due = self._new_due()

    def __bool__(self) -> bool:
        return bool(self._heap or self._due)

    def count(self, now: float) -> tuple[int, int]:
        """Count the sites whose time has come, and those whose time hasn't.

        At most `_COUNTED` sites of the first kind in the heap are told apart from the others.
        """
        heap, ready, at = self._heap, 0, [0]
        while at and ready < _COUNTED:  # children in a heap come no earlier than their parent
            place = at.pop()
            if place < len(heap) and heap[place][0] <= now:
                ready += 1
                at.append(2 * place + 1)
                at.append(2 * place + 2)
        due = 0 if self._due is None else len(self._due)
        return ready + due, len(heap) - ready

    def _new_due(self) -> "_Due":
        groups = self._groups
        if groups is None:
            return Heads(self._priority or _by_time)
        return GroupedHeads(
            self._priority or _by_time, lambda state: groups.group_of(state.site), groups.at_hand
        )

    def push(self, state: VisitState, time: float) -> None:
        """Put in a WAITING site, to come out at `time` or later."""
        self._turn += 1
        heappush(self._heap, (time, self._turn, state))

    def pop(self, now: float) -> VisitState | None:
        """Take out the first of the sites whose time has come. Returns None if there is none."""
        due = self._due
        while True:
            while (time := self._next_waiting()) is not None and time <= now:
                state = heappop(self._heap)[2]
                if due is None:
                    return state
                state.phase = DUE
                due.append(state)
            if not due:
                return None
            state = due.popleft()
            if state.next_time <= now:
                return state
            self._wait_again(state)

    def next_time(self, now: float) -> float | None:
        """The earliest time at which `pop` returns a site, or None if no site waits."""
        while self._due:
            if self._due.first().next_time <= now:
                return now
            self._wait_again(self._due.popleft())
        return self._next_waiting()

    def head_changed(self, state: VisitState) -> None:
        """Move a site to its new place among the others, because its best URL has changed."""
        if state.phase is DUE:
            assert self._due is not None
            self._due.append(state)
        elif state.phase is PARKED:
            assert state.address is not None
            state.address.parked.append(state)

    def _next_waiting(self) -> float | None:
        """The time of the WAITING site that comes first, or None."""
        heap = self._heap
        while heap and heap[0][2].next_time > heap[0][0]:  # told to rest since
            _, turn, state = heappop(heap)
            heappush(heap, (state.next_time, turn, state))
            self.pass_turn(state)
        return heap[0][0] if heap else None

    def _wait_again(self, state: VisitState) -> None:
        """Let a DUE site wait, because it has been told to rest since."""
        state.phase = WAITING
        self.push(state, state.next_time)
        self.pass_turn(state)


def _by_time(state: VisitState) -> Priority:
    return state.next_time, 0
