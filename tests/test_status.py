"""Rank 0's view of all ranks: what it says, what it writes, and how that is drawn."""

import asyncio
import fcntl
import io
import json
import logging
import os
import random
import re
import struct
import subprocess
import sys
import termios
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from cluster import settings
from conftest import MpiRun
from crawls import demo_config, metrics_of, run_here, sets
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from crawler.agent.board import Board, Voice, bound_of
from crawler.agent.log import RankLog
from crawler.agent.progress import Tally
from crawler.agent.site_tally import SiteTally
from crawler.demo.web import serve
from crawler.messages import Note, SitePages, Trouble
from crawler.ports import MEANINGS, Asked, Failure, PageRow, UserError
from crawler.session import Bound, Manners, SiteStatus, State, Status, read_status
from crawler.session.early import EarlyRequests
from crawler.session.gaps import Requests
from crawler.session.requests import SiteManners
from crawler.watch.table import draw
from crawler.watch.words import duration, line, short


class Hand:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> float:
        return self.at

    def time(self) -> float:
        return 1e9 + self.at


def board(tmp_path: Path, *values: str, ranks: int = 2, **more: Voice) -> tuple[Board, Hand]:
    clock = Hand()
    return Board(tmp_path, settings(*values), ranks, clock=clock, **more), clock


# --- what rank 0 says -------------------------------------------------------------------------


def test_warnings_of_other_ranks_are_shown_without_their_escapes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    board(tmp_path)[0].update(2, Note(5, 100, 7, 0, ["rank 2: evil\n\x1b[2J name"]))
    assert capsys.readouterr().err == "rank 2: evil??[2J name\n"


def test_at_the_end_a_warning_that_no_note_brought_is_shown_and_no_other(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log, (one, _) = RankLog(tmp_path / "agent.log", 2), board(tmp_path)
    for word in ("one", "two", "two"):
        logging.getLogger("crawler").warning(word)
    one.update(2, Note(5, 100, 7, 0, log.take_warnings()[:2]))  # the rest is lost
    one.update_last(2, Note(6, 120, 0, 0, list(log.latest)))
    log.close()
    shown = capsys.readouterr().err.splitlines()
    assert shown == ["rank 2: one", "rank 2: two", "rank 2: two"]
    assert one.status(State.ENDED).pages == 6


@pytest.mark.parametrize("voice", Voice)
def test_where_nothing_can_be_drawn_a_line_comes_every_ten_seconds(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, voice: Voice
) -> None:
    one, clock = board(tmp_path, "session.max_pages=1000", voice=voice)
    trouble = Trouble(0.0, "http://a.example/\x1b", "timeout", "no answer")

    async def scenario() -> None:
        for _ in range(12):
            clock.at += 1
            one.update(0, Note(5, 1_000_000, 7, 1, by_failure={"timeout": 1}))
            one.update(1, Note(6, 2_000_000, 0, 0, troubles=[trouble]))
            one.show(State.CRAWLING)
        await one.tell(State.ENDED)

    asyncio.run(scenario())
    lines = capsys.readouterr().err.splitlines()
    if voice is Voice.VERBOSE:
        assert lines.count("timeout: http://a.example/?: no answer") == 12
        lines = [one for one in lines if not one.startswith("timeout")]
    if voice is Voice.QUIET:
        assert not lines
        return
    (progress,) = lines
    assert progress.startswith("0:00:10  11 of 1,000 pages  1/s  3.0 MB  7 waiting  1 not fetched")


# --- the status -------------------------------------------------------------------------------


def test_the_pace_is_that_of_the_last_minute(tmp_path: Path) -> None:
    one, clock = board(tmp_path, "session.max_pages=10000", "session.max_time=1h")
    one.begin_after(500, lost=False)

    async def scenario() -> None:
        pages = 0
        for second in range(200):
            clock.at += 1
            pages += 10 if second < 100 else 2
            one.update(0, Note(pages, 0, 100_000, 0))
            one.update(1, Note(0, 0, 0, 0))
            one.show(State.CRAWLING)
        await one.tell(State.CRAWLING)

    asyncio.run(scenario())
    status = read_status(tmp_path)
    assert status.pages == 500 + 1000 + 200
    assert status.pages_per_second == pytest.approx(2)
    assert [row.pages_per_second for row in status.rows] == [pytest.approx(2), 0]
    assert status.left_until == "max_time"
    assert status.left_s == pytest.approx(3400)


def test_failures_and_messages_have_the_pace_of_the_last_minute(tmp_path: Path) -> None:
    one, clock = board(tmp_path)

    async def scenario() -> None:
        for second in range(101):
            for rank in range(2):
                failed = {"timeout": second, "status 404": second}
                one.update(rank, Note(0, 0, 0, 0, by_failure=failed, messages=second**2))
            one.show(State.CRAWLING)
            clock.at += 1

    asyncio.run(scenario())
    assert one.latest.failed_per_second == 4
    assert one.latest.messages == 2 * 100**2
    assert one.latest.messages_per_second == pytest.approx(2 * (100**2 - 40**2) / 60)


def test_the_sites_of_all_ranks_are_put_together(tmp_path: Path) -> None:
    one, _ = board(tmp_path)
    of_rank = [SitePages("a", 10, 100, 5.0), SitePages("b", 4, 10, 40.0)]
    one.update(0, Note(0, 0, 0, 0, sites=of_rank))
    one.update(1, Note(0, 0, 0, 0, sites=[SitePages("a", 20, 300, 10.0)]))
    status = one.status(State.CRAWLING)
    both, alone = SiteStatus("a", 30, 400, 0.5, [0, 1]), SiteStatus("b", 4, 10, 10.0, [0])
    assert status.largest_sites == [both, alone]
    assert status.slowest_sites == [alone, both]


@given(st.lists(st.integers(0, 30), max_size=300), st.integers(2, 40))
def test_a_tally_of_sites_counts_those_with_many_pages(visits: list[int], most: int) -> None:
    """Never too much, and exactly if there are few enough sites."""
    tally, pages = SiteTally(most), Counter[str]()
    for number in visits:
        tally.add(f"{number}.example", 10, 0.5)
        pages[f"{number}.example"] += 1
        assert len(tally._by_site) <= most
    for one in tally._by_site.values():
        assert one.pages <= pages[one.site]
        assert (one.bytes, one.seconds) == (10 * one.pages, 0.5 * one.pages)
    if len(pages) <= most:
        shown = sorted((one.pages for one in tally.shown()), reverse=True)
        assert shown[:5] == sorted(pages.values(), reverse=True)[:5]


def test_a_site_with_many_pages_is_shown_among_many_sites() -> None:
    tally = SiteTally(100)
    for number in range(5000):
        tally.add(f"{number}.example", 1, 0.1)
        tally.add("large.example", 1, 0.1)
        tally.add(f"slow-{number % 2}.example", 1, 9.0)
    shown = {one.site: one for one in tally.shown()}
    assert shown["large.example"].pages == 5000
    assert {"slow-0.example", "slow-1.example"} <= shown.keys()


def test_a_board_counts_what_limits_the_crawl_by_seconds(tmp_path: Path) -> None:
    one, _ = board(tmp_path)

    async def scenario() -> None:
        for resting in (1, 1, 0):
            one.update(0, Note(0, 0, 0, 0, connections=4, sites_resting=resting))
            one.show(State.CRAWLING)
        one.show(State.PAUSED)

    asyncio.run(scenario())
    assert one.take_limits() == {"site delays": 2, "no URLs": 1}
    assert one.take_limits() == {}


def test_what_ends_first_is_named(tmp_path: Path) -> None:
    def left(waiting: int, *values: str) -> tuple[float | None, str]:
        one, clock = board(tmp_path, *values)
        clock.at += 10
        one.update(0, Note(100, 0, waiting, 0))
        status = one.status(State.CRAWLING)
        return status.left_s, status.left_until

    assert left(500) == (50, "no URLs")
    assert left(500, "session.max_pages=200") == (10, "max_pages")
    assert left(50, "session.max_pages=200") == (5, "no URLs")
    assert left(500, "session.max_time=12s", "session.max_pages=200") == (2, "max_time")
    assert board(tmp_path)[0].status(State.CRAWLING).left_s is None


def test_ranks_that_go_on_without_others_count_anew(tmp_path: Path) -> None:
    one, clock = board(tmp_path)
    one.update(0, Note(10, 0, 0, 0))
    one.update(1, Note(20, 0, 0, 0))
    clock.at += 1
    one.begin_after(30, lost=True)
    one.update(0, Note(1, 0, 0, 0))
    status = one.status(State.CRAWLING)
    assert status.pages == 31
    assert [row.rank for row in status.rows] == [0]


FREE = Note(0, 0, 9, 0, connections=4, fetching=1)


@pytest.mark.parametrize(
    ("change", "cpu", "bound"),
    [
        ({"no_room": True, "backlog": 999}, 1.0, Bound.DISK),
        ({"backlog": 999}, 1.0, Bound.OUTBOX),
        ({"connections": 0}, 1.0, Bound.NO_CRAWLER),
        ({"fetching": 4}, 0.95, Bound.CPU),
        ({"fetching": 4, "lag_s": 0.5}, 0.1, Bound.CPU),
        ({"fetching": 4, "sites_resting": 3}, 0.1, Bound.CONCURRENCY),
        ({"sites_resting": 3}, 0.1, Bound.DELAYS),
        ({}, 0.1, Bound.ANSWERS),
        ({"fetching": 0, "sites_ready": 1}, 0.1, Bound.QUOTA),
        ({"fetching": 0}, 0.1, Bound.NOTHING),
    ],
)
def test_what_keeps_a_rank_from_fetching_more(
    change: dict[str, object], cpu: float, bound: Bound
) -> None:
    assert bound_of(msgspec.structs.replace(FREE, **change), cpu, 100) is bound


def test_the_bound_of_the_crawl_is_that_of_most_ranks_that_fetch(tmp_path: Path) -> None:
    one, _ = board(tmp_path, ranks=5)
    for rank, change in enumerate([{"connections": 0}] * 2 + [{"sites_resting": 3}] + [{}] * 2):
        one.update(rank, msgspec.structs.replace(FREE, **change))

    async def scenario() -> None:
        one.show(State.CRAWLING)
        await one.tell(State.CRAWLING)

    asyncio.run(scenario())
    assert read_status(tmp_path).bound is Bound.ANSWERS


def test_a_tally_tells_what_went_well() -> None:
    def row(status: int | None, error: str | None = None) -> PageRow:
        return PageRow("http://a.example/", 1, "a.example", 0, 0, 0, 0.0, 0.1, None, status, error)

    tally = Tally()
    for one in (row(200), row(304), row(301), row(404), row(500), row(200, "too-large")):
        tally.add(one)
    tally.add(row(None, "timeout"), "no byte in 30 s")
    assert (tally.pages, tally.good, tally.errors) == (6, 3, 2)
    assert tally.statuses == [0, 2, 2, 1, 1]
    assert tally.by_failure == {"status 404": 1, "status 500": 1, "too-large": 1, "timeout": 1}
    told = [(one.error, one.why) for one in tally.take_troubles()]
    assert told[0] == ("status 404", "")
    assert told[2:] == [("too-large", MEANINGS[Failure.TOO_LARGE]), ("timeout", "no byte in 30 s")]
    assert not tally.take_troubles()


def test_each_class_of_errors_has_a_meaning() -> None:
    assert set(MEANINGS) == set(Failure)


# --- status.json ------------------------------------------------------------------------------


def test_a_status_that_is_missing_or_of_another_version(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a session that a crawl has begun"):
        read_status(tmp_path)
    (tmp_path / "status.json").write_text('{"version": 2, "state": "dancing"}')
    with pytest.raises(UserError, match="another version"):
        read_status(tmp_path)


def test_a_crawl_that_says_nothing_and_holds_no_lock_is_lost(tmp_path: Path) -> None:
    one, clock = board(tmp_path)
    clock.at = time.time() - 1e9
    asyncio.run(one.tell(State.CRAWLING))
    assert read_status(tmp_path).state is State.CRAWLING
    clock.at -= 3600
    asyncio.run(one.tell(State.CRAWLING))
    assert read_status(tmp_path).state is State.LOST
    asyncio.run(one.tell(State.ENDED, "complete"))
    assert read_status(tmp_path).state is State.ENDED


# --- drawings ---------------------------------------------------------------------------------


def drawing(status: Status, width: int = 80) -> list[str]:
    text = io.StringIO()
    Console(file=text, width=width, force_terminal=False).print(draw(status))
    return text.getvalue().splitlines()


@given(st.integers(0, 10**15))
def test_a_short_number_has_at_most_six_characters(number: int) -> None:
    assert len(short(number)) <= 6


def test_numbers_and_times() -> None:
    assert [short(n) for n in (0, 99_999, 100_000, 1_234_567, 9_960_000)] == [
        *("0", "99,999", "100k", "1.2M", "10M"),
    ]
    assert duration(3723.9) == "1:02:03"


@pytest.mark.parametrize("ranks", [1, 2, 16, 17, 64])
def test_a_drawing_fits_in_80_columns(tmp_path: Path, ranks: int) -> None:
    one, clock = board(tmp_path, "session.max_pages=100000000", ranks=ranks)
    clock.at += 1
    chosen = random.Random(ranks)
    evil = Trouble(0.0, "http://a.example/[red]\x1b" + "x" * 99, "timeout", "y" * 99)
    for rank in range(ranks):
        bits = {name: chosen.randrange(10**8) for name in ("sites_resting", "hosts_failing")}
        one.update(
            rank,
            Note(
                *(chosen.randrange(10**9) for _ in range(4)),
                [],
                by_failure={failure.value: 10**6 for failure in Failure},
                connections=64,
                memory=10**11,
                no_room=rank == 40,
                troubles=[evil],
                **bits,
            ),
        )
    lines = drawing(one.status(State.CRAWLING))
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert "\x1b" not in text
    assert "http://a.example/[red]?xxx" in text
    at = next(number for number, one in enumerate(lines) if one.startswith("rank"))
    shown = [one.split()[0] for one in lines[at + 1 : lines.index("", at)]]
    if ranks == 1:
        assert shown == ["0"]
    elif ranks <= 16:
        assert shown == [*map(str, range(ranks)), "all"]
    else:
        assert len(shown) == 10  # eight ranks, their sum, and how many there are
        assert shown[8:] == ["all", "the"]
        assert (shown[0] == "40") is (ranks == 64)  # its disk is full


def test_a_drawing_says_how_it_goes_on(tmp_path: Path) -> None:
    one, _ = board(tmp_path)
    for state, command in ((State.PAUSED, "continue"), (State.LOST, "resume")):
        assert f"python -m crawler {command} {tmp_path}" in drawing(one.status(state), 200)[0]
    assert drawing(one.status(State.ENDED, "stop"))[0].startswith("state        ended: stop")
    assert line(one.status(State.STOPPING)).endswith("stopping")


# --- whether a rank keeps its promises --------------------------------------------------------

SLOTS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30), st.integers(0, 12)))


DELAYS = st.sampled_from([0.0, 0.5, 1.0])


@given(SLOTS, DELAYS, st.none() | DELAYS)
def test_a_rank_counts_the_early_requests_that_the_request_log_shows(
    slots: list[tuple[str, int, int]], delay_s: float, of_b: float | None
) -> None:
    tables = [SiteManners(["b"], of_b, None)]
    manners = Manners(0, 0, "here", "boot", 0.0, "site", delay_s, 1, 60, 1, 60, 3600, 6, tables)
    ends, asked = dict.fromkeys("ab", 0.0), []
    for site, wait, length in slots:
        started = ends[site] + wait / 10
        ends[site] = started + length / 10
        asked.append(Asked(started, length / 10, site, f"http://{site}", "page", 1, 200))
    early, requests = EarlyRequests(manners), Requests()
    for one in asked:
        early.note(one)
        requests.add(one, manners.promises()(one.site))
    assert early.count == sum(clock.impolite for _, clock in requests.judge())


def test_with_several_connections_a_delay_runs_from_start_to_start() -> None:
    manners = Manners(0, 0, "here", "boot", 0.0, "site", 1.0, 4, 60, 1, 60, 3600, 6)
    early = EarlyRequests(manners)
    for started, seconds in ((1.0, 0.2), (2.0, 0.2), (0.0, 5.0), (3.0, 0.1)):  # as they end
        early.note(Asked(started, seconds, "a", "http://a", "page", 1, 200))
    assert early.count == 0
    early.note(Asked(3.5, 0.1, "a", "http://a", "page", 1, 200))
    assert early.count == 1


def test_connections_of_a_site_count_in_place_of_the_usual_ones() -> None:
    tables = [SiteManners(["a"], None, 4)]
    manners = Manners(0, 0, "here", "boot", 0.0, "site", 1.0, 1, 60, 1, 60, 3600, 6, tables)
    for site, expected in (("a", 0), ("b", 1)):
        early = EarlyRequests(manners)
        for started in (0.0, 1.1):
            early.note(Asked(started, 0.5, site, f"http://{site}", "page", 1, 200))
        assert early.count == expected, site


def test_an_address_waits_for_the_delay_of_the_site_that_was_asked_last() -> None:
    tables = [SiteManners(["b"], 3.0, None)]
    manners = Manners(0, 0, "here", "boot", 0.0, "address", 1.0, 1, 60, 1, 60, 3600, 6, tables)
    for sites, expected in (("ac", 0), ("ab", 0), ("bc", 1)):
        early = EarlyRequests(manners)
        for site, started in zip(sites, (0.0, 1.5), strict=True):
            host = f"http://{site}"
            early.note(Asked(started, 0.1, site, host, "page", 1, 200, None, "10.0.0.1"))
        assert early.count == expected, sites


def test_an_address_has_a_clock_of_its_own() -> None:
    manners = Manners(0, 0, "here", "boot", 0.0, "address", 1.0, 1, 60, 1, 60, 3600, 6)
    early = EarlyRequests(manners)
    for site, started in (("a", 0.0), ("b", 0.5)):
        early.note(Asked(started, 0.1, site, f"http://{site}", "page", 1, 200, None, "10.0.0.1"))
    assert early.count == 1


# --- live -------------------------------------------------------------------------------------


def test_a_crawl_of_two_ranks_tells_how_far_it_is(tmp_path: Path, mpirun: MpiRun) -> None:
    session = tmp_path / "s"
    with serve(5, 60, 4) as (web, port):
        config = demo_config(tmp_path / "c.toml", web, port)
        words = ["crawl", str(config), "--session", str(session), "--max-time", "2.5s", "-v"]
        done = mpirun(2, "-m", "crawler", *words, *sets("politeness.delay_s=0.3"))
    assert done.returncode == 75, done.stderr
    status, metrics = read_status(session), metrics_of(session)
    assert (status.state, status.reason, status.ranks) == (State.ENDED, "max_time", 2)
    assert status.pages == metrics["pages"] == sum(row.pages for row in status.rows)
    assert status.requests == metrics["requests"]
    assert status.waiting == metrics["waiting"]
    assert status.statuses["2xx"] == metrics["by_status"]["200"]
    assert status.early == 0
    assert all(row.memory > 1e7 for row in status.rows)
    sent = sum(sum(row.urls_to.values()) for row in status.rows)
    assert sent == metrics["inter_part_urls"] > 0
    denied = metrics["by_error"].get("robots-denied", 0)
    assert done.stderr.count("robots.txt forbids this URL") == denied
    shown = run_here("status", str(session), "--json")
    assert json.loads(shown.stdout)["pages"] == metrics["pages"]
    shown = run_here("watch", str(session))
    assert shown.returncode == 0
    assert "ended" in shown.stdout


def test_a_crawl_on_a_terminal_draws_itself_and_leaves_the_terminal_in_order(
    tmp_path: Path,
) -> None:
    with serve(5, 60, 4) as (web, port):
        config = demo_config(tmp_path / "c.toml", web, port)
        words = ["crawl", str(config), "--session", str(tmp_path / "s"), "--max-time", "3s"]
        words += sets("politeness.delay_s=0.3")
        drawn = on_terminal(80, [sys.executable, "-m", "crawler", *words])
    assert "limited by" in drawn
    assert "site delays" in drawn
    assert drawn.rindex("\x1b[?25h") > drawn.rindex("\x1b[?25l")  # the cursor is shown again
    drawings, _, summary = drawn.rpartition("\x1b[?25h")
    assert "max_time" in summary
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawings)
    assert max(len(one.rstrip()) for one in re.split(r"[\r\n]+", plain)) <= 80
    colours = on_terminal(
        80, [sys.executable, "-m", "crawler", "watch", str(tmp_path / "s")], NO_COLOR="1"
    )
    assert "ended: max_time" in colours
    assert not re.search(r"\x1b\[3[0-9]", colours)


def on_terminal(width: int, words: Sequence[str], **environment: str) -> str:
    """Run a program on a terminal of this width. Returns all that it has written there."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    variables = {**os.environ, "TERM": "xterm-256color", **environment}
    with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=variables):
        os.close(theirs)
        written = b""
        while True:
            try:
                piece = os.read(ours, 1 << 16)
            except OSError:  # the program has ended
                break
            if not piece:
                break
            written += piece
    os.close(ours)
    return written.decode()
