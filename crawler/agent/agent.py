"""Builds an agent on each rank, runs the crawl, and ends the session together.

The command line and the demonstration enter `crawl` on all ranks at a time, with what `planning`
has settled on rank 0. Only rank 0 speaks to the user; the others send it notes.
"""

import asyncio
import gc
import logging
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import NoReturn

import msgspec

from crawler import config, session
from crawler.agent.fetching import FetchStage
from crawler.agent.pipeline import busy_host_stage, dns_stage, exchange_stage, parse_stage
from crawler.agent.planning import Plan, prepare_again
from crawler.agent.progress import Board, RankLog, Tally
from crawler.agent.resume import Replay
from crawler.agent.robots_gate import RobotsGate
from crawler.agent.timing import Alarm, SystemClock
from crawler.agent.widening import Widening
from crawler.agent.wire import Wire
from crawler.core.core import Core
from crawler.core.order import make_order, pagerank_by_key
from crawler.core.ownership import Ownership, make_scheme, place_parts
from crawler.core.seen import MemorySeen
from crawler.core.state import State
from crawler.core.workbench import Visit
from crawler.messages import Note
from crawler.net import DnsResolver, HttpFetcher, NotingFetcher
from crawler.ports import (
    EXIT_STOPPED,
    CrawlDelay,
    Fetched,
    Group,
    LostRankError,
    NoRoomError,
    PageRow,
    Response,
    Transport,
    UserError,
)
from crawler.reading.media import types_of
from crawler.reading.parse import Kinds
from crawler.reading.reader import Reader, make_scope
from crawler.report.correcting import correction_of
from crawler.report.endings import NOT_FETCHED, is_success
from crawler.report.report import Counters, write_counters, write_metrics

_NOTE_INTERVAL_S = 1.0
_AWAITING_NAMES = 1024  # visits at a time: many names may be dead, and others known already
_FILES = 64  # further open files of a rank: of Python, of the MPI, and its own
_SAMPLES = 500  # of the progress that a rank keeps
_LOST_BREATH_S = 120.0  # a file server holds the locks of a dead node for a minute or more
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
_PATIENCE_S = 1.0  # launchers and terminals may deliver one signal twice
_LOOK_S = 1.0  # between two looks for an order to stop
_PARSE_GRACE_S = 5.0  # after stop_grace, for what was fetched to be stored
_LOG = logging.getLogger("crawler")


@dataclass(frozen=True, slots=True)
class Ending:
    """How a crawl ended, at a rank or altogether."""

    complete: bool  # the frontier ran empty
    stopped: str  # what ended it early: the name of a signal, or max_time; empty if nothing did
    reported: bool = True  # false: there was no room for tables and measures
    internal_errors: int = 0  # of all runs of the session
    fetched: bool = True  # false: the session has no page that was fetched with success

    @property
    def reason(self) -> str:
        if not self.fetched:
            return NOT_FETCHED
        return "complete" if self.complete else self.stopped or "max_pages"


async def crawl(plan: Plan, group: Group, reachable: Collection[int] | None = None) -> Ending:
    """Run one session on all ranks; how it ended, on all.

    When ranks are lost, and the MPI lets the others go on, these begin a further run of the
    session: they replay the logs, also those of the lost ranks, as a resume on fewer ranks does.
    In the modes whose number of ranks must stay the same, LostRankError is raised instead.

    `reachable`: see report.write_counters; rank 0's counts.
    """
    session.join_session(plan.directory)
    ending = None
    try:
        ending = await _crawl(plan, group, reachable)
    finally:
        session.leave_session(plan.directory)
        session.unlock_session(plan.directory, crawled=ending is not None)
    return ending


async def _crawl(plan: Plan, group: Group, reachable: Collection[int] | None) -> Ending:
    job = _Job(Board(plan.settings.session.max_pages))
    while True:
        transport = agent = ending = None
        try:
            if job.lost:
                plan = await _plan_again(plan, group, job)
            transport = await group.connect()
            with session.mistakes_told():
                scores = await _earlier_scores(plan, group)
                agent = _Agent(plan, group, transport, scores, job)
            ending = await _crawl_once(agent, plan, group, reachable)
        except LostRankError:
            if plan.settings.session.mode != "exchange":
                raise
            if transport is not None:
                transport.abandon()
        # All or none: who dies at the very end may have told only some that all is done.
        if await group.all_done(ending is not None):
            assert ending is not None
            assert agent is not None
            agent.close()
            return ending
        for left in (transport, agent):
            if left is not None:
                left.abandon()
        ranks = group.size
        await group.survive()
        job.lost += ranks - group.size


@dataclass(slots=True)
class _Job:
    """What lasts of a rank's agents, when ranks are lost: each of them is new."""

    board: Board
    began: float = field(default_factory=time.monotonic)
    lost: int = 0  # ranks
    left: float = -inf  # when the latest agent had to leave
    stopped: str = ""  # what ends the crawl early: the name of a signal, stop, or max_time
    stopped_at: float = 0.0


async def _plan_again(plan: Plan, group: Group, job: _Job) -> Plan:
    """What those who are left agree on. An order to stop that has just come holds for them, too."""
    again = None
    if group.rank == 0:
        # The lock may have been the lost rank's. An intruder who has it finds that ranks are alive.
        session.lock_session(plan.directory, session.CRAWLED, _LOST_BREATH_S)
        if session.is_asked_to_stop(plan.directory):  # `prepare_again` takes it away
            job.stopped = job.stopped or "stop"
        lost = session.load(plan.directory).last.ranks - group.size
        session.finish(plan.directory, False, "lost rank", lost=lost)
        again = prepare_again(plan.directory, plan.settings, group.size, _LOST_BREATH_S)
    again = await group.bcast(again)
    assert again is not None
    return again


async def _crawl_once(
    agent: "_Agent", plan: Plan, group: Group, reachable: Collection[int] | None
) -> Ending:
    """A run of the session."""
    everybody = await group.gather(await agent.run())
    endings = [one for _, one, _ in everybody]
    ending = await group.bcast(  # only rank 0's counts
        Ending(
            all(one.complete for one in endings),
            next((one.stopped for one in endings if one.stopped), ""),
        )
    )
    if not ending.complete:
        agent.leave_snapshot()
    if group.rank == 0:
        for _, _, warnings in everybody:
            agent.board.say_rest(warnings)
        try:
            with session.mistakes_told(str(plan.directory)):
                if not ending.stopped and not session.holds(plan.directory, is_success):
                    ending = replace(ending, fetched=False)
                complete = ending.complete and ending.fetched
                session.finish(plan.directory, complete, ending.reason)
                if ending.complete:
                    session.remove_snapshots(plan.directory)
                counters = [counters for counters, _, _ in everybody]
                write_counters(plan.directory, plan.run, counters, reachable)
                metrics = write_metrics(plan.directory)
                ending = replace(ending, internal_errors=metrics["internal_errors"])
        except (NoRoomError, OSError) as error:
            if isinstance(error, OSError) and not session.is_no_room(error):
                raise
            ending = replace(ending, reported=False)
    return await group.bcast(ending)


async def _earlier_scores(plan: Plan, group: Group) -> session.EarlierScores | None:
    """The PageRank of the previous session's pages, if the order asks for it; computed once."""
    settings, path = plan.settings, plan.directory / "previous-pagerank.npy"
    if settings.frontier.order != "pagerank" or not settings.session.previous:
        return None
    if group.rank == 0:
        previous = Path(settings.session.previous)
        links = session.read_links(previous, correction_of(previous))
        session.EarlierScores.write(path, *pagerank_by_key(*links))
    await group.bcast(None)
    scores = session.EarlierScores(path)
    await group.gather(None)
    if group.rank == 0:
        path.unlink()  # the ranks go on to have it in memory
    return scores


def _end_by_disk(group: Group, words: str) -> NoReturn:
    """End all ranks with exit code 1 and one line; the traceback is in agent.log."""
    if group.size > 1:
        group.abort(1, words)
    sys.stderr.write(words)
    raise SystemExit(1)


def _allow_files(settings: config.Config, logs: int) -> None:
    """Raise this process's limit of open files as far as the system allows.

    Each connection is a file, and aiohttp also keeps connections of sites that it has just left.
    `logs` is the number of log files of earlier runs; all are open during a replay. Raises
    UserError if the limit is too low for the crawl.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    needed = _FILES + logs + 2 * settings.fetch.concurrency
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise UserError(
            f"a process may have {hard} files open (ulimit -Hn); this crawl needs {needed} a rank:"
            f" raise the limit, or lower fetch.concurrency = {settings.fetch.concurrency}"
        )


def _prepare_process() -> None:
    """Let the garbage collector run rarely.

    A collection stops the loop for a time that grows with the waiting URLs. It finds next to
    nothing, because the objects of a page are freed by reference counts.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


class _Agent:
    """One rank of a crawl."""

    def __init__(
        self,
        plan: Plan,
        group: Group,
        transport: Transport,
        scores: session.EarlierScores | None,
        job: _Job,
    ) -> None:
        settings = plan.settings
        self._plan = plan
        self._job = job
        self._group = group
        self.board = job.board
        self._directory = plan.directory
        self._settings = settings
        self._clock = SystemClock()
        self._transport = transport
        self._wire = Wire(transport)
        self._alarm = Alarm()
        self._tally = Tally()
        self._state: State | None = None  # at the end, for a snapshot
        self._hashes: session.LogHashes | None = None  # of the logs of earlier runs
        self._progress: list[tuple[float, int]] = []
        self._lost = False
        logs = plan.logs[transport.rank] if plan.logs else ()
        _allow_files(settings, len(logs))
        self._scope = make_scope(settings, plan.seeds, time.gmtime().tm_year)
        self._scope.recall_joined(one.site for one in plan.joined)
        scheme = make_scheme(settings.assignment, transport.size, plan.kept_sites)
        rank_of_part = place_parts(scheme, transport.size)
        self._ownership = Ownership(
            transport.rank,
            scheme,
            rank_of_part,
            settings.assignment.unlisted,
            settings.session.mode,
        )
        self._spill = session.SpillFiles(plan.directory / f"rank-{transport.rank:05}" / "frontier")
        self._core = Core(
            settings,
            transport.size,
            self._ownership,
            self._scope.sites,
            MemorySeen(),
            make_order(settings.frontier, scores.find) if scores else None,
            self._spill,
        )
        self._seeds = [self._scope.link(seed) for seed in plan.seeds]
        self._replicated = [self._scope.link(address) for address in plan.replicated]
        self._kinds = Kinds(settings.storage.types)
        session.mend({path.parent.parent for path in logs})
        self._manners = session.Manners.of(settings, plan.run, transport.rank, self._clock)
        self._store = session.RankStore(
            plan.directory,
            transport.rank,
            settings.storage,
            user_agent=settings.fetch.user_agent_header,
            obeys_robots=settings.robots.obey,
            keeps=self._keeps,
            faults=self._core.faults,
            manners=self._manners,
        )
        self._core.recall_joined(self._scope.joined)
        self._store.note_joined(one for one in plan.joined if one.site in self._scope.joined)
        self._reader = Reader(settings, self._scope, self._core.named_by)
        self._log = RankLog(self._store.directory / "agent.log", transport.rank)
        self._replay = None
        if plan.logs:
            self._replay = Replay(
                logs,
                settings,
                self._core,
                group,
                self._recall,
                judges_again=plan.judges_again,
                correct=session.Correction(self._scope.joined, self._reader.brings_in),
            )
        self._widening = Widening(
            self._core,
            self._scope,
            self._reader,
            self._store,
            logs,
            self._wire,
            self._alarm,
            self._clock,
        )

    async def run(self) -> tuple[Counters, Ending, list[str]]:
        """Crawl to the end, which is the same for all ranks. The last warnings are with it.

        From here to `close` signals are ours: those that come too late to stop anything don't keep
        the report from being written, nor change the exit code.
        """
        started = self._clock.now()
        _prepare_process()
        loop = asyncio.get_running_loop()
        for number in _STOP_SIGNALS:
            loop.add_signal_handler(number, self._signalled, number)
        timer = None
        if self._settings.session.max_time:
            left = self._job.began + self._settings.session.max_time - started
            timer = loop.call_later(max(0.0, left), self._stop, "max_time")
        about = {"pid": os.getpid(), "host": socket.gethostname()}
        _LOG.info("started", extra={"about": about})
        if self._job.lost and self._transport.rank == 0:
            _LOG.warning("ranks lost: %d; %d go on", self._job.lost, self._transport.size)
        try:
            await self._crawl()
            self._store.close()
            await self._transport.close()
        except LostRankError:
            raise
        except BaseException as error:
            _LOG.exception("failed")
            failed = session.failed_file(error, self._directory)
            if failed is not None:
                words = f"error: {failed}; the crawl ends: mend it, and resume the session\n"
                _end_by_disk(self._group, words)
            raise
        finally:
            if timer is not None:
                timer.cancel()
            self.board.close()
        counters = self._counters(self._clock.now() - started)
        ending = Ending(self._core.complete, self._job.stopped)
        _LOG.info("ended", extra={"about": asdict(ending)})
        self._log.close()
        return counters, ending, list(self._log.latest)

    def abandon(self) -> None:
        """Leave after the loss of a rank, with what is stored so far. Signals are still heard here,
        until the next agent listens."""
        if self._core.stopping:  # the rank that knows why may be the lost one
            self._job.stopped = self._job.stopped or "stop"
        self._job.left = self._clock.now()
        _LOG.info("a rank is lost")
        self._store.close()
        self._log.close()
        self._spill.close()
        gc.unfreeze()  # this agent is garbage now

    def close(self) -> None:
        self._spill.close()
        for number in _STOP_SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)

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
            by_address = settings.politeness.per == "address"
            fetcher = await stack.enter_async_context(
                HttpFetcher(
                    settings.fetch,
                    resolver,
                    one_address=by_address,
                    resends=False,
                    faults=core.faults,
                )
            )
            recall = stack.enter_context(self._previous()).find
            noting = partial(
                NotingFetcher,
                fetcher,
                sites=self._scope.sites,
                note=self._store.note,
                clock=clock,
                time=self._manners.time,
            )
            robots = RobotsGate(
                settings.robots,
                noting(kind="robots"),
                clock,
                self._tally,
                core.faults,
                self._store.keep,
                self._note_delay,
                self._scope.sites.of,
                lambda address: core.run_errand(address, clock.now()),
                core.wake,
                lambda: core.stopping,
            )
            pages = noting(kind="page")
            reader = self._reader
            if self._replay is not None:
                await self._resume(self._replay, reader)
            group = await stack.enter_async_context(asyncio.TaskGroup())
            fetching = FetchStage(
                to_fetch,
                robots,
                pages,
                recall,
                reader,
                self._store,
                core,
                to_parse,
                self._alarm,
                clock,
            )
            asking = [
                self._ask_stage(to_resolve, to_parse),
                *(
                    dns_stage(to_resolve, fetcher, core, to_fetch, to_parse, self._alarm, clock)
                    for _ in range(_AWAITING_NAMES)
                ),
                *(fetching.run() for _ in range(width)),
            ]
            parsing = parse_stage(
                to_parse,
                robots,
                reader,
                self._store,
                core,
                self._tally,
                self._wire,
                self._alarm,
                settings.exchange.max_backlog_bytes,
                clock,
            )
            others = [
                self._exchange_stage(),
                self._note_stage(),
                self._widening.stage(),
            ]
            if self._replay is not None:
                others.append(
                    self._replay.admit(reader, self._scope, self._wire, self._alarm, clock)
                )
            core.start(self._seeds, clock.now(), self._replicated)
            if self._job.stopped:
                self._stop(self._job.stopped)
            asks, parses = [group.create_task(one) for one in asking], group.create_task(parsing)
            tasks = [*asks, parses, *map(group.create_task, others)]
            tasks.append(group.create_task(self._stop_stage(asks, to_parse, parses)))
            await self._wire.over.wait()
            if self._lost:
                await self._break_off(asks, to_parse, parses)
            _LOG.info("over")
            for task in tasks:
                task.cancel()
            self._state = None if self._lost else core.state()
        if self._lost:
            raise LostRankError

    async def _ask_stage(
        self, to_resolve: asyncio.Queue[Visit], to_parse: asyncio.Queue[Fetched]
    ) -> None:
        """Run `busy_host_stage`; after a kill or a loss, first wait until each site has rested.

        The last requests of the ranks that are gone may be missing in their logs.
        """
        since = max(self._job.left, self._job.began if self._plan.killed else -inf)
        await asyncio.sleep(since + self._settings.politeness.delay_s - self._clock.now())
        await busy_host_stage(
            self._core, to_resolve, to_parse, self._wire, self._alarm, self._clock
        )

    async def _exchange_stage(self) -> None:
        """`exchange_stage`, until a rank is lost."""
        try:
            await exchange_stage(
                self._core,
                self._wire,
                self.board.update,
                self._alarm,
                self._settings.exchange.max_delay_s,
                self._clock,
            )
        except LostRankError:
            self._lost = True
            self._wire.over.set()

    async def _resume(self, replay: Replay, reader: Reader) -> None:
        """Take up the session where it was."""
        began, rank = self._clock.now(), self._transport.rank
        self._hashes = session.LogHashes(self._plan.logs[rank])
        # The ranks can't tell each other yet, so each looks for an order to stop by itself.
        looking = asyncio.ensure_future(self._await_stop(looks=True))
        for _ in self._hashes.read():
            await asyncio.sleep(0)
            if self._core.stopping:
                break
        packed = None
        if self._plan.has_snapshots and not self._core.stopping:
            packed = session.read_snapshot(self._directory, rank, self._hashes)
            if packed is None:
                _LOG.warning("a log or a snapshot has been damaged: all logs are read again")
        state = None if packed is None else msgspec.msgpack.decode(packed, type=State)
        restored = await replay.adopt(state)
        if state is not None and restored:
            self._store.seen.restore(*state.contents)
        pages = await replay.recall(reader)
        looking.cancel()
        await self._hold_back()
        self.board.take_up(pages, lost=self._job.lost > 0)
        about = {"seconds": round(self._clock.now() - began, 1), "from_snapshot": restored}
        _LOG.info("resumed", extra={"about": about | {"pages": pages}})

    async def _hold_back(self) -> None:
        """Let sites rest as earlier runs promised. Each rank reads some of the request logs."""
        rank, ranks = self._transport.rank, self._transport.size
        files = session.request_files(self._directory)[rank::ranks]
        killed = self._plan.killed or self._job.lost > 0
        mine = session.read_rests(files, self._clock, killed=killed)
        for rests in await self._group.alltoall([mine] * ranks):
            self._core.hold_back(rests, self._clock.now())

    def leave_snapshot(self) -> None:
        """Keep what this rank knew at the end, for a faster resume, if that is all."""
        state, self._state = self._state, None
        if state is None:
            return
        logs = [
            self._store.log_path,
            *(self._plan.logs[self._transport.rank] if self._plan.logs else ()),
        ]
        state.pages = self._core.pages + (self._replay.pages if self._replay else 0)
        state.named_by = self._reader.named_by
        state.contents = self._store.seen.state()
        content = msgspec.msgpack.encode(state)
        session.write_snapshot(
            self._directory, self._transport.rank, self._plan.basis, logs, content, self._hashes
        )

    def _note_delay(self, authority: str, crawl_delay_s: float) -> None:
        time = self._manners.time(self._clock.now())
        self._store.note(CrawlDelay(time, authority, crawl_delay_s))

    def _keeps(self, response: Response) -> bool:
        media, label = types_of(response)
        return self._kinds.hold(media, response.url, label)

    def _recall(self, row: PageRow) -> None:
        if row.rank == self._transport.rank:
            self._store.seen.remember(row)

    def _previous(self) -> session.Previous:
        """The pages of the previous session that this rank may have to fetch."""
        directory = self._settings.session.previous
        rank = self._transport.rank
        crosses = self._settings.session.mode == "cross-over"
        return session.Previous(
            Path(directory) if directory else None,
            lambda row: crosses or self._ownership.owner(row) in {None, rank},
        )

    def _stop(self, reason: str) -> None:
        """End the crawl early, on all ranks; what is under way is finished."""
        if not self._job.stopped:
            self._job.stopped, self._job.stopped_at = reason, self._clock.now()
        _LOG.info("stopping", extra={"about": {"reason": reason}})
        now = self._clock.now()
        self._core.stop(now)
        self._wire.deliver(self._core, now)
        self._alarm.ring()

    def _signalled(self, number: signal.Signals) -> None:
        """The first signal stops the crawl in good order, a further one at once.

        But SIGUSR1 never hurries: it is the word of a scheduler, which may send it twice.
        """
        if self._core.ended:
            return
        late = self._clock.now() - self._job.stopped_at > _PATIENCE_S
        if self._job.stopped and late and number != signal.SIGUSR1:
            _LOG.info("stopped at once", extra={"about": {"reason": number.name}})
            words = "stopped at once; nothing is lost: resume the session\n"
            self._group.abort(EXIT_STOPPED, words if self._transport.rank == 0 else "")
        self._stop(number.name)

    async def _await_stop(self, *, looks: bool) -> None:
        """Return once the crawl is to stop. A rank that `looks` also obeys `crawler stop`."""
        while not self._core.stopping:
            if looks and session.is_asked_to_stop(self._directory):
                self._stop("stop")
            await asyncio.sleep(_LOOK_S)

    async def _stop_stage(
        self,
        asking: Sequence[asyncio.Task[None]],
        to_parse: asyncio.Queue[Fetched],
        parsing: asyncio.Task[None],
    ) -> None:
        """See to it that a stop ends: drop what is still under way after `session.stop_grace`."""
        await self._await_stop(looks=self._transport.rank == 0)
        await asyncio.sleep(self._settings.session.stop_grace)
        in_order = await self._break_off(asking, to_parse, parsing)
        self._core.abandon(in_order=in_order)
        self._wire.deliver(self._core, self._clock.now())

    async def _break_off(
        self,
        asking: Sequence[asyncio.Task[None]],
        to_parse: asyncio.Queue[Fetched],
        parsing: asyncio.Task[None],
    ) -> bool:
        """Drop what isn't fetched yet, store what is; whether that took no longer than it may."""
        for task in asking:
            task.cancel()
        await asyncio.wait(asking)
        stored = asyncio.ensure_future(to_parse.join())
        await asyncio.wait([stored], timeout=_PARSE_GRACE_S)
        in_order = stored.done()
        for task in (stored, parsing):
            task.cancel()
        await asyncio.wait([parsing])
        return in_order

    async def _note_stage(self) -> None:
        """Tell rank 0, and rank 0 the user, how far we are."""
        while True:
            await asyncio.sleep(_NOTE_INTERVAL_S)
            note = Note(
                self._tally.pages,
                self._tally.bytes,
                self._core.waiting,
                self._tally.errors,
                self._log.take_warnings(),
            )
            self._progress.append((self._clock.time(), self._core.traffic.inter_part_urls))
            if len(self._progress) > _SAMPLES:
                del self._progress[::2]
            if self._transport.rank == 0:
                self.board.update(0, note)
                self.board.show()
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
            progress=[*self._progress, (self._clock.time(), traffic.inter_part_urls)],
            waiting=self._core.waiting,
            requests=self._tally.requests,
            retries=self._core.retries,
            internal_errors=self._core.faults.count,
            by_trap=dict(self._scope.trapped + self._core.watch.fired),
            inter_part_links=traffic.inter_part_links,
            dropped_links=traffic.dropped_links,
            inter_part_pages=traffic.inter_part_pages,
            inter_part_urls=traffic.inter_part_urls,
            messages_page_part=traffic.messages_page_part,
            site_part=traffic.site_part,
            # Who forgets what was sent can't count different URLs.
            transmissions_target_part=traffic.transmissions_target_part if remembers else None,
            claims=traffic.claims,
            mpi_messages=self._wire.messages,
            mpi_bytes=self._wire.bytes,
        )
