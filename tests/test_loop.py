"""Closing the loop: a session, its part vector, and a second session that costs what was said.

On a web that doesn't change, the counts of the second session are those that `partition evaluate`
predicts from the first session's link graph: for part vectors of sites, and for those that list
single pages.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import MpiRun
from test_crawl import demo_config, metrics_of

from crawler.demoweb import DemoWeb, serve
from partition.__main__ import main as partition
from partition.partvector import PartVector

PARTS = 4
COUNTS = ("messages_page_part", "messages_site_part", "transmissions_target_part")


@pytest.fixture(scope="module")
def first_session(
    tmp_path_factory: pytest.TempPathFactory, mpirun: MpiRun
) -> Iterator[tuple[DemoWeb, int, Path]]:
    """The demonstration web, its port, and a whole session of it by two ranks."""
    folder = tmp_path_factory.mktemp("loop")
    with serve(3, pages=300, sites=12) as (web, port):
        config = demo_config(folder / "first.toml", web, port)
        session = folder / "first"
        done = mpirun(2, "-m", "crawler", "crawl", str(config), "--session", str(session))
        assert done.returncode == 0, done.stderr
        yield web, port, session


@pytest.mark.parametrize(
    ("model", "lists_pages"),
    [("site-hypergraph", False), ("hybrid", True), ("page-hypergraph", True)],
)
def test_the_second_session_costs_what_was_predicted(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    mpirun: MpiRun,
    first_session: tuple[DemoWeb, int, Path],
    model: str,
    lists_pages: bool,
) -> None:
    web, port, first = first_session
    vector, second = tmp_path / "vector", tmp_path / "second"
    assert not partition(
        ["build", str(first), "-k", str(PARTS), "--model", model, "--out", str(vector)]
    )
    assert (len(PartVector.open(vector).url_keys) > 0) == lists_pages
    capsys.readouterr()
    assert not partition(["evaluate", str(vector), "--on", str(first), "--json"])
    predicted, *_ = json.loads(capsys.readouterr().out)
    assert predicted["model"] == model

    config = demo_config(
        tmp_path / "second.toml", web, port, scheme="part-vector", part_vector=str(vector)
    )
    done = mpirun(PARTS, "-m", "crawler", "crawl", str(config), "--session", str(second))
    assert done.returncode == 0, done.stderr
    measures = metrics_of(second)
    assert measures["complete"]
    assert measures["claims"] == 0  # the first session has seen every site
    assert measures["unique_pages"] == measures["pages"] == len(web.requests)
    assert {name: measures[name] for name in COUNTS} == {name: predicted[name] for name in COUNTS}
    assert predicted["messages_page_part"] > 0
