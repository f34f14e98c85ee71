"""The request log, and what report and verify make of it: of good sessions and doctored ones."""

import asyncio
import errno
import os
import re
import shutil
import struct
import time
import zlib
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import msgspec
import pyarrow.parquet as pq
import pytest
from crawls import crawl_here, metrics_of, run_here, sets
from fetches import found, response
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from servers import Page, PageServer
from tabled import write_tables

from crawler import config, session
from crawler.agent.timing import SystemClock
from crawler.net import NotingFetcher
from crawler.ports import (
    Asked,
    CrawlDelay,
    Failure,
    FetchError,
    MovedError,
    Response,
    UserError,
    Validators,
)
from crawler.reading.scope import Sites
from crawler.report.verify import verify
from crawler.session.gaps import Clock, Crowd, Gap
from crawler.session.judged import judge_together
from crawler.session.requests import RequestLog
from crawler.session.together import Alone, alone

OLD_SESSION = Path(__file__).parent / "instances" / "old-session"
MANNERS = session.Manners.of(config.Config(), 0, 0, SystemClock())
ROWS = [
    Asked(1.8e9, 0.5, "a.example", "http://a.example", "robots", 7, 200, None, "127.0.0.1"),
    CrawlDelay(1.8e9 + 0.5, "http://a.example", 2.0),
    Asked(1.8e9 + 3, 0.1, "a.example", "https://a.example", "page", 2**64 - 1, 503, None, "::1", 9),
    Asked(1.8e9 + 99, 0.1, "b.example", "http://b.example", "page", 8, None, "timeout"),
]


def write(path: Path) -> bytes:
    log = RequestLog(path, MANNERS)
    for row in ROWS:
        log.note(row)
    assert log.close() == 0
    return path.read_bytes()


def test_what_is_written_is_read(tmp_path: Path) -> None:
    raw = write(tmp_path / "requests" / "00000.log")
    assert list(session.read_requests(tmp_path / "requests" / "00000.log")) == [MANNERS, *ROWS]
    assert raw[:12] == b"ABC-REQS\1\0\0\0"
    length, _ = struct.unpack_from("<II", raw, 12)
    assert raw[20:21] == b"M"
    assert raw[20 + length + 8 :][:1] == b"Q"


@given(cut=st.integers(0, 1000))
def test_a_torn_tail_is_cut_and_all_before_it_is_used(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "requests" / "00000.log"
    whole = write(path)
    cut = min(cut, len(whole))
    path.write_bytes(whole[:cut])
    rows = list(session.read_requests(path))
    *good, last = rows or [None]
    if isinstance(last, session.Torn):
        assert session.is_cut(last)
        rows = good
    assert rows == [MANNERS, *ROWS][: len(rows)]


def test_damage_in_the_middle_is_no_torn_tail(tmp_path: Path) -> None:
    path = tmp_path / "requests" / "00000.log"
    raw = bytearray(write(path))
    raw[150] ^= 1
    path.write_bytes(raw)
    *_, torn = session.read_requests(path)
    assert isinstance(torn, session.Torn)
    assert not session.is_cut(torn)
    path.write_bytes(b"ABC-REQS\7\0\0\0")
    with pytest.raises(UserError, match="request log format 7"):
        list(session.read_requests(path))


@given(at=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_any_damage_leaves_the_rows_before_it(
    tmp_path_factory: pytest.TempPathFactory, at: int, bit: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "rank-00000" / "requests" / "00000.log"
    raw = bytearray(write(path))
    raw[at % len(raw)] ^= 1 << bit
    path.write_bytes(raw)
    try:
        *rows, last = session.read_requests(path)
    except UserError:
        assert 8 <= at % len(raw) < 12  # the version
        return
    assert isinstance(last, session.Torn)
    assert rows == [MANNERS, *ROWS][: len(rows)]
    judged(path.parents[2])


def test_a_frame_of_a_later_kind_ends_the_file(tmp_path: Path) -> None:
    path = tmp_path / "requests" / "00000.log"
    raw = write(path)
    for body in (b"X", b"Q\x91\x01", b"Q\xff", b"D"):
        frame = struct.pack("<II", len(body), zlib.crc32(body)) + body
        path.write_bytes(raw + frame)
        *rows, last = session.read_requests(path)
        assert rows == [MANNERS, *ROWS]
        assert last == session.Torn(path, len(raw), len(frame))


def test_rows_without_room_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "requests" / "00000.log"
    log = RequestLog(path, MANNERS)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        for row in ROWS[:3]:
            log.note(row)
    log.note(ROWS[3])
    assert log.close() == 0
    assert list(session.read_requests(path)) == [MANNERS, *ROWS]


class Scripted:
    """A fetcher that does as it is told."""

    def __init__(self, end: Response | BaseException) -> None:
        self.end = end

    async def locate(self, url: str) -> str:
        return "127.0.0.1"

    async def fetch(
        self,
        url: str,
        validators: Validators | None = None,
        max_bytes: int | None = None,
        cookie: str = "",
    ) -> Response:
        if isinstance(self.end, BaseException):
            raise self.end
        return self.end


@pytest.mark.parametrize(
    ("end", "noted"),
    [
        (response("http://a.example/"), (200, None, "127.0.0.1", None)),
        (
            response("http://a.example/", status=429, headers=[(b"Retry-After", b"7")]),
            (429, None, "127.0.0.1", 7.0),
        ),
        (FetchError(Failure.TIMEOUT, address="::1"), (None, "timeout", "::1", None)),
        (FetchError(Failure.REFUSED), (None, "connection-refused", None, None)),
        (MovedError("a.example"), (None, "moved", None, None)),
        (ZeroDivisionError(), (None, "internal", None, None)),
        (asyncio.CancelledError(), (None, "cancelled", None, None)),
        (FetchError(Failure.DNS_FAILED), None),
        (FetchError(Failure.PRIVATE_ADDRESS), None),
        (FetchError(Failure.BAD_URL), None),
    ],
)
def test_each_request_is_noted(
    end: Response | BaseException, noted: tuple[object, ...] | None
) -> None:
    rows: list[Asked] = []
    sites = Sites("authority")
    clock = SystemClock()
    fetcher = NotingFetcher(Scripted(end), "page", sites, rows.append, clock, MANNERS.time)
    if isinstance(end, BaseException):
        with pytest.raises(type(end)):
            asyncio.run(fetcher.fetch("https://a.example:81/x"))
    else:
        assert asyncio.run(fetcher.fetch("https://a.example:81/x")) is end
    if noted is None:
        assert rows == []
        return
    (row,) = rows
    assert (row.status, row.error, row.address, row.retry_after_s) == noted
    assert (row.site, row.authority) == ("a.example:81", "https://a.example:81")
    assert row.key == found("https://a.example:81/x").key
    assert abs(row.started - time.time()) < 60
    assert row.seconds >= 0


# --- whole sessions ---------------------------------------------------------------------------


@pytest.fixture
def served() -> Any:
    """A web of ten pages with a crawl-delay, one of whose answers is a 503; its port and log."""
    asked: list[tuple[float, str]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            asked.append((time.time(), self.path))
            status = 503 if self.path == "/3" and sum(p == "/3" for _, p in asked) == 1 else 200
            body = "".join(f'<a href="/{n}">x</a>' for n in range(8)).encode()
            if self.path == "/robots.txt":
                body = b"User-agent: *\nCrawl-delay: 0.2\n"
            self.send_response(status)
            self.send_header("Retry-After", "1")
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=[0.02], daemon=True).start()
    yield server.server_address[1], asked
    server.shutdown()
    server.server_close()


@pytest.fixture
def crawled(tmp_path: Path, served: tuple[int, list[tuple[float, str]]]) -> Path:
    port, asked = served
    directory = tmp_path / "s"
    done = crawl_here(directory, f"http://127.0.0.1:{port}/", *sets("politeness.delay_s=0.1"))
    assert done.returncode == 0, done.stderr
    assert "Politeness   kept  smallest pause 0.2" in done.stdout
    rows = [row for row in rows_of(directory) if isinstance(row, Asked)]
    assert len(rows) == len(asked)
    for row, (at, _) in zip(rows, asked, strict=True):
        assert row.started <= at <= row.started + row.seconds
    return directory


def rows_of(directory: Path) -> list[Any]:
    (path,) = session.request_files(directory)
    return list(session.read_requests(path))


def doctored(
    directory: Path, tmp_path: Path, change: Callable[[list[Any]], list[Any]]
) -> tuple[bool, str]:
    """The verdict of `verify` on a copy with other rows in its request log."""
    copy = shutil.copytree(directory, tmp_path / "copy")
    (path,) = session.request_files(copy)
    manners, *rows = change(rows_of(directory))
    path.unlink()
    log = RequestLog(path, manners)
    for row in rows:
        log.note(row)
    log.close()
    write_tables(copy)
    verdict = verify(copy)
    shutil.rmtree(copy)
    return verdict.sound, "\n".join(verdict.lines)


def shift(rows: list[Any], number: int, seconds: float) -> list[Any]:
    row = rows[number]
    changed = msgspec.structs.replace(row, started=row.started + seconds)
    return [*rows[:number], changed, *rows[number + 1 :]]


def slow(row: Asked) -> Asked:
    return msgspec.structs.replace(row, started=row.started + 10, seconds=1.0)


def test_tables_without_crawl_delays_are_sound(crawled: Path, tmp_path: Path) -> None:
    """Earlier versions wrote such tables."""
    copy = shutil.copytree(crawled, tmp_path / "copy")
    path = copy / "tables" / "sites" / "00000.parquet"
    table = pq.read_table(path)
    pq.write_table(table.drop_columns("crawl_delay"), path)
    assert verify(copy).sound
    write_tables(copy)
    assert pq.read_table(path).equals(table)


def test_sessions_that_broke_their_promise_fail(crawled: Path, tmp_path: Path) -> None:
    metrics = metrics_of(crawled)["politeness"]
    assert metrics["kept"]
    assert metrics["impolite"] == 0
    assert 0 <= metrics["smallest_gap"] - metrics["promised_gap"] < 0.2
    (site,) = pq.read_table(crawled / "tables" / "sites").to_pylist()
    assert site["requests"] == metrics["requests"] == 11
    assert site["crawl_delay"] == 0.2
    assert (site["smallest_gap"], site["promised_gap"]) == (
        metrics["smallest_gap"],
        metrics["promised_gap"],
    )
    rows = rows_of(crawled)
    assert [type(row).__name__ for row in rows[:3]] == ["Manners", "Asked", "CrawlDelay"]
    assert verify(crawled).sound
    assert doctored(crawled, tmp_path, lambda rows: rows) == (True, "")
    # A page that came half of the crawl-delay too early.
    sound, lines = doctored(crawled, tmp_path, lambda rows: shift(rows, 3, -0.1))
    assert not sound
    pattern = (
        r"politeness: 127\.0\.0\.1:\d+: the next request came after 0\.1\d\d s, from end to start;"
        r" promised were 0\.2 s \(the Crawl-delay of its robots\.txt\): robots [0-9a-f]{16} of"
        r" http://127\.0\.0\.1:\d+ by rank 0 from \S+Z to \S+Z \(200\), then page "
    )
    assert re.search(pattern, lines), lines
    # The request after the 503 comes before its Retry-After is over.
    after = next(n for n, row in enumerate(rows) if getattr(row, "status", 0) == 503) + 1
    sound, lines = doctored(crawled, tmp_path, lambda rows: shift(rows, after, -0.5))
    assert not sound
    assert "promised were 1 s (the Retry-After of a 503)" in lines
    # More connections than allowed, and a promise that was larger.
    sound, lines = doctored(crawled, tmp_path, lambda rows: [*rows, slow(rows[-1]), slow(rows[-1])])
    assert ": 2 requests at a time, allowed were 1" in lines
    larger = msgspec.structs.replace(rows[0], delay_s=0.9)
    sound, lines = doctored(crawled, tmp_path, lambda rows: [larger, *rows[1:]])
    assert not sound
    assert "(politeness.delay_s)" in lines


def test_a_missing_or_damaged_request_log_is_found(crawled: Path) -> None:
    (path,) = session.request_files(crawled)
    raw = path.read_bytes()
    path.write_bytes(raw[:-3])
    write_tables(crawled)
    verdict = verify(crawled)
    assert verdict.sound
    assert any("a torn tail" in note for note in verdict.notes)
    path.write_bytes(raw[:200] + b"x" + raw[201:])
    write_tables(crawled)
    assert verify(crawled).problems == {"politeness": 1}
    path.unlink()
    write_tables(crawled)
    done = run_here("verify", str(crawled))
    assert done.returncode == 1
    assert "its request log is missing" in done.stdout + done.stderr


def test_an_old_session_has_nothing_to_be_checked(tmp_path: Path) -> None:
    copy = shutil.copytree(OLD_SESSION, tmp_path / "old")
    verdict = verify(copy)
    assert verdict.sound
    assert any("nobody can check" in note for note in verdict.notes)
    done = run_here("report", str(copy))
    assert "politeness   unknown: there is no request log" in done.stdout
    assert metrics_of(copy)["politeness"] is None


def test_gaps_count_across_runs(crawled: Path) -> None:
    """A second run that begins in the middle of the first one's requests."""
    rows = rows_of(crawled)
    (path,) = session.request_files(crawled)
    again = RequestLog(path.with_name("00001.log"), replace_run(rows[0]))
    last = next(row for row in reversed(rows) if isinstance(row, Asked))
    early = last.started + last.seconds + 0.05
    again.note(msgspec.structs.replace(last, started=early))
    again.close()
    write_tables(crawled)
    verdict = verify(crawled)
    assert verdict.problems == {"politeness": 1}
    assert "promised were 0.2 s (the Crawl-delay of its robots.txt)" in verdict.lines[0]


def judged(
    directory: Path, tell: Callable[[Gap | Crowd], None] = lambda _: None
) -> dict[str, Clock]:
    """What one process finds about the requests of a session, by site."""
    files = session.request_files(directory)
    return dict(alone(judge_together(files, Alone(), lambda _: 0, tell)).clocks)


def replace_run(manners: session.Manners) -> session.Manners:
    return msgspec.structs.replace(manners, run=1)


def test_a_wall_clock_that_is_set_proves_nothing(tmp_path: Path) -> None:
    """Two ranks of one host; the second began after its wall clock had been set back by an hour."""
    for rank, offset in enumerate((MANNERS.offset, MANNERS.offset - 3600)):
        manners = msgspec.structs.replace(MANNERS, rank=rank, offset=offset, boot="x")
        log = RequestLog(tmp_path / f"rank-0000{rank}" / "requests" / "00000.log", manners)
        for number in range(3):
            start = manners.time(3.0 * number + 1.5 * rank)
            log.note(Asked(start, 0.5, "a.example", "http://a.example", "page", number, 200))
        log.close()
    ((_, clock),) = judged(tmp_path).items()
    assert (clock.requests, clock.impolite) == (6, 0)
    assert clock.smallest is not None
    assert clock.smallest.seconds == pytest.approx(1.0)


def test_by_address_requests_are_held_against_addresses(tmp_path: Path) -> None:
    with_addresses = msgspec.structs.replace(MANNERS, per="address")
    log = RequestLog(tmp_path / "rank-00000" / "requests" / "00000.log", with_addresses)
    for number in range(2):
        site = f"{number}.example"
        start = 1.8e9 + number * 1.2
        log.note(Asked(start, 0.5, site, f"http://{site}", "page", number, 200, None, "10.0.0.1"))
    log.close()
    told: list[Any] = []
    clocks = judged(tmp_path, told.append)
    assert [what.clock for what in told] == ["10.0.0.1"]
    assert clocks["1.example"].impolite == 1
    assert replace(clocks["0.example"], requests=1) == clocks["0.example"]


def test_a_robots_txt_that_is_redirected_is_asked_for_in_time(tmp_path: Path) -> None:
    """Each redirect is a request like others, of the site to which it leads."""
    redirects = {"/robots.txt": "/a", "/a": "/b", "/b": "/rules"}
    pages: dict[str, Page | bytes] = {
        path: Page(status=301, headers={"Location": to}) for path, to in redirects.items()
    }
    pages |= {
        "/rules": b"User-agent: *\nDisallow: /no\n",
        "/": Page(b'<a href="/no"></a><a href="/yes"></a>', 200, {"Content-Type": "text/html"}),
        "/yes": b"",
    }
    with PageServer(pages) as there:
        moved: dict[str, Page | bytes] = {
            "/robots.txt": Page(status=302, headers={"Location": f"{there.url}/rules"}),
            "/": Page(b'<a href="/no"></a>', 200, {"Content-Type": "text/html"}),
        }
        with PageServer(moved) as here:
            words = [f"{there.url}/", f"{here.url}/", *sets("politeness.delay_s=0.2")]
            done = crawl_here(tmp_path / "s", *words)
            assert done.returncode == 0, done.stderr
            assert here.paths == ["/robots.txt", "/"]
        assert all(later - earlier > 0.2 for earlier, later in pairwise(there.times))
        assert sorted(there.paths) == sorted([*redirects, "/rules", "/rules", "/", "/yes"])
    rows = [row for row in rows_of(tmp_path / "s") if isinstance(row, Asked)]
    assert [row.kind for row in rows].count("robots") == 6
    assert verify(tmp_path / "s").sound
    kept = metrics_of(tmp_path / "s")["politeness"]
    assert kept["smallest_gap"] > 0.2
    assert kept["requests"] == 9


def test_a_resume_leaves_each_site_its_rest(
    tmp_path: Path, served: tuple[int, list[tuple[float, str]]]
) -> None:
    port, asked = served
    settings = sets("politeness.delay_s=3", "session.max_pages=1")
    directory = tmp_path / "s"
    assert crawl_here(directory, f"http://127.0.0.1:{port}/", *settings).returncode == 0
    last = asked[-1][0]
    assert run_here("resume", str(directory), *sets("session.max_pages=2")).returncode == 0
    assert len(asked) == 4
    assert asked[2][0] - last >= 3
    verdict = verify(directory)
    assert verdict.sound, verdict.lines


class Dropping(BaseHTTPRequestHandler):
    """Closes each kept connection when it is asked there for the second time."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    asked: ClassVar[list[float]] = []

    def do_GET(self) -> None:
        self.asked.append(time.time())
        self.requests = getattr(self, "requests", 0) + 1
        if self.requests > 1:
            self.close_connection = True
            return
        body = b"".join(b'<a href="/%d">x</a>' % n for n in range(4))
        self.send_response(404 if self.path == "/robots.txt" else 200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def test_a_lost_connection_is_no_reason_to_ask_at_once(tmp_path: Path) -> None:
    Dropping.asked.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Dropping)
    Thread(target=server.serve_forever, args=[0.02], daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}/"
    done = crawl_here(tmp_path / "s", address, *sets("politeness.delay_s=0.2"))
    server.shutdown()
    server.server_close()
    assert done.returncode == 0, done.stderr
    assert metrics_of(tmp_path / "s")["pages"] == 5
    rows = [row for row in rows_of(tmp_path / "s") if isinstance(row, Asked)]
    assert sum(row.error == "moved" for row in rows) >= 2
    assert len(rows) == len(Dropping.asked)
    gaps = [later - earlier for earlier, later in pairwise(Dropping.asked)]
    assert min(gaps) > 0.19
