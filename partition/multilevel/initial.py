"""The first partition, on the coarsest level: by recursive bisection.

A bisection is a small multilevel partition of its own. It coarsens further, down to a few vertices,
so that heavy vertices which belong together move together. On the last level, one half grows from a
random vertex. Both halves are then refined on each level upwards. Each half has as many shares of
the total weight as it will have parts. The best of several tries is kept.

A cut net continues in both halves with the pins that it has there. So each further part of a net
adds its cost, and the sum of all bisections is connectivity - 1.
"""

import numpy as np

from partition.arrays import Ids, Ints
from partition.hypergraph import Hypergraph, contract
from partition.multilevel.coarsen import cluster
from partition.multilevel.presets import Preset
from partition.multilevel.refine import bargain, polish
from partition.multilevel.search import grow
from partition.multilevel.state import Quality, State, new_state, quality


def bisected(h: Hypergraph, caps: Ints, preset: Preset, rng: np.random.Generator) -> Ids:
    """Return a part for each vertex, only roughly balanced. `caps` (parts x 2) are all equal."""
    parts = len(caps)
    part = np.zeros(h.vertices, np.int32)
    if parts == 1 or h.vertices == 0:
        return part
    shares = np.array([[(parts + 1) // 2], [parts // 2]])
    total = np.maximum(h.weights.sum(axis=0), 1).astype(np.float64)
    # The excess over the mean that is allowed is divided evenly among the remaining bisections.
    slack = np.maximum(caps[0] * float(parts) / total, 1.0)
    depth = int(np.ceil(np.log2(parts)))
    goal = total * shares / parts
    half_caps = np.maximum(goal * slack ** (1 / depth), np.ceil(goal)).astype(np.int64)
    bounds = np.maximum((caps[0] * preset.cluster_share).astype(np.int64), 1)
    best: Quality | None = None
    for _ in range(preset.bisection_tries):
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
    """Return one bisection. Part 0 aims at `goal`; clusters weigh at most `bounds`."""
    unit = None
    if h.vertices > preset.bisection_vertices:
        unit, units = cluster(
            h,
            np.zeros(h.vertices, np.int32),
            bounds=bounds,
            target=max(int(h.vertices / preset.max_shrink), preset.bisection_vertices),
            widest=preset.max_tie_pins,
            hub_exponent=preset.hub_exponent,
            rng=rng,
        )
        if units > h.vertices * preset.stall_ratio:
            unit = None
    if unit is None:
        state = new_state(h, np.ones(h.vertices, np.int32), half_caps)
        grow(state, rng.permutation(h.vertices).astype(np.int32), goal)
    else:
        lower = _halved(contract(h, unit, units), goal, half_caps, bounds, preset, rng)
        state = new_state(h, lower.part[unit], half_caps)
    bargain(state, preset.max_start_price, preset, rng)
    polish(state, preset, rng)
    return state
