"""Whole crawls with `seen.exact`, over servers on loopback, by a hash that many URLs share."""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from conftest import MpiRun
from crawls import assert_sound, page_rows, sets
from servers import served
from test_kill import crawl_with_kills
from test_one_process import (
    Ranks,
    Tables,
    asked_pages,
    assert_whole,
    crawl_here,
    process_as_before,
    settings_for,
)
from test_shared_keys import hash_of, keys_as_before

from crawler import session, url
from crawler.agent import planning
from crawler.demo.web import DemoWeb
from crawler.report.verify import verify
from partition.__main__ import main as partition

__all__ = ["keys_as_before", "process_as_before"]  # fixtures

BITS = 8  # of the hash: about 80 of 120 URLs have a hash of their own


@pytest.fixture(autouse=True)
def weak_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(url, "xxh3_64_intdigest", lambda data: hash_of(data) >> (64 - BITS))


def exact(**tables: dict[str, object]) -> Tables:
    seen: dict[str, object] = {"exact": True, "repositories": 3, "max_delay_s": 0.1}
    return {**tables, "seen": seen | tables.get("seen", {})}


def assert_keys(directory: Path) -> None:
    """Each URL has one key in the tables, and no other URL has it."""
    pages = pq.read_table(directory / "tables" / "pages").to_pydict()
    links = pq.read_table(directory / "tables" / "links").to_pydict()
    texts, keys = pages["url"] + links["target_url"], pages["key"] + links["target_key"]
    assert len(set(zip(texts, keys, strict=True))) == len(set(texts)) == len(set(keys))
    assert set(links["source_key"]) <= set(pages["key"])


def reasons(directory: Path) -> Counter[str | None]:
    return Counter(run.reason for run in session.load(directory).runs)


@pytest.mark.parametrize(
    ("ranks", "tables"),
    [
        (1, {}),
        (3, {"assignment": {"scheme": "url-hash"}}),
        *(
            pytest.param(
                ranks,
                {"assignment": {"scheme": scheme}, "seen": {"store": store}},
                marks=pytest.mark.slow,
            )
            for ranks in (1, 3)
            for scheme in ("site-hash", "url-hash")
            for store in ("memory", "runs", "drum", "veuniq")
        ),
        pytest.param(4, {"assignment": {"scheme": "dynamic"}}, marks=pytest.mark.slow),
        pytest.param(
            4,
            {
                "assignment": {"scheme": "dynamic"},
                "dynamic": {"follow": "own", "granularity": "site"},
            },
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_crawl_fetches_each_url_once(
    tmp_path: Path, ranks: int, tables: dict[str, dict[str, object]]
) -> None:
    web = DemoWeb.generate(ranks, 80, 6)
    directory = tmp_path / "s"
    with served(web) as (port, asked):
        plan = planning.prepare(settings_for(web, port, directory, exact(**tables)), ranks)
        assert crawl_here(plan, ranks).reason == "complete"
    assert_whole(directory, web)
    assert asked_pages(asked) == dict.fromkeys(web.requests, 1)
    assert_keys(directory)
    assert len(session.given_up(directory)) > 5
    assert reasons(directory)["complete"] == 1
    assert set(reasons(directory)) == {"complete", "shared keys"}


@pytest.mark.parametrize("mode", ["firewall", "cross-over", "independent"])
@pytest.mark.slow
def test_in_other_modes_a_session_is_sound(tmp_path: Path, mode: str) -> None:
    """There, pages may be fetched by several ranks, or by none."""
    web = DemoWeb.generate(4, 80, 6)
    directory = tmp_path / "s"
    with served(web) as (port, _):
        plan = planning.prepare(settings_for(web, port, directory, exact(), mode=mode), 3)
        assert crawl_here(plan, 3).reason == "complete"
    fetched = {row["url"] for row in page_rows(directory) if row["status"] is not None}
    assert fetched == set(web.requests) or mode == "firewall"
    assert_sound(directory)
    assert_keys(directory)
    assert session.given_up(directory)


@pytest.mark.parametrize(
    ("limits", "store"),
    [
        ([30], "auto"),
        pytest.param([20, 40, 60], "veuniq", marks=pytest.mark.slow),
        pytest.param([20, 40, 60], "runs", marks=pytest.mark.slow),
        pytest.param([20, 40, 60], "drum", marks=pytest.mark.slow),
    ],
)
def test_stops_and_resumes(tmp_path: Path, limits: list[int], store: str) -> None:
    """The tables are right after each run. Resumes may have another number of ranks."""
    web = DemoWeb.generate(5, 80, 6)
    directory = tmp_path / "s"
    tables = exact(seen={"store": store})
    with served(web) as (port, asked):
        settings = settings_for(web, port, directory, tables, max_pages=limits[0])
        plan = planning.prepare(settings, 2)
        for ranks, limit in enumerate([*limits[1:], 0], start=1):
            assert crawl_here(plan, 2 if ranks == 1 else ranks - 1).reason == "max_pages"
            assert_sound(directory)
            assert_keys(directory)
            assert session.given_up(directory)
            settings = settings_for(web, port, directory, tables, max_pages=limit)
            plan = planning.prepare_again(directory, settings, ranks)
        assert crawl_here(plan, len(limits)).reason == "complete"
    assert_whole(directory, web)
    assert asked_pages(asked) == dict.fromkeys(web.requests, 1)
    assert_keys(directory)


@pytest.mark.parametrize(
    "deaths", [pytest.param([(1, 20)], marks=pytest.mark.slow), [(0, 40), (2, 50)]]
)
def test_ranks_are_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deaths: list[tuple[int, int]]
) -> None:
    web = DemoWeb.generate(6, 80, 6)
    directory = tmp_path / "s"
    with served(web) as (port, asked):
        plan = planning.prepare(settings_for(web, port, directory, exact()), 4)
        endings = asyncio.run(Ranks(4, monkeypatch).crawl(plan, deaths, asked))
    assert {ending.reason for ending in endings} == {"complete"}
    assert_whole(directory, web)
    assert_keys(directory)
    assert reasons(directory).keys() == {"complete", "shared keys", "lost rank"}


@pytest.mark.slow
def test_pages_of_a_part_vector(tmp_path: Path) -> None:
    """The first crawl gave some pages keys of their own. The vector has these keys."""
    web = DemoWeb.generate(7, 80, 6)
    with served(web) as (port, asked):
        plan = planning.prepare(settings_for(web, port, tmp_path / "1", exact()), 1)
        assert crawl_here(plan, 1).reason == "complete"
        vector = str(tmp_path / "vector")
        words = ["build", str(tmp_path / "1"), "-k", "3", "--model", "page-graph", "--out", vector]
        assert not partition(words)
        asked.clear()
        tables = exact(assignment={"scheme": "part-vector", "part_vector": vector})
        plan = planning.prepare(settings_for(web, port, tmp_path / "2", tables), 3)
        assert crawl_here(plan, 3).reason == "complete"
    assert_whole(tmp_path / "2", web)
    assert asked_pages(asked) == dict.fromkeys(web.requests, 1)
    assert_keys(tmp_path / "2")


def test_without_exact_some_urls_are_not_fetched(tmp_path: Path) -> None:
    """The notes of `verify` name them. A resume with `seen.exact` fetches them."""
    web = DemoWeb.generate(8, 60, 6)
    directory = tmp_path / "s"
    with served(web) as (port, asked):
        plan = planning.prepare(settings_for(web, port, directory), 1)
        assert crawl_here(plan, 1).reason == "complete"
        assert set(asked_pages(asked)) < set(web.requests)
        verdict = verify(directory)
        assert verdict.sound
        assert all("at most one of them was fetched" in note for note in verdict.notes)
        named = {word.rstrip(":") for note in verdict.notes for word in note.split()}
        assert named & (web.requests - asked.keys())  # others were never found
        about = directory / "session.toml"
        about.write_text(about.read_text().replace("exact = false", "exact = true"))
        assert verify(directory).problems["key"] == len(verdict.notes)
        settings = settings_for(web, port, directory, exact())
        plan = planning.prepare_again(directory, settings, 2)
        assert crawl_here(plan, 2).reason == "complete"
    assert_whole(directory, web)
    assert asked_pages(asked) == dict.fromkeys(web.requests, 1)


WEAK = f"""
import sys
from crawler import url
hash_of = url.xxh3_64_intdigest
url.xxh3_64_intdigest = lambda data: hash_of(data) >> {64 - BITS}
from crawler.__main__ import main
sys.exit(main())
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("store", ["auto", "veuniq"])
def test_kills(
    tmp_path: Path, start_mpirun: Callable[..., Any], mpirun: MpiRun, store: str
) -> None:
    """Of ranks under mpirun, at random moments, and also while URLs are compared."""
    options = sets("seen.exact=true", f"seen.store={store}", "assignment.scheme=url-hash")
    program = ("-c", WEAK)
    crawl_with_kills(
        tmp_path, start_mpirun, mpirun, seed=40, kills=4, program=program, options=options
    )
    assert_keys(tmp_path / "session-40")
    assert session.given_up(tmp_path / "session-40")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["site-hash", "dynamic"])
def test_failed_pages_are_fetched_again(tmp_path: Path, scheme: str) -> None:
    """Each third page fails in the first run. Then it has links that nobody has seen."""
    web = DemoWeb.generate(3, 80, 6)
    directory = tmp_path / "s"
    tables = exact(assignment={"scheme": scheme}, retry={"tries": 1, "busy_base_s": 0.01})
    respond, fails = web.respond, True
    spared = {*web.seeds, *(f"http://{host}/robots.txt" for host in web.hosts)}

    def at_first_unavailable(host: str, path: str) -> tuple[int, Any, bytes]:
        if fails and f"http://{host}{path}" not in spared and hash_of(path) % 3 == 0:
            return 500, (), b""
        return respond(host, path)

    web.respond = at_first_unavailable  # type: ignore[method-assign]
    with served(web) as (port, asked):
        settings = settings_for(web, port, directory, tables)
        crawl_here(planning.prepare(settings, 4), 4)
        before = Counter(asked)
        fails = False
        plan = planning.prepare_again(directory, settings, 4, retried=session.failures_named("500"))
        assert crawl_here(plan, 4).reason == "complete"
    failed = {row["url"] for row in page_rows(directory) if row["status"] == 500}
    assert not failed
    assert {row["url"] for row in page_rows(directory) if row["status"] == 200} == web.reachable
    again = asked_pages(asked - before)
    assert set(again.values()) == {1}
    assert_sound(directory)
    assert_keys(directory)
