"""Numbers the sites that the ranks hold by their names, and adds up their weights."""

from dataclasses import dataclass

import numpy as np

from crawler.ports import Peers
from partition import UserError, arrays
from partition.arrays import Ids, Ints, Keys, sums
from partition.graph.sites import check_names
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
    """The sites of a web, which are numbered by name."""

    names: list[str]  # at rank 0, and none elsewhere
    weights: Ints  # sites x 2: bytes, requests
    keys: Keys  # ascending
    number: Ids  # of the site of each key

    def of(self, keys: Keys) -> Ids:
        """Return the number of the site of each key."""
        numbers: Ids = self.number[np.searchsorted(self.keys, keys)]
        return numbers


async def numbered(held: Held, peers: Peers) -> Sites:
    """Return the sites of all ranks. Raises UserError."""
    keys, names, weights = await _weighed_sites(held, peers)
    found = np.array(names, object)
    order = np.argsort(found, kind="stable") if len(found) else np.empty(0, np.int64)
    by_name, weights = keys[order], weights[order]  # at rank 0
    by_key = np.argsort(by_name)
    ascending, number, weights = await peers.bcast(
        (by_name[by_key], by_key.astype(np.int32), weights)
    )
    return Sites(found[order].tolist(), weights, ascending, number)


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
    own_sums = sums(sites, sizes, np.ones(len(sites), np.int64))
    del sites, sizes
    pieces: list[Columns] = [tuple(column[:0] for column in own_sums)]
    async for received in routed(peers, by_owner(own_sums, peers)):
        pieces += received
    keys, size, requests = sums(*joined(pieces))
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
