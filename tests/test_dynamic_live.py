"""Dynamic assignment on real ranks: servers hand out URLs, or assign sites, to their clients."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import MpiRun
from crawls import assert_sound, demo_config, metrics_of, page_rows, sets

from crawler.demo.web import DemoWeb, serve

KINDS = [
    ("page", "server"),
    ("site", "server"),
    ("dset", "server"),
    ("site", "own"),
    ("dset", "own"),
]


@pytest.fixture(scope="module")
def demo_web() -> Iterator[tuple[DemoWeb, int]]:
    with serve(18, 300, 14) as served:
        yield served


def dynamic(kind: tuple[str, str], *more: str) -> list[str]:
    words = [f"dynamic.granularity={kind[0]}", f"dynamic.follow={kind[1]}"]
    return sets("assignment.scheme=dynamic", *words, *more)


def assert_whole(directory: Path, web: DemoWeb) -> None:
    """Everything was fetched, nothing twice, and nothing by a server."""
    rows = page_rows(directory)
    fetched = [row["url"] for row in rows if row["status"] is not None]
    assert sorted(fetched) == sorted(web.requests)
    assert {row["url"] for row in rows if row["status"] == 200} == web.reachable
    assert metrics_of(directory)["overlap"] == 0
    assert_sound(directory)


@pytest.mark.parametrize("kind", KINDS)
def test_each_page_is_fetched_once_by_a_client(
    tmp_path: Path, mpirun: MpiRun, demo_web: tuple[DemoWeb, int], kind: tuple[str, str]
) -> None:
    web, port = demo_web
    config = demo_config(tmp_path / "c.toml", web, port)
    directory = tmp_path / "session"
    words = ["crawl", str(config), "--session", str(directory), *dynamic(kind)]
    done = mpirun(3, "-m", "crawler", *words)
    assert done.returncode == 0, done.stderr
    assert_whole(directory, web)
    assert {row["rank"] for row in page_rows(directory)} == {1, 2}


@pytest.mark.parametrize(
    ("kind", "remember"),
    [(kind, "all") for kind in KINDS] + [(KINDS[0], "cache"), (KINDS[3], "batch")],
)
def test_a_session_in_pieces_is_the_whole(
    tmp_path: Path,
    mpirun: MpiRun,
    demo_web: tuple[DemoWeb, int],
    kind: tuple[str, str],
    remember: str,
) -> None:
    web, port = demo_web
    config = demo_config(tmp_path / "c.toml", web, port)
    directory = tmp_path / "session"
    words = [
        "crawl",
        str(config),
        "--session",
        str(directory),
        *dynamic(kind, f"exchange.remember={remember}", "exchange.cache_urls=100"),
    ]
    for ranks, limit, more in (
        (3, 100, []),
        (3, 180, []),
        (5, 250, sets("dynamic.servers=[0, 0, 0]")),
        (2, 0, sets("dynamic.servers=[0]")),
    ):
        done = mpirun(ranks, "-m", "crawler", *words, *more, "--max-pages", str(limit))
        assert done.returncode == 0, done.stderr
        words = ["resume", str(directory)]
        if limit:
            assert metrics_of(directory)["pages"] == limit
            assert not metrics_of(directory)["complete"]
    assert_whole(directory, web)
