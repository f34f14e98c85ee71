"""The walk: coarsen, partition, uncoarsen and refine; then cycles that keep the partition.

Read `partition` from the top: it takes aside what needs no engine, or that none can help, and hands
the rest to `steps.Walk`, whose methods are the steps.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from partition.hypergraph import Hypergraph, part_loads, simplify
from partition.multilevel import exact, presets
from partition.multilevel.balance import rebalance
from partition.multilevel.limits import (
    Fit,
    caps,
    fit,
    giants,
    least_imbalance,
    overs,
    own_limits,
    seated,
)
from partition.multilevel.presets import Preset
from partition.multilevel.refine import polish
from partition.multilevel.state import Homes, judged, new_state
from partition.multilevel.steps import Walk, only
from partition.webgraph import Ids, Ints, total

MAX_PARTS: Final = 1 << 15  # pairs of parts have 32 bits
_COSTS_MAX: Final = 1 << 30  # of all nets together: gains have 32 bits
_TRIES: Final = 3  # first partitions beside giants, at most,
_TRIED_PINS: Final = 500_000  # and no more than have so many pins together, but one
_LOOSER: Final = (0.0, 0.5, 0.8)  # of an excess, that searches without giants allow


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
    """The part of each vertex, int32 from 0 to `parts` - 1, for a low connectivity - 1.

    Each weight of a part is within its tolerance of the mean, where the engine finds a way (or at
    most the mean rounded up, where weights are that few); a caller judges by `imbalances`. The part
    of a vertex that is heavier than a part may be has a limit of its own (see `limits`). No more
    vertices than parts get a part each. Equal arguments give equal parts.

    The engine makes first partitions of its own and refines the best. `starts` are partitions that
    others have found, to be refined beside it: the result is no worse than any of them. `previous`
    instead gives the only partition to start from, with -1 for new vertices. Of both weights, at
    most the share `max_migration` of the total then ends in another part than before, which comes
    before balance. `held` (vertices x 2) is what moves with a vertex that leaves its previous part,
    if that isn't its whole weight; `strayed` is what has moved already and counts, too. Raises
    ValueError for arguments that don't fit.

    `progress` is told of each step in a line; `check` recounts all that is kept up to date after
    each step, for tests.
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
        raise ValueError("previous and starts: must not both be given")
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
        part = _with_giants(h, parts, tolerances, walk, starts)
        return min([part, *starts], key=lambda part: fit(h, part, parts, tolerances))
    else:
        part = walk.cold(h, limits, starts)
    return min([part, *starts], key=lambda part: judged(h, part, limits))


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
    """A partition no worse than any of those found, made of what they agree on.

    The best goes through a cycle with each of the next few, its mates, that contracts only what
    lies in one part of both: what two searches have put together stays together, what only one has
    is put to the test (Andre, Schlag and Schulz, Memetic multilevel hypergraph partitioning, 2018).
    Raises ValueError if there are none, or they don't fit.
    """
    if not len(found):
        raise ValueError("found: must have a partition")
    for part in found:
        _must_fit("found", part, h, parts)
    h = _prepared(h)
    limits = caps(h.weights, parts, tolerances)
    walk = Walk(preset, np.random.default_rng(seed), progress or _silent, check)
    best, *others = sorted(found, key=lambda part: judged(h, part, limits))
    own = own_limits(h.weights, best, parts, tolerances)
    return min([walk.combined(h, own, best, others), best], key=lambda p: judged(h, p, limits))


def rebalanced(
    h: Hypergraph, part: Ids, parts: int, *, tolerances: Sequence[float], seed: int = 0
) -> Ids:
    """A partition brought within the tolerances by few, cheap moves, or as close as they get.

    What can be gained within them without leaving it is gained, too. A partition that is within the
    tolerances comes back as it is. Each giant first gets a part that no other giant is in.
    """
    h = _prepared(h)
    apart = seated(h.weights, part, parts, tolerances)
    limits = own_limits(h.weights, apart, parts, tolerances)
    if (part_loads(h.weights, apart, parts) <= limits).all():
        return apart
    rng = np.random.default_rng(seed)
    state = new_state(h, apart, limits)
    rebalance(state, rng)
    polish(state, presets.DEFAULT, rng)
    if len(giants(h.weights, limits)):
        return min([state.part, part], key=lambda part: fit(h, part, parts, tolerances))
    return min([state.part, part], key=lambda part: judged(h, part, limits))


def _must_fit(name: str, part: Ids, h: Hypergraph, parts: int) -> None:
    if len(part) != h.vertices or max(part, default=0) >= parts or parts > MAX_PARTS:
        raise ValueError(f"{name}: must have {h.vertices} entries below {parts}")


def _silent(_: str) -> None:
    pass


def _prepared(h: Hypergraph) -> Hypergraph:
    """Simplified, with costs that fit into the gains. Raises ValueError for weights too large."""
    if any(total(weights) >= 1 << 63 for weights in h.weights.T):
        raise ValueError("weights: must sum to less than 2^63")
    if total(h.costs) >= 1 << 62:
        h = _scaled(h)  # nets that are alike add their costs
    return _scaled(simplify(h))


def _scaled(h: Hypergraph) -> Hypergraph:
    """Costs in about the same proportions, none 0, whose sums fit into the gains."""
    costs = total(h.costs)
    if costs <= _COSTS_MAX:
        return h
    scaled = np.maximum(np.rint(h.costs * (_COSTS_MAX / costs)), 1).astype(np.int64)
    return Hypergraph(h.xpins, h.pins, scaled, h.weights)


def _with_giants(
    h: Hypergraph, parts: int, tolerances: Sequence[float], walk: Walk, starts: Sequence[Ids]
) -> Ids:
    """A partition of vertices some of which are heavier than a part may be.

    First each giant gets a part to itself, and the others share the remaining parts in balance.
    From there, and from the starts, the refinement goes on under `own_limits`. If the largest
    imbalance is then still more than the heaviest vertex makes necessary, a search without giants
    follows: all parts may weigh as much as the heaviest vertex.
    """

    def quality_of(part: Ids) -> Fit:
        return fit(h, part, parts, tolerances)

    most = caps(h.weights, parts, tolerances)
    tries = max(1, min(_TRIES, _TRIED_PINS // max(len(h.pins), 1)))
    found = [_beside_giants(h, parts, tolerances, walk, most) for _ in range(tries)]
    for start in (*found, *(seated(h.weights, start, parts, tolerances) for start in starts)):
        limits = own_limits(h.weights, start, parts, tolerances)
        found.append(walk.warm(h, limits, start))
    best = min(found, key=quality_of)
    over = quality_of(best).over
    if over > 0:
        if exact.is_small(h, parts):
            return _least_over(h, parts, tolerances)
        least = least_imbalance(h.weights, parts, tolerances)
        for share in _LOOSER:
            wide = [max(tolerance, least + share * over) for tolerance in tolerances]
            found.append(walk.cold(h, caps(h.weights, parts, wide), starts))
        return min(found, key=quality_of)
    mates = sorted(found, key=quality_of)
    limits = own_limits(h.weights, best, parts, tolerances)
    return min([walk.combined(h, limits, best, mates), best], key=quality_of)


def _least_over(h: Hypergraph, parts: int, tolerances: Sequence[float]) -> Ids:
    """Of all partitions the best, by `fit`."""
    rows = exact.all_partitions(h.vertices, parts)
    over = overs(h.weights, exact.loads_of_all(h.weights, rows, parts), tolerances)
    rows = rows[over == over.min()]
    return min(rows, key=lambda part: fit(h, part, parts, tolerances))


def _beside_giants(
    h: Hypergraph, parts: int, tolerances: Sequence[float], walk: Walk, most: Ints
) -> Ids:
    """Give each vertex that alone overfills a part the part to itself, and partition the rest.

    Fewer parts may make giants of further vertices, so this goes on until there are none. If giants
    are light in one weight, the others' mean of it is higher than that of all. So their parts weigh
    no more than those of all may (`most`), as long as that leaves them half of the tolerance.
    """
    half = caps(h.weights, parts, [tolerance / 2 for tolerance in tolerances])
    limits = np.maximum(np.minimum(caps(h.weights, parts, tolerances), most[:parts]), half)
    large = giants(h.weights, limits)
    if len(large) == 0 or len(large) >= parts:
        return walk.cold(h, limits, ())
    others = np.ones(h.vertices, bool)
    others[large] = False
    part = np.zeros(h.vertices, np.int32)
    part[large] = np.arange(parts - len(large), parts, dtype=np.int32)
    if parts - len(large) > 1:
        rest = only(h, others)
        part[others] = _beside_giants(rest, parts - len(large), tolerances, walk, most)
    return part


def _warm(
    h: Hypergraph,
    parts: int,
    tolerances: Sequence[float],
    walk: Walk,
    home: Ids,
    homes: Homes | None,
) -> Ids:
    """From a previous partition; parts in which giants lie have limits of their own."""
    part = walk.packed(h.weights, home, caps(h.weights, parts, tolerances))
    if homes is None:
        part = seated(h.weights, part, parts, tolerances)
    return walk.warm(h, own_limits(h.weights, part, parts, tolerances), part, homes)
