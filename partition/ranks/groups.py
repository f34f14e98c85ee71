"""Refinement of groups of parts: each group is searched on one rank, all groups at the same time.

In `refining`, a vertex moves by the gain of this one move. Here a rank has all nets within a few
parts. It refines the partition of their vertices as one process does, with local searches and
cycles.

Groups don't disturb each other. While vertices move within their groups, a net touches the same
groups. So its connectivity - 1 is a constant plus the sum, over these groups, of the connectivity
within the group - 1. Each part keeps its limits.

The groups are drawn at random, again for each round, so that different parts meet. A search depends
only on its group. So the result doesn't depend on the number of ranks.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from crawler.ports import Peers
from partition.arrays import Ids, Ints
from partition.hypergraph import Hypergraph, ascending
from partition.multilevel import improved
from partition.multilevel.steps import only
from partition.ranks.exchange import agreed, everywhere, reduced
from partition.ranks.refining import gains_enough, quality
from partition.ranks.shares import digests, sent

_ROUNDS: Final = 8  # the most rounds

Flags = npt.NDArray[np.bool_]


async def regrouped(
    h: Hypergraph, part: Ids, limits: Ints, *, most_pins: int, seed: int, peers: Peers
) -> Ids:
    """Return a partition that is no worse in excess over the limits, and then in cost.

    `h` has the nets of this rank, and the weights of all vertices. `limits` (parts x 2): what each
    part may weigh. All ranks give equal parts, and get equal parts. A rank searches at most
    `most_pins` pins. If no two parts have so few, nothing changes.
    """
    rng = np.random.default_rng(seed)
    part = part.copy()
    after = await quality(h, part, limits, peers)
    for number in range(_ROUNDS):
        pins = await reduced(peers, np.bincount(part[h.pins], minlength=len(limits)))
        groups = drawn(pins, most_pins, rng)
        if not groups:
            break
        for begin in range(0, len(groups), peers.size):
            wave = range(begin, min(begin + peers.size, len(groups)))
            seeds = [seed + number * len(limits) + group for group in wave]
            await _search_each(h, part, [groups[group] for group in wave], limits, seeds, peers)
        before, after = after, await quality(h, part, limits, peers)
        if len(groups[0]) == len(limits) or not gains_enough(before, after):
            break
    return part


def drawn(pins: Ints, most_pins: int, rng: np.random.Generator) -> list[Ids]:
    """Return groups of two parts or more, in random order, with at most `most_pins` pins each.

    `pins`: the number of pins in each part. A part joins the first group that it fits into. One
    that fits beside no other is in no group.
    """
    groups: list[list[int]] = []
    held = np.zeros(len(pins), np.int64)  # by each group
    for b in rng.permutation(len(pins)).tolist():
        fits = held[: len(groups)] + pins[b] <= most_pins
        at = int(fits.argmax()) if fits.any() else len(groups)
        if at == len(groups):
            groups.append([])
        groups[at].append(b)
        held[at] += pins[b]
    return [np.array(sorted(group), np.int32) for group in groups if len(group) > 1]


async def _search_each(
    h: Hypergraph, part: Ids, groups: list[Ids], limits: Ints, seeds: list[int], peers: Peers
) -> None:
    """Refine the parts of the first group on rank 0, of the second one on rank 1, and so on.

    Changes `part`. There are at most as many groups as ranks.
    """
    rank_of = np.full(len(limits), -1, np.int32)  # of each part
    for rank, group in enumerate(groups):
        rank_of[group] = rank
    of_vertex = rank_of[part]
    each = [only(h, of_vertex == rank) for rank in range(len(groups))]
    of_net = np.repeat(np.arange(len(each)), [one.nets for one in each])
    mine = np.repeat(np.arange(len(each)), [one.vertices for one in each]) == peers.rank
    every = _beside(each)
    own, _ = await sent(digests(every), every, of_net, peers)
    del each, every

    def search() -> Ids:
        if peers.rank >= len(groups):
            return part[:0]
        group = groups[peers.rank]
        start = np.searchsorted(group, part[of_vertex == peers.rank]).astype(np.int32)
        # Ranks may list the pins of equal nets in different orders, and the first net is kept.
        nets = only(ascending(own), mine)
        return group[improved(nets, start, limits[group], seed=seeds[peers.rank])]

    for rank, new in enumerate(await everywhere(peers, await agreed(peers, search))):
        part[of_vertex == rank] = new


def _beside(every: list[Hypergraph]) -> Hypergraph:
    """Return hypergraphs as one. The vertices of each follow those of the one before."""
    sizes = np.concatenate([np.diff(one.xpins) for one in every])
    first = np.cumsum([0, *(one.vertices for one in every[:-1])])
    return Hypergraph(
        np.append(0, np.cumsum(sizes)),
        np.concatenate([one.pins + at for one, at in zip(every, first, strict=True)]).astype(
            np.int32
        ),
        np.concatenate([one.costs for one in every]),
        np.concatenate([one.weights for one in every]),
    )
