"""A site's queue and clock, as the workbench keeps them, and the visits that it issues."""

from collections import deque
from enum import Enum
from math import inf

from mypy_extensions import mypyc_attr

from crawler.core.leases import Lease
from crawler.core.order import Heads, Priority, Queue
from crawler.ports import CrawlUrl


class Phase(Enum):
    """Where a site is on the workbench."""

    EMPTY = "empty"  # nothing queued; requests may be under way
    WAITING = "waiting"  # in the heap, for its time or its turn
    DUE = "due"  # among the sites whose time has come, by their best URLs
    PARKED = "parked"  # in the queue of its address
    BUSY = "busy"  # URLs queued, but every allowed connection in use, or one about to be
    AWAY = "away"  # URLs queued, but the clock is at another rank
    HELD = "held"  # URLs queued, but something must come from another site first


EMPTY, WAITING, DUE, PARKED, BUSY, AWAY, HELD = Phase  # to look up a member of an Enum is slow


@mypyc_attr(native_class=False)  # a compiled one couldn't be in a WeakValueDictionary
class Address:
    """What the sites of one IP address share."""

    __slots__ = (
        "__weakref__",
        "active",
        "lease",
        "next_time",
        "parked",
        "turn",
        "unbegun",
    )

    def __init__(
        self, parked: "deque[VisitState] | Heads[VisitState]", lease: Lease | None
    ) -> None:
        self.active = 0  # visits that hold a connection to it
        self.next_time = 0.0 if lease is None else lease.next_time
        self.parked = parked
        self.unbegun = 0  # of these visits, whose requests have not started (several connections)
        self.turn: VisitState | None = None  # in the heap, and the only one that may come
        self.lease = lease  # if ranks share the clock


class VisitState:
    """One site's queue, clock and phase."""

    __slots__ = (
        "active",
        "address",
        "begun",
        "delay_s",
        "errands",
        "lease",
        "next_time",
        "on_hold",
        "phase",
        "queue",
        "resting",
        "site",
        "ticket",
        "unbegun",
    )

    def __init__(
        self, site: str, queue: Queue, delay_s: float, now: float, lease: Lease | None
    ) -> None:
        self.site = site
        self.queue = queue
        self.ticket = 0  # of `Heads`
        self.phase = EMPTY
        self.active = 0  # visits issued and not given back
        self.begun = -inf  # when the latest request started
        self.next_time = now
        self.unbegun = 0  # of these visits, whose requests have not started (several connections)
        self.delay_s = delay_s
        self.lease = lease  # if ranks share the clock
        self.address: Address | None = None  # as last resolved
        self.resting = False  # in the workbench's queue of states to be forgotten
        self.on_hold = False  # until `wake`: only errands are visited
        self.errands: deque[CrawlUrl] | None = None

    def has_work(self) -> bool:
        """Whether something of this site waits for a visit."""
        return (self.queue.size > 0 and not self.on_hold) or bool(self.errands)

    def __repr__(self) -> str:
        return (
            f"<{self.site}: {self.phase.value}, {self.queue.size} queued, {self.active} active,"
            f" next at {self.next_time:.3f}>"
        )


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
        self.priority = priority  # by its score, when the visit began
        self.retries = retries  # requests for this URL that have failed
        self.failures = failures  # of its host in a row, when the visit began
        self.begun = now  # when its request started, or could have started at the earliest
        self.has_begun = True  # false while that is to be told by `begin` (several connections)
        self.state: VisitState | None = state
        self.address: Address | None = None  # that it holds a connection to

    def close(self) -> VisitState:
        """End the licence and give its site; a second time raises."""
        if self.state is None:
            raise RuntimeError(f"visit to {self.found.url} given back twice")
        state, self.state = self.state, None
        return state
