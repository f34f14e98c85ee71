"""The rules for a partition that starts from a previous vector.

The previous part of a unit is the part that most of its pages were in. Pages that were elsewhere
move with the unit, and count as moved already (`start`). If too many of them would move, the units
are divided first (`settled`).
"""

import numpy as np

from partition import arrays
from partition.arrays import Ids
from partition.engines import Start
from partition.settings import Settings
from partition.webgraph import WebGraph


def of_units(unit: Ids, part: Ids) -> Ids:
    """Return the part that most pages of each unit are in, or -1 if no page is in a part."""
    return arrays.majority(unit, part, int(unit.max(initial=-1)) + 1)


def start(web: WebGraph, settings: Settings, unit: Ids, before: Ids | None) -> Start | None:
    """Return how the engine starts from the previous partition `before`, or None without one.

    If the settings name the previous vector, only `settings.migration` of each weight may move.
    """
    if before is None:
        return None
    home = of_units(unit, before)
    if settings.previous is None:
        return Start(home)
    at_home = (before >= 0) & (before == home[unit])
    gone = (before >= 0) & ~at_home
    held = np.zeros((len(home), 2), np.int64)
    np.add.at(held, unit[at_home], np.stack([web.bytes[at_home], at_home[at_home]], axis=1))
    strayed = int(web.bytes[gone].sum()), int(gone.sum())
    return Start(home, settings.migration, held, strayed)


def settled(web: WebGraph, parts: int, settings: Settings, unit: Ids, before: Ids) -> Ids:
    """Return units of the hybrid model that fit the previous partition `before`.

    If the pages of a unit lay in several parts, some of them must move so that the unit is in
    one part. If that moves more than `settings.migration` allows, such units are split by the
    previous parts of their pages. New pages join the majority. Sites that must stay whole
    aren't split.
    """
    home = of_units(unit, before)[unit]
    moved = (before >= 0) & (before != home)
    loads = int(web.bytes[moved].sum()), int(moved.sum())
    totals = int(web.bytes.sum()), web.pages
    if all(load <= settings.migration * all_ for load, all_ in zip(loads, totals, strict=True)):
        return unit
    kept = np.array([s in settings.whole or s in settings.together for s in web.sites], bool)
    piece = np.where((before < 0) | kept[web.site], home, before)
    pair = unit.astype(np.int64) * (parts + 1) + piece + 1
    return np.unique(pair, return_inverse=True)[1].astype(np.int32)
