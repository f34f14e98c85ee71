"""Divides the pages that the ranks hold into the units of a model.

The rules are those of `models.units`, and so are the numbers of the units. Pages are numbered by
key. For the hybrid model, the pages of a heavy site meet at one rank, which divides the site.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crawler.dataset import table_path
from crawler.ports import Peers
from partition import models
from partition.arrays import Ids, Ints, Keys, sums
from partition.graph.batches import Share, batches
from partition.models import SHARE, Units
from partition.ranks.exchange import agreed, answered, asked, everywhere, joined, owners, split
from partition.ranks.merging import Sites
from partition.ranks.reading import Held

Flags = npt.NDArray[np.bool_]
Texts = npt.NDArray[np.object_]


class Division(NamedTuple):
    """The units of a model. All but `of_page` is the same on all ranks: 20 bytes a unit."""

    of_page: Ids  # of each page that this rank holds (`Held.pages`)
    weights: Ints  # units x 2: bytes, requests
    site: Ids  # of each unit, the number of its site


async def divided(
    folders: Sequence[Path],
    held: Held,
    sites: Sites,
    kind: Units,
    parts: int,
    kept: Flags,
    peers: Peers,
) -> Division:
    """Return the units of a kind. `kept`: which sites the hybrid model must not divide."""
    keys, site_keys, sizes = held.pages()
    site = sites.of(site_keys)
    if kind is Units.SITES:
        return Division(site, sites.weights, np.arange(len(sites.weights), dtype=np.int32))
    if kind is Units.PAGES:
        unit = await page_numbers(keys, peers)
    else:
        share = SHARE * sites.weights.sum(axis=0) / parts
        heavy = (sites.weights > share).any(axis=1) & ~kept
        unit = await _split(folders, held, site, heavy, share, peers)
    return await _weighed(unit, site, sizes, peers)


async def _weighed(unit: Ids, site: Ids, sizes: Ints, peers: Peers) -> Division:
    own, bytes_, requests = sums(unit, sizes, np.ones(len(unit), np.int64))
    first = np.unique(unit, return_index=True)[1]
    of_ranks = await everywhere(peers, (own, np.stack([bytes_, requests], axis=1), site[first]))
    units = max(int(of_rank[0].max(initial=-1)) for of_rank in of_ranks) + 1
    weights, site_of = np.zeros((units, 2), np.int64), np.zeros(units, np.int32)
    for at, more, sites in of_ranks:
        weights[at] += more
        site_of[at] = sites
    return Division(unit, weights, site_of)


async def page_numbers(keys: Keys, peers: Peers) -> Ids:
    """Return the number of each page among those of all ranks, in the order of their keys.

    `keys`: of the pages that this rank holds.
    """
    size = peers.size
    ranges = ((keys >> np.uint64(32)) * np.uint64(size) >> np.uint64(32)).astype(np.int64)

    def places(keys: Keys) -> Ids:
        place = np.empty(len(keys), np.int32)
        place[np.argsort(keys)] = np.arange(len(keys), dtype=np.int32)
        return place

    place = await asked(peers, places, ranges, keys)
    own = np.bincount(ranges, minlength=size)
    before = np.append(0, np.cumsum(np.sum(await everywhere(peers, own), axis=0)))
    number: Ids = (place + before[ranges]).astype(np.int32)
    return number


async def _split(
    folders: Sequence[Path], held: Held, site: Ids, heavy: Flags, share: Any, peers: Peers
) -> Ids:
    """Return the unit of each page of this rank, if heavy sites become directories and pages."""
    inside = np.flatnonzero(heavy[site])
    keys, _, sizes = held.pages()
    texts = await directories(folders, held, heavy[site], peers)
    pieces: dict[int, int] = {}  # the number of pieces of each site that this rank divides

    def divide(number: int, rows: Ints, columns: tuple[npt.NDArray[Any], ...]) -> Ints:
        own_sizes, own_texts = columns
        load = np.stack([own_sizes[rows], np.ones(len(rows), np.int64)], axis=1)
        piece = models.split_tree(own_texts[rows].tolist(), load, share)
        pieces[number] = int(piece.max()) + 1
        return piece

    piece = await by_site(peers, divide, site[inside], keys[inside], sizes[inside], texts[inside])
    unit_of = np.cumsum(~heavy, dtype=np.int32) - 1  # of a site that isn't divided
    free = int((~heavy).sum())
    of_all = {number: n for one in await everywhere(peers, pieces) for number, n in one.items()}
    for number in sorted(of_all):
        unit_of[number] = free
        free += of_all[number]
    unit: Ids = unit_of[site]
    unit[inside] += piece.astype(np.int32)
    return unit


async def by_site(
    peers: Peers,
    work: Callable[[int, Ints, tuple[npt.NDArray[Any], ...]], Ints],
    site: Ids,
    keys: Keys,
    *columns: npt.NDArray[Any],
) -> Ints:
    """Return, for each page, what `work` returns at the rank where all pages of the site meet.

    `work` gets the number of a site, the rows of its pages in the order of their keys, and the
    columns.
    """

    def answer(site: Ids, keys: Keys, *columns: npt.NDArray[Any]) -> Ints:
        result = np.zeros(len(site), np.int64)
        order = np.lexsort((keys, site))
        ends = np.flatnonzero(np.diff(site[order])) + 1
        for rows in np.split(order, ends) if len(order) else []:
            result[rows] = work(int(site[rows[0]]), rows, columns)
        return result

    return await asked(peers, answer, site.astype(np.int64) % peers.size, site, keys, *columns)


async def directories(folders: Sequence[Path], held: Held, wanted: Flags, peers: Peers) -> Texts:
    """Return the directories of the pages of this rank that are wanted, and None for others.

    The tables are read once more. Only URLs of wanted pages are sent, each once or twice.
    """
    found: Texts = np.full(len(wanted), None, object)
    names: dict[str, str] = {}  # each text once, because many pages have the same

    def lacks(keys: Keys) -> Flags:
        if not len(wanted):
            return np.zeros(len(keys), bool)
        at, known = held.places(keys)
        lacking: Flags = known & wanted[at] & (found[at] == np.array(None))
        return lacking

    async for batch in _urls(folders, peers):
        keys, first = np.unique(batch[0].to_numpy(), return_index=True)
        lacking = await answered(peers, lacks, keys)
        keys, texts = keys[lacking], batch[1].take(pa.array(first[lacking])).to_pylist()
        told = np.array(models.directories(texts), object)
        rows = await peers.alltoall(split((keys, told), owners(keys, peers.size), peers.size))
        keys, told = joined(rows)
        at, _ = held.places(keys)
        found[at] = [names.setdefault(text, text) for text in told.tolist()]
    return found


async def _urls(folders: Sequence[Path], peers: Peers) -> AsyncIterator[tuple[pa.Array, pa.Array]]:
    """Yield keys and URLs of pages, then those of targets, on all ranks equally often."""
    share = Share(peers.rank, peers.size)
    nothing = pa.array([], pa.uint64()), pa.array([], pa.string())
    for table, *names in (("pages", "key", "url"), ("links", "target_key", "target_url")):
        for folder in folders:
            rows = batches(table_path(folder, table), *names, share=share)
            while True:
                batch = await agreed(peers, partial(next, rows, None))
                if all(await everywhere(peers, batch is None)):
                    break
                yield nothing if batch is None else (batch[names[0]], batch[names[1]])
