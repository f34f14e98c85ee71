"""Damage to the files of a session between two runs: nothing is fetched twice, nothing is missing,
and no small file ends in a traceback."""

import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import MpiRun
from crawls import check_warc_files, demo_config, metrics_of, page_rows, run_here
from test_resume import resumed_from_snapshot

from crawler import session
from crawler.demoweb import DemoWeb, serve
from crawler.verify import verify

Stopped = tuple[DemoWeb, Path]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    """A session that one rank has begun in two runs, each stopped in good order."""
    folder = tmp_path_factory.mktemp("stopped")
    with serve(7, 60, 4) as (web, port):
        config = demo_config(folder / "c.toml", web, port)
        crawl = ["crawl", str(config), "--session", str(folder / "s"), "--resume", "--max-pages"]
        for pages in ("20", "30"):
            assert run_here(*crawl, pages).returncode == 0
        yield web, folder / "s"


@pytest.fixture
def copy(stopped: Stopped, tmp_path: Path) -> Path:
    shutil.copytree(stopped[1], tmp_path / "s")
    return tmp_path / "s"


def flip(path: Path, at: float, bits: int = 1) -> None:
    content = bytearray(path.read_bytes())
    content[int(at * len(content))] ^= bits
    path.write_bytes(content)


def zero(path: Path, at: float) -> None:
    content = bytearray(path.read_bytes())
    start = int(at * len(content))
    content[start : start + 512] = bytes(len(content[start : start + 512]))
    path.write_bytes(content)


def cut(path: Path, at: float) -> None:
    path.write_bytes(path.read_bytes()[: int(at * path.stat().st_size)])


def logged(directory: Path) -> int:
    return sum(
        isinstance(entry, session.LoggedPage)
        for path in session.log_files(directory)
        for entry in session.read_log(path)
    )


def assert_all_is_fetched_once(directory: Path, web: DemoWeb) -> None:
    fetched = [row["url"] for row in page_rows(directory) if row["status"] is not None]
    assert sorted(fetched) == sorted(web.requests)
    check_warc_files(directory)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("at", [0.0, 0.3, 0.6, 0.95])
@pytest.mark.parametrize("harm", [flip, zero, cut])
def test_a_snapshot_does_not_cover_what_a_damaged_log_has_lost(
    stopped: Stopped, copy: Path, number: int, at: float, harm: Callable[[Path, float], None]
) -> None:
    before = logged(copy)
    path = session.log_files(copy)[number]
    harm(path, at)
    lost = before - logged(copy)
    assert lost > 0
    done = run_here_unverified("resume", str(copy), "--max-pages", "0")
    assert done.returncode == 0, done.stderr
    assert not resumed_from_snapshot(copy, 0)
    if harm is not cut:
        assert f"{path}: " in done.stderr
        assert "pages that stood there are fetched again" in done.stderr
    assert_all_is_fetched_once(copy, stopped[0])
    assert metrics_of(copy)["complete"]
    verdict = verify(copy)
    assert set(verdict.problems) <= {"log", "warc"}  # it names the damage, and nothing else
    assert harm is cut or any(str(path) in line for line in verdict.lines)


def run_here_unverified(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "crawler", *words],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.slow
def test_every_byte_of_the_logs(stopped: Stopped, tmp_path: Path) -> None:
    """Every 97th in turn: a flipped bit is seen, or makes another format of the file."""
    for path in session.log_files(stopped[1]):
        for at in range(0, path.stat().st_size, 97):
            shutil.rmtree(tmp_path / "s", ignore_errors=True)
            shutil.copytree(stopped[1], tmp_path / "s")
            damaged = tmp_path / "s" / path.relative_to(stopped[1])
            content = bytearray(damaged.read_bytes())
            content[at] ^= 1 << random.Random(at).randrange(8)
            damaged.write_bytes(content)
            done = run_here_unverified("resume", str(tmp_path / "s"), "--max-pages", "0")
            assert done.returncode == 0 or (8 <= at < 12 and done.returncode == 2), (
                at,
                done.stderr,
            )
            if done.returncode == 0:
                assert_all_is_fetched_once(tmp_path / "s", stopped[0])


def test_a_log_that_is_gone(stopped: Stopped, copy: Path) -> None:
    session.log_files(copy)[0].unlink()
    done = run_here_unverified("resume", str(copy), "--max-pages", "0")
    assert done.returncode == 0, done.stderr
    assert_all_is_fetched_once(copy, stopped[0])


@pytest.mark.parametrize("rank", [0, 1])
def test_damage_to_the_log_of_any_rank(
    tmp_path: Path, stopped: Stopped, mpirun: MpiRun, rank: int
) -> None:
    with serve(7, 60, 4) as (web, port):
        config = demo_config(tmp_path / "c.toml", web, port)
        directory = tmp_path / "s"
        crawl = ["-m", "crawler", "crawl", str(config), "--session", str(directory)]
        assert mpirun(2, *crawl, "--max-pages", "30").returncode == 0
        flip(session.log_files(directory)[rank], 0.4)
        with pytest.raises(AssertionError, match="damaged at"):  # `mpirun` verifies
            mpirun(2, "-m", "crawler", "resume", str(directory), "--max-pages", "0")
        assert not any(resumed_from_snapshot(directory, one) for one in (0, 1))
        assert_all_is_fetched_once(directory, web)
