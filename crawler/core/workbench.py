"""The workbench: the sites of a rank that have URLs to fetch, and when each may be asked next.

The first URL of a site brings its VisitState into being. While the site waits, its state is in a
heap, by the time of its next allowed request. The life of a visit:

1. `acquire` takes a site whose time has come, and issues a Visit, the licence to fetch one URL of
   the site. It takes the site whose time came first. With an order by scores, it takes the site
   with the best URL. Sites of the group at hand (`seen.SiteGroups`) come before others.
2. The holder of the visit calls `begin` right before each request.
3. The holder gives the visit back exactly once, by `end`, and says what became of it (`Outcome`).

Only the workbench and its parts change visit states. Every operation costs O(log sites + log URLs).

    EMPTY   --enqueue-->                   WAITING
    WAITING --acquire-->                   DUE           (by scores or in groups: its time has come)
    DUE     --acquire, next_time-->        WAITING                (the site must rest first)
    WAITING | DUE --acquire-->             BUSY | WAITING | EMPTY (BUSY: no connection is free)
    WAITING | DUE --acquire-->             PARKED                 (the site's address isn't free)
    PARKED  --end-->                       WAITING                (a visit to the address has ended)
    BUSY | EMPTY --end, begin-->           WAITING | EMPTY | PARKED
    EMPTY | WAITING | DUE --enqueue, acquire--> AWAY              (the clock is at another rank)
    AWAY    --clock_arrives-->             WAITING | BUSY
    WAITING | DUE --acquire-->             HELD                   (the site waits for another site)
    BUSY    --end with HELD-->             HELD
    HELD    --wake, enqueue_errand-->      WAITING | BUSY | AWAY
    AWAY | BUSY | HELD --drain-->          EMPTY                  (the URLs of the site leave)
    WAITING | DUE --acquire-->             EMPTY                  (they have left before)

With `politeness.per = "address"` the sites of one IP address share a clock, an Address. The address
of a site becomes known when DNS has answered for one of its visits (`locate`). If the address of a
site isn't free, the site is parked there. When the address becomes free, the parked sites take
turns.

A clock that ranks share has a Lease. Only the rank that holds the lease issues visits. If the clock
of a WAITING site leaves, the site stays in the heap, and becomes AWAY when its time has come.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from crawler import config, url
from crawler.core.addresses import Addresses
from crawler.core.backlog import Backlog
from crawler.core.courtesy import Courtesy
from crawler.core.failures import Failures
from crawler.core.leases import Lease, Leases
from crawler.core.order import BreadthFirst, Heads, Priority, Tiers
from crawler.core.outcomes import BUSY as TOO_BUSY
from crawler.core.outcomes import DENIED, DONE, FAILED, POSTPONED, STILL_HELD, Outcome
from crawler.core.schedule import Schedule
from crawler.core.seen import SiteGroups
from crawler.core.sharing import Sharing
from crawler.core.states import States
from crawler.core.visits import (
    AWAY,
    BUSY,
    EMPTY,
    HELD,
    PARKED,
    WAITING,
    Address,
    Parked,
    SiteCounts,
    Visit,
    VisitState,
    tier_of,
)
from crawler.ports import CrawlUrl, Spill

_NO_PRIORITY: Final[Priority] = (0.0, 0)


class Workbench:
    """Takes in the URLs of a rank, and issues visits to its sites.

    Its parts are `backlog` (the URLs that wait), `states` (the visit states), `failures` (hosts
    that fail), and `sharing` (clocks that ranks share; None if there is a single rank).
    """

    def __init__(
        self,
        politeness: config.Politeness,
        retry: config.Retry,
        order: BreadthFirst | None = None,
        spill: Spill | None = None,
        memory: int = sys.maxsize,
        leases: Leases | None = None,
        groups: SiteGroups | None = None,
        overrides: config.Overrides | None = None,
    ) -> None:
        """`memory`: how many URLs may wait in memory; the others go to `spill`, if that is given.

        `leases`: the leases of the clocks that ranks share. `politeness.per` says whether the
        clocks belong to sites or to addresses. `groups`: if sites of one group come before others.
        `overrides`: what `[[sites]]` says of some sites.
        """
        courtesy = Courtesy(politeness, overrides or config.Overrides())
        self._has_tiers = courtesy.has_priorities
        self._by_address = courtesy.by_address
        self._max_crawl_delay_s = courtesy.max_crawl_delay_s
        self._states: dict[str, VisitState] = {}
        self.backlog = Backlog(order or BreadthFirst(), spill, memory, self._states)
        self.failures = Failures(retry)
        self.states = States(courtesy, leases, self.failures, self._states, self.backlog.new_queue)
        self._priority = self.backlog.priority if self.backlog.by_scores else None
        self._schedule = Schedule(self._priority, groups, has_tiers=self._has_tiers)
        self._addresses = Addresses(courtesy, leases, self._new_parked, self._schedule.push)
        self._schedule.pass_turn = self._addresses.pass_turn
        self.backlog.head_changed = self._schedule.head_changed
        self.sharing: Sharing | None = None
        if leases is not None:
            self.sharing = Sharing(leases, courtesy, self.states, self._addresses, self._settle)

    def __repr__(self) -> str:
        return f"<Workbench: {len(self._states)} sites, {self.backlog.waiting} URLs waiting>"

    def enqueue(self, found: CrawlUrl, links: int = 1, low: bool = False) -> None:
        """Take in a new URL, to which `links` known links lead.

        `low`: the URL comes only when no other URL of its site waits.
        """
        state = self._states.get(found.site)
        if state is None:
            state = self.states.make(found.site)
        self.backlog.add(state, found, links, low)
        if state.phase is EMPTY:
            self._settle(state)

    def restore(self, found: CrawlUrl, score: float) -> None:
        """Take in a URL with its score: from `Backlog.drain` of an earlier run or from a server."""
        state = self.states.find(found.site)
        self.backlog.restore(state, found, score)
        if state.phase is EMPTY:
            self._settle(state)

    def drain(self, leaves: Callable[[str], bool]) -> Iterator[tuple[CrawlUrl, float]]:
        """Take out the URLs of the sites that leave, but no errands, each with its score.

        Exhaust the iterator. Call this only while no visit is open.
        """
        states = [state for site, state in self._states.items() if leaves(site)]
        yield from self.backlog.drain(states)
        for state in states:
            if state.phase is AWAY or state.phase is BUSY or state.phase is HELD:
                self._settle(state)  # others are in a heap: `acquire` meets them there

    def acquire(self, now: float) -> Visit | None:
        """A visit to the site that comes first of those that may be asked now, or None."""
        self.states.now = self._addresses.now = now
        while (state := self._schedule.pop(now)) is not None:
            if (state.on_hold or not state.queue.size) and not state.errands:
                self._settle(state)
                self._addresses.pass_turn(state)
            elif state.lease is not None and not state.lease.held:
                self._settle(state)
            elif state.address is None or self._addresses.is_free(state.address, state, now):
                return self._issue(state, now)
            else:
                self._addresses.park(state)
        return None

    def locate(self, visit: Visit, address: str, now: float) -> bool:
        """Whether the visit may go on to `address`, the IP address of its host.

        If not, this call has given the visit back, and its site is parked until the address is
        free.
        """
        if not self._by_address:
            return True
        state = visit.state
        assert state is not None, visit.found
        its = self._addresses.find(address, self.states.rest_of)
        if its.lease is not None:
            self.states.apply_rest(state, its.lease)
        held = visit.address
        if held is its:
            return True
        if state.address is not its:
            self._addresses.move(state, its)
        if held is not None:
            self._addresses.leave(visit)
            self._addresses.next_turn(held)
            if held.lease is not None:
                self._look_at(held.lease)
        if state.next_time <= now and self._addresses.is_free(its, state, now):
            self._addresses.hold(visit, its)
            return True
        self._give_back(visit, None)
        self._requeue(visit, state)
        if state.phase in {EMPTY, BUSY, HELD}:
            self._addresses.park(state)
        return False

    def begin(self, visit: Visit, now: float, *, crawl_delay_s: float | None = None) -> bool:
        """Whether the request of a visit may start now. If not, this call has given the visit back.

        Call this right before each request. `crawl_delay_s`: the delay that the robots.txt of the
        site asks for, if known. With several connections the delay counts from the start of one
        request to the start of the next. Since the visit was issued, the site may have asked for a
        longer delay or a rest, or its clock may have left for another rank.
        """
        state, address = visit.state, visit.address
        assert state is not None, visit.found
        if state.connections == 1:
            return True  # the site has no other visit, so nothing has changed
        self._lengthen(state, crawl_delay_s)
        if not self._may_begin(state, now) or not (
            address is None or self._may_begin(address, now)
        ):
            self.end(visit, POSTPONED, now)
            return False
        if not visit.has_begun:
            self._has_begun(visit, state, address)
        visit.begun = state.begun = now
        state.next_time = now + state.delay_s
        lease = state.lease if address is None else address.lease
        if address is not None:
            address.next_time = max(address.next_time, now + state.delay_s)
            self._addresses.next_turn(address)
        if lease is not None:
            lease.used = True
            self._look_at(lease)
        if state.phase is BUSY:
            self._settle(state)
        return True

    def _has_begun(self, visit: Visit, state: VisitState, address: Address | None) -> None:
        """Note that the request has begun, so that another visit may be issued."""
        visit.has_begun = True
        state.unbegun -= 1
        if address is not None:
            address.unbegun -= 1

    def _may_begin(self, clock: VisitState | Address, now: float) -> bool:
        return clock.next_time <= now and (clock.lease is None or clock.lease.held)

    def _lengthen(self, state: VisitState, crawl_delay_s: float | None) -> None:
        """Note the delay that a robots.txt asks for.

        If the hosts of a site ask for different delays, the longest counts.
        """
        if crawl_delay_s is None:
            return
        delay_s = min(crawl_delay_s, self._max_crawl_delay_s)
        if delay_s > state.delay_s:
            state.delay_s = delay_s
            if state.connections > 1:
                state.next_time = max(state.next_time, state.begun + delay_s)

    def end(
        self,
        visit: Visit,
        outcome: Outcome,
        now: float,
        *,
        crawl_delay_s: float | None = None,
        retry_after_s: float | None = None,
    ) -> bool:
        """Give back a visit. Returns whether its URL is dealt with; if not, the URL waits again.

        `outcome` decides about the URL and the site. `crawl_delay_s`: the delay that the robots.txt
        of the site asks for, if known. `retry_after_s`: the rest that a busy server asks for.
        Raises RuntimeError if the visit was given back before.
        """
        address = visit.address
        state = self._give_back(visit, crawl_delay_s)
        over = True
        if outcome is DONE:
            if self.failures.in_a_row:
                self._forgive(visit, state, address)
        elif outcome is FAILED or outcome is TOO_BUSY:
            busy = outcome is TOO_BUSY
            over = self._blame(visit, state, address, now, busy=busy, retry_after_s=retry_after_s)
        elif outcome is not DENIED:
            over = False
            self._requeue(visit, state)
            if outcome is Outcome.HELD or outcome is STILL_HELD:
                state.on_hold = True
                if state.phase is AWAY:  # the site may not need the clock any more
                    self._settle(state)
        asked = outcome is DONE or not (
            outcome is DENIED or outcome is POSTPONED or outcome is STILL_HELD
        )
        self._rest(state, address, now, requested=asked)
        return over

    def _forgive(self, visit: Visit, state: VisitState, address: Address | None) -> None:
        """Forget the failures of a host that has answered."""
        authority = url.authority(visit.found.url)
        if self.failures.forget(authority) and self.sharing is not None:
            self.sharing.tell(state, address, {authority: 0})

    def _blame(
        self,
        visit: Visit,
        state: VisitState,
        address: Address | None,
        now: float,
        *,
        busy: bool,
        retry_after_s: float | None,
    ) -> bool:
        """Count a failed request, and let the site rest. Returns whether its URL is dealt with."""
        failures, authority = self.failures, url.authority(visit.found.url)
        again = failures.count(visit, authority)
        if again:
            self._requeue(visit, state)
        rest_s = failures.rest_s(visit, authority, busy=busy, retry_after_s=retry_after_s)
        if rest_s is not None:
            state.next_time = max(state.next_time, now + rest_s)
        if self.sharing is not None:
            self.sharing.tell(state, address, {authority: failures.in_a_row[authority]})
        return not again

    def wake(self, site: str) -> None:
        """Let a site go on, if it is held."""
        state = self._states.get(site)
        if state is not None and state.on_hold:
            state.on_hold = False
            if state.phase is HELD:
                self._settle(state)

    def enqueue_errand(self, found: CrawlUrl) -> None:
        """Take in an errand, which comes before all URLs of its site.

        Errands are visited even while the site is held. Otherwise two sites could wait for each
        other forever.
        """
        state = self.states.find(found.site)
        self.backlog.add_errand(state, found)
        if state.phase is EMPTY or state.phase is HELD:
            self._settle(state)

    def count_sites(self, now: float) -> SiteCounts:
        """Count the sites that have URLs and no request, and the hosts that fail."""
        ready, resting = self._schedule.count(now)
        return SiteCounts(ready, resting, len(self.failures.in_a_row))

    def rests_beyond(self, site: str, time: float) -> bool:
        """Whether no page of a site can be asked for until after a time, as far as is known."""
        state = self._states.get(site)
        if state is None:
            return False
        waits = state.on_hold or state.phase is PARKED
        return waits or state.next_time > time

    def next_time(self) -> float | None:
        """The earliest time at which `acquire` may succeed, or None if no site waits for a time."""
        return self._schedule.next_time(self.states.now)

    def _issue(self, state: VisitState, now: float) -> Visit:
        priority = _NO_PRIORITY if self._priority is None else self._priority(state)
        found = self.backlog.pop(state)
        failing = self.failures.in_a_row
        failures = failing.get(url.authority(found.url), 0) if failing else 0
        retries = self.failures.take_retries(found.key)
        visit = Visit(found, priority, state, retries, failures, now)
        state.active += 1
        if state.lease is not None:
            state.lease.free -= 1
        if state.connections > 1:  # then the delay counts from start to start
            visit.has_begun = False
            state.unbegun += 1
        if state.address is not None:
            self._addresses.hold(visit, state.address)
        self._settle(state)
        if self.states.resting:
            self.states.forget_some(now)
        return visit

    def _give_back(self, visit: Visit, crawl_delay_s: float | None) -> VisitState:
        state, address = visit.close(), visit.address
        assert state.active > 0, state
        state.active -= 1
        if not visit.has_begun:
            self._has_begun(visit, state, address)
        if state.lease is not None:
            state.lease.free_connection()
        if address is not None:
            self._addresses.leave(visit)
        if crawl_delay_s is not None and crawl_delay_s > state.delay_s:
            state.begun = max(state.begun, visit.begun)
            self._lengthen(state, crawl_delay_s)
            if address is not None and state.connections > 1:
                address.next_time = max(address.next_time, visit.begun + state.delay_s)
            if self.sharing is not None:
                self.sharing.tell(state, address, {})
        return state

    def _requeue(self, visit: Visit, state: VisitState) -> None:
        """Let the URL of a visit wait again, before the others of its site."""
        self.backlog.put_back(state, visit.found, visit.priority)
        self.failures.put_back(visit)

    def _rest(
        self, state: VisitState, address: Address | None, now: float, *, requested: bool
    ) -> None:
        """Set the clocks after a visit, and let the next visits come.

        `address`: the address that the visit held a connection to, if any. `requested`: whether the
        visit made a request.
        """
        if requested and state.connections == 1:
            free = now + state.delay_s
            state.next_time = max(state.next_time, free)
            if address is not None:
                address.next_time = max(address.next_time, free)
        if address is not None:
            self._addresses.next_turn(address)
            if address.lease is not None:
                self._look_at(address.lease)
        if state.lease is not None:
            self._look_at(state.lease)
        if state.phase is EMPTY or state.phase is BUSY or state.phase is HELD:
            self._settle(state)

    def _settle(self, state: VisitState) -> None:
        """Bring a state that isn't in the heap into the phase that its queue and clock call for."""
        if not state.has_work():
            state.phase = HELD if state.queue.size else EMPTY
            if state.phase is EMPTY and not (state.active or state.resting):
                self.states.let_rest(state)
            return
        lease = state.lease
        if lease is None:
            has_room = state.active < state.connections
        elif lease.held:
            has_room = lease.free > 0
        else:
            state.phase = AWAY
            assert self.sharing is not None
            self.sharing.leases.mark(lease)
            return
        if has_room and not (state.paced and state.unbegun):
            state.phase = WAITING
            self._schedule.push(state, state.next_time)
        else:
            state.phase = BUSY

    def _new_parked(self) -> Parked:
        """An empty queue for the sites that are parked at an address."""
        return Tiers(tier_of, self._new_turns) if self._has_tiers else self._new_turns()

    def _new_turns(self) -> deque[VisitState] | Heads[VisitState]:
        return deque() if self._priority is None else Heads(self._priority)

    def _look_at(self, lease: Lease) -> None:
        assert self.sharing is not None
        self.sharing.look_at(lease)
