"""Hypergraphs: costs that can be counted by hand; contraction keeps them."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partition.hypergraph import (
    Hypergraph,
    connectivity_minus_one,
    contract,
    cut_net,
    imbalances,
    part_loads,
    simplify,
)


def hypergraph(nets, vertices, costs=None, weights=None):
    return Hypergraph(
        xpins=np.cumsum([0, *map(len, nets)]),
        pins=np.array([v for net in nets for v in net], np.int32),
        costs=np.ones(len(nets), np.int64) if costs is None else np.array(costs, np.int64),
        weights=np.ones((vertices, 2), np.int64) if weights is None else np.array(weights),
    )


def nets_of(h):
    """Each net as a set of pins, and its cost."""
    bounds = pairwise(h.xpins)
    return {
        frozenset(h.pins[first:last].tolist()): int(c)
        for (first, last), c in zip(bounds, h.costs, strict=True)
    }


# Three parts: {0, 1, 2}, {3}, {4, 5, 6}. Nets touch 1, 3, 2, 2 of them.
TOY = hypergraph([[0, 2], [0, 1, 3, 4], [3, 4, 6], [2, 5, 6]], 7)
TOY_PART = np.array([0, 0, 0, 1, 2, 2, 2], np.int32)


def test_costs_of_the_toy():
    assert connectivity_minus_one(TOY, TOY_PART) == 0 + 2 + 1 + 1
    assert cut_net(TOY, TOY_PART) == 0 + 1 + 1 + 1


def test_nets_count_by_their_cost():
    h = hypergraph([[0, 2], [0, 1, 3, 4], [3, 4, 6], [2, 5, 6]], 7, costs=[5, 10, 100, 1000])
    assert connectivity_minus_one(h, TOY_PART) == 2 * 10 + 100 + 1000
    assert cut_net(h, TOY_PART) == 10 + 100 + 1000


def test_imbalances_take_the_exact_mean():
    # Loads 3, 1, 3 of 7: the mean is 7/3, not its ceiling.
    assert imbalances(TOY, TOY_PART, 3) == pytest.approx((2 / 7, 2 / 7))
    weights = [[10, 0]] * 6 + [[40, 0]]
    h = hypergraph([], 7, weights=weights)
    assert imbalances(h, TOY_PART, 3) == (60 * 3 / 100 - 1, 0.0)
    assert part_loads(h.weights, TOY_PART, 4).tolist() == [[30, 0], [10, 0], [60, 0], [0, 0]]


def test_nets_of_vertices():
    xnets, nets = TOY.nets_of_vertices()
    rows = [nets[a:b].tolist() for a, b in pairwise(xnets)]
    assert rows == [[0, 1], [1], [0, 3], [1, 2], [1, 2], [3], [2, 3]]


def test_simplify():
    nets = [[0, 1], [1, 1], [], [1, 0, 0], [2], [0, 1, 2], [3, 1]]
    h = hypergraph(nets, 4, costs=[1, 2, 3, 4, 5, 6, 0])
    simple = simplify(h)
    assert nets_of(simple) == {frozenset([0, 1]): 5, frozenset([0, 1, 2]): 6}
    assert simple.weights.tolist() == h.weights.tolist()


def test_contract_the_toy():
    # {0, 2}, {1, 3}, {4}, {5, 6}: the first net is inside a unit.
    unit = np.array([0, 1, 0, 1, 2, 3, 3], np.int32)
    h = contract(TOY, unit, 4)
    assert nets_of(h) == {frozenset([0, 1, 2]): 1, frozenset([1, 2, 3]): 1, frozenset([0, 3]): 1}
    assert h.weights.tolist() == [[2, 2], [2, 2], [1, 1], [2, 2]]


def test_contract_leaves_out():
    unit = np.array([0, -1, 1, -1, 2, 3, 4], np.int32)
    h = contract(TOY, unit, 5)
    assert nets_of(h) == {
        frozenset([0, 1]): 1,
        frozenset([0, 2]): 1,
        frozenset([2, 4]): 1,
        frozenset([1, 3, 4]): 1,
    }
    assert len(h.weights) == 5


def test_the_empty_hypergraph():
    h = simplify(hypergraph([], 0, weights=np.zeros((0, 2), np.int64)))
    nothing = np.zeros(0, np.int32)
    assert (h.vertices, h.nets) == (0, 0)
    assert connectivity_minus_one(h, nothing) == cut_net(h, nothing) == 0
    assert imbalances(h, nothing, 3) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"xpins": [0, 4, 3]}, "ascending"),
        ({"xpins": [0, 1]}, "xpins"),
        ({"xpins": [0, 1, 2]}, "xpins"),
        ({"xpins": [1, 2, 3]}, "xpins"),
        ({"pins": [0, 1, 3]}, "pins"),
        ({"pins": [0, 1, -1]}, "pins"),
        ({"costs": [1, -1]}, "costs"),
        ({"weights": [[1, -1]] * 3}, "weights"),
        ({"weights": [[1]] * 3}, "weights"),
    ],
)
def test_malformed(change, word):
    arrays = {"xpins": [0, 1, 3], "pins": [0, 1, 2], "costs": [1, 1], "weights": [[1, 1]] * 3}
    types = {"pins": np.int32}
    with pytest.raises(ValueError, match=word):
        Hypergraph(**{k: np.array(v, types.get(k, np.int64)) for k, v in (arrays | change).items()})


@st.composite
def hypergraphs(draw):
    vertices = draw(st.integers(1, 9))
    pins = st.lists(st.integers(0, vertices - 1), max_size=6)
    nets = draw(st.lists(st.tuples(pins, st.integers(0, 5)), max_size=20))
    weights = draw(
        st.lists(
            st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=vertices, max_size=vertices
        )
    )
    return hypergraph([net for net, _ in nets], vertices, [c for _, c in nets], weights)


@given(hypergraphs(), st.data())
def test_a_contraction_costs_what_its_projection_costs(h, data):
    units = data.draw(st.integers(1, 5))
    unit = np.array(
        data.draw(st.lists(st.integers(0, units - 1), min_size=h.vertices, max_size=h.vertices)),
        np.int32,
    )
    coarse = contract(h, unit, units)
    part = np.array(
        data.draw(st.lists(st.integers(0, 2), min_size=units, max_size=units)), np.int32
    )
    assert connectivity_minus_one(coarse, part) == connectivity_minus_one(h, part[unit])
    assert cut_net(coarse, part) == cut_net(h, part[unit])
    assert imbalances(coarse, part, 3) == imbalances(h, part[unit], 3)
    assert len(nets_of(coarse)) == coarse.nets, "no two nets are alike"
    assert all(len(net) > 1 for net in nets_of(coarse))
    assert len(coarse.pins) == sum(map(len, nets_of(coarse))), "no pin stands twice"
