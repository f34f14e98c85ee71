"""Assigns the units of a model to parts: engines give first partitions, and ours refines the best.

Our engine alone misses two kinds of good partitions. A search with many small units rarely finds
what a search with whole sites finds easily. And METIS, which cuts links, sometimes finds the
structure of a web that nets hide. So our engine starts from its own first partitions, from those of
METIS, and from those of larger units. It refines all of them under the model's own objective and
keeps the best. The result is never worse, by that objective, than any of the starts.

Where units are smaller than sites, further searches with other seeds find other partitions. All of
them are then combined.

The hybrid model without an objective has the objectives of both papers: few messages and little
volume.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from partition import arrays, engines, evaluate, models
from partition.arrays import Ids
from partition.engines import Partition, Start
from partition.evaluate import Evaluation
from partition.hypergraph import Hypergraph
from partition.models import MESSAGES, VOLUME, Graph, Model, Objective, Units
from partition.settings import Settings
from partition.webgraph import WebGraph

# Weight of the volume in the hybrid model's objective. The weight of the messages is 1, and both
# are measured relative to a reference partition.
_VOLUME_WEIGHT: Final = 0.2
# The hybrid model's targets: its messages relative to those of the site hypergraph, its volume
# relative to that of the site graph. Both vary by one or two percent between seeds.
_MESSAGES_ALLOWED: Final = 1.01
_VOLUME_ALLOWED: Final = 1.03
# The weight of the volume is multiplied or divided by this factor after each missed target. Once
# both targets have been missed in turn, the weight lies between, so the factor becomes its root.
_WEIGHT_STEP: Final = 3.0
_MAX_WEIGHT_CHANGES: Final = 6
_SEED_STEP: Final = 1000  # between the seeds of two searches; more than there are tries
# How many searches are combined. With more units, each search finds a smaller share of what can be
# gained.
_SEARCHES: Final = {Units.SITES: 1, Units.HYBRID: 2, Units.PAGES: 4}
_MAX_LINKS: Final = 4_000_000  # on a web with more links, `least` searches only once


def assign(
    web: WebGraph, model: Model, parts: int, settings: Settings, before: Ids | None = None
) -> Partition:
    """Return the best partition of a model, as the part of each page.

    One partition is made for each of `settings.tries` seeds. The best exceeds the tolerances by
    the least, and among equals has the least objective. `before` gives the part of each page in
    a previous vector, or -1 for a page that it lacks. If `before` is given, it is the only
    start. Raises EngineError, and UserError for an engine that can't do what is asked.
    """
    seeds = range(settings.seed, settings.seed + settings.tries)
    tried = [_once(web, model, parts, replace(settings, seed=seed), before) for seed in seeds]
    if len(tried) == 1:
        return tried[0]
    counts = [evaluate.evaluate(web, one.part, parts) for one in tried]
    objective = _objective(model, settings) or _weighed(_VOLUME_WEIGHT, counts[0], counts[0])

    def rank(at: int) -> tuple[float, float]:
        pairs = zip(counts[at].imbalances, settings.tolerances, strict=True)
        excess = max(0.0, *(imbalance - bound for imbalance, bound in pairs))
        return excess, objective.value(counts[at])

    return tried[min(range(len(tried)), key=rank)]


def _objective(model: Model, settings: Settings) -> Objective | None:
    """Return the objective to use, or None for both messages and volume (hybrid by default)."""
    return settings.objective if model.units is Units.HYBRID else model.objective


def _once(
    web: WebGraph, model: Model, parts: int, settings: Settings, before: Ids | None
) -> Partition:
    engine = settings.engine
    if engine is None:
        engine = "multilevel" if model.hyper or before is not None else "metis"
    search = _Search(web, parts, settings)
    unit = search.units(model.units)
    if before is not None and settings.previous is not None and model.units is Units.HYBRID:
        unit = search.settled(unit, before)
    objective = _objective(model, settings)
    if engine != "multilevel":
        return search.by(engine, model, unit, objective or MESSAGES, before)
    if objective is None:
        return search.both(unit, before)
    if before is not None or not model.hyper:
        return search.refined(unit, objective, before=before, hyper=model.hyper)
    starts = search.starts(unit, model.units, objective)
    return Partition(search.least(unit, model.units, objective, starts))


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    web: WebGraph
    parts: int
    settings: Settings

    def least(self, unit: Ids, kind: Units, objective: Objective, starts: Sequence[Ids]) -> Ids:
        """Return the best partition found by one search, or by several searches combined."""
        found = [self.refined(unit, objective, starts).part]
        for number in range(1, _SEARCHES[kind] if self.web.links <= _MAX_LINKS else 1):
            other = self.other(number)
            found.append(other.refined(unit, objective, other.starts(unit, kind, objective)).part)
        return self.combined(unit, objective, found) if len(found) > 1 else found[0]

    def other(self, number: int = 1) -> "_Search":
        """Return a further search, with another seed."""
        seed = self.settings.seed + number * _SEED_STEP
        return replace(self, settings=replace(self.settings, seed=seed))

    def starts(self, unit: Ids, kind: Units, objective: Objective) -> list[Ids]:
        """Return partitions by METIS or of larger units, each as the part of each page.

        METIS partitions whole sites. If some site is heavier than a part, METIS partitions
        the units themselves. For the hybrid model, our engine also refines METIS's
        partition of whole sites.
        """
        if kind is not Units.HYBRID:
            return [self.metis(unit)]
        whole = self.whole(unit)
        if whole is None:
            return [self.metis(unit)]
        graph = self.metis(whole)
        return [graph, self.refined(whole, objective, [graph]).part]

    def whole(self, unit: Ids) -> Ids | None:
        """Return the site of each page as its unit, or None if some site is heavier than a part."""
        whole = self.units(Units.SITES)
        weights = models.weights(self.web, whole)
        return whole if engines.fit(weights, self.parts, self.settings.tolerances) else None

    def units(self, kind: Units) -> Ids:
        """Return the unit of each page. Sites in `whole` and `together` stay whole."""
        settings = self.settings
        whole = settings.whole.union(settings.together)
        return models.units(self.web, kind, self.parts, settings.together, whole)

    def settled(self, unit: Ids, before: Ids) -> Ids:
        """Return units of the hybrid model that fit the previous partition `before`.

        If the pages of a unit lay in several parts, some of them must move so that the unit
        is in one part. If that moves more than `settings.migration` allows, such units are
        split by the previous parts of their pages. New pages join the majority. Sites that
        must stay whole aren't split.
        """
        home = _of_units(unit, before)[unit]
        settings, web = self.settings, self.web
        moved = (before >= 0) & (before != home)
        loads = int(web.bytes[moved].sum()), int(moved.sum())
        totals = int(web.bytes.sum()), web.pages
        if all(load <= settings.migration * all_ for load, all_ in zip(loads, totals, strict=True)):
            return unit
        kept = np.array([s in settings.whole or s in settings.together for s in web.sites], bool)
        piece = np.where((before < 0) | kept[web.site], home, before)
        pair = unit.astype(np.int64) * (self.parts + 1) + piece + 1
        return np.unique(pair, return_inverse=True)[1].astype(np.int32)

    def both(self, unit: Ids, before: Ids | None) -> Partition:
        """Return a partition with few messages and little volume.

        Where every site fits into a part, the targets are the messages of the site
        hypergraph and the volume of the site graph. If the first partition misses a target,
        a second search is made. Then all partitions found are combined several times, and
        each time the target that was missed gets more weight. If both targets can't be
        reached together, the worse miss is kept small. Where some site doesn't fit, METIS's
        partition of the units only sets the scale of the two.
        """
        whole = self.whole(unit) if before is None else None
        if whole is None:
            graph = self.metis(unit)
            scale = self.counted(graph)
            objective = _weighed(_VOLUME_WEIGHT, scale, scale)
            if before is not None:
                return self.refined(unit, objective, before=before)
            return Partition(self.least(unit, Units.HYBRID, objective, [graph]))
        graph, few = self.extremes(whole)
        little, fewest = self.counted(graph), self.counted(few)
        objective = _weighed(_VOLUME_WEIGHT, fewest, little)

        def misses(counts: Evaluation) -> tuple[float, float]:
            """Return messages and volume relative to their targets; 0 for no valid target."""
            messages = counts.messages_page_part / max(
                _MESSAGES_ALLOWED * fewest.messages_page_part, 1
            )
            volume = counts.volume_bytes / max(_VOLUME_ALLOWED * little.volume_bytes, 1)
            return messages * self.within(fewest), volume * self.within(little)

        def rank(one: tuple[Evaluation, Ids]) -> tuple[bool, float, float]:
            counts = one[0]
            return not self.within(counts), max(1.0, *misses(counts)), objective.value(counts)

        part = self.refined(unit, objective, [graph, few]).part
        found = [(little, graph), (fewest, few), (self.counted(part), part)]
        if max(misses(found[-1][0])) > 1:
            other = self.other()
            extremes = other.extremes(whole)
            part = other.refined(unit, objective, extremes).part
            found += [(self.counted(part), part) for part in (*extremes, part)]
            weight, step, more_before = _VOLUME_WEIGHT, _WEIGHT_STEP, None
            for _ in range(_MAX_WEIGHT_CHANGES):
                wanted = _weighed(weight, fewest, little)
                part = self.combined(unit, wanted, [part for _, part in found])
                found.append((self.counted(part), part))
                messages, volume = misses(found[-1][0])
                self.settings.progress(f"messages {messages:.3f}, volume {volume:.3f} of targets")
                if max(messages, volume) <= 1:
                    break
                more = volume > messages
                if more_before not in {None, more}:
                    step **= 0.5
                more_before = more
                weight *= step if more else 1 / step
        return Partition(min(found, key=rank)[1])

    def extremes(self, whole: Ids) -> tuple[Ids, Ids]:
        """Return METIS's partition of whole sites (little volume) and ours (few messages)."""
        graph = self.metis(whole)
        return graph, self.refined(whole, MESSAGES, [graph]).part

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
        net = self.net(unit, objective, hyper=hyper, engine="multilevel")
        if before is not None:
            starts = ()
        found = engines.partition(
            net,
            self.parts,
            engine="multilevel",
            tolerances=settings.tolerances,
            seed=settings.seed,
            start=self.start(unit, before),
            starts=[_of_units(unit, part) for part in starts],
            progress=settings.progress,
        )
        return replace(found, part=found.part[unit])

    def combined(self, unit: Ids, objective: Objective, found: Sequence[Ids]) -> Ids:
        """Combine several partitions of pages into one, with our own engine."""
        settings = self.settings
        part = engines.combined(
            models.hypergraph(self.web, unit, objective),
            [_of_units(unit, part) for part in found],
            self.parts,
            tolerances=settings.tolerances,
            seed=settings.seed,
            progress=settings.progress,
        )
        return part[unit]

    def metis(self, unit: Ids) -> Ids:
        """Return METIS's partition of the graph of the units, as the part of each page."""
        net = self.net(unit, VOLUME, hyper=False, engine="metis")
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
        net = self.net(unit, objective, hyper=model.hyper, engine=engine)
        found = engines.partition(
            net,
            parts,
            engine=engine,
            tolerances=settings.tolerances,
            seed=settings.seed,
            ranks=settings.ranks,
            start=self.start(unit, before),
            progress=settings.progress,
        )
        part = found.part
        if before is None and not engines.fit(net.weights, parts, settings.tolerances):
            # Other engines know one limit for all parts.
            part = engines.rebalanced(net, part, parts, settings.tolerances, settings.seed)
        return replace(found, part=part[unit])

    def start(self, unit: Ids, before: Ids | None) -> Start | None:
        if before is None:
            return None
        home = _of_units(unit, before)
        if self.settings.previous is None:
            return Start(home)
        at_home = (before >= 0) & (before == home[unit])
        gone = (before >= 0) & ~at_home
        web, number = self.web, len(home)
        held = np.zeros((number, 2), np.int64)
        np.add.at(held, unit[at_home], np.stack([web.bytes[at_home], at_home[at_home]], axis=1))
        strayed = int(web.bytes[gone].sum()), int(gone.sum())
        return Start(home, self.settings.migration, held, strayed)

    def net(
        self, unit: Ids, objective: Objective, *, hyper: bool, engine: str
    ) -> Graph | Hypergraph:
        web = self.web
        net = models.hypergraph(web, unit, objective) if hyper else models.graph(web, unit)
        linked = f"{len(net.costs):,} groups" if hyper else f"{len(net.costs) // 2:,} pairs"
        self.settings.progress(f"{engine}: {len(net.weights):,} pieces, {linked} of them linked")
        return net

    def counted(self, part: Ids) -> Evaluation:
        return evaluate.evaluate(self.web, part, self.parts)

    def within(self, counts: Evaluation) -> bool:
        pairs = zip(counts.imbalances, self.settings.tolerances, strict=True)
        return all(imbalance <= bound for imbalance, bound in pairs)


def _weighed(weight: float, messages: Evaluation, volume: Evaluation) -> Objective:
    """Return an objective: messages plus `weight` times volume, each relative to a reference."""
    return Objective(
        t_start=1 / max(messages.messages_page_part, 1), t_byte=weight / max(volume.volume_bytes, 1)
    )


def _of_units(unit: Ids, part: Ids) -> Ids:
    """Return the part that most pages of each unit are in, or -1 if no page is in a part."""
    return arrays.majority(unit, part, int(unit.max(initial=-1)) + 1)
