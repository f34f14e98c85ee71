"""The stages of an agent, in the order in which a URL walks through them.

    workbench -> busy_host_stage -> dns_stage -> FetchStage -> parse_stage -> core -> workbench
                                                                              `---> other ranks
                                                other ranks -> exchange_stage -> core -> workbench

If there are page handlers, `handlers.handle_stage` stands between FetchStage and parse_stage. Every
queue between two stages is bounded. The stages form a ring. The ring can't block itself,
because the workbench isn't bounded. Each visit is ended exactly once, by `core.end`. If the visit
was the last one to its URL, the result goes on to `parse_stage`, which calls `core.stored`.
"""

import logging
from asyncio import Queue
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

import msgspec

from crawler.agent.fetching import failed
from crawler.agent.progress import Tally
from crawler.agent.robots_gate import RobotsGate
from crawler.agent.room import with_room
from crawler.agent.timing import Alarm, Turn
from crawler.agent.wire import Wire
from crawler.core.core import Core
from crawler.core.outcomes import DENIED, DONE, Outcome
from crawler.core.visits import Visit
from crawler.faults import Faults
from crawler.messages import ForPeople
from crawler.ports import (
    Clock,
    Failure,
    Fetched,
    Fetcher,
    FetchError,
    PageRow,
    Repository,
    without_errand,
)
from crawler.reading.reader import PageReader
from crawler.reading.robots import Rules
from crawler.reading.traps import TrapMonitor

_LOG = logging.getLogger("crawler")
_TOGETHER: Final = 16  # pages that are read and stored together, at most
_TOGETHER_BYTES: Final = 1 << 20  # of responses; a page with more is read and stored alone


async def busy_host_stage(
    core: Core,
    to_resolve: Queue[Visit],
    to_parse: Queue[Fetched],
    wire: Wire,
    alarm: Alarm,
    clock: Clock,
) -> None:
    """Acquire visits to sites that may be asked now, and pass them on. Refused visits are ended."""
    while True:
        now = clock.now()
        visit = core.acquire(now)
        if visit is not None:
            refusal = core.refusal(visit)
            if refusal is None:
                await to_resolve.put(visit)
            else:
                core.end(visit, DENIED, now)
                await to_parse.put(failed(visit, refusal, clock))
        else:
            wire.send_due(now)  # the core may have asked for page quota
            # A site that is due but can't be acquired waits for page quota. The alarm rings when
            # quota arrives. The call of `acquire` may have begun a cycle of URL-seen, which
            # `next_time` then wants to go on.
            times = core.next_visit_time(), core.next_time()
            due = min((time for time in times if time is not None and time > now), default=None)
            await alarm.wait(None if due is None else due - now)


async def dns_stage(
    to_resolve: Queue[Visit],
    fetcher: Fetcher,
    core: Core,
    to_fetch: Queue[Visit],
    to_parse: Queue[Fetched],
    alarm: Alarm,
    clock: Clock,
    faults: Faults,
) -> None:
    """Find the server of each visit. Pass the visit on if the server may be asked now.

    Visits to hosts without an address are ended.
    """
    while True:
        visit = await to_resolve.get()
        if core.declines(visit, clock.now()):
            alarm.ring()
            continue
        try:
            server = await fetcher.locate(visit.found.address)
        except FetchError as error:
            if core.end(visit, Outcome.of(error.failure), clock.now()):
                await to_parse.put(failed(visit, error.failure, clock, error.address, error.detail))
            alarm.ring()
        except BaseException as error:
            faults.note(error, "the host name", visit.found.url)
            core.end(visit, DONE, clock.now())
            await to_parse.put(failed(visit, Failure.INTERNAL, clock))
            alarm.ring()
        else:
            refusal = core.refusal_at(visit, server)
            if refusal is not None:
                core.end(visit, Outcome.of(refusal), clock.now())
                await to_parse.put(failed(visit, refusal, clock, server))
                alarm.ring()
            elif core.locate(visit, server, clock.now()):
                await to_fetch.put(visit)
            else:
                alarm.ring()


async def parse_stage(
    to_parse: Queue[Fetched],
    robots: RobotsGate,
    reader: PageReader,
    repository: Repository,
    core: Core,
    tally: Tally,
    wire: Wire,
    clock: Clock,
    faults: Faults,
    traps: TrapMonitor,
) -> None:
    """Find the links of each page, store the page and its links, and give the links to the core.

    Pages that wait take each step of this together. A step takes less time if another page has just
    taken it, because code and data are still in the processor's caches. Their records need only one
    write, and their rows another.

    This stage never waits at a full queue. So it pauses by the clock, to let other tasks run.
    """
    turn = Turn(clock)
    while True:
        waiting = [await to_parse.get()]
        while len(waiting) < _TOGETHER and not to_parse.empty():
            waiting.append(to_parse.get_nowait())
        for pages in _runs(waiting, reader):
            await _read(pages, reader, traps, faults, turn)
            rows = await _store(pages, repository, reader, core, faults, traps, turn)
            for fetched, row in zip(pages, rows, strict=True):
                tally.add(row, fetched.detail)
                if fetched.joins is not None:
                    core.joining.join(*fetched.joins, fetched.found.url, clock.now())
                if fetched.notice:
                    _LOG.warning("%s", fetched.notice)
                for _ in core.stored(
                    fetched.found,
                    fetched.followed,
                    clock.now(),
                    response=row.status is not None,
                    requisites=fetched.requisites,
                ):
                    await turn.rest()
        for fetched in waiting:
            if fetched.found.is_errand:
                _end_errand(fetched, robots, core, clock.now())
        wire.deliver()
        await wire.await_room()
        for _ in waiting:
            to_parse.task_done()
        await turn.rest()


def most_waiting(concurrency: int) -> int:
    """Return how many pages may wait for `parse_stage`: 1 or more.

    With those that the stage has in hand, they are at most `concurrency` + 1.
    """
    return max(concurrency + 1 - _TOGETHER, (concurrency + 1) // 2)


def _runs(waiting: Iterable[Fetched], reader: PageReader) -> Iterator[list[Fetched]]:
    """Yield the pages that are read and stored together. Errands are no pages.

    A page that may bring a site into the scope is alone. The log must name the site before it has
    a page that was judged with the site. Large pages are in runs of their own, because what is
    stored together is in memory together, and is written without a pause.
    """
    run: list[Fetched] = []
    room = _TOGETHER_BYTES
    for fetched in waiting:
        if fetched.found.is_errand:
            continue
        size = len(fetched.response.payload) if fetched.response else 0
        alone = reader.may_add_site(fetched.found)
        if run and (alone or size > room):
            yield run
            run, room = [], _TOGETHER_BYTES
        run.append(fetched)
        room = -1 if alone else room - size  # -1: no page joins it
    if run:
        yield run


def _end_errand(fetched: Fetched, robots: RobotsGate, core: Core, now: float) -> None:
    found = fetched.found
    if fetched.failure is not None:
        rules = Rules.deny_all(fetched.failure)
        robots.end_errand(without_errand(found.url), rules)
    for _ in core.stored(found, (), now, response=False):
        pass


async def _read(
    pages: Sequence[Fetched], reader: PageReader, traps: TrapMonitor, faults: Faults, turn: Turn
) -> None:
    """Find the links of pages, and compare each page with others."""
    unread = [(fetched, _steps(reader, fetched)) for fetched in pages]
    while unread:
        later = []
        for fetched, steps in unread:
            try:
                is_read = next(steps, True)  # steps yield None
            except BaseException as error:
                faults.note(error, "the page", fetched.found.url)
                _spoil(fetched)
                is_read = True
            if not is_read:
                later.append((fetched, steps))
            await turn.rest()
        unread = later
    for fetched in pages:
        found = fetched.found  # reading may have changed its hops
        if found.chain and traps.gets_lost(fetched):
            fetched.failure, fetched.links = Failure.TOO_MANY_REDIRECTS, []
        try:
            traps.compare(fetched)
        except BaseException as error:
            faults.note(error, "the comparison", found.url)
            fetched.failure = fetched.failure or Failure.INTERNAL
        await turn.rest()


def _steps(reader: PageReader, fetched: Fetched) -> Iterator[None]:
    """Yield the steps of reading a page. Whatever goes wrong does so in a step."""
    yield from reader.read(fetched)


async def _store(
    pages: Sequence[Fetched],
    repository: Repository,
    reader: PageReader,
    core: Core,
    faults: Faults,
    traps: TrapMonitor,
    turn: Turn,
) -> list[PageRow]:
    """Store pages, after their links are judged by the present scope. Returns their rows."""
    for fetched in pages:
        repository.hash(fetched)
        await turn.rest()
    rows = []
    for fetched in pages:
        part = core.ownership.row_part(fetched.found)
        rows.append(await with_room(partial(repository.archive, fetched, part, traps.stored)))
        await turn.rest()

    def log() -> None:
        # If a site joins the scope, the log is searched for links to it. So no site may join after
        # the links are judged, and before they are in the log.
        for at, fetched in enumerate(pages):
            try:
                reader.renew(fetched)
            except BaseException as error:
                faults.note(error, "the links", fetched.found.url)
                _spoil(fetched)
                rows[at] = msgspec.structs.replace(
                    rows[at],
                    error=Failure.INTERNAL.value,
                    noindex=False,
                    title=None,
                    language=None,
                )
        repository.log(pages, rows)

    await with_room(log)
    return rows


def _spoil(fetched: Fetched) -> None:
    """Keep only the response of a fetch, because reading code failed on it.

    If the fetch has brought a site into the scope, the site stays in it, and is logged.
    """
    fetched.failure = Failure.INTERNAL
    fetched.links = []
    fetched.anchors = ()
    fetched.requisites = []
    fetched.lastmods = {}
    fetched.noindex = False
    fetched.title = fetched.language = None
    fetched.sitemaps_of = None


async def exchange_stage(
    core: Core,
    wire: Wire,
    take: Callable[[int, ForPeople], None],
    max_delay_s: float,
    clock: Clock,
) -> None:
    """Give messages of other ranks to the core, and send the batches that are due.

    `take` gets the messages that are only for people, each with its sender.
    """
    while True:
        now = clock.now()
        for sender, message in wire.receive():
            said = core.received(sender, message, now)
            if said is not None:
                take(*said)
        wire.deliver()
        due = core.next_time()
        await wire.wait(max_delay_s if due is None else max(0.0, due - clock.now()))
