"""Makes the sites, and their hypergraph and graph, at rank 0 from what the ranks hold.

They are equal to those that one process makes: sites are ordered by name, and nets by the smallest
key of the pages that have them.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crawler.ports import Peers
from partition import UserError, arrays, models
from partition.arrays import Ids, Ints, Keys
from partition.graph.sites import check_names
from partition.hypergraph import Hypergraph, merged, simplify
from partition.models import Graph
from partition.ranks.exchange import (
    Columns,
    agreed,
    by_owner,
    gathered,
    joined,
    routed,
)
from partition.ranks.reading import Held, site_key


@dataclass(frozen=True, slots=True, eq=False)
class Sites:
    """The sites of a web, ordered by name, with the hypergraph and the graph of the model."""

    names: list[str]
    hypergraph: Hypergraph
    graph: Graph

    @property
    def weights(self) -> Ints:
        """The bytes and requests of each site; sites x 2."""
        return self.hypergraph.weights


async def merge(held: Held, peers: Peers) -> Sites | None:
    """Return the sites at rank 0, and None elsewhere. Raises UserError."""
    keys, names, weights = await _weighed_sites(held, peers)
    found = np.array(names, object)
    order = np.argsort(found, kind="stable") if len(found) else np.empty(0, np.int64)
    by_name = keys[order]  # at rank 0
    by_key = np.argsort(by_name)
    ascending, unit_of = await peers.bcast((by_name[by_key], by_key.astype(np.int32)))

    def unit(sites: Keys) -> Ids:
        numbers: Ids = unit_of[np.searchsorted(ascending, sites)]
        return numbers

    source, _, site, length = held.links.rows()
    target_unit, source_unit = unit(site), unit(held.site[source])
    del site
    net = await _nets(held.key, source, source_unit, target_unit, len(unit_of), peers)
    low, high, costs = models.summed(source_unit, target_unit, length.astype(np.int64))
    low, high, costs = await gathered(peers, (low, high, costs))
    if peers.rank:
        return None
    weights = weights[order]
    return Sites(
        names=found[order].tolist(),
        hypergraph=simplify(Hypergraph(*net, weights)),
        graph=models.graph_of(*models.summed(low, high, costs), weights),
    )


async def _weighed_sites(held: Held, peers: Peers) -> tuple[Keys, list[str], Ints]:
    """Return the key, the name and the weights of each site with pages at rank 0."""
    names = await _names(held.sites.names, peers)
    await agreed(peers, lambda: check_names(names.values()))
    sites = np.concatenate([held.site, held.unfetched.rows()[1]])
    sizes = np.concatenate([held.bytes, np.zeros(len(sites) - len(held.bytes), np.int64)])
    whole = sum(await peers.bcast(await peers.gather(arrays.total(sizes))))

    def check() -> None:
        if whole >= 1 << 63:
            raise UserError("pages: bytes: sum to 2^63 or more; must be less")

    await agreed(peers, check)
    sums = _summed(sites, sizes, np.ones(len(sites), np.int64))
    del sites, sizes
    pieces: list[Columns] = [tuple(column[:0] for column in sums)]
    async for received in routed(peers, by_owner(sums, peers)):
        pieces += received
    keys, size, requests = _summed(*joined(pieces))
    own = np.array([names[key] for key in keys.tolist()], object)
    keys, own, size, requests = await gathered(peers, (keys, own, size, requests))
    return keys, own.tolist(), np.stack([size, requests], axis=1)


async def _names(read: list[str], peers: Peers) -> dict[int, str]:
    """Return the names of the sites whose keys belong to this rank. Raises UserError."""
    keys = np.fromiter(map(site_key, read), np.uint64, len(read))
    names: dict[int, str] = {}
    twins: list[tuple[str, str]] = []
    texts = np.array(read, object)
    async for received in routed(peers, by_owner((keys, texts), peers)):
        for key, name in zip(*(column.tolist() for column in joined(received)), strict=True):
            if names.setdefault(key, name) != name:
                twins.append((names[key], name))

    def check() -> None:
        if twins:
            raise UserError(
                "sites {} and {} have the same hash; leave mpirun out, so that one process"
                " tells them apart".format(*twins[0])
            )

    await agreed(peers, check)
    return names


def _summed(keys: Keys, *numbers: Ints) -> Columns:
    """Return the distinct keys, ascending, and the sums of the numbers of each."""
    distinct, of = np.unique(keys, return_inverse=True)
    sums = [np.zeros(len(distinct), np.int64) for _ in numbers]
    for total, column in zip(sums, numbers, strict=True):
        np.add.at(total, of, column)
    return distinct, *sums


async def _nets(
    key: Keys, source: Ids, source_unit: Ids, target_unit: Ids, units: int, peers: Peers
) -> tuple[Ints, Ids, Ints]:
    """Return the nets of all pages at rank 0: their starts, their pins, and their costs.

    Each rank has merged its equal nets. The nets are ordered by the first page that has them.
    """
    xpins, pins, senders = models.nets_of(
        np.tile(source, 2), np.concatenate([source_unit, target_unit])
    )
    nothing: npt.NDArray[np.int64] = np.zeros((units, 2), np.int64)
    ones = np.ones(len(senders), np.int64)
    own, first = merged(Hypergraph(xpins, pins, ones, nothing))
    first_key, costs, sizes = await gathered(
        peers, (key[senders[first]], own.costs, np.diff(own.xpins))
    )
    (pins,) = await gathered(peers, (own.pins,))
    order = np.argsort(first_key)
    starts = np.append(0, np.cumsum(sizes))
    ordered = np.append(0, np.cumsum(sizes[order]))
    # The place of each pin: its net's start before, and how far it is from the start now.
    at = np.repeat(starts[order] - ordered[:-1], sizes[order]) + np.arange(len(pins))
    return ordered, pins[at], costs[order]
