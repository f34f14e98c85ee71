"""Messages, outboxes, quota, and the detection of the end against schedules meant to fool it."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler import config
from crawler.exchange import (
    Batch,
    Message,
    Note,
    Outboxes,
    Quota,
    Report,
    Sums,
    Termination,
    decode,
    encode,
)
from crawler.ports import Found

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


@settings(max_examples=60, deadline=None)
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


def found(number: int, length: int = 20) -> Found:
    site = "http://a.example"
    return Found(number, f"{site}/{number}/".ljust(length, "x"), site, 0)


def boxes(pages: int = 10, size: int = 1000, delay_s: float = 5) -> Outboxes:
    return Outboxes(
        4,
        config.Exchange.model_validate(
            {"batch_pages": pages, "batch_bytes": size, "max_delay_s": delay_s}
        ),
    )


def due(outboxes: Outboxes, now: float, pages: int, *, everything: bool = False) -> list[int]:
    return [rank for rank, _ in outboxes.due(now, pages, everything=everything)]


def test_a_url_stands_once_in_a_batch_with_its_count() -> None:
    outboxes = boxes()
    outboxes.add(1, found(1), 0, 0)
    outboxes.add(1, found(2)._replace(hops=3, chain=(7, 2**64 - 1)), 0, 0)
    box = outboxes.open(1, 0, 0)
    assert [outboxes.count_again(1, found(n).key) for n in (1, 1, 3)] == [True, True, False]
    batch = box.batch(load=9, number=0)
    assert batch.urls == [found(1).url, found(2).url]
    assert batch.counts == [3, 1]
    assert batch.hops == [0, 3]
    assert batch.chains == {1: (7, 2**64 - 1)}
    assert batch.load == 9


def test_a_batch_leaves_after_so_many_pages() -> None:
    outboxes = boxes(pages=10)
    outboxes.add(1, found(1), 0, 5)
    outboxes.add(1, found(2), 0, 14)  # doesn't make the batch younger
    assert due(outboxes, 0, 14) == []
    assert due(outboxes, 0, 15) == [1]
    assert due(outboxes, 0, 99) == []


def test_a_batch_leaves_when_it_is_long() -> None:
    outboxes = boxes(size=1000)
    outboxes.add(2, found(1, length=998), 0, 0)
    assert due(outboxes, 0, 0) == []
    outboxes.add(2, found(2), 0, 0)
    assert due(outboxes, 0, 0) == [2]


def test_a_batch_leaves_when_it_is_old() -> None:
    outboxes = boxes(delay_s=5)
    assert outboxes.next_time() is None
    outboxes.open(3, 2, 0).claims.append("http://b.example")
    outboxes.add(1, found(1), 3, 0)
    outboxes.open(3, 6, 0).claims.append("http://c.example")
    assert outboxes.next_time() == 7
    assert due(outboxes, 6.75, 0) == []
    assert due(outboxes, 7, 0) == [3]
    assert outboxes.next_time() == 8


@given(st.floats(0, 1e6), st.floats(0.001, 100))
def test_the_oldest_batch_is_due_at_the_time_that_next_time_gives(
    born: float, delay_s: float
) -> None:
    outboxes = boxes(delay_s=delay_s)
    outboxes.add(1, found(1), born, 0)
    time = outboxes.next_time()
    assert time is not None
    assert due(outboxes, time, 0) == [1]


@pytest.mark.parametrize(
    ("what", "value"), [("ask", True), ("stop", True), ("allow", 3), ("returned", 3)]
)
def test_what_a_rank_may_stand_still_for_leaves_at_once(what: str, value: object) -> None:
    outboxes = boxes()
    outboxes.add(2, found(1), 0, 0)
    setattr(outboxes.open(1, 0, 0, urgent=True), what, value)
    ((rank, box),) = outboxes.due(0, 0, everything=False)
    assert rank == 1
    assert getattr(box.batch(0, 0), what) == value
    assert len(outboxes) == 1


def test_everything_leaves_when_asked_to() -> None:
    outboxes = boxes()
    outboxes.add(2, found(1), 0, 0)
    outboxes.open(0, 0, 0).grants["http://b.example"] = 1
    assert sorted(due(outboxes, 0, 0, everything=True)) == [0, 2]
    assert len(outboxes) == 0
    assert outboxes.next_time() is None


@settings(max_examples=150, deadline=None)
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
    now, pages = 0.0, 0
    held: dict[int, dict[int, int]] = {rank: {} for rank in range(4)}  # URL -> links
    born: dict[int, tuple[float, int]] = {}

    def take(*, everything: bool = False) -> None:
        for rank, box in outboxes.due(now, pages, everything=everything):
            batch = box.batch(0, 0)
            assert dict(zip(batch.urls, batch.counts, strict=True)) == {
                found(number).url: links for number, links in held.pop(rank).items()
            }
            held[rank] = {}
            del born[rank]
        for rank, (time, page) in born.items():  # what stays may stay
            assert now - time < 5
            assert pages - page < 4
            assert sum(len(found(number).url) + 1 for number in held[rank]) < 150

    for rank, number, seconds, fetched, look in steps:
        now, pages = now + seconds, pages + fetched
        if not outboxes.count_again(rank, found(number).key):
            assert number not in held[rank]
            outboxes.add(rank, found(number), now, pages)
        held[rank][number] = held[rank].get(number, 0) + 1
        born.setdefault(rank, (now, pages))
        if look:
            take()
    take(everything=True)
    assert not any(held.values())


# --- page quota -------------------------------------------------------------------------------


@settings(deadline=None)
@given(
    st.integers(0, 300),
    st.integers(1, 7),
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 40), st.integers(0, 40)), max_size=60),
)
def test_quota_never_exceeds_the_limit_and_none_lies_while_a_rank_waits(
    limit: int, ranks: int, steps: list[tuple[int, int, int]]
) -> None:
    """Ranks ask, fetch some of what they have and return some."""
    quota = Quota(limit, ranks)
    has, fetched = [0] * ranks, 0
    waiting: list[int] = []
    for number, fetches, returns in steps:
        rank = number % ranks
        if has[rank] == 0 and rank not in waiting:
            waiting.append(rank)
            quota.ask(rank)
        for to, pages in quota.grants():
            assert to == waiting.pop(0)  # in the order of asking
            assert pages >= 1
            has[to] += pages
        done = min(fetches, has[rank])
        fetched += done
        has[rank] -= done
        back = min(returns, has[rank])
        has[rank] -= back
        quota.give_back(back)
        assert sum(has) + fetched <= limit
    for to, pages in quota.grants():
        assert to == waiting.pop(0)
        has[to] += pages
    if waiting:
        assert sum(has) + fetched == limit


def test_a_limit_of_one_page_goes_to_the_first_who_asks() -> None:
    quota = Quota(1, 7)
    for rank in (3, 0, 5):
        quota.ask(rank)
    assert list(quota.grants()) == [(3, 1)]
    quota.give_back(1)
    assert list(quota.grants()) == [(0, 1)]


# --- the end of the crawl ---------------------------------------------------------------------


class EarlyEndError(AssertionError):
    """An end was declared with work left."""


def detect(make: Callable[[int], Termination], seed: int) -> None:
    """Ranks that do nothing but send each other work; `make` has to notice when it is over.

    Whatever can happen next is drawn at random: any message in flight arrives, any busy rank
    sends work or becomes passive. A message may so be overtaken by any number of others.
    """
    chance = random.Random(seed)
    ranks = chance.randint(1, 5)
    ends = [make(ranks) for _ in range(ranks)]
    budget = chance.randint(0, 30)  # work that may still be sent: the computation is finite
    busy = [chance.random() < 0.5 for _ in range(ranks)]
    sent, received = [0] * ranks, [0] * ranks
    work: list[int] = []  # receivers of what is in flight
    control: list[tuple[int, int, Report | Sums]] = []  # sender, receiver, message
    slow = chance.choice([0.1, 0.5, 0.9])  # how likely work is overtaken by control messages
    for _ in range(20_000):
        for rank in range(ranks):
            while not busy[rank] and (report := ends[rank].join(sent[rank], received[rank])):
                if rank:
                    control.append((rank, 0, report))
                else:
                    collect(ends, control, 0, report)
        if any(end.ended for end in ends) and (work or any(busy)):
            raise EarlyEndError(f"seed {seed}: {len(work)} in flight, busy {busy}")
        if all(end.ended for end in ends):
            assert not control
            return
        kinds = ["work"] * bool(work) + ["control"] * bool(control) + ["rank"] * any(busy)
        kind = chance.choice(kinds)  # IndexError: nothing can happen, and no end was noticed
        if kind == "work" and len(kinds) > 1 and chance.random() < slow:
            continue
        if kind == "work":
            rank = work.pop(chance.randrange(len(work)))
            received[rank] += 1
            busy[rank] = True
        elif kind == "control":
            sender, rank, message = control.pop(chance.randrange(len(control)))
            if isinstance(message, Report):
                collect(ends, control, sender, message)
            else:
                ends[rank].conclude(message)
        else:
            rank = chance.choice([rank for rank in range(ranks) if busy[rank]])
            if budget and ranks > 1 and chance.random() < 0.6:
                budget -= 1
                sent[rank] += 1
                work.append(chance.choice([other for other in range(ranks) if other != rank]))
            else:
                busy[rank] = False
    raise AssertionError(f"seed {seed}: no end after 20,000 events")


def collect(
    ends: list[Termination],
    control: list[tuple[int, int, Report | Sums]],
    sender: int,
    report: Report,
) -> None:
    sums = ends[0].collect(sender, report)
    if sums is not None:
        control += [(0, rank, sums) for rank in range(1, len(ends))]
        ends[0].conclude(sums)


class OneWave(Termination):
    """The classic mistake: equal counts in one wave, taken at different moments."""

    def conclude(self, sums: Sums) -> None:
        super().conclude(sums)
        self.ended = sums.sent == sums.received


class Backwards(Termination):
    """Another: this wave's received against the last one's sent."""

    _sent_before: int | None = None

    def conclude(self, sums: Sums) -> None:
        super().conclude(sums)
        self.ended = self._sent_before == sums.received
        self._sent_before = sums.sent


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32))
def test_the_end_is_never_early_and_always_comes(seed: int) -> None:
    detect(Termination, seed)


@pytest.mark.parametrize("wrong", [OneWave, Backwards])
def test_the_same_schedules_catch_a_wrong_detection(wrong: type[Termination]) -> None:
    def try_many() -> None:
        for seed in range(2000):
            detect(wrong, seed)

    with pytest.raises(EarlyEndError):
        try_many()


def test_a_rank_joins_a_wave_once() -> None:
    end = Termination(2)
    assert end.join(3, 4) == Report(0, 3, 4)
    assert end.join(3, 4) is None
    end.conclude(Sums(0, 3, 4))
    assert end.join(3, 4) == Report(1, 3, 4)


def test_two_quiet_waves_end_a_crawl_and_nothing_is_reported_after() -> None:
    end = Termination(1)
    for wave in range(2):
        report = end.join(5, 5)
        assert report is not None
        sums = end.collect(0, report)
        assert sums == Sums(wave, 5, 5)
        assert not end.ended
        end.conclude(sums)
    assert end.ended
    assert end.join(5, 5) is None
