"""All requests of a session on one time line, by site and by address.

This module does no I/O. Each rank measures times by the clock of its host. Ranks of one boot of a
host have the same steady clock, so their times are put together exactly. Hosts are put together by
their wall clocks, which differ a little.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from crawler.ports import Asked


@dataclass(frozen=True, slots=True)
class Promise:
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


class Timeline:
    """All requests of a session. Add them in any order, then take them by site or by address.

    They take about 50 bytes for each request.
    """

    def __init__(self) -> None:
        self._promises: list[Promise] = []
        self._promise_numbers: dict[int, int] = {}  # by id of the promise
        self._names: dict[str | None, int] = {None: 0}
        self._offsets: dict[str, float] = {}  # by boot
        self._start, self._end, self._retry_after = array("d"), array("d"), array("d")
        self._promise, self._site, self._authority = array("i"), array("i"), array("i")
        self._address, self._kind, self._error = array("i"), array("i"), array("i")
        self._status, self._key = array("i"), array("Q")

    def __len__(self) -> int:
        return len(self._start)

    def add(self, asked: Asked, promise: Promise) -> None:
        """Add a request, with the promise that it was made under."""
        number = self._promise_numbers.setdefault(id(promise), len(self._promises))
        if number == len(self._promises):
            self._promises.append(promise)
        self._promise.append(number)
        start = self.time(asked.started, promise)
        self._start.append(start)
        self._end.append(start + asked.seconds)
        after = asked.retry_after_s
        self._retry_after.append(-1.0 if after is None else after)
        self._site.append(self._number(asked.site))
        self._authority.append(self._number(asked.authority))
        self._address.append(self._number(asked.address))
        self._kind.append(self._number(asked.kind))
        self._error.append(self._number(asked.error))
        self._status.append(asked.status or 0)
        self._key.append(asked.key & 0xFFFF_FFFF_FFFF_FFFF)

    def time(self, measured: float, promise: Promise) -> float:
        """Return a time that a rank measured, in seconds since the epoch, on the time line.

        The first rank of a boot that is met gives the offset of all ranks of this boot.
        """
        if not promise.boot:
            return measured
        return measured + (self._offsets.setdefault(promise.boot, promise.offset) - promise.offset)

    def by_site(self) -> Iterator[tuple[str, list[Event]]]:
        """Yield each site with its requests: sites by name, requests by their start."""
        return self._by(self._site, np.arange(len(self)))

    def by_address(self) -> Iterator[tuple[str, list[Event]]]:
        """Yield each address that has a clock of its own, with its requests, like `by_site`."""
        has_clock = np.array([one.by_address for one in self._promises], bool)
        known = np.frombuffer(self._address, np.int32) != self._names[None]
        some = known & has_clock[np.frombuffer(self._promise, np.int32)]
        return self._by(self._address, np.flatnonzero(some))

    def sites(self) -> dict[str, str]:
        """Return the site of each authority."""
        names = list(self._names)
        pairs = dict(zip(self._authority, self._site, strict=True))
        return {names[authority] or "": names[site] or "" for authority, site in pairs.items()}

    def _number(self, name: str | None) -> int:
        return self._names.setdefault(name, len(self._names))

    def _by(
        self, column: "array[int]", some: npt.NDArray[np.int64]
    ) -> Iterator[tuple[str, list[Event]]]:
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
        keys, some = keys[by_key], some[by_key]
        bounds = [*np.flatnonzero(np.diff(keys, prepend=-1)).tolist(), len(keys)]
        for low, high in pairwise(bounds):
            name = names[order[keys[low]]]
            assert name is not None
            yield name, [self._event(at, names) for at in some[low:high].tolist()]

    def _event(self, at: int, names: Sequence[str | None]) -> Event:
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
