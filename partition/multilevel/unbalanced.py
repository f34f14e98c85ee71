"""Looks for less imbalance where no search kept the limits.

Vertices may be too heavy for any partition within the limits, whether or not one of them is a
giant. The searches minimise the sum of the excesses of all parts, but the largest imbalance counts
(`limits.fit`). So all partitions of a few vertices are compared. For more vertices, further
searches give all parts one limit, between what is allowed and what was found.
"""

from collections.abc import Sequence
from typing import Final

from partition.arrays import Ids
from partition.hypergraph import Hypergraph
from partition.multilevel import exact
from partition.multilevel.limits import Fit, allowed_imbalance, caps, fit, overs
from partition.multilevel.steps import Walk

# What the further searches add to the allowed imbalance, as shares of what was found beyond it.
_EXCESS_SHARES: Final = (0.0, 0.5, 0.8)


def less_imbalanced(
    h: Hypergraph,
    found: Ids,
    parts: int,
    tolerances: Sequence[float],
    walk: Walk,
    starts: Sequence[Ids] = (),
) -> Ids:
    """Return a partition that is no worse by `fit` than the one that was found.

    Further searches also refine `starts`.
    """

    def quality_of(part: Ids) -> Fit:
        return fit(h, part, parts, tolerances)

    if exact.is_small(h, parts):
        return _best_of_all(h, parts, tolerances)
    allowed = allowed_imbalance(h.weights, parts, tolerances)
    candidates = [found]
    for share in _EXCESS_SHARES:
        most = allowed + share * quality_of(found).over
        wide = [max(tolerance, most) for tolerance in tolerances]
        candidates.append(walk.cold(h, caps(h.weights, parts, wide), starts))
    return min(candidates, key=quality_of)


def _best_of_all(h: Hypergraph, parts: int, tolerances: Sequence[float]) -> Ids:
    """Return the best of all partitions, by `fit`."""
    rows = exact.all_partitions(h.vertices, parts)
    over = overs(h.weights, exact.loads_of_all(h.weights, rows, parts), tolerances)
    rows = rows[over == over.min()]
    return min(rows, key=lambda part: fit(h, part, parts, tolerances))
