"""What the clocks that ranks share mean for the sites on a workbench.

`crawler.core.clocks` moves clocks from rank to rank. It asks here whether one is needed, and tells
here when one leaves or arrives.
"""

from collections.abc import Callable

from crawler import config
from crawler.core.addresses import Addresses
from crawler.core.leases import Lease, Leases, Rest
from crawler.core.states import States
from crawler.core.visits import AWAY, BUSY, Address, VisitState


class Sharing:
    """The leases of a rank, seen from the sites and addresses whose clocks they are."""

    def __init__(
        self,
        leases: Leases,
        politeness: config.Politeness,
        states: States,
        addresses: Addresses,
        settle: Callable[[VisitState], None],
    ) -> None:
        """`settle` brings a visit state into the phase that its queue and its clock call for."""
        self.leases = leases
        self._by_address = politeness.per == "address"
        self._connections = politeness.connections_per_site
        self._states = states
        self._addresses = addresses
        self._settle = settle

    # --- for the clocks -----------------------------------------------------------------------

    def wants_clock(self, lease: Lease) -> bool:
        """Whether URLs wait here that need this clock."""
        if self._by_address:
            its = self._addresses.leased.get(lease.key)
            return its is not None and bool(its.parked or its.turn)
        state = self._states.by_site.get(lease.key)
        return state is not None and state.has_work()

    def share(self, lease: Lease) -> None:
        """Let the clock of a site, which was this rank's alone, be one that ranks share."""
        state = self._states.by_site.get(lease.key) or self._states.make_resting(lease.key)
        state.lease = lease
        lease.held, lease.free = True, self._connections - state.active
        self.tell(state, None, {})

    def is_in_use(self, lease: Lease) -> bool:
        """Whether visits hold connections of this clock here."""
        clock = self.clock(lease)
        return clock is not None and clock.active > 0

    def is_about_to_begin(self, lease: Lease) -> bool:
        """Whether visits have been issued whose requests have not started."""
        clock = self.clock(lease)
        return clock is not None and clock.unbegun > 0

    def next_request(self, lease: Lease) -> float:
        """The time before which this clock allows no request."""
        clock = self.clock(lease)
        return lease.next_time if clock is None else clock.next_time

    def clock_leaves(self, lease: Lease) -> None:
        """Bring up to date what the next holder of the clock must know."""
        clock = self.clock(lease)
        if clock is not None:
            lease.next_time = max(clock.next_time, lease.next_time)
        if isinstance(clock, VisitState):
            lease.begun = max(clock.begun, lease.begun)

    def clock_arrives(self, lease: Lease) -> None:
        """Let the sites go on whose clock is here now; `lease` has been brought up to date."""
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
        if self._connections > 1:
            clock.next_time = max(clock.next_time, clock.begun + clock.delay_s)
        if clock.phase is AWAY or clock.phase is BUSY:
            self._settle(clock)

    def clock(self, lease: Lease) -> VisitState | Address | None:
        """The site or address whose clock this is, if the workbench knows it."""
        if self._by_address:
            return self._addresses.leased.get(lease.key)
        return self._states.by_site.get(lease.key)

    # --- for the workbench --------------------------------------------------------------------

    def look_at(self, lease: Lease) -> None:
        """Mark a lease after a visit: the clock may have to leave, or a connection to follow it."""
        if lease.contested or lease.ended:
            self.leases.mark(lease)

    def tell(self, state: VisitState, address: Address | None, failures: dict[str, int]) -> None:
        """Note for the next holder of the clock what was learned of a site. `failures`: changes."""
        lease = state.lease
        if self._by_address:
            lease = None if address is None else address.lease
        if lease is not None:
            before = lease.rests.get(state.site)
            if before is not None:
                failures = before.failures | failures
            lease.rests[state.site] = Rest(state.next_time, state.delay_s, failures)
