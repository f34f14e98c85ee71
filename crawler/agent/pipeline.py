"""The stages of an agent, in the order in which a URL walks through them.

    workbench -> busy_host_stage -> dns_stage -> fetch_stage -> parse_stage -> core -> workbench
                                                                                `---> other ranks
                                                  other ranks -> exchange_stage -> core -> workbench

Every queue between two stages is bounded. The stages form a ring, which can't stand still because
the workbench at its one open place takes everything. Who takes a visit gives it back once, and ends
it once: by putting its URL back (`core.retry`, `core.fail`, `core.locate`) or, in the parse stage,
by `core.stored`.
"""

import asyncio
import logging
import time
from asyncio import Queue
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from crawler import config, url
from crawler.core.core import Core
from crawler.core.workbench import Visit
from crawler.faults import Faults
from crawler.messages import Message, Note, decode, encode
from crawler.net import (
    MAX_ROBOTS_REDIRECTS,
    Desk,
    DeskClosedError,
    ask_for_robots,
    retry_after_s,
)
from crawler.ports import (
    OUT_OF_SCOPE,
    Clock,
    Earlier,
    Failure,
    Fetched,
    Fetcher,
    FetchError,
    Found,
    Link,
    MovedError,
    NoRoomError,
    PageRow,
    Repository,
    Response,
    Transport,
    Validators,
    without_errand,
)
from crawler.reading.reader import Reader
from crawler.reading.robots import RobotsCache, Rules

T = TypeVar("T")

_LOG = logging.getLogger("crawler")
_BACKLOG_POLL_S = 0.005
_ROOM_POLL_S = 1.0
_TURN_S = 0.005
_DECIDED = 10_000  # URLs of which it is remembered what large rules say of them
_LONG = 1024  # characters of a URL about which rules may take more than a few milliseconds
_BUSY = frozenset((429, 503))  # statuses of a server that has too much to do


class SystemClock:
    """`ports.Clock` of this machine."""

    now = staticmethod(time.monotonic)
    time = staticmethod(time.time)


class Alarm:
    """Wakes the busy-host stage: when something changed, or at a given time."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        self._event.set()

    async def wait(self, timeout: float | None) -> None:
        """Until it rings, or for `timeout` seconds."""
        timer = None
        if timeout is not None:
            timer = asyncio.get_running_loop().call_later(timeout, self._event.set)
        await self._event.wait()
        if timer is not None:
            timer.cancel()
        self._event.clear()


class _Turn:
    """Time on the event loop for one stage. A round of the loop costs as much as a small page."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends = 0.0

    async def rest(self) -> None:
        """Let the others have the loop, if the turn is over."""
        if self._clock.now() >= self._ends:
            await asyncio.sleep(0)
            self._ends = self._clock.now() + _TURN_S


class Wire:
    """The transport with messages instead of bytes, and a count of what went over it."""

    def __init__(self, transport: Transport) -> None:
        self.over = asyncio.Event()  # the crawl has ended, and all ranks have been told
        self.joining = asyncio.Event()  # sites join the scope
        self._transport = transport
        self.messages = 0
        self.bytes = 0

    def send(self, rank: int, message: Message) -> None:
        """Never waits."""
        data = encode(message, compress=self._transport.remote(rank))
        self.messages += 1
        self.bytes += len(data)
        self._transport.send(rank, data)

    def deliver(self, core: Core, now: float) -> None:
        """Send what the core wants sent now; to be called after whatever happened to it."""
        for rank, message in core.tick(now):
            self.send(rank, message)
        if core.joining:
            self.joining.set()
        if core.ended:
            self.over.set()

    def receive(self) -> list[tuple[int, Message]]:
        return [(sender, decode(data)) for sender, data in self._transport.receive()]

    def backlog(self) -> int:
        """Bytes that wait for the slowest receiver."""
        return max(map(self._transport.backlog, range(self._transport.size)))

    async def wait(self, timeout: float) -> None:
        await self._transport.wait(timeout)


@dataclass(slots=True)
class Tally:
    """What this rank has fetched, counted as it goes."""

    pages: int = 0  # responses
    bytes: int = 0
    requests: int = 0  # pages, and robots.txt files asked for
    errors: int = 0
    by_error: Counter[str] = field(default_factory=Counter)

    def add(self, row: PageRow) -> None:
        if row.status is not None:
            self.pages += 1
            self.requests += 1
            self.bytes += row.bytes
        if row.error is not None:
            self.errors += 1
            self.by_error[row.error] += 1


class RobotsGate:
    """The rules of an authority; fetched before its first page, once however many ask."""

    def __init__(
        self,
        robots: config.Robots,
        fetcher: Fetcher,
        clock: Clock,
        tally: Tally,
        faults: Faults | None = None,
        keep: Callable[[str, Response], None] | None = None,
        note: Callable[[str, float], None] = lambda _authority, _delay_s: None,
        site_of: Callable[[str], str] = url.site,
        run_errand: Callable[[str], None] = lambda _address: None,
        wake: Callable[[str], None] = lambda _site: None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """`keep` stores a robots.txt that reading code failed on. `note` hears of each crawl-delay,
        for the request log.

        `run_errand` has the file of another site fetched, by `fetch_errand`. `wake` hears of each
        site that has waited for one. `stopping`: whether the crawl stops, and large files aren't
        read any more.
        """
        self._note = note
        self._site_of = site_of
        self._run_errand = run_errand
        self._wake = wake
        # Where a robots.txt is on its site, as redirects say, by authority; and which redirect.
        self._moved: dict[str, tuple[str, int]] = {}
        # Authorities that wait for a file of another site, by its URL; and which redirect it was.
        self._waiting: dict[str, dict[str, int]] = {}
        self._far: set[str] = set()  # all of these authorities
        # Rules that have come from there, by authority; and when they were asked for.
        self._answers: dict[str, tuple[Rules, float]] = {}
        self._robots = robots
        self._fetcher = fetcher
        self._clock = clock
        self._tally = tally
        self._faults = faults or Faults()
        self._keep = keep
        # By authority, and by URL if it is a file for other sites. Expired rules are kept, to go on
        # with if they can't be had anew.
        self._cache = RobotsCache(keeps_expired=True)
        self._asking: dict[str, asyncio.Future[Rules]] = {}
        self._desk = Desk(stopping)
        # What large rules say of the URLs that they were asked for, by URL. The cache may have lost
        # them when a URL's turn comes again, and the site would be asked for ever.
        self._decided = RobotsCache(_DECIDED)

    def must_ask(self, authority: str) -> bool:
        """Whether `rules` would ask the site now."""
        if not self._robots.obey or authority in self._asking:
            return False
        if authority in self._far or authority in self._answers:
            return False
        return self._cache.get(authority, self._clock.now()) is None

    def awaits(self, authority: str) -> bool:
        """Whether the rules of an authority must come from another site first."""
        return authority in self._far

    def decided(self, address: str) -> Rules | None:
        """What large rules, asked for this URL, say of it; if there were any lately."""
        return self._decided.get(address, self._clock.now())

    def decide(self, address: str, rules: Rules, *, allowed: bool) -> None:
        """Remember what rules say of a URL."""
        verdict = Rules(crawl_delay=rules.crawl_delay) if allowed else _ALL_DENIED
        self._decided.put(address, verdict, self._clock.now())

    async def rules(self, authority: str) -> tuple[Rules, bool]:
        """The rules, and whether this call asked the site for them."""
        if not self._robots.obey:
            return _ALL_ALLOWED, False
        rules = self._cache.get(authority, self._clock.now())
        if rules is not None:
            return rules, False
        asked = self._asking.get(authority)
        if asked is not None:
            return await asyncio.shield(asked), False
        if authority in self._far:
            return ELSEWHERE, False
        # Not a task of its own: the request is to start now, as its clock has been told.
        asked = self._asking[authority] = asyncio.get_running_loop().create_future()
        try:
            rules = await self._ask(authority)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                asked.cancel()
            else:
                asked.set_exception(error)
                asked.exception()  # nobody else may wait for it
            raise
        asked.set_result(rules)
        return rules, True

    def spoil(self, authority: str) -> Rules:
        """Allow nothing at an authority, because reading code failed on its robots.txt."""
        rules = Rules.deny_all(Failure.INTERNAL)
        self._cache.put(authority, rules, self._clock.now())
        return rules

    async def _fetch(self, authority: str) -> tuple[Rules, float]:
        """Make the next request for the rules of an authority, unless their answer is here.

        Also returns when they were asked for.
        """
        if authority not in self._answers:
            address, redirects = self._moved.pop(authority, (f"{authority}/robots.txt", 0))
            found = await self._fetch_file(address)
            if isinstance(found, Rules):
                return found, self._clock.now()
            self._follow(authority, found, redirects + 1)
            if authority in self._moved:
                return MOVED_ON, self._clock.now()
            if authority in self._far:
                return ELSEWHERE, self._clock.now()
        return self._answers.pop(authority)

    async def _fetch_file(self, address: str) -> Rules | str:
        """Ask once for a robots.txt: the rules, or the URL to which it is redirected."""
        responses = _Responses(self._fetcher)
        try:
            found = await ask_for_robots(responses, address, self._robots.agent, self._desk)
        except MovedError:
            raise
        except DeskClosedError:
            found = MOVED_ON  # a resume asks again
        except BaseException as error:
            self._faults.note(error, "the file", address)
            found = Rules.deny_all(Failure.INTERNAL)
        self._tally.requests += 1
        is_internal = isinstance(found, Rules) and found.unreachable is Failure.INTERNAL
        if is_internal and responses.latest and self._keep:
            await with_room(partial(self._keep, address, responses.latest))
        return found

    def _follow(self, authority: str, address: str, redirects: int) -> None:
        """Follow a redirect of a robots.txt: note the rules, or how it is to be followed.

        It is another request. On the same site the next visit makes it, on another one an errand.
        """
        now = self._clock.now()
        if redirects > MAX_ROBOTS_REDIRECTS:
            self._answers[authority] = _ALL_ALLOWED, now
            return
        try:
            stays = self._site_of(address) == self._site_of(f"{authority}/")
        except BaseException as error:
            self._faults.note(error, "the site", address)
            self._answers[authority] = Rules.deny_all(Failure.INTERNAL), now
            return
        if stays:
            self._moved[authority] = address, redirects
            return
        other = url.authority(address)
        for name in (address, other) if address == f"{other}/robots.txt" else (address,):
            known = self._cache.get(name, now)
            if known is not None and not known.unreachable:
                self._answers[authority] = known, self._cache.since(name)
                return
        is_new = address not in self._waiting
        self._waiting.setdefault(address, {})[authority] = redirects
        self._far.add(authority)
        if is_new:
            self._run_errand(address)

    async def fetch_errand(self, address: str) -> Rules:
        """Ask for a file that sites wait for: the rules, unreachable if it is to be tried again.

        If it is redirected, everything is allowed to this errand: others go on instead of it. The
        rules are MOVED_ON if the crawl stops before the file is read.
        """
        found = await self._fetch_file(address)
        if isinstance(found, Rules):
            if not found.unreachable:
                self._cache.put(address, found, self._clock.now())
                self.end_errand(address, found)
            return found
        for authority, redirects in self._take_waiting(address):
            self._follow(authority, found, redirects + 1)
            if authority not in self._far:
                self._wake(self._site_of(f"{authority}/"))
        return _ALL_ALLOWED

    def end_errand(self, address: str, rules: Rules) -> None:
        """Let the sites that wait for a file go on with these rules."""
        for authority, _ in self._take_waiting(address):
            self._answers[authority] = rules, self._clock.now()
            self._wake(self._site_of(f"{authority}/"))

    def _take_waiting(self, address: str) -> Iterable[tuple[str, int]]:
        waiting = self._waiting.pop(address, {})
        self._far.difference_update(waiting)
        return waiting.items()

    async def _ask(self, authority: str) -> Rules:
        try:
            rules, since = await self._fetch(authority)
            if rules is MOVED_ON or rules is ELSEWHERE:
                return rules
            if rules.unreachable and rules.retry_after_s is None:
                rules = self._cache.latest(authority) or rules
            if rules.unreachable is Failure.INTERNAL:  # it would be the same again
                return self.spoil(authority)
            if not rules.unreachable:  # else nothing is known, and the next visit asks again
                self._note_delay(authority, rules)
                self._cache.put(authority, rules, since)
            return rules
        finally:
            del self._asking[authority]

    def _note_delay(self, authority: str, rules: Rules) -> None:
        before = self._cache.latest(authority)
        if rules.crawl_delay or (before is not None and before.crawl_delay):
            self._note(authority, rules.crawl_delay or 0.0)


_ALL_ALLOWED = Rules.allow_all()
_ALL_DENIED = Rules.parse(b"User-agent: *\nDisallow: /", "")
# The site is to be asked again in its time: it has redirected its robots.txt within itself, or the
# file hasn't been read.
MOVED_ON = Rules.deny_all(Failure.ROBOTS_UNREACHABLE)
# It has redirected its robots.txt to another site, and waits for what comes from there.
ELSEWHERE = Rules.deny_all(Failure.ROBOTS_UNREACHABLE)


class _Responses(Fetcher):
    """A fetcher that remembers its latest response."""

    def __init__(self, fetcher: Fetcher) -> None:
        self.fetcher = fetcher
        self.latest: Response | None = None

    async def locate(self, url: str) -> str:
        return await self.fetcher.locate(url)

    async def fetch(
        self,
        url: str,
        validators: Validators | None = None,
        max_bytes: int | None = None,
        cookie: str = "",
    ) -> Response:
        self.latest = await self.fetcher.fetch(url, validators, max_bytes)  # of a robots.txt
        return self.latest


async def busy_host_stage(
    core: Core,
    to_resolve: Queue[Visit],
    to_parse: Queue[Fetched],
    wire: Wire,
    alarm: Alarm,
    clock: Clock,
) -> None:
    """From the workbench: visits to sites that may be asked now. Those refused are over."""
    while True:
        now = clock.now()
        visit = core.acquire(now)
        if visit is not None:
            refusal = core.refusal(visit)
            if refusal is None:
                await to_resolve.put(visit)
            else:
                core.bench.release(visit, now, requested=False)
                await to_parse.put(_failed(visit, refusal, clock))
        else:
            wire.deliver(core, now)  # the core may have asked for page quota
            due = core.bench.next_time()
            # A site that is due and can't be acquired waits for page quota, which rings.
            await alarm.wait(due - now if due is not None and due > now else None)


async def dns_stage(
    to_resolve: Queue[Visit],
    fetcher: Fetcher,
    core: Core,
    to_fetch: Queue[Visit],
    to_parse: Queue[Fetched],
    alarm: Alarm,
    clock: Clock,
) -> None:
    """Only visits to hosts that have an address go on, once they may go there."""
    while True:
        visit = await to_resolve.get()
        if core.declines(visit, clock.now()):
            alarm.ring()
            continue
        try:
            server = await fetcher.locate(visit.found.url)
        except FetchError as error:
            if core.fail(visit, error.failure, clock.now()):
                await to_parse.put(_failed(visit, error.failure, clock, error.address))
            alarm.ring()
        except BaseException as error:
            core.faults.note(error, "the host name", visit.found.url)
            core.fail(visit, Failure.INTERNAL, clock.now())
            await to_parse.put(_failed(visit, Failure.INTERNAL, clock))
            alarm.ring()
        else:
            refusal = core.refusal_at(visit, server)
            if refusal is not None:
                core.fail(visit, refusal, clock.now())
                await to_parse.put(_failed(visit, refusal, clock, server))
                alarm.ring()
            elif core.locate(visit, server, clock.now()):
                await to_fetch.put(visit)
            else:
                alarm.ring()


async def fetch_stage(
    to_fetch: Queue[Visit],
    robots: RobotsGate,
    fetcher: Fetcher,
    recall: Callable[[int], Earlier | None],
    reader: Reader,
    repository: Repository,
    core: Core,
    to_parse: Queue[Fetched],
    alarm: Alarm,
    clock: Clock,
) -> None:
    """Visit to page. Many run side by side; a visit goes back as soon as the site has served it.

    `recall`: what the previous session says of a URL key.
    """
    while True:
        visit = await to_fetch.get()
        found = visit.found
        if found.is_errand:
            await _run_errand(visit, robots, core, to_parse, clock)
            alarm.ring()
            continue
        authority = url.authority(found.url)
        ruled = await _rules(visit, authority, robots, core, clock)
        if ruled is None:
            alarm.ring()
            continue
        rules, asked = ruled
        sitemaps: Sequence[Link] = ()
        allowed: bool | None = None
        if asked and not rules.unreachable:
            try:
                sitemaps = reader.sitemaps(authority, rules.sitemaps)
                if rules.are_large():
                    robots.decide(found.url, rules, allowed=await _judge(rules, found.url, core))
            except BaseException as error:
                core.faults.note(error, "the sitemaps in robots.txt", authority)
                rules = robots.spoil(authority)
        elif not rules.unreachable:
            try:
                allowed = await _judge(rules, found.url, core)
            except BaseException as error:
                core.faults.note(error, "the rules of robots.txt", found.url)
        earlier = recall(found.key) if allowed else None
        if rules.unreachable:
            if _fail_by(rules, visit, core, clock):
                await to_parse.put(_failed(visit, rules.unreachable, clock))
        elif allowed is None and not asked:
            core.fail(visit, Failure.INTERNAL, clock.now())
            await to_parse.put(_failed(visit, Failure.INTERNAL, clock))
        elif asked:  # that was this visit's request
            if sitemaps:
                await with_room(partial(repository.introduce, authority, sitemaps))
                core.introduced(sitemaps, clock.now())
            core.retry(visit, clock.now(), crawl_delay_s=rules.crawl_delay)
        elif not allowed:
            core.bench.release(visit, clock.now(), requested=False)
            await to_parse.put(_failed(visit, Failure.ROBOTS_DENIED, clock))
        elif core.begin(visit, clock.now(), crawl_delay_s=rules.crawl_delay):
            try:
                response = await _fetch(fetcher, reader, found, earlier)
                fetched = Fetched(found, response.started, response, earlier=earlier)
            except FetchError as error:
                fetched = _failed(visit, error.failure, clock, error.address)
            except MovedError:
                core.retry(visit, clock.now(), crawl_delay_s=rules.crawl_delay)
                alarm.ring()
                continue
            except BaseException as error:
                core.faults.note(error, "the exchange", found.url)
                fetched = _failed(visit, Failure.INTERNAL, clock)
            if _give_back(visit, fetched, core, rules.crawl_delay, clock):
                await to_parse.put(fetched)
        alarm.ring()


async def _judge(rules: Rules, address: str, core: Core) -> bool:
    """Whether a URL may be fetched. Others have the loop meanwhile if the URL is long.

    A stop ends the judging with True: `core.begin` refuses the URL anyway.
    """
    if len(address) <= _LONG:
        return rules.allows(address)
    steps = rules.judging(address)
    while not core.stopping:
        try:
            next(steps)
        except StopIteration as end:
            allowed: bool = end.value
            return allowed
        await asyncio.sleep(0)
    return True


async def _rules(
    visit: Visit, authority: str, robots: RobotsGate, core: Core, clock: Clock
) -> tuple[Rules, bool] | None:
    """The result of `RobotsGate.rules`; None if the visit has been given back, to ask later."""
    if robots.must_ask(authority):
        decided = robots.decided(visit.found.url)
        if decided is not None:
            return decided, False
    while not robots.must_ask(authority) or core.begin(visit, clock.now()):
        try:
            rules, asked = await robots.rules(authority)
        except MovedError:
            core.retry(visit, clock.now())
            return None
        if rules is ELSEWHERE and robots.awaits(authority):
            core.hold(visit, clock.now(), requested=asked)
            return None
        if rules is not MOVED_ON and rules is not ELSEWHERE:
            return rules, asked
        if asked:
            core.retry(visit, clock.now())
            return None
    return None


def _fail_by(rules: Rules, visit: Visit, core: Core, clock: Clock) -> bool:
    """Give back a visit because a robots.txt could not be had; whether that is final."""
    if rules.unreachable is Failure.INTERNAL:
        return core.fail(visit, Failure.INTERNAL, clock.now())
    # A 5xx or a 429: somebody is there.
    busy = rules.unreachable is Failure.ROBOTS_UNREACHABLE
    return core.fail(
        visit,
        Failure.ROBOTS_UNREACHABLE,
        clock.now(),
        busy=busy,
        retry_after_s=rules.retry_after_s,
    )


async def _run_errand(
    visit: Visit, robots: RobotsGate, core: Core, to_parse: Queue[Fetched], clock: Clock
) -> None:
    """Fetch the robots.txt that another site waits for."""
    if not core.begin(visit, clock.now()):
        return
    try:
        rules = await robots.fetch_errand(without_errand(visit.found.url))
    except MovedError:
        rules = MOVED_ON
    if rules is MOVED_ON:
        core.retry(visit, clock.now())
    elif not rules.unreachable:
        core.bench.release(visit, clock.now(), requested=True)
        await to_parse.put(Fetched(visit.found, clock.time()))
    elif _fail_by(rules, visit, core, clock):
        await to_parse.put(_failed(visit, rules.unreachable, clock))


async def _fetch(
    fetcher: Fetcher, reader: Reader, found: Found, earlier: Earlier | None
) -> Response:
    """The response for a URL; sitemaps may be longer than pages."""
    validators, limit = _validators(earlier), reader.max_bytes(found.key)
    return await fetcher.fetch(found.url, validators, limit, reader.cookie(found))


def _validators(earlier: Earlier | None) -> Validators | None:
    if earlier is None or not (earlier.row.etag or earlier.row.last_modified):
        return None
    return Validators(earlier.row.etag, earlier.row.last_modified)


def _give_back(
    visit: Visit, fetched: Fetched, core: Core, crawl_delay_s: float | None, clock: Clock
) -> bool:
    """End a visit that has made its request; whether what it brought is final."""
    now, response = clock.now(), fetched.response
    if response is None:
        assert fetched.failure is not None
        return core.fail(visit, fetched.failure, now, crawl_delay_s=crawl_delay_s)
    fetched.retries = visit.retries
    if response.status in _BUSY:
        fetched.failure, wait_s = Failure.UNAVAILABLE, None
        try:
            wait_s = retry_after_s(response, clock.time())
        except BaseException as error:
            core.faults.note(error, "Retry-After", response.url)
            fetched.failure = Failure.INTERNAL
        return core.fail(
            visit,
            Failure.UNAVAILABLE,
            now,
            busy=True,
            retry_after_s=wait_s,
            crawl_delay_s=crawl_delay_s,
        )
    core.bench.release(visit, now, requested=True, crawl_delay_s=crawl_delay_s)
    return True


def _failed(visit: Visit, failure: Failure, clock: Clock, address: str | None = None) -> Fetched:
    return Fetched(
        visit.found, clock.time(), failure=failure, address=address, retries=visit.retries
    )


async def parse_stage(
    to_parse: Queue[Fetched],
    robots: RobotsGate,
    reader: Reader,
    repository: Repository,
    core: Core,
    tally: Tally,
    wire: Wire,
    alarm: Alarm,
    max_backlog_bytes: int,
    clock: Clock,
) -> None:
    """Page to out-links; store both; hand the links to the core.

    As a full queue never makes it wait, it breaks off by the clock, for the others.
    """
    turn = _Turn(clock)
    while True:
        fetched = await to_parse.get()
        found = fetched.found
        if found.is_errand:
            if fetched.failure is not None:
                rules = Rules.deny_all(fetched.failure)
                robots.end_errand(without_errand(found.url), rules)
            core.finish(found, response=False)
            wire.deliver(core, clock.now())
            alarm.ring()
            to_parse.task_done()
            continue
        try:
            for _ in reader.read(fetched):
                await turn.rest()
        except BaseException as error:
            core.faults.note(error, "the page", found.url)
            _spoil(fetched)
        part = core.ownership.part(found)
        assert part is not None, found
        if fetched.again and core.ownership.owner(fetched.links[0]) != core.rank:
            # Cookies don't travel between ranks.
            fetched.failure, fetched.links, fetched.again = Failure.REDIRECT_LOOP, [], False
        if found.chain and core.watch.gets_lost(fetched):
            fetched.failure, fetched.links, fetched.again = Failure.TOO_MANY_REDIRECTS, [], False
        try:
            core.watch.compare(fetched)
        except BaseException as error:
            core.faults.note(error, "the comparison", found.url)
            fetched.failure = fetched.failure or Failure.INTERNAL
        row = await with_room(partial(_append, repository, reader, fetched, part, core))
        tally.add(row)
        if fetched.joins is not None:
            core.join(*fetched.joins, found.url, clock.now())
        if fetched.notice:
            _LOG.warning("%s", fetched.notice)
        for _ in core.stored(row, fetched.links, found, clock.now()):
            await turn.rest()
        if fetched.again and not fetched.links[0].flags & OUT_OF_SCOPE:
            core.ask_again(fetched.links[0], found)
        wire.deliver(core, clock.now())
        alarm.ring()
        while wire.backlog() > max_backlog_bytes:
            await asyncio.sleep(_BACKLOG_POLL_S)  # the receiver is slower than we are
        to_parse.task_done()
        await turn.rest()


def _append(
    repository: Repository, reader: Reader, fetched: Fetched, part: int, core: Core
) -> PageRow:
    """Store a fetch whose links are judged by the scope of this moment; its row."""
    try:
        reader.renew(fetched)
    except BaseException as error:
        core.faults.note(error, "the links", fetched.found.url)
        _spoil(fetched)
    return repository.append(fetched, part, core.watch.stored)


def _spoil(fetched: Fetched) -> None:
    """Keep only the response of a fetch, because reading code failed on it.

    A site that the fetch has brought into the scope stays there, and is logged.
    """
    fetched.failure = Failure.INTERNAL
    fetched.links = []
    fetched.lastmods = {}
    fetched.noindex = False
    fetched.sitemaps_of = None
    fetched.again = False


async def with_room(store: Callable[[], T]) -> T:
    """What `store` returns, once there is room on the disk. Meanwhile the rank stands still: the
    stages before this one fill up."""
    waits = False
    while True:
        try:
            stored = store()
        except NoRoomError as error:
            if not waits:
                _LOG.warning("no room: %s; the crawl goes on here when there is some", error)
            waits = True
            await asyncio.sleep(_ROOM_POLL_S)
        else:
            if waits:
                _LOG.warning("there is room again")
            return stored


async def exchange_stage(
    core: Core,
    wire: Wire,
    take_note: Callable[[int, Note], None],
    alarm: Alarm,
    max_delay_s: float,
    clock: Clock,
) -> None:
    """Batches of other ranks enter the core, and ours leave in time."""
    while True:
        now = clock.now()
        for sender, message in wire.receive():
            if isinstance(message, Note):
                take_note(sender, message)
            else:
                core.received(sender, message, now)
        wire.deliver(core, now)
        alarm.ring()
        due = core.next_time()
        await wire.wait(max_delay_s if due is None else max(0.0, due - clock.now()))
