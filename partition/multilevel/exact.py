"""All partitions of a few vertices, for hypergraphs so small that no search is needed."""

from typing import Final

import numpy as np

from partition.arrays import Ids, Ints
from partition.hypergraph import Hypergraph

_MAX_PARTITIONS: Final = 20_000


def is_small(h: Hypergraph, parts: int) -> bool:
    """Return whether there are so few partitions that all can be compared at once."""
    number: int = parts ** min(h.vertices - 1, _MAX_PARTITIONS.bit_length())
    return number <= _MAX_PARTITIONS


def all_partitions(vertices: int, parts: int) -> Ids:
    """Return a row for each partition, except renumberings: the first vertex is in part 0."""
    others = np.indices((parts,) * (vertices - 1), np.int32).reshape(vertices - 1, -1).T
    return np.concatenate([np.zeros((len(others), 1), np.int32), others], axis=1)


def loads_of_all(weights: Ints, partitions: Ids, parts: int) -> Ints:
    """Return the loads of the parts of each partition; rows x parts x 2."""
    loads = [(partitions == b).astype(np.int64) @ weights for b in range(parts)]
    return np.stack(loads, axis=1)
