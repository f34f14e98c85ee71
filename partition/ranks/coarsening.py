"""Coarsening on all ranks together, until what they hold fits into one rank.

The rule is that of `multilevel.coarsen`: each vertex joins the neighbour, or the cluster of the
neighbour, with the strongest tie. One process takes one vertex after the other. Ranks take a piece
of the random order at a time:

1. Each rank finds the ties of the piece's vertices in its own nets.
2. It sends them to the ranks that choose for these vertices. Such a rank adds up the ties, and
   chooses the cluster of each of its vertices.
3. All ranks get all choices and do the same joins, in the order of the piece. A join that would
   make a cluster too heavy is left out.

Ties are whole numbers, and every choice is made at one rank. So the clusters don't depend on the
number of ranks.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from crawler.compiled import compiled, in_thread
from crawler.ports import Peers
from partition.arrays import Ids, Ints, Keys, sums
from partition.multilevel import presets
from partition.multilevel.steps import lowered
from partition.ranks.exchange import Columns, everywhere, joined, reduced, split
from partition.ranks.shares import Share, contracted, ends

_PIECES: Final = 100  # pieces that a level is taken in, at least
_MOST_PIECE: Final = 1 << 15  # vertices in a piece, at most: all their ties are held at once
_TIE: Final = 1 << 20  # a tie of 1; the costs of all nets must sum to less than 2^42
_HAS_TIES: Final = np.iinfo(np.int64).max  # in place of a size of a net, for a vertex with ties

Shares = npt.NDArray[np.float64]
T = TypeVar("T", bound=np.generic)


class Level(NamedTuple):
    """A level that was coarsened."""

    share: Share  # of this rank
    unit: Ids  # of each vertex: its vertex on the next level


async def coarsened(
    share: Share,
    label: Ids,
    limits: Ints,
    most_ends: int,
    *,
    seed: int,
    progress: Callable[[str], None],
    peers: Peers,
) -> tuple[list[Level], Share]:
    """Coarsen until all shares together have at most `most_ends` pins and ends of pairs.

    Only vertices with equal labels are merged. `limits` (parts x 2): what each part may weigh.
    Returns the levels that were coarsened, and the share of the coarsest one. Coarsening ends
    earlier if there are few vertices for so many parts, or if hardly any can be merged.
    """
    preset = presets.DEFAULT
    few = max(preset.coarsest_per_part * len(limits), preset.coarsest_vertices)
    bounds = np.maximum((limits.min(axis=0) * preset.cluster_share).astype(np.int64), 1)
    rng = np.random.default_rng(seed)
    levels: list[Level] = []
    while (held := await ends(share, peers)) > most_ends:
        nets = share.nets
        own = _costs(nets.xpins, nets.pins, nets.costs, share.vertices)
        cost = await reduced(peers, own)
        tied = np.flatnonzero(cost).astype(np.int32)
        if len(tied) <= few:
            break
        progress(f"coarsening {len(tied):,} units with {held:,} pins on {peers.size} ranks")
        unit, units = await cluster(
            share,
            rng.permutation(tied),
            cost,
            label=label,
            bounds=bounds,
            target=max(int(len(tied) / preset.max_shrink), few),
            peers=peers,
        )
        if share.vertices - units < len(tied) * (1 - preset.stall_ratio):
            break
        levels.append(Level(share, unit))
        label = lowered(label, unit)
        share = await contracted(share, unit, units, peers)
    return levels, share


async def cluster(
    share: Share, order: Ids, cost: Ints, *, label: Ids, bounds: Ints, target: int, peers: Peers
) -> tuple[Ids, int]:
    """Return the cluster of each vertex, and the number of clusters.

    `order`: the vertices with nets. `cost`: of each vertex, the costs of its nets. `label`: all
    vertices of a cluster have the same. `bounds`: the most that a cluster may have of each weight.
    Clustering ends when the vertices with nets make `target` clusters.
    """
    preset = presets.DEFAULT
    nets = share.nets
    to_nets = nets.nets_of_vertices()
    vertices = nets.vertices
    clusters = _Clusters(
        leader=np.arange(vertices, dtype=np.int32),
        weights=nets.weights.copy(),
        is_joined=np.zeros(vertices, bool),
        divisor=np.maximum(cost, 1).astype(np.float64) ** preset.hub_exponent,
    )
    left = len(order)
    alone: list[tuple[Ids, Keys]] = []  # vertices without ties, and the net of each
    for piece in pieces(order, _PIECES):
        if left <= target:
            break
        vertex = piece[~clusters.is_joined[piece]]
        of, to, tie, size, net = _ties(
            nets.xpins,
            nets.pins,
            nets.costs,
            *to_nets,
            clusters.leader,
            label,
            vertex,
            preset.max_tie_pins,
        )
        key = np.zeros(len(net), np.uint64)
        key[net >= 0] = share.keys[net[net >= 0]]
        chosen, key = await _chosen(vertex, (of, to, tie), (size, key), clusters, bounds, peers)
        left -= _join(vertex, chosen, *clusters, bounds, left - target)
        alone.append((vertex[key > 0], key[key > 0]))
    if alone and left > target:
        # Those whose only nets are large join others of their smallest net.
        vertex, key = joined(alone)
        by_key = np.lexsort((label[vertex], key))
        vertex, key = vertex[by_key], key[by_key]
        alike = (key[1:] == key[:-1]) & (label[vertex[1:]] == label[vertex[:-1]])
        before = np.append(np.int32(-1), np.where(alike, vertex[:-1], -1))
        _join(vertex, before[: len(vertex)].astype(np.int32), *clusters, bounds, left - target)
    is_leader = clusters.leader == np.arange(vertices)
    number = np.cumsum(is_leader, dtype=np.int32) - np.int32(1)
    return number[clusters.leader], int(is_leader.sum())


class _Clusters(NamedTuple):
    """The clusters so far, which are the same on all ranks: 29 bytes a vertex."""

    leader: Ids  # of the cluster of each vertex
    weights: Ints  # of the cluster that a vertex leads; vertices x 2
    is_joined: npt.NDArray[np.bool_]  # whether others joined the vertex, so it must stay
    divisor: Shares  # of ties to each vertex, or to its cluster


def pieces(order: Ids, number: int) -> Iterator[Ids]:
    """Yield about `number` pieces of an order of vertices, or more if they would be too large."""
    size = min(max(len(order) // number, 1), _MOST_PIECE)
    for begin in range(0, len(order), size):
        yield order[begin : begin + size]


async def _chosen(
    vertex: Ids,
    ties: Columns,
    narrowest: tuple[Ints, Keys],
    clusters: _Clusters,
    bounds: Ints,
    peers: Peers,
) -> tuple[Ids, Keys]:
    """Return the cluster that each vertex of a piece joins, or -1.

    For a vertex without ties on any rank, also return the key of its smallest net; 0 for others.
    `ties` has the place of a vertex in the piece, a cluster, and their tie in the nets of this
    rank. `narrowest` has the size and the key of the smallest net of each vertex on this rank.
    """
    size = peers.size
    of, to, tie = joined(await peers.alltoall(split(ties, ties[0] % size, size)))
    pair, tie = sums(of.astype(np.int64) << 32 | to, tie)
    own = vertex[peers.rank :: size]
    best = _best_ties(
        own, (pair >> 32) // size, (pair & 0xFFFFFFFF).astype(np.int32), tie, *clusters, bounds
    )
    found = await peers.alltoall(
        [tuple(column[rank::size] for column in narrowest) for rank in range(size)]
    )
    sizes, keys = (np.stack(column) for column in zip(*found, strict=True))
    rank_of = np.lexsort((keys, sizes), axis=0)[0]
    key = keys[rank_of, np.arange(len(own))]
    key[(sizes == _HAS_TIES).any(axis=0)] = 0
    chosen, all_keys = np.empty(len(vertex), np.int32), np.empty(len(vertex), np.uint64)
    for rank, (bests, found) in enumerate(await everywhere(peers, (best, key))):
        chosen[rank::size], all_keys[rank::size] = bests, found
    return chosen, all_keys


@in_thread
def _costs(
    xpins: Ints, pins: Ids, costs: Ints, vertices: int
) -> Ints:  # pragma: no cover - compiled
    """Return the sum of the costs of the nets of each vertex."""
    cost = np.zeros(vertices, np.int64)
    for e in range(len(costs)):
        for i in range(xpins[e], xpins[e + 1]):
            cost[pins[i]] += costs[e]
    return cost


@in_thread
def _ties(
    xpins: Ints,
    pins: Ids,
    costs: Ints,
    xnets: Ints,
    nets: Ids,
    leader: Ids,
    label: Ids,
    vertex: Ids,
    widest: int,
) -> tuple[Ids, Ids, Ints, Ints, Ids]:  # pragma: no cover - compiled
    """Return ties of vertices to clusters of their label: a vertex's place, a cluster, the tie.

    Also returns, for each vertex without ties here, the size and the number of its smallest net.
    A vertex without nets here has the largest size and -1, one with ties has _HAS_TIES and -1.
    """
    room = 4 * len(vertex) + 16
    of, cluster, ties = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int64)
    tie = np.zeros(len(leader), np.int64)
    size = np.full(len(vertex), _HAS_TIES - 1, np.int64)
    narrowest = np.full(len(vertex), -1, np.int32)
    used = 0
    for row in range(len(vertex)):
        v = vertex[row]
        begin = used
        for j in range(xnets[v], xnets[v + 1]):
            e = nets[j]
            pins_of_net = xpins[e + 1] - xpins[e]
            if pins_of_net < size[row]:
                size[row] = pins_of_net
                narrowest[row] = e
            if pins_of_net > widest:
                continue
            more = costs[e] * _TIE // (pins_of_net - 1)
            for i in range(xpins[e], xpins[e + 1]):
                u = leader[pins[i]]
                if u != v and label[u] == label[v]:
                    if tie[u] == 0:
                        if used == room:
                            room *= 2
                            of, cluster = grown(of, room), grown(cluster, room)
                            ties = grown(ties, room)
                        of[used] = row
                        cluster[used] = u
                        used += 1
                    tie[u] += more
        for i in range(begin, used):
            ties[i] = tie[cluster[i]]
            tie[cluster[i]] = 0
        if used > begin:
            size[row] = _HAS_TIES
            narrowest[row] = -1
    return of[:used].copy(), cluster[:used].copy(), ties[:used].copy(), size, narrowest


@compiled
def grown(values: npt.NDArray[T], room: int) -> npt.NDArray[T]:  # pragma: no cover - compiled
    """Return the values with room for more after them."""
    longer = np.empty(room, values.dtype)
    longer[: len(values)] = values
    return longer


@in_thread
def _best_ties(
    vertex: Ids,
    row: Ints,
    cluster: Ids,
    ties: Ints,
    leader: Ids,
    weights: Ints,
    is_joined: npt.NDArray[np.bool_],
    divisor: Shares,
    bounds: Ints,
) -> Ids:  # pragma: no cover - compiled
    """Return the cluster that each vertex has the strongest tie to and fits into, or -1.

    The ties are ordered by the place `row` of the vertex in `vertex`.
    """
    best = np.full(len(vertex), -1, np.int32)
    most = np.zeros(len(vertex), np.float64)
    for i in range(len(row)):
        v = vertex[row[i]]
        u = cluster[i]
        first = weights[u, 0] + weights[v, 0]
        second = weights[u, 1] + weights[v, 1]
        if first <= bounds[0] and second <= bounds[1]:
            # Of two equal ties, the one to the lighter cluster wins: it leaves more room.
            fill = weights[u, 0] / bounds[0] + weights[u, 1] / bounds[1]
            tie = ties[i] / ((1.0 + fill) * divisor[u])
            if tie > most[row[i]]:
                most[row[i]] = tie
                best[row[i]] = u
    return best


@in_thread
def _join(
    vertex: Ids,
    chosen: Ids,
    leader: Ids,
    weights: Ints,
    is_joined: npt.NDArray[np.bool_],
    divisor: Shares,
    bounds: Ints,
    most: int,
) -> int:  # pragma: no cover - compiled
    """Let vertices join the clusters that they chose. Returns the number of joins, at most `most`.

    Since the choice, the leader of a cluster may have joined another one, and clusters may have
    become heavier.
    """
    joins = 0
    for i in range(len(vertex)):
        v = vertex[i]
        if joins >= most:
            break
        if chosen[i] < 0 or is_joined[v]:
            continue
        u = leader[chosen[i]]
        if (
            weights[u, 0] + weights[v, 0] <= bounds[0]
            and weights[u, 1] + weights[v, 1] <= bounds[1]
        ):
            leader[v] = u
            is_joined[u] = True
            weights[u, 0] += weights[v, 0]
            weights[u, 1] += weights[v, 1]
            divisor[u] = max(divisor[u], divisor[v])
            joins += 1
    return joins
