"""Builds an agent on each rank, runs the crawl, and ends the session together.

The command line and the demonstration enter here, on all ranks at a time: `prepare` on rank 0, then
`crawl` everywhere. Only rank 0 speaks to the user; the others send it notes.
"""

import asyncio
import logging
import resource
import signal
import time
from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from crawler import config, mpi, session, url
from crawler.core import Core
from crawler.exchange import Note
from crawler.net import DnsResolver, HttpFetcher
from crawler.ownership import Ownership, make_scheme, place_parts, replicated_urls
from crawler.parse import Kinds, media_type
from crawler.pipeline import (
    Alarm,
    RobotsGate,
    SystemClock,
    Tally,
    Wire,
    busy_host_stage,
    dns_stage,
    exchange_stage,
    fetch_stage,
    parse_stage,
)
from crawler.ports import Fetched, Response, UserError
from crawler.progress import Board, RankLog
from crawler.reading import Reader, make_scope
from crawler.report import Counters, write_counters, write_metrics
from crawler.seen import MemorySeen
from crawler.workbench import Visit

_NOTE_INTERVAL_S = 1.0
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
_LOG = logging.getLogger("crawler")


@dataclass(frozen=True)
class Plan:
    """What all ranks agree on before a crawl."""

    settings: config.Config
    directory: Path
    seeds: Sequence[str]  # normalised


def prepare(settings: config.Config, ranks: int) -> Plan:
    """Check everything that can be checked beforehand, and make the session directory.

    Raises UserError: no seeds, a seed that is no URL or isn't in the scope, a missing file, a part
    vector for fewer ranks, no contact, a directory that holds a session.
    """
    seeds = _seeds(settings)
    scope = make_scope(settings, seeds, time.gmtime().tm_year)
    for seed in seeds:
        verdict = scope.judge(seed)
        if not verdict.allowed:
            raise UserError(f"seed {seed}: out of scope ({verdict.rule}); [scope] must allow it")
    scheme = make_scheme(settings.assignment, ranks)
    for file in settings.fetch.ca_files:
        if not Path(file).is_file():
            raise UserError(f"fetch.ca_files: {file}: no such file; PEM files are needed")
    if not (settings.fetch.contact or settings.fetch.allow_private_addresses):
        raise UserError(
            "fetch.contact = '': who runs a site must be able to reach you; say how:"
            " --set fetch.contact=you@example.org, or the address of a page about the crawl"
        )
    if settings.session.previous:
        _check_previous(Path(settings.session.previous))
    directory = Path(settings.session.directory or time.strftime("session-%Y%m%d-%H%M%S"))
    session.create(directory, settings, ranks, scheme.parts)
    return Plan(settings, directory, seeds)


def _check_previous(directory: Path) -> None:
    try:
        session.load(directory)
    except UserError as error:
        raise UserError(f"session.previous: {error}") from None


def _seeds(settings: config.Config) -> list[str]:
    fold = settings.normalise.folding()
    lines, file = list(settings.session.seeds), settings.session.seeds_file
    if file:
        try:
            text = Path(file).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(
                f"session.seeds_file = {file!r}: {error}; a text file with one URL a line is needed"
            ) from None
        lines += [line.strip() for line in text.splitlines()]
    seeds: dict[str, None] = {}
    for line in lines:
        if line and not line.startswith("#"):
            try:
                seed = url.normalise(line)
            except url.BadUrlError:
                raise UserError(f"seed {line!r}: not an http or https URL") from None
            seeds[fold(seed) if fold else seed] = None
    if not seeds:
        raise UserError("no seeds: name URLs, or set session.seeds or session.seeds_file")
    return list(seeds)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a crawl ended, at a rank or altogether."""

    complete: bool  # the frontier ran empty
    stopped: str  # what ended it early: the name of a signal, or max_time; empty if nothing did

    @property
    def reason(self) -> str:
        return "complete" if self.complete else self.stopped or "max_pages"


async def crawl(plan: Plan, reachable: Collection[int] | None = None) -> Ending:
    """Run one session on all ranks; how it ended, on all.

    `reachable`: see report.write_counters; rank 0's counts.
    """
    transport = await mpi.start()
    agent = _Agent(plan, transport)
    everybody = await mpi.gather(await agent.run())
    ending = Ending(False, "")  # only rank 0's counts
    if mpi.RANK == 0:
        endings = [one for _, one in everybody]
        ending = Ending(
            all(one.complete for one in endings),
            next((one.stopped for one in endings if one.stopped), ""),
        )
        session.finish(plan.directory, ending.complete, ending.reason)
        write_counters(plan.directory, [counters for counters, _ in everybody], reachable)
        write_metrics(plan.directory)
    return await mpi.bcast(ending)


def _raise_file_limit() -> None:
    """Each connection is a file; aiohttp also keeps those of sites that it has just left."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class _Agent:
    """One rank of a crawl."""

    def __init__(self, plan: Plan, transport: mpi.MpiTransport) -> None:
        settings = plan.settings
        self._settings = settings
        self._clock = SystemClock()
        self._transport = transport
        self._wire = Wire(transport)
        self._alarm = Alarm()
        self._tally = Tally()
        self._stopped = ""
        self._scope = make_scope(settings, plan.seeds, time.gmtime().tm_year)
        scheme = make_scheme(settings.assignment, transport.size)
        rank_of_part = place_parts(scheme, transport.size)
        self._ownership = Ownership(
            transport.rank, scheme, rank_of_part, settings.assignment.unlisted
        )
        self._core = Core(
            settings, transport.size, self._ownership, self._scope.sites, MemorySeen()
        )
        self._seeds = [self._scope.link(seed) for seed in plan.seeds]
        popular = replicated_urls(scheme) if settings.exchange.replicated else ()
        self._replicated = [self._scope.link(address) for address in popular]
        self._kinds = Kinds(settings.storage.types)
        self._store = session.RankStore(
            plan.directory,
            transport.rank,
            settings.storage,
            user_agent=settings.fetch.user_agent_header,
            obeys_robots=settings.robots.obey,
            keeps=self._keeps,
        )
        self._log = RankLog(self._store.directory / "agent.log", transport.rank)
        self._board = Board(settings.session.max_pages)

    async def run(self) -> tuple[Counters, Ending]:
        """Crawl to the end, which is the same for all ranks."""
        started = self._clock.now()
        _raise_file_limit()
        loop = asyncio.get_running_loop()
        for number in _STOP_SIGNALS:
            loop.add_signal_handler(number, self._stop, signal.Signals(number).name)
        timer = None
        if self._settings.session.max_time:
            timer = loop.call_later(self._settings.session.max_time, self._stop, "max_time")
        _LOG.info("started")
        try:
            await self._crawl()
            self._store.close()
            await self._transport.close()
        except BaseException:
            _LOG.exception("failed")
            raise
        finally:
            if timer is not None:
                timer.cancel()
            for number in _STOP_SIGNALS:
                loop.remove_signal_handler(number)
            self._board.close()
        counters = self._counters(self._clock.now() - started)
        ending = Ending(self._core.complete, self._stopped)
        _LOG.info("ended", extra={"about": asdict(ending)})
        self._log.close()
        return counters, ending

    async def _crawl(self) -> None:
        settings, core, clock = self._settings, self._core, self._clock
        width = settings.fetch.concurrency
        to_resolve: asyncio.Queue[Visit] = asyncio.Queue(width)
        to_fetch: asyncio.Queue[Visit] = asyncio.Queue(width)
        to_parse: asyncio.Queue[Fetched] = asyncio.Queue(width)
        async with AsyncExitStack() as stack:
            resolver = await stack.enter_async_context(
                DnsResolver(settings.dns, settings.fetch.allow_private_addresses, clock)
            )
            fetcher = await stack.enter_async_context(HttpFetcher(settings.fetch, resolver))
            recall = stack.enter_context(self._previous()).find
            robots = RobotsGate(settings.robots, fetcher, clock, self._tally)
            reader = Reader(settings, self._scope)
            group = await stack.enter_async_context(asyncio.TaskGroup())
            stages = [
                busy_host_stage(core, to_resolve, to_parse, self._wire, self._alarm, clock),
                *(
                    dns_stage(to_resolve, resolver, core, to_fetch, to_parse, self._alarm, clock)
                    for _ in range(settings.dns.concurrency)
                ),
                *(
                    fetch_stage(
                        to_fetch,
                        robots,
                        fetcher,
                        recall,
                        reader,
                        core,
                        to_parse,
                        self._alarm,
                        clock,
                    )
                    for _ in range(width)
                ),
                parse_stage(
                    to_parse,
                    reader,
                    self._store,
                    core,
                    self._tally,
                    self._wire,
                    self._alarm,
                    settings.exchange.max_backlog_bytes,
                    clock,
                ),
                exchange_stage(
                    core,
                    self._wire,
                    self._board.update,
                    self._alarm,
                    settings.exchange.max_delay_s,
                    clock,
                ),
                self._note_stage(),
            ]
            core.start(self._seeds, clock.now(), self._replicated)
            tasks = [group.create_task(stage) for stage in stages]
            await self._wire.over.wait()
            for task in tasks:
                task.cancel()

    def _keeps(self, response: Response) -> bool:
        return self._kinds.hold(media_type(response.content_type, response.body), response.url)

    def _previous(self) -> session.Previous:
        """The pages of the previous session that this rank may have to fetch."""
        directory = self._settings.session.previous
        rank = self._transport.rank
        return session.Previous(
            Path(directory) if directory else None,
            lambda row: self._ownership.owner(row) in {None, rank},
        )

    def _stop(self, reason: str) -> None:
        """End the crawl early, on all ranks; what is under way is finished."""
        self._stopped = self._stopped or reason
        _LOG.info("stopping", extra={"about": {"reason": reason}})
        now = self._clock.now()
        self._core.stop(now)
        self._wire.deliver(self._core, now)
        self._alarm.ring()

    async def _note_stage(self) -> None:
        """Tell rank 0, and rank 0 the user, how far we are."""
        while True:
            await asyncio.sleep(_NOTE_INTERVAL_S)
            note = Note(
                self._tally.pages,
                self._tally.bytes,
                self._core.bench.waiting,
                self._tally.errors,
                self._log.take_warnings(),
            )
            if self._transport.rank == 0:
                self._board.update(0, note)
                self._board.show()
            elif not self._transport.backlog(0):  # rank 0 is not so far behind as to be flooded
                self._wire.send(0, note)

    def _counters(self, seconds: float) -> Counters:
        traffic = self._core.traffic
        usage = resource.getrusage(resource.RUSAGE_SELF)
        remembers = self._settings.exchange.remember == "all"
        return Counters(
            rank=self._transport.rank,
            seconds=seconds,
            cpu_seconds=usage.ru_utime + usage.ru_stime,
            peak_bytes=usage.ru_maxrss * 1024,
            waiting=self._core.bench.waiting,
            requests=self._tally.requests,
            retries=self._core.retries,
            by_trap=dict(self._scope.trapped + self._core.watch.fired),
            inter_part_links=traffic.inter_part_links,
            inter_part_urls=traffic.inter_part_urls,
            messages_page_part=traffic.messages_page_part,
            site_part=traffic.site_part,
            # Who forgets what was sent can't count different URLs.
            transmissions_target_part=traffic.inter_part_urls if remembers else None,
            claims=traffic.claims,
            mpi_messages=self._wire.messages,
            mpi_bytes=self._wire.bytes,
        )
