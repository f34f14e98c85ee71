"""Our own multilevel hypergraph partitioner, with two balance constraints."""

from partition.multilevel.walk import partition

__all__ = ["partition"]
