"""Disks that are full, read-only or slow: a rank waits, and no half record is taken for a whole."""

import asyncio
import errno
import logging
import os
import random
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
from conftest import PATIENCE_S
from crawls import assert_sound, check_warc_files, demo_config, page_rows, run_unverified, sets
from fetches import failed, fetched, found, link, put, response

from crawler import session
from crawler.agent.log import RankLog
from crawler.agent.room import with_room
from crawler.config import Storage
from crawler.demo.web import DemoWeb, serve
from crawler.ports import OUT_OF_SCOPE, Failure, NoRoomError, PageRow
from crawler.session import LoggedPage, LoggedSitemaps, RankStore, log_files, read_log

T = TypeVar("T")

A, B, C = (f"http://a.example/{name}" for name in "abc")


class Disk:
    """The file layer with so many bytes left; what has no room is written in part."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = 10**9
        self.error = errno.ENOSPC
        self._write = os.pwrite
        monkeypatch.setattr(os, "pwrite", self.pwrite)

    def pwrite(self, file: int, data: bytes, offset: int) -> int:
        if not self.left:
            raise OSError(self.error, os.strerror(self.error))
        written = self._write(file, data[: self.left], offset)
        self.left -= written
        return written


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def open_store(session: Path) -> RankStore:
    return RankStore(session, 0, Storage(), user_agent="tester/1", obeys_robots=True)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
@pytest.mark.parametrize("full", ["warc", "log"])
def test_a_page_is_stored_once_there_is_room(
    tmp_path: Path, disk: Disk, error: int, full: str
) -> None:
    """Also if its WARC records had room and its row hadn't: they aren't written twice."""
    links, asked = [link(f"{A}{n}") for n in range(9)], []

    def follows(row: object) -> bool:
        asked.append(row)
        return False

    store = open_store(tmp_path)
    put(store, fetched(response(A)), 0)
    page = fetched(response(B, b"y" * 99), links)
    [warc] = store.directory.glob("*.warc.gz")
    rows = [store.archive(page, 0, follows)]
    disk.left, disk.error = 100 if full == "warc" else 1000, error
    for _ in range(3):
        with pytest.raises(NoRoomError, match=rf"{os.strerror(error)} \([\d,.]+ MB free\)"):
            store.log([page], rows)
        assert store.lacks_room
    disk.left = 10**9
    store.log([page], rows)
    assert not store.lacks_room
    put(store, failed(C, Failure.TIMEOUT), 0)
    store.close()
    assert asked == rows
    entries = list(read_log(*log_files(tmp_path)))
    assert [entry.row.url for entry in entries if isinstance(entry, LoggedPage)] == [A, B, C]
    assert len(entries) == 3
    assert isinstance(entries[1], LoggedPage)
    assert list(entries[1].flags) == [OUT_OF_SCOPE] * 9
    check_warc_files(tmp_path)
    assert warc.read_bytes().count(b"\x1f\x8b\x08") == 5  # warcinfo, and two for each page


def test_pages_stored_together_are_stored_as_if_each_was_alone(tmp_path: Path, disk: Disk) -> None:
    """Also if the disk is full now and then, and if pages have the same payload."""
    for seed in range(40):
        dice = random.Random(seed)
        waiting = [
            failed(f"{A}{n}", Failure.TIMEOUT)
            if dice.random() < 0.2
            else fetched(response(f"{A}{n}", dice.choice([b"", b"x" * 900, b"%d" % n])), [link(B)])
            for n in range(dice.randrange(30))
        ]
        disk.left = 10**9
        alone = open_store(tmp_path / f"alone-{seed}")
        expected = [put(alone, page) for page in waiting]
        alone.close()

        together = open_store(tmp_path / f"together-{seed}")
        rows: list[PageRow] = []
        while waiting:
            run = [waiting.pop(0) for _ in range(min(len(waiting), dice.randint(1, 16)))]
            made = []
            for page in run:
                if dice.random() < 0.8:
                    together.hash(page)
                disk.left = dice.choice([0, 300, 10**9])
                made.append(until_there_is_room(disk, partial(together.archive, page, 0)))
            disk.left = dice.choice([0, 300, 3000, 10**9])
            until_there_is_room(disk, partial(together.log, run, made))
            rows += made
            logged = read_log(*log_files(tmp_path / f"together-{seed}"))
            assert [entry.row for entry in logged if isinstance(entry, LoggedPage)] == rows
        together.close()

        assert [bare(row) for row in rows] == [bare(row) for row in expected]
        for row in rows:
            if row.warc_file is not None and row.warc_offset is not None:
                record = record_at(together.directory / row.warc_file, row.warc_offset)
                kind = "revisit" if row.duplicate else "response"
                assert f"WARC-Type: {kind}\r\nWARC-Target-URI: {row.url}\r\n" in record
        check_warc_files(tmp_path / f"together-{seed}")


def until_there_is_room(disk: Disk, store: Callable[[], T]) -> T:
    try:
        return store()
    except NoRoomError:
        disk.left = 10**9
        return store()


def bare(row: PageRow) -> PageRow:
    """Return a row without its place, because record IDs are random and so have various sizes."""
    return msgspec.structs.replace(row, warc_file=None, warc_offset=None)


def record_at(path: Path, offset: int) -> str:
    with path.open("rb") as file:
        file.seek(offset)
        return zlib.decompressobj(31).decompress(file.read()).decode("latin-1")


def test_records_that_wait_at_the_end_are_written_or_have_no_index(
    tmp_path: Path, disk: Disk
) -> None:
    for room in (True, False):
        store = open_store(tmp_path / str(room))
        put(store, fetched(response(A)))
        store.archive(fetched(response(B)), 0)
        disk.left = 10**9 if room else 100
        store.close()
        disk.left = 10**9
        check_warc_files(tmp_path / str(room))
        [warc] = store.directory.glob("*.warc.gz")
        assert warc.read_bytes().count(b"\x1f\x8b\x08") == (5 if room else 3)
        # The index of a file that lost records would name them.
        assert len(list(store.directory.glob("*.cdxj"))) == room


def test_a_disk_that_is_full_at_the_start(tmp_path: Path, disk: Disk) -> None:
    disk.left = 5
    with pytest.raises(NoRoomError, match=r"00000.log: No space left on device"):
        open_store(tmp_path)


def test_a_stage_waits_for_room_and_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.agent.room._ROOM_POLL_S", 0.0)
    answers: list[str | Exception] = [NoRoomError("/x: full")] * 5
    answers.append("stored")

    def store() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    log = RankLog(tmp_path / "agent.log", 3)
    assert asyncio.run(with_room(store)) == "stored"
    log.close()
    assert log.take_warnings() == [
        "rank 3: no room: /x: full; the crawl goes on here when there is some",
        "rank 3: there is room again",
    ]


def test_the_log_of_messages_may_have_no_room_either(tmp_path: Path) -> None:
    log = RankLog(Path("/dev/full"), 3)
    logging.getLogger("crawler").warning("no room")
    log.close()
    assert log.take_warnings() == ["rank 3: no room"]


def test_a_slow_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 1000, 6))
    store, log = open_store(tmp_path), RankLog(tmp_path / "agent.log", 0)
    with monkeypatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: next(now))
        put(store, failed(C, Failure.TIMEOUT), 0)
    log.close()
    store.close()
    assert log.take_warnings() == [f"rank 0: {store.directory} is slow: storing pages took 6.0 s"]


def test_sitemaps_and_chains_are_in_the_log(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.introduce("http://a.example", [link(A), link(B)])
    page = fetched(response(C), [link(A)])
    page.found, page.sitemaps_of = found(C)._replace(chain=(1, 2)), "http://a.example"
    put(store, page, 0)
    store.close()
    sitemaps, logged = read_log(*log_files(tmp_path))
    assert sitemaps == LoggedSitemaps("http://a.example", [A, B])
    assert isinstance(logged, LoggedPage)
    assert (logged.chain, logged.sitemaps_of) == ((1, 2), "http://a.example")


_SMALL_DISK = """
import os, subprocess, sys, time
from pathlib import Path
disk, said, *command = sys.argv[1:]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "none", disk], check=True)
with open(said, "w") as errors:
    crawl = subprocess.Popen(command, stderr=errors)
    while "no room: " not in Path(said).read_text():
        assert crawl.poll() is None
        time.sleep(0.1)
    time.sleep(1.5)
    assert crawl.poll() is None
    if "--max-time" not in command:
        subprocess.run(["mount", "-o", "remount,size=100m", disk], check=True)
    code = crawl.wait()
subprocess.run(["cp", "-r", disk + "/session", disk + "-after"], check=True)
sys.exit(code)
"""


@pytest.mark.slow  # needs root, or user namespaces
@pytest.mark.parametrize("seen", ["auto", "runs", "drum", "veuniq"])
def test_a_crawl_on_a_disk_that_fills_up(tmp_path: Path, seen: str) -> None:
    with serve(7, 400, 16) as (web, port):
        config = demo_config(tmp_path / "c.toml", web, port)
        disk, said = tmp_path / "disk", tmp_path / "said"
        disk.mkdir()
        crawl = [sys.executable, "-m", "crawler", "crawl", str(config)]
        crawl += ["--session", str(disk / "session"), "--set", "session.stop_grace=1"]
        crawl += sets(f"seen.store={seen}", "seen.max_delay_s=0.2")
        alone = ["unshare", "--map-root-user", "--mount", sys.executable, "-c", _SMALL_DISK]
        done = subprocess.run(
            [*alone, str(disk), str(said), *crawl], check=False, timeout=PATIENCE_S
        )
        assert done.returncode == 0, said.read_text()
        words = said.read_text()
        assert "rank 0: no room: " in words
        assert "No space left on device (0.0 MB free)" in words
        assert "rank 0: there is room again" in words
        after = tmp_path / "disk-after"
        assert {row["url"] for row in page_rows(after) if row["status"] == 200} == web.reachable
        check_warc_files(after)
        assert_sound(after)

        # It can be stopped while it waits, and goes on elsewhere.
        shutil.rmtree(after)
        crawl += ["--max-time", "6s"]
        done = subprocess.run(
            [*alone, str(disk), str(said), *crawl], check=False, timeout=PATIENCE_S
        )
        assert done.returncode == 75, said.read_text()
        assert (
            "the disk has no room for the tables; free some space, and resume" in said.read_text()
        )
        resume = [sys.executable, "-m", "crawler", "resume", str(after), "--max-time", "0"]
        assert subprocess.run(resume, check=False, capture_output=True).returncode == 0
        rows = page_rows(after)
        assert sorted(row["url"] for row in rows if row["status"]) == sorted(web.requests)
        check_warc_files(after)
        assert_sound(after)


# Fails at the n-th call of a function that writes, by one rank, in a crawl of the given words.
_FAILING = """
import errno, os, sys
name, at, code, *words = sys.argv[1:]
at, code, real = int(at), getattr(errno, code), getattr(os, name)
count = 0
def failing(*args, **kwargs):
    global count
    count += 1
    if count >= at and (name != "pwrite" or count < at + 3):
        raise OSError(code, os.strerror(code))
    return real(*args, **kwargs)
setattr(os, name, failing)
from crawler.__main__ import main
sys.exit(main(words))
"""


@pytest.fixture(scope="module")
def small_web() -> Iterator[tuple[DemoWeb, int]]:
    with serve(7, 40, 4) as served:
        yield served


PLACES = [*(("pwrite", at) for at in (1, 2, 9)), *(("fsync", at) for at in (1, 2, 4, 7))]


CASES = [
    pytest.param(
        name, at, code, "auto", marks=[] if (code == "EIO" or at == 2) else pytest.mark.slow
    )
    for name, at in PLACES
    for code in ("EIO", "ENOSPC", "EFBIG")
]
CASES += [  # a cycle of a store syncs three times
    pytest.param("fsync", at, code, seen, marks=[] if case == ("EIO", 2) else pytest.mark.slow)
    for seen in ("veuniq", "drum", "runs")
    for case in product(("EIO", "ENOSPC"), (1, 2, 3, 4, 7))
    for code, at in [case]
]


@pytest.mark.parametrize(("name", "at", "code", "seen"), CASES)
def test_a_crawl_whose_disk_fails_ends_in_a_line_or_goes_on(
    tmp_path: Path, small_web: tuple[DemoWeb, int], name: str, at: int, code: str, seen: str
) -> None:
    web, port = small_web
    directory = tmp_path / "s"
    words = ["crawl", str(demo_config(tmp_path / "c.toml", web, port)), "--session", str(directory)]
    words += sets(f"seen.store={seen}")
    if code == "ENOSPC" and seen in {"veuniq", "drum"}:
        words += ["--max-time", "9s"]  # the rank waits for room
    done = subprocess.run(
        [sys.executable, "-c", _FAILING, name, str(at), code, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert "Traceback" not in done.stderr, done.stderr
    if done.returncode == 0:
        assert_sound(directory)
        return
    assert done.returncode in {1, 2, 75}, done.stderr
    assert done.stderr.count("error: ") == 1, done.stderr
    if session.exists(directory) and (directory / "session.toml").exists():
        done = run_unverified("resume", str(directory), "--max-time", "0")
        assert done.returncode == 0, done.stderr
        rows = page_rows(directory)
        assert sorted(row["url"] for row in rows if row["status"]) == sorted(web.requests)
