"""All partitions of a few vertices, where no search is needed."""

from typing import Final

import numpy as np

from partition.hypergraph import Hypergraph
from partition.webgraph import Ids, Ints

_PARTITIONS: Final = 20_000  # at most, to be looked at


def is_small(h: Hypergraph, parts: int) -> bool:
    """Whether all partitions can be looked at in a moment."""
    number: int = parts ** min(h.vertices - 1, _PARTITIONS.bit_length())
    return number <= _PARTITIONS


def all_partitions(vertices: int, parts: int) -> Ids:
    """A row for each partition, up to the numbers of the parts: the first vertex is in part 0."""
    others = np.indices((parts,) * (vertices - 1), np.int32).reshape(vertices - 1, -1).T
    return np.concatenate([np.zeros((len(others), 1), np.int32), others], axis=1)


def loads_of_all(weights: Ints, partitions: Ids, parts: int) -> Ints:
    """Rows x parts x 2: what the parts of each partition weigh."""
    loads = [(partitions == b).astype(np.int64) @ weights for b in range(parts)]
    return np.stack(loads, axis=1)
