"""Live crawls with the stores of URL-seen on disk."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import PATIENCE_S, MpiRun
from crawls import demo_config, metrics_of, run_here, sets
from test_resume import assert_whole, resumed_from_snapshot

from crawler import session
from crawler.demo.web import DemoWeb, serve

LATE = ["drum", "veuniq"]
ON_DISK = [*LATE, "runs"]


@pytest.fixture
def demo_web() -> Iterator[tuple[DemoWeb, int]]:
    with serve(7, 200, 12) as served:
        yield served


@pytest.mark.parametrize(
    "store", ["veuniq", *(pytest.param(one, marks=pytest.mark.slow) for one in ("drum", "runs"))]
)
def test_a_crawl_of_two_ranks(
    tmp_path: Path, mpirun: MpiRun, demo_web: tuple[DemoWeb, int], store: str
) -> None:
    """Sites of 2 ranks, of which many are claimed; every page once. No file is left."""
    web, port = demo_web
    config = demo_config(tmp_path / "c.toml", web, port, scheme="site-hash")
    directory = tmp_path / "session"
    options = sets(f"seen.store={store}", "seen.repositories=3", "seen.max_delay_s=0.1")
    done = mpirun(2, "-m", "crawler", "crawl", str(config), "--session", str(directory), *options)
    assert done.returncode == 0, done.stderr
    assert_whole(directory, web)
    assert metrics_of(directory)["complete"]
    assert not list(directory.rglob("seen"))


@pytest.mark.slow
def test_a_session_goes_from_store_to_store(tmp_path: Path, demo_web: tuple[DemoWeb, int]) -> None:
    """A snapshot of each store is read by the next one."""
    web, port = demo_web
    config = demo_config(tmp_path / "c.toml", web, port)
    directory = tmp_path / "session"
    words = ["crawl", str(config), "--session", str(directory)]
    stores = ["memory", "veuniq", "runs", "drum", "auto", "runs", "memory"]
    for number, store in enumerate(stores, start=1):
        limit = 0 if number == len(stores) else 30 * number
        words += ["--max-pages", str(limit), *sets(f"seen.store={store}")]
        done = run_here(*words)
        assert done.returncode == 0, done.stderr
        assert number == 1 or resumed_from_snapshot(directory, 0)
        words = ["resume", str(directory)]
    assert_whole(directory, web)
    assert session.load(directory).config.seen.store == "memory"


@pytest.mark.parametrize(
    "store", ["veuniq", *(pytest.param(one, marks=pytest.mark.slow) for one in ("drum", "runs"))]
)
def test_a_resume_goes_on_with_the_files_of_the_store(
    tmp_path: Path, demo_web: tuple[DemoWeb, int], store: str
) -> None:
    """The snapshot names them. If one is damaged, a line says so, and the logs are read."""
    web, port = demo_web
    config = demo_config(tmp_path / "c.toml", web, port)
    directory = tmp_path / "session"
    words = ["crawl", str(config), "--session", str(directory), *sets(f"seen.store={store}")]
    for limit in (50, 100, 0):
        done = run_here(*words, "--max-pages", str(limit))
        assert done.returncode == 0, done.stderr
        files = sorted(directory.glob("rank-00000/seen/0/met/*"))
        assert limit == 50 or resumed_from_snapshot(directory, 0) == (limit == 100)
        if limit:
            assert len(files) > 1
            assert files == sorted(directory.glob("rank-00000/seen/*/*/*"))
        if limit == 100:
            files[-1].write_bytes(files[-1].read_bytes()[:-1])
        words = ["resume", str(directory)]
    assert "the store must be rebuilt from the logs: all logs are read again" in done.stderr
    assert_whole(directory, web)
    assert not list(directory.rglob("seen"))


@pytest.mark.parametrize(
    ("store", "other"),
    [LATE, *(pytest.param(*two, marks=pytest.mark.slow) for two in (LATE[::-1], ("runs", "drum")))],
)
def test_a_crawl_that_was_killed_goes_on_from_its_log(
    tmp_path: Path, demo_web: tuple[DemoWeb, int], store: str, other: str
) -> None:
    """The next run, with another store, doesn't read what the killed store has left."""
    web, port = demo_web
    config = demo_config(tmp_path / "c.toml", web, port)
    directory = tmp_path / "session"
    options = sets(f"seen.store={store}", "politeness.delay_s=0.05")
    words = ["crawl", str(config), "--session", str(directory), *options]
    crawl = subprocess.Popen([sys.executable, "-m", "crawler", *words], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while sum(log.stat().st_size for log in directory.glob("rank-00000/log/*.log")) < 5000:
            assert crawl.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        crawl.send_signal(signal.SIGKILL)
        crawl.wait()
    assert list(directory.glob("rank-00000/seen/*"))
    options = sets(f"seen.store={other}", "politeness.delay_s=0")
    done = run_here("resume", str(directory), *options)
    assert done.returncode == 0, done.stderr
    assert metrics_of(directory)["complete"]
    assert not resumed_from_snapshot(directory, 0)
    assert not list(directory.rglob("seen"))


def test_seed_servers_have_a_store_of_their_own(tmp_path: Path) -> None:
    words = sets("seen.store=drum", "assignment.scheme=dynamic", "fetch.contact=a@b.example")
    done = run_here("crawl", "http://127.0.0.1/", "--session", str(tmp_path / "s"), *words)
    assert done.returncode == 2
    assert "set seen.store = 'auto'" in done.stderr
