"""Whole crawls: the command line under mpirun, against servers on loopback."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from conftest import MpiRun
from servers import Page, PageServer, RawServer, forever

from crawler import url
from crawler.config import toml_value
from crawler.demoweb import DemoWeb, serve
from crawler.ports import OUT_OF_SCOPE
from partition import evaluate, graph

WEB_PAGES, WEB_SITES = 400, 16


@pytest.fixture(scope="module")
def demo_web() -> Iterator[tuple[DemoWeb, int]]:
    with serve(7, WEB_PAGES, WEB_SITES) as served:
        yield served


def write_config(path: Path, tables: Mapping[str, Mapping[str, object]]) -> Path:
    lines = []
    for table, entries in tables.items():
        lines.append(f"[{table}]")
        lines += [f"{key} = {toml_value(value)}" for key, value in entries.items()]
    path.write_text("\n".join(lines) + "\n")
    return path


def demo_config(path: Path, web: DemoWeb, port: int, **assignment: object) -> Path:
    return write_config(
        path,
        {
            "session": {"seeds": web.seeds},
            "scope": {"hosts": web.hosts},
            "assignment": assignment,
            "politeness": {"delay_s": 0},
            "dns": {"hosts": dict.fromkeys(web.hosts, f"127.0.0.1:{port}")},
            "fetch": {"allow_private_addresses": True},
        },
    )


def metrics_of(session: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((session / "report" / "metrics.json").read_text())
    return content


def page_rows(session: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(session / "tables" / "pages.parquet").to_pylist()
    return rows


def crawl_here(session: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A crawl by one rank, without mpirun; private addresses allowed."""
    return subprocess.run(
        [
            *(sys.executable, "-m", "crawler", "crawl", "--session", str(session)),
            *("--set", "fetch.allow_private_addresses=true", *words),
        ],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


# --- every page once, on any number of ranks


@pytest.mark.parametrize(("ranks", "scheme"), [(1, "site-hash"), (3, "site-hash"), (4, "url-hash")])
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
    build = [sys.executable, "-m", "partition", "build", str(first), "-k", "4"]
    subprocess.run(
        [*build, "--model", "site-graph", "--out", str(vector)], check=True, capture_output=True
    )
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
    part = graph.np.array([part_of_site[web_graph.sites[site]] for site in web_graph.site])
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
        "tables/pages.parquet",
        "tables/links.parquet",
        "tables/sites.parquet",
        "report/metrics.json",
    }
    for line in (session / "rank-00000" / "agent.log").read_text().splitlines():
        json.loads(line)
    for file in session.rglob("*.warc.gz"):
        check = [sys.executable, "-m", "warcio.cli", "check", str(file)]
        assert subprocess.run(check, check=False, capture_output=True).returncode == 0

    again = crawl_here(session, str(config))
    assert again.returncode == 2
    assert again.stderr.count("\n") == 1
    assert "holds a session already" in again.stderr

    os.remove(session / "report" / "metrics.json")  # noqa: PTH107
    shown = subprocess.run(
        [sys.executable, "-m", "crawler", "report", str(session)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "pages     50 (50 different" in shown.stdout
    assert metrics_of(session)["pages"] == 50


# --- politeness


def test_one_request_at_a_time_and_the_delay_between(tmp_path: Path) -> None:
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
            "fetch.timeout_s": 1.5,
            "robots.obey": "false",
            "dns.nameservers": '["127.0.0.1:9"]',
            "dns.timeout_s": 0.2,
            "dns.tries": 1,
        }
        words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        done = crawl_here(session, *seeds, *words)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    errors = {row["url"].replace(server.url, ""): row["error"] for row in page_rows(session)}
    assert errors == {
        "/500": None,
        "/huge": "too-large",
        "/broken-gzip": "bad-encoding",
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


def test_private_addresses_are_refused_unless_allowed(tmp_path: Path) -> None:
    with PageServer({"/": b"secret"}) as server:
        session = tmp_path / "s"
        done = crawl_here(session, f"{server.url}/", "--set", "fetch.allow_private_addresses=false")
        assert done.returncode == 0
        assert server.paths == []
    assert [row["error"] for row in page_rows(session)] == ["private-address"]


# --- the user's mistakes are one line


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["http://a.example/", "--set", "fetch.concurrency=0"], "fetch.concurrency = 0"),
        (["http://a.example/", "--set", "fetch.speed=9"], "fetch.speed: unknown"),
        (["ftp://a.example/"], "'ftp://a.example/': not an http or https URL"),
        (["missing.toml"], "missing.toml: No such file"),
        (["http://a.example/", "--set", "session.seeds_file=none.txt"], "none.txt"),
        (["http://a.example/", "--set", 'scope.hosts=["b.example"]'], "out of scope"),
        (["http://a.example/", "--max-pages", "many"], "session.max_pages = 'many'"),
        ([], "arguments are required: CONFIG.toml | URL"),
    ],
)
def test_a_users_mistake_is_one_line_on_any_number_of_ranks(
    tmp_path: Path, mpirun: MpiRun, words: list[str], said: str
) -> None:
    session = tmp_path / "s"
    done = mpirun(2, "-m", "crawler", "crawl", *words, "--session", str(session))
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert said in lines[0]
    assert "Traceback" not in done.stderr
    assert not session.exists()


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
        output, errors = crawl.communicate(timeout=30)
    assert crawl.returncode == 75, errors
    assert "ended     SIGTERM" in output
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
    links = pq.read_table(session / "tables" / "links.parquet").to_pylist()
    assert [(row["target_url"], row["flags"]) for row in links] == [
        ("http://elsewhere.example/", OUT_OF_SCOPE),
        (f"{server.url}/b", 0),
    ]
    assert {row["source_key"] for row in links} == {url.key(f"{server.url}/")}
