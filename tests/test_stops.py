"""A stop ends a crawl whatever it is doing: also while the logs of earlier runs are read."""

import asyncio
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import AUTHORITIES, Cluster, settings
from conftest import PATIENCE_S, MpiRun
from crawls import demo_config, metrics_of, run_here, sets
from fakes import FakeTransport, Network, World

from crawler.agent.resume import Replay
from crawler.agent.timing import Alarm, SystemClock
from crawler.agent.wire import Wire
from crawler.core.core import Core
from crawler.core.ownership import Ownership
from crawler.core.schemes import SiteHash
from crawler.core.seen import MemorySeen
from crawler.demo.web import DemoWeb, serve
from crawler.faults import Faults
from crawler.reading.declared import DeclaredSitemaps

# A generator that never comes to its end stands for hours of logs.
ENDLESS = """
import pathlib, sys, time
import {module} as module

def endless(steps):
    def read(*arguments):
        yield from steps(*arguments)
        pathlib.Path({reads!r}).touch()
        while True:
            time.sleep(0.001)
            yield
    return read

module.{place} = endless(module.{place})
from crawler.__main__ import main
sys.exit(main(sys.argv[1:]))
"""
PLACES = {
    "hashes": ("crawler.session", "LogHashes.read"),
    "reading": ("crawler.session", "LogShard.read"),
    "admission": ("crawler.agent.earlier", "EarlierLinks.admit"),
    "restoring": ("crawler.core.resumption", "Resumption.restore"),
}


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, DemoWeb]]:
    """A session that two ranks have begun and stopped in good order."""
    directory = tmp_path_factory.mktemp("unfinished")
    with serve(5, 60, 4) as (web, port):
        config = demo_config(directory / "c.toml", web, port)
        words = ["crawl", str(config), "--session", str(directory / "s"), "--max-time", "1.5s"]
        done = run_here(*words, *sets("politeness.delay_s=0.5"))
        assert done.returncode == 75, done.stderr
        yield directory / "s", web


def stop_once(session: Path, reads: Path) -> None:
    """Stop a session as soon as it reads without end."""
    end = time.monotonic() + PATIENCE_S
    while not reads.exists() and time.monotonic() < end:
        time.sleep(0.05)
    run_here("stop", str(session))


@pytest.mark.parametrize(
    ("place", "how"),
    [
        pytest.param(place, how, marks=[] if how == often else pytest.mark.slow)
        for place, often in zip(PLACES, ["max_time", "stop", "max_time", "stop"], strict=True)
        for how in ("max_time", "stop")
    ],
)
def test_a_stop_ends_a_resume_that_reads_without_end(
    tmp_path: Path, mpirun: MpiRun, unfinished: tuple[Path, DemoWeb], place: str, how: str
) -> None:
    session, ranks = tmp_path / "s", 1 if place in {"hashes", "restoring"} else 2
    shutil.copytree(unfinished[0], session)  # two ranks have no snapshot of one
    before = metrics_of(session)["pages"]
    words = ["resume", str(session), *sets("session.stop_grace=0.2")]
    words += ["--max-time", "1s" if how == "max_time" else "1h"]
    reads = tmp_path / "reads"
    module, name = PLACES[place]
    program = ENDLESS.format(module=module, place=name, reads=str(reads))
    stops = threading.Thread(target=stop_once, args=(session, reads))
    if how == "stop":
        stops.start()
    done = mpirun(ranks, "-c", program, *words)
    if how == "stop":
        stops.join()
    assert done.returncode == 75, done.stderr
    assert metrics_of(session)["pages"] >= before  # those that were under way, at most
    words = ["resume", str(session), *sets("politeness.delay_s=0"), "--max-time", "90s"]
    done = mpirun(2, "-m", "crawler", *words)
    assert done.returncode == 0, done.stderr
    assert metrics_of(session)["complete"]
    assert metrics_of(session)["pages"] == metrics_of(session)["unique_pages"]


class Slow(FakeTransport):
    """A transport whose receiver takes nothing until a test says so."""

    bytes = 1 << 40

    def backlog(self, rank: int) -> int:
        return self.bytes


def resuming(core: Core, steps: int) -> Replay:
    replay = Replay(
        *([], settings(), core, World(1).groups[0], lambda row: None),
        *(DeclaredSitemaps(), Faults()),
        judges_again=False,
    )
    replay._restoring = iter([None] * steps)
    return replay


@pytest.mark.parametrize("abandoned", ["before the end", "after the end", "never"])
@pytest.mark.parametrize("taken", [True, False])
def test_a_replay_that_waits_for_a_slow_receiver_ends_with_a_stop(
    abandoned: str, taken: bool
) -> None:
    core = Core(settings(), 2, Ownership(0, SiteHash(2), [0, 1]), AUTHORITIES, MemorySeen())
    transport = Slow(Network(2, seed=0), 0, 2)
    wire = Wire(transport, core, Alarm(), SystemClock(), 1 << 20)

    async def scenario() -> None:
        replay = resuming(core, 5)
        task = asyncio.ensure_future(
            replay.admit(None, wire, SystemClock())  # type: ignore[arg-type]
        )
        await asyncio.sleep(0.03)
        assert not task.done()
        core.halt.stop(1.0)
        if abandoned == "before the end":
            core.abandon(in_order=True)
        if taken:
            transport.bytes = 0
        await asyncio.wait_for(task, 10)
        if abandoned == "after the end":
            core.abandon(in_order=True)

    asyncio.run(scenario())
    assert core.unfinished.under_way == 0
    assert core.unfinished.abandoned == 1
    assert core.resumption.state() is None  # only the logs have all


@pytest.mark.parametrize("twice", [True, False])
def test_ranks_whose_replays_are_dropped_end_together(twice: bool) -> None:
    cluster = Cluster(SiteHash(3), 3)
    for core in cluster.cores:
        core.resumption.begin()
    cluster.start("http://a.example/", "http://b.example/")
    for rank, core in enumerate(cluster.cores):
        core.halt.stop(0)
        core.abandon(in_order=True)
        if twice or rank:
            core.resumption.end(wholly=False)
        cluster.tick(rank)
    cluster.settle()
    assert cluster.ended
    assert not any(core.complete for core in cluster.cores)


def test_a_site_that_joins_while_its_rank_gives_up_keeps_nobody_from_ending() -> None:
    cluster = Cluster(SiteHash(1), 1)
    cluster.start("http://a.example/")
    core = cluster.cores[0]
    core.joining.join("b.example", "http://a.example/", "http://b.example/", 0)
    assert core.unfinished.under_way == 1
    core.halt.stop(0)
    core.abandon(in_order=True)
    core.joining.end(1, wholly=False)  # the reading of the logs ends late
    assert core.unfinished.under_way == 0
    cluster.tick(0)
    cluster.settle()
    assert cluster.ended
    assert not cluster.complete
