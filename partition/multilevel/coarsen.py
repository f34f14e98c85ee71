"""Coarsening: vertices that share nets become one, until few are left.

A vertex joins the neighbour, or the neighbour's cluster, to which its nets tie it most: a net ties
each two of its pins by its cost / (pins - 1). Ties to a vertex of many nets count less, by a power
of what its nets cost: pages of one net each would else gather around a page that all menus link to,
which is all that they share, instead of among those with which they share everything. A cluster may
not outgrow a share of a part in either weight, or balance would be lost, and never joins vertices
of different labels, which is how a later cycle keeps the partition that it has.

Wide nets tie nothing, as they would take most of the time and say little. A vertex in no others, as
a site that only large lists link to, joins another such of its narrowest net (METIS has the like
for the leaves of a star); without that, webs of many such sites couldn't be coarsened.
"""

import numpy as np
import numpy.typing as npt

from crawler.compiled import compiled
from partition.hypergraph import Hypergraph
from partition.webgraph import Ids, Ints


def cluster(
    h: Hypergraph,
    label: Ids,
    *,
    bounds: Ints,
    target: int,
    widest: int,
    modesty: float,
    rng: np.random.Generator,
) -> tuple[Ids, int]:
    """The cluster of each vertex, and their number: `target` or, where that can't be, more.

    `bounds` are the two weights that a cluster may have; nets of more than `widest` pins tie
    nothing. `modesty` is the power by which ties to vertices of many nets count less.
    """
    xnets, nets = h.nets_of_vertices()
    order = rng.permutation(h.vertices).astype(np.int32)
    costs = np.bincount(h.pins, np.repeat(h.costs, np.diff(h.xpins)), h.vertices)
    leader = _clustered(
        h.xpins,
        h.pins,
        h.costs,
        xnets,
        nets,
        h.weights,
        label,
        order,
        bounds,
        target,
        widest,
        np.maximum(costs, 1) ** modesty,
    )
    is_leader = leader == np.arange(h.vertices)
    number = np.cumsum(is_leader, dtype=np.int32) - np.int32(1)
    return number[leader], int(is_leader.sum())


@compiled
def _clustered(
    xpins: Ints,
    pins: Ids,
    costs: Ints,
    xnets: Ints,
    nets: Ids,
    weights: Ints,
    label: Ids,
    order: Ids,
    bounds: Ints,
    target: int,
    widest: int,
    common: npt.NDArray[np.float64],  # by which ties to a vertex, or its cluster, count less
) -> Ids:  # pragma: no cover - compiled
    vertices = len(order)
    leader = np.arange(vertices).astype(np.int32)
    weight = weights.copy()  # of the cluster that a vertex leads
    joined = np.zeros(vertices, np.bool_)  # leads others, so must stay
    ties = np.zeros(vertices, np.float64)
    near = np.empty(vertices, np.int32)
    untied = np.full(len(costs), -1, np.int32)  # of a net, the last such vertex, or its cluster
    left = vertices
    for v in order:
        if left <= target:
            break
        if leader[v] != v or joined[v]:
            continue
        found = 0
        for j in range(xnets[v], xnets[v + 1]):
            e = nets[j]
            size = xpins[e + 1] - xpins[e]
            if size > widest:
                continue
            tie = costs[e] / (size - 1.0)
            for i in range(xpins[e], xpins[e + 1]):
                u = leader[pins[i]]
                if u != v and label[u] == label[v]:
                    if ties[u] == 0:
                        near[found] = u
                        found += 1
                    ties[u] += tie
        best = -1
        most = 0.0
        for i in range(found):
            u = near[i]
            first = weight[u, 0] + weights[v, 0]
            second = weight[u, 1] + weights[v, 1]
            if first <= bounds[0] and second <= bounds[1]:
                # Of two equal ties the lighter cluster is the better: it leaves more room.
                fill = weight[u, 0] / bounds[0] + weight[u, 1] / bounds[1]
                tie = ties[u] / ((1.0 + fill) * common[u])
                if tie > most:
                    most = tie
                    best = u
            ties[u] = 0
        if found == 0 and xnets[v] < xnets[v + 1]:
            e = _narrowest(xpins, nets[xnets[v] : xnets[v + 1]])
            u = untied[e]
            if (
                u >= 0
                and label[u] == label[v]
                and weight[u, 0] + weights[v, 0] <= bounds[0]
                and weight[u, 1] + weights[v, 1] <= bounds[1]
            ):
                best = u
            else:
                untied[e] = v
        if best >= 0:
            leader[v] = best
            joined[best] = True
            weight[best, 0] += weights[v, 0]
            weight[best, 1] += weights[v, 1]
            common[best] = max(common[best], common[v])
            left -= 1
    return leader


@compiled
def _narrowest(xpins: Ints, nets: Ids) -> int:  # pragma: no cover - compiled
    best = 0
    for i in range(1, len(nets)):
        size = xpins[nets[i] + 1] - xpins[nets[i]]
        if size < xpins[nets[best] + 1] - xpins[nets[best]]:
            best = i
    return int(nets[best])
