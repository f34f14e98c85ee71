"""The benchmark of sessions that follow each other, on webs small enough to be counted by hand."""

import importlib
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from partition import importers, partvector, synthesize
from partition.partvector import PartVector
from partition.webgraph import from_arrays

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("sessions")


def test_pages_are_numbered_as_a_search_finds_them(bench: ModuleType) -> None:
    """A ring of six pages, in which each links to the next one and to the one after it."""
    ring = np.arange(6)
    web = from_arrays([*ring, *ring], [*(ring + 1) % 6, *(ring + 2) % 6], site=ring // 3)
    found = bench.discover(web, seeds=1)
    assert found.roots == [0]
    assert found.web.adj[: found.web.xadj[1]].tolist() == [1, 2]
    # Page 2 is two ahead of page 0, so it leads to pages 3 and 4. The session lacks page 5.
    assert found.first(5).links == 12 - 4


def test_the_numbers_of_parts_are_matched_before_pages_count_as_moved(bench: ModuleType) -> None:
    old = np.array([0, 0, 0, 1, 1, 2, -1], np.int32)
    new = np.array([2, 2, 1, 1, 1, 0, 0], np.int32)
    assert bench.matched(new, old, 3).tolist() == [0, 0, 1, 1, 1, 2, 2]


@pytest.mark.interpreted  # the benchmark replaces a method of Claims
def test_each_rule_gives_every_page_to_one_rank(bench: ModuleType, tmp_path: Path) -> None:
    """Two listed sites, each with half of the links; a third site has three links from part 1."""
    pages = np.arange(12)
    src, dst = [*pages, 4, 5, 6, 0], [*(pages + 1) % 12, 8, 9, 10, 8]
    found = bench.discover(from_arrays(src, dst, site=pages // 4), seeds=1)
    names = found.web.sites
    of_site = np.array([0, 1, -1], np.int32)
    path = tmp_path / "vector"
    partvector.write(path, parts=2, sites={names[0]: 0, names[1]: 1}, model="m")
    vector = bench.Vector(path, PartVector.open(path), of_site)
    for rule in bench.RULES:
        row = bench.crawl(found, found.web, 2, vector, rule)
        assert row["requests"] == pytest.approx(8 / 6 - 1), rule
    assert row["messages"] == 3  # the new site is in part 1, which most of its links come from


@pytest.mark.slow
def test_a_quick_run(bench: ModuleType, tmp_path: Path) -> None:
    importers.write(tmp_path / "web", *synthesize.google_like(1500, 60, 0, 0.0))
    words = ["sessions", tmp_path / "web", "--quick", "--out", tmp_path]
    if find_spec("matplotlib"):
        words.append("--plots")
    command = [sys.executable, "-m", "benchmarks", *map(str, words)]
    done = subprocess.run(
        command, cwd=BENCHMARKS.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "sessions.jsonl").read_text().splitlines()]
    assert [row["crawl"] for row in rows if row["session"] == 2 and "crawl" in row] == [
        "site-hash",
        "hash",
        *bench.RULES,
        "slack, claims",
        "warm, claims",
    ]
    assert sum("vector" in row for row in rows) == 3 * bench.SESSIONS
    assert "| warm, claims |" in (tmp_path / "sessions-tables.md").read_text()
