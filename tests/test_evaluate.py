"""The counts of an assignment, against brute force, theorem and hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from partition import evaluate, webgraph
from partition.partvector import jump_hash
from partition.webgraph import WebGraph

# Mt-KaHyPar's toy hypergraph {0,2}, {0,1,3,4}, {3,4,6}, {2,5,6}, each net a page with its links.
TOY = [(0, 2), (1, 0), (1, 3), (1, 4), (3, 4), (3, 6), (5, 2), (5, 6)]
TOY_PARTS = np.array([0, 0, 0, 1, 2, 2, 2], np.int32)


def web_of(links: list[tuple[int, int]], n: int, **columns: object) -> WebGraph:
    columns.setdefault("site", list(range(n)))
    return webgraph.from_arrays([s for s, _ in links], [t for _, t in links], **columns)


def connectivity_minus_one(nets: list[set[int]], part: list[int]) -> int:
    return sum(len({part[pin] for pin in net}) - 1 for net in nets)


@st.composite
def assigned_webs(draw: st.DrawFn) -> tuple[WebGraph, list[int], int]:
    n, parts = draw(st.integers(1, 12)), draw(st.integers(1, 5))

    def column(top: int) -> list[int]:
        return draw(st.lists(st.integers(0, top), min_size=n, max_size=n))

    pages = st.integers(0, n - 1)
    links = draw(st.lists(st.tuples(pages, pages), max_size=40))
    web = web_of(links, n, site=column(3), bytes=column(1000), url_bytes=column(99))
    return web, column(parts - 1), parts


@given(assigned_webs())
def test_counts_as_by_brute_force(case: tuple[WebGraph, list[int], int]) -> None:
    web, part, parts = case
    pages, sites, sent, volume, inter = set(), set(), set(), 0, 0
    for source in range(web.pages):
        for target in web.adj[web.xadj[source] : web.xadj[source + 1]].tolist():
            if part[source] != part[target]:
                pages.add((source, part[target]))
                sites.add((int(web.site[source]), part[target]))
                sent.add((target, part[source]))
                volume += int(web.url_bytes[target])
                inter += 1
    loads = [[0, 0] for _ in range(parts)]
    for page in range(web.pages):
        loads[part[page]][0] += int(web.bytes[page])
        loads[part[page]][1] += 1

    counts = evaluate.evaluate(web, np.array(part, np.int32), parts)
    assert counts.messages_page_part == len(pages)
    traffic = [[0] * parts for _ in range(parts)]
    for page, to in pages:
        traffic[part[page]][to] += 1
    assert evaluate.traffic(web, np.array(part, np.int32), parts).tolist() == traffic
    assert counts.messages_site_part == len(sites)
    assert counts.transmissions_target_part == len(sent)
    assert counts.transmission_bytes == sum(int(web.url_bytes[target]) for target, _ in sent)
    assert (counts.volume_bytes, counts.inter_part_links) == (volume, inter)
    assert counts.loads.tolist() == loads


@given(assigned_webs())
def test_messages_and_transmissions_are_connectivity_minus_one(
    case: tuple[WebGraph, list[int], int],
) -> None:
    web, part, parts = case
    links = list(zip(web.sources().tolist(), web.adj.tolist(), strict=True))
    by_source = [{page} | {t for s, t in links if s == page} for page in range(web.pages)]
    by_target = [{page} | {s for s, t in links if t == page} for page in range(web.pages)]
    counts = evaluate.evaluate(web, np.array(part, np.int32), parts)
    assert counts.messages_page_part == connectivity_minus_one(by_source, part)
    assert counts.transmissions_target_part == connectivity_minus_one(by_target, part)


def test_toy_hypergraph() -> None:
    """Connectivity - 1 is 0 + 2 + 1 + 1; cut nets would be 3, so a mix-up shows."""
    assert evaluate.evaluate(web_of(TOY, 7), TOY_PARTS, 3).messages_page_part == 4
    backwards = web_of([(target, source) for source, target in TOY], 7)
    assert evaluate.evaluate(backwards, TOY_PARTS, 3).transmissions_target_part == 4


def test_a_site_in_several_parts_sends_as_one() -> None:
    """Pages 0 and 1 of one site lie in parts 0 and 1 and both link to part 2: one pair."""
    web = web_of([(0, 2), (1, 2)], 3, site=[0, 0, 1], url_bytes=[1, 1, 30])
    counts = evaluate.evaluate(web, np.array([0, 1, 2], np.int32), 3)
    assert (counts.messages_page_part, counts.messages_site_part) == (2, 1)
    assert (counts.transmissions_target_part, counts.transmission_bytes) == (2, 60)


def test_imbalance_is_against_the_exact_mean() -> None:
    """Loads 3, 2, 2 pages: 3 / (7 / 3) - 1 = 2 / 7, where the mean rounded up would give 0."""
    counts = evaluate.evaluate(web_of([], 7), np.array([0, 0, 0, 1, 1, 2, 2], np.int32), 3)
    assert counts.imbalance_requests == pytest.approx(2 / 7)
    nothing = web_of([], 2, bytes=[0, 0])
    assert evaluate.evaluate(nothing, np.array([0, 1], np.int32), 2).imbalances == (0, 0)


def test_baselines() -> None:
    web = web_of([], 3, site=[1, 0, 1], sites=["a", "b"], key=[2**64 - 1, 8, 10])
    assert evaluate.url_hash(web, 7).tolist() == [(2**64 - 1) % 7, 1, 3]
    a, b = (jump_hash(xxh3_64_intdigest(site.encode()), 64) for site in web.sites)
    assert evaluate.site_hash(web, 64).tolist() == [b, a, b]


@pytest.mark.parametrize(
    ("site", "hashed"),
    [
        ("www.a.co.uk:81", "uk"),
        ("a.co.uk", "uk"),
        ("localhost", "localhost"),
        ("10.0.0.1", "10.0.0.1"),
        ("[::1]:81", "::1"),
    ],
)
def test_hierarchical_goes_by_top_level_domain(site: str, hashed: str) -> None:
    web = web_of([], 1, site=[0], sites=[site])
    expected = jump_hash(xxh3_64_intdigest(hashed.encode()), 64)
    assert evaluate.hierarchical(web, 64).tolist() == [expected]
