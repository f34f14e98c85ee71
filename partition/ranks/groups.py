"""Refinement of groups of parts: each group is searched on one rank, all groups at the same time.

In `refining`, all ranks take each step together, so a vertex moves by what it gains alone. Here a
rank has all nets within a few parts. It refines the partition of their vertices as one process
does, with local searches and cycles.

Groups don't disturb each other. While vertices move within their groups, a net touches the same
groups. So its connectivity - 1 is a constant plus the sum, over these groups, of the connectivity
within the group - 1. Each part keeps its limits.

The groups are drawn at random, again for each round, so that different parts meet. The result
doesn't depend on the number of ranks.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from crawler.ports import Peers
from partition.arrays import Ids, Ints
from partition.hypergraph import Hypergraph, ascending, connectivity_minus_one, contract
from partition.multilevel import improved
from partition.multilevel.limits import own_limits
from partition.ranks.exchange import agreed, everywhere, reduced
from partition.ranks.shares import digests, sent

_ROUNDS: Final = 8  # the most rounds
_LEAST_GAIN: Final = 1e-3  # after a round that gains a smaller share of the cost, none follows


async def regrouped(
    h: Hypergraph,
    part: Ids,
    parts: int,
    *,
    most_pins: int,
    tolerances: tuple[float, ...],
    seed: int,
    peers: Peers,
) -> Ids:
    """Return a partition that is no worse in balance, and then in cost.

    `h` has the nets of this rank, and the weights of all vertices. All ranks give equal parts, and
    get equal parts. A rank gets at most `most_pins` pins of others at a time.
    """
    limits = own_limits(h.weights, part, parts, tolerances)
    rng = np.random.default_rng(seed)
    part = part.copy()
    cost = await _cost(h, part, peers)
    for number in range(_ROUNDS):
        pins = await reduced(peers, np.bincount(part[h.pins], minlength=parts))
        groups = drawn(pins, most_pins, rng)
        if not groups:
            break
        for begin in range(0, len(groups), peers.size):
            wave = range(begin, min(begin + peers.size, len(groups)))
            seeds = [seed + number * parts + group for group in wave]
            await _search(h, part, [groups[group] for group in wave], limits, seeds, peers)
        before, cost = cost, await _cost(h, part, peers)
        if len(groups[0]) == parts or cost >= before * (1 - _LEAST_GAIN):
            break
    return part


async def _cost(h: Hypergraph, part: Ids, peers: Peers) -> int:
    return sum(await everywhere(peers, connectivity_minus_one(h, part)))


def drawn(pins: Ints, most_pins: int, rng: np.random.Generator) -> list[Ids]:
    """Return groups of two parts or more, in random order, with at most `most_pins` pins each.

    `pins`: the number of pins in each part. A part that fits beside no other is in no group.
    """
    groups: list[list[int]] = []
    held = most_pins + 1
    for b in rng.permutation(len(pins)).tolist():
        if held + pins[b] > most_pins:
            groups.append([])
            held = 0
        groups[-1].append(b)
        held += int(pins[b])
    return [np.array(sorted(group), np.int32) for group in groups if len(group) > 1]


async def _search(
    h: Hypergraph, part: Ids, groups: list[Ids], limits: Ints, seeds: list[int], peers: Peers
) -> None:
    """Refine the parts of the first group on rank 0, of the second one on rank 1, and so on.

    Changes `part`. There are at most as many groups as ranks.
    """
    vertices, nets = list[npt.NDArray[np.int64]](), list[Hypergraph]()
    for group in groups:
        is_in = np.zeros(len(limits), bool)
        is_in[group] = True
        vertices.append(np.flatnonzero(is_in[part]))
        unit = np.full(h.vertices, -1, np.int32)
        unit[vertices[-1]] = np.arange(len(vertices[-1]))
        nets.append(ascending(contract(h, unit, len(vertices[-1]))))
    every = _joined(nets, h.weights)
    ranks = np.repeat(np.arange(len(nets)), [one.nets for one in nets])
    own, _ = await sent(digests(every), every, ranks, peers)
    del nets, every

    def search() -> Ids:
        if peers.rank >= len(groups):
            return part[:0]
        group, of = groups[peers.rank], vertices[peers.rank]
        all_nets = Hypergraph(own.xpins, own.pins, own.costs, h.weights[of])
        start = np.searchsorted(group, part[of]).astype(np.int32)
        return group[improved(all_nets, start, limits[group], seed=seeds[peers.rank])]

    found = await everywhere(peers, await agreed(peers, search))
    for of, new in zip(vertices, found, strict=False):
        part[of] = new


def _joined(every: list[Hypergraph], weights: Ints) -> Hypergraph:
    """Return the nets of all, one after the other. Pins keep their numbers."""
    sizes = np.concatenate([np.diff(one.xpins) for one in every])
    return Hypergraph(
        np.append(0, np.cumsum(sizes)),
        np.concatenate([one.pins for one in every]),
        np.concatenate([one.costs for one in every]),
        weights,
    )
