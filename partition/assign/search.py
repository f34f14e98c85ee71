"""The search with one seed: it knows the web, calls the engines, and combines what they find.

Every method takes and returns the parts of atoms (`linked`), and maps them to units and back.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from partition import engines
from partition.arrays import Ids
from partition.assign.linked import Linked
from partition.assign.policy import Policy
from partition.assign.previous import of_units
from partition.engines import Partition, Start
from partition.hypergraph import Hypergraph
from partition.models import VOLUME, Graph, Model, Objective, Units
from partition.settings import Settings
from partition.threads import at_once


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """What is to be partitioned into parts, with the settings whose seed is this search's."""

    linked: Linked
    parts: int
    settings: Settings
    policy: Policy

    def least(self, unit: Ids, kind: Units, objective: Objective, starts: Sequence[Ids]) -> Ids:
        """Return the best partition found by one search, or by several searches combined."""

        def found_by(number: int) -> Ids:
            if number == 0:
                return self.refined(unit, objective, starts).part
            other = self.other(number)
            return other.refined(unit, objective, other.starts(unit, kind, objective)).part

        found = at_once(found_by, range(self.policy.number(kind, self.linked.links)))
        return self.combined(unit, objective, found) if len(found) > 1 else found[0]

    def other(self, number: int = 1) -> "Search":
        """Return a further search, with another seed."""
        seed = self.settings.seed + number * self.policy.seed_step
        return replace(self, settings=replace(self.settings, seed=seed))

    def starts(self, unit: Ids, kind: Units, objective: Objective) -> list[Ids]:
        """Return partitions by METIS or of larger units, each as the part of each atom.

        METIS partitions whole sites. If some site is heavier than a part, METIS partitions
        the units themselves. For the hybrid model, our engine also refines METIS's
        partition of whole sites.
        """
        if kind is not Units.HYBRID:
            return [self.metis(unit)]
        whole = self.whole()
        if whole is None:
            return [self.metis(unit)]
        graph = self.metis(whole)
        return [graph, self.refined(whole, objective, [graph]).part]

    def whole(self) -> Ids | None:
        """Return the site of each atom as its unit, or None if some site is heavier than a part."""
        whole = self.linked.whole()
        if whole is None:
            return None
        weights = self.linked.weights(whole)
        return whole if engines.fit(weights, self.parts, self.settings.tolerances) else None

    def refined(
        self,
        unit: Ids,
        objective: Objective,
        starts: Sequence[Ids] = (),
        *,
        start: Start | None = None,
        hyper: bool = True,
    ) -> Partition:
        """Partition with our own engine, starting from `starts` (parts of atoms) or `start`."""
        settings = self.settings
        net = self._net(unit, objective, hyper=hyper, engine="multilevel")
        if start is not None:
            starts = ()
        found = engines.partition(
            net,
            self.parts,
            engine="multilevel",
            tolerances=settings.tolerances,
            seed=settings.seed,
            start=start,
            starts=[of_units(unit, part) for part in starts],
            progress=settings.progress,
        )
        return replace(found, part=found.part[unit])

    def combined(self, unit: Ids, objective: Objective, found: Sequence[Ids]) -> Ids:
        """Combine several partitions into one, with our own engine."""
        settings = self.settings
        part = engines.combined(
            self.linked.hypergraph(unit, objective),
            [of_units(unit, part) for part in found],
            self.parts,
            tolerances=settings.tolerances,
            seed=settings.seed,
            progress=settings.progress,
        )
        return part[unit]

    def metis(self, unit: Ids) -> Ids:
        """Return METIS's partition of the graph of the units, as the part of each atom."""
        net = self._net(unit, VOLUME, hyper=False, engine="metis")
        found = engines.partition(
            net,
            self.parts,
            engine="metis",
            tolerances=self.settings.tolerances,
            seed=self.settings.seed,
        )
        return found.part[unit]

    def by(
        self,
        engine: str,
        model: Model,
        unit: Ids,
        objective: Objective,
        start: Start | None = None,
    ) -> Partition:
        """Return a partition by the engine that the settings name."""
        parts, settings = self.parts, self.settings
        net = self._net(unit, objective, hyper=model.hyper, engine=engine)
        found = engines.partition(
            net,
            parts,
            engine=engine,
            tolerances=settings.tolerances,
            seed=settings.seed,
            ranks=settings.ranks,
            start=start,
            progress=settings.progress,
        )
        part = found.part
        if start is None and not engines.fit(net.weights, parts, settings.tolerances):
            # Other engines know one limit for all parts.
            part = engines.rebalanced(net, part, parts, settings.tolerances, settings.seed)
        return replace(found, part=part[unit])

    def _net(
        self, unit: Ids, objective: Objective, *, hyper: bool, engine: str
    ) -> Graph | Hypergraph:
        linked = self.linked
        net = linked.hypergraph(unit, objective) if hyper else linked.graph(unit)
        groups = f"{len(net.costs):,} groups" if hyper else f"{len(net.costs) // 2:,} pairs"
        self.settings.progress(f"{engine}: {len(net.weights):,} pieces, {groups} of them linked")
        return net
