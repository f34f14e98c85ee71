"""Closing the loop: a session, its part vector, and a second session that costs what was said.

On a web that doesn't change, the counts of the second session are those that `partition evaluate`
predicts from the first session's link graph: for part vectors of sites, and for those that list
single pages. The webs are the demonstration's, and a real one: ABC_WEB names a folder with the
`seeds.txt` and `hosts.txt` of a web whose hosts resolve where the test runs, to servers there.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import MpiRun
from test_crawl import demo_config, metrics_of, write_config

from crawler.demo.web import DemoWeb, serve
from partition.__main__ import main as partition
from partition.partvector import PartVector

PARTS = 3
COUNTS = ("messages_page_part", "messages_site_part", "transmissions_target_part")
REAL_WEB = os.environ.get("ABC_WEB")
MODELS = ("site-hypergraph", "hybrid", "page-hypergraph")


def crawled(mpirun: MpiRun, ranks: int, config: Path, session: Path) -> dict[str, Any]:
    """The measures of a whole crawl."""
    words = ("-m", "crawler", "crawl", str(config), "--session", str(session))
    done = mpirun(ranks, *words, timeout=500)
    assert done.returncode == 0, done.stderr
    measures = metrics_of(session)
    assert measures["complete"]
    return measures


def predicted(
    capsys: pytest.CaptureFixture[str], first: Path, model: str, vector: Path
) -> dict[str, Any]:
    """What `evaluate` says of a part vector that `build` makes of a session."""
    words = ["build", str(first), "-k", str(PARTS), "--model", model, "--out", str(vector)]
    assert not partition(words)
    capsys.readouterr()
    assert not partition(["evaluate", str(vector), "--on", str(first), "--json"])
    row: dict[str, Any] = json.loads(capsys.readouterr().out)[0]
    assert row["model"] == model
    assert row["messages_page_part"] > 0
    return row


def counts(measures: dict[str, Any]) -> dict[str, Any]:
    return {name: measures[name] for name in COUNTS}


@pytest.fixture(scope="module")
def first_session(
    tmp_path_factory: pytest.TempPathFactory, mpirun: MpiRun
) -> Iterator[tuple[DemoWeb, int, Path]]:
    """The demonstration web, its port, and a whole session of it by two ranks."""
    folder = tmp_path_factory.mktemp("loop")
    with serve(3, pages=300, sites=12) as (web, port):
        config = demo_config(folder / "first.toml", web, port)
        crawled(mpirun, 2, config, folder / "first")
        yield web, port, folder / "first"


@pytest.mark.parametrize(
    "model", [MODELS[0], *(pytest.param(one, marks=pytest.mark.slow) for one in MODELS[1:])]
)
def test_the_second_session_costs_what_was_predicted(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    mpirun: MpiRun,
    first_session: tuple[DemoWeb, int, Path],
    model: str,
) -> None:
    web, port, first = first_session
    vector = tmp_path / "vector"
    expected = predicted(capsys, first, model, vector)
    assert (len(PartVector.open(vector).url_keys) > 0) == (model != "site-hypergraph")

    assignment = {"scheme": "part-vector", "part_vector": str(vector)}
    config = demo_config(tmp_path / "second.toml", web, port, **assignment)
    measures = crawled(mpirun, PARTS, config, tmp_path / "second")
    assert measures["claims"] == 0  # the first session has seen every site
    assert measures["unique_pages"] == measures["pages"] == len(web.requests)
    assert counts(measures) == counts(expected)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not REAL_WEB, reason="ABC_WEB names no web that is served here")
def test_a_real_web_costs_what_was_predicted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mpirun: MpiRun
) -> None:
    web = Path(REAL_WEB or "")

    def config(name: str, **assignment: object) -> Path:
        tables = {
            "session": {"seeds_file": str(web / "seeds.txt")},
            "scope": {"hosts": (web / "hosts.txt").read_text().split()},
            "assignment": assignment,
            "politeness": {"delay_s": 0, "connections_per_site": 16},
            "fetch": {"allow_private_addresses": True},
        }
        return write_config(tmp_path / f"{name}.toml", tables)

    first = tmp_path / "first"
    before = crawled(mpirun, PARTS, config("first"), first)
    for model in MODELS:
        vector = tmp_path / f"{model}.vector"
        expected = predicted(capsys, first, model, vector)
        assignment = {"scheme": "part-vector", "part_vector": str(vector)}
        measures = crawled(mpirun, PARTS, config(model, **assignment), tmp_path / model)
        assert measures["unique_pages"] == measures["pages"] == before["unique_pages"]
        assert counts(measures) == counts(expected), model
        assert counts(measures) != counts(before)
