"""The experiments of Parallel Crawlers, on webs small enough to be counted by hand."""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from crawler.ports import Link
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
    order = np.random.default_rng(repeat).permutation(5).tolist()
    crawl = bench.conduct(WEB, bench.Case(4, "m", 2, 2, repeat), vector)
    # Each process has one seed, and goes from there to the end of its site.
    seeds = next(page for page in order if page < 3), next(page for page in order if page > 2)
    assert crawl["drawn"] == 2
    assert crawl["coverage"] == (3 - seeds[0] + 5 - seeds[1]) / 5
    assert (crawl["overlap"], crawl["exchanged"]) == (0, 0)


def test_coverage_is_of_the_whole_web(bench: ModuleType, vector: Path) -> None:
    web = Web(URLS, np.array([(0, 1), (3, 4)]))
    crawls = [bench.conduct(web, bench.Case(4, "m", 2, 2, seed), vector) for seed in range(5)]
    for crawl in crawls:  # no page has links to the other site
        assert crawl["coverage_reachable"] == 1
        assert crawl["coverage"] == crawl["pages"] / 5 < 1


def test_each_process_has_seeds_of_its_own_part(bench: ModuleType) -> None:
    web = Web(URLS, np.zeros((0, 2), int))

    def owner(link: Link) -> int:
        return int(link.site == "b.example")

    for seed in range(5):
        drawn = bench.draw_seeds(web, owner, 2, 4, seed)
        assert sorted(page > 2 for page in drawn) == [False, False, True, True]
        assert set(bench.draw_seeds(web, owner, 2, 2, seed)) < set(drawn)
        # The smaller part gives all that it has, and a process without pages gives none.
        assert sorted(bench.draw_seeds(web, owner, 2, 8, seed)) == [0, 1, 2, 3, 4]
        assert len(bench.draw_seeds(web, owner, 3, 6, seed)) == 4


def test_half_of_a_web_has_half_of_its_sites(bench: ModuleType) -> None:
    half = bench.half_of(WEB)
    urls = [half.url(page) for page in range(len(half))]
    assert urls in (URLS[:3], URLS[3:])
    # The round is cut: of n pages, each but the last links to the next.
    assert half.targets.tolist() == list(range(1, len(half)))


def test_one_process_is_crawled_once(bench: ModuleType) -> None:
    schemes = ["url-hash", "site-hash", "hybrid"]
    planned = [
        case for figure in range(4, 12) for case in bench.cases(figure, 500, schemes, [1], [0])
    ]
    assert {(case.figure, case.scheme, case.half) for case in planned} == {
        (4, "site-hash", False),
        (4, "site-hash", True),
    }


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
    assert all({"commit", "date", "machine", "seed"} <= crawl.keys() for crawl in crawls)
    crawls[0]["commit"] = "another"
    log.write_text("".join(json.dumps(crawl) + "\n" for crawl in crawls))
    mixed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (mixed.returncode, len(mixed.stderr.splitlines())) == (1, 1)
    assert "commit another on" in mixed.stderr


def test_the_tables_have_the_values_of_the_paper(bench: ModuleType, tmp_path: Path) -> None:
    row = {"graph": "tiny", "web": {"pages": 9, "sites": 2, "links": 3}, "drawn": 5, "half": False}
    row |= {"commit": "c", "machine": "m", "date": "2000-01-01", "figure": 4, "scheme": "site-hash"}
    row |= {"procs": 1, "coverage": 0.5, "coverage_reachable": 1.0, "imbalance": 0.0}
    bench.write_tables([row], tmp_path)
    tables = (tmp_path / "parallel-crawlers-tables.md").read_text()
    assert "| 1 | 0.500 | 0.9 |" in tables
    assert "| 4 |  | ≥0.8 |" in tables
    assert "5 (0.56)" in tables  # seeds, and their share
