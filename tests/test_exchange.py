"""Messages and outboxes."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler import config
from crawler.core.outboxes import Outboxes
from crawler.messages import Batch, Message, Note, Report, Sums, decode, encode
from crawler.ports import CrawlUrl

# --- messages ---------------------------------------------------------------------------------

COUNTS = st.integers(0, 2**40)
KEYS = st.integers(0, 2**64 - 1)
TEXTS = st.lists(st.text(max_size=60), max_size=20)
MESSAGES = (
    st.builds(
        Batch,
        urls=TEXTS,
        counts=st.lists(COUNTS),
        hops=st.lists(COUNTS),
        chains=st.dictionaries(st.integers(0, 1000), st.lists(KEYS, max_size=5).map(tuple)),
        claims=TEXTS,
        grants=st.dictionaries(st.text(max_size=60), COUNTS),
        load=COUNTS,
        ask=st.booleans(),
        allow=COUNTS,
        returned=COUNTS,
        stop=st.booleans(),
    )
    | st.builds(Report, COUNTS, COUNTS, COUNTS)
    | st.builds(Sums, COUNTS, COUNTS, COUNTS)
    | st.builds(Note, COUNTS, COUNTS, COUNTS, COUNTS, TEXTS)
)


@settings(max_examples=60)
@given(MESSAGES, st.booleans())
def test_what_is_sent_arrives(message: Message, compress: bool) -> None:
    assert decode(encode(message, compress=compress)) == message


def test_compression_is_used_where_it_pays() -> None:
    batch = Batch(urls=[f"http://a.example/{i}" for i in range(100)], counts=[1] * 100)
    plain, small = encode(batch, compress=False), encode(batch, compress=True)
    assert len(small) < len(plain) / 3
    report = Report(1, 2, 3)
    assert encode(report, compress=True) == encode(report, compress=False)  # too short for it


# --- outboxes ---------------------------------------------------------------------------------


def found(number: int, length: int = 20) -> CrawlUrl:
    site = "a.example"
    return CrawlUrl(number, f"{site}/{number}/".ljust(length, "x"), site, 0)


def boxes(pages: int = 10, size: int = 1000, delay_s: float = 5) -> Outboxes:
    return Outboxes(
        4,
        config.Exchange(batch_pages=pages, batch_bytes=size, max_delay_s=delay_s),
    )


def due(outboxes: Outboxes, now: float, *, everything: bool = False) -> list[int]:
    return [rank for rank, _ in outboxes.due(now, everything=everything)]


def test_outboxes_say_how_much_memory_they_take() -> None:
    outboxes = boxes(size=10**9)
    assert outboxes.nbytes() == 0
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(20_000):
        outboxes.add(1 + number % 2, found(2**60 + number, 70), 0)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.8 < outboxes.nbytes() / (after - before) < 1.5
    assert len(outboxes.due(0, everything=True)) == 2
    assert outboxes.nbytes() == 0


def test_a_url_stands_once_in_a_batch_with_its_count() -> None:
    outboxes = boxes()
    outboxes.add(1, found(1), 0)
    outboxes.add(1, found(2)._replace(hops=3, chain=(7, 2**64 - 1)), 0)
    box = outboxes.open(1, 0)
    assert [outboxes.count_again(1, found(n).key) for n in (1, 1, 3)] == [True, True, False]
    batch = box.batch(load=9)
    assert batch.urls == [found(1).url, found(2).url]
    assert batch.counts == [3, 1]
    assert batch.hops == [0, 3]
    assert batch.chains == {1: (7, 2**64 - 1)}
    assert batch.load == 9


def test_a_batch_leaves_after_so_many_pages() -> None:
    outboxes = boxes(pages=10)
    outboxes.pages = 5
    outboxes.add(1, found(1), 0)
    outboxes.pages = 14
    outboxes.add(1, found(2), 0)  # doesn't make the batch younger
    assert due(outboxes, 0) == []
    outboxes.pages = 15
    assert due(outboxes, 0) == [1]
    outboxes.pages = 99
    assert due(outboxes, 0) == []


def test_a_batch_leaves_when_it_is_long() -> None:
    outboxes = boxes(size=1000)
    outboxes.add(2, found(1, length=998), 0)
    assert due(outboxes, 0) == []
    outboxes.add(2, found(2), 0)
    assert due(outboxes, 0) == [2]


def test_a_batch_leaves_when_it_is_old() -> None:
    outboxes = boxes(delay_s=5)
    assert outboxes.next_time() is None
    outboxes.open(3, 2).claims.append("b.example")
    outboxes.add(1, found(1), 3)
    outboxes.open(3, 6).claims.append("c.example")
    assert outboxes.next_time() == 7
    assert due(outboxes, 6.75) == []
    assert due(outboxes, 7) == [3]
    assert outboxes.next_time() == 8


@given(st.floats(0, 1e6), st.floats(0.001, 100))
def test_the_oldest_batch_is_due_at_the_time_that_next_time_gives(
    born: float, delay_s: float
) -> None:
    outboxes = boxes(delay_s=delay_s)
    outboxes.add(1, found(1), born)
    time = outboxes.next_time()
    assert time is not None
    assert due(outboxes, time) == [1]


@pytest.mark.parametrize(
    ("what", "value"), [("ask", True), ("stop", True), ("allow", 3), ("returned", 3)]
)
def test_what_a_rank_may_stand_still_for_leaves_at_once(what: str, value: object) -> None:
    outboxes = boxes()
    outboxes.add(2, found(1), 0)
    setattr(outboxes.open(1, 0, urgent=True), what, value)
    ((rank, box),) = outboxes.due(0, everything=False)
    assert rank == 1
    assert getattr(box.batch(0), what) == value
    assert len(outboxes) == 1


def test_everything_leaves_when_asked_to() -> None:
    outboxes = boxes()
    outboxes.add(2, found(1), 0)
    outboxes.open(0, 0).grants["b.example"] = 1
    assert sorted(due(outboxes, 0, everything=True)) == [0, 2]
    assert len(outboxes) == 0
    assert outboxes.next_time() is None


@settings(max_examples=150)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),  # rank
            st.integers(0, 15),  # URL
            st.sampled_from([0.0, 0.5, 3.0]),  # time that passes
            st.integers(0, 3),  # pages fetched meanwhile
            st.booleans(),  # look for what is due
        ),
        max_size=60,
    )
)
def test_no_url_is_lost_or_doubled_and_none_waits_too_long(
    steps: list[tuple[int, int, float, int, bool]],
) -> None:
    outboxes = boxes(pages=4, size=150, delay_s=5)
    now = 0.0
    held: dict[int, dict[int, int]] = {rank: {} for rank in range(4)}  # URL -> links
    born: dict[int, tuple[float, int]] = {}

    def take(*, everything: bool = False) -> None:
        for rank, box in outboxes.due(now, everything=everything):
            batch = box.batch(0)
            assert dict(zip(batch.urls, batch.counts, strict=True)) == {
                found(number).url: links for number, links in held.pop(rank).items()
            }
            held[rank] = {}
            del born[rank]
        for rank, (time, page) in born.items():  # what stays may stay
            assert now - time < 5
            assert outboxes.pages - page < 4
            assert sum(len(found(number).url) + 1 for number in held[rank]) < 150

    for rank, number, seconds, fetched, look in steps:
        now += seconds
        outboxes.pages += fetched
        if not outboxes.count_again(rank, found(number).key):
            assert number not in held[rank]
            outboxes.add(rank, found(number), now)
        held[rank][number] = held[rank].get(number, 0) + 1
        born.setdefault(rank, (now, outboxes.pages))
        if look:
            take()
    take(everything=True)
    assert not any(held.values())
