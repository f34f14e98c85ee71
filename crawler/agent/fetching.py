"""The fetch stage: makes the request of a visit, for a page or for the robots.txt before it."""

import asyncio
from asyncio import Queue
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from crawler import url
from crawler.agent.robots_gate import ELSEWHERE, MOVED_ON, RobotsGate
from crawler.agent.room import with_room
from crawler.agent.timing import Alarm
from crawler.core.core import Core
from crawler.core.outcomes import BUSY, DENIED, DONE, FAILED, HELD, RETRY, STILL_HELD, Outcome
from crawler.core.visits import Visit
from crawler.faults import Faults
from crawler.net import retry_after_s
from crawler.ports import (
    Clock,
    Earlier,
    Failure,
    Fetched,
    Fetcher,
    FetchError,
    MovedError,
    Repository,
    Validators,
    without_errand,
)
from crawler.reading.reader import PageReader
from crawler.reading.robots import Rules

_INTRODUCED: Final = 32  # sitemaps of a robots.txt that are logged and admitted in one step
_LONG = 1024  # characters; rules may take more than a few milliseconds to judge a longer URL
_TOO_BUSY = frozenset((429, 503))  # statuses of a server that has too much to do


_Result = TypeVar("_Result")


async def _in_steps(steps: Generator[None, None, _Result]) -> _Result:
    """Do all steps. Other tasks can run between them."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: _Result = end.value
            return result
        await asyncio.sleep(0)


@dataclass(frozen=True, slots=True)
class FetchStage:
    """Makes the requests of visits. Many calls of `run` share the work.

    A visit ends as soon as the site has answered its request. `find_earlier` returns what the
    previous session says of a URL, given the key of the URL.
    """

    to_fetch: Queue[Visit]
    robots: RobotsGate
    fetcher: Fetcher
    find_earlier: Callable[[int], Earlier | None]
    reader: PageReader
    repository: Repository
    core: Core
    to_parse: Queue[Fetched]
    alarm: Alarm
    clock: Clock
    faults: Faults

    async def run(self) -> None:
        """Serve one visit after the other, until cancelled."""
        while True:
            visit = await self.to_fetch.get()
            if visit.found.is_errand:
                await self._run_errand(visit)
            else:
                await self._serve(visit)
            self.alarm.ring()

    async def _serve(self, visit: Visit) -> None:
        """Make the request that is due in this visit: for robots.txt, or for the page."""
        authority = url.authority(visit.found.url)
        rules, asked = self.robots.known(authority), False
        if rules is None:
            ruled = await self._rules(visit, authority)
            if ruled is None:
                return
            rules, asked = ruled
        if asked and not rules.unreachable:
            rules = await self._heed(visit, authority, rules)
        if rules.unreachable:
            await self._fail_by(rules, visit)
        elif asked:  # robots.txt was this visit's request
            self.core.end(visit, RETRY, self.clock.now(), crawl_delay_s=rules.crawl_delay)
        elif await self._is_allowed(visit, rules):
            await self._fetch(visit, rules.crawl_delay)

    # --- robots.txt ---------------------------------------------------------------------------

    async def _rules(self, visit: Visit, authority: str) -> tuple[Rules, bool] | None:
        """Return the result of `RobotsGate.rules`, or None if the visit has ended without rules."""
        robots, core, clock = self.robots, self.core, self.clock
        if robots.must_ask(authority):
            decided = robots.decided(visit.found.address)
            if decided is not None:
                return decided, False
        while not robots.must_ask(authority) or core.begin(visit, clock.now()):
            try:
                rules, asked = await robots.rules(authority)
            except MovedError:
                core.end(visit, RETRY, clock.now())
                return None
            if rules is ELSEWHERE and robots.awaits(authority):
                core.end(visit, HELD if asked else STILL_HELD, clock.now())
                return None
            if rules is not MOVED_ON and rules is not ELSEWHERE:
                return rules, asked
            if asked:
                core.end(visit, RETRY, clock.now())
                return None
        return None

    async def _heed(self, visit: Visit, authority: str, rules: Rules) -> Rules:
        """Use what a robots.txt says that was just fetched. Returns the rules that now count.

        They deny everything if reading code fails on the file.
        """
        core, robots, address = self.core, self.robots, visit.found.address
        try:
            sitemaps = await _in_steps(self.reader.sitemaps(authority, rules.sitemaps))
            if rules.are_large():
                robots.decide(address, rules, allowed=await self._judge(rules, address))
        except BaseException as error:
            self.faults.note(error, "the sitemaps in robots.txt", authority)
            return robots.spoil(authority)
        for first in range(0, len(sitemaps), _INTRODUCED):
            some = sitemaps[first : first + _INTRODUCED]
            await with_room(partial(self.repository.introduce, authority, some))
            core.door.introduce(some, self.clock.now())
            await asyncio.sleep(0)
        return rules

    async def _fail_by(self, rules: Rules, visit: Visit) -> None:
        """End a visit because its robots.txt could not be fetched or read."""
        failure = rules.unreachable
        assert failure is not None
        if failure is Failure.INTERNAL:
            outcome = Outcome.of(failure)
        else:  # after a 5xx or a 429 the server exists, but is busy
            outcome = BUSY if failure is Failure.ROBOTS_UNREACHABLE else FAILED
        wait_s = rules.retry_after_s
        if self.core.end(visit, outcome, self.clock.now(), retry_after_s=wait_s):
            await self.to_parse.put(failed(visit, failure, self.clock))

    async def _is_allowed(self, visit: Visit, rules: Rules) -> bool:
        """Whether the rules allow the page of a visit. If not, the visit is ended."""
        try:
            if await self._judge(rules, visit.found.address):
                return True
        except BaseException as error:
            self.faults.note(error, "the rules of robots.txt", visit.found.url)
            failure, outcome = Failure.INTERNAL, DONE
        else:
            failure, outcome = Failure.ROBOTS_DENIED, DENIED
        self.core.end(visit, outcome, self.clock.now())
        await self.to_parse.put(failed(visit, failure, self.clock))
        return False

    async def _judge(self, rules: Rules, address: str) -> bool:
        """Whether rules allow a URL. While a long URL is judged, other tasks can run.

        If the crawl stops meanwhile, this returns True, because `Core.begin` refuses the URL
        anyway.
        """
        if len(address) <= _LONG:
            return rules.allows(address)
        steps = rules.judging(address)
        while not self.core.halt.stopping:
            try:
                next(steps)
            except StopIteration as end:
                allowed: bool = end.value
                return allowed
            await asyncio.sleep(0)
        return True

    async def _run_errand(self, visit: Visit) -> None:
        """Fetch the robots.txt that other sites wait for (see RobotsGate)."""
        core, clock = self.core, self.clock
        if not core.begin(visit, clock.now()):
            return
        try:
            rules = await self.robots.fetch_errand(without_errand(visit.found.url))
        except MovedError:
            rules = MOVED_ON
        if rules is MOVED_ON:
            core.end(visit, RETRY, clock.now())
        elif rules.unreachable:
            await self._fail_by(rules, visit)
        else:
            core.end(visit, DONE, clock.now())
            await self.to_parse.put(Fetched(visit.found, clock.time()))

    # --- the page -----------------------------------------------------------------------------

    async def _fetch(self, visit: Visit, crawl_delay_s: float | None) -> None:
        core, clock, found = self.core, self.clock, visit.found
        earlier = self.find_earlier(found.key)
        if earlier is not None and earlier.row.hops < 0:
            earlier = None  # a sitemap that is a seed is read each time
        if earlier is not None and earlier.row.name != found.url:  # it has the same key
            earlier = None
        if not core.begin(visit, clock.now(), crawl_delay_s=crawl_delay_s):
            return
        try:
            # Sitemaps may be longer than pages.
            response = await self.fetcher.fetch(
                found.address,
                _validators(earlier),
                self.reader.max_bytes(found),
                self.reader.cookie(found),
            )
            fetched = Fetched(found, response.started, response, earlier=earlier)
        except FetchError as error:
            fetched = failed(visit, error.failure, clock, error.address, error.detail)
        except MovedError:
            core.end(visit, RETRY, clock.now(), crawl_delay_s=crawl_delay_s)
            return
        except BaseException as error:
            self.faults.note(error, "the exchange", found.url)
            fetched = failed(visit, Failure.INTERNAL, clock)
        outcome, wait_s = self._judged(visit, fetched)
        if core.end(visit, outcome, clock.now(), crawl_delay_s=crawl_delay_s, retry_after_s=wait_s):
            await self.to_parse.put(fetched)

    def _judged(self, visit: Visit, fetched: Fetched) -> tuple[Outcome, float | None]:
        """Return the outcome of a request, and its Retry-After in seconds if the server is busy."""
        response, wait_s = fetched.response, None
        if response is None:
            assert fetched.failure is not None
            return Outcome.of(fetched.failure), None
        fetched.retries = visit.retries
        if response.status not in _TOO_BUSY:
            return DONE, None
        fetched.failure = Failure.UNAVAILABLE
        try:
            wait_s = retry_after_s(response, self.clock.time())
        except BaseException as error:
            self.faults.note(error, "Retry-After", response.url)
            fetched.failure = Failure.INTERNAL
        return BUSY, wait_s


def failed(
    visit: Visit, failure: Failure, clock: Clock, address: str | None = None, detail: str = ""
) -> Fetched:
    """Return the result of a visit without a response. `address`: that of the server."""
    return Fetched(
        visit.found,
        clock.time(),
        failure=failure,
        address=address,
        retries=visit.retries,
        detail=detail,
    )


def _validators(earlier: Earlier | None) -> Validators | None:
    if earlier is None or not (earlier.row.etag or earlier.row.last_modified):
        return None
    return Validators(earlier.row.etag, earlier.row.last_modified)
