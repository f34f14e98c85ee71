"""Divides a web into units: pages, sites, or (hybrid) sites and pieces of heavy sites.

The hybrid model divides only what is heavier than `SHARE` of the average part; `units` has the
rule.
"""

from collections.abc import Container, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from partition.arrays import Ids, Ints
from partition.models.model import Units
from partition.models.tree import directories, split_tree
from partition.webgraph import WebGraph

SHARE: Final = 0.25  # of the average part; the hybrid model splits heavier sites
_RANGES: Final = 16  # without URLs: a unit has at most this fraction (1/16) of that share


def units(
    web: WebGraph,
    kind: Units,
    parts: int,
    together: Mapping[str, str],
    whole: Container[str] = (),
) -> Ids:
    """Return the unit of each page, numbered from 0 without gaps.

    `together` maps sites to a group, the address of their server. If sites are the units, a
    whole group is one unit.

    The hybrid model splits a group that is heavier than SHARE of the average part, unless it
    has a site in `whole`. First, the group becomes its sites. A site that is still too heavy
    becomes the largest directories that fit. Pages that lie directly in a directory that
    doesn't fit become single units. In a graph without URLs, a site is split into ranges of
    page numbers instead, because in most such graphs these follow the order of the URLs.
    """
    if kind is Units.PAGES:
        return np.arange(web.pages, dtype=np.int32)
    names = [together.get(site, f"\0{site}") for site in web.sites]  # NUL: no address has it
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    group = np.array([numbers[name] for name in names], np.int32)[web.site]
    unit = group.astype(np.int64)
    if kind is Units.HYBRID:
        share = SHARE * np.array([web.bytes.sum(), web.pages]) / parts
        kept = np.array([site in whole for site in web.sites], bool)
        unit = _split(web, group, share, np.isin(group, np.unique(group[kept[web.site]])))
    return np.unique(unit, return_inverse=True)[1].astype(np.int32)


def _split(
    web: WebGraph, group: Ids, share: npt.NDArray[np.float64], kept: npt.NDArray[np.bool_]
) -> Ints:
    """Split the groups that are too heavy, except those of pages to be kept together."""

    def heavy(unit: Ids) -> npt.NDArray[np.bool_]:
        over = weights(web, unit) > share
        return (over[:, 0] | over[:, 1])[unit]

    split_group = heavy(group) & ~kept
    pages = np.flatnonzero(split_group & heavy(web.site)).astype(np.int32)
    unit = group.astype(np.int64)
    free = int(unit.max(initial=0)) + 1
    unit[split_group] = free + web.site[split_group]
    free += len(web.sites)
    pages = pages[np.argsort(web.site[pages], kind="stable")]
    texts = web.texts(pages) if web.texts else None
    ends = np.flatnonzero(np.append(np.diff(web.site[pages]) != 0, True)[: len(pages)]) + 1
    for low, high in zip([0, *ends.tolist()], ends.tolist(), strict=False):
        of_site = pages[low:high]
        load = np.stack([web.bytes[of_site], np.ones(high - low, np.int64)], axis=1)
        if texts is None:
            fractions = (load / np.maximum(share, 1)).max(axis=1)
            piece = (np.cumsum(fractions) * _RANGES).astype(np.int64)
        else:
            piece = split_tree(directories(texts[low:high]), load, share)
        unit[of_site] = free + piece
        free += int(piece.max()) + 1
    return unit


def weights(web: WebGraph, unit: Ids) -> Ints:
    """Return the bytes and requests of each unit."""
    return web.loads(unit, int(unit.max(initial=-1)) + 1)
