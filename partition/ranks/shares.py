"""The nets and pairs of units that a rank holds of a hypergraph and a graph of all units.

A net is at the rank that a hash of its pins names, and a pair at the rank that a hash of its two
ends names. So equal nets of several ranks have become one net, whose cost is their sum. What all
ranks hold together doesn't depend on the number of ranks.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from crawler.ports import Peers
from partition import models
from partition.arrays import Ids, Ints, Keys
from partition.hypergraph import Hypergraph, merged
from partition.ranks.exchange import (
    ROUND_ROWS,
    Columns,
    everywhere,
    gathered,
    joined,
    owners,
    routed,
    split,
)


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """What one rank holds: 4 bytes a pin, 24 a net, 16 a pair, and 16 for each vertex of all."""

    keys: Keys  # of each net: the smallest key of the pages that have it; ascending
    nets: Hypergraph  # the nets of this rank, with the weights of all vertices
    low: Ids  # of each pair: the ends, the lower one first
    high: Ids
    costs: Ints  # of each pair

    @property
    def vertices(self) -> int:
        """The number of vertices of all ranks."""
        return self.nets.vertices


@dataclass(frozen=True, slots=True, eq=False)
class Whole:
    """What all ranks hold together, on one rank."""

    hypergraph: Hypergraph
    low: Ints  # of each pair, as in `Share`; ascending
    high: Ints
    costs: Ints


async def shared(keys: Keys, nets: Hypergraph, pairs: Columns, peers: Peers) -> Share:
    """Return this rank's share of what the ranks have found.

    `keys` are those of the nets, `pairs` are low ends, high ends and costs. All ranks give the same
    weights.
    """
    ranks = owners(digests(nets), peers.size)
    own, every = await sent(keys, nets, ranks, peers)
    ends = [tuple(column[:0] for column in pairs)]
    async for pieces in routed(peers, _pairs_by_rank(pairs, peers.size)):
        ends += pieces
    own, first = merged(own, np.arange(own.vertices, dtype=np.int32), own.vertices)
    low, high, costs = models.summed(*joined(ends))
    return Share(every[first], own, low.astype(np.int32), high.astype(np.int32), costs)


async def sent(keys: Keys, nets: Hypergraph, ranks: Ints, peers: Peers) -> tuple[Hypergraph, Keys]:
    """Send each net to a rank. Returns the nets that this rank gets, by their keys, and the keys.

    `ranks` names the rank of each net.
    """
    found: list[Columns] = [(keys[:0], np.diff(nets.xpins)[:0], nets.costs[:0])]
    pins = [nets.pins[:0]]
    async for received in routed(peers, _nets_by_rank(keys, nets, ranks, peers.size)):
        found += [rows for rows, _ in received]
        pins += [of_rank for _, of_rank in received]
    return ordered(joined(found), np.concatenate(pins), nets.weights)


def of_pairs(share: Share) -> Share:
    """Return a share with a net of two pins for each pair, and no pairs.

    Connectivity - 1 is then the cut of the graph.
    """
    low, high = share.low.astype(np.uint64), share.high.astype(np.uint64)
    pins = np.stack([share.low, share.high], axis=1).ravel()
    nets = Hypergraph(np.arange(len(low) + 1) * 2, pins, share.costs, share.nets.weights)
    keys = (low << np.uint64(32) | high) + np.uint64(1)
    return Share(keys, nets, share.low[:0], share.high[:0], share.costs[:0])


def ordered(nets: Columns, pins: Ids, weights: Ints) -> tuple[Hypergraph, Keys]:
    """Return nets in the order of their keys, and these keys.

    `nets` are the key, the number of pins and the cost of each.
    """
    keys, sizes, costs = nets
    order = np.argsort(keys)
    starts = np.append(0, np.cumsum(sizes))
    xpins = np.append(0, np.cumsum(sizes[order]))
    # The place of each pin: its net's start before, and how far it is from the start now.
    at = np.repeat(starts[order] - xpins[:-1], sizes[order])
    at += np.arange(len(pins))
    return Hypergraph(xpins, pins[at], costs[order], weights), keys[order]


async def contracted(share: Share, unit: Ids, units: int, peers: Peers) -> Share:
    """Return this rank's share of the hypergraph and graph of groups of vertices.

    `unit` is the group of each vertex. Nets and pairs within one group are left out. A partition
    of the groups costs as much as its projection.
    """
    nets, first = merged(share.nets, unit, units)
    low, high = unit[share.low], unit[share.high]
    across = np.flatnonzero(low != high)
    pairs = models.summed(low[across], high[across], share.costs[across])
    return await shared(share.keys[first], nets, pairs, peers)


async def ends(share: Share, peers: Peers) -> int:
    """Return the number of pins of the nets and ends of the pairs that all ranks hold."""
    return sum(await everywhere(peers, len(share.nets.pins) + 2 * len(share.low)))


async def whole(share: Share, peers: Peers) -> Whole | None:
    """Return what all ranks hold at rank 0, and None elsewhere. The nets are ordered by key."""
    nets = share.nets
    rows = await gathered(peers, (share.keys, np.diff(nets.xpins), nets.costs))
    (pins,) = await gathered(peers, (nets.pins,))
    low, high, costs = await gathered(peers, (share.low, share.high, share.costs))
    if peers.rank:
        return None
    hypergraph, _ = ordered(rows, pins, nets.weights)
    return Whole(hypergraph, *models.summed(low, high, costs))


def digests(nets: Hypergraph) -> Keys:
    """Return a hash of the pins of each net, in any order."""
    pieces = [np.empty(0, np.uint64)]
    for begin in range(0, nets.nets, ROUND_ROWS):
        xpins = nets.xpins[begin : begin + ROUND_ROWS + 1]
        pins = nets.pins[xpins[0] : xpins[-1]].astype(np.uint64)
        pieces.append(np.add.reduceat(_mixed(pins), xpins[:-1] - xpins[0]))
    return np.concatenate(pieces)


def _nets_by_rank(
    keys: Keys, nets: Hypergraph, ranks: Ints, size: int
) -> Iterator[list[tuple[Columns, Ids]]]:
    for begin in range(0, nets.nets, ROUND_ROWS):
        end = min(begin + ROUND_ROWS, nets.nets)
        xpins = nets.xpins[begin : end + 1]
        sizes = np.diff(xpins)
        pins = nets.pins[xpins[0] : xpins[-1]]
        to = ranks[begin:end]
        rows = split((keys[begin:end], sizes, nets.costs[begin:end]), to, size)
        of_pins = split((pins,), np.repeat(to, sizes), size)
        yield [(one, own) for one, (own,) in zip(rows, of_pins, strict=True)]


def _pairs_by_rank(pairs: Columns, size: int) -> Iterator[list[Columns]]:
    for begin in range(0, len(pairs[0]), ROUND_ROWS):
        piece = tuple(column[begin : begin + ROUND_ROWS] for column in pairs)
        low, high = (column.astype(np.uint64) for column in piece[:2])
        yield split(piece, owners(_mixed(low << np.uint64(32) | high), size), size)


def _mixed(numbers: Keys) -> Keys:
    """Return a hash of each number (the finalizer of SplitMix64)."""
    x = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
