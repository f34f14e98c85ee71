"""What a rank does with a store on disk that answers late: candidates, crawls, resumes."""

import itertools
import os
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from cluster import Cluster, link, settings
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from webs import Setting, crawls, exact, reachable
from worlds import assert_stop_doubles_nothing

from crawler import url
from crawler.core.schemes import SiteHash
from crawler.core.seen import Candidate
from crawler.core.snapshot import KeysPiece
from crawler.ports import ANEW, CrawlUrl
from crawler.reading.cookies import Cookie, Jar
from crawler.stores import late
from crawler.stores.batch_store import BatchStore
from crawler.stores.drum import Drum
from crawler.stores.late import LateStore
from crawler.stores.veuniq import Veuniq

Make = Callable[[Path], BatchStore]
STORES: dict[str, Make] = {
    "drum, each cycle": lambda path: Drum(path, 1),
    "drum, native": lambda path: Drum(path, 2, bucket_bytes=200),
    "veuniq": lambda path: Veuniq(path, 4, max_delay_s=1),
    "veuniq, in turn": lambda path: Veuniq(path, 3, in_turn=True),
    "veuniq, texts": lambda path: Veuniq(path, 2, records="texts"),
}
EACH = pytest.mark.parametrize("make", STORES.values(), ids=STORES)
Maker = Callable[[Make], LateStore]
ONE_MAKER = [HealthCheck.function_scoped_fixture]  # each store that it makes has its own folder


@pytest.fixture
def maker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Maker]:
    """Makes stores that have cycles even in small crawls, in folders of their own."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(late, "_CYCLE", 5)
    monkeypatch.setattr(late, "_ANSWERS", 3)
    made: list[LateStore] = []

    def new(make: Make) -> LateStore:
        for old in made[:-7]:  # of the crawls before, of up to 7 ranks
            old.close()
        made[:-7] = []
        number = next(numbers)
        store = make(tmp_path / str(number))
        prefers = isinstance(store, Veuniq) and number % 2 > 0
        made.append(LateStore(store, 1.0, prefers=prefers))
        return made[-1]

    numbers = itertools.count()
    yield new
    for store in made:
        store.close()


def found(number: int, *chain: int) -> CrawlUrl:
    site = f"s{number % 3}.example"
    text = f"http://{site}/{number}"
    return CrawlUrl(url.key(text), text, site, number, chain)


def answers(store: LateStore, now: float = 0) -> list[tuple[Candidate, bool]]:
    """All answers of a store that must hurry."""
    given: list[tuple[Candidate, bool]] = []
    while store.pending:
        given += store.take_answers(now, hurry=True)
    while store.next_time() is not None:  # the cycle ends
        assert list(store.take_answers(now, hurry=True)) == []
    return given


@EACH
def test_a_candidate_comes_back_as_it_was(maker: Maker, make: Make) -> None:
    store = maker(make)
    cookie = Cookie("name", "\xff", "s1.example", below=True, path="/", secure=False)
    candidates = [
        Candidate(found(1), None),
        Candidate(found(2), found(1), links=4),
        Candidate(found(3, 5, ANEW, 2**64 - 1), found(2, 7), Jar((cookie,)), is_foreign=True),
    ]
    for candidate in candidates:
        store.submit(candidate, 0)
    given = answers(store)
    assert sorted(given) == sorted((candidate, True) for candidate in candidates)
    assert set(store) == {candidate.found.key for candidate in candidates}


@EACH
def test_the_first_of_a_key_is_answered_first(maker: Maker, make: Make) -> None:
    store = maker(make)
    submitted: list[Candidate] = []
    for number in (1, 2, 1, 3, 1, 2):
        submitted.append(Candidate(found(number), None, links=len(submitted)))
        store.submit(submitted[-1], 0)
    given = answers(store)
    for number in (1, 2, 3):
        of_key = [candidate for candidate in submitted if candidate.found == found(number)]
        given_of_key = [pair for pair in given if pair[0].found == found(number)]
        assert given_of_key == [(one, one is of_key[0]) for one in of_key]


@EACH
def test_what_was_noted_is_known(maker: Maker, make: Make) -> None:
    store = maker(make)
    store.update([found(1).key, found(2).key])
    store.update([])
    store.submit(Candidate(found(1), None), 0)
    store.submit(Candidate(found(3), None), 0)
    store.update([found(4).key])
    assert {candidate.found: new for candidate, new in answers(store)} == {
        found(1): False,
        found(3): True,
    }
    assert set(store) == {found(number).key for number in (1, 2, 3, 4)}


@EACH
def test_a_candidate_is_answered_in_time(maker: Maker, make: Make) -> None:
    """Nothing hurries, and there are too few candidates for a cycle."""
    store = maker(make)
    store.submit(Candidate(found(1), None), now=10)
    assert store.next_time() == 11
    assert list(store.take_answers(10.9, hurry=False)) == []
    assert store.next_time() == 11
    store.submit(Candidate(found(2), None), now=10.9)
    now, given = 11.0, list[tuple[Candidate, bool]]()
    while (time := store.next_time()) is not None:
        now = max(now, time)
        given += store.take_answers(now, hurry=False)
    assert {candidate.found for candidate, _ in given} == {found(1), found(2)}
    assert now <= 12


def test_a_call_gives_few_answers_of_many(maker: Maker) -> None:
    store = maker(STORES["veuniq"])
    for number in range(100):
        store.submit(Candidate(found(number), None), 0)
    calls = 0
    while store.pending:
        assert len(list(store.take_answers(0, hurry=True))) <= 3
        calls += 1
    assert calls > 33


@EACH
@examples(max_examples=15, suppress_health_check=ONE_MAKER)
@given(setting=crawls())
def test_simulated_crawls_fetch_the_same_pages(maker: Maker, make: Make, setting: Setting) -> None:
    simulation = setting.simulation(make_seen=lambda: maker(make))
    simulation.run(setting.seeds)
    fetched = [page for pages in simulation.fetched for page in pages]
    assert set(fetched) == reachable(setting.web, setting.seeds)
    assert all(core.ended and core.complete for core in simulation.cores)
    if exact(setting):
        assert len(set(fetched)) == len(fetched)
        in_memory = setting.simulation()
        in_memory.run(setting.seeds)
        urls, others = (
            [sum(getattr(core.traffic, name) for core in one.cores) for name in TRAFFIC]
            for one in (simulation, in_memory)
        )
        if "listed" not in str(type(setting.scheme)).lower():  # claims go to who comes first
            assert urls == others


TRAFFIC = ("inter_part_urls", "messages_page_part")


@EACH
@examples(max_examples=20, suppress_health_check=ONE_MAKER)
@given(seed=st.integers(0, 2**32), ranks=st.integers(1, 4), moment=st.integers(0, 150))
def test_redirects_and_stops(maker: Maker, make: Make, seed: int, ranks: int, moment: int) -> None:
    assert_stop_doubles_nothing(
        random.Random(seed),
        lambda _, *more: Cluster(
            SiteHash(ranks), ranks, settings(*more), make_seen=lambda: maker(make)
        ),
        moment,
    )


def test_a_snapshot_goes_from_one_store_to_another(maker: Maker) -> None:
    """A stop with B waiting. Each store in turn takes over what the one before has known."""
    a, b = "http://a.example/", "http://b.example/"
    cluster = Cluster(SiteHash(1), 1, settings(), make_seen=lambda: maker(STORES["veuniq"]))
    cluster.start(a, b)
    for _ in range(50):
        cluster.tick(0)
    cluster.fetch(0, a, link(a))
    for make in STORES.values():
        core = cluster.cores[0]
        core.halt.stop(cluster.now)
        for _ in range(50):
            cluster.tick(0)
        state = core.resumption.state()
        assert state is not None
        state.pieces = list(state.pieces)
        (seen,) = [piece.keys for piece in state.pieces if isinstance(piece, KeysPiece)]
        assert set(np.frombuffer(seen, np.uint64)) == {url.key(a), url.key(b)}
        cluster = Cluster(SiteHash(1), 1, settings(), make_seen=partial(maker, make))
        resumption = cluster.cores[0].resumption
        resumption.begin()
        for _ in resumption.restore(state):
            pass
        resumption.end(wholly=True)
    cluster.fetch(0, b, link(a), link(b))
    for _ in range(100):
        cluster.tick(0)
    assert cluster.complete
