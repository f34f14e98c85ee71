"""The search with one seed: it knows the web, calls the engines, and combines what they find.

Every method takes and returns the parts of pages, and maps them to units and back.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from partition import engines, models
from partition.arrays import Ids
from partition.assign.policy import Policy
from partition.assign.previous import of_units, start
from partition.engines import Partition
from partition.hypergraph import Hypergraph
from partition.models import VOLUME, Graph, Model, Objective, Units
from partition.settings import Settings
from partition.threads import at_once
from partition.webgraph import WebGraph


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """A web to be partitioned into parts, with the settings whose seed is this search's."""

    web: WebGraph
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

        found = at_once(found_by, range(self.policy.number(kind, self.web.links)))
        return self.combined(unit, objective, found) if len(found) > 1 else found[0]

    def other(self, number: int = 1) -> "Search":
        """Return a further search, with another seed."""
        seed = self.settings.seed + number * self.policy.seed_step
        return replace(self, settings=replace(self.settings, seed=seed))

    def starts(self, unit: Ids, kind: Units, objective: Objective) -> list[Ids]:
        """Return partitions by METIS or of larger units, each as the part of each page.

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
        """Return the site of each page as its unit, or None if some site is heavier than a part."""
        whole = self.units(Units.SITES)
        weights = models.weights(self.web, whole)
        return whole if engines.fit(weights, self.parts, self.settings.tolerances) else None

    def units(self, kind: Units) -> Ids:
        """Return the unit of each page. Sites in `whole` and `together` stay whole."""
        settings = self.settings
        whole = settings.whole.union(settings.together)
        return models.units(self.web, kind, self.parts, settings.together, whole)

    def refined(
        self,
        unit: Ids,
        objective: Objective,
        starts: Sequence[Ids] = (),
        *,
        before: Ids | None = None,
        hyper: bool = True,
    ) -> Partition:
        """Partition with our own engine, starting from `starts` or `before` (parts of pages)."""
        settings = self.settings
        net = self._net(unit, objective, hyper=hyper, engine="multilevel")
        if before is not None:
            starts = ()
        found = engines.partition(
            net,
            self.parts,
            engine="multilevel",
            tolerances=settings.tolerances,
            seed=settings.seed,
            start=start(self.web, settings, unit, before),
            starts=[of_units(unit, part) for part in starts],
            progress=settings.progress,
        )
        return replace(found, part=found.part[unit])

    def combined(self, unit: Ids, objective: Objective, found: Sequence[Ids]) -> Ids:
        """Combine several partitions of pages into one, with our own engine."""
        settings = self.settings
        part = engines.combined(
            models.hypergraph(self.web, unit, objective),
            [of_units(unit, part) for part in found],
            self.parts,
            tolerances=settings.tolerances,
            seed=settings.seed,
            progress=settings.progress,
        )
        return part[unit]

    def metis(self, unit: Ids) -> Ids:
        """Return METIS's partition of the graph of the units, as the part of each page."""
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
        before: Ids | None = None,
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
            start=start(self.web, settings, unit, before),
            progress=settings.progress,
        )
        part = found.part
        if before is None and not engines.fit(net.weights, parts, settings.tolerances):
            # Other engines know one limit for all parts.
            part = engines.rebalanced(net, part, parts, settings.tolerances, settings.seed)
        return replace(found, part=part[unit])

    def _net(
        self, unit: Ids, objective: Objective, *, hyper: bool, engine: str
    ) -> Graph | Hypergraph:
        web = self.web
        net = models.hypergraph(web, unit, objective) if hyper else models.graph(web, unit)
        linked = f"{len(net.costs):,} groups" if hyper else f"{len(net.costs) // 2:,} pairs"
        self.settings.progress(f"{engine}: {len(net.weights):,} pieces, {linked} of them linked")
        return net
