"""Makes the hybrid model's partition with few messages and little volume.

The rule has three steps. If every site fits into a part, METIS's partition of whole sites and ours
set the aims, and a search starts from both. If it misses an aim, a second search is made. Then all
partitions found are combined several times, and each time the aim that was missed gets more weight.
If both aims can't be reached together, the worse miss is kept small.

Where some site doesn't fit, or a previous partition is the only start, there are no aims. METIS's
partition of the units then only sets the scale of messages and volume.
"""

from typing import NamedTuple

from partition.arrays import Ids
from partition.assign.aims import Aims, Weight, weighed
from partition.assign.linked import Counts
from partition.assign.search import Search
from partition.engines import Partition, Start
from partition.models import MESSAGES, Objective, Units
from partition.multilevel.limits import allowed_imbalance


class _Found(NamedTuple):
    counts: Counts
    part: Ids


def both(search: Search, unit: Ids, start: Start | None) -> Partition:
    """Return a partition of the hybrid model's units with few messages and little volume."""
    whole = search.whole() if start is None else None
    if whole is not None:
        return Partition(_with_aims(search, unit, whole))
    graph = search.metis(unit)
    objective = _scaled(search, graph)
    if start is not None:
        return search.refined(unit, objective, start=start)
    return Partition(search.least(unit, Units.HYBRID, objective, [graph]))


def _scaled(search: Search, part: Ids) -> Objective:
    """Return the usual objective, in which messages and volume of a partition are the units."""
    counts = _counted(search, part).counts
    return weighed(search.policy.volume_weight, counts, counts)


def _with_aims(search: Search, unit: Ids, whole: Ids) -> Ids:
    little, few = (_counted(search, part) for part in _extremes(search, whole))
    tolerances = search.settings.tolerances
    allowed = allowed_imbalance(search.linked.weights(unit), search.parts, tolerances)
    aims = Aims(few.counts, little.counts, tolerances, allowed, search.policy)
    objective = aims.objective(search.policy.volume_weight)
    part = search.refined(unit, objective, [little.part, few.part]).part
    found = [little, few, _counted(search, part)]
    if max(aims.misses(found[-1].counts)) > 1:
        found += _searched_again(search.other(), unit, whole, objective)
        found += _steered(search, unit, aims, found)
    return min(found, key=lambda one: aims.rank(one.counts)).part


def _searched_again(other: Search, unit: Ids, whole: Ids, objective: Objective) -> list[_Found]:
    """Return what a search with another seed finds: its two extremes, and what lies between."""
    extremes = _extremes(other, whole)
    part = other.refined(unit, objective, extremes).part
    return [_counted(other, part) for part in (*extremes, part)]


def _steered(search: Search, unit: Ids, aims: Aims, found: list[_Found]) -> list[_Found]:
    """Return combinations of all partitions found, with one weight of the volume after the other.

    The last one reaches both aims, unless the changes of the weight run out.
    """
    weight, combinations = Weight(search.policy), list[_Found]()
    for _ in range(search.policy.max_weight_changes):
        parts = [one.part for one in (*found, *combinations)]
        part = search.combined(unit, aims.objective(weight.value), parts)
        combinations.append(_counted(search, part))
        missed = aims.misses(combinations[-1].counts)
        search.settings.progress(
            f"messages {missed.messages:.3f}, volume {missed.volume:.3f} of targets"
        )
        if max(missed) <= 1:
            break
        weight.follow(missed)
    return combinations


def _extremes(search: Search, whole: Ids) -> tuple[Ids, Ids]:
    """Return METIS's partition of whole sites (little volume) and ours (few messages)."""
    graph = search.metis(whole)
    return graph, search.refined(whole, MESSAGES, [graph]).part


def _counted(search: Search, part: Ids) -> _Found:
    return _Found(search.linked.counts(part, search.parts), part)
