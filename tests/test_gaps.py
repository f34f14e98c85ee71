"""Gaps between requests, against what was promised: by hand, and at random."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from crawler.ports import Asked, CrawlDelay, Failure
from crawler.session.gaps import CANCELLED, Clock, Crowd, Gap, Requests
from crawler.session.timeline import Promise

T = 1_800_000_000.0
PROMISE = Promise(
    run=0,
    rank=0,
    host="one",
    boot="",
    offset=0.0,
    by_address=False,
    delay_s=1.0,
    connections=1,
    max_crawl_delay_s=60.0,
    base_s=1.0,
    busy_base_s=60.0,
    max_rest_s=3600.0,
    give_up_after=6,
)
HOST = "http://a.example"


def asked(start: float, seconds: float = 0.5, **fields: object) -> Asked:
    values: dict[str, object] = {
        "site": "a.example", "authority": HOST, "kind": "page", "key": 1, "status": 200,
    }  # fmt: skip
    return Asked(T + start, seconds, **(values | fields))  # type: ignore[arg-type]


def judge(
    requests: Iterable[tuple[Asked, Promise]],
    delays: Iterable[tuple[float, float]] = (),
) -> tuple[list[Gap | Crowd], Gap | None]:
    """What is impolite, and the smallest gap, of one site."""
    all_requests = Requests()
    for request, promise in requests:
        all_requests.add(request, promise)
    for time, delay_s in delays:
        all_requests.add_delay(CrawlDelay(T + time, HOST, delay_s), PROMISE)
    told: list[Gap | Crowd] = []
    ((site, clock),) = all_requests.judge(told.append)
    assert site == "a.example"
    assert clock.impolite == len(told)
    return told, clock.smallest


def by_one(*requests: Asked, promise: Promise = PROMISE) -> list[tuple[Asked, Promise]]:
    return [(one, promise) for one in requests]


def test_with_one_connection_a_gap_runs_from_end_to_start() -> None:
    told, smallest = judge(by_one(asked(0), asked(1.5), asked(3.1)))
    assert told == []
    assert smallest is not None
    assert smallest.seconds == pytest.approx(1.0)
    told, _ = judge(by_one(asked(0), asked(1.4)))
    (gap,) = told
    assert isinstance(gap, Gap)
    assert (round(gap.seconds, 6), gap.promised_s) == (0.9, 1.0)
    assert gap.why == "politeness.delay_s"


def test_with_several_connections_a_gap_runs_from_start_to_start() -> None:
    several = replace(PROMISE, connections=2)
    assert judge(by_one(asked(0, 1.5), asked(1), asked(2), promise=several))[0] == []
    told, _ = judge(by_one(asked(0, 0.1), asked(0.9, 0.1), promise=several))
    assert [round(gap.seconds, 6) for gap in told if isinstance(gap, Gap)] == [0.9]


def test_a_gap_runs_over_all_ranks_and_kinds() -> None:
    other = replace(PROMISE, rank=3)
    told, _ = judge(
        [
            (asked(0, kind="robots"), PROMISE),
            (asked(1.0), other),  # half a second after robots.txt
            (asked(2.5), PROMISE),
            (asked(4.0, authority="https://a.example"), other),
        ]
    )
    (gap,) = told
    assert isinstance(gap, Gap)
    assert (gap.before.asked.kind, gap.after.promise.rank) == ("robots", 3)


def test_more_requests_at_a_time_than_connections() -> None:
    promise = replace(PROMISE, connections=2, delay_s=0.0)
    told, _ = judge(by_one(asked(0, 5), asked(1, 5), asked(2, 1), asked(6), promise=promise))
    (crowd,) = told
    assert isinstance(crowd, Crowd)
    assert crowd.at.start == T + 2
    assert [event.start for event in crowd.under_way] == [T, T + 1]


def test_the_rounding_of_clocks_is_allowed() -> None:
    assert judge(by_one(asked(0), asked(1.4951)))[0] == []
    assert judge(by_one(asked(0), asked(1.49)))[0] != []
    free = replace(PROMISE, delay_s=0.0)
    assert judge(by_one(asked(0), asked(0.4999), promise=free))[0] == []
    assert judge(by_one(asked(0), asked(0.4), promise=free))[0] != []


def test_clocks_of_two_hosts_may_differ_by_a_second() -> None:
    far = replace(PROMISE, rank=1, host="two", delay_s=5.0)
    near = replace(PROMISE, delay_s=5.0)
    assert judge([(asked(0), near), (asked(4.6), far)])[0] == []
    assert judge([(asked(0), near), (asked(4.4), far)])[0] != []
    assert judge([(asked(0), near), (asked(4.6), near)])[0] != []


def test_a_crawl_delay_counts_as_soon_as_it_is_known() -> None:
    robots = asked(0, kind="robots")
    assert judge(by_one(robots, asked(3.5)), [(0.5, 3.0)])[0] == []
    (gap,) = judge(by_one(robots, asked(2.5)), [(0.5, 3.0)])[0]
    assert isinstance(gap, Gap)
    assert (gap.promised_s, gap.why) == (3.0, "the Crawl-delay of its robots.txt")
    # One that is shorter than delay_s, longer than it may be, or known later.
    assert judge(by_one(robots, asked(1.5)), [(0.5, 0.1)])[0] == []
    assert judge(by_one(robots, asked(1.5)), [(1.6, 3.0)])[0] == []
    assert judge(by_one(robots, asked(60.6)), [(0.5, 300.0)])[0] == []
    assert judge(by_one(robots, asked(50.0)), [(0.5, 300.0)])[0] != []
    # The robots.txt that was read last counts.
    assert judge(by_one(robots, asked(1.5)), [(0.5, 3.0), (0.6, 0.0)])[0] == []


def test_a_crawl_delay_with_several_connections() -> None:
    promise = replace(PROMISE, connections=3)
    requests = by_one(asked(0), asked(4), asked(6), promise=promise)
    (gap,) = judge(requests, [(3.0, 3.0)])[0]
    assert isinstance(gap, Gap)
    assert gap.after.start == T + 6


def test_a_crawl_delay_of_an_earlier_run_counts_up_to_the_later_limit() -> None:
    later = replace(PROMISE, run=1)
    assert judge([(asked(0), PROMISE), (asked(30.5), later)], [(0.5, 30.0)])[0] == []
    assert judge([(asked(0), PROMISE), (asked(20.5), later)], [(0.5, 30.0)])[0] != []
    less = replace(later, max_crawl_delay_s=10.0)
    assert judge([(asked(0), PROMISE), (asked(20.5), less)], [(0.5, 30.0)])[0] == []
    # In the later run it isn't known before robots.txt has been read again.
    assert judge([(asked(0), later), (asked(1.5), later)], [(0.5, 30.0)])[0] == []


def test_of_two_runs_the_smaller_delay_counts() -> None:
    slow = replace(PROMISE, run=1, delay_s=10.0)
    assert judge([(asked(0), PROMISE), (asked(1.5), slow)])[0] == []
    assert judge([(asked(0), slow), (asked(1.5), PROMISE)])[0] == []
    assert judge([(asked(0), slow), (asked(1.5), slow)])[0] != []


@pytest.mark.parametrize(
    ("failed", "rest_s", "why"),
    [
        ({"status": 503, "retry_after_s": 7.0}, 7.0, "the Retry-After of a 503"),
        ({"status": 429, "retry_after_s": 1e6}, 3600.0, "the Retry-After of a 429"),
        ({"status": 429}, 60.0, "retry.busy_base_s after a 429"),
        ({"status": None, "error": Failure.TIMEOUT.value}, 4.0, "retry.base_s after timeout"),
        ({"status": 500, "kind": "robots"}, 60.0, "retry.busy_base_s after a 500"),
    ],
)
def test_a_failure_is_followed_by_a_rest(
    failed: dict[str, object], rest_s: float, why: str
) -> None:
    promise = replace(PROMISE, base_s=4.0)
    early = by_one(asked(0, **failed), asked(0.99 * rest_s), promise=promise)
    gaps = [gap for gap in judge(early)[0] if isinstance(gap, Gap)]
    assert [(gap.promised_s, gap.why) for gap in gaps] == [(rest_s, why)]
    late = by_one(asked(0, **failed), asked(rest_s + 0.5), promise=promise)
    assert judge(late)[0] == []
    # By the other scheme of the host, too; and in the next run, up to its own limit.
    other = asked(0.99 * rest_s, authority="https://a.example")
    assert judge(by_one(asked(0, **failed), other, promise=promise))[0] != []
    assert judge([(asked(0, **failed), promise), (other, replace(promise, run=1))])[0] != []
    short = replace(promise, run=1, max_rest_s=2.0)
    assert judge([(asked(0, **failed), promise), (other, short)])[0] == []


def test_failures_without_a_rest() -> None:
    for fields in (
        {"status": 500},  # of a page: an answer like others
        {"status": None, "error": CANCELLED},
        {"status": None, "error": Failure.BAD_HTTP.value},
        {"status": None, "error": "moved"},
    ):
        assert judge(by_one(asked(0, **fields), asked(1.6)))[0] == []
    # A host that has been given up is asked no more, and its site doesn't rest for it.
    promise = replace(PROMISE, base_s=30.0, give_up_after=2)
    failed = {"status": None, "error": Failure.REFUSED.value}
    one, two = asked(0, **failed), asked(31, **failed)
    other = asked(33, authority="https://a.example")
    assert judge(by_one(one, two, other, promise=promise))[0] == []
    assert judge(by_one(one, two, other, promise=replace(promise, give_up_after=3)))[0] != []


def test_addresses_have_clocks_too() -> None:
    promise = replace(PROMISE, by_address=True)
    requests = Requests()
    for number, start in enumerate((0.0, 1.0, 2.5)):
        site = f"{number}.example"
        requests.add(asked(start, site=site, authority=f"http://{site}", address="::1"), promise)
    told: list[Gap | Crowd] = []
    clocks = dict(requests.judge(told.append))
    assert [what.clock for what in told] == ["::1"]
    assert [clocks[f"{number}.example"].impolite for number in range(3)] == [0, 1, 0]
    assert {clock.smallest for clock in clocks.values()} == {None}


@given(
    st.lists(st.tuples(st.floats(0, 100), st.floats(0, 3)), min_size=1, max_size=30),
    st.integers(1, 3),
    st.floats(0, 3),
)
def test_random_requests_are_judged_as_by_the_definition(
    times: list[tuple[float, float]], connections: int, delay_s: float
) -> None:
    promise = replace(PROMISE, connections=connections, delay_s=delay_s)
    told, smallest = judge(by_one(*(asked(*one) for one in times), promise=promise))
    spans = sorted((T + start, T + start + seconds) for start, seconds in times)
    allowed = 0.005 + 0.001 * delay_s
    gaps = []
    for at in range(1, len(spans)):
        before = [spans[at - 1][0]] if connections > 1 else [end for _, end in spans[:at]]
        gaps.append(spans[at][0] - max(before))
    assert (smallest is None) == (len(spans) == 1)
    if smallest is not None:
        assert smallest.seconds == pytest.approx(min(gaps), abs=1e-6)
    short = sum(gap < delay_s - allowed - 1e-6 for gap in gaps)
    unclear = sum(abs(gap - (delay_s - allowed)) <= 1e-6 for gap in gaps)
    assert short <= sum(isinstance(what, Gap) for what in told) <= short + unclear
    for what in told:
        if isinstance(what, Crowd):
            at = what.at.start
            others = [(one.start, one.end) for one in what.under_way]
            assert len(others) >= connections
            assert all(start <= at < end for start, end in others)


@given(
    st.lists(st.floats(0, 2), min_size=1, max_size=30),
    st.lists(st.floats(0, 2), min_size=30, max_size=30),
    st.floats(0, 5),
)
def test_a_polite_crawl_is_never_blamed(
    seconds: list[float], slack: list[float], delay_s: float
) -> None:
    now, requests = 0.0, []
    for number, (took, late) in enumerate(zip(seconds, slack, strict=False)):
        rank = replace(PROMISE, rank=number % 3, delay_s=delay_s)
        requests.append((asked(now, took), rank))
        now += took + delay_s + late
    assert judge(requests)[0] == []


_spans = st.tuples(
    st.integers(0, 30), st.sampled_from([0.0, 0.25, 0.5, 2.0]), st.sampled_from("ab")
)
_answers = st.sampled_from(
    [(200, None)] * 9 + [(404, None), (503, None), (429, None), (None, "dns")]
)


@given(
    st.lists(st.tuples(_spans, _answers), min_size=1, max_size=20),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.5]),
    st.booleans(),
    st.booleans(),
)
def test_quick_judgements_are_those_of_the_thorough_way(
    made: list[tuple[tuple[int, float, str], tuple[int | None, str | None]]],
    connections: int,
    delay_s: float,
    several_ranks: bool,
    has_delay: bool,
) -> None:
    promise = replace(PROMISE, connections=connections, delay_s=delay_s)
    other = replace(promise, rank=1) if several_ranks else promise

    def judge_all() -> tuple[list[Gap | Crowd], list[tuple[str, Clock]]]:
        requests, told = Requests(), list[Gap | Crowd]()
        for (start, seconds, name), (status, error) in made:
            one = asked(start / 4, seconds, site=name, authority=name, status=status, error=error)
            requests.add(one, other if start % 2 else promise)
        if has_delay:
            requests.add_delay(CrawlDelay(T, "a", 0.5), promise)
        return told, list(requests.judge(told.append))

    quick = judge_all()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("crawler.session.gaps._judge_calm", lambda site: None)
        assert judge_all() == quick


def test_of_each_robots_txt_the_last_delay_counts_and_of_a_site_the_longest() -> None:
    all_requests = Requests()
    authorities = {"http://x": [(1, 5.0), (3, 2.0), (2, 9.0)], "https://x": [(1, 90.0)]}
    authorities["http://y"] = [(1, 5.0), (2, 0.0)]
    for number, authority in enumerate(authorities):
        site = authority[-1]
        asked = Asked(T, 0.1, site, authority, "robots", number, 200, None, None, None)
        all_requests.add(asked, PROMISE)
        for time, delay_s in authorities[authority]:
            all_requests.add_delay(CrawlDelay(T + time, authority, delay_s), PROMISE)
    assert all_requests.crawl_delays() == {"x": 90.0}
