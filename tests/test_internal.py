"""Whatever code that reads the web's data raises costs one page: in a crawl on several ranks, in
the resume after it, in the command `fetch`."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from breaking import PLACES, marker
from conftest import PATIENCE_S, MpiRun
from crawls import metrics_of, page_rows, sets, write_config
from servers import Page, PageServer

from crawler.faults import Faults, is_fault
from crawler.ports import NoRoomError, UserError
from crawler.report.verify import verify

BREAKING = str(Path(__file__).parent / "breaking.py")
GOOD_PAGES = 12
HTML = {"Content-Type": "text/html"}
# Faults that belong to a site: its host has the marker, so that no other site is touched.
OF_SITES = {"DnsResolver.resolve", "PageReader.sitemaps", "Rules.reading", "TrapMonitor.is_full"}
# Faults that leave the page a row without an error: only the rule on traps doesn't apply.
HARMLESS = {"TrapMonitor.admit", "TrapMonitor.is_full", "TrapMonitor.stored"}
# Faults before a response is there.
WITHOUT_RESPONSE = {
    "Credentials.headers",
    "DnsResolver.resolve",
    "HttpFetcher.fetch",
    "HttpFetcher.locate",
    "PageReader.cookie",
    "PageReader.sitemaps",
    "Rules.allows",
    "Rules.reading",
}


def name_of(place: str) -> str:
    return place.partition(":")[2]


def page_for(place: str) -> Page:
    """A page on which the function at a place fails, whatever it gets to see of the page."""
    mark = marker(place)
    body = f'<p>{mark}<a href="/good/1">x</a>'.encode()
    headers = HTML | {"X-Mark": mark}
    match name_of(place):
        case "ResponseReader.feed":  # fails after the head
            return Page(b"x" * 500_000 + mark.encode() * 100, headers=HTML)
        case "undoing":
            return Page(body, headers=headers | {"Content-Encoding": "br"})
        case "retry_after_s":
            return Page(body, 503, headers | {"Retry-After": "0"})
        case "PageReader.redirect_target" | "Jar.after":
            headers["Set-Cookie"] = "a=b"
            return Page(b"", 302, headers | {"Location": "/good/1"})
        case "entries":
            return Page(f"<urlset><url><loc>/{mark}</loc></url></urlset>".encode())
        case "media_type":
            return Page(body, headers={"Content-Type": f"text/html; x={mark}"})
    return Page(body, headers=headers)


def host_of(place: str) -> str:
    return f"{marker(place)}.test" if name_of(place) in OF_SITES else "pages.test"


def make_seeds() -> list[str]:
    """Good pages, and one for each place. (A page with links to all would break every function.)"""
    seeds = [f"http://good-{number % 4}.test/good/{number}" for number in range(GOOD_PAGES)]
    seeds += [f"http://{host_of(place)}/{marker(place)}" for place in PLACES]
    seeds += [f"http://{host_of(place)}/good/0" for place in PLACES if name_of(place) in OF_SITES]
    return seeds


def make_web() -> dict[str, Page | bytes]:
    web: dict[str, Page | bytes] = {
        f"/good/{number}": Page(b"good", headers=HTML) for number in range(GOOD_PAGES)
    }
    return web | {f"/{marker(place)}": page_for(place) for place in PLACES}


def write_settings(path: Path, port: int, cookies: Path) -> Path:
    hosts = {host_of(place) for place in PLACES} | {f"good-{number}.test" for number in range(4)}
    cookies.write_text("# Netscape HTTP Cookie File\npages.test\tTRUE\t/\tFALSE\t0\ta\tb\n")
    tables: Mapping[str, Mapping[str, object]] = {
        "session": {"seeds": make_seeds()},
        "scope": {"hosts": sorted(hosts)},
        "politeness": {"delay_s": 0},
        "retry": {"base_s": 0.1, "busy_base_s": 0.1, "tries": 2},
        "sitemaps": {"from_robots": True},
        "dns": {"hosts": dict.fromkeys(sorted(hosts), f"127.0.0.1:{port}")},
        "fetch": {"allow_private_addresses": True, "cookies_file": str(cookies)},
    }
    return write_config(path, tables)


def tracebacks(session: Path) -> list[dict[str, Any]]:
    lines = [
        json.loads(line)
        for log in session.glob("rank-*/agent.log")
        for line in log.read_text().splitlines()
    ]
    return [line for line in lines if line.get("error") == "internal"]


@pytest.mark.interpreted
@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_each_fault_costs_its_page_and_no_resume_meets_it_again(
    tmp_path: Path, mpirun: MpiRun, ranks: int
) -> None:
    web = make_web()
    robots = "User-agent: *\nDisallow: /nothing\n# {}\nSitemap: http://{}.test/good/0\n"
    reading, sitemaps = marker(":Rules.reading"), marker(":PageReader.sitemaps")
    with PageServer(
        web,
        by_host={
            f"{reading}.test": {"/robots.txt": robots.format(reading, reading).encode()},
            f"{sitemaps}.test": {"/robots.txt": robots.format("x", sitemaps).encode()},
        },
    ) as server:
        config = write_settings(tmp_path / "c.toml", server.port, tmp_path / "cookies.txt")
        session = tmp_path / "session"
        words = ["crawl", str(config), "--session", str(session)]
        done = mpirun(ranks, BREAKING, "all", *words)
        assert done.returncode == 3, done.stderr
        check(session, tracebacks(session))
        assert "internal" in done.stdout
        for again in (False, True):  # from snapshots, from logs
            for snapshot in session.glob("rank-*/snapshot*") if again else ():
                snapshot.unlink()
            asked = len(server.paths)
            done = mpirun(ranks, BREAKING, "all", "resume", str(session))
            assert done.returncode == 3, done.stderr
            assert len(server.paths) == asked, server.paths[asked:]
            check(session, None)


def check(session: Path, logged: list[dict[str, Any]] | None) -> None:
    rows = {row["url"]: row for row in page_rows(session)}
    measures = metrics_of(session)
    assert measures["complete"]
    for number in range(GOOD_PAGES):
        row = rows[f"http://good-{number % 4}.test/good/{number}"]
        assert (row["status"], row["error"]) == (200, None), row
    broken = {url for url, row in rows.items() if row["error"] == "internal"}
    for place in PLACES:
        row = rows[f"http://{host_of(place)}/{marker(place)}"]
        name = name_of(place)
        assert (row["error"] == "internal") == (name not in HARMLESS), row
        assert (row["status"] is None) == (name in WITHOUT_RESPONSE), row
        if row["status"] is not None:
            assert row["warc_file"], row
    assert all("break-" in url for url in broken)
    assert measures["by_error"]["internal"] == len(broken)
    assert measures["internal_errors"] >= len(broken)
    if logged is not None:
        for place in PLACES:
            assert any(
                marker(place) in line["url"] and "breaking.py" in line["traceback"]
                for line in logged
            ), place
    verdict = verify(session)
    assert verdict.sound, verdict.lines


@pytest.mark.interpreted
@pytest.mark.parametrize("place", ["crawler.core.core:Core.stored", "crawler.core.core:Core.end"])
def test_a_broken_invariant_of_the_core_ends_the_rank(
    tmp_path: Path, mpirun: MpiRun, place: str
) -> None:
    mark = marker(place)
    status = 200 if place.endswith("stored") else 503
    first = f'<a href="/{mark}">x</a>'.encode()
    with PageServer({"/": Page(first, headers=HTML), f"/{mark}": Page(b"", status)}) as server:
        words = ["crawl", server.url + "/", "--session", str(tmp_path / "s")]
        words += sets("fetch.allow_private_addresses=true", "politeness.delay_s=0")
        done = mpirun(2, BREAKING, place, *words)
    assert done.returncode == 1, done.stderr
    assert "RecursionError" in done.stderr


@pytest.mark.parametrize(
    ("place", "links"),
    [
        ("crawler.reading.traps:TrapMonitor.replay", True),
        pytest.param("crawler.agent.agent:Agent._remember", True, marks=pytest.mark.slow),
        pytest.param("crawler.reading.scope:Sites.of", False, marks=pytest.mark.slow),
    ],
)
def test_a_row_that_fails_in_a_replay_ends_no_resume(
    tmp_path: Path, mpirun: MpiRun, place: str, links: bool
) -> None:
    mark = marker(place)
    first = f'<a href="/{mark}">x</a><a href="/good">x</a>'.encode()
    pages = {"/": first, f"/{mark}": b"<a href=/more>x</a>", "/good": b"good", "/more": b""}
    web = {path: Page(body, headers=HTML) for path, body in pages.items()}
    with PageServer(web) as server:
        session = tmp_path / "s"
        limit = "1" if place.endswith("Sites.of") else "3"
        words = ["crawl", server.url + "/", "--session", str(session), "--max-pages", limit]
        words += sets("fetch.allow_private_addresses=true", "politeness.delay_s=0")
        assert mpirun(2, "-m", "crawler", *words).returncode == 0
        for snapshot in session.glob("rank-*/snapshot*"):
            snapshot.unlink()
        done = mpirun(2, BREAKING, place, "resume", str(session), "--max-pages", "0")
        assert done.returncode == 3, done.stderr
        assert (server.paths.count(f"/{mark}") == 1) == links
    assert metrics_of(session)["complete"]
    assert any(mark in line["url"] for line in tracebacks(session))


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("place", "status"),
    [
        ("crawler.reading.reader:read_html", 200),
        ("crawler.net.http:undoing", 200),
        ("crawler.reading.reader:PageReader.redirect_target", None),
        ("crawler.net.http:HttpFetcher.fetch", None),
    ],
)
def test_the_command_fetch_says_internal_too(place: str, status: int | None) -> None:
    mark = marker(place)
    with PageServer({f"/{mark}": page_for(place), "/good": Page(b"good", headers=HTML)}) as server:
        words = ["fetch", "--json", *sets("fetch.allow_private_addresses=true")]
        words += [f"{server.url}/{mark}", f"{server.url}/good"]
        done = subprocess.run(
            [sys.executable, BREAKING, place, *words],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert done.returncode == 3, done.stderr
    broken, good = map(json.loads, done.stdout.splitlines())
    assert (broken["error"], broken.get("status")) == ("internal", status)
    assert (good.get("error"), good["status"]) == (None, 200)
    assert "Traceback" in done.stderr


def test_what_is_a_fault_of_reading_code() -> None:
    for error in (ValueError(), MemoryError(), RecursionError(), AssertionError(), OSError("x")):
        assert is_fault(error)
    for error in (
        KeyboardInterrupt(),
        SystemExit(1),
        GeneratorExit(),
        UserError("x"),
        NoRoomError("x"),
        OSError(28, "No space left on device"),
        OSError(24, "Too many open files"),
    ):
        assert not is_fault(error)
        with pytest.raises(type(error)):
            Faults().note(error, "the page", "http://a.example/")
