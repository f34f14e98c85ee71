"""Assigns the units of a model to parts: engines give first partitions, and ours refines the best.

Our engine alone misses two kinds of good partitions. A search with many small units rarely finds
what a search with whole sites finds easily. And METIS, which cuts links, sometimes finds the
structure of a web that nets hide. So our engine starts from its own first partitions, from those of
METIS, and from those of larger units. It refines all of them under the model's own objective and
keeps the best. The result is never worse, by that objective, than any of the starts.

`policy` says how much is searched. A `Search` makes the partitions of one seed, with what it starts
from. `both` makes the hybrid model's partition without an objective, which has the objectives of
both papers: few messages and little volume. `previous` has the rules for a partition that starts
from a previous vector.
"""

from dataclasses import replace

from partition import evaluate
from partition.arrays import Ids
from partition.assign.aims import weighed
from partition.assign.both import both
from partition.assign.policy import DEFAULT, Policy
from partition.assign.previous import settled
from partition.assign.search import Search
from partition.engines import Partition
from partition.models import MESSAGES, Model, Objective, Units
from partition.settings import Settings
from partition.threads import at_once
from partition.webgraph import WebGraph

__all__ = ["DEFAULT", "Policy", "assign"]


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
    seeds = range(settings.seed, settings.seed + settings.tries)
    tried = at_once(
        lambda seed: _once(Search(web, parts, replace(settings, seed=seed), policy), model, before),
        seeds,
    )
    if len(tried) == 1:
        return tried[0]
    counts = [evaluate.evaluate(web, one.part, parts) for one in tried]
    objective = _objective(model, settings)
    if objective is None:
        objective = weighed(policy.volume_weight, counts[0], counts[0])

    def rank(at: int) -> tuple[float, float]:
        pairs = zip(counts[at].imbalances, settings.tolerances, strict=True)
        excess = max(0.0, *(imbalance - bound for imbalance, bound in pairs))
        return excess, objective.value(counts[at])

    return tried[min(range(len(tried)), key=rank)]


def _objective(model: Model, settings: Settings) -> Objective | None:
    """Return the objective to use, or None for both messages and volume (hybrid by default)."""
    return settings.objective if model.units is Units.HYBRID else model.objective


def _once(search: Search, model: Model, before: Ids | None) -> Partition:
    """Return the partition of one seed, by the engine that the settings or the model name."""
    settings = search.settings
    engine = settings.engine
    if engine is None:
        engine = "multilevel" if model.hyper or before is not None else "metis"
    unit = search.units(model.units)
    if before is not None and settings.previous is not None and model.units is Units.HYBRID:
        unit = settled(search.web, search.parts, settings, unit, before)
    objective = _objective(model, settings)
    if engine != "multilevel":
        return search.by(engine, model, unit, objective or MESSAGES, before)
    if objective is None:
        return both(search, unit, before)
    if before is not None or not model.hyper:
        return search.refined(unit, objective, before=before, hyper=model.hyper)
    starts = search.starts(unit, model.units, objective)
    return Partition(search.least(unit, model.units, objective, starts))
