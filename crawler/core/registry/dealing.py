"""Deals the best URLs to several clients in turn."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from crawler.compiled import compiled
from crawler.core.registry import moves
from crawler.core.registry.records import NONE, SITE, Records

Numbers: TypeAlias = NDArray[np.int64]

DEALT = np.dtype(
    [
        ("row", "i8"),
        ("key", "u8"),
        ("site", "u4"),  # the field of its record
        ("score", "f8"),
        ("hand", "i8"),  # the number of the hand that gets the URL
        ("pool", "i8"),  # where its site was
        ("first", "?"),  # whether no other URL of its site is handed out
    ]
)


@compiled
def best_of(
    urls: Records, sites: Records, pools: Records, best: int, other: int
) -> int:  # pragma: no cover - compiled
    """Return the pool with the better first URL; NONE is no pool."""
    if pools[other].root == NONE:
        return best
    if best == NONE:
        return other
    ours, its = pools[best].root, pools[other].root
    if sites[its].priority != sites[ours].priority:
        return other if sites[its].priority > sites[ours].priority else best
    if sites[its].score != sites[ours].score:
        return other if sites[its].score > sites[ours].score else best
    return other if sites[its].row < sites[ours].row else best


@compiled
def deal(
    urls: Records,
    sites: Records,
    pools: Records,
    per_site: int,
    own: Numbers,
    starts: Numbers,
    others: Numbers,
    room: Numbers,
    load: Numbers,
    free: int,
    share: int,
    most: int,
) -> NDArray[np.void]:  # pragma: no cover - compiled
    """Deal at most `most` URLs; see `Registry.deal`.

    The hand number i has the pool `own[i]` and the pools `others[starts[i] : starts[i + 1]]`.
    Changes `room` and `load`.
    """
    dealt = np.empty(most, DEALT)
    count = 0
    hungry = np.arange(len(own))
    left = len(own)
    while left and count < most:
        still = 0
        for place in range(left):
            hand = hungry[place]
            if room[hand] <= 0 or count == most:
                continue
            pool = best_of(urls, sites, pools, NONE, own[hand])
            for other in range(starts[hand], starts[hand + 1]):
                pool = best_of(urls, sites, pools, pool, others[other])
            if free >= 0 and load[hand] + pools[own[hand]].sites < share:
                pool = best_of(urls, sites, pools, pool, free)
            if pool == NONE:
                continue
            row = moves.hand_out(urls, sites, pools, per_site, pool)
            site = urls[row].site & SITE
            first = sites[site].out == 1
            load[hand] += first
            room[hand] -= 1
            if pool != own[hand]:
                moves.move(urls, sites, pools, per_site, site, own[hand])
            dealt[count].row = row
            dealt[count].key = urls[row].key
            dealt[count].site = urls[row].site
            dealt[count].score = urls[row].score
            dealt[count].hand = hand
            dealt[count].pool = pool
            dealt[count].first = first
            count += 1
            hungry[still] = hand
            still += 1
        left = still
    return dealt[:count].copy()
