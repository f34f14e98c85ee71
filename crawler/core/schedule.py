"""Which site comes next: a heap of sites by their time, and with an order by scores a second one.

WAITING sites are in the heap by the time of their next allowed request. With an order by scores,
those whose time has come are DUE, and the one with the best URL comes first.
"""

from collections.abc import Callable
from heapq import heappop, heappush

from crawler.core.order import Heads, Priority
from crawler.core.visits import DUE, PARKED, WAITING, VisitState


class Schedule:
    """The sites of a workbench that wait for their time or their turn."""

    def __init__(self, priority: Callable[[VisitState], Priority] | None) -> None:
        """`priority`: of a site by its best URL; None without an order by scores.

        Set `pass_turn` before anything else is called. It hears of each site that came to its turn
        but has to rest.
        """
        self.pass_turn: Callable[[VisitState], None]
        self._heap: list[tuple[float, int, VisitState]] = []
        self._turn = 0  # sites of equal time take turns
        self._due = None if priority is None else Heads(priority)

    def __bool__(self) -> bool:
        return bool(self._heap or self._due)

    def push(self, state: VisitState, time: float) -> None:
        """Put in a site that is WAITING, until a time."""
        self._turn += 1
        heappush(self._heap, (time, self._turn, state))

    def pop(self, now: float) -> VisitState | None:
        """Take out the site that comes first of those whose time has come."""
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
        """When `pop` gives a site; None if none waits."""
        while self._due:
            if self._due.first().next_time <= now:
                return now
            self._wait_again(self._due.popleft())
        return self._next_waiting()

    def head_changed(self, state: VisitState) -> None:
        """Let a site stand where its best URL puts it, if it stands among others."""
        if state.phase is DUE:
            assert self._due is not None
            self._due.append(state)
        elif state.phase is PARKED:
            assert state.address is not None
            state.address.parked.append(state)

    def _next_waiting(self) -> float | None:
        """When the time of the next WAITING site comes."""
        heap = self._heap
        while heap and heap[0][2].next_time > heap[0][0]:  # it has been told to rest since
            _, turn, state = heappop(heap)
            heappush(heap, (state.next_time, turn, state))
            self.pass_turn(state)
        return heap[0][0] if heap else None

    def _wait_again(self, state: VisitState) -> None:
        """Let a DUE site wait that has been told to rest since."""
        state.phase = WAITING
        self.push(state, state.next_time)
        self.pass_turn(state)
