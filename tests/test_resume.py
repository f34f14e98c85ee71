"""Stop and resume: a session in several runs is the session in one."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
    sets,
    write_config,
)
from servers import Page, PageServer, RawServer, forever

from crawler import session
from crawler.demo.web import DemoWeb, serve
from partition import evaluate, graph
from partition.__main__ import main as partition

HTML = {"Content-Type": "text/html"}


@pytest.fixture(scope="module")
def demo_web() -> Iterator[tuple[DemoWeb, int]]:
    with serve(7, 200, 16) as served:
        yield served


def assert_whole(directory: Path, web: DemoWeb) -> None:
    """Everything was fetched, nothing twice."""
    rows = page_rows(directory)
    fetched = [row["url"] for row in rows if row["status"] is not None]
    assert sorted(fetched) == sorted(web.requests)
    assert {row["url"] for row in rows if row["status"] == 200} == web.reachable
    check_warc_files(directory)


def resumed_from_snapshot(directory: Path, rank: int) -> bool:
    lines = (directory / f"rank-{rank:05}" / "agent.log").read_text().splitlines()
    events = [line for line in map(json.loads, lines) if line["event"] == "resumed"]
    from_snapshot: bool = events[-1]["from_snapshot"]
    return from_snapshot


def damage(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[-len(whole) // 3] ^= 1
    path.write_bytes(whole)


# --- the same session in pieces


@pytest.mark.parametrize(
    ("runs", "scheme"),
    [
        pytest.param([2, 2, 2], "site-hash", marks=pytest.mark.slow),
        ([3, 1, 2], "site-hash"),
        pytest.param([1, 4], "url-hash", marks=pytest.mark.slow),
    ],
)
def test_a_session_in_pieces_is_the_whole(
    tmp_path: Path,
    mpirun: MpiRun,
    demo_web: tuple[DemoWeb, int],
    runs: list[int],
    scheme: str,
) -> None:
    """Also with fewer ranks, and with more. `max_pages` is of the session. As many ranks as before
    begin with their snapshots, but the third time one of them is damaged."""
    web, port = demo_web
    config = demo_config(tmp_path / "c.toml", web, port, scheme=scheme)
    directory = tmp_path / "session"
    words = ["crawl", str(config), "--session", str(directory)]
    for number, ranks in enumerate(runs, start=1):
        limit = 0 if number == len(runs) else 60 * number
        if number == 3 and ranks == runs[1]:
            damage(directory / "rank-00001" / "snapshot")
        done = mpirun(ranks, "-m", "crawler", *words, "--max-pages", str(limit))
        assert done.returncode == 0, done.stderr
        if number > 1:
            for rank in range(ranks):
                restored = number == 2 and runs[0] == ranks
                assert resumed_from_snapshot(directory, rank) == restored
        words = ["resume", str(directory)]
        if limit:
            assert metrics_of(directory)["pages"] == limit
            assert not metrics_of(directory)["complete"]
    assert_whole(directory, web)
    info = session.load(directory)
    assert [run.ranks for run in info.runs] == runs
    assert [run.reason for run in info.runs] == ["max_pages"] * (len(runs) - 1) + ["complete"]
    measures = metrics_of(directory)
    assert measures["complete"]
    assert measures["runs"] == len(runs)
    assert len(measures["ranks"]) == max(runs)

    if len(set(runs)) == 1:  # the theorem holds for the runs together
        web_graph = graph.from_sessions([directory / "tables"])
        part = evaluate.site_hash(web_graph, runs[0])
        predicted = evaluate.evaluate(web_graph, part, runs[0])
        for name in ("messages_page_part", "messages_site_part", "transmissions_target_part"):
            assert measures[name] == getattr(predicted, name), name
        assert measures["inter_part_urls"] == measures["transmissions_target_part"]

    assert not list(directory.rglob("snapshot"))
    done = run_here("resume", str(directory))  # nothing is left to do
    assert done.returncode == 0, done.stderr
    assert_whole(directory, web)


def test_another_part_vector_and_claimed_sites(
    tmp_path: Path, mpirun: MpiRun, demo_web: tuple[DemoWeb, int]
) -> None:
    """From hashes to a vector that lacks sites, and on with fewer ranks: owners change twice."""
    web, port = demo_web
    directory, known = tmp_path / "session", tmp_path / "known"
    config = demo_config(tmp_path / "c.toml", web, port)
    some = ["--set", f"scope.hosts={json.dumps(web.hosts[:9])}"]
    assert run_here("crawl", str(config), "--session", str(known), *some).returncode == 0
    vector = tmp_path / "vector"
    build = ["build", str(known), "-k", "3", "--model", "site-graph", "--out", str(vector)]
    assert not partition(build)
    by_vector = sets("assignment.scheme=part-vector", f"assignment.part_vector={vector}")
    for ranks, words in (
        (2, ["crawl", str(config), "--session", str(directory), "--max-pages", "50"]),
        (3, ["resume", str(directory), *by_vector, "--max-pages", "100"]),
        (3, ["resume", str(directory), "--max-pages", "150"]),
        (2, ["resume", str(directory), "--max-pages", "0"]),
    ):
        done = mpirun(ranks, "-m", "crawler", *words)
        assert done.returncode == 0, done.stderr
    assert_whole(directory, web)
    assert metrics_of(directory)["claims"] > 0


def odd_pages() -> dict[str, Page]:
    """Redirects in chains and loops, a sitemap in an index, a soft 404 without end."""
    links = ["/chain0", "/ping", "/loop", "/a", "/soft/x"]
    pages = {
        "/": Page("".join(f"<a href={link}>x</a>" for link in links).encode(), headers=HTML),
        "/a": Page(b"<a href=/b>", headers=HTML),
        "/loop": Page(b"", 302, {"Location": "/loop"}),
        "/ping": Page(b"", 301, {"Location": "/pong"}),
        "/pong": Page(b"", 301, {"Location": "/ping"}),
        "/orphan": Page(b"found", headers=HTML),
    }
    pages |= {f"/chain{n}": Page(b"", 302, {"Location": f"/chain{n + 1}"}) for n in range(9)}
    same = "".join(f"<a href=/soft/{n}>x</a>" for n in range(9)).encode()
    return pages | {f"/soft/{n}": Page(same, headers=HTML) for n in ["x", *range(9)]}


def test_a_session_stopped_after_every_few_pages_has_the_rows_of_one_that_was_not(
    tmp_path: Path,
) -> None:
    """Chains of redirects, sitemaps and the counts of the traps go on where they were."""
    pages = odd_pages()
    with PageServer(pages) as server:
        here = server.url
        pages["/robots.txt"] = Page(f"Sitemap: {here}/maps/index.xml\n".encode())
        index = f"<sitemapindex><sitemap><loc>{here}/maps/1.xml</loc></sitemap></sitemapindex>"
        pages["/maps/index.xml"] = Page(index.encode())
        pages["/maps/1.xml"] = Page(f"<urlset><url><loc>{here}/orphan</loc></url>".encode())
        settings = sets(
            "politeness.delay_s=0",
            "sitemaps.from_robots=true",
            "traps.max_same_content=4",
            "fetch.max_redirects=5",
        )
        whole, pieces = tmp_path / "whole", tmp_path / "pieces"
        assert crawl_here(whole, f"{here}/", *settings).returncode == 0
        assert crawl_here(pieces, f"{here}/", *settings, "--max-pages", "2").returncode == 0
        for limit in range(7, 40, 5):
            done = run_here("resume", str(pieces), "--max-pages", str(limit))
            assert done.returncode == 0, done.stderr
            if metrics_of(pieces)["complete"]:
                break
    rows = [
        {(row["url"].replace(here, ""), row["status"], row["error"]) for row in page_rows(one)}
        for one in (whole, pieces)
    ]
    assert rows[0] == rows[1]
    assert ("/chain5", 302, "too-many-redirects") in rows[1]
    assert ("/pong", 301, "redirect-loop") in rows[1]
    assert ("/orphan", 200, None) in rows[1]
    assert len(page_rows(pieces)) == len(page_rows(whole))
    assert metrics_of(pieces)["runs"] >= 5
    for name in ("pages", "bytes", "duplicate_content", "by_status", "by_error"):
        assert metrics_of(pieces)[name] == metrics_of(whole)[name], name


def test_sites_given_up_stay_so_and_failed_pages_are_dealt_with(tmp_path: Path) -> None:
    dead = "http://127.0.0.1:9"
    page = Page("".join(f"<a href=/{n}>x</a>" for n in range(5)).encode(), headers=HTML)
    with PageServer({"/": page}) as server:
        directory = tmp_path / "s"
        seeds = [*(f"{dead}/{n}" for n in range(8)), f"{server.url}/"]
        words = sets("retry.base_s=0.01", "retry.give_up_after=2", "retry.tries=1")
        done = crawl_here(directory, *seeds, *words, *sets("politeness.delay_s=0"))
        assert done.returncode == 0, done.stderr
        errors = metrics_of(directory)["by_error"]
        assert errors == {"connection-refused": 2, "site-given-up": 6}
        more = [*sets(f'session.seeds=["{dead}/more", "{server.url}/more"]')]
        done = run_here("resume", str(directory), *more)
        assert done.returncode == 0, done.stderr
        assert server.paths.count("/") == 1
    rows = {row["url"]: row for row in page_rows(directory)}
    assert rows[f"{dead}/more"]["error"] == "site-given-up"
    assert rows[f"{server.url}/more"]["status"] == 404
    assert metrics_of(directory)["by_error"] == {"connection-refused": 2, "site-given-up": 7}


def test_a_wider_scope_takes_up_what_was_out_of_it(tmp_path: Path) -> None:
    pages = {"/": Page(b"<a href=/1><a href=http://b.example/x>", headers=HTML)}
    pages |= {f"/{n}": Page(f"<a href=/{n + 1}>".encode(), headers=HTML) for n in range(1, 6)}
    with PageServer(pages) as server:
        config = write_config(
            tmp_path / "c.toml",
            {
                "session": {"seeds": ["http://a.example/"]},
                "scope": {"hosts": ["a.example"], "max_hops": 2},
                "politeness": {"delay_s": 0},
                "dns": {"hosts": {f"{name}.example": f"127.0.0.1:{server.port}" for name in "ab"}},
            },
        )
        directory = tmp_path / "s"
        assert crawl_here(directory, str(config)).returncode == 0
        assert {row["hops"] for row in page_rows(directory)} == {0, 1, 2}
        for change in ("scope.max_hops=3", 'scope.hosts=["a.example", "b.example"]'):
            assert run_here("resume", str(directory), *sets(change)).returncode == 0
        assert run_here("resume", str(directory), *sets("fetch.concurrency=2")).returncode == 0
    urls = {row["url"] for row in page_rows(directory)}
    assert urls == {f"http://a.example/{n or ''}" for n in range(4)} | {"http://b.example/x"}


# --- ends


@contextmanager
def crawling(directory: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A crawl by one rank that has fetched a few pages."""
    command = [sys.executable, "-m", "crawler", *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as crawl:
        try:
            number = len(session.log_files(directory))
            while not (
                len(logs := session.log_files(directory)) > number - 1
                and logs
                and logs[-1].stat().st_size > 2000
            ):
                assert crawl.poll() is None, crawl.communicate()
                time.sleep(0.02)
            yield crawl
        finally:
            crawl.kill()


@pytest.mark.parametrize(
    "how",
    [
        *("SIGTERM", "stop", "max_time"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("SIGINT", "SIGUSR1")),
    ],
)
def test_every_way_to_stop_leaves_a_session_to_be_resumed(
    tmp_path: Path, demo_web: tuple[DemoWeb, int], how: str
) -> None:
    web, port = demo_web
    config = demo_config(tmp_path / "c.toml", web, port)
    directory = tmp_path / "s"
    words = ["crawl", str(config), "--session", str(directory), "--resume"]
    slow = [*sets("politeness.delay_s=0.2"), *(["--max-time", "1.5s"] if how == "max_time" else [])]
    with crawling(directory, *words, *slow) as crawl:
        if how == "stop":
            assert "is stopping" in run_here("stop", str(directory)).stdout
        elif how != "max_time":
            crawl.send_signal(signal.Signals[how])
        output, errors = crawl.communicate(timeout=PATIENCE_S)
    assert crawl.returncode == 75, errors
    assert f"ended early: {how}" in output
    measures = metrics_of(directory)
    assert not measures["complete"]
    assert 0 < measures["pages"] < len(web.requests)
    assert measures["waiting"] > 0
    assert f"has ended: {how}" in run_here("stop", str(directory)).stdout

    done = run_here(*words, "--max-time", "90")  # the same command line goes on with it
    assert done.returncode == 0, done.stderr
    assert_whole(directory, web)


def test_the_ranks_stop_together(
    tmp_path: Path, mpirun: MpiRun, demo_web: tuple[DemoWeb, int]
) -> None:
    web, port = demo_web
    config = demo_config(tmp_path / "c.toml", web, port)
    words = ["crawl", str(config), "--session", str(tmp_path / "s"), "--resume"]
    slow = [*sets("politeness.delay_s=0.2"), "--max-time", "2s"]
    assert mpirun(3, "-m", "crawler", *words, *slow).returncode == 75
    assert metrics_of(tmp_path / "s")["reason"] == "max_time"
    assert mpirun(2, "-m", "crawler", *words).returncode == 0
    assert_whole(tmp_path / "s", web)


def test_what_is_under_way_at_a_stop_is_dropped_after_a_grace_and_fetched_by_a_resume(
    tmp_path: Path,
) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
    directory = tmp_path / "s"
    with RawServer(forever(head, b"x", 0.05)) as endless, PageServer({"/": Page(b"x" * 9)}) as good:
        words = ["crawl", endless.url, f"{good.url}/", "--session", str(directory), "--max-time"]
        settings = [
            "robots.obey=false", "session.stop_grace=0.2", "fetch.allow_private_addresses=true",
        ]  # fmt: skip
        done = run_here(*words, "1s", *sets(*settings))
        assert done.returncode == 75, done.stderr
        # After fetch.timeout_s, the endless page would have a row, too.
        assert [row["url"] for row in page_rows(directory)] == [f"{good.url}/"]
        assert metrics_of(directory)["waiting"] == 0
        assert not metrics_of(directory)["complete"]
        done = run_here("resume", str(directory), "--max-time", "0", *sets("fetch.timeout_s=1.5"))
        assert done.returncode == 0, done.stderr
    assert {row["url"]: row["error"] for row in page_rows(directory)} == {
        f"{good.url}/": None,
        endless.url: "timeout",
    }
    assert good.paths == ["/"]


def test_a_second_signal_stops_at_once_and_does_no_damage(tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
    pages = {f"/{n}": Page(f"<a href=/{n + 1}>{n}".encode() * 99, headers=HTML) for n in range(40)}
    directory = tmp_path / "s"
    with RawServer(forever(head, b"x", 0.05)) as endless, PageServer(pages) as good:
        words = ["crawl", endless.url, f"{good.url}/0", "--session", str(directory)]
        settings = [
            "robots.obey=false", "politeness.delay_s=0", "fetch.allow_private_addresses=true",
        ]  # fmt: skip
        with crawling(directory, *words, *sets(*settings)) as crawl:
            for number in (signal.SIGUSR1, signal.SIGUSR1, signal.SIGTERM):
                crawl.send_signal(number)
                time.sleep(1.2)
            crawl.communicate(timeout=PATIENCE_S)
        assert crawl.returncode == 75
        assert session.load(directory).last.ended is None
        done = run_here("resume", str(directory), *sets("fetch.timeout_s=1"))
        assert done.returncode == 0, done.stderr
        assert sorted(good.paths) == sorted([*pages, "/40"])
    check_warc_files(directory)
    assert [run.reason for run in session.load(directory).runs] == [None, "complete"]
    assert metrics_of(directory)["requests"] is None  # the first run couldn't say


# --- mistakes


def test_a_session_is_crawled_by_one_crawl_at_a_time(
    tmp_path: Path, demo_web: tuple[DemoWeb, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    web, port = demo_web
    config = demo_config(tmp_path / "c.toml", web, port)
    directory = tmp_path / "s"
    words = ["crawl", str(config), "--session", str(directory)]
    with crawling(directory, *words, *sets("politeness.delay_s=0.5")) as crawl:
        done = run_here("resume", str(directory))
        assert done.returncode == 2
        assert "is being crawled: " in done.stderr
        assert crawl.poll() is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["resume", "nowhere"], "nowhere/session.toml: No such file"),
        (["stop", "nowhere"], "nowhere/session.toml: No such file"),
        (["resume", "{here}", "--set", "normalise.fold_slash=true"], "[normalise] can't change"),
        (["resume", "{here}", "--set", "assignment.site=domain"], "assignment.site can't change"),
        (["resume", "{here}", "--set", "session.mode=firewall"], "session.mode can't change"),
        (["resume", "{here}", "--max-pages", "many"], "session.max_pages = 'many'"),
    ],
)
def test_a_mistake_is_one_line_and_changes_nothing(
    tmp_path: Path, words: list[str], said: str
) -> None:
    with PageServer({"/": b"x"}) as server:
        assert crawl_here(tmp_path / "s", f"{server.url}/").returncode == 0
    before = (tmp_path / "s" / "session.toml").read_text()
    done = run_here(*(word.format(here=tmp_path / "s") for word in words))
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert (tmp_path / "s" / "session.toml").read_text() == before
    names = {path.name for path in (tmp_path / "s").iterdir()}
    assert names == {"session.toml", "seeds.txt", "status.json", "rank-00000", "tables", "report"}
    assert pq.read_table(tmp_path / "s" / "tables" / "pages").num_rows == 1
