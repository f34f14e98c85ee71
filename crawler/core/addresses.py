"""The clocks of IP addresses (`politeness.per = "address"`), and the sites that wait at them.

If the address of a site isn't free, the site is parked there. When the address becomes free, the
parked sites take turns.
"""

from collections.abc import Callable
from typing import Final
from weakref import WeakValueDictionary

from crawler.core.courtesy import Courtesy
from crawler.core.leases import Leases
from crawler.core.visits import PARKED, WAITING, Address, Parked, Visit, VisitState


class Addresses:
    """The addresses that a rank knows. Set `now` before each call that may end a turn.

    `leased` holds the addresses whose clocks ranks share, by name.
    """

    def __init__(
        self,
        courtesy: Courtesy,
        leases: Leases | None,
        new_queue: Callable[[], Parked],
        push: Callable[[VisitState, float], None],
    ) -> None:
        """`push` puts a site into the schedule, to come out at a given time.

        `new_queue` makes an empty queue for the sites that are parked at an address.
        """
        self.now = 0.0
        # These addresses are never dropped, because other ranks may want their clocks.
        self.leased: dict[str, Address] = {}
        # An address lives as long as visit states refer to it, so as long as its clock matters.
        self._known: WeakValueDictionary[str, Address] = WeakValueDictionary()
        self._connections: Final = courtesy.usual_connections
        self._paced: Final = courtesy.usual_connections > 1 and courtesy.usual_delay_s > 0
        self._leases = leases
        self._new_queue = new_queue
        self._push = push

    def find(self, name: str, rest_of: Callable[[str], float]) -> Address:
        """The address with this name, which is made if there is none.

        `rest_of` returns the time until which a new address rests.
        """
        address = self._known.get(name)
        if address is None:
            lease = None if self._leases is None else self._leases.of(name)
            address = self._known[name] = Address(self._new_queue(), lease)
            address.next_time = max(address.next_time, rest_of(name))
            if lease is not None:
                self.leased[name] = address
        return address

    def move(self, state: VisitState, address: Address) -> None:
        """Change the address of a site. If the site is parked, it is parked at the new address."""
        before, state.address = state.address, address
        if before is None:
            return
        if state.phase is PARKED:
            before.parked.remove(state)
            self.park(state)
        elif before.turn is state:
            before.turn = None
            self.next_turn(before)

    def is_free(self, address: Address, state: VisitState, now: float) -> bool:
        """Whether a visit of a site may go to an address now."""
        return (
            self._has_room(address)
            and address.next_time <= now
            and (address.turn is None or address.turn is state)
        )

    def _has_room(self, address: Address) -> bool:
        """Whether one more visit may be under way to an address."""
        if address.unbegun and self._paced:
            return False
        if address.lease is not None:
            return address.lease.held and address.lease.free > 0
        return address.active < self._connections

    def hold(self, visit: Visit, address: Address) -> None:
        """Give a free connection to a visit."""
        visit.address = address
        address.active += 1
        address.turn = None
        if address.lease is not None:
            address.lease.free -= 1
        if self._connections > 1:
            address.unbegun += not visit.has_begun
            self.next_turn(address)

    def leave(self, visit: Visit) -> None:
        """Take the connection of a visit back. Set the clock, then call `next_turn`."""
        address = visit.address
        assert address is not None
        address.active -= 1
        address.unbegun -= not visit.has_begun
        if address.lease is not None:
            address.lease.free_connection()
        visit.address = None

    def park(self, state: VisitState) -> None:
        """Park a site at its address."""
        address = state.address
        assert address is not None, state
        state.phase = PARKED
        if address.turn is state:
            address.turn = None
            address.parked.appendleft(state)
        else:
            address.parked.append(state)
        if address.lease is not None and not address.lease.held:
            assert self._leases is not None
            self._leases.mark(address.lease)
        self.next_turn(address)

    def next_turn(self, address: Address) -> None:
        """Give the turn to the next parked site, if a connection is free."""
        while address.parked and address.turn is None and self._has_room(address):
            state = address.parked.popleft()
            state.phase = WAITING
            if state.next_time <= max(address.next_time, self.now):
                address.turn = state
            # Otherwise the site must rest longer than the address, and the others needn't wait.
            self._push(state, max(state.next_time, address.next_time))

    def pass_turn(self, state: VisitState) -> None:
        """Give the turn of a site to another site, because the first one must rest."""
        if state.address is not None and state.address.turn is state:
            state.address.turn = None
            self.next_turn(state.address)
