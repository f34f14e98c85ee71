"""The orders and their queues, against sorted lists."""

import os
import sys
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path

import numpy as np
import pytest
from conftest import MpiRun
from crawls import demo_config, page_rows, sets
from fetches import fetched, link, put, response
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from webs import Setting, crawls, exact, reachable

from crawler import config
from crawler.compact import KeyIndex, Numbers
from crawler.core.order import (
    Backlinks,
    BreadthFirst,
    Custom,
    DepthFirst,
    Fifos,
    GroupedHeads,
    Heads,
    Heaps,
    Opic,
    PageRank,
    Priority,
    Random,
    Scored,
    fifo,
    heaps,
    make_order,
    packing,
    pagerank,
)
from crawler.core.outcomes import DONE
from crawler.core.workbench import Workbench
from crawler.demo.web import serve
from crawler.extensions import ORDERING, Plugin
from crawler.ports import ANEW, OUT_OF_SCOPE, CrawlUrl, NoRoomError, UserError
from crawler.session import EarlierScores, RankStore, SpillFiles, read_links, spill

SITES = ["a.example", "b.example", "c.example"]  # the last one is a domain


def found(key: int, site: str = SITES[0], hops: int = 0, chain: tuple[int, ...] = ()) -> CrawlUrl:
    host = site if "//" in site else "www." + site
    return CrawlUrl(key, f"{host}/{key}", site, hops, chain)


class Memory:
    """A disk that is none."""

    def __init__(self) -> None:
        self.chunks: dict[int, bytes] = {}
        self.number = 0
        self.room = 99  # chunks

    def put(self, chunk: bytes) -> int:
        if not self.room:
            raise NoRoomError("full")
        self.room -= 1
        self.number += 1
        self.chunks[self.number] = chunk
        return self.number

    def take(self, number: int) -> bytes:
        return self.chunks.pop(number)


# --- scores -----------------------------------------------------------------------------------


def test_opic_splits_the_cash_of_a_page_among_its_links() -> None:
    """A seed has 1; its four links get a quarter each, one of these splits it in two."""
    store = Heaps(Opic())
    a = store.queue(SITES[0])
    store.add(a, found(1), 1, low=False)
    assert store.priority(a) == (-1, 1)
    assert store.pop(a) == found(1)
    for key in (2, 3, 4, 5):
        store.add(a, found(key), 1, low=False)
    store.fetched(1, [2, 3, 4, 5])
    assert store.priority(a) == (-0.25, 2)
    assert store.pop(a).key == 2
    store.linked(5, 1)
    store.add(a, found(6), 1, low=False)
    assert store.fetched(2, [5, 6]) == [a]
    assert store.priority(a) == (-0.375, 5)
    assert [store.pop(a).key for _ in range(4)] == [5, 3, 4, 6]


def test_a_link_of_another_ranks_page_brings_the_mean_cash_of_a_link() -> None:
    """After cash 1 among 4 links and 0.25 among 6: 1.25 / 10."""
    order = Opic()
    order.spread(1, 1.0, [2, 3, 4, 5])
    order.spread(2, 0.25, [6] * 6)
    assert order.mean == 0.125
    assert order.first(found(9), 3) == (0.375, False)


def test_what_is_not_known_of_a_page_changes_nothing() -> None:
    order = Opic()
    assert order.spread(1, None, [2, 3]) == 0
    assert order.spread(1, 1.0, []) == 0
    assert order.mean == 1


def test_pagerank_of_a_chain_with_a_hub() -> None:
    """0 -> 2, 1 -> 2, 2 -> 0; 1 has no back-links. By hand, d = 0.85: x1 = 0.15, x2 = 0.15 +
    0.85 (x0 + x1), x0 = 0.15 + 0.85 x2."""
    scores, base = pagerank(3, np.array([0, 1, 2]), np.array([2, 2, 0]))
    x2 = (0.15 + 0.85 * (0.15 + 0.15)) / (1 - 0.85**2)
    assert scores == pytest.approx([0.15 + 0.85 * x2, 0.15, x2], abs=1e-3)
    assert base == pytest.approx(0.15)
    assert scores.sum() == pytest.approx(3)


def test_pagerank_of_pages_without_links_is_shared_by_all() -> None:
    scores, base = pagerank(4, np.array([0]), np.array([1]))
    assert scores[[2, 3, 0]] == pytest.approx([base] * 3)
    assert scores[1] == pytest.approx(base + 0.85 * scores[0], abs=1e-3)


def test_pagerank_is_computed_anew_when_the_pages_are_a_quarter_more() -> None:
    store, order = pagerank_store()
    stale = []
    for page in range(1, 300):
        order.spread(page, 1.0, [1000 + page])
        if order.is_stale():
            stale.append(page)
            store.rescore([])
    assert stale == [100, 126, 158, 198, 248]


def pagerank_store() -> tuple[Heaps, PageRank]:
    order = PageRank()
    return Heaps(order), order


def test_pagerank_comes_to_know_which_waiting_url_is_linked_by_important_pages() -> None:
    """200 pages link to the hub 1, the hub to 7; 8 has two links of unimportant pages."""
    store, _ = pagerank_store()
    a = store.queue(SITES[0])
    for key in (8, 7):
        store.add(a, found(key), 1, low=False)
    store.linked(8, 1)
    for page in range(100, 300):
        store.fetched(page, [1, 8] if page < 102 else [1])
    store.fetched(1, [7])
    store.rescore([a])
    assert [store.pop(a).key for _ in range(2)] == [7, 8]


def test_back_links_from_other_ranks_count_in_pagerank() -> None:
    store, _ = pagerank_store()
    a = store.queue(SITES[0])
    for key, links in ((2, 1), (3, 50), (4, 1)):
        store.add(a, found(key), links, low=False)
    for page in range(100, 200):
        store.fetched(page, [page + 1000])
    store.fetched(200, [2, 4])
    store.fetched(201, [4])
    store.linked(4, 1)
    store.rescore([a])
    assert [store.pop(a).key for _ in range(3)] == [3, 4, 2]


def test_what_an_earlier_session_says_is_final(tmp_path: Path) -> None:
    pages = {2: 5.0, 7: 1.5, 2**64 - 1: 0.5}
    paths = [tmp_path / f"{rank}.npy" for rank in range(4)]  # the first two have no pages
    for rank, path in enumerate(paths):
        its = {key: score for key, score in pages.items() if key % 4 == rank}
        EarlierScores.write(path, np.array([*its], np.uint64), np.array([*its.values()], float))
    earlier = EarlierScores(paths)
    assert [earlier.find(key) for key in (1, 2, 3, 7, 2**64 - 1)] == [None, 5.0, None, 1.5, 0.5]
    order = make_order(config.Frontier(order="pagerank"), earlier.find)
    assert isinstance(order, Scored)
    store = Heaps(order)
    a = store.queue(SITES[0])
    store.add(a, found(2**64 - 1), 99, low=False)
    store.add(a, found(3), 1, low=False)
    store.add(a, found(2), 1, low=False)
    assert store.linked(2**64 - 1, 1000) is None
    assert [store.pop(a).key for _ in range(3)] == [2, 3, 2**64 - 1]


def test_random_is_the_same_for_the_same_seed_and_no_other() -> None:
    def drawn(seed: int) -> list[int]:
        order = Random(seed)
        return sorted(range(100), key=lambda key: order.first(found(key), 1))

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert drawn(1) != sorted(drawn(1))


def short_first(url: CrawlUrl) -> float:
    return -len(url.url)


def nothing_known(url: CrawlUrl) -> float:
    return float("nan")


def by_thirds(url: CrawlUrl) -> int:
    return url.key % 3


def found_twice(first: CrawlUrl, second: CrawlUrl) -> int:
    return first.key + second.key


class Furthest(Scored):
    def first(self, found: CrawlUrl, links: int) -> tuple[float, bool]:
        return found.hops, True


@pytest.mark.parametrize(("name", "first"), [("short_first", 3), ("Furthest", 1000)])
def test_an_order_of_the_users_own(name: str, first: int) -> None:
    order = make_order(config.Frontier(order=f"{__name__}:{name}"))
    bench = Workbench(config.Politeness(), config.Retry(), order)
    bench.enqueue(found(1000, hops=2))
    bench.enqueue(found(3, hops=1))
    visit = bench.acquire(0)
    assert visit is not None
    assert visit.found.key == first


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no_such_module:function", "No module named 'no_such_module'"),
        (f"{__name__}:nothing", "has no nothing"),
        (f"{__name__}:SITES", r"can't be called; a function of \(found\) is needed"),
        (f"{__name__}:found_twice", r"a function of \(found\) is needed"),
        ("bredth-first", "did you mean breadth-first\\? there are: backlinks, breadth-first"),
    ],
)
def test_an_order_that_is_not_there_is_refused_in_a_line(name: str, words: str) -> None:
    with pytest.raises(UserError, match=words) as error:
        make_order(config.Frontier(order=name))
    assert "\n" not in str(error.value)


def test_a_score_that_is_no_number_is_an_error_of_the_users_function() -> None:
    order = make_order(config.Frontier(order=f"{__name__}:nothing_known"))
    assert isinstance(order, Scored)
    score, _ = order.first(found(1), 1)
    assert -inf < score < -1e300
    assert [plugin.errors.count for plugin in order.plugins] == [1]


@pytest.mark.parametrize("name", ["a:b:c", ":f", "m:", "breadth-first "])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="such as breadth-first, or module:function"):
        config.Frontier(order=name)


# --- queues -----------------------------------------------------------------------------------


class Waiting(RuleBasedStateMachine):
    """The queues of three sites against lists that are searched from end to end."""

    make: Callable[[], BreadthFirst] = BreadthFirst
    spills = True  # that a URL on disk keeps its score needs a test of its own

    @initialize()
    def begin(self) -> None:
        self.order, self.twin = type(self).make(), type(self).make()
        self.disk = Memory()
        self.store = (
            Heaps(self.order, self.disk) if isinstance(self.order, Scored) else Fifos(self.disk)
        )
        self.queues = {site: self.store.queue(site) for site in SITES}
        self.waiting: dict[str, dict[int, list[float]]] = {site: {} for site in SITES}
        self.back: dict[str, list[tuple[CrawlUrl, Priority]]] = {site: [] for site in SITES}
        self.urls: list[CrawlUrl] = []
        self.links: dict[int, int] = {}
        self.taken: dict[int, float | None] = {}  # scores, unless it was low
        self.out: list[tuple[CrawlUrl, Priority]] = []

    def new(self, url: CrawlUrl, links: int, low: bool) -> list[float]:
        """Its rank: what must come first, last in the list."""
        arrival = url.key
        if not isinstance(self.twin, Scored):
            return [-low, -arrival]
        return [-inf if low else self.twin.first(url, links)[0], -arrival]

    @rule(
        site=st.sampled_from(SITES),
        links=st.integers(1, 3),
        low=st.booleans(),
        chain=st.sampled_from([(), (), (7, 2**64 - 1), (7, ANEW)]),
        count=st.sampled_from([1, 3, 20]),
    )
    def add(self, site: str, links: int, low: bool, chain: tuple[int, ...], count: int) -> None:
        for _ in range(count):
            url = found(len(self.urls) + 1, site, len(self.urls) * 1000, chain)
            self.urls.append(url)
            self.waiting[site][url.key] = self.new(url, links, low)
            self.links[url.key] = links
            is_head = self.store.add(self.queues[site], url, links, low)
            if isinstance(self.order, Scored):
                assert is_head == (not self.back[site] and self.best(site) == url.key)

    def best(self, site: str) -> int:
        return max(self.waiting[site], key=lambda key: self.waiting[site][key])

    @rule(site=st.sampled_from(SITES), count=st.sampled_from([1, 5, 30]))
    def pop(self, site: str, count: int) -> None:
        for _ in range(count):
            if not self.queues[site].size:
                return
            if self.back[site]:
                expected, priority = self.back[site].pop()
                assert self.priority(site) in {priority, None}
            else:
                key = self.best(site)
                expected = self.urls[key - 1]
                score, arrival = self.waiting[site].pop(key)
                priority = (-score, int(-arrival))
                assert self.priority(site) in {priority, None}
                self.taken[key] = None if score == -inf else score
            assert self.store.pop(self.queues[site]) == expected
            self.out.append((expected, priority))

    def priority(self, site: str) -> Priority | None:
        return self.store.priority(self.queues[site]) if isinstance(self.store, Heaps) else None

    @precondition(lambda self: self.out)
    @rule()
    def put_back(self) -> None:
        url, priority = self.out.pop()
        self.back[url.site].append((url, priority))
        self.store.put_back(self.queues[url.site], url, priority)

    @precondition(lambda self: self.spills)
    @rule(excess=st.integers(1, 40), room=st.sampled_from([0, 1, 2, 3, 99]))
    def spill(self, excess: int, room: int) -> None:
        """The disk may become full meanwhile; what has no room stays where it was."""
        self.disk.room = room
        self.store.spill(excess)

    @precondition(lambda self: self.order.counts and self.urls)
    @rule(data=st.data(), links=st.integers(1, 3))
    def linked(self, data: st.DataObject, links: int) -> None:
        assert isinstance(self.store, Heaps)
        key = data.draw(st.integers(1, len(self.urls)))
        with self.heads_are_told() as told:
            queue = self.store.linked(key, links)
            told.extend([queue] if queue else [])
            self.add_score(key, self.twin.more(links))
            self.links[key] += links

    def add_score(self, key: int, added: float) -> None:
        for waiting in self.waiting.values():
            if key in waiting:
                waiting[key][0] += added

    @precondition(lambda self: self.order.wants_links and self.out)
    @rule(data=st.data())
    def fetched(self, data: st.DataObject) -> None:
        assert isinstance(self.store, Heaps)
        url, _ = self.out.pop()
        keys = data.draw(st.lists(st.integers(1, len(self.urls) + 2), unique=True, max_size=8))
        with self.heads_are_told() as told:
            told.extend(self.store.fetched(url.key, keys))
            added = self.twin.spread(url.key, self.taken[url.key], keys)
            for key in keys:
                self.add_score(key, added)

    @precondition(lambda self: isinstance(self.order, PageRank))
    @rule()
    def rescore(self) -> None:
        assert isinstance(self.store, Heaps)
        self.store.rescore(self.queues.values())
        keys = [
            key
            for waiting in self.waiting.values()
            for key, (score, _) in waiting.items()
            if score > -inf
        ]
        links = [self.links[key] for key in keys]
        scores = self.twin.scores(np.array(keys, np.uint64), np.array(links, np.uint32))
        for key, score in zip(keys, scores.tolist(), strict=True):
            for waiting in self.waiting.values():
                if key in waiting:
                    waiting[key][0] = score

    @contextmanager
    def heads_are_told(self) -> Iterator[list[object]]:
        """Whatever has another rank at its head than before must be among what is told."""
        before = {site: self.priority(site) for site in SITES if self.queues[site].size}
        told: list[object] = []
        yield told
        for site, priority in before.items():
            assert priority == self.priority(site) or self.queues[site] in told

    @invariant()
    def counts_are_true(self) -> None:
        if not hasattr(self, "store"):
            return
        for site, queue in self.queues.items():
            assert queue.size == len(self.waiting[site]) + len(self.back[site])
        assert bool(self.store.on_disk) == bool(self.disk.chunks)
        listed = list(self.store._listed)
        lines = [
            line
            for queue in self.queues.values()
            for line in (queue, getattr(queue, "low", None))
            if line
        ]
        assert len(set(map(id, listed))) == len(listed)
        assert all(line.listed == (line in listed) for line in lines)
        if isinstance(self.store, Fifos):
            assert self.store._back == sum(len(line.back) for line in lines)
        for line in lines:
            assert line.listed or not line.is_long()

    def teardown(self) -> None:
        if not hasattr(self, "store"):
            return
        for site in SITES:
            self.pop(site, self.queues[site].size)
            assert not self.queues[site].size
        assert not self.disk.chunks
        if isinstance(self.store, Heaps):
            assert len(self.store._free) == len(self.store._keys) - 1
            assert len(self.store._index) == 0


@pytest.mark.parametrize(
    ("make", "spills"),
    [
        (BreadthFirst, True),
        (DepthFirst, True),
        (lambda: Random(5), True),
        (lambda: Custom(Plugin(ORDERING, "mine", by_thirds)), True),
        (Backlinks, False),
        (Opic, False),
        (PageRank, False),
    ],
    ids=["breadth-first", "depth-first", "random", "custom", "backlinks", "opic", "pagerank"],
)
def test_urls_come_out_in_order(
    make: Callable[[], BreadthFirst], spills: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name, number in (
        (packing, "KEEP", 2),
        (fifo, "KEEP", 2),
        (heaps, "KEEP", 2),
        (fifo, "CHUNK", 5),
        (fifo, "_BLOCK_BYTES", 150),
        (heaps, "CHUNK", 5),
        (heaps, "_SHORT", 6),
    ):
        monkeypatch.setattr(module, name, number)
    machine = type("Machine", (Waiting,), {"make": staticmethod(make), "spills": spills})
    run_state_machine_as_test(machine, settings=settings(max_examples=25, stateful_step_count=40))


KEYS = st.integers(0, 2**64 - 1)


@given(
    st.lists(
        st.builds(
            CrawlUrl,
            KEYS,
            st.sampled_from(["http://", "https://", "https://www.", "ftp://user@"]).flatmap(
                lambda start: st.text("/?é%", max_size=9).map(f"{start}a.example/".__add__)
            ),
            st.just("a.example"),
            st.integers(-1, 2**31 - 1),
            st.lists(KEYS | st.just(ANEW), max_size=101).map(tuple),
        )
    )
)
def test_packed_urls_come_out_as_they_were(urls: list[CrawlUrl]) -> None:
    """Also the hops of a sitemap that a user names, and the mark of a chain that begins anew."""
    records = b"".join(map(packing.pack, urls))
    at = 0
    for url in urls:
        found, at = packing.unpack(records, at, "a.example")
        assert found == url
        assert type(found) is CrawlUrl
    assert at == len(records)
    assert packing.split(records) == list(map(packing.pack, urls))


def test_links_of_a_url_on_disk_count_from_when_it_is_read_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """8 URLs with 8, 7 ... 1 links; 2 stay in memory, 3 and 3 go to disk."""
    monkeypatch.setattr(heaps, "KEEP", 2)
    monkeypatch.setattr(heaps, "CHUNK", 3)
    store = Heaps(Backlinks(), Memory())
    a = store.queue(SITES[0])
    for links in range(1, 9):
        store.add(a, found(links), links, low=False)
    store.spill(6)
    assert store.on_disk == 6
    assert store.linked(4, 100) is None
    assert store.linked(1, 1) is None
    assert [store.pop(a).key for _ in range(8)] == [8, 7, 4, 6, 5, 3, 1, 2]  # 1 and 2 have 2


@pytest.mark.parametrize("make", [Fifos, lambda disk: Heaps(Random(1), disk)])
def test_short_queues_go_to_disk_too(make: Callable[[Memory], packing.Queues]) -> None:
    """1,000 queues of 10 URLs keep 4 each. Shorter ones stay, as chunks are no crumbs."""
    disk = Memory()
    disk.room = 10_000
    store = make(disk)
    queues = [store.queue(f"{number}.example") for number in range(1000)]
    for number in range(10_000):
        store.add(queues[number % 1000], found(number, queues[number % 1000].site), 1, low=False)
    store.spill(600)
    assert store.on_disk == 600
    store.spill(10**6)
    assert store.on_disk == 6000
    for number in range(10_000, 13_000):
        store.add(queues[number % 1000], found(number, queues[number % 1000].site), 1, low=False)
    store.spill(10**6)
    assert store.on_disk == 6000


def test_the_list_of_long_queues_forgets_those_that_are_short() -> None:
    store = Fifos(Memory())
    for site in range(1000):
        queue = store.queue(f"{site}.example")
        for number in range(8):
            store.add(queue, found(number, queue.site), 1, low=False)
        while queue.size:
            store.pop(queue)
    assert len(store._listed) <= 2


@pytest.mark.parametrize("order", ["breadth-first", "random"])
def test_a_rank_keeps_in_memory_what_it_may(order: str, tmp_path: Path) -> None:
    urls = [found(key, SITES[key % 3]) for key in range(3000)]
    ordered = make_order(config.Frontier(order=order))
    with SpillFiles(tmp_path / "frontier") as spill:
        bench = Workbench(config.Politeness(delay_s=0), config.Retry(), ordered, spill, 1000)
        for url in urls:
            bench.enqueue(url)
            assert bench.backlog.waiting - bench.backlog._store.on_disk <= 1000
        assert bench.backlog.waiting == 3000
        assert any((tmp_path / "frontier").iterdir())
        come: dict[str, list[CrawlUrl]] = {site: [] for site in SITES}
        while (visit := bench.acquire(0)) is not None:
            come[visit.found.site].append(visit.found)
            bench.end(visit, DONE, 0)
    if isinstance(ordered, Scored):
        urls.sort(key=lambda url: -ordered.first(url, 1)[0])
    assert come == {site: [url for url in urls if url.site == site] for site in SITES}
    assert not (tmp_path / "frontier").exists()


ORDERS = ["breadth-first", "backlinks", "pagerank", "opic", "depth-first", "random"]


@pytest.mark.parametrize("order", ORDERS)
def test_in_any_order_each_page_is_fetched_once(
    order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # These webs are small, and their PageRank is to be computed nonetheless.
    monkeypatch.setattr(sys.modules["crawler.core.order.pagerank"], "_FIRST", 2)

    @settings(max_examples=20)
    @given(crawls())
    def crawl(setting: Setting) -> None:
        simulation = setting.simulation(f"frontier.order={order}")
        simulation.run(setting.seeds)
        pages = set().union(*simulation.fetched)
        assert pages == reachable(setting.web, setting.seeds)
        if exact(setting):
            assert sum(map(len, simulation.fetched)) == len(pages)

    crawl()


def test_a_crawl_by_pagerank_after_one_by_cash(tmp_path: Path, mpirun: MpiRun) -> None:
    """On two ranks, from the scores of the session before; nothing is left of its working files."""
    with serve(7, 300, 2) as (web, port):
        cfg = demo_config(tmp_path / "c.toml", web, port)
        for name, more in (
            ("first", sets("frontier.order=opic", "frontier.memory=100")),
            ("second", sets("frontier.order=pagerank", f"session.previous={tmp_path / 'first'}")),
        ):
            session = str(tmp_path / name)
            done = mpirun(2, "-m", "crawler", "crawl", str(cfg), "--session", session, *more)
            assert done.returncode == 0, done.stderr
            rows = page_rows(tmp_path / name)
            assert {row["url"] for row in rows if row["status"] in {200, 304}} == web.reachable
            assert not [*tmp_path.rglob("frontier"), *tmp_path.rglob("*.npy")]


def test_the_links_of_an_earlier_session(tmp_path: Path) -> None:
    links = [link("http://a.example/b"), link("http://a.example/c", OUT_OF_SCOPE)]
    store = RankStore(tmp_path, 0, config.Storage(), user_agent="tester/1", obeys_robots=True)
    row = put(store, fetched(response("http://a.example/a", b"hello"), links), 0)
    store.close()
    sources, targets = read_links(tmp_path)
    assert (sources.tolist(), targets.tolist()) == ([row.key], [links[0].key])


# --- parts ------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from([1020, 1, 2**63 + 1022]), st.integers(0, 40)),
        max_size=60,
    ),
    st.sampled_from([0, 600, 2000]),
)
def test_an_index_finds_what_is_in_it(ops: list[tuple[bool, int, int]], many: int) -> None:
    """Keys that want the same places, at the end of the table too."""
    keys = array("Q", [0])
    index, slots = KeyIndex(keys), dict[int, int]()

    def add(key: int) -> None:
        if key not in slots:
            slots[key] = len(keys)
            keys.append(key)
            index.add(slots[key])

    for number in range(many):
        add(number * 2**20 + number // 3)
    for adds, base, number in ops:
        key = base + number * 512
        if adds:
            add(key)
        else:
            assert index.discard(key) == (slots.pop(key, None) is not None)
    assert len(index) == len(slots)
    assert sorted(index.slots().tolist()) == sorted(slots.values())
    for number in range(41):
        for base in (1020, 1, 2**63 + 1022):
            key = base + number * 512
            assert index.find(key) == slots.get(key, 0)


@given(
    st.lists(st.tuples(st.integers(0, 2**64 - 1) | st.integers(0, 40), st.integers(-9, 2**63 - 99)))
)
def test_a_table_of_numbers_is_like_a_counter(ops: list[tuple[int, int]]) -> None:
    numbers, counter = Numbers(), Counter[int]()
    for key, number in ops:
        assert numbers[key] == counter[key]
        numbers[key] = counter[key] = number
        other = key ^ 1 << 63
        numbers.update({other: 1})
        counter.update({other: 1})
    numbers.update({})
    assert dict(numbers.items()) == {key: counter[key] for key in numbers}
    assert {key: number for key, number in numbers.items() if number} == {
        key: number for key, number in counter.items() if number
    }


class Thing:
    def __init__(self, number: int) -> None:
        self.ticket = 0
        self.priority: Priority = (0, number)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5) | st.none()), max_size=200))
def test_heads_give_the_best_as_it_is_now(ops: list[tuple[int, int | None]]) -> None:
    things = [Thing(number) for number in range(5)]
    heads, inside = Heads[Thing](lambda thing: thing.priority), set[Thing]()
    for number, score in ops:
        if score is not None:
            things[number].priority = (score, number)
            heads.append(things[number])
            inside.add(things[number])
        elif inside:
            best = min(inside, key=lambda thing: thing.priority)
            assert heads.first() is best
            assert heads.popleft() is best
            inside.remove(best)
        assert len(heads) == len(inside)
    assert len(heads._heap) <= 2 * len(heads) + 64


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 5) | st.none()), max_size=200))
def test_grouped_heads_give_the_best_of_the_group_at_hand(
    ops: list[tuple[int, int | None]],
) -> None:
    things, hand = [Thing(number) for number in range(9)], 0
    groups = {thing: number % 3 for number, thing in enumerate(things)}
    heads = GroupedHeads[Thing](lambda thing: thing.priority, groups.__getitem__, lambda: hand)
    inside = set[Thing]()
    for number, score in ops:
        if score is not None:
            things[number].priority = (score, number)
            heads.append(things[number])
            inside.add(things[number])
        elif inside:
            hand = number % 4
            at_hand = {thing for thing in inside if groups[thing] == hand} or inside
            best = min(at_hand, key=lambda thing: thing.priority)
            assert heads.first() is best
            assert heads.popleft() is best
            inside.remove(best)
        assert bool(heads) == bool(inside)


def test_a_full_disk_keeps_urls_in_memory_until_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    left, write = [0], os.pwrite

    def pwrite(file: int, data: bytes, offset: int) -> int:
        if left[0] <= 0:
            raise OSError(28, "No space left on device")
        written = write(file, data[: left[0]], offset)
        left[0] -= written
        return written

    monkeypatch.setattr(os, "pwrite", pwrite)
    urls = [found(key, SITES[key % 3]) for key in range(6000)]
    with SpillFiles(tmp_path / "frontier") as files:
        bench = Workbench(config.Politeness(delay_s=0), config.Retry(), None, files, 1000)
        for number, url in enumerate(urls):
            if number == 2000:
                assert bench.backlog._store.on_disk == 0
                left[0] = 30_000  # for some chunks, and a part of one
            if number == 4000:
                left[0] = 10**9
            bench.enqueue(url)
        assert bench.backlog.waiting == 6000
        assert bench.backlog._store.on_disk > 2000
        come: dict[str, list[CrawlUrl]] = {site: [] for site in SITES}
        while (visit := bench.acquire(0)) is not None:
            come[visit.found.site].append(visit.found)
            bench.end(visit, DONE, 0)
    assert come == {site: [url for url in urls if url.site == site] for site in SITES}
    said = [record.getMessage() for record in caplog.records]
    assert said.count("there is room again for waiting URLs") in {1, 2}
    assert any("frontier: No space left on device; waiting URLs stay in memory" in s for s in said)


def test_spill_files_go_when_all_of_them_has_been_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spill, "_FILE_BYTES", 100)
    directory = tmp_path / "frontier"
    directory.mkdir()
    (directory / "000000").write_bytes(b"left by a killed run")
    with SpillFiles(directory) as files:
        chunks = {files.put(bytes([number]) * 60): number for number in range(6)}  # two a file
        assert len(list(directory.iterdir())) == 3
        for place, number in reversed(chunks.items()):
            assert files.take(place) == bytes([number]) * 60
        assert len(list(directory.iterdir())) == 1  # it may be written to
        assert files.take(files.put(b"")) == b""
    assert not directory.exists()
