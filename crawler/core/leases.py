"""A rank's hold on the clocks that several ranks share.

"One request at a time, a delay apart" is a promise to a site. Where several ranks hold URLs of a
site, the site has one clock all the same. The clock is at one rank at a time: that rank holds the
lease, and only that rank may ask the site. With `politeness.per = "address"` the addresses have
such clocks instead.

The workbench looks at a lease to see whether the clock is here, and marks the lease when that may
have to change. `crawler.core.clocks` settles the marked leases: it asks for clocks and hands them
on.
"""

from collections import deque
from collections.abc import Callable
from math import inf
from typing import NamedTuple


class Rest(NamedTuple):
    """What a rank has learned about a site that the next holder of the clock must know."""

    next_time: float  # no request to the site before
    delay_s: float  # between two requests: the longest that a robots.txt of the site asks for
    failures: dict[str, int]  # in a row, by authority


class Lease:
    """One rank's side of one shared clock.

    `free` counts the connections that are here and not in use. A connection that is in use when the
    clock leaves follows it as soon as its request has ended: `ended` counts those.
    """

    __slots__ = (
        "arrived",
        "asked",
        "begun",
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

    def __init__(self, key: str, home: int) -> None:
        self.key = key  # the site, or the address
        self.home = home  # the rank that hands out the clock
        self.held = False  # the clock is here
        self.asked = False  # its home knows that this rank wants it
        self.contested = False  # it is here, and other ranks want it
        self.serial = 0  # of the latest grant that has arrived here
        self.arrived = 0.0  # when that grant did
        self.used = False  # a request has started since it came (several connections)
        self.ends = 0.0  # the end of this rank's turn, which matters while the clock is contested
        self.free = 0
        self.ended = 0
        self.next_time = 0.0  # no request before, as it was when the clock arrived
        self.begun = -inf  # when the latest request started, likewise
        self.rests: dict[str, Rest] = {}  # by site
        self.marked = False
        # Messages may overtake the grant that they belong to.
        self.early_recall = 0  # the serial of the grant
        self.early_free: dict[int, int] = {}  # connections, by serial

    def free_connection(self) -> None:
        """A request has ended. Its connection stays with the clock."""
        if self.held:
            self.free += 1
        else:
            self.ended += 1

    def __repr__(self) -> str:
        place = f"here, {self.free} free" if self.held else "away"
        words = [place, "asked for" * self.asked, "contested" * self.contested]
        return f"<clock of {self.key}: {', '.join(filter(None, words))}; serial {self.serial}>"


class Leases:
    """The leases of a rank. `marked` are those that `crawler.core.clocks` has to settle."""

    def __init__(self, home_of: Callable[[str], int | None]) -> None:
        """`home_of` gives the rank that hands out the clock of a site (or address); None for a
        clock that only one rank ever needs."""
        self.marked: deque[Lease] = deque()
        self._home_of = home_of
        self._leases: dict[str, Lease] = {}

    def of(self, key: str) -> Lease | None:
        """The lease of a site or address; None if no other rank needs its clock."""
        lease = self._leases.get(key)
        if lease is None:
            home = self._home_of(key)
            if home is None:
                return None
            lease = self._leases[key] = Lease(key, home)
        return lease

    def share(self, key: str, home: int) -> Lease:
        """The lease of a site that only one rank owns, its home, once another rank needs it."""
        lease = self._leases.get(key)
        if lease is None:
            lease = self._leases[key] = Lease(key, home)
        return lease

    def mark(self, lease: Lease) -> None:
        """Have a lease settled soon."""
        if not lease.marked:
            lease.marked = True
            self.marked.append(lease)
