"""The snapshots of all ranks are of the same run, and a crawl can leave some while it runs."""

from collections.abc import Callable
from pathlib import Path

import pytest
from servers import served
from test_one_process import (
    asked_pages,
    assert_whole,
    crawl_here,
    process_as_before,
    settings_for,
)

from crawler.agent import planning
from crawler.core.resumption import Resumption
from crawler.core.snapshot import CoreSnapshot
from crawler.demo.web import DemoWeb

__all__ = ["process_as_before"]  # a fixture


def test_without_the_knowledge_of_one_rank_the_snapshots_of_all_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third run replays the log of the second on top of the first run's snapshots."""
    web = DemoWeb.generate(3, 200, 12)
    directory = tmp_path / "s"
    state = Resumption.state
    told = 0

    def one_knows_nothing(
        self: Resumption, keep: Callable[..., bool] = lambda _: False
    ) -> CoreSnapshot | None:
        nonlocal told
        told += 1
        return None if told == 1 else state(self, keep)

    with served(web) as (port, asked):
        plan = planning.prepare(settings_for(web, port, directory, max_pages=40), 3)
        crawl_here(plan, 3)
        before = {path: path.read_bytes() for path in directory.glob("rank-*/snapshot")}
        assert len(before) == 3
        settings = settings_for(web, port, directory, max_pages=120)
        plan = planning.prepare_again(directory, settings, 3)
        with monkeypatch.context() as patched:
            patched.setattr(Resumption, "state", one_knows_nothing)
            crawl_here(plan, 3)
        assert told == 3
        assert {path: path.read_bytes() for path in directory.glob("rank-*/snapshot*")} == before
        plan = planning.prepare_again(directory, settings_for(web, port, directory), 3)
        assert plan.covered is not None
        assert crawl_here(plan, 3).reason == "complete"
    assert_whole(directory, web)
    assert asked_pages(asked) == dict.fromkeys(web.requests, 1)
