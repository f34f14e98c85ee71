"""Coarsening: vertices that share nets are merged into clusters, until few are left.

A vertex joins the neighbour, or the cluster of the neighbour, with the strongest tie. A net ties
each two of its pins by its cost / (pins - 1). Ties to a vertex with many nets are weakened by a
power of the cost of its nets. Without this, pages would gather around a page that all menus link
to, although they share nothing else, and not with pages that share all their nets.

A cluster may not exceed a share of a part in either weight, because larger ones would prevent
balance. It never joins vertices with different labels. A later cycle uses labels to keep the
partition that it has.

Large nets tie nothing, because they would take most of the time and say little. A vertex that has
only large nets (a site that only long lists link to) joins another such vertex of its smallest net.
METIS treats the leaves of a star in a similar way. Without this rule, webs with many such sites
couldn't be coarsened.
"""

import numpy as np
import numpy.typing as npt

from crawler.compiled import compiled, in_thread
from partition.arrays import Ids, Ints
from partition.hypergraph import Hypergraph


def cluster(
    h: Hypergraph,
    label: Ids,
    *,
    bounds: Ints,
    target: int,
    widest: int,
    hub_exponent: float,
    rng: np.random.Generator,
) -> tuple[Ids, int]:
    """Return the cluster of each vertex, and the number of clusters: `target`, or more.

    `bounds`: the most that a cluster may have of each weight. Nets with more than `widest` pins
    tie nothing. `hub_exponent`: the power that weakens ties to vertices with many nets.
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
        np.maximum(costs, 1) ** hub_exponent,
    )
    is_leader = leader == np.arange(h.vertices)
    number = np.cumsum(is_leader, dtype=np.int32) - np.int32(1)
    return number[leader], int(is_leader.sum())


@in_thread
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
    divisor: npt.NDArray[np.float64],  # of ties to each vertex, or to its cluster
) -> Ids:  # pragma: no cover - compiled
    vertices = len(order)
    leader = np.arange(vertices).astype(np.int32)
    weight = weights.copy()  # weights of the cluster that a vertex leads
    joined = np.zeros(vertices, np.bool_)  # whether others joined the vertex, so it must stay
    ties = np.zeros(vertices, np.float64)
    near = np.empty(vertices, np.int32)
    untied = np.full(len(costs), -1, np.int32)  # by net: the last vertex without ties that it met
    left = vertices
    for v in order:
        if left <= target:
            break
        if leader[v] != v or joined[v]:
            continue
        neighbours = 0
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
                        near[neighbours] = u
                        neighbours += 1
                    ties[u] += tie
        best = -1
        most = 0.0
        for i in range(neighbours):
            u = near[i]
            first = weight[u, 0] + weights[v, 0]
            second = weight[u, 1] + weights[v, 1]
            if first <= bounds[0] and second <= bounds[1]:
                # Of two equal ties, the one to the lighter cluster wins: it leaves more room.
                fill = weight[u, 0] / bounds[0] + weight[u, 1] / bounds[1]
                tie = ties[u] / ((1.0 + fill) * divisor[u])
                if tie > most:
                    most = tie
                    best = u
            ties[u] = 0
        if neighbours == 0 and xnets[v] < xnets[v + 1]:
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
            divisor[best] = max(divisor[best], divisor[v])
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
