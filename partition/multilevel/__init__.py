"""Our own multilevel hypergraph partitioner, with two balance constraints."""

from partition.multilevel.walk import partition, rebalanced

__all__ = ["partition", "rebalanced"]
