"""Models: their costs are the counts of the evaluation, and their units fit."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partition import evaluate, models, webgraph
from partition.hypergraph import connectivity_minus_one
from partition.models import SHARE, Graph, Objective, Units
from partition.webgraph import WebGraph


def edge_cut(graph: Graph, part: np.ndarray) -> int:
    rows = np.repeat(np.arange(len(graph.weights)), np.diff(graph.xadj))
    return int(graph.costs[part[rows] != part[graph.adj]].sum()) // 2


@st.composite
def webs(draw: st.DrawFn) -> tuple[WebGraph, np.ndarray, np.ndarray, int]:
    """A web, the unit of each page, and the part of each unit."""
    n, k = draw(st.integers(1, 12)), draw(st.integers(1, 5))

    def column(low: int, high: int) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=n, max_size=n))

    pages = st.integers(0, n - 1)
    links = draw(st.lists(st.tuples(pages, pages), max_size=40))
    web = webgraph.from_arrays(
        [source for source, _ in links],
        [target for _, target in links],
        site=column(0, 4),
        sites=[f"{letter}.example" for letter in "abcde"],
        bytes=column(0, 1000),
        url_bytes=column(1, 99),
    )
    unit = np.unique(column(0, 5), return_inverse=True)[1].astype(np.int32)
    return web, unit, np.array(column(0, k - 1), np.int32)[: unit.max() + 1], k


@given(webs())
def test_costs_are_the_counts(case: tuple[WebGraph, np.ndarray, np.ndarray, int]) -> None:
    web, unit, part, parts = case
    counts = evaluate.evaluate(web, part[unit], parts)
    graph = models.graph(web, unit)
    assert edge_cut(graph, part) == counts.volume_bytes
    assert connectivity_minus_one(models.as_hypergraph(graph), part) == counts.volume_bytes
    for objective in (
        models.MESSAGES,
        models.VOLUME,
        Objective(0, 3, remember=True),
        Objective(5, 0, remember=True),
    ):
        net = models.hypergraph(web, unit, objective)
        paid = connectivity_minus_one(net, part) * (objective.t_start or objective.t_byte)
        assert paid == objective.value(counts)
    for net in (graph, models.hypergraph(web, unit)):
        assert net.weights[:, 0].tolist() == np.bincount(unit, web.bytes).tolist()
        assert net.weights[:, 1].tolist() == np.bincount(unit).tolist()


@given(webs())
def test_messages_of_sites(case: tuple[WebGraph, np.ndarray, np.ndarray, int]) -> None:
    web, _, part, parts = case
    whole = np.resize(part, len(web.sites))
    counts = evaluate.evaluate(web, whole[web.site], parts)
    net = models.hypergraph(web, web.site, models.SITE_MESSAGES)
    assert connectivity_minus_one(net, whole) == counts.messages_site_part
    assert models.SITE_MESSAGES.value(counts) == counts.messages_site_part


@given(webs(), st.booleans())
def test_mixed_costs_are_in_proportion(
    case: tuple[WebGraph, np.ndarray, np.ndarray, int], remember: bool
) -> None:
    web, unit, part, parts = case
    objective = Objective(0.02, 0.001, remember=remember)
    net = models.hypergraph(web, unit, objective)
    apart = np.arange(len(part), dtype=np.int32)
    whole = objective.value(evaluate.evaluate(web, apart[unit], len(apart)))
    value = objective.value(evaluate.evaluate(web, part[unit], parts))
    most = connectivity_minus_one(net, apart)
    share = connectivity_minus_one(net, part) / most if most else 0
    assert share == pytest.approx(value / whole if whole else 0, abs=1e-6)


def test_site_graph() -> None:
    """Sites X (pages 0, 1), Y (2), Z (3): two links X -> Y, one back, one Y -> Z."""
    web = webgraph.from_arrays(
        [0, 0, 1, 2, 2],
        [1, 2, 2, 0, 3],
        site=[0, 0, 1, 2],
        bytes=[10, 20, 5, 0],
        url_bytes=[1, 10, 100, 1000],
    )
    sites = models.graph(web, models.units(web, Units.SITES, 2, {}))
    assert sites.weights.tolist() == [[30, 2], [5, 1], [0, 1]]
    assert sites.xadj.tolist() == [0, 1, 3, 4]
    assert sites.adj.tolist() == [1, 0, 2, 1]
    assert sites.costs.tolist() == [201, 201, 1000, 1000]


def test_site_hypergraph_merges_equal_nets() -> None:
    """Pages 0 and 1 of X both link to Y, page 1 twice; page 2 of Y links to Z; links inside don't
    count: nets {X, Y} at cost 2 and {Y, Z} at cost 1."""
    web = webgraph.from_arrays(
        [0, 0, 1, 1, 2], [1, 2, 2, 3, 4], site=[0, 0, 1, 1, 2], sites=["X", "Y", "Z"]
    )
    net = models.hypergraph(web, models.units(web, Units.SITES, 2, {}))
    nets = {
        tuple(sorted(net.pins[low:high].tolist())): cost
        for low, high, cost in zip(net.xpins[:-1], net.xpins[1:], net.costs.tolist(), strict=True)
    }
    assert nets == {(0, 1): 2, (1, 2): 1}


TREE = ["h/", "h/", "h/a/", "h/a/", "h/a/x/", "h/b/", "h/b/", "h/b/", "h/b/y/"]


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (9, [[0, 1, 2, 3, 4, 5, 6, 7, 8]]),  # all fits
        (4, [[0, 1], [2, 3, 4], [5, 6, 7, 8]]),  # into directories
        (3, [[0, 1], [2, 3, 4], [5, 6, 7], [8]]),  # b is split, its own pages fit
        (2, [[0, 1], [2, 3], [4], [5], [6], [7], [8]]),  # b's own pages don't
    ],
)
def test_split_tree(share: int, expected: list[list[int]]) -> None:
    weights = np.ones((9, 2), np.int64)
    unit = models.split_tree(TREE, weights, np.array([100.0, share]))
    groups: dict[int, list[int]] = {}
    for page, number in enumerate(unit.tolist()):
        groups.setdefault(number, []).append(page)
    assert sorted(groups.values()) == expected


def test_directories() -> None:
    texts = ["http://h/", "http://h/a/b?c/d", "http://h/a/", "h", "h/~u/x", "http://h"]
    assert models.directories(texts) == [
        "http://h/",
        "http://h/a/",
        "http://h/a/",
        "h/",
        "h/~u/",
        "http://h/",
    ]


urls = st.lists(
    st.lists(st.sampled_from(["a", "b", ""]), max_size=4).map(
        lambda steps: "/".join(["http://h", *steps, "p"])
    ),
    min_size=1,
    max_size=30,
)


@given(urls, st.data())
def test_the_nearest_listed_directory_has_the_majority(
    texts: list[str], data: st.DataObject
) -> None:
    folders = models.directories(texts)
    part = [data.draw(st.integers(0, 2)) for _ in texts]
    site = data.draw(st.integers(0, 2))
    listed = models.directory_parts(folders, part, [site] * len(texts))
    for folder in folders:
        below = Counter(p for f, p in zip(folders, part, strict=True) if f.startswith(folder))
        most = min(below.items(), key=lambda item: (-item[1], item[0]))[0]
        above = [prefix for prefix in listed if folder.startswith(prefix)]
        assert (listed[max(above, key=len)] if above else site) == most


@given(webs(), urls, st.integers(1, 6), st.booleans())
def test_hybrid_units_fit(
    case: tuple[WebGraph, np.ndarray, np.ndarray, int],
    texts: list[str],
    parts: int,
    has_urls: bool,
) -> None:
    """Whatever holds more than one page fits or is a whole group; no unit mixes two groups."""
    web = case[0]
    if has_urls:
        web = replace(web, texts=lambda pages: [texts[page % len(texts)] for page in pages])
    together = {"a.example": "1", "b.example": "1"}
    unit = models.units(web, Units.HYBRID, parts, together)
    assert sorted(set(unit.tolist())) == list(range(unit.max() + 1))
    whole = models.units(web, Units.SITES, parts, together)
    assert len(set(zip(unit.tolist(), whole.tolist(), strict=True))) == unit.max() + 1
    share = SHARE * np.array([web.bytes.sum(), web.pages]) / parts
    for number in range(unit.max() + 1):
        inside = unit == number
        weight = np.array([web.bytes[inside].sum(), inside.sum()])
        assert inside.sum() == 1 or (weight <= share).all()


def test_sites_with_the_same_address_are_one_unit() -> None:
    web = webgraph.from_arrays([], [], site=[0, 1, 2, 3], sites=["a", "b", "c", "d"])
    unit = models.units(web, Units.SITES, 2, {"a": "10.0.0.1", "c": "10.0.0.1", "d": "10.0.0.2"})
    assert unit.tolist() == [0, 1, 0, 2]
    assert models.units(web, Units.PAGES, 2, {"a": "1", "c": "1"}).tolist() == [0, 1, 2, 3]


def test_a_heavy_group_is_split_into_its_sites_first() -> None:
    """Sites a (2 pages) and b (2) share a server; of 4 parts with 2 pages, 0.25 is half a page."""
    web = webgraph.from_arrays([], [], site=[0, 0, 1, 1, *[2] * 28], sites=["a", "b", "c"])
    unit = models.units(web, Units.HYBRID, 4, {"a": "1", "b": "1"})  # 8 pages a part, 2 fit
    assert unit[0] == unit[1] != unit[2] == unit[3]
