"""The memory budget of a rank: what is measured, what makes room, and that no order changes."""

import json
import subprocess
import sys
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler import config, url
from crawler.agent.stores import Stores
from crawler.core import aside
from crawler.core.budget import Budget, Used
from crawler.core.core import Core
from crawler.core.order import make_order
from crawler.core.outcomes import DONE
from crawler.core.ownership import Ownership
from crawler.core.schemes import SiteHash
from crawler.core.workbench import Workbench
from crawler.ports import CrawlUrl, Link
from crawler.reading.scope import Sites
from crawler.report.memory import memory_lines, memory_of
from crawler.session import SpillFiles
from crawler.stores.auto import AutoStore


class Store:
    """A table that gives what it is asked for, or nothing."""

    def __init__(self, size: int, *, gives: bool = True) -> None:
        self.size = size
        self.gives = gives
        self.looks = 0

    def nbytes(self) -> int:
        self.looks += 1
        return self.size

    def give(self, excess: int) -> bool:
        self.size -= excess * self.gives
        return self.gives


def test_the_largest_table_that_can_makes_room() -> None:
    fixed, large, small, stuck = Store(400), Store(300), Store(200), Store(350, gives=False)
    budget = Budget(1000)
    budget.add("fixed", fixed.nbytes)
    for name, store in (("large", large), ("small", small), ("stuck", stuck)):
        budget.add(name, store.nbytes, store.give)
    assert budget.look()
    assert (large.size, small.size) == (300 - (1250 - 900), 200)
    assert not budget.look()
    used = budget.used()
    assert used["large"] == Used(300, -50)
    assert used["all"] == Used(1250, 900)


def test_a_table_keeps_to_its_share_even_if_there_is_room() -> None:
    small, other = Store(300), Store(400)
    budget = Budget(1000)
    budget.add("other", other.nbytes, other.give)
    budget.add("small", small.nbytes, small.give, 1 / 4)
    assert budget.look()
    assert (small.size, other.size) == (250, 400)
    assert not budget.look()


def test_a_budget_looks_more_often_while_tables_make_room() -> None:
    store = Store(10, gives=False)
    budget = Budget(5)
    budget.add("store", store.nbytes, store.give)
    for _ in range(64 + 4 * 10):
        budget.tick()
    assert store.looks == 11
    store.size = 1
    for _ in range(4 + 64 * 3):
        budget.tick()
    assert store.looks == 11 + 1 + 3


SITES = [f"{letter}.example" for letter in "abcdefgh"]
# A site for new URLs, or None for visits; how many; and how much memory is given afterwards.
STEP = st.tuples(st.none() | st.integers(0, 7), st.integers(1, 30), st.integers(0, 3000))


@pytest.mark.parametrize("order", ["breadth-first", "depth-first", "random"])
def test_visits_come_in_the_same_order_if_urls_go_to_disk(order: str) -> None:
    @settings(max_examples=60, deadline=None)
    @given(st.lists(STEP, max_size=60))
    def crawl(steps: list[tuple[int | None, int, int]]) -> None:
        with TemporaryDirectory() as folder, SpillFiles(Path(folder) / "frontier") as spill:
            in_memory, on_disk = (
                Workbench(
                    config.Politeness(delay_s=1),
                    config.Retry(),
                    make_order(config.Frontier(order=order)),
                    one,
                )
                for one in (None, spill)
            )
            keys, clock = count(), count()
            for number, urls, excess in steps:
                for _ in range(urls):
                    if number is None:
                        now = float(next(clock))
                        assert visit(in_memory, now) == visit(on_disk, now)
                        continue
                    key, site = next(keys), SITES[number]
                    for bench in (in_memory, on_disk):
                        found = CrawlUrl(key, f"{site}/{key}", site, key % 7)
                        bench.enqueue(found, low=key % 5 == 0)
                before = on_disk.backlog._store.on_disk
                assert on_disk.backlog.give(excess) == (on_disk.backlog._store.on_disk > before)
            while in_memory.backlog.waiting or on_disk.backlog.waiting:
                now = float(next(clock))
                assert visit(in_memory, now) == visit(on_disk, now)

    crawl()


def visit(bench: Workbench, now: float) -> CrawlUrl | None:
    issued = bench.acquire(now)
    if issued is None:
        return None
    bench.end(issued, DONE, now)
    return issued.found


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 4000)), max_size=30)
)
def test_urls_set_aside_come_in_their_order(steps: list[tuple[int, int, int]]) -> None:
    with (
        pytest.MonkeyPatch.context() as patch,
        TemporaryDirectory() as folder,
        SpillFiles(Path(folder) / "frontier") as spill,
    ):
        patch.setattr(aside, "_CHUNK", 5)
        waiting, keys = aside.Aside(spill), count()
        expected: list[CrawlUrl] = []
        for more, fewer, excess in steps:
            for _ in range(more):
                expected.append(CrawlUrl(next(keys), "http://a.example/", SITES[more % 8], 2, (3,)))
                waiting.append(expected[-1])
            before = waiting.nbytes()
            assert waiting.give(excess) == (waiting.nbytes() < before)
            for _ in range(min(fewer, len(expected))):
                assert waiting.popleft() == expected.pop(0)
            assert len(waiting) == len(expected)
        assert list(waiting.drain()) == expected
        assert not waiting


def test_a_rank_stays_within_its_budget_and_loses_no_url(tmp_path: Path) -> None:
    """60,000 URLs of 200 sites; in memory they would take 7 MB, and their keys another 4 MB."""
    most = 4 << 20
    budget = Budget(most)
    stores = Stores(config.Seen(memory=16 << 20), tmp_path / "seen")
    stores.register(budget)
    settings = config.Config(politeness=config.Politeness(delay_s=0))
    with SpillFiles(tmp_path / "frontier") as spill:
        core = Core(
            settings,
            1,
            Ownership(0, SiteHash(1), [0]),
            Sites("authority"),
            stores.seen,
            spill=spill,
            sent=stores.sent,
            budget=budget,
        )
        addresses = [f"http://{n % 200}.example/{n:050}" for n in range(60_000)]
        links = [Link(url.key(one), one, url.site(one), 0) for one in addresses]
        core.start(links[:1], 0.0)
        fetched: list[CrawlUrl] = []
        assert isinstance(stores.seen, AutoStore)
        for start in range(1, len(links), 20):
            fetch(core, links[start : start + 20], fetched)
            for future in (stores.seen._memory._loading, stores.seen._loading):
                if future is not None:
                    future.result()
        assert stores.seen._runs is not None
        assert core._bench.backlog._store.on_disk > 10_000
        while core.waiting:
            fetch(core, (), fetched)
        assert sorted(one.url for one in fetched) == sorted(addresses)
        used = budget.used()
        assert 10**6 < used["waiting"].peak < most / 2
        assert used["waiting"].end < 10
        # The tables of a store on disk have a least size, and a thread frees one when it is
        # written. That matters only with so small a budget.
        assert used["all"].peak < 2 * most
    stores.close()


_CRAWL = """
import json, sys, time
from pathlib import Path
benchmarks, work, store, budget, urls, keys = sys.argv[1:]
sys.path.insert(0, benchmarks)
import memory
crawl = memory.crawl(
    *(int(urls), int(keys), 5000, 60, int(budget), store, "breadth-first", int(urls) // 8),
    Path(work), time.perf_counter(),
)
*_, row = crawl
print(json.dumps(row))
"""


@pytest.mark.parametrize(
    ("store", "budget", "urls", "keys"),
    [
        ("auto", 40_000_000, 1_750_000, 1_550_000),
        pytest.param("runs", 40_000_000, 1_750_000, 1_550_000, marks=pytest.mark.slow),
        pytest.param("drum", 40_000_000, 400_000, 0, marks=pytest.mark.slow),
        pytest.param("veuniq", 40_000_000, 400_000, 0, marks=pytest.mark.slow),
    ],
)
def test_the_memory_of_a_crawl_stays_within_its_budget_and_15_percent(
    tmp_path: Path, store: str, budget: int, urls: int, keys: int
) -> None:
    """The resident set of a process, above that before its crawl. The tables fill the budget."""
    benchmarks = Path(__file__).parent.parent / "benchmarks"
    words = [str(benchmarks), str(tmp_path), store, str(budget), str(urls), str(keys)]
    crawl = subprocess.run(
        [sys.executable, "-c", _CRAWL, *words], capture_output=True, text=True, check=True
    )
    row = json.loads(crawl.stdout)
    assert row["known"] > 0.99 * urls * 7 / 8
    assert row["peak"] <= 1.15 * budget
    # Other stores have nearly all of their keys on disk.
    assert row["counted_peak"] > (0.8 if store == "auto" else 0.4) * budget
    assert row["on_disk"] > 10_000


def fetch(core: Core, links: tuple[Link, ...] | list[Link], fetched: list[CrawlUrl]) -> None:
    issued = core.acquire(0.0)
    assert issued is not None
    fetched.append(issued.found)
    core.end(issued, DONE, 0.0)
    for _ in core.stored(issued.found, links, 0.0, response=True):
        pass
    core.tick(0.0)


def test_the_report_names_the_fullest_rank_and_its_largest_tables() -> None:
    runs = [
        {"memory": {"seen": [90_000_000, 5], "sites": [10, 10], "all": [95_000_000, 9]}},
        {"memory": {"seen": [80_000_000, 70_000_000], "sites": [10, 7], "all": [8, 7]}},
    ]
    memory = memory_of(runs)
    assert memory == {
        "seen": {"peak": 90_000_000, "end": 70_000_000},
        "sites": {"peak": 10, "end": 7},
        "all": {"peak": 95_000_000, "end": 7},
    }
    other = {"seen": {"peak": 1, "end": 1}, "all": {"peak": 1, "end": 1}}
    ranks = [{"rank": 0, "memory": other}, {"rank": 1, "memory": memory}]
    metrics = {"memory_budget": 10**9, "ranks": ranks}
    assert memory_lines(metrics) == [("memory", "95 of 1,000 MB at rank 1: seen 90")]
    assert memory_of([{}]) is None
    assert memory_lines({"ranks": [{"rank": 0, "memory": None}]}) == []
