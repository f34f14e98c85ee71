"""Kills at random moments: whatever dies, a resume goes on and nothing is missing at the end."""

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from conftest import PATIENCE_S, MpiRun
from crawls import assert_sound, check_indexes, check_warc_files, demo_config, metrics_of, page_rows
from servers import served

from crawler import session
from crawler.demo.web import DemoWeb
from crawler.session.log import logs_of

Start = Callable[..., subprocess.Popen[str]]

RANKS = 3
CONCURRENCY = 3
# Of a rank: in the fetch stage, between it and the parse stage, and in there. One more is cut off.
IN_FLIGHT = 2 * CONCURRENCY + 2


def pids(directory: Path) -> list[int]:
    """Of the ranks that run and have begun."""
    found = []
    for file in sorted(directory.glob("rank-*/agent.log")):
        lines = [json.loads(line) for line in file.read_text().splitlines() if line.endswith("}")]
        for pid in [line["pid"] for line in lines if line["event"] == "started"][-1:]:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                # Else it is of an earlier run, and its number may be somebody's by now.
                if str(directory).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
    return found


def tear(directory: Path, dice: random.Random) -> None:
    """What a kill in the middle of a write leaves, which happens too rarely by itself."""
    folders = [folder for folder in directory.glob("rank-*") if any(folder.glob("log/*.log"))]
    if not folders:
        return
    folder = dice.choice(folders)
    log = max(folder.glob("log/*.log"))
    os.truncate(log, max(12, log.stat().st_size - dice.randrange(100)))
    with contextlib.suppress(ValueError):
        warc = max(folder.glob("*.warc.gz"))
        with warc.open("r+b") as file:
            begun = file.read(dice.randrange(1, 200))
            file.seek(0, os.SEEK_END)
            file.write(begun)


def are_fetched(directory: Path, web: DemoWeb) -> bool:
    """Whether the logs have all that the web has."""
    if not session.exists(directory):
        return False
    entries = (entry for path in session.log_files(directory) for entry in session.read_log(path))
    rows = [entry.row for entry in entries if isinstance(entry, session.LoggedPage)]
    return {row.url for row in rows if row.status is not None} == set(web.requests)


def log_bytes(directory: Path) -> int:
    return sum(log.bytes for log in session.log_sizes(directory))


def crawl_with_kills(
    tmp_path: Path,
    start_mpirun: Start,
    mpirun: MpiRun,
    seed: int,
    kills: int,
    *,
    program: Sequence[str] = ("-m", "crawler"),
    options: Sequence[str] = (),
    stops_at: int = 0,
) -> int:
    """Kill a crawl until that has hit it so many times, unless it ends before, then let it end; how
    many did. A kill that comes before the crawl has begun, or when no page is left, hits nothing.

    `stops_at`: so many pages are fetched first, up to a stop in good order. Then most kills come
    when a run has fetched something.
    """
    dice = random.Random(seed)
    web = DemoWeb.generate(seed, 300, 12)
    directory = tmp_path / f"session-{seed}"
    with served(web) as (port, asked):
        config = demo_config(tmp_path / "c.toml", web, port)
        words = [*program, "crawl", str(config), "--session", str(directory), "--resume"]
        words += ["--set", f"fetch.concurrency={CONCURRENCY}", "--set", "politeness.delay_s=0.05"]
        words += options
        if stops_at:
            done = mpirun(RANKS, *words, "--max-pages", str(stops_at))
            assert done.returncode == 0, done.stderr
        killed = hits = 0
        while hits < kills and killed < 3 * kills and not are_fetched(directory, web):
            runs = len(session.load(directory).runs) if session.exists(directory) else 0
            logs = len(session.log_files(directory)) if runs else 0
            before = log_bytes(directory) if runs else 0
            early = dice.random() < 0.2
            with start_mpirun(RANKS, *words) as crawl:
                while not early and not (
                    session.exists(directory)
                    and len(session.load(directory).runs) > runs
                    and len(session.log_files(directory)) >= logs + RANKS
                    and (not stops_at or log_bytes(directory) > before + 2000)
                ):
                    assert crawl.poll() is None, crawl.communicate()
                    time.sleep(0.01)
                time.sleep(dice.random() * (1.0 if early else 1.5 / kills))
                victim = dice.choice([crawl.pid, *([] if early else pids(directory))])
                with contextlib.suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
                crawl.communicate(timeout=PATIENCE_S)
            killed += 1
            wait_for_death(directory)
            hits += not early and not are_fetched(directory, web)
            if dice.random() < 0.5:
                tear(directory, dice)
        done = mpirun(RANKS, *words)
        assert done.returncode == 0, done.stderr
    rows = page_rows(directory)
    fetched = [row["url"] for row in rows if row["status"] is not None]
    assert sorted(fetched) == sorted(web.requests), seed  # once each in the log
    assert {row["url"] for row in rows if row["status"] == 200} == web.reachable
    assert metrics_of(directory)["complete"]
    pages = {url: times for url, times in asked.items() if not url.endswith("/robots.txt")}
    assert set(pages) == set(web.requests)
    assert sum(pages.values()) - len(pages) <= killed * RANKS * IN_FLIGHT
    check_warc_files(directory)
    check_indexes(directory)
    assert_sound(directory)
    for folder in session.rank_directories(directory):
        check_lines(folder)
    return hits


def check_lines(folder: Path) -> None:
    """Whether crawl.log has a line for each row, in their order, and none twice.

    It may also have lines of rows that were torn off the log.
    """
    entries = (entry for path in logs_of(folder) for entry in session.read_log(path))
    rows = [entry.row for entry in entries if isinstance(entry, session.LoggedPage)]
    lines = [line.split() for line in (folder / "crawl.log").read_text().splitlines()]
    told = [(line[3], line[8].partition("+")[0]) for line in lines if len(line) >= 12]
    visits = [(row.url, milliseconds(row.time)) for row in rows]
    assert [visit for visit in told if visit in set(visits)] == visits


def milliseconds(time_s: float) -> str:
    return time.strftime("%Y%m%d%H%M%S", time.gmtime(time_s)) + f"{int(time_s * 1000) % 1000:03}"


def wait_for_death(directory: Path) -> None:
    """Ranks may outlive their mpirun, for a moment."""
    deadline = time.monotonic() + PATIENCE_S
    while any(map(session.is_open, session.log_files(directory))):
        assert time.monotonic() < deadline, "orphans"
        time.sleep(0.02)


@pytest.mark.parametrize("kills", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_kills(tmp_path: Path, start_mpirun: Start, mpirun: MpiRun, kills: int) -> None:
    assert crawl_with_kills(tmp_path, start_mpirun, mpirun, seed=1, kills=kills) > 0


def resumed_from_snapshot(directory: Path) -> list[bool]:
    """Of each resume of rank 0, whether it began with the snapshot."""
    lines = (directory / "rank-00000" / "agent.log").read_text().splitlines()
    events = [json.loads(line) for line in lines if line.endswith("}")]
    return [event["from_snapshot"] for event in events if event["event"] == "resumed"]


@pytest.mark.slow
@pytest.mark.parametrize("store", ["runs", "memory"])
def test_kills_after_a_stop(
    tmp_path: Path, start_mpirun: Start, mpirun: MpiRun, store: str
) -> None:
    """The snapshot of the stop still counts, and only later logs are read besides."""
    seed = 4
    options = ["--set", f"seen.store={store}", "--set", "politeness.delay_s=0.3"]
    crawl_with_kills(tmp_path, start_mpirun, mpirun, seed, kills=3, stops_at=80, options=options)
    directory = tmp_path / f"session-{seed}"
    assert resumed_from_snapshot(directory)[-1]


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_fifty_kills(tmp_path: Path, start_mpirun: Start, mpirun: MpiRun) -> None:
    hits = 0
    for seed in range(2, 32):
        hits += crawl_with_kills(tmp_path, start_mpirun, mpirun, seed, kills=6)
        if hits >= 50:
            break
    assert hits >= 50
