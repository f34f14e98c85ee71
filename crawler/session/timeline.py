"""All requests of a session on one time line, by site and by address.

This module does no I/O. Each rank measures times by the clock of its host. Ranks of one boot of a
host have the same steady clock, so their times are put together exactly. Hosts are put together by
their wall clocks, which differ a little.
"""

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count, pairwise
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from crawler.ports import Asked


class Promise(msgspec.Struct, frozen=True):
    """The politeness that a rank promised in a run, and the clock that its times come from."""

    run: int
    rank: int
    host: str
    boot: str  # names one start of the host's system; empty if unknown
    offset: float  # the wall clock minus the steady clock
    by_address: bool
    delay_s: float
    connections: int
    max_crawl_delay_s: float
    base_s: float
    busy_base_s: float
    max_rest_s: float
    give_up_after: int
    # The keys of the configuration that `delay_s` and `connections` come from.
    delay_key: str = "politeness.delay_s"
    connections_key: str = "politeness.connections_per_site"

    @property
    def place(self) -> str:
        """Return the host whose clock the times come from, or one boot of that host."""
        return self.boot or self.host


class Event(NamedTuple):
    """A request, and the promise that it was made under."""

    asked: Asked
    promise: Promise
    start: float  # seconds since the epoch
    end: float


class Group(NamedTuple):
    """The requests of a site or of an address, by their start."""

    name: str
    rows: list[int]  # the numbers of the requests
    starts: npt.NDArray[np.float64]
    ends: npt.NDArray[np.float64]
    is_calm: bool  # whether they were made under one promise, and no answer may cause a rest
    make_event: Callable[[int], Event]  # from the number of a request

    def event(self, at: int) -> Event:
        """Return one of the requests."""
        return self.make_event(self.rows[at])

    def events(self) -> list[Event]:
        """Return all requests."""
        return list(map(self.make_event, self.rows))


class Timeline:
    """All requests of a session. Add them in any order, then take them by site or by address.

    They take about 50 bytes for each request.
    """

    def __init__(self) -> None:
        self._promises: list[Promise] = []  # different ones
        self._promise_numbers: dict[Promise, int] = {}
        self._met: dict[int, tuple[int, Promise]] = {}  # their numbers, by id of each object
        # Each name that is looked up gets a number.
        self._names: defaultdict[str | None, int] = defaultdict(count(1).__next__, {None: 0})
        self._offsets: dict[str, float] = {}  # by boot
        self._start, self._end, self._retry_after = array("d"), array("d"), array("d")
        self._promise, self._site, self._authority = array("i"), array("i"), array("i")
        self._address, self._kind, self._error = array("i"), array("i"), array("i")
        self._status, self._key = array("i"), array("Q")

    def __len__(self) -> int:
        return len(self._start)

    def add(self, asked: Asked, promise: Promise) -> None:
        """Add a request, with the promise that it was made under."""
        known = self._met.get(id(promise)) or self._meet(promise)
        self._promise.append(known[0])
        start = self.time(asked.started, promise)
        self._start.append(start)
        self._end.append(start + asked.seconds)
        after = asked.retry_after_s
        self._retry_after.append(-1.0 if after is None else after)
        self._site.append(self._names[asked.site])
        self._authority.append(self._names[asked.authority])
        self._address.append(self._names[asked.address])
        self._kind.append(self._names[asked.kind])
        self._error.append(self._names[asked.error])
        self._status.append(asked.status or 0)
        self._key.append(asked.key & 0xFFFF_FFFF_FFFF_FFFF)

    def _meet(self, promise: Promise) -> tuple[int, Promise]:
        """Return the number of a promise, and keep the object, so that no other gets its id."""
        number = self._promise_numbers.setdefault(promise, len(self._promises))
        if number == len(self._promises):
            self._promises.append(promise)
        known = self._met[id(promise)] = number, promise
        return known

    def time(self, measured: float, promise: Promise) -> float:
        """Return a time that a rank measured, in seconds since the epoch, on the time line.

        The first rank of a boot that is met gives the offset of all ranks of this boot.
        """
        if not promise.boot:
            return measured
        return measured + (self._offsets.setdefault(promise.boot, promise.offset) - promise.offset)

    def by_site(self) -> "Iterator[Group]":
        """Yield the requests of each site: sites by name, requests by their start."""
        return self._by(self._site, np.arange(len(self)))

    def by_address(self) -> "Iterator[Group]":
        """Yield the requests to each address that has a clock of its own, like `by_site`."""
        has_clock = np.array([one.by_address for one in self._promises], bool)
        known = np.frombuffer(self._address, np.int32) != self._names[None]
        some = known & has_clock[np.frombuffer(self._promise, np.int32)]
        return self._by(self._address, np.flatnonzero(some))

    def sites(self) -> dict[str, str]:
        """Return the site of each authority."""
        names = list(self._names)
        pairs = dict(zip(self._authority, self._site, strict=True))
        return {names[authority] or "": names[site] or "" for authority, site in pairs.items()}

    def _by(self, column: "array[int]", some: npt.NDArray[np.int64]) -> "Iterator[Group]":
        """Yield groups of some requests by a column of names, in the order of names."""
        if not len(some):
            return
        names = list(self._names)
        order = np.array(sorted(range(len(names)), key=lambda number: names[number] or ""))
        place = np.empty(len(names), np.int64)
        place[order] = np.arange(len(names))
        keys = place[np.frombuffer(column, np.int32)[some]]
        starts, ends = (np.frombuffer(one, np.float64)[some] for one in (self._start, self._end))
        by_key = np.lexsort((ends, starts, keys))
        keys, rows = keys[by_key], some[by_key]
        begins = np.flatnonzero(np.diff(keys, prepend=-1))
        starts, ends = starts[by_key], ends[by_key]
        is_calm = self._are_calm(rows)
        promises = np.frombuffer(self._promise, np.int32)[rows]
        make_event = partial(self._event, names=names)
        for low, high in pairwise([*begins.tolist(), len(keys)]):
            name = names[order[keys[low]]]
            assert name is not None
            calm = bool(is_calm[low:high].all()) and not np.ptp(promises[low:high])
            yield Group(
                name, rows[low:high].tolist(), starts[low:high], ends[low:high], calm, make_event
            )

    def _are_calm(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which requests were answered, and not with a status that may cause a rest."""
        status = np.frombuffer(self._status, np.int32)[rows]
        without_error = np.frombuffer(self._error, np.int32)[rows] == self._names[None]
        calm: npt.NDArray[np.bool_] = (
            without_error & (status > 0) & (status < 500) & (status != 429)
        )
        return calm

    def _event(self, at: int, *, names: Sequence[str | None]) -> Event:
        start, after = self._start[at], self._retry_after[at]
        asked = Asked(
            started=start,
            seconds=self._end[at] - start,
            site=names[self._site[at]] or "",
            authority=names[self._authority[at]] or "",
            kind=names[self._kind[at]] or "",
            key=self._key[at],
            status=self._status[at] or None,
            error=names[self._error[at]],
            address=names[self._address[at]],
            retry_after_s=None if after < 0 else after,
        )
        return Event(asked, self._promises[self._promise[at]], start, self._end[at])
