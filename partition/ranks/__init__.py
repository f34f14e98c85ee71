"""Makes a part vector on several ranks, for a web graph that doesn't fit into one process.

The pages and links are divided among the ranks. The sites are few, so one rank holds all of them.

`reading` lets each rank read a share of the tables. It gives each page, and the links of the page,
to the rank that the page's key belongs to, so that this rank has all links of the page. `merging`
numbers the sites, adds up their weights, and makes the hypergraph and the graph of the sites at
rank 0, where they are equal to those of one process. `building` spreads the searches over the ranks
and writes the part vector. `counting` counts what it costs. `exchange` has what the ranks do
together.

All functions with a parameter `peers` are called by all ranks in the same order. They raise
UserError, EngineError, PartVectorError and OSError on all ranks at the same point.
"""

from partition.ranks.building import SitePlan, build
from partition.ranks.exchange import agreed_at_first

__all__ = ["SitePlan", "agreed_at_first", "build"]
