"""Our own multilevel hypergraph partitioner, with two balance constraints."""

from partition.multilevel.walk import combined, partition, rebalanced

__all__ = ["combined", "partition", "rebalanced"]
