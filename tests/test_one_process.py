"""Whole crawls by several ranks in one process, without mpirun, over servers on loopback."""

import asyncio
import gc
import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from crawls import assert_sound, metrics_of, page_rows
from fakes import World
from servers import served

from crawler import config, session
from crawler.agent import planning
from crawler.agent.crawl import crawl
from crawler.agent.job import Ending
from crawler.agent.progress import LOGGERS
from crawler.demo.web import DemoWeb

CONCURRENCY = 4
IN_FLIGHT = 2 * CONCURRENCY + 2  # of a rank: in the fetch stage, behind it, and in the parse stage


@pytest.fixture(autouse=True)
def process_as_before() -> Iterator[None]:
    """What an agent changes in its process, which ends with it elsewhere."""
    threshold, loggers = gc.get_threshold(), [logging.getLogger(name) for name in LOGGERS]
    before = [(one.level, one.propagate) for one in loggers]
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)
    for one, (level, propagate) in zip(loggers, before, strict=True):
        one.setLevel(level)
        one.propagate = propagate


def settings_for(web: DemoWeb, port: int, directory: Path, **limits: object) -> config.Config:
    return config.load(
        values={
            "session": {"directory": str(directory), "seeds": web.seeds, **limits},
            "scope": {"hosts": web.hosts},
            "politeness": {"delay_s": 0},
            "dns": {"hosts": dict.fromkeys(web.hosts, f"127.0.0.1:{port}")},
            "fetch": {"allow_private_addresses": True, "concurrency": CONCURRENCY},
        }
    )


def crawl_here(plan: planning.Plan, ranks: int) -> Ending:
    """Crawl on so many ranks; how it ended, the same for all of them."""

    async def together() -> list[Ending]:
        groups = World(ranks, seed=ranks).groups
        return await asyncio.gather(*(crawl(plan, group) for group in groups))

    first, *others = asyncio.run(together())
    assert all(one == first for one in others)
    return first


def asked_pages(asked: Counter[str]) -> Counter[str]:
    """How often each URL was asked for, without the robots.txt files."""
    return Counter({url: n for url, n in asked.items() if not url.endswith("/robots.txt")})


def assert_whole(directory: Path, web: DemoWeb) -> None:
    """The session has all pages, each of them once."""
    rows = page_rows(directory)
    assert sorted(row["url"] for row in rows if row["status"] is not None) == sorted(web.requests)
    assert {row["url"] for row in rows if row["status"] == 200} == web.reachable
    assert metrics_of(directory)["complete"]
    assert_sound(directory)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_whole_crawl(tmp_path: Path, ranks: int) -> None:
    web = DemoWeb.generate(ranks, 120, 8)
    directory = tmp_path / "s"
    with served(web) as (port, asked):
        plan = planning.prepare(settings_for(web, port, directory), ranks)
        assert crawl_here(plan, ranks).reason == "complete"
    assert_whole(directory, web)
    assert asked_pages(asked) == dict.fromkeys(web.requests, 1)
    metrics = metrics_of(directory)
    assert len(metrics["ranks"]) == ranks
    assert (metrics["inter_part_urls"] > 0) == (ranks > 1)


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 4), (4, 1), (2, 2)])
def test_a_resume_on_another_number_of_ranks(tmp_path: Path, before: int, after: int) -> None:
    """With the same number of ranks it goes by snapshots, otherwise by the logs."""
    web = DemoWeb.generate(before, 120, 8)
    directory = tmp_path / "s"
    with served(web) as (port, asked):
        limited = settings_for(web, port, directory, max_pages=40)
        ending = crawl_here(planning.prepare(limited, before), before)
        assert (ending.complete, ending.reason) == (False, "max_pages")
        assert metrics_of(directory)["pages"] == 40
        plan = planning.prepare_again(directory, settings_for(web, port, directory), after)
        assert plan.has_snapshots == (before == after)
        assert crawl_here(plan, after).reason == "complete"
    assert_whole(directory, web)
    assert asked_pages(asked) == dict.fromkeys(web.requests, 1)
    assert [run.ranks for run in session.load(directory).runs] == [before, after]
