"""Whole crawls by several ranks in one process, without mpirun, over servers on loopback."""

import asyncio
import gc
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from crawls import assert_sound, metrics_of, page_rows
from fakes import FakeGroup, World
from servers import served

from crawler import config, session
from crawler.agent import planning
from crawler.agent.agent import Agent
from crawler.agent.crawl import crawl
from crawler.agent.job import Ending
from crawler.demo.web import DemoWeb

CONCURRENCY = 4
Tables = Mapping[str, Mapping[str, object]]
IN_FLIGHT = 2 * CONCURRENCY + 2  # of a rank: in the fetch stage, behind it, and in the parse stage


@pytest.fixture(autouse=True)
def process_as_before() -> Iterator[None]:
    """What an agent changes in its process, which ends with it elsewhere."""
    threshold = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)


def settings_for(
    web: DemoWeb,
    port: int,
    directory: Path,
    tables: Tables = MappingProxyType({}),
    **limits: object,
) -> config.Config:
    return config.load(
        values={
            "session": {"directory": str(directory), "seeds": web.seeds, **limits},
            "scope": {"hosts": web.hosts},
            "politeness": {"delay_s": 0},
            "dns": {"hosts": dict.fromkeys(web.hosts, f"127.0.0.1:{port}")},
            "fetch": {"allow_private_addresses": True, "concurrency": CONCURRENCY},
            **tables,
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
        assert (plan.covered is not None) == (before == after)
        assert crawl_here(plan, after).reason == "complete"
    assert_whole(directory, web)
    assert asked_pages(asked) == dict.fromkeys(web.requests, 1)
    assert [run.ranks for run in session.load(directory).runs] == [before, after]


class Ranks:
    """Ranks that crawl a session together, some of which die."""

    def __init__(self, ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = World(ranks, seed=ranks)
        self._agents: dict[FakeGroup, Agent] = {}  # the latest of each rank
        self._tasks: dict[FakeGroup, asyncio.Task[Ending]] = {}
        monkeypatch.setattr("crawler.agent.crawl.Agent", self._make_agent)

    def _make_agent(self, plan: planning.Plan, group: FakeGroup, *others: Any) -> Agent:
        agent = self._agents[group] = Agent(plan, group, *others)
        return agent

    async def crawl(
        self, plan: planning.Plan, deaths: Sequence[tuple[int, int]], asked: Counter[str]
    ) -> list[Ending]:
        """Crawl. `deaths`: the rank that dies once so many URLs have been asked for, and their
        number. Returns the endings at the ranks that are left."""
        groups = self.world.groups
        self._tasks = {group: asyncio.create_task(crawl(plan, group)) for group in groups}
        for rank, urls in deaths:
            while len(asked) < urls:
                await asyncio.sleep(0.01)
            await self._kill(groups[rank])
        return await asyncio.gather(*self._tasks.values())

    async def _kill(self, group: FakeGroup) -> None:
        task = self._tasks.pop(group)
        assert not task.done(), "the crawl has ended already"
        task.cancel()
        await asyncio.wait([task])
        self._agents[group].abandon()  # as the system closes the files of a dead process
        self.world.lose(group)


@pytest.mark.parametrize(
    ("ranks", "deaths"), [(2, [(1, 40)]), (3, [(0, 30)]), (4, [(2, 30), (0, 70)])]
)
def test_the_others_go_on_when_ranks_are_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranks: int, deaths: list[tuple[int, int]]
) -> None:
    """What tests/test_lost_rank.py tries under Open MPI, here without it."""
    web = DemoWeb.generate(ranks, 200, 12)
    directory = tmp_path / "s"
    with served(web) as (port, asked):
        plan = planning.prepare(settings_for(web, port, directory), ranks)
        endings = asyncio.run(Ranks(ranks, monkeypatch).crawl(plan, deaths, asked))
    assert [ending.reason for ending in endings] == ["complete"] * (ranks - len(deaths))
    assert_whole(directory, web)
    assert metrics_of(directory)["lost_ranks"] == len(deaths)
    runs = session.load(directory).runs
    assert [run.reason for run in runs] == ["lost rank"] * (len(runs) - 1) + ["complete"]
    assert runs[-1].ranks == ranks - len(deaths)
    again = asked_pages(asked).total() - len(web.requests)
    assert 0 <= again <= ranks * len(deaths) * IN_FLIGHT


@pytest.mark.parametrize(
    ("dynamic", "ranks", "deaths"),
    [
        ({}, 4, [(2, 40)]),
        ({"servers": [0, 0, 0]}, 7, [(5, 30), (4, 60)]),
        ({"granularity": "site", "follow": "own"}, 5, [(4, 30), (1, 80)]),
        pytest.param({"granularity": "site"}, 5, [(4, 30), (1, 80)], marks=pytest.mark.slow),
        pytest.param({"granularity": "dset"}, 4, [(3, 30)], marks=pytest.mark.slow),
        pytest.param({"spares": 1}, 3, [(1, 30)], marks=pytest.mark.slow),
    ],
)
def test_a_seed_server_goes_on_without_lost_clients_in_the_same_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    dynamic: dict[str, object],
    ranks: int,
    deaths: list[tuple[int, int]],
) -> None:
    """Their logs are read, so nothing that is stored is fetched again."""
    web = DemoWeb.generate(ranks, 120, 8)
    directory = tmp_path / "s"
    tables = {"assignment": {"scheme": "dynamic"}, "dynamic": dynamic}
    with served(web) as (port, asked):
        plan = planning.prepare(settings_for(web, port, directory, tables), ranks)
        endings = asyncio.run(Ranks(ranks, monkeypatch).crawl(plan, deaths, asked))
    assert [ending.reason for ending in endings] == ["complete"] * (ranks - len(deaths))
    assert_whole(directory, web)
    (run,) = session.load(directory).runs
    assert (run.reason, run.ranks, run.lost) == ("complete", ranks, len(deaths))
    metrics = metrics_of(directory)
    assert metrics["lost_ranks"] == len(deaths)
    assert metrics["requests"] is None
    again = asked_pages(asked).total() - len(web.requests)
    assert 0 <= again <= len(deaths) * IN_FLIGHT


@pytest.mark.parametrize("death", [pytest.param((0, 30), marks=pytest.mark.slow), (4, 30)])
def test_the_loss_of_a_server_or_of_its_only_client_is_a_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, death: tuple[int, int]
) -> None:
    web = DemoWeb.generate(3, 80, 8)
    directory = tmp_path / "s"
    servers = [0, 0, 0] if death[0] else [0]
    tables = {"assignment": {"scheme": "dynamic"}, "dynamic": {"servers": servers}}
    with served(web) as (port, asked):
        plan = planning.prepare(settings_for(web, port, directory, tables), 6)
        endings = asyncio.run(Ranks(6, monkeypatch).crawl(plan, [death], asked))
    assert [ending.reason for ending in endings] == ["complete"] * 5
    assert_whole(directory, web)
    assert [run.reason for run in session.load(directory).runs] == ["lost rank", "complete"]
