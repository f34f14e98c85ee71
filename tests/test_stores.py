"""The stores of URL-seen that answer at once, against a set."""

import resource
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterable
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import numpy as np
import pytest
from cluster import Cluster, Listed, link
from cluster import settings as configuration
from fakes import counted
from hypothesis import given, settings
from hypothesis import strategies as st
from test_scanner import can_compile
from webs import Setting, crawls

from crawler.core.schemes import SiteHash
from crawler.core.seen import UrlSeen
from crawler.messages import Batch
from crawler.stores import layout
from crawler.stores.auto import AutoStore
from crawler.stores.layout import BORDER, SIZE
from crawler.stores.memory import MemoryStore
from crawler.stores.runs import RunStore
from crawler.stores.table import IS_COMPILED, KeyTable, Loops, mixed, unmixed

KEYS = st.integers(0, 40) | st.integers(0, 2**64 - 1) | st.just(2**64 - 1)
BOTH = ("slots", "probing")
needs_slots = pytest.mark.skipif(
    not IS_COMPILED, reason="slots.pyx isn't compiled, and nothing here can compile it"
)
BATCHES = st.lists(st.lists(KEYS, max_size=30), max_size=12)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def as_array(keys: Iterable[int]) -> "np.ndarray":
    return np.array(list(keys), np.uint64)


@pytest.fixture(scope="module", params=BOTH)
def loops(request: pytest.FixtureRequest) -> Loops:
    """Those that were compiled with the crawler, if they were, and those of numba."""
    if request.param == "slots" and not IS_COMPILED:
        assert not can_compile(), "run `python hatch_build.py` (README.md)"
        pytest.skip("slots.pyx isn't compiled, and nothing here can compile it")
    return cast("Loops", import_module(f"crawler.stores.{request.param}"))


def test_the_loops_are_built_from_the_present_source(loops: Loops) -> None:
    if loops.__name__.endswith("slots"):
        source = Path(layout.__file__).with_name("slots.pyx").read_bytes()
        assert sha256(source).hexdigest() == loops.SOURCE, "run `python hatch_build.py`"


@needs_slots
@pytest.mark.parametrize("spread", [2**64, 2**34, 2**12])
@given(st.integers(0, 2**32), st.sampled_from([1 << 16, 1 << 18]))
@settings(max_examples=5)  # of 30 batches each
def test_both_loops_leave_the_same_slots_and_states(spread: int, seed: int, room: int) -> None:
    """Keys are spread over all places or crowd at some, also until the table is full."""
    dice = np.random.default_rng(seed)
    both = [KeyTable(room, import_module(f"crawler.stores.{name}")) for name in BOTH]
    for size in dice.integers(0, 1500, 30):
        keys = unmixed(
            dice.integers(0, spread, size, dtype=np.uint64) << np.uint64(dice.choice([0, 8]))
        )
        told = [answers(table, keys) for table in both]
        assert told[0] == told[1]
        assert np.array_equal(both[0]._slots, both[1]._slots)
        assert np.array_equal(both[0]._state, both[1]._state)


def answers(table: KeyTable, keys: np.ndarray) -> list[object]:
    told: list[object] = [table.missing(keys.copy()).tolist(), table.have(keys).tolist()]
    try:
        told.append(table.check(keys).tolist())
    except MemoryError as error:
        told.append(str(error))
    return told


@given(BATCHES)
def test_a_table_tells_new_keys_from_known_ones(loops: Loops, batches: list[list[int]]) -> None:
    table, model = KeyTable(1 << 24, loops), set[int]()
    for batch in batches:
        keys = as_array(batch)
        assert table.missing(keys.copy()).tolist() == [key for key in batch if key not in model]
        assert table.have(keys).tolist() == [key in table for key in batch]
        expected = [key not in model and key not in batch[:at] for at, key in enumerate(batch)]
        assert table.check(keys).tolist() == expected
        model.update(batch)
        assert len(table) == len(model)
    assert sorted(table) == sorted(model)


@pytest.mark.parametrize("spread", [2**64, 2**20])  # hashes, and numbers as of a simulator
def test_a_table_keeps_all_keys_while_it_grows(loops: Loops, spread: int) -> None:
    keys = np.random.default_rng(1).integers(0, spread, 300_000, dtype=np.uint64)
    keys = np.unique(keys)
    np.random.default_rng(2).shuffle(keys)
    table = KeyTable(1 << 26, loops)
    moving = 0
    for start in range(0, len(keys), 5_000):
        some = keys[start : start + 5_000]
        assert table.check(some).all()
        assert not table.check(some).any()
        known = keys[: start + len(some)]
        assert table.have(known).all()
        assert len(table.missing(keys.copy())) == len(keys) - len(known) == len(keys) - len(table)
        together = np.concatenate(list(table.pieces()))
        assert np.array_equal(together, np.sort(mixed(known)))
        moving += int(table._state[BORDER]) < int(table._state[SIZE])
    assert moving > 10  # looks were taken amid a growth
    assert np.array_equal(np.sort(unmixed(together)), np.sort(keys))


def test_a_key_takes_at_most_11_bytes_at_any_moment(loops: Loops) -> None:
    for most_bytes in (1 << 26, 1 << 30):  # with small pages, and with huge ones
        table = KeyTable(most_bytes, loops)
        keys = np.random.default_rng(2).integers(0, 2**64, 2_000_000, dtype=np.uint64)
        for start in range(0, len(keys), 10_000):
            table.check(keys[start : start + 10_000])
            assert table.nbytes <= 11 * len(table) + table._page_bytes  # it may be almost empty


def test_a_table_takes_no_more_memory_than_it_says(loops: Loops) -> None:
    before = resident_bytes()
    table = KeyTable(1 << 28, loops)
    for start in range(0, 1_500_000, 10_000):
        table.check(np.arange(start, start + 10_000, dtype=np.uint64))
    assert resident_bytes() - before < table.nbytes + (4 << 20)


def test_a_full_table_says_so(loops: Loops) -> None:
    table = KeyTable(1 << 20, loops)
    keys = np.arange(1, 200_000, dtype=np.uint64)
    with pytest.raises(MemoryError, match="full"):
        table.check(keys)
    assert 100_000 < len(table) < 131_072
    assert table.have(keys[: len(table)]).all()


def test_a_table_full_of_keys_that_belong_in_its_last_slots_says_so(loops: Loops) -> None:
    table = KeyTable(1 << 16, loops)
    last = unmixed(np.arange(2**64 - 9000, 2**64 - 1, dtype=np.uint64))
    with pytest.raises(MemoryError, match="full"):
        table.check(last)
    assert table.have(last[: len(table)]).all()
    assert not table.have(unmixed(as_array([2**64 - 1])))


def use(store: MemoryStore, pages: list[list[int]]) -> None:
    """Meet the links of pages as the door does, and compare with a set."""
    model: set[int] = set()
    for page in pages:
        unmet = store.unmet(iter(page))
        for key in page:
            assert (key in unmet) == (key not in model)
            if key not in model:
                unmet.discard(key)
                model.add(key)
            assert key in store
        assert len(store) == len(model)
    assert sorted(store) == sorted(model)


def heavy(store: MemoryStore) -> MemoryStore:
    """Let a store use a table from its next page on."""
    store.unmet(())
    assert store._loading is not None
    store._loading.result()
    return store


@given(BATCHES)
def test_memory_knows_every_key_ever_met(pages: list[list[int]]) -> None:
    use(MemoryStore(), pages)
    use(heavy(MemoryStore(light_keys=0)), pages)


@given(BATCHES, st.integers(0, 60))
def test_a_store_moves_to_a_table_by_itself(pages: list[list[int]], light_keys: int) -> None:
    store = MemoryStore(light_keys)
    model: set[int] = set()
    for page in pages:
        unmet = store.unmet(iter(page))
        assert [key in unmet for key in page] == [key not in model for key in page]
        for key in page:
            unmet.discard(key)
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
        assert store.unmet([first[0], first[-1], 5]) == {5}
        assert len(store) == len(first)
        steps += 1
    assert steps > 3
    assert sorted(store) == first


def test_a_store_that_only_takes_note_uses_a_table_too() -> None:
    """A resume notes the keys of an earlier run before it asks about any."""
    store = MemoryStore(light_keys=1000)
    store.update(range(5000))
    store.update(range(5000, 6000))
    assert store._loading is not None
    store._loading.result()
    for start in range(6000, 9000, 100):
        store.update(range(start, start + 100))
    assert store.table is not None
    assert len(store.newest) < 6000
    assert sorted(store) == list(range(9000))


WITHOUT_NUMBA = """
import sys
from pathlib import Path
from crawler.stores.auto import AutoStore
store = AutoStore(Path("unused"), 1 << 30)
store.update(range(100_000))
store.unmet(())
if store._memory._loading is not None:
    store._memory._loading.result()
store.update(range(200_000))
print("numba" in sys.modules, store._memory.table is not None)
"""


def test_a_crawl_within_its_budget_does_without_numba() -> None:
    """numba takes a second to import on each rank, and as much memory as 500,000 URLs in a set."""
    command = [sys.executable, "-c", WITHOUT_NUMBA]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"False {IS_COMPILED}\n"


# --- up to a budget in memory -----------------------------------------------------------------


def meet_all(store: AutoStore, keys: list[int]) -> None:
    """Meet keys in pages, each of which also has known keys."""
    for start in range(0, len(keys), 50):
        page = keys[start : start + 50]
        known = keys[start // 2 : start // 2 + 20] if start else []
        unmet = store.unmet(page + known)
        assert unmet == set(page)
        for key in page:
            unmet.discard(key)
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
    assert store._runs.nbytes() < 10 * len(keys)  # each small run has an index of 256 KiB
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


def in_a_table() -> MemoryStore:
    store = MemoryStore()
    store.table = KeyTable(1 << 22)
    return store


def on_disk() -> RunStore:
    """A store on disk whose files last as long as it."""
    folder = TemporaryDirectory()
    store = RunStore(Path(folder.name), table_keys=8, cache_keys=4)
    weakref.finalize(store, folder.cleanup)
    return store


@pytest.mark.parametrize("make_store", [in_a_table, on_disk], ids=["table", "disk"])
@settings(max_examples=60)
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
    assert counted(other.cores) == counted(crawl.cores)


@pytest.mark.parametrize("make_store", [in_a_table, on_disk], ids=["table", "disk"])
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


@pytest.mark.parametrize("make_store", [in_a_table, on_disk], ids=["table", "disk"])
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
