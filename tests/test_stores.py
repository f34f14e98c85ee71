"""The stores of URL-seen that answer at once, against a set."""

import subprocess
import sys
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from cluster import Cluster, Listed, link
from cluster import settings as configuration
from hypothesis import given, settings
from hypothesis import strategies as st
from webs import Setting, crawls

from crawler.core.ownership import SiteHash
from crawler.core.seen import UrlSeen
from crawler.messages import Batch
from crawler.stores.auto import AutoStore
from crawler.stores.memory import MemoryStore
from crawler.stores.runs import RunStore
from crawler.stores.segments import Segments

KEYS = st.integers(0, 40) | st.integers(0, 2**64 - 1) | st.just(2**64 - 1)
BATCHES = st.lists(st.lists(KEYS, max_size=30), max_size=12)


def as_array(keys: Iterable[int]) -> "np.ndarray":
    return np.array(list(keys), np.uint64)


@given(BATCHES)
def test_segments_tell_new_keys_from_known_ones(batches: list[list[int]]) -> None:
    segments, model = Segments(1 << 24), set[int]()
    for batch in batches:
        keys = as_array(batch)
        assert segments.known(keys).tolist() == [key for key in batch if key in model]
        expected = [key not in model and key not in batch[:at] for at, key in enumerate(batch)]
        assert segments.check(keys).tolist() == expected
        model.update(batch)
        assert len(segments) == len(model)
    assert sorted(key for piece in segments.pieces() for key in piece.tolist()) == sorted(model)


def test_segments_keep_all_keys_while_they_grow() -> None:
    keys = np.random.default_rng(1).integers(0, 2**64, 300_000, dtype=np.uint64)
    segments = Segments(1 << 26)
    for start in range(0, len(keys), 10_000):
        assert segments.check(keys[start : start + 10_000]).all()
    assert len(segments.known(keys)) == len(segments) == len(keys)
    assert not len(segments.known(keys + np.uint64(1)))
    together = np.concatenate(list(segments.pieces()))
    assert np.array_equal(np.sort(together), np.sort(keys))


def test_a_key_takes_at_most_11_bytes_at_any_moment() -> None:
    segments = Segments(1 << 26)
    keys = np.random.default_rng(2).integers(0, 2**64, 3_000_000, dtype=np.uint64)
    segments.check(keys[:1_000_000])
    for start in range(1_000_000, len(keys), 10_000):
        segments.check(keys[start : start + 10_000])
        largest = int(segments._spans[0, :-1].max())  # a copy of one segment while it grows
        assert segments.nbytes + 8 * largest <= 11 * len(segments)


def test_full_segments_say_so() -> None:
    segments = Segments(1 << 20)
    keys = np.arange(1, 200_000, dtype=np.uint64)
    with pytest.raises(MemoryError, match="full"):
        segments.check(keys)
    assert 100_000 < len(segments) < 131_072


def use(store: MemoryStore, pages: list[list[int]]) -> None:
    """Meet the links of pages as the door does, and compare with a set."""
    model: set[int] = set()
    for page in pages:
        met = store.among(iter(page))
        for key in page:
            assert (key in met) == (key in model)
            if key not in model:
                met.add(key)
                model.add(key)
            assert key in store
        assert len(store) == len(model)
    assert sorted(store) == sorted(model)


def heavy(store: MemoryStore) -> MemoryStore:
    """Let a store use segments from its next page on."""
    store.among(())
    assert store._loading is not None
    store._loading.result()
    return store


@given(BATCHES)
def test_memory_knows_every_key_ever_met(pages: list[list[int]]) -> None:
    use(MemoryStore(), pages)
    use(heavy(MemoryStore(light_keys=0)), pages)


@settings(deadline=None)
@given(BATCHES, st.integers(0, 60))
def test_a_store_moves_to_segments_by_itself(pages: list[list[int]], light_keys: int) -> None:
    store = MemoryStore(light_keys)
    model: set[int] = set()
    for page in pages:
        met = store.among(iter(page))
        assert [key in met for key in page] == [key in model for key in page]
        for key in page:
            met.add(key)
        model.update(page)
        if store._loading is not None:
            store._loading.result()
    assert sorted(store) == sorted(model)


def test_the_first_keys_move_in_steps() -> None:
    store = MemoryStore(light_keys=10_000)
    first = [key * 2**40 for key in range(10_000)]
    store.update(first)
    heavy(store)
    steps = 0
    while len(store.newest) or not steps:
        met = store.among([first[0], first[-1], 5])
        assert [key in met for key in (first[0], first[-1], 5)] == [True, True, False]
        assert len(store) == len(first)
        steps += 1
    assert steps > 3
    assert sorted(store) == first


def test_a_small_crawl_does_without_numba() -> None:
    """numba takes a second to import on each rank, and as much memory as 500,000 URLs in a set."""
    words = (
        "import sys; from pathlib import Path; from crawler.stores.auto import AutoStore;"
        "store = AutoStore(Path('unused'), 1 << 30);"
        "store.update(range(100_000)); store.among(());"
    )
    done = subprocess.run(
        [sys.executable, "-c", words + "print('numba' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"


# --- up to a budget in memory -----------------------------------------------------------------


def meet_all(store: AutoStore, keys: list[int]) -> None:
    """Meet keys in pages, each of which also has known keys."""
    for start in range(0, len(keys), 50):
        page = keys[start : start + 50]
        known = keys[start // 2 : start // 2 + 20] if start else []
        met = store.among(page + known)
        assert [key in met for key in page] == [False] * len(page)
        assert all(key in met for key in known)
        for key in page:
            met.add(key)
        for future in (store._memory._loading, store._loading):
            if future is not None:
                future.result()


@pytest.mark.parametrize("at_once", [False, True])
def test_a_store_moves_to_disk_without_losing_a_key(tmp_path: Path, at_once: bool) -> None:
    store = AutoStore(tmp_path / "seen", 1 << 22, at_once=at_once)
    keys = np.random.default_rng(3).integers(0, 2**64, 500_000, dtype=np.uint64).tolist()
    meet_all(store, keys[:100])
    assert store.give(1) != at_once
    assert not store.give(1)
    meet_all(store, keys[100:])
    assert store._runs is not None
    store._runs.settle()
    assert len(store._runs._runs) > 0
    assert store._runs.nbytes < 10 * len(keys)  # each small run has an index of 256 KiB
    assert len(store) == len(keys)
    assert sorted(store) == sorted(keys)
    store.close()
    assert not any(tmp_path.iterdir())


def test_a_store_within_its_budget_writes_nothing(tmp_path: Path) -> None:
    store = AutoStore(tmp_path / "seen", 1 << 30)
    meet_all(store, list(range(10_000)))
    assert store._runs is None
    assert sorted(store) == list(range(10_000))
    assert not any(tmp_path.iterdir())
    store.close()


# --- in a crawl -------------------------------------------------------------------------------


def in_segments() -> MemoryStore:
    store = MemoryStore()
    store.segments = Segments(1 << 22)
    return store


def on_disk() -> RunStore:
    """A store on disk whose files last as long as it."""
    folder = TemporaryDirectory()
    store = RunStore(Path(folder.name), table_keys=8, cache_keys=4)
    weakref.finalize(store, folder.cleanup)
    return store


@pytest.mark.parametrize("make_store", [in_segments, on_disk], ids=["segments", "disk"])
@settings(max_examples=60, deadline=None)
@given(
    crawls(),
    st.sampled_from(["exchange", "exchange", "cross-over", "independent"]),
    st.sampled_from(["breadth-first", "backlinks", "opic"]),
)
def test_a_crawl_is_the_same_with_each_store(
    make_store: Callable[[], UrlSeen], setting: Setting, mode: str, order: str
) -> None:
    overrides = f"session.mode={mode}", f"frontier.order={order}"
    crawl = setting.simulation(*overrides)
    other = setting.simulation(*overrides, make_seen=make_store, make_sent=make_store)
    for one in (crawl, other):
        one.run(setting.seeds)
    assert (other.order, other.by, other.times) == (crawl.order, crawl.by, crawl.times)
    assert [core.traffic for core in other.cores] == [core.traffic for core in crawl.cores]


@pytest.mark.parametrize("make_store", [in_segments, on_disk], ids=["segments", "disk"])
def test_a_long_page_sends_no_url_again(make_store: Callable[[], MemoryStore]) -> None:
    """The links of a long page are admitted in steps, and each step looks anew."""
    chosen = configuration("exchange.batch_pages=1")
    cluster = Cluster(SiteHash(2), 2, chosen, make_seen=make_store, make_sent=make_store)
    homes = [f"http://s{number}.example/" for number in range(9)]
    own, theirs = (
        next(home for home in homes if cluster.cores[0].ownership.owner(link(home)) == rank)
        for rank in range(2)
    )
    links = [link(f"{theirs}{number}") for number in range(1200)]
    cluster.start(own)
    cluster.fetch(0, own, link(own + "next"), *links[600:])
    cluster.fetch(0, own + "next", *links)
    assert cluster.cores[0].traffic.transmissions_target_part == len(links)


@pytest.mark.parametrize("make_store", [in_segments, on_disk], ids=["segments", "disk"])
def test_a_batch_that_ends_a_claim_brings_no_url_twice(
    make_store: Callable[[], UrlSeen],
) -> None:
    """The batch tells who owns the site, so the held URL is admitted before that of the batch."""
    chosen = configuration("assignment.unlisted=claim")
    cluster = Cluster(Listed(3, {"a.example": 0}), 3, chosen, make_seen=make_store)
    core = cluster.cores[0]
    homes = [f"http://s{number}.example/" for number in range(9)]
    home = next(one for one in homes if core.ownership.registrar(link(one).site) == 1)
    cluster.start("http://a.example/")
    cluster.fetch(0, "http://a.example/", link(home + "held"))
    assert core.door.claims.holds
    core.received(2, Batch(urls=[home, home + "held"], counts=[1, 1], hops=[1, 1]), cluster.now)
    assert core.waiting == 2
