"""The clocks of IP addresses (`politeness.per = "address"`), and the sites that wait at them.

Sites that find their address taken are parked there. As it gets free each has its turn.
"""

from collections import deque
from collections.abc import Callable
from typing import Final
from weakref import WeakValueDictionary

from crawler import config
from crawler.core.leases import Leases
from crawler.core.order import Heads, Priority
from crawler.core.visits import PARKED, WAITING, Address, Visit, VisitState


class Addresses:
    """The addresses that a rank knows. Set `now` before each call that may end a turn."""

    def __init__(
        self,
        politeness: config.Politeness,
        leases: Leases | None,
        priority: Callable[[VisitState], Priority] | None,
        push: Callable[[VisitState, float], None],
    ) -> None:
        """`push` puts a site into the schedule, for a time.

        `priority`, with an order by scores, is that of a site's best URL.
        """
        self.now = 0.0
        # Kept, as their clocks may have to leave for another rank.
        self.leased: dict[str, Address] = {}
        # An address is kept by the states that have it, and so for as long as its clock matters.
        self._known: WeakValueDictionary[str, Address] = WeakValueDictionary()
        self._connections: Final = politeness.connections_per_site
        self._paced: Final = politeness.connections_per_site > 1 and politeness.delay_s > 0
        self._leases = leases
        self._priority = priority
        self._push = push

    def find(self, name: str, rests: dict[str, float]) -> Address:
        """The address of this name. `rests`: until when addresses rest, by their names."""
        address = self._known.get(name)
        if address is None:
            parked = deque[VisitState]() if self._priority is None else Heads(self._priority)
            lease = None if self._leases is None else self._leases.of(name)
            address = self._known[name] = Address(parked, lease)
            address.next_time = max(address.next_time, rests.pop(name, 0.0))
            if lease is not None:
                self.leased[name] = address
        return address

    def move(self, state: VisitState, address: Address) -> None:
        """Let a site, and what waits of it, have another address."""
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
        """Whether a visit of this site may go there now."""
        return (
            self._has_room(address)
            and address.next_time <= now
            and (address.turn is None or address.turn is state)
        )

    def _has_room(self, address: Address) -> bool:
        """Whether a further visit may be on its way to this address."""
        if address.unbegun and self._paced:
            return False
        if address.lease is not None:
            return address.lease.held and address.lease.free > 0
        return address.active < self._connections

    def hold(self, visit: Visit, address: Address) -> None:
        """Take a connection that is free."""
        visit.address = address
        address.active += 1
        address.turn = None
        if address.lease is not None:
            address.lease.free -= 1
        if self._connections > 1:
            address.unbegun += not visit.has_begun
            self.next_turn(address)

    def leave(self, visit: Visit) -> None:
        """Give up the connection. Whoever comes next is called once the clock has been set."""
        address = visit.address
        assert address is not None
        address.active -= 1
        address.unbegun -= not visit.has_begun
        if address.lease is not None:
            address.lease.free_connection()
        visit.address = None

    def park(self, state: VisitState) -> None:
        """Let a site wait at its address."""
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
        """Call the next of those that are parked there, if a connection is free."""
        while address.parked and address.turn is None and self._has_room(address):
            state = address.parked.popleft()
            state.phase = WAITING
            if state.next_time <= max(address.next_time, self.now):
                address.turn = state
            # Else it has to rest by itself, and the others needn't wait for that.
            self._push(state, max(state.next_time, address.next_time))

    def pass_turn(self, state: VisitState) -> None:
        """Let another site have the turn of a site that has to rest by itself."""
        if state.address is not None and state.address.turn is state:
            state.address.turn = None
            self.next_turn(state.address)
