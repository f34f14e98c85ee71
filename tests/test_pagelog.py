"""crawl.log: the fields of Heritrix, and one line a URL whatever the web sends."""

import json
import re
import time
from pathlib import Path

import pytest
from crawls import demo_config, page_rows, run_here
from hypothesis import given
from hypothesis import strategies as st

from crawler.demo.web import serve
from crawler.ports import Failure, PageRow
from crawler.session.pagelog import PageLog, crawl_line

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
        log = PageLog(path)
        log.add(row(status=200), 0, "")
        log.close()
        log.close()
    assert len(path.read_text().splitlines()) == 3


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "crawl.log").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic links"):
        PageLog(tmp_path / "crawl.log")
    assert not (tmp_path / "precious").exists()


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
