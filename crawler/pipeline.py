"""The stages of an agent, in the order in which a URL walks through them.

    workbench -> busy_host_stage -> dns_stage -> fetch_stage -> parse_stage -> core -> workbench
                                                                                `---> other ranks
                                                  other ranks -> exchange_stage -> core -> workbench

Every queue between two stages is bounded. The stages form a ring, which can't stand still because
the workbench at its one open place takes everything. Who takes a visit gives it back once, and ends
it once: `core.retry` or, in the parse stage, `core.finish`.
"""

import asyncio
import time
from asyncio import Queue
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from crawler import config, url
from crawler.core import Core, redirect_failure
from crawler.exchange import Message, Note, decode, encode
from crawler.net import fetch_robots
from crawler.parse import decode as decode_text
from crawler.parse import extract, is_html
from crawler.ports import (
    REDIRECT,
    Clock,
    Failure,
    Fetched,
    Fetcher,
    FetchError,
    PageRow,
    Repository,
    Resolver,
    Response,
    Transport,
)
from crawler.robots import RobotsCache, Rules
from crawler.scope import Scope
from crawler.workbench import Visit

REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_BACKLOG_POLL_S = 0.005


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


class Wire:
    """The transport with messages instead of bytes, and a count of what went over it."""

    def __init__(self, transport: Transport) -> None:
        self.over = asyncio.Event()  # the crawl has ended, and all ranks have been told
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

    def __init__(self, robots: config.Robots, fetcher: Fetcher, clock: Clock, tally: Tally) -> None:
        self._robots = robots
        self._fetcher = fetcher
        self._clock = clock
        self._tally = tally
        self._cache = RobotsCache()
        self._asking: dict[str, asyncio.Task[Rules]] = {}

    async def rules(self, authority: str) -> tuple[Rules, bool]:
        """The rules, and whether this call asked the site for them."""
        if not self._robots.obey:
            return _ALL_ALLOWED, False
        rules = self._cache.get(authority, self._clock.now())
        if rules is not None:
            return rules, False
        task = self._asking.get(authority)
        asks = task is None
        if task is None:
            task = self._asking[authority] = asyncio.ensure_future(self._ask(authority))
        return await task, asks

    async def _ask(self, authority: str) -> Rules:
        try:
            rules = await fetch_robots(self._fetcher, authority, self._robots.agent)
            self._tally.requests += 1
            self._cache.put(authority, rules, self._clock.now())
            return rules
        finally:
            del self._asking[authority]


_ALL_ALLOWED = Rules.allow_all()


async def busy_host_stage(
    core: Core, to_resolve: Queue[Visit], wire: Wire, alarm: Alarm, clock: Clock
) -> None:
    """From the workbench: visits to sites that may be asked now."""
    while True:
        now = clock.now()
        visit = core.acquire(now)
        if visit is not None:
            await to_resolve.put(visit)
        else:
            wire.deliver(core, now)  # the core may have asked for page quota
            due = core.bench.next_time()
            # A site that is due and can't be acquired waits for page quota, which rings.
            await alarm.wait(due - now if due is not None and due > now else None)


async def dns_stage(
    to_resolve: Queue[Visit],
    resolver: Resolver,
    core: Core,
    to_fetch: Queue[Visit],
    to_parse: Queue[Fetched],
    clock: Clock,
) -> None:
    """Only visits to hosts that have an address go on; the others are over."""
    while True:
        visit = await to_resolve.get()
        try:
            await resolver.resolve(url.host(visit.found.url))
        except FetchError as error:
            core.bench.release(visit, clock.now(), requested=False)
            await to_parse.put(_failed(visit, error, clock))
        else:
            await to_fetch.put(visit)


async def fetch_stage(
    to_fetch: Queue[Visit],
    robots: RobotsGate,
    fetcher: Fetcher,
    core: Core,
    to_parse: Queue[Fetched],
    clock: Clock,
) -> None:
    """Visit to page. Many run side by side; a visit goes back as soon as the site has served it."""
    while True:
        visit = await to_fetch.get()
        found = visit.found
        rules, asked = await robots.rules(url.authority(found.url))
        if asked:  # that was this visit's request
            core.retry(visit, clock.now(), crawl_delay_s=rules.crawl_delay)
            continue
        if not rules.allows(found.url):
            core.bench.release(visit, clock.now(), requested=False)
            failure = rules.unreachable or Failure.ROBOTS_DENIED
            await to_parse.put(Fetched(found, clock.time(), failure=failure))
            continue
        try:
            response = await fetcher.fetch(found.url)
            fetched = Fetched(found, response.started, response)
        except FetchError as error:
            fetched = _failed(visit, error, clock)
        finally:
            core.bench.release(visit, clock.now(), requested=True, crawl_delay_s=rules.crawl_delay)
        await to_parse.put(fetched)


def _failed(visit: Visit, error: FetchError, clock: Clock) -> Fetched:
    return Fetched(visit.found, clock.time(), failure=error.failure, address=error.address)


async def parse_stage(
    to_parse: Queue[Fetched],
    read: Callable[[Fetched], None],
    repository: Repository,
    core: Core,
    tally: Tally,
    wire: Wire,
    alarm: Alarm,
    max_backlog_bytes: int,
    clock: Clock,
) -> None:
    """Page to out-links; store both; hand the links to the core."""
    while True:
        fetched = await to_parse.get()
        found = fetched.found
        read(fetched)
        part = core.ownership.part(found.key, found.site)
        assert part is not None, found
        tally.add(repository.append(fetched, part))
        now = clock.now()
        core.discovered(found, fetched.links, now)
        core.finish(response=fetched.response is not None)
        wire.deliver(core, now)
        alarm.ring()
        while wire.backlog() > max_backlog_bytes:
            await asyncio.sleep(_BACKLOG_POLL_S)  # the receiver is slower than we are
        await asyncio.sleep(0)  # a full queue never makes us wait, but the others have work


def read_links(fetched: Fetched, scope: Scope, elements: frozenset[str]) -> None:
    """Fill in the out-links of what was fetched: of a page its links, of a redirect its target."""
    response = fetched.response
    if response is None:
        return
    if response.status in REDIRECTS:
        try:
            target = scope.link(redirect_target(response), REDIRECT)
        except url.BadUrlError:
            fetched.failure = Failure.BAD_REDIRECT
            return
        fetched.failure = redirect_failure(fetched.found, target.key)
        if fetched.failure is None:
            fetched.links = [target]
    else:
        _, links = page_links(response, elements)
        fetched.links = [scope.link(address, flags) for address, flags in links]


def redirect_target(response: Response) -> str:
    """Where a redirect leads, normalised. Raises BadUrlError if that is nowhere."""
    location = response.header(b"location")
    if location is None:
        raise url.BadUrlError("")
    # Bytes beyond ASCII go to the wire as they came.
    text = "".join(chr(byte) if byte < 0x80 else f"%{byte:02X}" for byte in location)
    return url.normalise(text, response.url)


def page_links(
    response: Response, elements: frozenset[str]
) -> tuple[str | None, list[tuple[str, int]]]:
    """The encoding of an HTML page with its distinct links and their flags, else None and none."""
    content_type = response.content_type
    if response.status != 200 or not is_html(content_type, response.body):
        return None, []
    text, encoding = decode_text(response.body, content_type)
    return encoding, extract(text, response.url, elements)


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
