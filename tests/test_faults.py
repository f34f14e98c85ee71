"""Faults, in the simulator: whatever happens to messages and ranks, no page is lost nor had twice.

A schedule is a number: it decides the web, the ranks of each run, how messages are delayed,
overtake each other and come twice, after which event all ranks are lost, and when a single one is.
If a seed server can't go on without this rank, other ranks go on from the logs, by the code that
resumes a crawl. A schedule that fails says its number, and

    ABC_SCHEDULE=NUMBER pytest tests/test_faults.py

runs it again, event by event the same.
"""

import asyncio
import os
import random
import struct
import tempfile
from collections import defaultdict
from collections.abc import Container, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

import msgspec
import numpy as np
import pytest
from cluster import Listed, settings
from dynamics import KINDS
from fakes import World
from webs import random_web

from crawler.agent.earlier import admit_for_lost
from crawler.agent.resume import Replay
from crawler.config import Config
from crawler.core.core import Core
from crawler.core.members import Logged
from crawler.core.schemes import Scheme, SiteHash, UrlHash, make_scheme
from crawler.core.snapshot import About, CoreSnapshot, Piece
from crawler.faults import Faults
from crawler.ports import PageRow
from crawler.reading.declared import DeclaredSitemaps
from crawler.reading.judge import Judge
from crawler.reading.reader import make_scope
from crawler.session import LoggedPage, log_files, log_sizes, read_log, shares
from crawler.session.log import LogWriter
from crawler.simulate import Delays, Simulation, Web

YEAR = 2026
ENDLESS = 50_000  # events; a whole crawl takes a few hundred
HOSTS = [f"http://s{number}.example" for number in range(10)]


async def recall_together(
    replays: Sequence[Replay], states: Sequence[CoreSnapshot | None], covered: Container[Path]
) -> None:
    async def recall(replay: Replay, state: CoreSnapshot | None) -> None:
        await replay.adopt(state, covered)
        await replay.read_logs()

    await asyncio.gather(*map(recall, replays, states))


class Base(NamedTuple):
    """What the ranks knew at a stop in good order, and the logs whose pages they knew."""

    options: Config
    scheme: Scheme
    states: Sequence[bytes]
    logs: frozenset[Path]

    @classmethod
    def of(
        cls, options: Config, scheme: Scheme, cores: Sequence[Core], directory: Path
    ) -> Self | None:
        """None if a core can't tell what it knew."""
        states = []
        for core in cores:
            state = core.resumption.state()
            if state is None:
                return None
            states.append(msgspec.msgpack.encode((state.about, list(state.pieces))))
        return cls(options, scheme, states, frozenset(log_files(directory)))

    def snapshots(self) -> Sequence[CoreSnapshot]:
        parts = tuple[About, list[Piece]]
        return [CoreSnapshot(*msgspec.msgpack.decode(one, type=parts)) for one in self.states]


def _retire(rank: int, core: Core, now: float) -> None:
    assert core.members is not None
    core.members.retire(rank, now)


class Still:
    """Stands for Wire and Clock: the simulation itself delivers what the core wants sent."""

    def deliver(self) -> None:
        pass

    async def await_room(self) -> None:
        pass

    def now(self) -> float:
        return 0.0


class Schedule:
    """A session, run after run, until it is complete."""

    def __init__(self, number: int, directory: Path) -> None:
        self.dice = random.Random(number)
        self.directory = directory
        self.web: Web = random_web(self.dice)[0]
        self.seeds = self.dice.sample(range(len(self.web)), min(len(self.web), 3))
        self.kind = self.dice.choice(["url-hash", "site-hash", "listed", "dynamic", "dynamic"])
        self.granularity, self.follow = self.dice.choice(KINDS)
        self.faults = self.dice.randint(1, 5)
        self.spares = 0  # clients that come during a run
        self.runs = 0
        self.asked: list[int] = []
        self._writers: dict[int, LogWriter] = {}
        self._stored: defaultdict[int, list[Logged]]
        self._cores: Sequence[Core] = ()
        self._base: Base | None = None  # as long as ranks can begin with it
        self.based = 0  # runs that began with it, and with later logs

    def run(self) -> None:
        """All runs: each but the last is lost at some event, or stops."""
        while not self._run_once(faulty=self.runs < self.faults):
            self.runs += 1

    def pages(self) -> list[str]:
        """The URLs in the logs."""
        entries = (entry for path in log_files(self.directory) for entry in read_log(path))
        return [entry.row.url for entry in entries if isinstance(entry, LoggedPage)]

    def _run_once(self, *, faulty: bool) -> bool:
        """Whether the crawl is complete now."""
        dice, ranks, servers = self.dice, self.dice.randint(1, 5), (0,)
        if self.kind == "dynamic":
            servers = dice.choice([(0,), (0, 0, 0)])
            self.spares = dice.choice([0, 0, 1, 2])
            ranks += len(servers) + len(servers) // 2 + self.spares
        before = log_sizes(self.directory)
        self._stored = defaultdict(list)
        options = self._settings(servers)
        scheme = self._scheme(ranks, options)
        if self._base is not None and dice.random() < 0.8:
            ranks, options, scheme = len(self._base.states), self._base.options, self._base.scheme
            self.based += frozenset(log.path for log in before) > self._base.logs
        else:
            self._base = None
        self._writers = {rank: self._open_log(rank) for rank in range(ranks)}
        simulation = Simulation(
            self.web,
            options,
            scheme,
            ranks,
            seed=dice.getrandbits(32),
            delays=Delays((0.01, dice.choice([0.01, 0.5])), (1e-4, dice.choice([1e-3, 0.1, 5]))),
            concurrency=dice.choice([1, 4, 16]),
            copies=dice.choice([0.0, 0.1, 0.5]),
            stored=self._store,
        )
        self._cores = simulation.cores
        scope = make_scope(options, (), YEAR)
        again, inherit, still = None, None, Still()
        if self.runs:
            judge = Judge(options, scope)
            replays = [
                Replay(
                    *(paths, options, core, group, lambda row: None),
                    *(DeclaredSitemaps(), Faults()),
                    judges_again=False,
                )
                for core, paths, group in zip(
                    simulation.cores, shares(before, ranks), World(ranks).groups, strict=True
                )
            ]
            base = self._base
            states = [None] * ranks if base is None else base.snapshots()
            covered = frozenset[Path]() if base is None else base.logs
            asyncio.run(recall_together(replays, states, covered))

            def again(rank: int) -> None:
                coroutine = replays[rank].admit(judge, still, still)
                while True:
                    try:
                        coroutine.send(None)
                    except StopIteration:
                        return

            def inherit(server: int, rank: int) -> None:
                links = simulation.cores[server].members.earlier_links(rank)
                if links is None:
                    return
                paths = shares(before, ranks)[rank]
                for _ in admit_for_lost(
                    *(simulation.cores[server], paths, np.frombuffer(links, np.uint64), options),
                    *(judge, Faults(), still),
                    judges_again=False,
                ):
                    pass

        stops = faulty and dice.random() < 0.2
        lost = faulty and not stops
        losses = [(dice.random() * 3, dice.randrange(ranks))] if dice.random() < 0.5 else []
        leaves = self.kind == "dynamic" and dice.random() < 0.5
        leaving = partial(_retire, dice.randrange(len(servers), ranks)) if leaves else None
        ended = simulation.run(
            self.seeds,
            again=again,
            stop_at=(dice.random(), dice.randrange(ranks)) if stops else None,
            lost_after=dice.randint(0, dice.choice([5, 30, 150])) if lost else ENDLESS,
            losses=losses,
            log_of=self._stored.__getitem__,
            inherit=inherit,
            orders=[(dice.random() * 3, 0, leaving)] if leaving else [],
        )
        assert ended or faulty or losses, "no end"
        self.asked += [page for pages in simulation.fetched for page in pages]
        for writer in self._writers.values():
            writer.close()
        if not ended:
            self._tear()
        gone = simulation.gone
        if stops and ended and not gone:
            self._base = Base.of(options, scheme, simulation.cores, self.directory)
        return ended and all(core.complete for core in simulation.cores if core.rank not in gone)

    def _settings(self, servers: tuple[int, ...]) -> Config:
        dice, dynamic = self.dice, []
        if self.kind == "dynamic":
            dynamic = [
                "assignment.scheme=dynamic",
                f"dynamic.granularity={self.granularity}",
                f"dynamic.follow={self.follow}",
                f"dynamic.servers={list(servers)}",
                f"dynamic.spares={self.spares}",
                f"dynamic.join_after_s={dice.choice([0.1, 1])}",
            ]
        return settings(
            *dynamic,
            'scope.domains=["*"]',
            "assignment.unlisted=" + dice.choice(["claim", "claim", "site-hash"]),
            f"politeness.delay_s={dice.choice([0, 0.3])}",
            f"politeness.connections_per_site={dice.choice([1, 3])}",
            f"exchange.batch_pages={dice.choice([1, 5, 64])}",
            f"exchange.max_delay_s={dice.choice([0.05, 1])}",
            "exchange.remember=" + dice.choice(["all", "all", "batch"]),
        )

    def _scheme(self, ranks: int, options: Config) -> Scheme:
        """Another one in each run, of the same kind: other ranks, or another part vector."""
        if self.kind == "dynamic":
            return make_scheme(options, ranks)
        if self.kind == "url-hash":
            return UrlHash(ranks)
        if self.kind == "site-hash":
            return SiteHash(ranks)
        parts = ranks + self.dice.choice([0, 1, ranks])
        known = self.dice.random()
        return Listed(
            parts, {h: self.dice.randrange(parts) for h in HOSTS if self.dice.random() < known}
        )

    def _open_log(self, rank: int) -> LogWriter:
        directory = self.directory / f"rank-{rank:05}" / "log"
        directory.mkdir(parents=True, exist_ok=True)
        return LogWriter(directory)

    def _store(self, rank: int, logged: Logged) -> None:
        found, links, _ = logged
        part = 0  # where a site was, only matters to one that no table knows
        row = PageRow(
            found.url, found.key, found.site, part, rank, found.hops, 0.0, 0.0, status=200
        )
        self._writers[rank].write([self._writers[rank].frame(row, links, found.chain)])
        self._stored[rank].append(logged)

    def _tear(self) -> None:
        """A rank was writing when it was lost: the log ends with the beginning of an entry."""
        path = max(log_files(self.directory), key=lambda path: self.dice.random())
        entry = struct.pack("<II", 100, 0) + b"P" * 100
        with path.open("ab") as file:
            file.write(entry[: self.dice.randrange(len(entry))])


def run(number: int) -> Schedule:
    """Run a schedule and check it."""
    memory = Path("/dev/shm")  # else each close of a log waits for the disk
    folder = memory if memory.is_dir() else None
    with tempfile.TemporaryDirectory(dir=folder) as directory:
        schedule = Schedule(number, Path(directory))
        try:
            schedule.run()
            pages = schedule.pages()
            web = schedule.web
            reachable = {web.links[page].url for page in web.reachable(schedule.seeds)}
            assert len(pages) == len(set(pages)), "a page was fetched twice"
            assert set(pages) == reachable, "not all pages that can be reached, or others"
            assert len(schedule.asked) == len(pages), "a page was asked for and not logged"
        except (AssertionError, RuntimeError, ValueError) as error:
            raise AssertionError(
                f"schedule {number}: ABC_SCHEDULE={number} runs it again"
            ) from error
    return schedule


def numbers(first: int, last: int) -> Sequence[int]:
    only = os.environ.get("ABC_SCHEDULE")
    return [int(only)] if only else range(first, last)


def test_no_page_is_lost_nor_had_twice_whatever_happens() -> None:
    done = [run(number) for number in numbers(0, 100)]
    assert max(one.runs for one in done) > 0, "nothing happened"
    assert len(done) == 1 or sum(one.based for one in done) > 3


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("block", range(11))
def test_thousands_of_schedules(block: int) -> None:
    for number in numbers(1000 * block, 1000 * (block + 1)):
        run(number)


def test_a_schedule_is_the_same_again() -> None:
    first, second = run(7), run(7)
    assert (first.asked, first.runs) == (second.asked, second.runs)
