"""Types of arrays, and functions on arrays that know nothing of graphs."""

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]
Keys = npt.NDArray[np.uint64]


def distinct(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the distinct numbers in order, much faster than np.unique for millions."""
    ascending = np.sort(numbers.ravel())
    first = np.ones(len(ascending), bool)
    first[1:] = ascending[1:] != ascending[:-1]
    return ascending[first]


def sums(keys: npt.NDArray[Any], *columns: Ints) -> tuple[npt.NDArray[Any], ...]:
    """Return the distinct keys, ascending, and for each column the sum of each key."""
    order = np.argsort(keys)
    keys = keys[order]
    first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])
    if not len(first):
        return keys, *columns
    return keys[first], *(np.add.reduceat(column[order], first) for column in columns)


def total(numbers: npt.NDArray[np.integer[Any]]) -> int:
    """Return the exact sum of numbers that are 0 or more, however large it is."""
    numbers = numbers.astype(np.uint64)  # because a narrower type can't hold the mask
    high, low = numbers >> np.uint64(32), numbers & np.uint64(0xFFFF_FFFF)
    return (int(high.sum()) << 32) + int(low.sum())


def find(ascending: npt.NDArray[Any], values: npt.NDArray[Any]) -> tuple[Ints, npt.NDArray[Any]]:
    """Return the index of each value in `ascending` (not empty), and whether it is there."""
    at = np.searchsorted(ascending, values)
    at[at == len(ascending)] = 0
    return at, ascending[at] == values


def majority(group: Ids, part: Ids, groups: int) -> Ids:
    """Return the part that most members of each group are in, or -1 for a group without members.

    In a tie, the lowest part wins. Members in part -1 don't count.
    """
    parts = np.int64(part.max(initial=-1) + 1)
    counted = part >= 0
    pairs, sizes = np.unique(group[counted] * parts + part[counted], return_counts=True)
    result = np.full(groups, -1, np.int32)
    order = np.lexsort((-pairs, sizes))  # the last one written for a group wins
    result[pairs[order] // max(parts, 1)] = pairs[order] % max(parts, 1)
    return result
