"""The walk: coarsen, partition, uncoarsen and refine; then cycles that keep the partition.

Read `partition` from the top. It checks its arguments, and answers the cases that need no engine.
Then one of three ways leads to `steps.Walk`, whose methods are the steps: from a previous partition
(`_warm`), with vertices heavier than a part (`giants`), or from nothing (`Walk.cold`).
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from partition.arrays import Ids, Ints, total
from partition.hypergraph import Hypergraph, part_loads, simplify
from partition.multilevel import presets
from partition.multilevel.balance import rebalance
from partition.multilevel.giants import with_giants
from partition.multilevel.limits import Fit, caps, fit, giants, own_limits, seated
from partition.multilevel.presets import Preset
from partition.multilevel.refine import polish
from partition.multilevel.state import Homes, Quality, judged, new_state
from partition.multilevel.steps import Walk
from partition.multilevel.unbalanced import less_imbalanced

MAX_PARTS: Final = 1 << 15  # so that a pair of parts fits into 32 bits
# Among more vertices without giants, a part that is too heavy isn't searched for again.
_FEW: Final = 1_000
_MAX_COSTS: Final = 1 << 30  # sum of the costs of all nets, because gains have 32 bits


def partition(
    h: Hypergraph,
    parts: int,
    *,
    tolerances: Sequence[float] = (0.05, 0.05),
    seed: int = 0,
    starts: Sequence[Ids] = (),
    previous: Ids | None = None,
    max_migration: float | None = None,
    held: Ints | None = None,
    strayed: Sequence[int] = (0, 0),
    progress: Callable[[str], None] | None = None,
    preset: Preset = presets.DEFAULT,
    check: bool = False,
) -> Ids:
    """Return the part of each vertex, int32 from 0 to `parts` - 1, with a low connectivity - 1.

    Each weight of a part is within its tolerance of the mean, or at most the mean rounded up,
    if the engine finds such a partition. The caller must check this with `imbalances`. A vertex
    that is heavier than a part may be gets a part with a limit of its own (see `limits`). If
    there are no more vertices than parts, each vertex gets a part of its own. Equal arguments
    give equal results.

    `starts`: partitions from elsewhere. They are refined in addition to the engine's own first
    partitions, and the result is no worse than any of them. `previous`: the only partition to
    start from, with -1 for new vertices. At most the share `max_migration` of each weight then
    ends in another part than before; this bound comes before balance. `held` (vertices x 2):
    the weights that move with a vertex that leaves its previous part, if not its whole weights.
    `strayed`: amounts that have moved already, and count, too.

    `progress` gets a line about each step. `check` recounts the state after each step, for
    tests. Raises ValueError for arguments that don't fit.
    """
    if parts < 1 or not min(tolerances) >= 0:
        raise ValueError("parts must be 1 or more, tolerances 0 or more")
    if parts > max(MAX_PARTS, h.vertices):
        return np.arange(h.vertices, dtype=np.int32)
    if parts > MAX_PARTS:
        raise ValueError(f"parts must be {MAX_PARTS} at most")
    for name, given in [("previous", previous), *(("starts", start) for start in starts)]:
        if given is not None:
            _must_fit(name, given, h, parts)
    if previous is not None and len(starts):
        raise ValueError("previous and starts: must not be given together")
    h = _prepared(h)
    walk = Walk(preset, np.random.default_rng(seed), progress or _silent, check)
    if parts == 1 or h.vertices == 0:
        return np.zeros(h.vertices, np.int32)
    limits = caps(h.weights, parts, tolerances)
    if previous is not None:
        home = previous.astype(np.int32)
        homes = None
        if max_migration is not None:
            most = [int(max_migration * total) for total in h.weights.sum(axis=0).tolist()]
            left = np.array(most, np.int64) - np.array(strayed, np.int64)
            homes = Homes(home, h.weights if held is None else held, left)
        return _warm(h, parts, tolerances, walk, home, homes)
    if h.vertices <= parts:
        part = np.arange(h.vertices, dtype=np.int32)
    elif len(giants(h.weights, limits)):
        part = with_giants(h, parts, tolerances, walk, starts)
    else:
        part = walk.cold(h, limits, starts)
    best = min([part, *starts], key=_quality(h, parts, tolerances))
    if h.vertices > parts and _is_unbalanced(h, best, parts, tolerances):
        return less_imbalanced(h, best, parts, tolerances, walk, starts)
    return best


def combined(
    h: Hypergraph,
    found: Sequence[Ids],
    parts: int,
    *,
    tolerances: Sequence[float] = (0.05, 0.05),
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
    preset: Preset = presets.DEFAULT,
    check: bool = False,
) -> Ids:
    """Combine several partitions into one that is no worse than any of them.

    The best partition goes through one cycle with each of the next few, its mates. A cycle
    merges only vertices that are in the same part in both. So what both have put together stays
    together, and what only one has may change (Andre, Schlag and Schulz, Memetic multilevel
    hypergraph partitioning, 2018). Raises ValueError if there are no partitions, or they don't
    fit.
    """
    if not len(found):
        raise ValueError("found: must have a partition")
    for part in found:
        _must_fit("found", part, h, parts)
    h = _prepared(h)
    walk = Walk(preset, np.random.default_rng(seed), progress or _silent, check)
    quality_of = _quality(h, parts, tolerances)
    best, *others = sorted(found, key=quality_of)
    own = own_limits(h.weights, best, parts, tolerances)
    return min([walk.combined(h, own, best, others), best], key=quality_of)


def improved(h: Hypergraph, part: Ids, limits: Ints, *, seed: int) -> Ids:
    """Refine a partition in cycles. Returns one no worse in excess over the limits, then in cost.

    `limits` (parts x 2): what each part may weigh.
    """
    walk = Walk(presets.DEFAULT, np.random.default_rng(seed), _silent, check=False)
    found = walk.warm(_prepared(h), limits, part)
    return min([found, part], key=lambda one: judged(h, one, limits))


def rebalanced(
    h: Hypergraph, part: Ids, parts: int, *, tolerances: Sequence[float], seed: int = 0
) -> Ids:
    """Bring a partition within the tolerances, or as close as possible, by few cheap moves.

    Gains within the tolerances are taken, too. A partition that is within the tolerances
    already is returned as it is. First, each giant gets a part without another giant.
    """
    h = _prepared(h)
    walk = Walk(presets.DEFAULT, np.random.default_rng(seed), _silent, check=False)
    best = seated(h.weights, part, parts, tolerances)
    limits = own_limits(h.weights, best, parts, tolerances)
    if (part_loads(h.weights, best, parts) > limits).any():
        state = new_state(h, best, limits)
        rebalance(state, walk.rng)
        polish(state, walk.preset, walk.rng)
        best = min([state.part, part], key=_quality(h, parts, tolerances))
    if _is_unbalanced(h, best, parts, tolerances):
        return less_imbalanced(h, best, parts, tolerances, walk, [best])
    return best


def _quality(
    h: Hypergraph, parts: int, tolerances: Sequence[float]
) -> Callable[[Ids], Fit | Quality]:
    """Return what compares partitions: with giants `fit`, and otherwise `judged`."""
    limits = caps(h.weights, parts, tolerances)
    if len(giants(h.weights, limits)):
        return lambda part: fit(h, part, parts, tolerances)
    return lambda part: judged(h, part, limits)


def _is_unbalanced(h: Hypergraph, part: Ids, parts: int, tolerances: Sequence[float]) -> bool:
    """Return whether the largest imbalance is beyond what is allowed, and may be worth a search.

    With giants it is, whatever the size. Many light vertices without giants can be balanced, so
    what the engine found among them is near enough.
    """
    limits = caps(h.weights, parts, tolerances)
    if len(giants(h.weights, limits)):
        return fit(h, part, parts, tolerances).over > 0
    return h.vertices <= _FEW and judged(h, part, limits).excess > 0


def _must_fit(name: str, part: Ids, h: Hypergraph, parts: int) -> None:
    if len(part) != h.vertices or max(part, default=0) >= parts or parts > MAX_PARTS:
        raise ValueError(f"{name}: must have {h.vertices} entries below {parts}")


def _silent(_: str) -> None:
    pass


def _prepared(h: Hypergraph) -> Hypergraph:
    """Simplify, and scale costs for the gains. Raises ValueError for weights too large."""
    if any(total(weights) >= 1 << 63 for weights in h.weights.T):
        raise ValueError("weights: must sum to less than 2^63")
    if total(h.costs) >= 1 << 62:
        h = _scaled(h)  # nets that are alike add their costs
    return _scaled(simplify(h))


def _scaled(h: Hypergraph) -> Hypergraph:
    """Scale costs in proportion, so that their sum fits into the gains. None becomes 0."""
    costs = total(h.costs)
    if costs <= _MAX_COSTS:
        return h
    scaled = np.maximum(np.rint(h.costs * (_MAX_COSTS / costs)), 1).astype(np.int64)
    return Hypergraph(h.xpins, h.pins, scaled, h.weights)


def _warm(
    h: Hypergraph,
    parts: int,
    tolerances: Sequence[float],
    walk: Walk,
    home: Ids,
    homes: Homes | None,
) -> Ids:
    """Start from a previous partition. Parts with giants have limits of their own."""
    part = walk.packed(h.weights, home, caps(h.weights, parts, tolerances))
    if homes is None:
        part = seated(h.weights, part, parts, tolerances)
    return walk.warm(h, own_limits(h.weights, part, parts, tolerances), part, homes)
