"""The values that the workbench works on: the state of a site, an address, and a visit."""

from collections import deque
from enum import Enum
from math import inf
from typing import NamedTuple, TypeAlias

from mypy_extensions import mypyc_attr

from crawler.core.leases import Lease
from crawler.core.order import Heads, Priority, Queue, Tiers
from crawler.ports import CrawlUrl


class Phase(Enum):
    """Where a site is on the workbench."""

    EMPTY = "empty"  # no URL waits; requests may be under way
    WAITING = "waiting"  # in the heap, until its time or its turn comes
    DUE = "due"  # its time has come; it is in the heap of the best URLs
    PARKED = "parked"  # in the queue of its address
    BUSY = "busy"  # URLs wait until a connection is free, or until a request has begun
    AWAY = "away"  # URLs wait, but the clock is at another rank
    HELD = "held"  # URLs wait until an errand to another site has ended


class SiteCounts(NamedTuple):
    """How many sites of a rank are in which state, for the user (`Schedule.count`)."""

    ready: int  # may be asked now
    resting: int  # have URLs, but must rest until their next request
    failing: int  # hosts whose latest requests have failed


EMPTY, WAITING, DUE, PARKED, BUSY, AWAY, HELD = Phase  # to look up a member of an Enum is slow


@mypyc_attr(native_class=False)  # a compiled one couldn't be in a WeakValueDictionary
class Address:
    """The clock and the connections that the sites of one IP address share."""

    __slots__ = (
        "__weakref__",
        "active",
        "lease",
        "next_time",
        "parked",
        "turn",
        "unbegun",
    )

    def __init__(self, parked: "Parked", lease: Lease | None) -> None:
        self.active = 0  # visits that hold a connection to it
        self.next_time = 0.0 if lease is None else lease.next_time
        self.parked = parked
        self.unbegun = 0  # such visits whose requests have not begun (with several connections)
        self.turn: VisitState | None = None  # the site in the heap that alone may come next
        self.lease = lease  # if ranks share the clock


class VisitState:
    """One site's queue, clock and phase."""

    __slots__ = (
        "active",
        "address",
        "begun",
        "connections",
        "delay_s",
        "errands",
        "lease",
        "next_time",
        "on_hold",
        "paced",
        "phase",
        "queue",
        "resting",
        "site",
        "ticket",
        "tier",
        "unbegun",
    )

    def __init__(
        self,
        site: str,
        queue: Queue,
        delay_s: float,
        now: float,
        lease: Lease | None,
        connections: int,
        tier: int = 0,
        *,
        paced: bool = False,
    ) -> None:
        self.site = site
        self.connections = connections  # the most visits at a time
        # With several connections and a configured delay, a site has only one visit at a time whose
        # request hasn't begun, because the delay counts from that beginning. Without a configured
        # delay, `Workbench.begin` enforces the delay that a robots.txt asks for.
        self.paced = paced
        self.tier = tier  # sites of a higher tier come first
        self.queue = queue
        self.ticket = 0  # see `order.heads.Holder`
        self.phase = EMPTY
        self.active = 0  # visits issued and not given back
        self.begun = -inf  # when the latest request started
        self.next_time = now
        self.unbegun = 0  # open visits whose requests have not begun (with several connections)
        self.delay_s = delay_s
        self.lease = lease  # if ranks share the clock
        self.address: Address | None = None  # as last resolved
        self.resting = False  # in `States.resting`, to be forgotten in time
        self.on_hold = False  # only errands are visited, until `Workbench.wake`
        self.errands: deque[CrawlUrl] | None = None

    def has_work(self) -> bool:
        """Whether an errand waits, or a URL of a site that isn't held."""
        return (self.queue.size > 0 and not self.on_hold) or bool(self.errands)

    def __repr__(self) -> str:
        return (
            f"<{self.site}: {self.phase.value}, {self.queue.size} queued, {self.active} active,"
            f" next at {self.next_time:.3f}>"
        )


# Sites in the order of their turns.
Parked: TypeAlias = "deque[VisitState] | Heads[VisitState] | Tiers[VisitState]"


def tier_of(state: VisitState) -> int:
    """The tier of a site. Sites of a higher tier come first."""
    return state.tier


class Visit:
    """The licence to fetch one URL."""

    __slots__ = (
        "address",
        "begun",
        "failures",
        "found",
        "has_begun",
        "priority",
        "retries",
        "state",
    )

    def __init__(
        self,
        found: CrawlUrl,
        priority: Priority,
        state: VisitState,
        retries: int,
        failures: int,
        now: float,
    ) -> None:
        self.found = found
        self.priority = priority  # of the URL when the visit was issued
        self.retries = retries  # failed requests for this URL
        self.failures = failures  # of the host in a row, when the visit was issued
        self.begun = now  # when the request began; until it has, when the visit was issued
        self.has_begun = True  # with several connections, false until `Workbench.begin`
        self.state: VisitState | None = state
        self.address: Address | None = None  # the address that it holds a connection to

    def close(self) -> VisitState:
        """End the licence. Returns the state of the site. Raises RuntimeError the second time."""
        if self.state is None:
            raise RuntimeError(f"visit to {self.found.url} given back twice")
        state, self.state = self.state, None
        return state
