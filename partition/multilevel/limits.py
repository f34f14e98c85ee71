"""Limits: the weight that each part may have, also for the parts that giants get.

A giant is a vertex that alone is heavier than a part may be. Its part gets a limit of its own: a
tolerance over the weight of the giant. So the largest imbalance may exceed that of the heaviest
giant alone by the tolerance. The other parts are balanced among themselves.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from partition.arrays import Ids, Ints
from partition.hypergraph import Hypergraph, connectivity_minus_one, part_loads

Shares = npt.NDArray[np.float64]

_DIGITS: Final = 9  # digits of a share; smaller differences are rounding errors


def caps(weights: Ints, parts: int, tolerances: Sequence[float]) -> Ints:
    """Return what parts may weigh, parts x 2: the tolerance, but at least the mean rounded up."""
    return _caps(weights.sum(axis=0), parts, tolerances)


def _caps(totals: Ints, parts: int, tolerances: Sequence[float]) -> Ints:
    both = [
        # Integers allow the exact comparison: load * parts <= total * (1 + tolerance).
        min(max(int((total + total * tolerance) / parts), -(-total // parts), 1), max(total, 1))
        for total, tolerance in zip(totals.tolist(), tolerances, strict=True)
    ]
    return np.tile(np.array(both, np.int64), (parts, 1))


def giants(weights: Ints, limits: Ints) -> Ids:
    """Return the vertices that exceed the lowest limit in either weight."""
    return np.flatnonzero((weights > limits.min(axis=0)).any(axis=1)).astype(np.int32)


def own_limits(weights: Ints, part: Ids, parts: int, tolerances: Sequence[float]) -> Ints:
    """Return what each part of a partition may weigh, parts x 2, if some parts have giants.

    For the parts with giants see `_of_giants`. The other parts are balanced among themselves,
    see `_of_others`.
    """
    limits = caps(weights, parts, tolerances)
    large = giants(weights, limits)
    free = np.ones(parts, bool)
    free[part[large]] = False
    if len(large) and free.any():
        others = np.delete(weights, large, axis=0)
        limits[free] = _of_others(others, int(free.sum()), limits[0], tolerances)
    if len(large):
        means = weights.sum(axis=0) / parts
        np.maximum.at(limits, part[large], _of_giants(weights[large], means, tolerances))
    return limits


def _of_giants(weights: Ints, means: Shares, tolerances: Sequence[float]) -> Ints:
    """Return what the part of each giant may weigh: a tolerance over the giant.

    Small vertices that share nets with a giant can then stay with it. `means`: the average load of
    a part. The heaviest giant plus a tolerance of this average is the most for all giants, so that
    the largest imbalance rises by no more than the tolerance. Each of the two weights has its own
    heaviest giant.
    """
    most = weights.max(axis=0) + means * np.array(tolerances)
    room = np.minimum(weights * np.array(tolerances), most - weights)
    limits: Ints = weights + room.astype(np.int64)
    return limits


def _of_others(weights: Ints, parts: int, usual: Ints, tolerances: Sequence[float]) -> Ints:
    """Return what each part without giants may weigh: a tolerance over the average of these parts.

    Two exceptions use the limits without giants (`usual`). First, the lower average may turn
    further vertices into giants. Then all these parts get the usual limits, because a part for
    each further giant would leave ever less to the others. Second, if the giants are light in
    one weight, the average of the other parts is above that of all. Then these parts get the
    usual limit of this weight, if that leaves them half of the tolerance.
    """
    own = _caps(weights.sum(axis=0), parts, tolerances)[0]
    if (weights > own).any():
        own = np.maximum(own, usual)
    half = _caps(weights.sum(axis=0), parts, [tolerance / 2 for tolerance in tolerances])[0]
    limits: Ints = np.maximum(np.minimum(own, usual), half)
    return limits


def seated(weights: Ints, part: Ids, parts: int, tolerances: Sequence[float]) -> Ids:
    """Return the partition with giants moved so that each has a part without another giant.

    The heaviest giant comes first. A giant whose part is taken moves to the lightest part
    without a giant. If there are more giants than parts, the lightest giants stay where they
    are.
    """
    limits = caps(weights, parts, tolerances)
    large = giants(weights, limits)
    share = (weights[large] / limits[0]).max(axis=1)
    result = part.copy()
    taken: set[int] = set()
    homeless = []
    for v in large[np.argsort(-share, kind="stable")].tolist():
        if int(result[v]) in taken:
            homeless.append(v)
        taken.add(int(result[v]))
    for v in homeless:
        loads = (part_loads(weights, result, parts) / limits[0]).max(axis=1)
        for b in np.argsort(loads, kind="stable").tolist():
            if b not in taken:
                result[v] = b
                taken.add(b)
                break
    return result


class Fit(NamedTuple):
    """The quality of a partition that can't be balanced because of giants. Less is better."""

    over: float  # by which the largest imbalance exceeds `allowed_imbalance`
    excess: float  # by which loads exceed `own_limits`, as shares of these limits
    cost: int  # connectivity - 1


def fit(h: Hypergraph, part: Ids, parts: int, tolerances: Sequence[float]) -> Fit:
    """Return the quality of any partition of a hypergraph."""
    loads = part_loads(h.weights, part, parts)
    over = overs(h.weights, loads[np.newaxis], tolerances)[0]
    limits = own_limits(h.weights, part, parts, tolerances)
    excess = float(np.maximum(loads / limits - 1, 0).sum())
    return Fit(float(over), round(excess, _DIGITS), connectivity_minus_one(h, part))


def overs(weights: Ints, loads: Ints, tolerances: Sequence[float]) -> Shares:
    """Return, for each of several partitions, how much its imbalance exceeds `allowed_imbalance`.

    `loads` are partitions x parts x 2. A weight whose tolerance is at least the number of parts
    doesn't matter.
    """
    parts = loads.shape[1]
    largest = np.zeros(len(loads))
    for at, tolerance in enumerate(tolerances):
        if tolerance < parts:
            most = loads[:, :, at].max(axis=1).astype(np.float64)
            largest = np.maximum(largest, most * parts / max(int(weights[:, at].sum()), 1) - 1)
    allowed = allowed_imbalance(weights, parts, tolerances)
    return np.maximum(largest - allowed, 0).round(_DIGITS)


def allowed_imbalance(weights: Ints, parts: int, tolerances: Sequence[float]) -> float:
    """Return the largest imbalance that is allowed.

    Without giants it is the tolerance. With giants it is the imbalance that the heaviest giant
    alone makes, plus the tolerance.
    """
    allowed = 0.0
    for at, tolerance in enumerate(tolerances):
        if tolerance < parts:
            share = int(weights[:, at].max(initial=0)) / max(int(weights[:, at].sum()), 1)
            alone = share * parts - 1
            allowed = max(allowed, tolerance, alone + tolerance if alone > tolerance else 0.0)
    return allowed
