"""Makes each rank's share of the hypergraph and graph of a model, from the links that it holds.

Together the shares are equal to what one process makes (`models.nets`). Nets are ordered by the
smallest key of the pages that have them, or by the site that they belong to.
"""

from typing import NamedTuple

import numpy as np

from crawler.ports import Peers
from partition import models
from partition.arrays import Ids, Ints, Keys
from partition.hypergraph import Hypergraph, merged
from partition.models import Model, Units
from partition.ranks.dividing import Division
from partition.ranks.exchange import ROUND_ROWS, answered, everywhere, joined, split
from partition.ranks.merging import Sites
from partition.ranks.reading import Held
from partition.ranks.shares import Share, of_pairs, shared


class Links(NamedTuple):
    """The links that a rank holds, and the units at both ends of each."""

    source: Ids  # index in `Held.key`
    target: Keys
    source_unit: Ids
    target_unit: Ids
    lengths: Ids  # of the URLs


async def linked(held: Held, sites: Sites, division: Division, kind: Units, peers: Peers) -> Links:
    """Return the links of this rank with their units."""
    source, target, site, lengths = held.links.rows()
    own = division.of_page[source]
    if kind is Units.SITES:
        return Links(source, target, own, sites.of(site), lengths)

    def units_of(keys: Keys) -> Ids:
        at, _ = held.places(keys)
        units: Ids = division.of_page[at]
        return units

    other = np.empty(len(target), np.int32)
    rounds = max(await everywhere(peers, -(-len(target) // ROUND_ROWS)))
    for low in range(0, rounds * ROUND_ROWS, ROUND_ROWS):
        asked = target[low : low + ROUND_ROWS]
        other[low : low + ROUND_ROWS] = await answered(peers, units_of, asked)
    return Links(source, target, own, other, lengths)


async def share_of(
    held: Held, links: Links, division: Division, model: Model, peers: Peers
) -> Share:
    """Return this rank's share of the nets and pairs of a model."""
    across = np.flatnonzero(links.source_unit != links.target_unit)
    one, other = links.source_unit[across], links.target_unit[across]
    pairs = models.summed(one, other, links.lengths[across].astype(np.int64))
    weights = division.weights
    if not model.hyper:
        none, _ = _nets(one[:0], other[:0], weights)
        return of_pairs(await shared(held.key[:0], none, pairs, peers))
    if model.objective.by_site:
        site = division.site[one]
        n = np.int64(len(weights))
        distinct = np.unique(site * n + other)
        site, other = (distinct // n).astype(np.int32), (distinct % n).astype(np.int32)
        rows = split((site, other), site % peers.size, peers.size)
        site, other = joined(await peers.alltoall(rows))
        nets, sender = _nets(np.tile(site, 2), np.append(site, other), weights)
        return await shared(sender.astype(np.uint64) + np.uint64(1), nets, pairs, peers)
    source = links.source[across]
    nets, sender = _nets(np.tile(source, 2), np.append(one, other), weights)
    return await shared(held.key[sender], nets, pairs, peers)


def _nets(owner: Ids, unit: Ids, weights: Ints) -> tuple[Hypergraph, Ids]:
    """Return the distinct nets of owners with these units, and the first owner of each."""
    xpins, pins, owners = models.nets_of(owner, unit)
    every = Hypergraph(xpins, pins, np.ones(len(owners), np.int64), weights)
    nets, first = merged(every, np.arange(len(weights), dtype=np.int32), len(weights))
    return nets, owners[first]
