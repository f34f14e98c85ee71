"""Assignment under a model: engines give first partitions, and our engine refines the best.

Whole sites find easily what many small units miss, and METIS, which cuts links, sometimes finds the
structure of a web where nets hide it. So beside its own first partitions our engine gets those of
METIS and of coarser units; all are refined under the model's own objective, and the best is kept.
No model is worse, by its objective, than what it was started from. Of units smaller than sites
further searches, from other seeds, find other things than the first, and all are combined.

The hybrid model, if no objective is given, has both of the papers': few messages and little volume.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from partition import engines, evaluate, models, webgraph
from partition.engines import Partition, Start
from partition.evaluate import Evaluation
from partition.hypergraph import Hypergraph
from partition.models import MESSAGES, VOLUME, Graph, Model, Objective, Units
from partition.settings import Settings
from partition.webgraph import Ids, WebGraph

_VOLUME: Final = 0.2  # what the volume counts beside the messages, each in units of its reference
# What the hybrid model may have: messages, in units of the site hypergraph's, and volume, in units
# of the site graph's. Both differ by a percent or two from seed to seed.
_MESSAGES_ALLOWED: Final = 1.01
_VOLUME_ALLOWED: Final = 1.03
# By which the volume counts more, or less, where one of the two is missed; its root, as soon as one
# has been missed after the other: the weight that is wanted lies between.
_STEER: Final = 3.0
_STEERED: Final = 6  # times at most
_APART: Final = 1000  # the seed of a search from that of the one before, and of other tries
# Searches that are combined: the more units, the less of what there is each of them finds.
_SEARCHES: Final = {Units.SITES: 1, Units.HYBRID: 2, Units.PAGES: 4}
_LINKS: Final = 4_000_000  # of a web; on a larger one `least` searches once


def assign(
    web: WebGraph, model: Model, parts: int, settings: Settings, before: Ids | None = None
) -> Partition:
    """The best partition of a model, spread out over the pages.

    It is the best of as many seeds as there are tries: the least over its tolerances, then the
    cheapest. `before` gives the part of each page in a previous vector, -1 if it isn't there, as
    the only start. Raises EngineError; UserError for an engine that can't do what is asked.
    """
    seeds = range(settings.seed, settings.seed + settings.tries)
    tried = [_once(web, model, parts, replace(settings, seed=seed), before) for seed in seeds]
    if len(tried) == 1:
        return tried[0]
    counts = [evaluate.evaluate(web, one.part, parts) for one in tried]
    objective = _objective(model, settings) or _weighed(_VOLUME, counts[0], counts[0])

    def rank(at: int) -> tuple[float, float]:
        pairs = zip(counts[at].imbalances, settings.tolerances, strict=True)
        excess = max(0.0, *(imbalance - bound for imbalance, bound in pairs))
        return excess, objective.value(counts[at])

    return tried[min(range(len(tried)), key=rank)]


def _objective(model: Model, settings: Settings) -> Objective | None:
    """None: both messages and volume, as the hybrid model has if it isn't told otherwise."""
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
        """The cheapest partition that one search, or several searches combined, have found."""
        found = [self.refined(unit, objective, starts).part]
        for number in range(1, _SEARCHES[kind] if self.web.links <= _LINKS else 1):
            other = self.other(number)
            found.append(other.refined(unit, objective, other.starts(unit, kind, objective)).part)
        return self.combined(unit, objective, found) if len(found) > 1 else found[0]

    def other(self, number: int = 1) -> "_Search":
        """A further search, with another seed."""
        seed = self.settings.seed + number * _APART
        return replace(self, settings=replace(self.settings, seed=seed))

    def starts(self, unit: Ids, kind: Units, objective: Objective) -> list[Ids]:
        """Partitions by other engines or of other units, each as the part of each page.

        METIS partitions whole sites. Where these don't fit, it partitions the units themselves. For
        the hybrid model our engine refines METIS's partition of whole sites, too.
        """
        if kind is not Units.HYBRID:
            return [self.metis(unit)]
        whole = self.whole(unit)
        if whole is None:
            return [self.metis(unit)]
        graph = self.metis(whole)
        return [graph, self.refined(whole, objective, [graph]).part]

    def whole(self, unit: Ids) -> Ids | None:
        """Sites as units; None unless all fit into a part."""
        whole = self.units(Units.SITES)
        weights = models.weights(self.web, whole)
        return whole if engines.fit(weights, self.parts, self.settings.tolerances) else None

    def units(self, kind: Units) -> Ids:
        """The unit of each page. The hybrid model doesn't split what is to stay together."""
        settings = self.settings
        whole = settings.whole.union(settings.together)
        return models.units(self.web, kind, self.parts, settings.together, whole)

    def settled(self, unit: Ids, before: Ids) -> Ids:
        """Units of the hybrid model for a start from `before`, whose own units may be others.

        Units whose pages lay in several parts would have to move in part, just to be units. If that
        is more than may move, they are split by the parts that their pages lay in; new pages stay
        with the majority. Sites that must stay whole are none of them.
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
        """Few messages and little volume.

        Where whole sites fit, the references are the messages of the site hypergraph and the volume
        of the site graph. If one is missed by more than is allowed, a second search is made, and
        what both have found is combined under weights that are steered towards the aims; where both
        can't be had together, the worse miss is kept small. Elsewhere METIS's partition of the
        units only sets the scale.
        """
        whole = self.whole(unit) if before is None else None
        if whole is None:
            graph = self.metis(unit)
            scale = self.counted(graph)
            objective = _weighed(_VOLUME, scale, scale)
            if before is not None:
                return self.refined(unit, objective, before=before)
            return Partition(self.least(unit, Units.HYBRID, objective, [graph]))
        graph, few = self.poles(whole)
        little, fewest = self.counted(graph), self.counted(few)
        objective = _weighed(_VOLUME, fewest, little)

        def misses(counts: Evaluation) -> tuple[float, float]:
            """What messages and volume are of the aims; 0 where the reference is out of balance."""
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
            poles = other.poles(whole)
            part = other.refined(unit, objective, poles).part
            found += [(self.counted(part), part) for part in (*poles, part)]
            weight, step, more_before = _VOLUME, _STEER, None
            for _ in range(_STEERED):
                wanted = _weighed(weight, fewest, little)
                part = self.combined(unit, wanted, [part for _, part in found])
                found.append((self.counted(part), part))
                messages, volume = misses(found[-1][0])
                self.settings.progress(f"messages {messages:.3f}, volume {volume:.3f} of the aims")
                if max(messages, volume) <= 1:
                    break
                more = volume > messages
                if more_before not in {None, more}:
                    step **= 0.5
                more_before = more
                weight *= step if more else 1 / step
        return Partition(min(found, key=rank)[1])

    def poles(self, whole: Ids) -> tuple[Ids, Ids]:
        """Two partitions of whole sites: METIS's with little volume, and ours with few messages."""
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
        """A partition by our own engine, from `starts` and `before`, which give parts of pages."""
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
        """A partition by our own engine, made of several partitions of pages."""
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
        """METIS's partition of the units' graph, as a start."""
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
        """A partition by the engine that the settings name."""
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
        edges = f"{len(net.costs):,} nets" if hyper else f"{len(net.costs) // 2:,} edges"
        self.settings.progress(f"{engine}: {len(net.weights):,} vertices, {edges}")
        return net

    def counted(self, part: Ids) -> Evaluation:
        return evaluate.evaluate(self.web, part, self.parts)

    def within(self, counts: Evaluation) -> bool:
        pairs = zip(counts.imbalances, self.settings.tolerances, strict=True)
        return all(imbalance <= bound for imbalance, bound in pairs)


def _weighed(weight: float, messages: Evaluation, volume: Evaluation) -> Objective:
    """The messages and, weighed, the volume, each in units of what a reference has."""
    return Objective(
        t_start=1 / max(messages.messages_page_part, 1), t_byte=weight / max(volume.volume_bytes, 1)
    )


def _of_units(unit: Ids, part: Ids) -> Ids:
    """The part that most pages of each unit are in; -1 where that is so of all."""
    return webgraph.majority(unit, part, int(unit.max(initial=-1)) + 1)
