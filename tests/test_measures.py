"""The measures against webs that can be counted by hand, and against plain definitions."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from known_webs import keys, known_web, part_of
from tabled import together

from crawler.ports import Peers
from crawler.report.course import Responses, Sent, series_together
from crawler.report.measures import (
    Point,
    overlap,
    position,
    quality,
    series,
)


@given(st.sets(st.integers(0, 50)), st.lists(st.integers(0, 60)))
def test_position(known: set[int], sought: list[int]) -> None:
    order = sorted(known)
    assert position(keys(*order), keys(*sought)).tolist() == [
        order.index(key) if key in known else -1 for key in sought
    ]


def test_quality_is_the_share_of_the_most_important_pages_among_the_first_fetched() -> None:
    importance = np.array([5, 1, 4, 4])  # the order of importance: 0, 2, 3, 1
    fetched = np.array([1, 0, -1, 2, 3])
    assert quality(fetched, importance, [1, 2, 3, 4, 5]) == [0, 1 / 2, 1 / 3, 3 / 4, 1]


@given(
    st.lists(st.integers(0, 9), min_size=1),
    st.lists(st.integers(0, 3), min_size=10, max_size=10),
)
def test_quality_by_its_definition(pages: list[int], importance: list[int]) -> None:
    fetched = list(dict.fromkeys(pages))
    ranked = sorted(range(10), key=lambda page: (-importance[page], page))
    for number in range(1, len(fetched) + 1):
        best = set(ranked[:number])
        expected = len(best & set(fetched[:number])) / len(best)
        assert quality(np.array(fetched), np.array(importance), [number]) == [expected]


def test_the_series_of_a_crawl_that_fetches_a_page_twice() -> None:
    web = known_web(keys(1, 2, 3, 4), keys(1, 2, 3), keys(3, 3, 1))
    points = series(
        keys(1, 2, 1, 9, 3),
        np.array([True, False, True, True, True]),
        np.array([100.0, 101, 102, 103, 104]),
        np.array([0, 2, 2, 6, 10]),
        web,
    )
    assert [point.pages for point in points] == [1, 2, 3, 4, 5]
    assert [point.seconds for point in points] == [0, 1, 2, 3, 4]
    assert [point.overlap for point in points] == [0, 0, 1 / 2, 1 / 3, 1 / 4]
    assert [point.coverage for point in points] == [1 / 4, 1 / 4, 1 / 4, 1 / 4, 2 / 4]
    # By back-links: 3 with two, then 1 with one.
    assert [point.quality for point in points] == [0, 1 / 2, 1 / 2, 2 / 3, 3 / 4]
    assert [point.communication_overhead for point in points] == [0, 1, 2 / 3, 6 / 4, 2]
    assert points[-1].quality_pagerank == 3 / 4


def test_a_page_that_was_asked_again_with_a_cookie_is_no_overlap() -> None:
    rows = keys(1, 2, 1, 9, 9, 9)
    again = np.array([False, False, True, False, True, False])
    points = series(rows, np.ones(6, bool), np.arange(6.0), None, None, again=again)
    assert [point.overlap for point in points] == [0, 0, 0, 0, 0, 1 / 3]


def test_what_is_not_known_is_none() -> None:
    (point,) = series(keys(1), np.array([True]), np.array([0.0]), None, None)
    assert point == (1, 0, 0, None, None, None, None)
    assert series(keys(), np.zeros(0, bool), np.zeros(0), None, None) == []
    assert overlap(0, 0) is None
    (point,) = series(keys(1), np.array([True]), np.array([0.0]), None, None, keys(1, 2))
    assert point.coverage == 1 / 2


def test_a_long_series_has_a_hundred_points() -> None:
    pages = 12_345
    points = series(
        np.arange(pages, dtype=np.uint64), np.ones(pages, bool), np.arange(pages) * 1.0, None, None
    )
    assert len(points) == 100
    assert points[-1].pages == pages


_page = st.tuples(st.integers(1, 12), st.booleans(), st.integers(0, 9), st.booleans())


@given(
    st.lists(st.lists(_page, max_size=8), min_size=1, max_size=5),
    st.one_of(st.none(), st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=12)),
    st.one_of(st.none(), st.sets(st.integers(1, 15))),
    st.booleans(),
)
def test_several_processes_count_the_same_series(
    by_process: list[list[tuple[int, bool, int, bool]]],
    links: list[tuple[int, int]] | None,
    reachable: set[int] | None,
    exchanges: bool,
) -> None:
    web = None
    if links is not None:
        sources, targets = (keys(*(link[at] for link in links)) for at in (0, 1))
        web = known_web(keys(*range(1, 10)), sources, targets)
    known = None if reachable is None else keys(*reachable)
    sent = [Sent(np.array([0.0, 2e-6, 5e-6]), np.array([0.0, 3, 4]))] * 2 if exchanges else None
    pages = sorted((page for its in by_process for page in its), key=lambda page: page[2])
    columns = list(zip(*pages, strict=True)) or [()] * 4
    seconds = np.array(columns[2], np.int64) / 1e6
    expected = series(
        keys(*columns[0]),
        np.array(columns[1], bool),
        seconds,
        None if sent is None else np.array([6 * (t >= 2e-6) + 2 * (t >= 5e-6) for t in seconds]),
        web,
        known,
        np.array(columns[3], bool),
    )

    async def count(peers: Peers) -> list[Point]:
        own = list(zip(*by_process[peers.rank], strict=True)) or [()] * 4
        kinds = (np.uint64, np.int64, np.bool_, np.bool_)
        chosen = (own[0], own[2], own[1], own[3])
        responses = Responses(*map(np.array, chosen, kinds))
        its = None if web is None else part_of(web, peers)
        return await series_together(
            responses, sent if peers.rank == 0 else None, its, known, peers
        )

    assert together(len(by_process), count) == [expected] * len(by_process)
