"""The experiments of Parallel Crawlers, on webs small enough to be counted by hand."""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from crawler.simulate import Web
from partition import importers, partvector, synthesize

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"

# Two sites, and one round through all their pages.
URLS = [f"http://a.example/{n}" for n in range(3)] + [f"http://b.example/{n}" for n in range(2)]
WEB = Web(URLS, np.array([(page, (page + 1) % 5) for page in range(5)]))


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("parallel_crawlers")


@pytest.fixture
def vector(tmp_path: Path) -> Path:
    path = tmp_path / "vector"
    partvector.write(path, parts=2, sites={"a.example": 0, "b.example": 1}, model="m")
    return path


@pytest.mark.parametrize("repeat", range(4))
def test_a_firewall_keeps_a_process_from_the_next_site(
    bench: ModuleType, vector: Path, repeat: int
) -> None:
    seed = np.random.default_rng(repeat).permutation(5)[0]
    crawl = bench.conduct(WEB, bench.Case(4, "m", 2, 1, repeat), vector)
    # From the seed to the end of its site, of the five that can be reached.
    assert crawl["coverage"] == {0: 3, 1: 2, 2: 1, 3: 2, 4: 1}[seed] / 5
    assert (crawl["overlap"], crawl["exchanged"]) == (0, 0)


def test_exchange(bench: ModuleType, vector: Path) -> None:
    crawl = bench.conduct(WEB, bench.Case(7, "m", 2, 1, 0), vector)
    assert (crawl["pages"], crawl["coverage"], crawl["overlap"]) == (5, 1, 0)
    # Two links of the round leave a site, and every page is fetched.
    assert (crawl["exchanged"], crawl["inter_part_links"]) == (2 / 5, 2 / 5)
    assert crawl["imbalance"] == pytest.approx(3 / 2.5 - 1)


def test_nobody_is_sent_what_all_know(bench: ModuleType, vector: Path) -> None:
    assert WEB.most_linked[0] == 0  # all have one back-link; the first comes first
    crawl = bench.conduct(WEB, bench.Case(8, "m", 2, 1, 0, replicated=1), vector)
    assert (crawl["coverage"], crawl["exchanged"]) == (1, 1 / 5)


def test_processes_that_cross_over_fetch_pages_twice(bench: ModuleType, vector: Path) -> None:
    crawl = bench.conduct(WEB, bench.Case(6, "m", 2, 5, 0), vector)
    assert (crawl["coverage"], crawl["exchanged"]) == (1, 0)
    pages, different = crawl["points"][-1]
    assert different == 5
    assert crawl["overlap"] == (pages - 5) / 5


def test_exchanges_are_spread_over_a_crawl(bench: ModuleType) -> None:
    """20 % of 10,000 pages, 4 processes, one exchange: each after half of its 500 pages."""
    case = bench.Case(11, "site-hash", 4, 20, 0, exchanges=1)
    assert bench.settings(case, 2000, None).exchange.batch_pages == 250
    assert bench.Case(11, "site-hash", 4, 20, 0, exchanges=0).mode == "firewall"
    planned = bench.cases(11, 10_000, ["site-hash"], [4, 64], [0])
    counts = {(case.procs, case.exchanges) for case in planned}
    assert (4, 100) in counts
    assert (64, 100) not in counts  # a process fetches only 31 pages
    assert (64, None) in counts


def test_the_command_goes_on_where_it_ended(tmp_path: Path) -> None:
    importers.write(tmp_path / "tiny", *synthesize.google_like(300, 20, 0))
    command = [sys.executable, BENCHMARKS, "parallel-crawlers", tmp_path / "tiny"]
    command += ["--schemes", "url-hash,site-hash", "--procs", "2", "--out", tmp_path / "out"]
    command += ["--work", tmp_path / "work"]
    first = subprocess.run(command, capture_output=True, text=True, check=True)
    log = tmp_path / "out" / "parallel-crawlers.jsonl"
    crawls = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(crawls) == len(first.stderr.splitlines())
    assert {crawl["figure"] for crawl in crawls} == set(range(4, 12))
    assert {crawl["overlap"] for crawl in crawls if crawl["figure"] != 6} == {0}
    tables = (tmp_path / "out" / "parallel-crawlers-tables.md").read_text()
    assert all(f"## Figure {number}" in tables for number in range(4, 12))
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not again.stderr
    assert len(log.read_text().splitlines()) == len(crawls)
