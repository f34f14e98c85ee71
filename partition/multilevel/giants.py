"""Partitions hypergraphs in which some vertices, the giants, are heavier than a part may be.

`with_giants` has the rule. `limits` says what a part may weigh, and how partitions with giants
compare.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from partition.arrays import Ids, Ints
from partition.hypergraph import Hypergraph
from partition.multilevel import exact
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
from partition.multilevel.steps import Walk, only

_TRIES: Final = 3  # the most first partitions if there are giants
_PINS: Final = 500_000  # the most pins that these tries visit together, if more than one
# If giants get no parts of their own, searches add these shares of the excess to the tolerances.
_EXCESS_SHARES: Final = (0.0, 0.5, 0.8)


def with_giants(
    h: Hypergraph, parts: int, tolerances: Sequence[float], walk: Walk, starts: Sequence[Ids]
) -> Ids:
    """Partition vertices some of which are heavier than a part may be.

    First, each giant gets a part to itself, and the other vertices are balanced among the other
    parts. This partition and the starts are refined under `own_limits`. If the largest
    imbalance is still more than the heaviest vertex makes necessary, further searches ignore
    giants: all parts may then weigh as much as the heaviest vertex, and more.
    """

    def quality_of(part: Ids) -> Fit:
        return fit(h, part, parts, tolerances)

    most = caps(h.weights, parts, tolerances)
    tries = max(1, min(_TRIES, _PINS // max(len(h.pins), 1)))
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
        for share in _EXCESS_SHARES:
            wide = [max(tolerance, least + share * over) for tolerance in tolerances]
            found.append(walk.cold(h, caps(h.weights, parts, wide), starts))
        return min(found, key=quality_of)
    mates = sorted(found, key=quality_of)
    limits = own_limits(h.weights, best, parts, tolerances)
    return min([walk.combined(h, limits, best, mates), best], key=quality_of)


def _least_over(h: Hypergraph, parts: int, tolerances: Sequence[float]) -> Ids:
    """Return the best of all partitions, by `fit`."""
    rows = exact.all_partitions(h.vertices, parts)
    over = overs(h.weights, exact.loads_of_all(h.weights, rows, parts), tolerances)
    rows = rows[over == over.min()]
    return min(rows, key=lambda part: fit(h, part, parts, tolerances))


def _beside_giants(
    h: Hypergraph, parts: int, tolerances: Sequence[float], walk: Walk, most: Ints
) -> Ids:
    """Give each vertex that alone overfills a part a part to itself, and partition the rest.

    With fewer parts, further vertices may become giants, so this repeats until there are none.
    If giants are light in one weight, the mean of this weight over the other parts is higher
    than over all. Then these parts may weigh no more than `most`, the limits of all parts, if
    that leaves them half of the tolerance.
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
