"""Makes a part vector on several ranks, for a web graph that doesn't fit into one process.

The pages and links are divided among the ranks. The sites are few, so each rank holds the weights
and the part of all of them, and rank 0 also their names. The links are collected only at the end,
in their smallest form.

`reading` lets each rank read a share of the tables. It gives each page, and the links of the page,
to the rank that the page's key belongs to, so that this rank has all links of the page. `merging`
numbers the sites and adds up their weights. It makes each rank's share of the nets (`shares`).
All shares together are equal to what one process makes. If they don't fit into one rank, the
ranks coarsen them (`coarsening`). Rank 0 gets the coarsest level. `building` spreads the searches
over the ranks. The ranks refine the partition on each level (`refining`). `building` writes the
part vector, and `counting` counts what it costs. `collecting` gives rank 0 the links of all pages,
from which it predicts the time of the crawl. `exchange` has what the ranks do together.

All functions with a parameter `peers` are called by all ranks in the same order. They raise
UserError, EngineError, PartVectorError and OSError on all ranks at the same point.
"""

from partition.ranks.building import SitePlan, build
from partition.ranks.exchange import agreed_at_first

__all__ = ["SitePlan", "agreed_at_first", "build"]
