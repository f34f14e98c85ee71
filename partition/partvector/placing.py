"""Computes where keys, parts and claimed sites go.

Keys go by the jump hash, parts are packed onto ranks, and claimed sites go by load.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from partition.partvector.layout import Keys, Loads

SLACK: Final = 1.1  # a rank's share is this times the mean load, and HEADROOM URLs more
HEADROOM: Final = 100  # at the start of a crawl, all loads are small


def jump_hash(key: int, buckets: int) -> int:
    """Return the bucket of a 64-bit key, by the jump consistent hash of Lamping and Veach (2014).

    From n to n + 1 buckets, 1 key in n + 1 moves, always to the new bucket.
    """
    bucket, jump = -1, 0
    while jump < buckets:
        bucket = jump
        key = (key * 2862933555777941757 + 1) & 0xFFFF_FFFF_FFFF_FFFF
        jump = int((bucket + 1) * (float(1 << 31) / float((key >> 33) + 1)))
    return bucket


def jump_hashes(keys: Keys, buckets: int) -> npt.NDArray[np.int32]:
    """Return `jump_hash` of many keys."""
    result = np.empty(len(keys), np.int32)
    moving = np.arange(len(keys))  # indices of keys whose next jump stays below `buckets`
    state = keys.astype(np.uint64)
    jump = np.zeros(len(keys), np.int64)
    while len(moving):
        result[moving] = jump
        state = state * np.uint64(2862933555777941757) + np.uint64(1)
        steps = float(1 << 31) / ((state >> np.uint64(33)) + np.uint64(1)).astype(np.float64)
        jump = ((jump + 1) * steps).astype(np.int64)
        inside = jump < buckets
        moving, state, jump = moving[inside], state[inside], jump[inside]
    return result


def pack(loads: Loads, ranks: int) -> list[int]:
    """Return the rank of each part, so that no rank has much more than its share of any weight.

    `loads` are parts x weights. With as many ranks as parts, rank i gets part i. With fewer
    ranks, the heaviest part comes first. Each part goes to the rank that it loads least, and
    every rank gets one. Equal loads give equal ranks. Raises ValueError for no ranks, or more
    ranks than parts.
    """
    parts = len(loads)
    if not 1 <= ranks <= parts:
        raise ValueError(f"{ranks} ranks for {parts} parts: must be from 1 to {parts}")
    if ranks == parts:
        return list(range(parts))
    share = loads / np.maximum(loads.sum(axis=0), 1)
    carried = np.zeros((ranks, loads.shape[1]))
    held = np.zeros(ranks, np.int64)
    rank_of = [0] * parts
    for part in np.argsort(-share.max(axis=1), kind="stable").tolist():
        after = (carried + share[part]).max(axis=1)
        rank = int(np.lexsort((held, after))[0])  # of the least loaded ranks, the emptiest
        rank_of[part] = rank
        carried[rank] += share[part]
        held[rank] += 1
    return rank_of


def grant(loads: Sequence[int], claimant: int) -> int:
    """Return the rank that gets a site which the vector lacks, and which `claimant` has found.

    `loads`: the URLs that each rank has had to fetch so far. The claimant gets the site. If the
    claimant has more than its share of the load, the least loaded rank gets it.
    """
    share = SLACK * sum(loads) / len(loads) + HEADROOM
    return claimant if loads[claimant] <= share else loads.index(min(loads))
