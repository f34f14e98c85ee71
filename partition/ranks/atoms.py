"""The units that one rank searches, as atoms of a search."""

from dataclasses import dataclass

import numpy as np

from partition import evaluate, models
from partition.arrays import Ids, Ints
from partition.hypergraph import (
    Hypergraph,
    ascending,
    connectivity_minus_one,
    merged,
    part_loads,
    simplify,
)
from partition.models import Graph, Model, Objective
from partition.ranks.shares import Whole


@dataclass(frozen=True, slots=True, eq=False)
class _Counts:
    """What a partition of units costs (`assign.Counts`)."""

    messages_page_part: int
    volume_bytes: int
    imbalances: tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Atoms:
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
        return cls(np.diff(h.xpins), ascending(h).pins, h.costs)


def atoms_of(known: Whole, site: Ids, links: int, model: Model) -> Atoms:
    """Return the atoms of a search at rank 0. An empty `site` says that sites aren't known."""
    of = site if len(site) else None
    if model.hyper:
        return Atoms(known.hypergraph, known.low, known.high, known.costs, of, links)
    nets = known.hypergraph
    none = Hypergraph(np.zeros(1, np.int64), nets.pins[:0], nets.costs[:0], nets.weights)
    return Atoms(none, nets.pins[::2], nets.pins[1::2], nets.costs, of, links)
