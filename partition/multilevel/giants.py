"""Partitions hypergraphs in which some vertices, the giants, are heavier than a part may be.

The limits are a matter of the part (`limits`): a part with a giant may weigh somewhat more than the
giant. The other parts are balanced among themselves. The rule has two steps:

1. Each giant gets a part of its own. The other vertices are partitioned over the other parts, under
   the limits of these parts.
2. This partition, and the starts from elsewhere, are refined as a whole under the limits of their
   parts.

The heaviest giant makes some imbalance necessary. If the largest imbalance exceeds this by more
than the tolerance, the caller looks for less (`unbalanced`).
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from partition.arrays import Ids
from partition.hypergraph import Hypergraph
from partition.multilevel.limits import Fit, caps, fit, giants, own_limits, seated
from partition.multilevel.steps import Walk, only

_TRIES: Final = 3  # the most first partitions if there are giants
_PINS: Final = 500_000  # the most pins that these tries visit together, if more than one


def with_giants(
    h: Hypergraph, parts: int, tolerances: Sequence[float], walk: Walk, starts: Sequence[Ids]
) -> Ids:
    """Return the best partition by `fit` that the rule of this module finds.

    There must be a giant, and more vertices than parts. `starts` are partitions from elsewhere.
    """

    def quality_of(part: Ids) -> Fit:
        return fit(h, part, parts, tolerances)

    tries = max(1, min(_TRIES, _PINS // max(len(h.pins), 1)))
    found = [_apart(h, parts, tolerances, walk) for _ in range(tries)]
    for start in (*found, *(seated(h.weights, start, parts, tolerances) for start in starts)):
        limits = own_limits(h.weights, start, parts, tolerances)
        found.append(walk.warm(h, limits, start))
    best = min(found, key=quality_of)
    if quality_of(best).over:
        return best
    mates = sorted(found, key=quality_of)
    limits = own_limits(h.weights, best, parts, tolerances)
    return min([walk.combined(h, limits, best, mates), best], key=quality_of)


def _apart(h: Hypergraph, parts: int, tolerances: Sequence[float], walk: Walk) -> Ids:
    """Give each giant a part of its own, and partition the other vertices over the other parts.

    If there are too many giants for that, all vertices are partitioned under one limit.
    """
    usual = caps(h.weights, parts, tolerances)
    large = giants(h.weights, usual)
    free = parts - len(large)
    if free < 1:
        return walk.cold(h, usual, ())
    part = np.zeros(h.vertices, np.int32)
    part[large] = np.arange(free, parts, dtype=np.int32)
    others = np.ones(h.vertices, bool)
    others[large] = False
    limits = own_limits(h.weights, part, parts, tolerances)[:free]
    part[others] = walk.cold(only(h, others), limits, ())
    return part
