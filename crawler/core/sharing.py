"""What the clocks that ranks share mean for the sites on a workbench.

`crawler.core.clocks` moves clocks from rank to rank. It asks `Sharing` whether a clock is needed,
and tells `Sharing` when a clock leaves or arrives.
"""

from collections.abc import Callable

from crawler.core.addresses import Addresses
from crawler.core.courtesy import Courtesy
from crawler.core.leases import Lease, Leases, Rest
from crawler.core.states import States
from crawler.core.visits import AWAY, BUSY, Address, VisitState


class Sharing:
    """Connects the leases of a rank with the sites and addresses that the clocks belong to."""

    def __init__(
        self,
        leases: Leases,
        courtesy: Courtesy,
        states: States,
        addresses: Addresses,
        settle: Callable[[VisitState], None],
    ) -> None:
        """`settle` brings a visit state into the phase that its queue and its clock call for."""
        self.leases = leases
        self.courtesy = courtesy
        self._by_address = courtesy.by_address
        self._states = states
        self._addresses = addresses
        self._settle = settle

    # --- for the clocks -----------------------------------------------------------------------

    def wants_clock(self, lease: Lease) -> bool:
        """Whether URLs that need a clock wait at this rank."""
        if self._by_address:
            its = self._addresses.leased.get(lease.key)
            return its is not None and bool(its.parked or its.turn)
        state = self._states.by_site.get(lease.key)
        return state is not None and state.has_work()

    def share(self, lease: Lease) -> None:
        """Make a clock that this rank has used alone a clock that ranks share."""
        states = self._states
        state = states.by_site.get(lease.key) or states.make_resting(lease.key)
        state.lease = lease
        lease.held, lease.free = True, lease.connections - state.active
        self.tell(state, None, {})

    def is_in_use(self, lease: Lease) -> bool:
        """Whether visits of this rank hold connections of a clock."""
        clock = self.clock(lease)
        return clock is not None and clock.active > 0

    def is_about_to_begin(self, lease: Lease) -> bool:
        """Whether visits have been issued whose requests have not started."""
        clock = self.clock(lease)
        return clock is not None and clock.unbegun > 0

    def next_request(self, lease: Lease) -> float:
        """The earliest time at which a clock allows a request."""
        clock = self.clock(lease)
        return lease.next_time if clock is None else clock.next_time

    def clock_leaves(self, lease: Lease) -> None:
        """Bring the lease up to date for the next holder of the clock."""
        clock = self.clock(lease)
        if clock is not None:
            lease.next_time = max(clock.next_time, lease.next_time)
        if isinstance(clock, VisitState):
            lease.begun = max(clock.begun, lease.begun)

    def clock_arrives(self, lease: Lease) -> None:
        """Let the sites of an arrived clock go on. `lease` says what the last holder knew."""
        for site in lease.rests:
            state = self._states.by_site.get(site)
            if state is not None:
                self._states.apply_rest(state, lease)
        clock = self.clock(lease)
        if clock is None:
            return
        clock.next_time = max(clock.next_time, lease.next_time)
        if isinstance(clock, Address):
            self._addresses.next_turn(clock)
            return
        clock.begun = max(clock.begun, lease.begun)
        if lease.connections > 1:
            clock.next_time = max(clock.next_time, clock.begun + clock.delay_s)
        if clock.phase is AWAY or clock.phase is BUSY:
            self._settle(clock)

    def clock(self, lease: Lease) -> VisitState | Address | None:
        """The site or address of a clock, or None if the workbench doesn't know it."""
        if self._by_address:
            return self._addresses.leased.get(lease.key)
        return self._states.by_site.get(lease.key)

    # --- for the workbench --------------------------------------------------------------------

    def look_at(self, lease: Lease) -> None:
        """Mark a lease after a visit, if its clock may leave or a connection must follow it."""
        if lease.contested or lease.ended:
            self.leases.mark(lease)

    def tell(self, state: VisitState, address: Address | None, failures: dict[str, int]) -> None:
        """Note in the lease what this rank has learned of a site, for the next holder of the clock.

        `address`: the site's address, if known. `failures`: the hosts whose failures in a row have
        changed, with the new numbers.
        """
        lease = state.lease
        if self._by_address:
            lease = None if address is None else address.lease
        if lease is not None:
            before = lease.rests.get(state.site)
            if before is not None:
                failures = before.failures | failures
            lease.rests[state.site] = Rest(state.next_time, state.delay_s, failures)
