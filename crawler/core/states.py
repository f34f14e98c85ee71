"""The visit states of a rank: how they are made, and when they are forgotten.

A crawl sees millions of sites, so a rank can't keep the states of all. It keeps a state while the
site has URLs or visits, or must rest. If another rank may need more about a forgotten site, this is
kept in the lease of the site's clock; a crawl-delay of a site without a lease is kept by `States`.
"""

from collections import deque
from collections.abc import Callable, Mapping
from math import inf
from typing import Final

from crawler.core.courtesy import Courtesy
from crawler.core.failures import Failures
from crawler.core.leases import Lease, Leases
from crawler.core.order import Queue
from crawler.core.visits import EMPTY, VisitState

_STATE_BYTES: Final = 900  # of a state, with its name, its entry in the schedule and its queue
_NOTE_BYTES: Final = 180  # of a number that is kept for a site


class States:
    """All visit states, by site. Keep `now` up to date: a new state may be visited from then on.

    `resting` holds the states that may be forgotten in time. An EMPTY state without visits must be
    among them.
    """

    def __init__(
        self,
        courtesy: Courtesy,
        leases: Leases | None,
        failures: Failures,
        by_site: dict[str, VisitState],
        new_queue: Callable[[str], Queue],
    ) -> None:
        """`by_site`: an empty dictionary for the states, which others may read.

        `leases`: those of the clocks that ranks share. `new_queue` makes the queue of a site.
        """
        self.now = 0.0
        self.by_site = by_site
        self.rests: dict[str, float] = {}  # when rests of earlier runs end, by site and address
        self.resting: deque[VisitState] = deque()
        self._courtesy = courtesy
        self._killed = -inf  # when the last run may have made requests that no log has
        self._site_leases = None if courtesy.by_address else leases
        self._is_shared = leases is not None
        self._failures = failures
        self._new_queue = new_queue
        # Crawl-delays of forgotten sites: another rank may borrow their clocks.
        self._crawl_delays: dict[str, float] = {}

    def nbytes(self) -> int:
        """About how many bytes of memory all of this takes."""
        notes = len(self.rests) + len(self._crawl_delays)
        return _STATE_BYTES * len(self.by_site) + _NOTE_BYTES * notes

    def find(self, site: str) -> VisitState:
        """The state of a site, which is made if there is none."""
        return self.by_site.get(site) or self.make(site)

    def make(self, site: str) -> VisitState:
        """Make the state of a site that has none.

        The site comes after the sites that are due already, so that new sites don't delay these.
        """
        courtesy, lease = self._courtesy, None
        delay_s = courtesy.delay_s(site)
        time = max(self.now, self.rest_of(site))
        if self._site_leases is not None:
            lease = self._site_leases.of(site)
        if self._crawl_delays:
            delay_s = self._crawl_delays.pop(site, delay_s)
        state = VisitState(
            site,
            self._new_queue(site),
            delay_s,
            time,
            lease,
            courtesy.connections(site),
            courtesy.priority(site),
            paced=courtesy.is_paced(site),
        )
        self.by_site[site] = state
        if lease is not None:
            state.next_time, state.begun = max(time, lease.next_time), lease.begun
            self.apply_rest(state, lease)
        return state

    def make_resting(self, site: str) -> VisitState:
        """Make the state of a site that has no URL here, but whose clock another rank wants."""
        state = self.make(site)
        self.let_rest(state)
        return state

    def apply_rest(self, state: VisitState, lease: Lease) -> None:
        """Apply what other ranks have learned of a site, and noted in the lease of a clock."""
        rest = lease.rests.get(state.site)
        if rest is not None:
            state.next_time = max(state.next_time, rest.next_time)
            state.delay_s = max(state.delay_s, rest.delay_s)
            self._failures.learn(rest.failures)

    def hold_back(self, until: Mapping[str, float]) -> None:
        """Let sites and addresses rest until these times, because an earlier run asked them."""
        self.rests |= until
        for state in self.by_site.values():
            state.next_time = max(state.next_time, until.get(state.site, 0.0))

    def rest_of(self, key: str) -> float:
        """Return until when a new site or address must rest after earlier runs; 0 or less if not.

        Call this once for a key, because it forgets the rest.
        """
        rest = self.rests.pop(key, 0.0) if self.rests else 0.0
        return max(rest, self._killed + self._courtesy.longest_delay_s(key))

    def rest_from(self, time: float) -> None:
        """Let each site rest from `time` for its delay, because it may have been asked then."""
        self._killed = time
        for state in self.by_site.values():
            state.next_time = max(state.next_time, time + state.delay_s)

    def let_rest(self, state: VisitState) -> None:
        """Have an EMPTY state forgotten in time, unless it gets work before."""
        state.resting = True
        self.resting.append(state)

    def forget_some(self, now: float) -> None:
        """Examine the two oldest resting states, and forget those that aren't needed any more."""
        for _ in range(min(2, len(self.resting))):
            state = self.resting.popleft()
            state.resting = False
            if state.phase is EMPTY and not state.active:
                if state.next_time > now:
                    self.let_rest(state)
                else:
                    self._forget(state)

    def _forget(self, state: VisitState) -> None:
        lease = state.lease
        if lease is not None:
            lease.next_time = max(state.next_time, lease.next_time)
            lease.begun = max(state.begun, lease.begun)
        elif self._is_shared and state.delay_s > self._courtesy.delay_s(state.site):
            self._crawl_delays[state.site] = state.delay_s
        del self.by_site[state.site]
