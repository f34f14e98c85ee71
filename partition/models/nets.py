"""Makes the graph or the hypergraph of a model, from the links between its units.

The rule for a graph: an edge for each two linked units, at the cost of its links' URLs. The rule
for a hypergraph: a net for each page (or site) that sends, with the units that it sends from and
to, at the cost of a message; and nets for the bytes, if these count.
"""

import math
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from partition.arrays import Ids, Ints, sums
from partition.hypergraph import Hypergraph, simplify
from partition.models.division import weights
from partition.models.model import MESSAGES, Objective
from partition.webgraph import WebGraph

_MAX_COSTS: Final = 1 << 30  # the sum of a hypergraph's costs, because engines use 32 bits


class Graph(NamedTuple):
    """An undirected graph with two weights a vertex. Each edge is in the rows of both ends."""

    xadj: Ints  # vertices + 1
    adj: Ids
    costs: Ints  # cost of each edge in `adj`, at least 1
    weights: Ints  # vertices x 2: bytes, requests


def graph(web: WebGraph, unit: Ids) -> Graph:
    """Return the graph of the units, with an edge between two units that link to each other.

    The cost of an edge is the sum of the lengths of the URLs of all links between the two
    units, in both directions. So the cost of the cut edges is the volume.
    """
    return graph_of(*_edges(web, unit), weights(web, unit))


def graph_of(low: Ints, high: Ints, costs: Ints, unit_weights: Ints) -> Graph:
    """Return the graph with an edge between `low` and `high`, for each pair of units."""
    n = len(unit_weights)
    rows, columns = np.append(low, high), np.append(high, low)
    order = np.argsort(rows * n + columns)
    return Graph(
        xadj=np.searchsorted(rows[order], np.arange(n + 1)),
        adj=columns[order].astype(np.int32),
        costs=np.maximum(np.append(costs, costs)[order], 1),
        weights=unit_weights,
    )


def hypergraph(web: WebGraph, unit: Ids, objective: Objective = MESSAGES) -> Hypergraph:
    """Return a hypergraph whose connectivity - 1, times the costs of the nets, is the objective.

    For t_start, there is a net for each page (or site) with its own unit and those that it
    links to. For t_byte, there is a net for each two units that link to each other. If senders
    remember, there is instead a net for each page with its own unit and those that link to it.
    Costs are scaled to whole numbers. Equal nets are merged.
    """
    pieces: list[tuple[Ints, Ids, npt.NDArray[np.floating[Any]]]] = []
    source = web.sources()
    if objective.t_start:
        sender = web.site[source] if objective.by_site else source
        xpins, pins, senders = _nets(unit, sender, source, web.adj)
        pieces.append((xpins, pins, np.full(len(senders), objective.t_start)))
    if objective.t_byte and objective.remember:
        xpins, pins, pages = _nets(unit, web.adj, web.adj, source)
        pieces.append((xpins, pins, objective.t_byte * web.url_bytes[pages]))
    elif objective.t_byte:
        low, high, lengths = _edges(web, unit)
        pins = np.stack([low, high], axis=1).astype(np.int32).ravel()
        pieces.append((np.arange(len(low) + 1) * 2, pins, objective.t_byte * lengths))
    sizes = np.concatenate([np.diff(xpins) for xpins, _, _ in pieces])
    costs = np.concatenate([costs for _, _, costs in pieces])
    costs = costs * factor(objective, float(costs.sum()))
    return simplify(
        Hypergraph(
            xpins=np.append(0, np.cumsum(sizes)),
            pins=np.concatenate([pins for _, pins, _ in pieces]),
            costs=whole_costs(costs),
            weights=weights(web, unit),
        )
    )


def factor(objective: Objective, total: float) -> float:
    """Return by what the costs of nets, whose sum is `total`, are multiplied.

    If only messages or only bytes count, each of them costs 1, as long as engines can add up all.
    """
    mixed = objective.t_start and objective.t_byte
    scale = math.inf if mixed else 1 / (objective.t_start or objective.t_byte)
    return min(scale, _MAX_COSTS / max(total, 1e-300))


def whole_costs(costs: npt.NDArray[np.floating[Any]]) -> Ints:
    """Return costs as whole numbers, 1 or more."""
    whole: Ints = np.maximum(np.rint(costs), 1).astype(np.int64)
    return whole


def as_hypergraph(graph: Graph) -> Hypergraph:
    """Return a net with two pins for each edge, so that connectivity - 1 is the edge cut."""
    rows = np.repeat(np.arange(len(graph.weights), dtype=np.int32), np.diff(graph.xadj))
    once = np.flatnonzero(rows < graph.adj)
    return Hypergraph(
        xpins=np.arange(len(once) + 1) * 2,
        pins=np.stack([rows[once], graph.adj[once]], axis=1).ravel(),
        costs=graph.costs[once],
        weights=graph.weights,
    )


def _edges(web: WebGraph, unit: Ids) -> tuple[Ints, Ints, Ints]:
    """Return the pairs of linked units, and the lengths of the URLs of their links."""
    source, target = unit[web.sources()], unit[web.adj]
    outside = np.flatnonzero(source != target)
    lengths = web.url_bytes[web.adj[outside]].astype(np.int64)
    return summed(source[outside], target[outside], lengths)


def summed(
    one: npt.NDArray[Any], other: npt.NDArray[Any], lengths: Ints
) -> tuple[Ints, Ints, Ints]:
    """Return the distinct pairs of units, lower unit first, and the sum of the lengths of each."""
    n = np.int64(max(int(one.max(initial=-1)), int(other.max(initial=-1))) + 1)
    pair, costs = sums(np.minimum(one, other) * n + np.maximum(one, other), lengths)
    return pair // max(n, 1), pair % max(n, 1), costs


def _nets(unit: Ids, owner: Ids, page: Ids, other: Ids) -> tuple[Ints, Ids, Ids]:
    """Return, for each owner of links across units, the net of the units at both ends.

    Links are between `page` and `other`, and belong to `owner`. Returns the starts of the nets,
    their pins, and their owners.
    """
    across = np.flatnonzero(unit[page] != unit[other])
    ends = np.concatenate([unit[page[across]], unit[other[across]]])
    return nets_of(np.tile(owner[across], 2), ends)


def nets_of(owner: Ids, unit: Ids) -> tuple[Ints, Ids, Ids]:
    """Return a net for each owner, with the distinct units that it has, in ascending order.

    Returns the starts of the nets, their pins, and their owners, ascending.
    """
    n = np.int64(int(unit.max(initial=0)) + 1)
    pins = owner.astype(np.int64)
    pins *= n
    pins += unit
    pins.sort()
    pins = pins[np.append(True, pins[1:] != pins[:-1])[: len(pins)]]
    owners = pins // n
    starts = np.flatnonzero(np.append(True, owners[1:] != owners[:-1])[: len(pins)])
    return (
        np.append(starts, len(pins)),
        (pins % n).astype(np.int32),
        owners[starts].astype(np.int32),
    )
