"""One rank's part in one run of a session: it makes its parts from the plan, and runs to the end.

`crawl` makes an agent on each rank, and a new one for each further run of the session. Only rank 0
speaks to the user; the other ranks send notes to rank 0.
"""

import asyncio
import gc
import logging
import os
import socket
import sys
from contextlib import AsyncExitStack
from math import inf
from typing import NoReturn

from msgspec.structs import asdict

from crawler import session, url
from crawler.agent.assembly import (
    allow_files,
    make_core,
    open_store,
    scope_of,
)
from crawler.agent.figures import Figures
from crawler.agent.handlers import open_handlers
from crawler.agent.job import Ending, Job
from crawler.agent.log import RankLog
from crawler.agent.losses import Losses
from crawler.agent.orders import Orders
from crawler.agent.pipeline import exchange_stage
from crawler.agent.planning import Plan
from crawler.agent.progress import Tally
from crawler.agent.questions import Questions
from crawler.agent.resume import Replay, hold_back
from crawler.agent.snapshots import RankSnapshot
from crawler.agent.stopping import Stopper
from crawler.agent.stores import Kept, Stores
from crawler.agent.timing import Alarm, SystemClock, collect_rarely
from crawler.agent.web import open_web
from crawler.agent.widening import Widening
from crawler.agent.wire import Wire
from crawler.agent.work import Work, start_work
from crawler.core.snapshot import CoreSnapshot
from crawler.faults import Faults
from crawler.messages import ForPeople, Note
from crawler.ports import (
    Group,
    LostRankError,
    NoRoomError,
    PageRow,
    Response,
    Transport,
    UserError,
)
from crawler.reading.cookies import Jars
from crawler.reading.declared import DeclaredSitemaps
from crawler.reading.media import types_of
from crawler.reading.parse import MediaTypes
from crawler.reading.reader import PageReader
from crawler.reading.traps import TrapMonitor
from crawler.report.counters import Counters

_LOG = logging.getLogger("crawler")


class Agent:
    """One rank of a run. Call `run` once, then `close`, or `abandon` if a rank was lost."""

    def __init__(
        self,
        plan: Plan,
        group: Group,
        transport: Transport,
        scores: session.EarlierScores | None,
        job: Job,
    ) -> None:
        settings, rank = plan.settings, transport.rank
        self._plan = plan
        self._settings = settings
        self._group = group
        self._transport = transport
        self._job = job
        self._logs = plan.logs[rank] if plan.logs else ()  # those that this rank reads
        self._lost = False
        allow_files(settings, len(self._logs))
        self._clock = SystemClock()
        self._alarm = Alarm()
        self._tally = Tally()
        self._scope = scope_of(plan)
        self._spill = session.SpillFiles(plan.directory / f"rank-{rank:05}" / "frontier")
        self._declared = DeclaredSitemaps()
        self._jars = Jars()  # cookies of chains of redirects; never stored
        self._faults = Faults()  # errors of code that reads what the web sent
        self._traps = TrapMonitor(settings.traps, settings.overrides())
        self._stores = Stores(settings.seen, plan.directory / f"rank-{rank:05}" / "seen", plan.run)
        self._core = make_core(
            plan,
            transport,
            self._scope,
            scores,
            self._spill,
            self._declared,
            self._jars,
            self._faults,
            self._traps,
            self._stores,
        )
        most_bytes = settings.exchange.max_backlog_bytes
        self._wire = Wire(transport, self._core, self._alarm, self._clock, most_bytes)
        self._seeds = [self._scope.link(url.of_seed(seed)) for seed in plan.seeds]
        self._replicated = [self._scope.link(address) for address in plan.replicated]
        self._kinds = MediaTypes(settings.storage.types)
        session.mend({path.parent.parent for path in self._logs})
        session.restore_lines(self._logs)
        self._manners = session.Manners.of(settings, plan.run, rank, self._clock)
        self._store = open_store(plan, rank, self._keeps, self._faults, self._manners)
        self._core.budget.add("contents", self._store.nbytes)
        self._core.budget.add("links", self._scope.nbytes)
        self._core.budget.add("messages", self._wire.nbytes)
        self._core.joining.restore(self._scope.joined)
        self._store.note_joined(one for one in plan.joined if one.site in self._scope.joined)
        self._reader = PageReader(settings, self._scope, self._declared, self._jars)
        self._log = RankLog(self._store.directory / "agent.log", rank)
        self._figures = Figures(
            self._core,
            self._scope,
            self._tally,
            self._store,
            self._wire,
            transport,
            self._clock,
            self._faults,
            self._traps,
        )
        self._job.board.ranks = transport.size
        self._stopper = Stopper(
            job,
            settings.session,
            plan.directory,
            self._core,
            self._wire,
            group,
            self._clock,
        )
        self._questions = Questions(
            plan.directory, self._core, self._wire, transport.rank, transport.size, self._clock
        )
        self._snapshot = RankSnapshot(plan, rank, self._core, job.hashes)
        self._replay = self._make_replay() if plan.logs else None
        self._widening = Widening(
            self._core,
            self._reader.judge,
            self._store,
            self._logs,
            self._wire,
            self._clock,
        )
        self._losses = Losses(
            plan,
            self._core,
            transport,
            self._reader.judge,
            self._declared,
            self._widening,
            self._wire,
            self._clock,
            self._faults,
        )

    async def run(self) -> tuple[Counters, Ending, Note]:
        """Crawl to the end, which all ranks reach together.

        Returns the counters of this rank, how the crawl ended, and a note with the last warnings,
        also those that an earlier note has told. From here to
        `close` the agent handles signals. A signal that comes too late to stop anything neither
        keeps the report from being written nor changes the exit code.
        """
        started = self._clock.now()
        self._stopper.listen()  # from here on nothing holds the agent of an earlier run
        if self._job.begins_anew:
            gc.collect()
        collect_rarely()
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
            failed = session.failed_file(error, self._plan.directory)
            if failed is not None:
                self._end_by_disk(failed)
            raise
        finally:
            self._stopper.disarm()
            self._job.board.close()
        remembers = self._settings.exchange.remember == "all"
        counters = self._figures.counters(
            self._clock.now() - started, self._job.board.take_limits(), remembers=remembers
        )
        ending = Ending(self._core.complete, self._stopper.reason)
        _LOG.info("ended", extra={"about": asdict(ending)})
        self._log.close()
        return counters, ending, self._figures.note(list(self._log.latest))

    def forget_snapshot(self) -> None:
        """Let the files go that a snapshot names, because the crawl is complete."""
        self._stores.forget_base()

    async def leave_snapshot(self) -> None:
        """Write a snapshot of what this rank knew at the end, so that a resume is faster.

        All ranks must call this. Nothing is written if one of them didn't know the whole state.
        """
        state = self._last_state()
        if state is not None:
            about = state.about
            about.pages = self._core.pages + (self._replay.pages if self._replay else 0)
            about.contents = self._store.seen.state()
            about.stores = self._stores.kept
        log = self._store.log_path
        self._stores.stays = await self._snapshot.leave(state, log, self._group)

    def abandon(self) -> None:
        """Close the files after the loss of a rank. What is stored so far is kept.

        This agent still handles signals, until the next agent does.
        """
        # The rank that knows why the run stops may be the lost one. It may stop for a checkpoint.
        if self._core.halt.stopping and not self._settings.session.checkpoint:
            self._job.stopped = self._job.stopped or "stop"
        self._job.left = self._clock.now()
        _LOG.info("a rank is lost")
        self._store.close()
        self._log.close()
        self.make_way()

    def make_way(self) -> None:
        """Do what `close` does, but handle signals until the next agent does."""
        self._remove_derived()
        gc.unfreeze()  # this agent is garbage now

    def close(self) -> None:
        """Remove files that a resume doesn't read, and stop handling signals."""
        self._remove_derived()
        self._stopper.close()

    def _remove_derived(self) -> None:
        """Remove the spill files, and those of URL-seen that no snapshot names."""
        self._spill.close()
        self._stores.close()

    async def _crawl(self) -> None:
        """Run the stages until the crawl is over on all ranks.

        Raises LostRankError if a rank is lost.
        """
        async with AsyncExitStack() as stack:
            web = await open_web(
                stack,
                self._settings,
                self._core,
                self._group,
                self._scope.sites,
                self._store,
                self._manners,
                self._tally,
                self._faults,
                self._clock,
            )
            self._questions.robots = web.robots
            handlers = await stack.enter_async_context(open_handlers(self._settings))
            self._figures.handlers = [handler.errors for handler in handlers]
            if self._transport.rank == 0:
                await self._serve(stack)
            if self._replay is not None:
                await self._resume(self._replay)
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            self._core.start(self._seeds, self._clock.now(), self._replicated)
            self._stopper.stop_again()
            work = start_work(
                tasks,
                self._settings,
                self._core,
                web,
                handlers,
                self._reader,
                self._store,
                self._tally,
                self._wire,
                self._alarm,
                self._clock,
                self._faults,
                self._traps,
                self._first_request(),
            )
            others = self._start_others(tasks, work)
            await self._wire.over.wait()
            if self._lost:
                await work.break_off()
            _LOG.info("over")
            for task in (*work.asking, *work.storing, *others):
                task.cancel()
        if self._lost:
            raise LostRankError

    async def _serve(self, stack: AsyncExitStack) -> None:
        """Answer requests at `dashboard.listen` until the crawl is over."""
        listen, board = self._settings.dashboard.listen, self._job.board
        if not listen:
            return
        from crawler.dashboard.server import serving  # noqa: PLC0415  it takes a while to import

        try:
            directory = self._plan.directory
            await stack.enter_async_context(serving(listen, directory, lambda: board.latest))
        except UserError as error:  # the crawl is worth more
            _LOG.warning("%s", error)

    def _last_state(self) -> CoreSnapshot | None:
        """Return what this rank knows at the end, or None if a snapshot can't hold it."""
        try:
            return self._core.resumption.state(self._stores.keep)
        except (OSError, NoRoomError) as error:
            _LOG.warning("no snapshot: %s", error)
            return None

    def _start_others(self, tasks: asyncio.TaskGroup, work: Work) -> list[asyncio.Task[None]]:
        """Start the stages that run beside those of `start_work`."""
        stages = [
            self._exchange_stage(),
            self._figures.note_stage(self._job.board, self._log),
            self._figures.loop.stage(),
            self._widening.stage(),
            self._losses.stage(self._lose),
        ]
        if self._replay is not None:
            admitting = self._replay.admit(self._reader.judge, self._wire, self._clock)
            stages.append(admitting)
        if self._transport.rank == 0:
            orders = Orders(self._plan, self._core, self._scope, self._wire, self._clock)
            stages += [orders.stage(), self._questions.stage()]
            if self._settings.session.checkpoint and not self._plan.retried:
                stages.append(self._stopper.checkpoints())
        stages.append(self._stopper.stage(work))
        return [tasks.create_task(one) for one in stages]

    def _first_request(self) -> float:
        """The earliest time of a request: after a kill or the loss of a rank, one host delay later.

        The logs may lack the last requests of the dead ranks. After the delay, each site has rested
        from these requests.
        """
        return self._last_unknown() + self._settings.politeness.delay_s

    def _last_unknown(self) -> float:
        """The latest time of a request that the logs may lack; -inf if they lack none."""
        return max(self._job.left, self._job.began if self._plan.killed else -inf)

    async def _exchange_stage(self) -> None:
        """Run `exchange_stage` until a rank is lost without which this run can't go on."""
        bears = True
        while bears:
            try:
                await exchange_stage(
                    self._core,
                    self._wire,
                    self._take,
                    self._settings.exchange.max_delay_s,
                    self._clock,
                )
            except LostRankError as loss:
                bears = self._losses.bear(loss.ranks)
        self._lose()

    def _take(self, sender: int, said: ForPeople) -> None:
        """Take a message that is only for people."""
        if isinstance(said, Note):
            self._job.board.update(sender, said)
        else:
            self._questions.take(sender, said)

    def _lose(self) -> None:
        """End this run at all ranks, because a rank is lost."""
        self._transport.abandon()
        self._lost = True
        self._wire.over.set()

    def _make_replay(self) -> Replay:
        """Return the replay of earlier runs."""
        return Replay(
            self._logs,
            self._settings,
            self._core,
            self._group,
            self._remember,
            self._declared,
            self._faults,
            judges_again=self._plan.judges_again,
            retried=self._plan.retried,
            correct=session.Correction(self._scope.joined, self._reader.judge.brings_in),
        )

    async def _resume(self, replay: Replay) -> None:
        """Bring the core to the state in which earlier runs left the session."""
        began = self._clock.now()
        if self._transport.rank == 0:
            await self._job.board.tell(session.State.RESUMING)
        # Ranks can't exchange messages yet, so each rank looks for an order to stop by itself.
        looking = asyncio.ensure_future(self._stopper.wait(looks=True))
        state = await self._snapshot.read()
        opened: dict[str, Kept] = {}
        if state is not None:
            try:
                opened = await asyncio.to_thread(self._stores.open, state.about.stores)
            except OSError as error:
                _LOG.warning("%s: all logs are read again", error)
                state = None
        restored = await replay.adopt(state, self._plan.covered or frozenset())
        self._stores.go_on_with(opened, use=restored)
        if state is not None and restored:
            self._store.seen.restore(*state.about.contents)
        pages = await replay.read_logs()
        looking.cancel()
        since = self._last_unknown()
        await hold_back(self._plan.directory, self._core, self._group, self._clock, since=since)
        self._job.board.begin_after(pages, lost=self._job.begins_anew)
        about = {"seconds": round(self._clock.now() - began, 1), "from_snapshot": restored}
        _LOG.info("resumed", extra={"about": about | {"pages": pages}})

    def _keeps(self, response: Response) -> bool:
        media, label = types_of(response)
        return self._kinds.hold(media, response.url, label)

    def _remember(self, row: PageRow) -> None:
        if row.rank == self._transport.rank:
            self._store.seen.remember(row)

    def _end_by_disk(self, failed: str) -> NoReturn:
        """End all ranks with exit code 1 and an error of one line; agent.log has the traceback."""
        words = f"error: {failed}; the crawl ends: mend it, and resume the session\n"
        if self._group.size > 1:
            self._group.abort(1, words)
        sys.stderr.write(words)
        raise SystemExit(1)
