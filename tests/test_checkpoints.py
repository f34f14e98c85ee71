"""The snapshots of all ranks are of the same run, and a crawl can leave some while it runs."""

import asyncio
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import MpiRun
from crawls import demo_config, sets
from servers import served
from test_kill import Start, crawl_with_kills
from test_one_process import (
    Ranks,
    Tables,
    asked_pages,
    assert_whole,
    crawl_here,
    process_as_before,
    settings_for,
)

from crawler import session
from crawler.agent import planning
from crawler.agent.crawl import _joint
from crawler.agent.job import CHECKPOINT, Ending
from crawler.core.resumption import Resumption
from crawler.core.snapshot import CoreSnapshot
from crawler.demo.web import DemoWeb
from crawler.ports import UserError

__all__ = ["process_as_before"]  # a fixture


def test_without_the_knowledge_of_one_rank_the_snapshots_of_all_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third run replays the log of the second on top of the first run's snapshots."""
    web = DemoWeb.generate(3, 200, 12)
    directory = tmp_path / "s"
    state = Resumption.state
    told = 0

    def one_knows_nothing(
        self: Resumption, keep: Callable[..., bool] = lambda _: False
    ) -> CoreSnapshot | None:
        nonlocal told
        told += 1
        return None if told == 1 else state(self, keep)

    with served(web) as (port, asked):
        plan = planning.prepare(settings_for(web, port, directory, max_pages=40), 3)
        crawl_here(plan, 3)
        before = {path: path.read_bytes() for path in directory.glob("rank-*/snapshot")}
        assert len(before) == 3
        settings = settings_for(web, port, directory, max_pages=120)
        plan = planning.prepare_again(directory, settings, 3)
        with monkeypatch.context() as patched:
            patched.setattr(Resumption, "state", one_knows_nothing)
            crawl_here(plan, 3)
        assert told == 3
        assert {path: path.read_bytes() for path in directory.glob("rank-*/snapshot*")} == before
        plan = planning.prepare_again(directory, settings_for(web, port, directory), 3)
        assert plan.covered is not None
        assert crawl_here(plan, 3).reason == "complete"
    assert_whole(directory, web)
    assert asked_pages(asked) == dict.fromkeys(web.requests, 1)


# --- while a crawl runs

SLOW: Tables = {"politeness": {"delay_s": 0.05}}  # so that it has several checkpoints


def reasons(directory: Path) -> list[str | None]:
    """Why each run has ended; none yet before there is a session."""
    runs = session.load(directory).runs if session.exists(directory) else []
    return [run.reason for run in runs]


QUIET: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))]


def beginnings(directory: Path) -> set[bool]:
    """Whether the further runs of the ranks began with snapshots."""
    logs = directory.glob("rank-*/agent.log")
    lines = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
    return {line["from_snapshot"] for line in lines if line["event"] == "resumed"}


@pytest.mark.parametrize(
    ("ranks", "mode", "store"),
    [
        (1, "exchange", "auto"),
        *(
            pytest.param(3, mode, store, marks=pytest.mark.slow)
            for mode in ("exchange", "firewall", "cross-over", "independent")
            for store in ("memory", "runs")
        ),
    ],
)
def test_a_crawl_leaves_checkpoints_and_goes_on(
    tmp_path: Path, ranks: int, mode: str, store: str
) -> None:
    web = DemoWeb.generate(ranks, 160, 8)
    directory = tmp_path / "s"
    tables = {**SLOW, "seen": {"store": store}}
    with served(web) as (port, asked):
        settings = settings_for(web, port, directory, tables, mode=mode, checkpoint=0.5)
        assert crawl_here(planning.prepare(settings, ranks), ranks).reason == "complete"
    *early, last = reasons(directory)
    assert last == "complete"
    assert early
    assert set(early) == {CHECKPOINT}
    assert beginnings(directory) == {True}
    assert not list(directory.glob("rank-*/snapshot*"))
    if mode == "exchange":
        assert_whole(directory, web)
        assert asked_pages(asked) == dict.fromkeys(web.requests, 1)


@pytest.mark.parametrize(
    "deaths", [pytest.param([(1, 40)], marks=pytest.mark.slow), [(0, 40), (2, 80)]]
)
def test_ranks_are_lost_between_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deaths: list[tuple[int, int]]
) -> None:
    web = DemoWeb.generate(5, 160, 8)
    directory = tmp_path / "s"
    with served(web) as (port, asked):
        settings = settings_for(web, port, directory, SLOW, checkpoint=0.4)
        plan = planning.prepare(settings, 3)
        endings = asyncio.run(Ranks(3, monkeypatch).crawl(plan, deaths, asked))
    assert {ending.reason for ending in endings} == {"complete"}
    assert_whole(directory, web)
    assert set(reasons(directory)) == {"complete", "lost rank", CHECKPOINT}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 8))
def test_kills_between_checkpoints(
    tmp_path: Path, start_mpirun: Start, mpirun: MpiRun, seed: int
) -> None:
    """At random moments, also while snapshots are replaced. Nothing is missing at the end."""
    store = random.Random(seed).choice(["memory", "runs"])
    options = sets("session.checkpoint=0.3", f"seen.store={store}")
    kills = crawl_with_kills(tmp_path, start_mpirun, mpirun, seed, 3, options=options)
    assert kills
    assert CHECKPOINT in reasons(tmp_path / f"session-{seed}")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_signal_during_a_checkpoint_stops_the_crawl(tmp_path: Path, seed: int) -> None:
    """It isn't taken for a second signal, which would end the crawl at once."""
    dice, web, directory = random.Random(seed), DemoWeb.generate(seed, 120, 4), tmp_path / "s"
    with served(web) as (port, asked):
        config = demo_config(tmp_path / "c.toml", web, port)
        words = [sys.executable, "-m", "crawler", "crawl", str(config), "--session", str(directory)]
        words += [*sets("session.checkpoint=0.3", "politeness.delay_s=0.2"), "--resume", "-q"]
        for _ in range(2):
            runs = len(reasons(directory))
            with subprocess.Popen(words, **QUIET) as crawl:
                while len(reasons(directory)) < runs + 2:
                    assert crawl.poll() is None, crawl.communicate()
                    time.sleep(0.01)
                time.sleep(dice.random() * 0.3)
                crawl.send_signal(signal.SIGTERM)
                _, told = crawl.communicate(timeout=60)
            assert (crawl.returncode, told) == (75, "")
            assert reasons(directory)[-1] == "SIGTERM"
        words += sets("session.checkpoint=0", "politeness.delay_s=0")
        assert subprocess.run(words, stdout=subprocess.DEVNULL, check=False).returncode == 0
    assert_whole(directory, web)
    assert asked_pages(asked) == dict.fromkeys(web.requests, 1)


@pytest.mark.parametrize(
    ("endings", "joint"),
    [
        ([(True, ""), (True, CHECKPOINT)], (True, "")),
        ([(False, CHECKPOINT), (True, "")], (False, CHECKPOINT)),
        ([(False, CHECKPOINT), (False, "SIGTERM")], (False, "SIGTERM")),
        ([(False, "stop"), (False, CHECKPOINT)], (False, "stop")),
        ([(True, "stop"), (True, "")], (True, "stop")),
    ],
)
def test_what_the_user_wants_comes_before_a_checkpoint(
    endings: list[tuple[bool, str]], joint: tuple[bool, str]
) -> None:
    assert _joint([Ending(*one) for one in endings]) == Ending(*joint)


@pytest.mark.parametrize(
    "tables",
    [
        {"assignment": {"scheme": "dynamic"}},
        {"seen": {"store": "drum"}},
        {"seen": {"store": "veuniq"}},
        {"frontier": {"order": "pagerank"}},
        {"exchange": {"remember": "cache"}},
    ],
)
def test_where_checkpoints_are_of_no_use_they_are_refused(tmp_path: Path, tables: Tables) -> None:
    web = DemoWeb.generate(1, 20, 4)
    settings = settings_for(web, 80, tmp_path / "s", tables, checkpoint=60)
    with pytest.raises(UserError, match=r"^session\.checkpoint: with .* set session"):
        planning.prepare(settings, 3)
