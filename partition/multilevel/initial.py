"""The first partition, on the coarsest level: halved, and halved again.

A halving is a small multilevel partition of its own: coarsened further, down to a few vertices, so
that heavy vertices which belong together move together. There one half grows from a random vertex;
both are refined on every level up again, like any partition, with two parts of as many shares of
the whole as parts are to come of them. The best of some tries is kept. A cut net goes on in both
halves with the pins that it has there, so that each further part adds its cost, which is
connectivity - 1.
"""

import numpy as np

from partition.hypergraph import Hypergraph, contract
from partition.multilevel.coarsen import cluster
from partition.multilevel.presets import Preset
from partition.multilevel.refine import bargain, polish
from partition.multilevel.search import grow
from partition.multilevel.state import Quality, State, new_state, quality
from partition.webgraph import Ids, Ints


def bisected(h: Hypergraph, caps: Ints, preset: Preset, rng: np.random.Generator) -> Ids:
    """A part for each vertex; `caps` (parts x 2) are all alike. Balance is only aimed at."""
    parts = len(caps)
    part = np.zeros(h.vertices, np.int32)
    if parts == 1 or h.vertices == 0:
        return part
    shares = np.array([[(parts + 1) // 2], [parts // 2]])
    total = np.maximum(h.weights.sum(axis=0), 1).astype(np.float64)
    # How much a part may exceed the mean is spread evenly over the halvings still to come.
    slack = np.maximum(caps[0] * float(parts) / total, 1.0)
    depth = int(np.ceil(np.log2(parts)))
    goal = total * shares / parts
    half_caps = np.maximum(goal * slack ** (1 / depth), np.ceil(goal)).astype(np.int64)
    bounds = np.maximum((caps[0] * preset.cluster_share).astype(np.int64), 1)
    best: Quality | None = None
    for _ in range(preset.halvings):
        state = _halved(h, goal[0].astype(np.int64), half_caps, bounds, preset, rng)
        if best is None or quality(state) < best:
            best = quality(state)
            part = state.part
    half = part
    part = np.zeros(h.vertices, np.int32)
    left, right = shares[:, 0].tolist()
    for side, first, count in ((0, 0, left), (1, left, right)):
        inside = half == side
        unit = np.where(inside, np.cumsum(inside) - 1, -1).astype(np.int32)
        sub = contract(h, unit, int(inside.sum()))
        part[inside] = first + bisected(sub, caps[first : first + count], preset, rng)
    return part


def _halved(
    h: Hypergraph,
    goal: Ints,
    half_caps: Ints,
    bounds: Ints,
    preset: Preset,
    rng: np.random.Generator,
) -> State:
    """A halving of its own; part 0 aims at `goal`, and clusters weigh at most `bounds`."""
    unit = None
    if h.vertices > preset.halving_vertices:
        unit, units = cluster(
            h,
            np.zeros(h.vertices, np.int32),
            bounds=bounds,
            target=max(int(h.vertices / preset.shrink), preset.halving_vertices),
            widest=preset.widest_tie,
            modesty=preset.modesty,
            rng=rng,
        )
        if units > h.vertices * preset.stalled:
            unit = None
    if unit is None:
        state = new_state(h, np.ones(h.vertices, np.int32), half_caps)
        grow(state, rng.permutation(h.vertices).astype(np.int32), goal)
    else:
        lower = _halved(contract(h, unit, units), goal, half_caps, bounds, preset, rng)
        state = new_state(h, lower.part[unit], half_caps)
    bargain(state, preset.dear, preset, rng)
    polish(state, preset, rng)
    return state
