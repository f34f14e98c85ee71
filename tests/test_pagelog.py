"""crawl.log: the fields of Heritrix, and one line a URL whatever the web sends."""

import json
import random
import re
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from conftest import PATIENCE_S
from crawls import demo_config, page_rows, run_here, write_config
from hypothesis import example, given
from hypothesis import strategies as st
from servers import Page, PageServer

from crawler.demo.web import serve
from crawler.ports import Failure, PageRow
from crawler.session.log import LogWriter, logs_of
from crawler.session.pagelog import PageLog, crawl_line, restore_lines

# As Heritrix's reports read it; the names are those of its documentation.
LINE = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) +(?P<status>-?\d+) +(?P<size>\d+|-)"
    r" (?P<url>\S+) (?P<path>(\d+\+)?[LR]{1,50}|-) (?P<via>-) (?P<type>\S+) (?P<thread>#\d{3,})"
    r" (?P<start>\d{17}\+\d+) (?P<digest>sha1:[A-Z2-7]{32}|-) (?P<source>-)"
    r" (?P<annotations>\S+)(?: (?P<json>\{.*\}))?\n"
)


def row(**more: object) -> PageRow:
    fields: dict[str, object] = {"url": "http://a.example/", "key": 1, "site": "a.example"}
    fields |= {"part": 0, "rank": 3, "hops": 2, "time": 1e9, "seconds": 2}
    return PageRow(**(fields | more))  # type: ignore[arg-type]


def parsed(line: str) -> dict[str, str]:
    found = LINE.fullmatch(line)
    assert found, line
    return found.groupdict()


def test_a_line_has_the_fields_of_heritrix() -> None:
    digest = "sha1:" + "A" * 32
    page = row(status=200, bytes=5, media_type="text/html", digest=digest, retries=2)
    assert crawl_line(page, 1, "", 1e9 + 2.5) == (
        "2001-09-09T01:46:42.500Z   200          5 http://a.example/ LLR - text/html #003"
        f" 20010909014640000+2000 {digest} - 3t\n"
    )
    assert crawl_line(row(error="timeout", hops=0), 0, "no byte in 30 s", 1e9) == (
        "2001-09-09T01:46:40.000Z    -4          - http://a.example/ - - - #003"
        ' 20010909014640000+2000 - - timeout {"error": "timeout", "why": "no byte in 30 s"}\n'
    )


@pytest.mark.parametrize("failure", Failure)
def test_each_failure_has_a_code_and_a_reason(failure: Failure) -> None:
    fields = parsed(crawl_line(row(error=failure.value), 0, "", 1e9))
    assert int(fields["status"]) < 0
    assert fields["annotations"] == failure
    assert json.loads(fields["json"])["why"]
    assert parsed(crawl_line(row(error=failure.value, status=200), 0, "", 1e9))["status"] == "200"


@given(
    st.text(),
    st.text(),
    st.sampled_from([None, "length", "time", "disconnect"]),
    st.integers(0, 200),
    st.integers(0, 20),
    st.sampled_from([None, 200, 304, 999]),
)
def test_nothing_that_the_web_sends_forges_a_field(
    kind: str, detail: str, truncated: str | None, hops: int, redirects: int, status: int | None
) -> None:
    page = row(
        media_type=kind,
        truncated=truncated,
        hops=hops,
        status=status,
        duplicate=True,
        error="tls",
    )
    fields = parsed(crawl_line(page, redirects, detail, 1e9))
    if detail:
        assert json.loads(fields["json"])["why"] == detail
    over, _, path = fields["path"].rpartition("+")
    assert int(over or 0) + len(path.strip("-")) == hops + redirects
    assert path.count("R") == redirects


def test_a_line_after_a_torn_one_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "crawl.log"
    path.write_text("torn")
    for _ in range(2):
        log = PageLog(tmp_path)
        log.add(row(status=200), 0, "")
        log.close()
        log.close()
    assert len(path.read_text().splitlines()) == 3


def test_lines_wait_for_a_second_or_a_batch(tmp_path: Path) -> None:
    path = tmp_path / "crawl.log"
    log = PageLog(tmp_path)
    log.add(row(status=200), 0, "")
    assert not path.read_text()
    log.write()
    assert len(path.read_text().splitlines()) == 1
    for _ in range(64):
        log.add(row(status=200), 0, "")
    assert len(path.read_text().splitlines()) == 65
    log.close()


ROWS = st.builds(
    row,
    url=st.sampled_from([f"http://a.example/{n}" for n in range(3)]),
    time=st.integers(0, 9).map(lambda n: 1e9 + n / 1000),
    seconds=st.sampled_from([0.0, 0.25]),
    status=st.sampled_from([None, 200]),
)


@given(st.lists(ROWS, max_size=80), st.integers(0, 70), st.integers(0, 120), st.booleans())
@example(rows=[row(time=1e9)] * 64, lost=64, cut=0, newer=False)
def test_lines_that_a_kill_has_lost_are_restored_once(
    rows: list[PageRow], lost: int, cut: int, newer: bool
) -> None:
    rows = [msgspec.structs.replace(one, url=f"{one.url}{n}") for n, one in enumerate(rows)]
    with TemporaryDirectory() as folder:
        directory = Path(folder) / "rank-00000"
        (directory / "log").mkdir(parents=True)
        crawl_log = directory / "crawl.log"
        log, lines = LogWriter(directory / "log"), PageLog(directory)
        for one in rows:
            log.write([log.frame(one, [])])
            lines.add(one, 0, "")
        log.close()
        lines.close()
        whole = urls_in(crawl_log)
        assert whole == [one.url for one in rows]
        kept = max(0, len(rows) - min(lost, 64))
        text = crawl_log.read_text().splitlines(keepends=True)
        # A write that the kill has cut short leaves a piece of a line.
        crawl_log.write_text("".join(text[:kept]) + "".join(text[kept:])[: min(cut, 50)])
        if newer:  # the log of a run that comes behind the kill
            LogWriter(directory / "log").close()
        for _ in range(2):
            restore_lines(logs_of(directory))
        assert urls_in(crawl_log) == (whole[:kept] if newer else whole)


def urls_in(crawl_log: Path) -> list[str]:
    lines = crawl_log.read_text().splitlines(keepends=True)
    return [found["url"] for line in lines if (found := LINE.fullmatch(line))]


def test_no_line_is_restored_where_users_have_deleted_all(tmp_path: Path) -> None:
    directory = tmp_path / "rank-00000"
    (directory / "log").mkdir(parents=True)
    log = LogWriter(directory / "log")
    for _ in range(65):
        log.write([log.frame(row(), [])])
    log.close()
    restore_lines(logs_of(directory))
    assert not (directory / "crawl.log").exists()
    (directory / "crawl.log").touch()
    restore_lines(logs_of(directory))
    assert not (directory / "crawl.log").read_text()


def test_lines_are_restored_from_the_end_of_a_long_log(tmp_path: Path) -> None:
    directory = tmp_path / "rank-00000"
    (directory / "log").mkdir(parents=True)
    log = LogWriter(directory / "log")
    rows = [row(url=f"http://a.example/{n}") for n in range(90)]
    for one in rows:
        log.write([log.frame(one, [], rows={"handler": random.Random(1).randbytes(100_000)})])
    log.close()
    lines = PageLog(directory)
    for one in rows[:70]:
        lines.add(one, 0, "")
    lines.close()
    restore_lines(logs_of(directory))
    assert urls_in(directory / "crawl.log") == [one.url for one in rows]


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "crawl.log").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic links"):
        PageLog(tmp_path)
    assert not (tmp_path / "precious").exists()


def test_people_see_a_line_while_the_crawl_waits(tmp_path: Path) -> None:
    page = Page(b"<a href=/1>", headers={"Content-Type": "text/html"})
    with PageServer({"/": page, "/1": page}) as server:
        config = write_config(
            tmp_path / "c.toml",
            {
                "session": {"seeds": ["http://a.example/"]},
                "robots": {"obey": False},
                "politeness": {"delay_s": 3600},
                "fetch": {"allow_private_addresses": True},
                "dns": {"hosts": {"a.example": f"127.0.0.1:{server.port}"}},
            },
        )
        command = [sys.executable, "-m", "crawler", "crawl", str(config), "-q"]
        with subprocess.Popen([*command, "--session", str(tmp_path / "s")]) as crawl:
            try:
                crawl_log = tmp_path / "s" / "rank-00000" / "crawl.log"
                end = time.monotonic() + PATIENCE_S
                while not (crawl_log.exists() and crawl_log.read_text()):
                    assert time.monotonic() < end
                    assert crawl.poll() is None
                    time.sleep(0.02)
            finally:
                crawl.kill()


def test_a_crawl_writes_a_line_for_each_row(tmp_path: Path) -> None:
    session = tmp_path / "s"
    before = time.time()
    with serve(5, 60, 4) as (web, port):
        config = demo_config(tmp_path / "c.toml", web, port)
        done = run_here("crawl", str(config), "--session", str(session), "-q")
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    text = (session / "rank-00000" / "crawl.log").read_text()
    lines = [parsed(line) for line in text.splitlines(keepends=True)]
    rows = page_rows(session)
    assert [one["url"] for one in lines] == [one["url"] for one in rows]
    for one, its in zip(lines, rows, strict=True):
        assert one["size"] == ("-" if its["status"] is None else str(its["bytes"]))
        assert one["annotations"].startswith(its["error"] or "")
        assert (one["path"].count("L"), one["digest"]) == (its["hops"], its["digest"] or "-")
    times = [one["time"] for one in lines]
    assert times == sorted(times)
    assert times[0] >= time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(before))
