"""Assigns the units of a model to parts: engines give first partitions, and ours refines the best.

Our engine alone misses two kinds of good partitions. A search with many small units rarely finds
what a search with whole sites finds easily. And METIS, which cuts links, sometimes finds the
structure of a web that nets hide. So our engine starts from its own first partitions, from those of
METIS, and from those of larger units. It refines all of them under the model's own objective and
keeps the best. The result is never worse, by that objective, than any of the starts.

`linked` is what a search knows of a web. `policy` says how much is searched. A `Search` makes the
partitions of one seed, with what it starts from. `both` makes the hybrid model's partition without
an objective, which has the objectives of both papers: few messages and little volume. `previous`
has the rules for a partition that starts from a previous vector.
"""

from collections.abc import Sequence
from dataclasses import replace

from partition.arrays import Ids
from partition.assign.aims import weighed
from partition.assign.both import both
from partition.assign.linked import Counts, Linked, Pages, units
from partition.assign.policy import DEFAULT, Policy
from partition.assign.previous import settled, start
from partition.assign.search import Search
from partition.engines import Partition, Start
from partition.models import MESSAGES, Model, Objective, Units
from partition.settings import Settings
from partition.threads import at_once
from partition.webgraph import WebGraph

__all__ = [
    "DEFAULT",
    "Counts",
    "Linked",
    "Policy",
    "Search",
    "aim",
    "assign",
    "least",
    "once",
    "weighed",
]


def assign(
    web: WebGraph,
    model: Model,
    parts: int,
    settings: Settings,
    before: Ids | None = None,
    policy: Policy = DEFAULT,
) -> Partition:
    """Return the best partition of a model, as the part of each page.

    One partition is made for each of `settings.tries` seeds. The best exceeds the tolerances by
    the least, and among equals has the least objective. `before` gives the part of each page in
    a previous vector, or -1 for a page that it lacks. If `before` is given, it is the only
    start. Raises EngineError, and UserError for an engine that can't do what is asked.
    """
    unit = units(web, model.units, parts, settings)
    if before is not None and settings.previous is not None and model.units is Units.HYBRID:
        unit = settled(web, parts, settings, unit, before)
    linked, begin = Pages(web, settings.together), start(web, settings, unit, before)

    def tried_with(seed: int) -> Partition:
        return once(Search(linked, parts, replace(settings, seed=seed), policy), model, unit, begin)

    tried = at_once(tried_with, range(settings.seed, settings.seed + settings.tries))
    if len(tried) == 1:
        return tried[0]
    counts = [linked.counts(one.part, parts) for one in tried]
    objective = aim(model, settings)
    if objective is None:
        objective = weighed(policy.volume_weight, counts[0], counts[0])
    return tried[least(counts, [objective.value(one) for one in counts], settings)]


def least(counts: Sequence[Counts], values: Sequence[float], settings: Settings) -> int:
    """Return which partition exceeds the tolerances by the least, and then has the least value."""

    def rank(at: int) -> tuple[float, float]:
        pairs = zip(counts[at].imbalances, settings.tolerances, strict=True)
        return max(0.0, *(imbalance - bound for imbalance, bound in pairs)), values[at]

    return min(range(len(counts)), key=rank)


def aim(model: Model, settings: Settings) -> Objective | None:
    """Return the objective to use, or None for both messages and volume (hybrid by default)."""
    return settings.objective if model.units is Units.HYBRID else model.objective


def once(search: Search, model: Model, unit: Ids, begin: Start | None = None) -> Partition:
    """Return the partition of one seed, by the engine that the settings or the model name.

    If there is a partition to begin with, it is the only start.
    """
    engine = search.settings.engine
    if engine is None:
        engine = "multilevel" if model.hyper or begin is not None else "metis"
    objective = aim(model, search.settings)
    if engine != "multilevel":
        return search.by(engine, model, unit, objective or MESSAGES, begin)
    if objective is None:
        return both(search, unit, begin)
    if begin is not None or not model.hyper:
        return search.refined(unit, objective, start=begin, hyper=model.hyper)
    starts = search.starts(unit, model.units, objective)
    return Partition(search.least(unit, model.units, objective, starts))
