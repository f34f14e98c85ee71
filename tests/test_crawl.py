"""Whole crawls: the command line under mpirun, against servers on loopback."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from conftest import PATIENCE_S, MpiRun
from crawls import (
    check_warc_files,
    crawl_here,
    demo_config,
    metrics_of,
    page_rows,
    run_here,
    write_config,
)
from servers import Page, PageServer, RawServer, forever

from crawler import url
from crawler.config import toml_value
from crawler.demo.web import DemoWeb, serve
from crawler.ports import OUT_OF_SCOPE
from crawler.report.summary import summary
from partition import evaluate, graph
from partition.__main__ import main as partition

WEB_PAGES, WEB_SITES = 200, 16


@pytest.fixture(scope="module")
def demo_web() -> Iterator[tuple[DemoWeb, int]]:
    with serve(7, WEB_PAGES, WEB_SITES) as served:
        yield served


# --- every page once, on any number of ranks


@pytest.mark.parametrize(
    ("ranks", "scheme"),
    [
        (1, "site-hash"),
        pytest.param(3, "site-hash", marks=pytest.mark.slow),
        (4, "url-hash"),
    ],
)
def test_a_crawl_fetches_every_page_once(
    tmp_path: Path, mpirun: MpiRun, demo_web: tuple[DemoWeb, int], ranks: int, scheme: str
) -> None:
    web, port = demo_web
    config = demo_config(tmp_path / "c.toml", web, port, scheme=scheme)
    session = tmp_path / "session"
    done = mpirun(ranks, "-m", "crawler", "crawl", str(config), "--session", str(session))
    assert done.returncode == 0, done.stderr
    rows = page_rows(session)
    fetched = [row["url"] for row in rows if row["status"] is not None]
    assert sorted(fetched) == sorted(web.requests)
    assert {row["url"] for row in rows if row["status"] == 200} == web.reachable
    assert {row["error"] for row in rows} <= {None, "robots-denied"}

    measures = metrics_of(session)
    assert measures["complete"]
    assert measures["pages"] == measures["unique_pages"] == len(fetched)
    assert measures["overlap"] == 0
    assert len(measures["ranks"]) == ranks
    assert sum(one["pages"] for one in measures["ranks"]) == measures["pages"]

    # The theorem: what the ranks counted is what the evaluation says of the link graph.
    web_graph = graph.from_sessions([session / "tables"])
    part = evaluate.url_hash if scheme == "url-hash" else evaluate.site_hash
    predicted = evaluate.evaluate(web_graph, part(web_graph, ranks), ranks)
    for name in ("messages_page_part", "messages_site_part", "transmissions_target_part"):
        assert measures[name] == getattr(predicted, name), name
    assert measures["inter_part_urls"] == measures["transmissions_target_part"]


def test_a_second_session_with_a_part_vector(
    tmp_path: Path, mpirun: MpiRun, demo_web: tuple[DemoWeb, int]
) -> None:
    """Closing the loop: a new site is claimed, and the counts are those of the final owners."""
    web, port = demo_web
    first, vector, second = tmp_path / "first", tmp_path / "vector", tmp_path / "second"
    config = demo_config(tmp_path / "1.toml", web, port)
    # Some sites are left out of the first session, so that the vector lacks them.
    known = web.hosts[: len(web.hosts) * 3 // 4]
    only_known = ["--set", f"scope.hosts={toml_value(known)}"]
    done = mpirun(2, "-m", "crawler", "crawl", str(config), "--session", str(first), *only_known)
    assert done.returncode == 0, done.stderr
    build = ["build", str(first), "-k", "4", "--model", "site-graph", "--out", str(vector)]
    assert not partition(build)
    config = demo_config(
        tmp_path / "2.toml", web, port, scheme="part-vector", part_vector=str(vector)
    )
    done = mpirun(4, "-m", "crawler", "crawl", str(config), "--session", str(second))
    assert done.returncode == 0, done.stderr
    rows = page_rows(second)
    assert sorted(row["url"] for row in rows if row["status"] is not None) == sorted(web.requests)
    measures = metrics_of(second)
    assert measures["claims"] > 0

    web_graph = graph.from_sessions([second / "tables"])
    part_of_site = {row["site"]: row["part"] for row in rows}
    part = np.array([part_of_site[web_graph.sites[site]] for site in web_graph.site])
    predicted = evaluate.evaluate(web_graph, part, 4)
    for name in ("messages_page_part", "messages_site_part", "transmissions_target_part"):
        assert measures[name] == getattr(predicted, name), name


def test_the_session_directory(tmp_path: Path, demo_web: tuple[DemoWeb, int]) -> None:
    web, port = demo_web
    config = demo_config(tmp_path / "c.toml", web, port)
    session = tmp_path / "session"
    done = crawl_here(session, str(config), "--max-pages", "50")
    assert done.returncode == 0, done.stderr
    assert metrics_of(session)["pages"] == 50
    assert not metrics_of(session)["complete"]
    names = {str(path.relative_to(session)) for path in session.rglob("*") if path.is_file()}
    assert names >= {
        "session.toml",
        "rank-00000/agent.log",
        "rank-00000/log/00000.log",
        "tables/pages/00000.parquet",
        "tables/links/00000.parquet",
        "tables/sites/00000.parquet",
        "report/metrics.json",
    }
    for line in (session / "rank-00000" / "agent.log").read_text().splitlines():
        json.loads(line)
    check_warc_files(session)

    again = crawl_here(session, str(config))
    assert again.returncode == 2
    assert again.stderr.count("\n") == 1
    assert "holds a session already" in again.stderr

    os.remove(session / "report" / "metrics.json")  # noqa: PTH107
    shown = run_here("report", str(session))
    assert "pages        50 (50 different" in shown.stdout
    assert metrics_of(session)["pages"] == 50


# --- politeness


def test_robots_delay_one_request_at_a_time_and_the_delay_between(tmp_path: Path) -> None:
    """robots.txt counts as a request too; Crawl-delay is longer than ours and obeyed."""
    pages = {f"/{n}": Page(b"", headers={"Content-Type": "text/html"}) for n in range(4)}
    links = "".join(f"<a href=/{n}>" for n in range(4)).encode()
    pages["/"] = Page(links, headers={"Content-Type": "text/html"})
    pages["/robots.txt"] = Page(b"User-agent: *\nCrawl-delay: 0.3\nDisallow: /3\n")
    with PageServer(pages) as server:
        session = tmp_path / "s"
        done = crawl_here(session, f"{server.url}/", "--set", "politeness.delay_s=0.1")
        assert done.returncode == 0, done.stderr
        assert server.paths == ["/robots.txt", "/", "/0", "/1", "/2"]
    times = sorted((row["time"].timestamp(), row["seconds"]) for row in page_rows(session)[:4])
    for (start, seconds), (following, _) in pairwise(times):
        assert following - (start + seconds) >= 0.3 - 0.02
    (denied,) = [row for row in page_rows(session) if row["error"]]
    assert denied["url"] == f"{server.url}/3"
    assert denied["error"] == "robots-denied"


# --- the web's mistakes become rows


def test_bad_input_becomes_rows(tmp_path: Path) -> None:
    html = {"Content-Type": "text/html"}
    huge = Page(b"<a href=/from-huge>" + b"x" * 300_000, headers=html)
    broken = Page(b"this is no gzip", headers={**html, "Content-Encoding": "gzip"})
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
    with (
        PageServer(
            {
                "/500": Page(b"oops", 500, html),
                "/huge": huge,
                "/broken-gzip": broken,
                "/loop": Page(b"", 302, {"Location": "/loop"}),
                "/ping": Page(b"", 301, {"Location": "/pong"}),
                "/pong": Page(b"", 301, {"Location": "/ping"}),
                **{f"/chain{n}": Page(b"", 302, {"Location": f"/chain{n + 1}"}) for n in range(9)},
                "/nowhere": Page(b"", 301, {"Location": "http://"}),
                "/no-location": Page(b"", 301),
            }
        ) as server,
        RawServer(forever(head, b"x", 0.05)) as endless,
        RawServer(b"what?\r\n\r\n") as garbage,
    ):
        paths = ["500", "huge", "broken-gzip", "loop", "ping", "chain0", "nowhere", "no-location"]
        seeds = [f"{server.url}/{path}" for path in paths]
        seeds += [endless.url, garbage.url, "http://127.0.0.1:9/", "http://no-such.invalid/"]
        session = tmp_path / "s"
        settings = {
            "politeness.delay_s": 0,
            "fetch.max_bytes": 100_000,
            "fetch.max_redirects": 5,
            "fetch.timeout_s": 1.5,
            "robots.obey": "false",
            "dns.nameservers": '["127.0.0.1:9"]',
            "dns.timeout_s": 0.2,
            "dns.tries": 1,
            "retry.tries": 2,
            "retry.base_s": 0.01,
        }
        words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        done = crawl_here(session, *seeds, *words)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    errors = {row["url"].replace(server.url, ""): row["error"] for row in page_rows(session)}
    assert errors == {
        "/500": None,
        "/huge": "too-large",
        "/broken-gzip": None,  # taken as it is
        "/loop": "redirect-loop",
        "/ping": None,
        "/pong": "redirect-loop",
        **{f"/chain{n}": None for n in range(5)},
        "/chain5": "too-many-redirects",
        "/nowhere": "bad-redirect",
        "/no-location": "bad-redirect",
        "/from-huge": None,  # the part that came was read
        endless.url: "timeout",
        garbage.url: "bad-http",
        "http://127.0.0.1:9/": "connection-refused",
        "http://no-such.invalid/": "dns-failed",
    }
    measures = metrics_of(session)
    assert measures["complete"]
    assert measures["by_error"]["bad-redirect"] == 2
    assert measures["retries"] == 2  # the refused connection and the name
    retried = {row["url"] for row in page_rows(session) if row["retries"]}
    assert retried == {"http://127.0.0.1:9/", "http://no-such.invalid/"}


def test_a_dead_host_is_over_within_seconds_and_what_is_left_is_given_up(tmp_path: Path) -> None:
    """With all defaults: two pauses of a second and two, and a row says why there is no page."""
    session = tmp_path / "s"
    done = crawl_here(session, "http://127.0.0.1:9/")
    assert done.returncode == 1, done.stderr
    (row,) = page_rows(session)
    assert (row["error"], row["retries"], row["status"]) == ("connection-refused", 2, None)

    seeds = [f"http://127.0.0.1:9/{number}" for number in range(500)]
    quick = ["--set", "retry.base_s=0.01", "--set", "retry.give_up_after=4"]
    done = crawl_here(tmp_path / "t", *seeds, *quick)
    assert done.returncode == 1, done.stderr
    errors = metrics_of(tmp_path / "t")["by_error"]
    assert errors == {"connection-refused": 2, "site-given-up": 498}


def test_http_429_a_busy_site_is_asked_again(tmp_path: Path) -> None:
    """Of one page the site has had enough twice; another is never there."""
    html = {"Content-Type": "text/html"}
    answers = {
        "/": [Page(b"", 503, {"Retry-After": "0"})] * 2 + [Page(b"<a href=/x>", headers=html)],
        "/x": [Page(b"", 429, {"Retry-After": "1"})] * 3,
    }

    class Changing(dict[str, Page]):
        def get(self, path: str, default: Any = None) -> Any:
            left = answers.get(path)
            return left.pop(0) if left else default

    with PageServer(Changing()) as server:
        session = tmp_path / "s"
        sets = ["--set", "politeness.delay_s=0", "--set", "robots.obey=false"]
        done = crawl_here(session, f"{server.url}/", *sets)
        assert done.returncode == 0, done.stderr
        assert server.paths == ["/"] * 3 + ["/x"] * 3
    rows = page_rows(session)
    assert [(row["status"], row["error"], row["retries"]) for row in rows] == [
        (200, None, 2),
        (429, "unavailable", 2),
    ]
    assert metrics_of(session)["requests"] == 2  # the last of each
    assert metrics_of(session)["retries"] == 4


# --- traps


class Trap(dict[str, Page]):
    """Every path has a page, with a link to the next; and each link has a session id of its own."""

    def get(self, path: str, default: Any = None) -> Any:
        head, _, query = path.partition("?")
        digits = "".join(c for c in head if c.isdigit())
        number = int(digits[:4] or 0)
        kind = head.split("/")[1]
        following = {
            "n": f"/n/{number + 1}",  # nothing but the number of pages tells
            "deep": f"{head.rstrip('/')}/deep/er/",
            "grow": f"/grow?{query or 'pos='}%2F",
            "calendar": f"/calendar/{(number or 2026) + 1}-01",
            "long": f"{head}/{'long' * 200}",
        }
        links = [following[kind]] if kind in following else [f"/{name}" for name in following]
        links = [*links, f"/start?PHPSESSID={hash(path) % 2**64:032x}"]
        body = "".join(f"<a href='{link}'>x</a>" for link in links).encode()
        return Page(body, headers={"Content-Type": "text/html"})


def test_a_trap_costs_the_good_sites_nothing(tmp_path: Path, mpirun: MpiRun) -> None:
    html = {"Content-Type": "text/html"}
    good = [f"good{number}.example" for number in range(5)]
    pages = {f"/{n}": Page(b"<a href=/%d>%d</a>" % (n + 1, n), headers=html) for n in range(40)}
    pages["/"] = Page(
        b"<a href=/0></a><a href=http://trap.example/></a>"
        + b"".join(b"<a href=http://%s/></a>" % host.encode() for host in good),
        headers=html,
    )
    with PageServer(Trap()) as trap, PageServer(pages) as server:
        hosts = dict.fromkeys(good, f"127.0.0.1:{server.port}")
        config = write_config(
            tmp_path / "c.toml",
            {
                "session": {"seeds": ["http://good0.example/"]},
                "scope": {"hosts": [*good, "trap.example"]},
                "politeness": {"delay_s": 0},
                "robots": {"obey": False},
                "dns": {"hosts": {**hosts, "trap.example": f"127.0.0.1:{trap.port}"}},
                "fetch": {"allow_private_addresses": True},
                "traps": {"max_urls_per_site": 200, "max_session_ids": 5},
            },
        )
        session = tmp_path / "s"
        done = mpirun(2, "-m", "crawler", "crawl", str(config), "--session", str(session))
        assert done.returncode == 0, done.stderr
    rows = page_rows(session)
    fetched = {row["url"] for row in rows if row["status"] == 200}
    wanted = {f"http://{host}{path}" for host in good for path in pages}
    assert wanted <= fetched  # coverage 1.0
    assert len(fetched - wanted) == 200  # held at its cap
    assert all(url.startswith("http://trap.example/") for url in fetched - wanted)
    assert metrics_of(session)["complete"]
    assert sum("/grow" in url for url in fetched) <= 10
    assert sum("PHPSESSID" in url for url in fetched) == 5
    assert set(metrics_of(session)["by_trap"]) == {
        "max_calendar_years",
        "max_growth",
        "max_repeated_segments",
        "max_session_ids",
        "max_url_length",
        "max_urls_per_site",
    }
    assert "traps        max_" in summary(metrics_of(session))


def test_a_site_that_answers_everything_alike_leads_nowhere(tmp_path: Path) -> None:
    """Soft 404: the same page whatever is asked for, with a relative link that is always new."""
    page = Page(b"<a href=x/>never mind</a>", headers={"Content-Type": "text/html"})

    class Alike(dict[str, Page]):
        def get(self, path: str, default: Any = None) -> Any:
            return page

    with PageServer(Alike()) as server:
        session = tmp_path / "s"
        sets = ["politeness.delay_s=0", "traps.max_same_content=5", "traps.max_repeated_segments=0"]
        words = [word for one in sets for word in ("--set", one)]
        assert crawl_here(session, f"{server.url}/", *words).returncode == 0
    assert len(page_rows(session)) == 6  # the links of five are followed
    assert metrics_of(session)["by_trap"] == {"max_same_content": 1}


@pytest.mark.parametrize("scheme", ["site-hash", "url-hash"])
def test_sitemaps_lead_to_pages_that_no_link_leads_to(
    tmp_path: Path, mpirun: MpiRun, scheme: str
) -> None:
    pages: dict[str, Page | bytes] = {}
    with PageServer(pages) as server:
        here = server.url
        index = url.key(f"{here}/i.xml")
        # By url-hash another rank reads it than its index, and must be told who named it.
        sub = next(p for n in range(99) if url.key(here + (p := f"/m/{n}.xml")) % 2 != index % 2)
        pages["/"] = Page(b"nothing here", headers={"Content-Type": "text/html"})
        pages["/robots.txt"] = f"User-agent: *\nDisallow: /no\nSitemap: {here}/i.xml\n".encode()
        pages["/i.xml"] = f"<sitemapindex><sitemap><loc>{here}{sub}</loc></sitemap>".encode()
        entries = "".join(f"<url><loc>{here}/{name}</loc></url>" for name in ("orphan", "no", "x"))
        entries += f"<url><loc>{here}/dated</loc><lastmod>2026-05-06</lastmod></url>"
        pages[sub] = f"<urlset>{entries}<url><loc>http://b.example/</loc></url>".encode()
        pages["/orphan"] = Page(b"found", headers={"Content-Type": "text/html"})
        session = tmp_path / "s"
        sets = ["politeness.delay_s=0", "fetch.allow_private_addresses=true"]
        sets += ["sitemaps.from_robots=true", f"assignment.scheme={scheme}"]
        words = [word for one in sets for word in ("--set", one)]
        done = mpirun(2, "-m", "crawler", "crawl", f"{here}/", "--session", str(session), *words)
        assert done.returncode == 0, done.stderr
    rows = {row["url"].removeprefix(here): row for row in page_rows(session)}
    assert set(rows) == {"/", "/i.xml", sub, "/orphan", "/no", "/x", "/dated"}
    links = pq.read_table(session / "tables" / "links").to_pylist()
    dates = {link["target_url"]: link["lastmod"] for link in links if link["lastmod"]}
    assert dates == {f"{here}/dated": "2026-05-06"}
    assert rows["/orphan"]["status"] == 200
    assert rows["/no"]["error"] == "robots-denied"


# --- a session after a session


def test_a_session_after_a_session_goes_through_unchanged_pages(
    tmp_path: Path, mpirun: MpiRun
) -> None:
    """/ and /a haven't changed (by a tag, by a date), /b is sent again, /c is new; /d has moved."""
    asked: list[dict[str, str]] = []
    html = "Content-Type: text/html\r\n"

    def answer(connection: socket.socket) -> None:
        head = server.requests[-1].decode()
        path = head.split()[1]
        lines = dict(line.split(": ", 1) for line in head.lower().split("\r\n")[1:-2])
        asked.append({"path": path, **lines})
        status, headers, body = "200 OK", "", ""
        if path == "/":
            headers, body = 'ETag: "1"\r\n', "<a href=/a>a</a><a href=/b>b</a>"
            status = "304 Not Modified" if lines.get("if-none-match") == '"1"' else status
        elif path == "/a":
            date = "Sat, 01 Jan 2000 00:00:00 GMT"
            headers, body = f"Last-Modified: {date}\r\n", "<a href=/c>c</a>"
            status = "304 Not Modified" if lines.get("if-modified-since") else status
        elif path == "/b":
            body = "always the same"
        else:
            body = f"{path} {len(asked)}"
        body = "" if status.startswith("304") else body
        text = f"HTTP/1.1 {status}\r\n{html}{headers}Content-Length: {len(body)}\r\n\r\n{body}"
        connection.sendall(text.encode())

    with RawServer(answer) as server:
        sets = ["politeness.delay_s=0", "robots.obey=false", "fetch.allow_private_addresses=true"]
        words = [word for one in sets for word in ("--set", one)]
        first, second, third = (tmp_path / name for name in ("1", "2", "3"))
        for ranks, session, previous in ((2, first, None), (1, second, first), (3, third, second)):
            more = ["--set", f"session.previous={previous}"] if previous else []
            done = mpirun(
                ranks,
                "-m",
                "crawler",
                "crawl",
                server.url,
                "--session",
                str(session),
                *words,
                *more,
            )
            assert done.returncode == 0, done.stderr
            rows = {row["url"].removeprefix(server.url): row for row in page_rows(session)}
            assert set(rows) == {"", "a", "b", "c"}
            if previous:
                assert (rows[""]["status"], rows["a"]["status"]) == (304, 304)
                assert [rows[name]["duplicate"] for name in ("", "a", "b", "c")] == [True] * 3 + [
                    False
                ]
                links = pq.read_table(session / "tables" / "links").to_pylist()
                assert [row["target_url"].removeprefix(server.url) for row in links] == list("abc")
            check_warc_files(session)


def test_private_addresses_are_refused_unless_allowed(tmp_path: Path) -> None:
    with PageServer({"/": b"secret"}) as server:
        session = tmp_path / "s"
        sets = ["fetch.allow_private_addresses=false", "fetch.contact=me@example.org"]
        words = [word for one in sets for word in ("--set", one)]
        done = crawl_here(session, f"{server.url}/", *words)
        assert done.returncode == 1
        assert server.paths == []
    assert [row["error"] for row in page_rows(session)] == ["private-address"]


# --- the user's mistakes are one line


MISTAKES: list[tuple[list[str], str]] = [
    (["http://a.example/", "--set", "fetch.concurrency=0"], "fetch.concurrency = 0"),
    (["http://a.example/", "--set", "fetch.speed=9"], "fetch.speed: unknown"),
    (["ftp://a.example/"], "'ftp://a.example/': not an http or https URL"),
    (["missing.toml"], "missing.toml: No such file"),
    (["http://a.example/", "--set", "session.seeds_file=none.txt"], "none.txt"),
    (["http://a.example/", "--set", 'scope.hosts=["b.example"]'], "out of scope"),
    (["http://a.example/", "--max-pages", "many"], "session.max_pages = 'many'"),
    (["http://a.example/"], "--set fetch.contact=you@example.org"),
    (
        [*("http://a.example/", "--set", "fetch.contact=me"), "--set", "session.previous=none"],
        "session.previous: none/session.toml: No such file",
    ),
    (["http://a.example/a/a/a/a"], "out of scope (traps.max_repeated_segments)"),
    ([], "no seeds: name URLs, or a file of URLs with -i FILE"),
    (["-i", "none.txt"], "session.seeds_file = 'none.txt'"),
    (["a.toml", "http://a.example/", "b.toml"], "a.toml, b.toml: one configuration file only"),
]


def assert_told(done: subprocess.CompletedProcess[str], said: str, session: Path) -> None:
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert said in lines[0]
    assert "Traceback" not in done.stderr
    assert not session.exists()


@pytest.mark.parametrize(("words", "said"), MISTAKES)
def test_a_users_mistake_is_one_line(tmp_path: Path, words: list[str], said: str) -> None:
    session = tmp_path / "s"
    assert_told(run_here("crawl", *words, "--session", str(session)), said, session)


# In the configuration, which rank 0 reads, and in the command line, which all ranks read.
@pytest.mark.parametrize(("words", "said"), [MISTAKES[0], MISTAKES[-1]])
def test_a_users_mistake_is_one_line_on_any_number_of_ranks(
    tmp_path: Path, mpirun: MpiRun, words: list[str], said: str
) -> None:
    session = tmp_path / "s"
    done = mpirun(2, "-m", "crawler", "crawl", *words, "--session", str(session))
    assert_told(done, said, session)


# --- ending early


def test_a_signal_ends_the_crawl_in_good_order(
    tmp_path: Path, demo_web: tuple[DemoWeb, int]
) -> None:
    web, port = demo_web
    config = demo_config(tmp_path / "c.toml", web, port)
    session = tmp_path / "s"
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "crawler", "crawl", str(config), "--session", str(session)),
            *("--set", "politeness.delay_s=0.2"),
        ],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as crawl:
        log = session / "rank-00000" / "log" / "00000.log"
        while not (log.exists() and log.stat().st_size > 2000):
            assert crawl.poll() is None
            time.sleep(0.02)
        crawl.send_signal(signal.SIGTERM)
        output, errors = crawl.communicate(timeout=PATIENCE_S)
    assert crawl.returncode == 75, errors
    assert "ended early: SIGTERM" in output
    measures = metrics_of(session)
    assert not measures["complete"]
    assert 0 < measures["pages"] < len(web.requests)
    assert measures["waiting"] > 0


def test_max_pages_over_several_ranks(
    tmp_path: Path, mpirun: MpiRun, demo_web: tuple[DemoWeb, int]
) -> None:
    web, port = demo_web
    config = demo_config(tmp_path / "c.toml", web, port)
    session = tmp_path / "s"
    words = ["crawl", str(config), "--session", str(session), "--max-pages", "33", "--json"]
    done = mpirun(4, "-m", "crawler", *words)
    assert done.returncode == 0, done.stderr
    measures = json.loads(done.stdout)
    assert measures["pages"] == 33
    assert measures == metrics_of(session)


def test_out_of_scope_links_are_recorded_and_not_followed(tmp_path: Path) -> None:
    page = Page(
        b"<a href=http://elsewhere.example/>x</a><a href=/b>", headers={"Content-Type": "text/html"}
    )
    with PageServer({"/": page}) as server:
        session = tmp_path / "s"
        assert (
            crawl_here(session, f"{server.url}/", "--set", "politeness.delay_s=0").returncode == 0
        )
    assert {row["url"] for row in page_rows(session)} == {f"{server.url}/", f"{server.url}/b"}
    links = pq.read_table(session / "tables" / "links").to_pylist()
    assert [(row["target_url"], row["flags"]) for row in links] == [
        ("http://elsewhere.example/", OUT_OF_SCOPE),
        (f"{server.url}/b", 0),
    ]
    assert {row["source_key"] for row in links} == {url.key(f"{server.url}/")}
