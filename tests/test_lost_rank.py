"""Ranks die, and the others go on, where the MPI can do without them; elsewhere the job ends."""

import contextlib
import itertools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import PATIENCE_S, MpiRun, launching
from crawls import assert_sound, check_warc_files, demo_config, metrics_of, page_rows, sets
from dynamics import KINDS
from servers import served
from test_kill import CONCURRENCY, IN_FLIGHT, pids, wait_for_death

from crawler import session
from crawler.demo.web import DemoWeb
from crawler.session.log import logs_of

Start = Callable[..., subprocess.Popen[str]]


def _has_ulfm() -> bool:
    program = shutil.which("mpirun", path=launching()["PATH"])
    if program is None:
        return False
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"\(Open MPI\) (\d+)", said.stdout)
    return found is not None and int(found[1]) >= 5


needs_ulfm = pytest.mark.skipif(
    not _has_ulfm(), reason="this MPI ends all ranks when one dies; Open MPI 5 can do without"
)


def outliving(ranks: int, *words: str) -> subprocess.Popen[str]:
    """As the fixture `start_mpirun`, but the ranks that are left go on when one dies."""
    environment = launching()
    program = shutil.which("mpirun", path=environment["PATH"])
    assert program
    return subprocess.Popen(
        [program, "--with-ft", "ulfm", "-n", str(ranks), sys.executable, *words],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def running(directory: Path) -> list[int]:
    """The processes of the ranks that are alive, by rank."""
    alive = {}
    for pid in pids(directory):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 0)
            alive[pid] = None
    return list(alive)


def logged(directory: Path) -> int:
    """Pages in the logs, of all runs."""
    entries = itertools.chain.from_iterable(map(session.read_log, session.log_files(directory)))
    return sum(isinstance(entry, session.LoggedPage) for entry in entries)


def await_pages(directory: Path, crawl: subprocess.Popen[str], pages: int) -> bool:
    """Whether there are so many before the crawl ends."""
    while crawl.poll() is None:
        if logged(directory) >= pages:
            return True
        time.sleep(0.01)
    return False


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has just ended
        os.kill(pid, signal.SIGKILL)


def ended(crawl: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code, and what was said."""
    try:
        output, errors = crawl.communicate(timeout=PATIENCE_S)
    finally:
        crawl.kill()
    return crawl.returncode, output + errors


def assert_whole(directory: Path, web: DemoWeb) -> None:
    rows = page_rows(directory)
    urls = [row["url"] for row in rows if row["status"] is not None]
    assert sorted(urls) == sorted(web.requests)  # once each in the log
    assert {row["url"] for row in rows if row["status"] == 200} == web.reachable
    metrics = metrics_of(directory)
    assert metrics["complete"]
    assert metrics["pages"] == len(web.requests)
    assert_lines_of_all_rows(directory)
    assert_sound(directory)


def assert_lines_of_all_rows(directory: Path) -> None:
    """Whoever goes on with the log of a lost rank writes the lines that wait in its memory."""
    for path in directory.glob("rank-*/crawl.log"):
        lines = Counter(line.split()[3] for line in path.read_text().splitlines())
        entries = itertools.chain.from_iterable(map(session.read_log, logs_of(path.parent)))
        rows = Counter(one.row.url for one in entries if isinstance(one, session.LoggedPage))
        assert lines == rows, path


def crawl_with_losses(tmp_path: Path, seed: int, ranks: int, losses: int) -> int:
    """Kill ranks of one crawl at random moments, sometimes two at a time or soon after each other;
    how many were lost before its end."""
    dice = random.Random(seed)
    web = DemoWeb.generate(seed, 200, 12)
    directory = tmp_path / f"session-{seed}"
    with served(web) as (port, asked):
        config = demo_config(tmp_path / f"{seed}.toml", web, port)
        words = ["-m", "crawler", "crawl", str(config), "--session", str(directory)]
        words += sets(f"fetch.concurrency={CONCURRENCY}", "politeness.delay_s=0.05")
        killed = 0
        with outliving(ranks, *words) as crawl:
            while killed < losses:
                wanted = dice.randrange(len(web.requests) // losses)
                if dice.random() < 0.7 and not await_pages(
                    directory, crawl, logged(directory) + wanted
                ):
                    break
                time.sleep(dice.random() * 0.3)  # also in the midst of a recovery
                victims = running(directory)
                if len(victims) > 1:
                    kill(dice.choice(victims))
                    killed += 1
                elif crawl.poll() is not None:
                    break
            code, said = ended(crawl)
        assert code == 0, (seed, said)
    assert_whole(directory, web)
    lost = int(metrics_of(directory)["lost_ranks"])
    assert lost <= killed
    runs = session.load(directory).runs
    assert [run.reason for run in runs] == ["lost rank"] * (len(runs) - 1) + ["complete"]
    assert ranks - runs[-1].ranks == sum(run.lost or 0 for run in runs) == lost
    pages = {url: times for url, times in asked.items() if not url.endswith("/robots.txt")}
    assert set(pages) == set(web.requests)
    assert sum(pages.values()) - len(pages) <= lost * ranks * IN_FLIGHT, seed
    check_warc_files(directory)
    return lost


@needs_ulfm
@pytest.mark.parametrize(("seed", "ranks", "losses"), [(1, 2, 1), (2, 4, 2)])
def test_the_others_go_on(tmp_path: Path, seed: int, ranks: int, losses: int) -> None:
    assert crawl_with_losses(tmp_path, seed, ranks, losses) > 0


@needs_ulfm
@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_the_others_go_on_whenever_it_happens(tmp_path: Path) -> None:
    lost = 0
    for seed in range(3, 40):
        lost += crawl_with_losses(tmp_path, seed, 4, 1 + seed % 3)
        if lost >= 50:
            break
    assert lost >= 50


def crawl_with_lost_clients(
    tmp_path: Path, seed: int, losses: int, granularity: str, follow: str
) -> int:
    """Kill clients of a seed server at random moments. Returns how many were lost in mid-crawl.

    The run goes on without them, and fetches again only what was under way there.
    """
    dice = random.Random(seed)
    web = DemoWeb.generate(seed, 200, 12)
    directory = tmp_path / f"clients-{seed}"
    with served(web) as (port, asked):
        config = demo_config(tmp_path / f"{seed}.toml", web, port)
        words = ["-m", "crawler", "crawl", str(config), "--session", str(directory)]
        words += sets(f"fetch.concurrency={CONCURRENCY}", "politeness.delay_s=0.05")
        words += sets("assignment.scheme=dynamic")
        words += sets(f"dynamic.granularity={granularity}", f"dynamic.follow={follow}")
        killed = 0
        with outliving(2 + losses, *words) as crawl:
            while killed < losses:
                wanted = logged(directory) + dice.randrange(150 // losses)
                if not await_pages(directory, crawl, max(1, wanted)):
                    break
                time.sleep(dice.random() * 0.1)
                if clients := running(directory)[1:]:
                    kill(dice.choice(clients))
                    killed += 1
            code, said = ended(crawl)
        assert code == 0, (seed, said)
    assert_whole(directory, web)
    runs = session.load(directory).runs
    lost = runs[0].lost or 0
    if len(runs) == 1:
        assert lost <= killed
        assert metrics_of(directory)["lost_ranks"] == lost
        pages = {url: times for url, times in asked.items() if not url.endswith("/robots.txt")}
        assert sum(pages.values()) - len(pages) <= lost * IN_FLIGHT, seed
        check_warc_files(directory)
        return lost
    return 0  # a client was lost while the ranks ended


@needs_ulfm
@pytest.mark.parametrize(
    ("losses", "granularity", "follow"),
    [
        (1, "page", "server"),
        (2, "site", "own"),
        pytest.param(2, "dset", "own", marks=pytest.mark.slow),
    ],
)
def test_a_seed_server_goes_on_without_its_lost_clients(
    tmp_path: Path, losses: int, granularity: str, follow: str
) -> None:
    assert crawl_with_lost_clients(tmp_path, losses, losses, granularity, follow) == losses


@needs_ulfm
@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_a_seed_server_goes_on_whenever_clients_are_lost(tmp_path: Path) -> None:
    lost = 0
    for seed in range(3, 43):
        lost += crawl_with_lost_clients(tmp_path, seed, 1 + seed % 3, *KINDS[seed % len(KINDS)])
    assert lost >= 50


@needs_ulfm
@pytest.mark.slow
@pytest.mark.parametrize("granularity", ["site", "dset"])
def test_a_resumed_run_goes_on_without_a_client_that_holds_sites(
    tmp_path: Path, granularity: str
) -> None:
    web = DemoWeb.generate(1, 200, 12)
    directory = tmp_path / "s"
    with served(web) as (port, asked):
        config = demo_config(tmp_path / "c.toml", web, port, scheme="dynamic")
        words = ["-m", "crawler", "crawl", str(config), "--session", str(directory)]
        words += sets(f"dynamic.granularity={granularity}", "dynamic.follow=own")
        words += sets(f"fetch.concurrency={CONCURRENCY}", "politeness.delay_s=0.05")
        with outliving(4, *words, "--max-pages", "60") as crawl:
            code, said = ended(crawl)
        assert code == 0, said
        resume = ["-m", "crawler", "resume", str(directory), "--max-pages", "0"]
        with outliving(4, *resume) as crawl:
            assert await_pages(directory, crawl, 90)
            kill(running(directory)[2])
            code, said = ended(crawl)
        assert code == 0, said
    assert_whole(directory, web)
    assert [run.lost or 0 for run in session.load(directory).runs] == [0, 1]
    pages = {url: times for url, times in asked.items() if not url.endswith("/robots.txt")}
    assert sum(pages.values()) - len(pages) <= IN_FLIGHT


@needs_ulfm
def test_the_first_rank_is_lost_while_all_wait_and_limits_hold_on(tmp_path: Path) -> None:
    web = DemoWeb.generate(1, 60, 4)
    directory = tmp_path / "s"
    with served(web) as (port, _):
        config = demo_config(tmp_path / "c.toml", web, port)
        words = ["-m", "crawler", "crawl", str(config), "--session", str(directory)]
        words += ["--max-pages", "20", *sets("politeness.delay_s=1.5")]
        with outliving(3, *words) as crawl:
            assert await_pages(directory, crawl, 4)
            kill(running(directory)[0])
            code, said = ended(crawl)
    assert code == 0, said
    assert "ranks lost: 1; 2 go on" in said
    metrics = metrics_of(directory)
    assert (metrics["pages"], metrics["reason"]) == (20, "max_pages")
    assert (metrics["lost_ranks"], metrics["runs"], len(metrics["ranks"])) == (1, 2, 3)
    assert_sound(directory)


@needs_ulfm
def test_who_is_left_can_be_stopped_and_resumed(tmp_path: Path, mpirun: MpiRun) -> None:
    web = DemoWeb.generate(1, 60, 4)
    directory = tmp_path / "s"
    with served(web) as (port, _):
        config = demo_config(tmp_path / "c.toml", web, port)
        words = ["-m", "crawler", "crawl", str(config), "--session", str(directory)]
        with outliving(3, *words, *sets("politeness.delay_s=1")) as crawl:
            assert await_pages(directory, crawl, 4)
            first, _, last = running(directory)
            kill(last)
            os.kill(first, signal.SIGUSR1)  # in the midst of what follows
            code, said = ended(crawl)
        assert code == 75, said
        assert metrics_of(directory)["reason"] == "SIGUSR1"
        done = mpirun(3, *words, "--resume", *sets("politeness.delay_s=0"))
        assert done.returncode == 0, done.stderr
    assert_whole(directory, web)


@needs_ulfm
def test_in_modes_without_exchange_the_job_ends(tmp_path: Path) -> None:
    web = DemoWeb.generate(1, 60, 4)
    directory = tmp_path / "s"
    with served(web) as (port, _):
        config = demo_config(tmp_path / "c.toml", web, port)
        words = ["-m", "crawler", "crawl", str(config), "--session", str(directory)]
        words += sets("politeness.delay_s=1", "session.mode=firewall")
        with outliving(3, *words) as crawl:
            assert await_pages(directory, crawl, 3)
            kill(running(directory)[1])
            code, said = ended(crawl)
    assert code == 137, said
    assert "a rank was lost, and the others can't go on without it: resume the session" in said
    wait_for_death(directory)
    assert_sound(directory)


def test_elsewhere_the_job_ends_and_is_resumed(
    tmp_path: Path, start_mpirun: Start, mpirun: MpiRun
) -> None:
    web = DemoWeb.generate(1, 60, 4)
    directory = tmp_path / "s"
    with served(web) as (port, _):
        config = demo_config(tmp_path / "c.toml", web, port)
        words = ["-m", "crawler", "crawl", str(config), "--session", str(directory), "--resume"]
        with start_mpirun(3, *words, *sets("politeness.delay_s=1")) as crawl:
            assert await_pages(directory, crawl, 3)
            kill(running(directory)[1])
            code, said = ended(crawl)
        assert code not in {0, 1, 2, 75}, said  # launch/mpirun.sh takes it up again
        wait_for_death(directory)
        done = mpirun(3, *words, *sets("politeness.delay_s=0"))
        assert done.returncode == 0, done.stderr
    assert_whole(directory, web)
    metrics = metrics_of(directory)
    assert (metrics["runs"], metrics["lost_ranks"]) == (2, 0)
