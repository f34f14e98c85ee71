"""New scores for all URLs of a registry, and the heaps that follow from them."""

import numpy as np
from numpy.typing import NDArray

from crawler.compiled import compiled
from crawler.core.registry.heap import meld
from crawler.core.registry.moves import is_in_heap, place
from crawler.core.registry.records import ABSENT, FINAL, NONE, SITE, Records


@compiled
def changeable(urls: Records, start: int, stop: int) -> NDArray[np.int64]:  # pragma: no cover
    """Return the rows between `start` and `stop` that are in a heap with a score not final."""
    rows = np.empty(stop - start, np.int64)
    found = 0
    for row in range(start, stop):
        if is_in_heap(urls[row]) and not urls[row].site & FINAL:
            rows[found] = row
            found += 1
    return rows[:found].copy()


@compiled
def rebuild(
    urls: Records, sites: Records, pools: Records, per_site: int, known: int, born: int
) -> None:  # pragma: no cover - compiled
    """Build all heaps anew, of `known` URLs and `born` sites, after any change of scores."""
    for pool in range(len(pools)):
        pools[pool].root = NONE
        pools[pool].sites = 0
    for site in range(born):
        sites[site].root = NONE
        sites[site].previous = ABSENT
    for row in range(known):
        if is_in_heap(urls[row]):
            urls[row].child = NONE
            urls[row].sibling = NONE
            urls[row].previous = NONE
    for row in range(known):
        if is_in_heap(urls[row]):
            site = urls[row].site & SITE
            sites[site].root = meld(urls, None, sites[site].root, row)
    for site in range(born):
        place(urls, sites, pools, per_site, site)
