"""The leases of a rank on clocks that several ranks share.

The crawler promises each site one request at a time, with a delay between two requests. If several
ranks hold URLs of a site, they share one clock, so that they keep this promise together. One rank
at a time holds the clock, and only this rank may send requests to the site. With
`politeness.per = "address"` the clocks belong to addresses instead of sites.

A `Lease` says whether a clock is at this rank. The workbench reads it, and marks the lease when the
clock may have to come or to leave. `crawler.core.clocks` settles the marked leases: it asks for
clocks, and returns them. A `ClockHome` is what the rank that grants a clock knows about it.
"""

from collections import deque
from collections.abc import Callable
from math import inf
from typing import Final, NamedTuple

from crawler.core.courtesy import Courtesy

_LEASE_BYTES: Final = 500  # with its name


class Rest(NamedTuple):
    """What a rank has learned about a site, and what the next holder of the clock must know."""

    next_time: float  # when the next request to the site may begin
    delay_s: float  # the longest delay between requests that a robots.txt of the site asks for
    failures: dict[str, int]  # consecutive failures, by authority


class Lease:
    """What one rank knows about one shared clock.

    `free` counts the connections that are here and not in use. If a connection is in use when the
    clock leaves, it follows the clock when its request has ended. `ended` counts such connections
    between the end of the request and the sending.
    """

    __slots__ = (
        "arrived",
        "asked",
        "begun",
        "connections",
        "contested",
        "early_free",
        "early_recall",
        "ended",
        "ends",
        "free",
        "held",
        "home",
        "key",
        "marked",
        "next_time",
        "rests",
        "serial",
        "used",
    )

    def __init__(self, key: str, home: int, connections: int) -> None:
        self.key = key  # the site, or the address
        self.connections = connections  # all that the clock has
        self.home = home  # the rank that grants the clock
        self.held = False  # whether the clock is here
        self.asked = False  # whether this rank has asked the home for the clock
        self.contested = False  # whether the clock is here and other ranks want it
        self.serial = 0  # the number of the latest grant that has arrived here
        self.arrived = 0.0  # when that grant arrived
        self.used = False  # whether a request has begun since then (with several connections)
        self.ends = 0.0  # the end of this rank's turn, which matters while the clock is contested
        self.free = 0
        self.ended = 0
        self.next_time = 0.0  # when the next request may begin
        self.begun = -inf  # when the latest request began
        self.rests: dict[str, Rest] = {}  # by site
        self.marked = False
        # Messages that came before the grant that they belong to:
        self.early_recall = 0  # the number of the recalled grant
        self.early_free: dict[int, int] = {}  # free connections, by the number of the grant

    def free_connection(self) -> None:
        """Note that a request has ended, so that its connection is free."""
        if self.held:
            self.free += 1
        else:
            self.ended += 1

    def __repr__(self) -> str:
        place = f"here, {self.free} free" if self.held else "away"
        words = [place, "asked for" * self.asked, "contested" * self.contested]
        return f"<clock of {self.key}: {', '.join(filter(None, words))}; serial {self.serial}>"


class ClockHome:
    """What the home of a clock knows about it."""

    __slots__ = (
        "begun",
        "connections",
        "free",
        "granted",
        "holder",
        "lent",
        "next_time",
        "recalled",
        "rests",
        "serial",
        "wants",
    )

    def __init__(self, connections: int) -> None:
        self.holder: int | None = None  # the rank that holds the clock; None if it is at its home
        self.serial = 0  # the number of the latest grant
        self.granted = 0.0  # the time of the latest grant
        self.recalled = False  # whether the latest grant has been recalled
        self.wants: list[int] = []  # ranks that want the clock, in the order of asking
        self.connections = connections
        self.free = connections  # free connections that are at the home
        self.lent: dict[int, int] | None = None  # those that each rank has, if a site has several
        self.next_time = 0.0
        self.begun = -inf  # when the latest request started
        self.rests: dict[str, Rest] = {}  # by site


class Leases:
    """All leases of a rank. `marked` holds the leases that `crawler.core.clocks` must settle."""

    def __init__(
        self, home_of: Callable[[str], int | None], connections: Callable[[str], int]
    ) -> None:
        """`home_of` returns the home of the clock of a site or address.

        It returns None for a clock that only one rank needs. `connections` returns how many
        requests a clock allows at a time.
        """
        self.marked: deque[Lease] = deque()
        self._home_of = home_of
        self._connections = connections
        self._leases: dict[str, Lease] = {}

    def nbytes(self) -> int:
        """About how many bytes of memory the leases take."""
        return _LEASE_BYTES * len(self._leases)

    def of(self, key: str) -> Lease | None:
        """The lease on the clock of a site or address, or None if no other rank needs the clock."""
        lease = self._leases.get(key)
        if lease is None:
            home = self._home_of(key)
            if home is None:
                return None
            lease = self._leases[key] = Lease(key, home, self._connections(key))
        return lease

    def share(self, key: str, home: int) -> Lease:
        """Make the lease of a site that only its home owns, once another rank needs the clock."""
        lease = self._leases.get(key)
        if lease is None:
            lease = self._leases[key] = Lease(key, home, self._connections(key))
        return lease

    def mark(self, lease: Lease) -> None:
        """Mark a lease, so that it is settled soon."""
        if not lease.marked:
            lease.marked = True
            self.marked.append(lease)


def make_leases(
    courtesy: Courtesy,
    ranks: int,
    home_of_site: Callable[[str], int | None],
    home_of_address: Callable[[str], int],
) -> Leases | None:
    """Make the leases of the clocks that ranks may share, or return None for a single rank.

    `home_of_site` returns the home of the clock of a site, or None if only one rank needs it.
    `home_of_address` returns that of an address, as sites of any rank may live there.
    """
    if ranks == 1:
        return None
    home_of = home_of_address if courtesy.by_address else home_of_site
    return Leases(home_of, courtesy.connections)
