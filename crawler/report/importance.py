"""How important the pages of a web are, computed by several processes together.

Each page belongs to its *holder*, the process that its key names (`together.by_holder`). The
results are the same to the last bit for each number of processes, because pages of equal importance
would change places otherwise.
"""

from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from crawler.arrays import distinct
from crawler.core.order.pagerank import CLOSE, DAMPING, ROUNDS
from crawler.ports import Peers
from crawler.report.measures import position
from crawler.session.together import by_holder, everywhere, in_rounds, to_holders

_Keys = npt.NDArray[np.uint64]
_Numbers = npt.NDArray[np.int64]
_Scores = npt.NDArray[np.floating]

_SAMPLES: Final = 100  # pages that a process names for each process, to divide the order
_UNIT: Final = 2.0**-32  # of sums: sums of whole numbers don't depend on their order


async def pagerank_together(
    keys: _Keys, sources: _Keys, targets: _Numbers, peers: Peers
) -> _Scores:
    """Return `pagerank` of the pages that this process holds: 1 on average over all processes.

    `keys`: of these pages, ascending. `sources` and `targets`: the links to them, in the order of
    their targets and sources. A source is the key of a page that any process holds, and a target is
    an index in `keys`. Each round brings 8 bytes for each pair of a source and a process that holds
    one of its targets.
    """
    different, at = np.unique(sources, return_inverse=True)
    its = by_holder(different, peers)
    links = np.bincount(at, minlength=len(different))
    degrees = np.zeros(len(keys), np.int64)
    wanted = []  # for each process, the pages whose scores it needs
    for some, numbers in await peers.alltoall([(different[own], links[own]) for own in its]):
        places = position(keys, some)
        degrees[places] += numbers
        wanted.append(places)
    leaves = degrees == 0
    pages = sum(await everywhere(peers, len(keys)))
    scores: _Scores = np.ones(len(keys))
    shares_of_sources = np.zeros(len(different))
    for _ in range(ROUNDS if pages else 0):
        shares = scores / np.maximum(degrees, 1)
        received = await peers.alltoall([shares[places] for places in wanted])
        for own, values in zip(its, received, strict=True):
            shares_of_sources[own] = values
        brought = np.bincount(targets, shares_of_sources[at], len(keys))
        base = 1 - DAMPING + DAMPING * await _sum(scores[leaves], peers) / pages
        new: _Scores = base + DAMPING * brought
        new *= pages / await _sum(new, peers)
        change = await _sum(np.abs(new - scores), peers)
        scores = new
        if change < CLOSE * pages:
            break
    return scores


async def pagerank_by_key(sources: _Keys, targets: _Keys, peers: Peers) -> tuple[_Keys, _Scores]:
    """Return the pages that this process holds, ascending, and their `pagerank_together`.

    The pages are all sources and targets of links. `sources` and `targets`: the keys of the links
    that this process has read. A link that occurs twice counts twice.
    """
    sources, targets = await to_holders(in_rounds(sources, targets), 1, peers)
    linking = distinct(sources)
    held, _ = await to_holders(in_rounds(linking, linking), 0, peers)
    keys = distinct(np.concatenate((held, targets)))
    order = np.lexsort((sources, targets))
    at = position(keys, targets[order])
    return keys, await pagerank_together(keys, sources[order], at, peers)


async def _sum(values: _Scores, peers: Peers) -> float:
    """Return the sum of all processes' values, rounded to units. The values aren't negative."""
    own = int(np.rint(values / _UNIT).astype(np.int64).sum())
    return sum(await everywhere(peers, own)) * _UNIT


async def places_together(
    importance: npt.NDArray[np.floating | np.integer], keys: _Keys, peers: Peers
) -> _Numbers:
    """Return the places of this process's pages in the order of importance of all, from 0.

    Of equally important pages, the one with the lower key comes first. Each process sorts a stretch
    of the order, and some pages of each process tell the bounds of stretches of about equal length.
    """
    order = np.lexsort((keys, -importance))
    own = -importance[order], keys[order]
    step = max(1, len(keys) // (_SAMPLES * peers.size))
    sampled = await everywhere(peers, [column[::step] for column in own])
    values, names = map(np.concatenate, zip(*sampled, strict=True))
    sample = np.lexsort((names, values))
    bounds = [0] * peers.size + [len(keys)]
    for rank in range(1, peers.size if len(sample) else 0):
        first = sample[rank * len(sample) // peers.size]
        low = int(np.searchsorted(own[0], values[first], "left"))
        high = int(np.searchsorted(own[0], values[first], "right"))
        bounds[rank] = low + int(np.searchsorted(own[1][low:high], names[first]))
    given = [[column[begin:end] for column in own] for begin, end in pairwise(bounds)]
    received = await peers.alltoall(given)
    values, names = map(np.concatenate, zip(*received, strict=True))
    before = sum((await everywhere(peers, len(names)))[: peers.rank])
    places = np.empty(len(names), np.int64)
    places[np.lexsort((names, values))] = before + np.arange(len(names))
    ends = np.cumsum([len(its) for _, its in received])
    result = np.empty(len(keys), np.int64)
    result[order] = np.concatenate(await peers.alltoall(np.split(places, ends[:-1])))
    return result
