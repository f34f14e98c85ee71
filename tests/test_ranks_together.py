"""Coarsening and refining on several ranks: nothing is lost, and the number of ranks is no matter.

Each test divides a hypergraph among fake ranks, at random.
"""

import itertools
import json
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from conftest import MpiRun
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from tabled import together
from test_ranks import BUILD

from crawler.ports import Peers
from partition import models
from partition.arrays import Ids, Ints
from partition.hypergraph import (
    Hypergraph,
    connectivity_minus_one,
    imbalances,
    merged,
    part_loads,
    simplify,
)
from partition.models import MODELS, Objective
from partition.multilevel.limits import own_limits
from partition.multilevel.state import judged
from partition.partvector import PartVector
from partition.ranks import build, coarsening, groups, refining, searching, shares
from partition.ranks.exchange import reduced
from partition.settings import Settings

FEWER = examples(max_examples=examples().max_examples // 4)  # each takes many steps on all ranks
TOLERANCES = (0.05, 0.05)


@st.composite
def hypergraphs(draw: st.DrawFn) -> Hypergraph:
    vertices = draw(st.integers(2, 30))
    dice = np.random.default_rng(draw(st.integers(0, 999)))
    return made(dice, vertices, draw(st.integers(0, 60)))


def made(dice: np.random.Generator, vertices: int, nets: int, near: int = 6) -> Hypergraph:
    """A hypergraph whose nets connect mostly vertices with near numbers."""
    sizes = dice.integers(2, 6, nets)
    start = np.repeat(dice.integers(0, vertices, nets), sizes)
    far = dice.random(len(start)) < 0.1
    offsets = np.where(
        far, dice.integers(0, vertices, len(start)), dice.integers(0, near, len(start))
    )
    return Hypergraph(
        np.append(0, np.cumsum(sizes)),
        ((start + offsets) % vertices).astype(np.int32),
        dice.integers(1, 9, nets),
        dice.integers(0, 50, (vertices, 2)) + 1,
    )


def pairs_of(h: Hypergraph) -> tuple[Ints, Ints, Ints]:
    """A pair for the first two pins of each net."""
    low, high = h.pins[h.xpins[:-1]], h.pins[h.xpins[:-1] + 1]
    across = low != high
    return models.summed(low[across], high[across], h.costs[across])


async def dealt(h: Hypergraph, seed: int, peers: Peers) -> shares.Share:
    """This rank's share, if each net and each pair was found by any rank."""
    at = np.random.default_rng(seed).integers(0, peers.size, h.nets) == peers.rank
    sizes = np.diff(h.xpins)
    own = Hypergraph(
        np.append(0, np.cumsum(sizes[at])), h.pins[np.repeat(at, sizes)], h.costs[at], h.weights
    )
    own, first = merged(own, np.arange(h.vertices, dtype=np.int32), h.vertices)
    keys = np.flatnonzero(at).astype(np.uint64)[first] + np.uint64(1)
    low, high, costs = pairs_of(h)
    mine = np.random.default_rng(seed + 1).integers(0, peers.size, len(low)) == peers.rank
    return await shares.shared(keys, own, (low[mine], high[mine], costs[mine]), peers)


def assert_equal(one: shares.Whole, other: shares.Whole) -> None:
    for name in ("xpins", "pins", "costs", "weights"):
        assert np.array_equal(getattr(one.hypergraph, name), getattr(other.hypergraph, name)), name
    for name in ("low", "high", "costs"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


@FEWER
@given(hypergraphs(), st.integers(1, 4), st.integers(0, 99), st.integers(1, 8))
def test_groups_cost_as_much_as_their_vertices(
    h: Hypergraph, ranks: int, seed: int, units: int
) -> None:
    dice = np.random.default_rng(seed)
    unit = dice.integers(0, units, h.vertices).astype(np.int32)
    part = dice.integers(0, 3, units).astype(np.int32)

    async def work(peers: Peers) -> tuple[shares.Whole | None, shares.Whole | None, int]:
        fine = await dealt(h, seed, peers)
        coarse = await shares.contracted(fine, unit, units, peers)
        held = await shares.ends(coarse, peers)
        return await shares.whole(fine, peers), await shares.whole(coarse, peers), held

    (fine, coarse, held), *_ = together(ranks, work)
    assert fine is not None
    assert coarse is not None
    own = simplify(h)
    for name in ("xpins", "costs", "weights"):
        assert np.array_equal(getattr(fine.hypergraph, name), getattr(own, name)), name
    assert held == len(coarse.hypergraph.pins) + 2 * len(coarse.low)
    assert coarse.hypergraph.nets == simplify(coarse.hypergraph).nets  # equal nets have met
    assert np.array_equal(coarse.hypergraph.weights, part_loads(h.weights, unit, units))
    assert connectivity_minus_one(coarse.hypergraph, part) == connectivity_minus_one(h, part[unit])
    low, high, costs = pairs_of(h)
    cut = part[coarse.low] != part[coarse.high]
    all_cut = part[unit][low] != part[unit][high]
    assert int(coarse.costs[cut].sum()) == int(costs[all_cut].sum())


@FEWER
@given(hypergraphs(), st.integers(2, 4), st.integers(0, 99), st.sampled_from([1, 3, 100]))
def test_clusters_keep_their_bounds_and_are_those_of_one_rank(
    h: Hypergraph, ranks: int, seed: int, pieces: int
) -> None:
    """In large pieces, clusters become heavier between the choice of a vertex and its join.

    Vertices of a cluster have the same label.
    """
    label = np.random.default_rng(seed).integers(0, 1 + seed % 3, h.vertices).astype(np.int32)
    bounds = np.array([100, 120])
    target = h.vertices // 3

    async def work(peers: Peers) -> tuple[Ids, int]:
        share = await dealt(h, seed, peers)
        nets = share.nets
        cost = np.bincount(nets.pins, np.repeat(nets.costs, np.diff(nets.xpins)), h.vertices)
        cost = await reduced(peers, cost.astype(np.int64))
        order = np.random.default_rng(seed).permutation(np.flatnonzero(cost).astype(np.int32))
        return await coarsening.cluster(
            share,
            order,
            cost,
            label=label,
            bounds=bounds,
            target=target,
            peers=peers,
        )

    with patch.object(coarsening, "_PIECES", pieces):
        (unit, units), *others = together(ranks, work)
        for other, number in (*others, *together(1, work)):
            assert np.array_equal(unit, other)
            assert number == units
    assert set(unit.tolist()) == set(range(units))
    assert units >= target
    assert len(np.unique(np.stack([unit, label]), axis=1).T) == units
    weights = part_loads(h.weights, unit, units)
    assert (weights[np.bincount(unit) > 1] <= bounds).all()


def test_vertices_of_wide_nets_alone_join_each_other() -> None:
    """Two nets with 400 pins each tie nothing, but a vertex joins others of its net."""
    pins = np.arange(800, dtype=np.int32)
    h = Hypergraph(np.array([0, 400, 800]), pins, np.ones(2, np.int64), np.ones((800, 2), np.int64))

    async def work(peers: Peers) -> tuple[Ids, int]:
        share = await dealt(h, 0, peers)
        return await coarsening.cluster(
            share,
            np.random.default_rng(1).permutation(pins),
            np.ones(800, np.int64),
            label=np.zeros(800, np.int32),
            bounds=np.array([10, 10]),
            target=100,
            peers=peers,
        )

    for unit, units in (*together(1, work), *together(3, work)):
        assert units == 100
        assert len(np.unique(pins // 400 * 1000 + unit)) == units  # none has pins of both nets


@FEWER
@given(
    hypergraphs(),
    st.integers(2, 4),
    st.integers(2, 4),
    st.integers(0, 99),
    st.sampled_from([1, 3, 32]),
)
def test_refining_is_never_worse_and_that_of_one_rank(
    h: Hypergraph, ranks: int, parts: int, seed: int, pieces: int
) -> None:
    part = np.random.default_rng(seed).integers(0, parts, h.vertices).astype(np.int32)
    limits = own_limits(h.weights, part, parts, TOLERANCES)

    async def work(peers: Peers) -> Ids:
        share = await dealt(h, seed, peers)
        return await refining.refined(share.nets, part, limits, seed=seed, peers=peers)

    with patch.object(refining, "_PIECES", pieces):
        found, *others = together(ranks, work)
        for other in (*others, *together(1, work)):
            assert np.array_equal(found, other)
    assert judged(h, found, limits) <= judged(h, part, limits)


def test_refining_finds_two_groups() -> None:
    """Ten vertices of each of two groups are in the wrong part. All return."""
    dice = np.random.default_rng(3)
    group = np.repeat([0, 1], 100).astype(np.int32)
    nets = np.concatenate(
        [dice.integers(0, 100, (400, 3)), dice.integers(100, 200, (400, 3))]
    ).astype(np.int32)
    h = Hypergraph(
        np.arange(801) * 3, nets.ravel(), np.ones(800, np.int64), np.ones((200, 2), np.int64)
    )
    start = group.copy()
    start[:10], start[100:110] = 1, 0

    async def work(peers: Peers) -> Ids:
        share = await dealt(h, 0, peers)
        return await refining.refined(
            share.nets, start, own_limits(h.weights, start, 2, TOLERANCES), seed=0, peers=peers
        )

    assert connectivity_minus_one(h, start) > 100
    assert np.array_equal(together(2, work)[0], group)


@FEWER
@given(
    hypergraphs(),
    st.integers(2, 4),
    st.integers(2, 6),
    st.integers(0, 99),
    st.integers(0, 200),
)
def test_groups_are_refined_never_worse_and_as_on_one_rank(
    h: Hypergraph, ranks: int, parts: int, seed: int, most: int
) -> None:
    """If no two parts fit into a group, nothing changes."""
    part = np.random.default_rng(seed).integers(0, parts, h.vertices).astype(np.int32)
    limits = own_limits(h.weights, part, parts, TOLERANCES)

    async def work(peers: Peers) -> Ids:
        share = await dealt(h, seed, peers)
        return await groups.regrouped(
            share.nets, part, limits, most_pins=most, seed=seed, peers=peers
        )

    found, *others = together(ranks, work)
    for other in (*others, *together(1, work)):
        assert np.array_equal(found, other)
    assert judged(h, found, limits) <= judged(h, part, limits)
    pins = np.bincount(part[simplify(h).pins], minlength=parts)
    if np.sort(pins)[:2].sum() > most:
        assert np.array_equal(found, part)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=12), st.integers(0, 60), st.integers(0, 9))
def test_groups_have_several_parts_and_fit(pins: list[int], most: int, seed: int) -> None:
    found = groups.drawn(np.array(pins), most, np.random.default_rng(seed))
    each = np.concatenate([np.empty(0, np.int32), *found])
    assert len(np.unique(each)) == len(each)
    for group in found:
        assert len(group) > 1
        assert sum(pins[b] for b in group) <= most
    rest = [count for b, count in enumerate(pins) if b not in each]
    assert all(one + other > most for one, other in itertools.combinations(rest, 2))
    if sum(pins) <= most and len(pins) > 1:
        assert len(each) == len(pins)
        assert len(found) == 1


def test_groups_find_what_rounds_of_all_ranks_do_not() -> None:
    """From a random partition, groups of two of four parts find 5 % less or better."""
    h = made(np.random.default_rng(5), 1000, 3000)
    start = np.random.default_rng(6).integers(0, 4, h.vertices).astype(np.int32)
    limits = own_limits(h.weights, start, 4, TOLERANCES)

    async def work(peers: Peers) -> tuple[Ids, Ids]:
        nets = (await dealt(h, 0, peers)).nets
        part = await refining.refined(nets, start, limits, seed=0, peers=peers)
        most = len(simplify(h).pins) * 2 // 3
        better = await groups.regrouped(nets, part, limits, most_pins=most, seed=0, peers=peers)
        return part, better

    part, better = together(2, work)[0]
    assert connectivity_minus_one(h, better) < 0.95 * connectivity_minus_one(h, part)
    assert max(imbalances(h, better, 4)) <= 0.05


def best(
    h: Hypergraph,
    ranks: int,
    parts: int,
    pins: int,
    model: str = "site-hypergraph",
    objective: Objective | None = None,
) -> Ids:
    """The parts that ranks find. Three neighbouring vertices are of a site."""
    settings = Settings(pins_per_rank=pins, objective=objective)
    site = np.arange(h.vertices, dtype=np.int32) // 3

    async def work(peers: Peers) -> Ids:
        share = await dealt(h, 0, peers)
        if not MODELS[model].hyper:
            share = shares.of_pairs(share)
        return await searching.best(share, site, 5_000_000, parts, MODELS[model], settings, peers)

    first, *others = together(ranks, work)
    assert all(np.array_equal(first, other) for other in others)
    return first


def volume(h: Hypergraph, part: Ids) -> int:
    low, high, costs = pairs_of(h)
    return int(costs[part[low] != part[high]].sum())


@pytest.mark.parametrize(
    ("model", "vertices", "parts"),
    [
        ("page-hypergraph", 3000, 4),
        *(
            pytest.param(model, 30_000, 16, marks=pytest.mark.slow)
            for model in ("page-graph", "page-hypergraph", "site-messages")
        ),
        pytest.param("hybrid", 3000, 4, marks=pytest.mark.slow),
    ],
)
def test_what_ranks_coarsen_costs_hardly_more(model: str, vertices: int, parts: int) -> None:
    """Three levels or more are coarsened together. The cost is within 3 % of one rank's."""
    h = made(np.random.default_rng(2), vertices, 4 * vertices, near=40)
    alone = best(h, 1, parts, 1 << 40, model)
    pins = 8 * vertices if MODELS[model].hyper else 2 * vertices
    found = best(h, 1, parts, pins, model)
    assert not np.array_equal(found, alone)
    assert max(imbalances(h, found, parts)) <= 0.05
    if model in {"page-graph", "hybrid"}:
        assert volume(h, found) <= 1.03 * volume(h, alone)
    if model != "page-graph":
        assert connectivity_minus_one(h, found) <= 1.03 * connectivity_minus_one(h, alone)
    assert np.array_equal(best(h, 2, parts, pins, model), found)


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_a_giant_keeps_the_balance_of_the_others(share: float) -> None:
    """Clusters may be heavier than parts without the giant, so limits are those of the vertices."""
    h = made(np.random.default_rng(4), 2000, 6000, near=40)
    others = h.weights.sum(axis=0)
    h.weights[7] = (others * share / (1 - share)).astype(np.int64)
    found = best(h, 2, 16, 2 * len(h.pins) // 3)
    assert np.array_equal(best(h, 1, 16, 2 * len(h.pins) // 3), found)
    loads = np.delete(part_loads(h.weights, found, 16), found[7], axis=0)
    assert (loads.max(axis=0) <= 1.05 * others / 15).all()
    alone = best(h, 1, 16, 1 << 40)
    assert connectivity_minus_one(h, found) <= 1.03 * connectivity_minus_one(h, alone)


def test_under_mpirun(tmp_path: Path, mpirun: MpiRun) -> None:
    """Two ranks coarsen 600 sites, and make the parts that one rank makes with the same limit."""
    command = [sys.executable, "-m", "benchmarks", "ranks", "make", str(tmp_path / "session")]
    command += ["--pages", "1500", "--sites", "600", "--links", "7"]
    subprocess.run(command, cwd=Path(__file__).parents[1], check=True)
    out = tmp_path / "ranks.parts"
    words = ["-k", "3", "--pins-per-rank", "1000", "--out", str(out), "--json"]
    done = mpirun(2, *BUILD, str(tmp_path / "session"), *words)
    assert done.returncode == 0, done.stderr
    assert "coarsening" in done.stderr
    assert "refining" in done.stderr

    async def work(peers: Peers) -> None:
        settings = Settings(pins_per_rank=1000)
        plan, hashed = await build(
            [tmp_path / "session"], 3, tmp_path / "one.parts", None, settings, peers
        )
        rows = json.loads(done.stdout)
        assert rows[0]["messages_page_part"] == plan.counts.messages_page_part
        assert rows[0]["messages_page_part"] < hashed.counts.messages_page_part / 2

    together(1, work)
    vectors = [PartVector.open(path) for path in (out, tmp_path / "one.parts")]
    assert np.array_equal(vectors[0].loads, vectors[1].loads)
