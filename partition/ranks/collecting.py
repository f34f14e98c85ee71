"""Collects the links of all pages at rank 0, which predicts the time of the crawl from them.

The tables of links are read once more, without URLs. Rank 0 needs 4 bytes for each link and about
60 for each page. Pages are numbered by key and sites by name, as in one process. So the prediction
is that of one process.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from crawler.dataset import table_path
from crawler.ports import Peers
from partition.arrays import Ids, Ints, Keys
from partition.graph.batches import Share, batches
from partition.graph.sessions import OUT_OF_SCOPE, seed_keys
from partition.ranks.dividing import page_numbers
from partition.ranks.exchange import (
    Columns,
    agreed_at_first,
    answered,
    everywhere,
    gathered,
    joined,
    owners,
    routed,
    split,
)
from partition.ranks.merging import Sites
from partition.ranks.reading import Distinct, Held
from partition.webgraph import LinkGraph

_ROWS: Final = 1 << 20  # links that rank 0 gets at a time, about


class Collected(NamedTuple):
    """What the prediction of a crawl needs to know of a web."""

    links: LinkGraph
    unit: Ids  # of each page
    seeds: Ids  # pages with which the last session began


async def collected(
    folders: Sequence[Path], held: Held, sites: Sites, unit: Ids, peers: Peers
) -> Collected | None:
    """Return the links of all pages at rank 0, and None elsewhere. Raises UserError.

    `unit`: of the pages that this rank holds (`Held.pages`).
    """
    keys, site, _ = held.pages()
    number = await page_numbers(keys, peers)

    def numbers_of(keys: Keys) -> Ids:
        found: Ids = number[held.places(keys)[0]]
        return found

    links = Distinct(1, np.int64)
    for session, folder in enumerate(folders):
        async for received in routed(peers, _by_source(folder, peers)):
            source_key, target = joined(received)
            source, _ = held.find(source_key)
            wanted = held.session[source] == session
            to = await answered(peers, numbers_of, target[wanted])
            links.add(number[source[wanted]].astype(np.int64) << 32 | to)
    seeds = await agreed_at_first(peers, lambda: seed_keys(folders[-1]))
    begin = await answered(peers, numbers_of, keys[:0] if seeds is None else seeds)
    numbers, *columns = await gathered(peers, (number, sites.of(site), unit))
    (own,) = links.rows()
    xadj, adj = await _rows(own, sum(await everywhere(peers, len(number))), peers)
    if peers.rank:
        return None
    order = np.argsort(numbers)
    site_of, unit_of = (column[order] for column in columns)
    return Collected(LinkGraph(site_of, tuple(sites.names), xadj, adj), unit_of, begin)


def _by_source(folder: Path, peers: Peers) -> Iterator[list[Columns]]:
    names = "source_key", "target_key", "flags"
    for batch in batches(table_path(folder, "links"), *names, share=Share(peers.rank, peers.size)):
        followed = batch["flags"].to_numpy() & OUT_OF_SCOPE == 0
        columns = (batch["source_key"].to_numpy(), batch["target_key"].to_numpy())
        rows = tuple(column[followed] for column in columns)
        yield split(rows, owners(rows[0], peers.size), peers.size)


async def _rows(links: Ints, pages: int, peers: Peers) -> tuple[Ints, Ids]:
    """Return the links of all ranks in compressed rows at rank 0, and no links elsewhere.

    `links`: of this rank, ascending: the number of the source times 2^32, plus the target's.
    """
    total = sum(await everywhere(peers, len(links)))
    step = max(pages * _ROWS // max(total, 1), 1)
    degree = np.zeros(pages + 1, np.int64)
    adj = np.empty(0 if peers.rank else total, np.int32)
    used = 0
    for low in range(0, pages, step):
        begin, end = np.searchsorted(links, [low << 32, (low + step) << 32])
        given = await peers.gather(links[begin:end])
        if given:
            rows = np.sort(np.concatenate(given))
            source, target = rows >> 32, (rows & 0xFFFFFFFF).astype(np.int32)
            others = source != target
            source, target = source[others], target[others]
            degree[low + 1 : low + step + 1] += np.bincount(source - low, minlength=step)[
                : pages - low
            ]
            adj[used : used + len(target)] = target
            used += len(target)
    return np.cumsum(degree), adj[:used]
