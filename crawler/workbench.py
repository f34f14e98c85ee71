"""The workbench: sites with URLs to fetch, and when each may be asked next.

A site's VisitState is born with its first URL and waits in a heap by the time of its next allowed
request. `acquire` takes the earliest site whose time has come and issues a Visit, the licence to
fetch one URL of it. The holder gives the visit back exactly once: `release` when the URL is dealt
with, `put_back` when it is to be tried again. Nobody else touches a visit state. Every operation
costs O(log sites).

    EMPTY --enqueue--> WAITING --acquire--> BUSY | WAITING | EMPTY      (BUSY: no connection free)
    BUSY | EMPTY --release, put_back--> WAITING | EMPTY
"""

from collections import deque
from enum import Enum
from heapq import heappop, heappush

from crawler import config
from crawler.ports import Found


class Phase(Enum):
    EMPTY = "empty"  # nothing queued; requests may be under way
    WAITING = "waiting"  # in the heap, for its time or its turn
    BUSY = "busy"  # URLs queued, but every allowed connection in use


class VisitState:
    """One site's queue, clock and phase."""

    __slots__ = ("active", "delay_s", "next_time", "phase", "queue", "resting", "site")

    def __init__(self, site: str, delay_s: float, now: float) -> None:
        self.site = site
        self.queue: deque[Found] = deque()
        self.phase = Phase.EMPTY
        self.active = 0  # visits issued and not given back
        self.next_time = now
        self.delay_s = delay_s
        self.resting = False  # in the workbench's queue of states to be forgotten

    def __repr__(self) -> str:
        return (
            f"<{self.site}: {self.phase.value}, {len(self.queue)} queued, {self.active} active,"
            f" next at {self.next_time:.3f}>"
        )


class Visit:
    """The licence to fetch one URL."""

    __slots__ = ("_state", "found")

    def __init__(self, found: Found, state: VisitState) -> None:
        self.found = found
        self._state: VisitState | None = state

    def close(self) -> VisitState:
        """End the licence and give its site; a second time raises."""
        if self._state is None:
            raise RuntimeError(f"visit to {self.found.url} given back twice")
        state, self._state = self._state, None
        return state


class Workbench:
    """All visit states of a rank. `waiting` and `active` count URLs."""

    def __init__(self, politeness: config.Politeness) -> None:
        self._politeness = politeness
        self._connections = politeness.connections_per_site
        self._states: dict[str, VisitState] = {}
        self._heap: list[tuple[float, int, VisitState]] = []
        self._turn = 0  # sites of equal time take turns
        self._now = 0.0  # as last heard
        self._resting: deque[VisitState] = deque()  # EMPTY states, to be forgotten in time
        self.waiting = 0
        self.active = 0
        self.enqueued = 0  # URLs ever taken in: the rank's load

    def __repr__(self) -> str:
        return (
            f"<Workbench: {len(self._states)} sites, {self.waiting} waiting, {self.active} active>"
        )

    def enqueue(self, found: Found) -> None:
        """Take in a URL that was never seen before."""
        state = self._states.get(found.site)
        if state is None:
            # Behind the sites that are due already, so that new ones don't keep these waiting.
            state = VisitState(found.site, self._politeness.delay_s, self._now)
            self._states[found.site] = state
        state.queue.append(found)
        self.waiting += 1
        self.enqueued += 1
        if state.phase is Phase.EMPTY:
            self._settle(state)

    def acquire(self, now: float) -> Visit | None:
        """A visit to the site that has waited longest for its turn, if any may be asked now."""
        self._now = now
        if not self._heap or self._heap[0][0] > now:
            return None
        state = heappop(self._heap)[2]
        assert state.phase is Phase.WAITING, state
        assert state.queue, state
        visit = Visit(state.queue.popleft(), state)
        state.active += 1
        self.waiting -= 1
        self.active += 1
        if self._connections > 1:  # then the delay counts from start to start
            state.next_time = now + state.delay_s
        state.phase = Phase.EMPTY
        self._settle(state)
        self._forget(now)
        return visit

    def release(
        self, visit: Visit, now: float, *, requested: bool, crawl_delay_s: float | None = None
    ) -> None:
        """Give back a visit whose URL is dealt with.

        `requested`: the site was bothered, so its delay begins. `crawl_delay_s` is what its
        robots.txt asks for.
        """
        state = self._give_back(visit, crawl_delay_s)
        self._rest(state, now, requested=requested)

    def put_back(self, visit: Visit, now: float, *, crawl_delay_s: float | None = None) -> None:
        """Give back a visit that asked the site for something else, its robots.txt; the URL comes
        before the others of its site."""
        state = self._give_back(visit, crawl_delay_s)
        state.queue.appendleft(visit.found)
        self.waiting += 1
        self._rest(state, now, requested=True)

    def next_time(self) -> float | None:
        """When `acquire` can succeed next, as far as is known; None: not before something comes."""
        return self._heap[0][0] if self._heap else None

    def _give_back(self, visit: Visit, crawl_delay_s: float | None) -> VisitState:
        state = visit.close()
        assert state.active > 0, state
        state.active -= 1
        self.active -= 1
        if crawl_delay_s is not None:  # the longest, where hosts of a site ask for different ones
            longest = self._politeness.max_crawl_delay_s
            state.delay_s = max(state.delay_s, min(crawl_delay_s, longest))
        return state

    def _rest(self, state: VisitState, now: float, *, requested: bool) -> None:
        if requested and self._connections == 1:
            state.next_time = now + state.delay_s
        if state.phase is not Phase.WAITING:
            self._settle(state)
        if state.phase is Phase.EMPTY and not state.active and not state.resting:
            state.resting = True
            self._resting.append(state)

    def _settle(self, state: VisitState) -> None:
        """Bring a state that isn't in the heap into the phase that its queue calls for."""
        if not state.queue:
            state.phase = Phase.EMPTY
        elif state.active >= self._connections:
            state.phase = Phase.BUSY
        else:
            state.phase = Phase.WAITING
            self._turn += 1
            heappush(self._heap, (state.next_time, self._turn, state))

    def _forget(self, now: float) -> None:
        """Drop a state or two that stand for nothing any more; a crawl sees millions of sites."""
        for _ in range(min(2, len(self._resting))):
            state = self._resting.popleft()
            state.resting = False
            if state.phase is Phase.EMPTY and not state.active:
                if state.next_time > now:
                    state.resting = True
                    self._resting.append(state)
                else:
                    del self._states[state.site]
