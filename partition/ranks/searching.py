"""Searches for a partition of the units that the ranks hold, and refines it on all ranks.

The ranks divide the seeds among them, and the best result of all seeds is taken. So the parts don't
depend on the number of ranks.
"""

from dataclasses import dataclass, replace

import numpy as np

from crawler.ports import Peers
from partition import assign, engines, evaluate, models
from partition.arrays import Ids, Ints
from partition.assign import DEFAULT, Counts, Search
from partition.hypergraph import Hypergraph, connectivity_minus_one, merged, part_loads, simplify
from partition.models import Graph, Model, Objective
from partition.ranks.coarsening import coarsened
from partition.ranks.exchange import agreed, everywhere
from partition.ranks.refining import refined
from partition.ranks.shares import Share, Whole, whole
from partition.settings import Settings


@dataclass(frozen=True, slots=True, eq=False)
class _Counts:
    """What a partition of units costs (`assign.Counts`)."""

    messages_page_part: int
    volume_bytes: int
    imbalances: tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class _Units:
    """The units of a model as atoms of a search (`assign.Linked`).

    All nets and graphs are equal to those that one process makes of the links.
    """

    nets: Hypergraph  # of the messages; no nets if only the volume counts
    low: Ints | Ids  # of each pair of linked units: the ends
    high: Ints | Ids
    lengths: Ints  # of each pair, of the URLs of its links
    site: Ids | None  # of each unit; None if the ranks have united units of several sites
    links: int  # of the web

    def whole(self) -> Ids | None:
        """Return the site of each unit."""
        return self.site

    def weights(self, unit: Ids) -> Ints:
        """Return the bytes and requests of each group of units."""
        return part_loads(self.nets.weights, unit, int(unit.max(initial=-1)) + 1)

    def _pairs(self, unit: Ids) -> tuple[Ints, Ints, Ints]:
        low, high = unit[self.low], unit[self.high]
        across = np.flatnonzero(low != high)
        return models.summed(low[across], high[across], self.lengths[across])

    def graph(self, unit: Ids) -> Graph:
        """Return the graph of groups of units."""
        weights = self.weights(unit)
        if len(weights) == len(unit):  # one unit each: pairs are distinct already
            low, high = unit[self.low].astype(np.int64), unit[self.high].astype(np.int64)
            return models.graph_of(low, high, self.lengths, weights)
        return models.graph_of(*self._pairs(unit), weights)

    def hypergraph(self, unit: Ids, objective: Objective) -> Hypergraph:
        """Return the hypergraph of groups of units."""
        weights = self.weights(unit)
        nets, pairs = _Nets.none(), _Nets.none()
        if objective.t_start:
            nets = _Nets.of(merged(self.nets, unit, len(weights))[0])
        if objective.t_byte:
            low, high, lengths = self._pairs(unit)
            pins = np.stack([low, high], axis=1).astype(np.int32).ravel()
            pairs = _Nets(np.full(len(low), 2), pins, lengths)
        senders = np.full(int(nets.costs.sum()), objective.t_start)
        volume = objective.t_byte * pairs.costs
        scale = models.factor(objective, float(np.append(senders, volume).sum()))
        each = models.whole_costs(np.full(len(nets.costs), objective.t_start) * scale)
        return simplify(
            Hypergraph(
                np.append(0, np.cumsum(np.append(nets.sizes, pairs.sizes))),
                np.append(nets.pins, pairs.pins),
                np.append(nets.costs * each, models.whole_costs(volume * scale)),
                weights,
            )
        )

    def counts(self, part: Ids, parts: int) -> _Counts:
        """Return what a partition of the units costs."""
        loads = part_loads(self.nets.weights, part, parts)
        first, second = evaluate.imbalance(loads)
        cut = part[self.low] != part[self.high]
        messages = connectivity_minus_one(self.nets, part)
        return _Counts(messages, int(self.lengths[cut].sum()), (first, second))


@dataclass(frozen=True, slots=True, eq=False)
class _Nets:
    """Nets, whose pins are in ascending order."""

    sizes: Ints
    pins: Ids
    costs: Ints

    @classmethod
    def none(cls) -> "_Nets":
        return cls(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int64))

    @classmethod
    def of(cls, h: Hypergraph) -> "_Nets":
        sizes = np.diff(h.xpins)
        order = np.lexsort((h.pins, np.repeat(np.arange(h.nets), sizes)))
        return cls(sizes, h.pins[order], h.costs)


def _units(known: Whole, site: Ids, links: int, model: Model) -> _Units:
    """Return the atoms of a search at rank 0. An empty `site` says that sites aren't known."""
    of = site if len(site) else None
    if model.hyper:
        return _Units(known.hypergraph, known.low, known.high, known.costs, of, links)
    nets = known.hypergraph
    none = Hypergraph(np.zeros(1, np.int64), nets.pins[:0], nets.costs[:0], nets.weights)
    return _Units(none, nets.pins[::2], nets.pins[1::2], nets.costs, of, links)


async def best(
    share: Share, site: Ids, links: int, parts: int, model: Model, settings: Settings, peers: Peers
) -> Ids:
    """Return the best partition of the units that the ranks find together, on all of them.

    `site`: of each unit. `links`: the number of links of the web. A model with more than
    `settings.pins_per_rank` pins is coarsened on all ranks. The coarsest level is searched. Its
    partition is refined on each level, on all ranks again.
    """
    tolerances = engines.bounds(settings.tolerances, parts)
    levels, share = await coarsened(
        share,
        parts,
        settings.pins_per_rank,
        tolerances=tolerances,
        seed=settings.seed,
        progress=settings.progress,
        peers=peers,
    )
    known = await whole(share, peers)
    units = None if known is None else _units(known, site[:0] if levels else site, links, model)
    del share, known
    part, objective = await _search(units, parts, model, settings, peers)
    del units
    while levels:
        level, unit = levels.pop()
        settings.progress(f"refining {len(unit):,} units on {peers.size} ranks")
        nets = await _weighed(level, model, objective, peers)
        part = await refined(
            nets, part[unit], parts, tolerances=tolerances, seed=settings.seed, peers=peers
        )
    return part


async def _search(
    units: _Units | None, parts: int, model: Model, settings: Settings, peers: Peers
) -> tuple[Ids, Objective]:
    """Return the best of several searches of what rank 0 has, and its objective, on all ranks.

    Each rank tries a share of the `settings.tries` seeds. The best is chosen as in `assign`.
    """
    for rank in range(1, min(peers.size, settings.tries)):  # one copy at a time
        given = await peers.alltoall([units if to == rank else None for to in range(peers.size)])
        units = given[0] if peers.rank == rank else units
    seeds = range(settings.seed, settings.seed + settings.tries)[peers.rank :: peers.size]

    def search() -> list[tuple[int, Ids, Counts]]:
        if units is None:
            return []
        one = np.arange(len(units.nets.weights), dtype=np.int32)
        found = list[tuple[int, Ids, Counts]]()
        for seed in seeds:
            tried = Search(units, parts, replace(settings, seed=seed), DEFAULT)
            part = assign.once(tried, model, one).part
            found.append((seed, part, units.counts(part, parts)))
        return found

    of_ranks = await peers.gather(await agreed(peers, search))

    def choose() -> tuple[Ids, Objective] | None:
        if units is None or not of_ranks:
            return None
        found = sorted((one for of_rank in of_ranks for one in of_rank), key=lambda one: one[0])
        counts = [one[2] for one in found]
        objective = assign.aim(model, settings)
        if objective is None:
            objective = assign.weighed(DEFAULT.volume_weight, counts[0], counts[0])
        values = [objective.cost(one.messages_page_part, one.volume_bytes) for one in counts]
        return found[assign.least(counts, values, settings)][1], objective

    chosen = await peers.bcast(await agreed(peers, choose))
    assert chosen is not None
    return chosen


async def _weighed(share: Share, model: Model, objective: Objective, peers: Peers) -> Hypergraph:
    """Return this rank's nets of a level, with the pairs as further nets if their bytes count."""
    nets = share.nets
    if not model.hyper or not objective.t_byte:
        return nets
    sums = await everywhere(peers, (int(nets.costs.sum()), int(share.costs.sum())))
    senders, lengths = (sum(column) for column in zip(*sums, strict=True))
    scale = models.factor(objective, objective.cost(senders, lengths))
    of_pairs = share.low, share.high
    return Hypergraph(
        np.append(nets.xpins, nets.xpins[-1] + np.arange(1, len(share.low) + 1) * 2),
        np.append(nets.pins, np.stack(of_pairs, axis=1).astype(np.int32).ravel()),
        np.append(
            nets.costs * models.whole_costs(np.full(1, objective.t_start * scale))
            if objective.t_start
            else 0 * nets.costs,
            models.whole_costs(share.costs * objective.t_byte * scale),
        ),
        nets.weights,
    )
