"""Compares the gaps between the requests to a site with the gaps that were promised.

This module does no I/O. Two requests by the same *clock* must keep a distance. A clock belongs to a
site or, with `politeness.per = "address"`, also to an address. With one connection, a gap runs from
the end of a request to the start of the next. With several, it runs from start to start. The
promised length of a gap is:

* `politeness.delay_s`, or what `[[sites]]` says in its place, or the Crawl-delay of the authority
  that the first request went to, if that is longer and was known in time. `max_crawl_delay_s`
  bounds it;
* after a 429 or 503, its Retry-After, or else `retry.busy_base_s`; after a request without an
  answer, `retry.base_s`. `retry.max_s` bounds both. Neither counts if the host was given up.

If the two requests belong to two runs, the smaller limit counts. All promises are lower bounds.
The crawler may wait longer for other reasons, such as consecutive failures or the Crawl-delay of
another host of the site. Such waits aren't checked.
"""

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from math import inf
from typing import Final, NamedTuple

import msgspec
import numpy as np

from crawler.ports import Asked, CrawlDelay
from crawler.session.timeline import Event, Group, Promise, Timeline

TOLERANCE_S: Final = 0.005  # the allowed error of a time
TOLERANCE_SHARE: Final = 0.001  # the allowed error of a clock's speed, as a share of a gap
SKEW_S: Final = 1.0  # the allowed difference between the clocks of two hosts
_LICENCE_TO_REQUEST_S: Final = 1.0  # from a visit to its request, with several connections
_BUSY: Final = frozenset((429, 503))
CANCELLED: Final = "cancelled"  # the error of a request that a stop broke off


class Gap(NamedTuple):
    """Two consecutive requests of one clock."""

    clock: str  # a site, or an address
    before: Event
    after: Event
    seconds: float
    promised_s: float
    why: str  # the setting or answer that the promise comes from

    @property
    def margin(self) -> float:
        """Return by how many seconds the gap is longer than promised."""
        return self.seconds - self.promised_s

    @property
    def one_host(self) -> bool:
        """Whether both times were measured by the same clock of one host."""
        return self.before.promise.place == self.after.promise.place

    @property
    def broken(self) -> bool:
        """Whether the gap is shorter than promised, by more than the allowed error of clocks."""
        allowed = TOLERANCE_S + TOLERANCE_SHARE * self.promised_s
        return self.margin < -(allowed if self.one_host else max(allowed, SKEW_S))


class Crowd(NamedTuple):
    """More requests at a time than a clock allows."""

    clock: str
    at: Event  # the request that exceeds the allowed number
    under_way: Sequence[Event]
    allowed: int


class Clock(msgspec.Struct):
    """The findings about one clock."""

    requests: int
    first_time: float
    last_time: float
    smallest: Gap | None = None  # the gap with the smallest margin
    impolite: int = 0  # gaps that are too short, and requests that are too many at a time


class Requests:
    """All requests of a session. Add them in any order, then call `judge`."""

    def __init__(self) -> None:
        self._timeline = Timeline()
        self._delays: dict[tuple[int, str], list[tuple[float, float]]] = {}  # by run and authority
        self._last_delays: dict[str, tuple[float, float]] = {}  # time and seconds, by authority

    def meet(self, promise: Promise) -> None:
        """Take note of a rank. The first rank of a boot gives the time of all ranks of this boot.

        `add` does the same, if the order in which requests are added is that of the ranks.
        """
        self._timeline.time(0.0, promise)

    def add(self, asked: Asked, promise: Promise) -> None:
        """Add a request, with the promise that it was made under."""
        self._timeline.add(asked, promise)

    def add_delay(self, delay: CrawlDelay, promise: Promise) -> None:
        """Add the Crawl-delay that a rank read in a robots.txt."""
        known = self._delays.setdefault((promise.run, delay.authority), [])
        time = self._timeline.time(delay.time, promise)
        insort(known, (time, min(delay.crawl_delay_s, promise.max_crawl_delay_s)))
        last = self._last_delays.get(delay.authority, (time, 0.0))
        if time >= last[0]:
            self._last_delays[delay.authority] = time, delay.crawl_delay_s

    def crawl_delays(self) -> dict[str, float]:
        """Return the seconds between requests that robots.txt files ask for, by site.

        The latest version of each file counts. If a site has several files, the longest delay
        counts.
        """
        asking = {name: delay for name, (_, delay) in self._last_delays.items() if delay}
        sites = self._timeline.sites() if asking else {}
        found: dict[str, float] = {}
        for authority, delay_s in asking.items():
            site = sites.get(authority)
            if site is not None:
                found[site] = max(delay_s, found.get(site, 0.0))
        return found

    def judge(
        self, tell: Callable[["Gap | Crowd"], None] = lambda _: None
    ) -> Iterator[tuple[str, Clock]]:
        """Yield the findings about each site, in the order of names.

        `tell` is called with each broken promise, also at addresses. A promise that was broken at
        an address counts for the site that was asked too early.
        """
        yield from self.judge_sites(self.judge_addresses(tell), tell)

    def judge_addresses(self, tell: Callable[["Gap | Crowd"], None]) -> Counter[str]:
        """Return how many promises were broken at addresses, by the site asked too early."""
        at_addresses: Counter[str] = Counter()

        def tell_address(what: Gap | Crowd) -> None:
            later = what.after if isinstance(what, Gap) else what.at
            at_addresses[later.asked.site] += 1
            tell(what)

        for group in self._timeline.by_address():
            self._judge(group.name, group.events(), tell_address, rests=False)
        return at_addresses

    def judge_sites(
        self, at_addresses: Counter[str], tell: Callable[["Gap | Crowd"], None]
    ) -> Iterator[tuple[str, Clock]]:
        """Do the same as `judge`, given what `judge_addresses` has returned."""
        sites = self._timeline.sites() if self._delays else {}
        asking = {sites.get(authority) for _, authority in self._delays}
        for site in self._timeline.by_site():
            clock = None if site.name in asking else _judge_calm(site)
            if clock is None:
                clock = self._judge(site.name, site.events(), tell, rests=True)
            clock.impolite += at_addresses[site.name]
            yield site.name, clock

    def resting(self) -> dict[str, float]:
        """Return the time until which each site, or address with a clock, must rest.

        Times are in seconds since the epoch. They are lower bounds, as the promises are.
        """
        until: dict[str, float] = {}
        for address in self._timeline.by_address():
            until[address.name] = max(map(self._free_again, address.events()))
        for site in self._timeline.by_site():
            events = site.events()
            until[site.name] = max(*map(self._free_again, events), _Rests.after(events))
        return until

    def _free_again(self, event: Event) -> float:
        """Return the time when the clock of a request allows the next request."""
        promise = event.promise
        delays = self._delays.get((promise.run, event.asked.authority), ())
        delay_s = max([promise.delay_s, *(delay_s for _, delay_s in delays)])
        return (event.start if promise.connections > 1 else event.end) + delay_s

    def _judge(
        self,
        name: str,
        events: Sequence[Event],
        tell: Callable[["Gap | Crowd"], None],
        *,
        rests: bool,
    ) -> Clock:
        clock = Clock(len(events), events[0].start, events[-1].start)
        for gap in self._gaps(name, events, rests=rests):
            if clock.smallest is None or gap.margin < clock.smallest.margin:
                clock.smallest = gap
            if gap.broken:
                clock.impolite += 1
                tell(gap)
        for crowd in _crowds(name, events):
            clock.impolite += 1
            tell(crowd)
        return clock

    def _gaps(self, name: str, events: Sequence[Event], *, rests: bool) -> Iterator[Gap]:
        """Yield the gap before each request except the first.

        With `rests`, also yield the gaps after failures.
        """
        resting = _Rests() if rests else None
        last: Event | None = None  # the request at which the next gap begins
        for event in events:
            if last is not None:
                yield self._gap(name, last, event)
                if resting is not None and (rest := resting.before(event)) is not None:
                    before, promised_s, why = rest
                    yield Gap(name, before, event, event.start - before.end, promised_s, why)
            if resting is not None:
                resting.add(event)
            if last is None or event.promise.connections > 1 or event.end >= last.end:
                last = event

    def _gap(self, name: str, before: Event, after: Event) -> Gap:
        promises = before.promise, after.promise
        several = max(one.connections for one in promises) > 1
        seconds = after.start - (before.start if several else before.end)
        run = promises[0].run
        # In one run both promises are the same, unless they were made to two sites of an address.
        # The address then waits for the delay of the first one.
        settles = promises[:1] if run == promises[1].run else promises
        delay = min(settles, key=lambda one: one.delay_s)
        promised_s, why = delay.delay_s, delay.delay_key
        known = self._delays.get((run, before.asked.authority))
        if known:
            # With several connections, the delay is decided when the first request starts. With
            # one, or between two runs, a Crawl-delay counts that was known before the second one.
            settled = before.start if several and run == promises[1].run else after.start
            at = bisect_right(known, (settled, inf))
            delay_s = min(known[at - 1][1], after.promise.max_crawl_delay_s) if at else 0.0
            if delay_s > promised_s:
                promised_s, why = delay_s, "the Crawl-delay of its robots.txt"
        return Gap(name, before, after, seconds, promised_s, why)


def _judge_calm(site: Group) -> Clock | None:
    """Return what `Requests._judge` finds, in less time; None if this can't tell.

    It can if the site has no Crawl-delay, no answer may cause a rest, and no promise was broken.
    """
    promise = site.event(0).promise
    starts, ends = site.starts, site.ends
    if not site.is_calm:
        return None
    if promise.connections > 1:
        gaps = starts[1:] - starts[:-1]
        ended = np.searchsorted(np.sort(ends), starts)
        if (np.arange(len(starts)) - ended >= promise.connections).any():
            return None
    else:
        gaps = starts[1:] - ends[:-1]
        if (ends[1:] < ends[:-1]).any():
            return None
    clock = Clock(len(site.rows), float(starts[0]), float(starts[-1]))
    if len(gaps):
        at = int(gaps.argmin())
        pair = site.event(at), site.event(at + 1)
        smallest = Gap(site.name, *pair, float(gaps[at]), promise.delay_s, promise.delay_key)
        if smallest.broken:
            return None
        clock.smallest = smallest
    return clock


class _Rests:
    """Tracks the rest that a site was promised after a failure."""

    def __init__(self) -> None:
        self._failures: dict[str, int] = {}  # consecutive failures, by authority
        self._failed: Event | None = None  # the failed request with the longest rest
        self._until = -inf
        self._rest = (0.0, "")
        self._answered: set[tuple[int, str]] = set()  # (run, authority) whose robots.txt is known

    @classmethod
    def after(cls, events: Sequence[Event]) -> float:
        """Return the time at which all rests are over that these requests have caused."""
        rests = cls()
        for event in events:
            rests.add(event)
        return rests._until

    def add(self, event: Event) -> None:
        asked, promise = event.asked, event.promise
        key = asked.authority
        rest = self._rest_after(event)
        if asked.kind == "robots" and rest is None:
            self._answered.add((promise.run, key))
        if rest is None:
            self._failures.pop(key, None)
            return
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        if 0 < promise.give_up_after <= failures:
            return
        if event.end + rest[0] > self._until:
            self._failed, self._until, self._rest = event, event.end + rest[0], rest

    def _rest_after(self, event: Event) -> tuple[float, str] | None:
        asked, promise = event.asked, event.promise
        if asked.error == CANCELLED:
            return None
        robots = asked.kind == "robots"
        if robots and (promise.run, asked.authority) in self._answered:
            return None  # the crawl goes on with the rules that it knows
        status = asked.status or 0
        if status in _BUSY or (robots and status >= 500):
            if asked.retry_after_s is not None:
                rest_s = min(asked.retry_after_s, promise.max_rest_s)
                return rest_s, f"the Retry-After of a {status}"
            rest_s = min(promise.busy_base_s, promise.max_rest_s)
            return rest_s, f"retry.busy_base_s after a {status}"
        if status == 0 and asked.passing:
            return min(promise.base_s, promise.max_rest_s), f"retry.base_s after {asked.error}"
        return None

    def before(self, event: Event) -> tuple[Event, float, str] | None:
        """Return the promised rest that should be over before this request, or None.

        It is the failed request, the seconds of rest after it, and where the promise comes from.
        """
        failed = self._failed
        if failed is None:
            return None
        rest_s, why = self._rest
        rest = failed, min(rest_s, event.promise.max_rest_s), why
        late = _LICENCE_TO_REQUEST_S if event.promise.connections > 1 else 0.0
        if event.start <= failed.end + late:
            return None if late else rest
        if event.start >= self._until:
            self._failed, self._until = None, -inf
        return rest


def _crowds(name: str, events: Sequence[Event]) -> Iterator[Crowd]:
    """Yield the requests that began while all connections were in use."""
    ends: list[tuple[float, int]] = []
    for number, event in enumerate(events):
        while ends and ends[0][0] <= event.start:
            heappop(ends)
        heappush(ends, (event.end, number))
        allowed = event.promise.connections
        if len(ends) > allowed:
            # Clocks have errors, so requests that ended a moment later count as ended.
            under_way = [
                events[at]
                for end, at in sorted(ends, key=lambda one: one[1])
                if at != number
                and end
                > event.start
                + (TOLERANCE_S if events[at].promise.place == event.promise.place else SKEW_S)
            ]
            if len(under_way) >= allowed:
                yield Crowd(name, event, under_way, allowed)
