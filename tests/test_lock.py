"""One command at a time writes to a session; the lock goes with its process."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import PATIENCE_S
from crawls import assert_sound, demo_config, forked, run_here, sets

from crawler import session
from crawler.demo.web import DemoWeb, serve
from crawler.ports import UserError

# Holds the lock, says so, and ends in the way that a line of its input names.
_HOLDER = """
import sys
from pathlib import Path
from crawler import session
directory, part = Path(sys.argv[1]), sys.argv[2]
if "lock" in part:
    session.lock_session(directory, session.CRAWLED)
if "join" in part:
    session.join_session(directory)
print("ready", flush=True)
word = sys.stdin.readline().strip()
session.leave_session(directory)
session.unlock_session(directory, crawled=word == "crawled")
"""


@contextmanager
def holding(directory: Path, part: str = "lock join") -> Iterator["subprocess.Popen[str]"]:
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(directory), part],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        yield holder
    finally:
        holder.kill()
        holder.communicate()


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_who_has_the_lock_is_named_and_a_second_one_is_refused(tmp_path: Path) -> None:
    with holding(tmp_path) as holder:
        with pytest.raises(UserError, match=rf"is being crawled: by process {holder.pid} on "):
            session.lock_session(tmp_path, session.REPORTED, 0)
        assert "is being crawled" in str(session.who_writes(tmp_path))
        holder.communicate("reported\n")
    assert session.who_writes(tmp_path) is None
    assert names(tmp_path) == set()  # nothing is left behind
    session.lock_session(tmp_path, session.CRAWLED, 0)
    session.lock_session(tmp_path, session.CRAWLED, 0)  # it has the lock already
    assert session.who_writes(tmp_path) is None  # no other process has
    session.unlock_session(tmp_path)
    session.unlock_session(tmp_path)
    assert names(tmp_path) == set()


@pytest.mark.parametrize("part", ["lock", "join", "lock join"])
def test_a_killed_process_leaves_no_lock(tmp_path: Path, part: str) -> None:
    with holding(tmp_path, part) as holder:
        with pytest.raises(UserError, match="is being crawled"):
            session.lock_session(tmp_path, session.CRAWLED, 0)
        os.kill(holder.pid, signal.SIGKILL)
        session.lock_session(tmp_path, session.CRAWLED)
    session.join_session(tmp_path)
    session.leave_session(tmp_path)
    session.unlock_session(tmp_path)
    assert names(tmp_path) == set()


@pytest.mark.parametrize("word", ["crawled", "failed"])
def test_who_waits_goes_on_only_if_the_session_was_not_crawled(tmp_path: Path, word: str) -> None:
    waits = (
        "import sys, time; from pathlib import Path; from crawler import session\n"
        "sleep = time.sleep\n"
        "def first_sleep(seconds): time.sleep = sleep; print('waits', flush=True)\n"
        "time.sleep = first_sleep\n"
        "from crawler.ports import UserError\n"
        "try: session.lock_session(Path(sys.argv[1]), session.CRAWLED, 60); print('goes on')\n"
        "except UserError as error: print(error)"
    )
    with holding(tmp_path) as holder:
        waiting = [
            subprocess.Popen(
                [sys.executable, "-c", waits, str(tmp_path)], stdout=subprocess.PIPE, text=True
            )
            for _ in range(2)
        ]
        for one in waiting:
            assert one.stdout is not None
            assert one.stdout.readline() == "waits\n"
        holder.communicate(f"{word}\n")
        said = [one.communicate()[0] for one in waiting]
    if word == "crawled":
        assert all("that crawl has ended just now" in one for one in said), said
    else:  # and a process that ends without a word counts as killed
        assert said == ["goes on\n"] * 2


def test_the_ranks_that_outlive_rank_0_keep_others_out_and_take_its_lock(tmp_path: Path) -> None:
    session.make_directory(tmp_path)
    with holding(tmp_path) as first:
        session.join_session(tmp_path)
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
    stranger = [sys.executable, "-c", _HOLDER, str(tmp_path), "lock"]
    done = subprocess.run(stranger, capture_output=True, text=True, check=False)
    assert "is being crawled: a rank of an earlier run is alive" in done.stderr
    session.lock_session(tmp_path, session.CRAWLED, 0)
    session.leave_session(tmp_path)
    session.unlock_session(tmp_path)


@pytest.mark.parametrize("name", ["lock", "lock-ranks"])
@pytest.mark.parametrize("kind", ["link", "directory", "pipe"])
def test_a_lock_that_is_no_file(tmp_path: Path, name: str, kind: str) -> None:
    precious, directory = tmp_path / "precious", tmp_path / "s"
    precious.write_text("x")
    directory.mkdir()
    path = directory / name
    if kind == "link":
        path.symlink_to(precious)
    elif kind == "directory":
        path.mkdir()
    else:
        os.mkfifo(path)
    with pytest.raises(UserError, match=str(path)):
        session.lock_session(directory, session.CRAWLED, 0)
    assert precious.read_text() == "x"


@pytest.mark.parametrize("content", [b"", b"{", b'{"work": 1}', b"\xff" * 9, b"[]"])
def test_what_a_dead_process_left_in_the_lock_does_not_matter(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "lock").write_bytes(content)
    session.lock_session(tmp_path, session.CRAWLED, 0)
    session.unlock_session(tmp_path)


# --- by the command line


@pytest.fixture(scope="module")
def demo_web() -> Iterator[tuple[DemoWeb, int]]:
    with serve(7, 60, 4) as served:
        yield served


def test_two_at_once(tmp_path: Path, demo_web: tuple[DemoWeb, int]) -> None:
    """Whoever comes first, one of them crawls, and the others are refused in one line."""
    config = demo_config(tmp_path / "c.toml", *demo_web)
    directory = tmp_path / "s"
    crawl = ["crawl", str(config), "--session", str(directory)]
    slow = sets("politeness.delay_s=0.5")

    def at_once(*commands: list[str]) -> None:
        running = [
            subprocess.Popen(
                [sys.executable, *forked(), "-m", "crawler", *words],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            for words in commands
        ]
        errors = [one.communicate(timeout=PATIENCE_S)[1] for one in running]
        codes = [one.returncode for one in running]
        assert sorted(codes) == [0] + [2] * (len(commands) - 1), errors
        for code, said in zip(codes, errors, strict=True):
            assert code == 0 or said.count("\n") == 1, said

    at_once(*[[*crawl, *slow, "--resume", "--max-pages", "20"]] * 3)
    at_once(*[["resume", str(directory), "--max-pages", "40"]] * 2)
    at_once([*crawl, *slow, "--resume"], ["resume", str(directory), "--max-pages", "0", *slow])
    assert_sound(directory)


def test_a_running_session_is_not_reported_nor_verified(
    tmp_path: Path, demo_web: tuple[DemoWeb, int]
) -> None:
    config = demo_config(tmp_path / "c.toml", *demo_web)
    words = ["crawl", str(config), "--session", str(tmp_path / "s"), "--max-pages", "9"]
    assert run_here(*words).returncode == 0
    tables = (tmp_path / "s" / "tables" / "pages" / "00000.parquet").stat()
    with holding(tmp_path / "s"):
        for command in ("report", "verify"):
            done = run_here(command, str(tmp_path / "s"))
            assert done.returncode == 2
            assert "is being crawled: by process" in done.stderr
            assert done.stderr.count("\n") == 1
    assert (tmp_path / "s" / "tables" / "pages" / "00000.parquet").stat() == tables
    assert run_here("report", str(tmp_path / "s")).returncode == 0
    assert run_here("verify", str(tmp_path / "s")).returncode == 0
