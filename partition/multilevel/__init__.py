"""Our own multilevel hypergraph partitioner, with two balance constraints."""

from partition.multilevel.walk import MAX_PARTS, combined, improved, partition, rebalanced

__all__ = ["MAX_PARTS", "combined", "improved", "partition", "rebalanced"]
