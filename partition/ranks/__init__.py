"""Makes a part vector on several ranks, for a web graph that doesn't fit into one process.

The pages and links are divided among the ranks. Each rank holds the weights and the part of all
units of the model, and rank 0 also the names of the sites. In models of sites the units are few.
The links are collected only at the end, in their smallest form.

`building` is the walk. `reading` lets each rank read a share of the tables. It gives each page, and
the links of the page, to the rank that the page's key belongs to, so that this rank has all links
of the page. `merging` numbers the sites and adds up their weights. `dividing` divides the pages
into units. `linking` makes each rank's share of the nets (`shares`). All shares together are equal
to what one process makes. If they don't fit into one rank, the ranks coarsen them (`coarsening`).
Rank 0 gets the coarsest level (`atoms`). `searching` spreads the searches over the ranks. The ranks
refine the partition on each level: all together (`refining`), and each some of the parts
(`groups`). They coarsen and refine again in cycles. `counting` counts what it costs, and `writing`
writes the part vector. `collecting` gives rank 0 the links of all pages, from which it predicts the
time of the crawl. `exchange` has what the ranks do together.

All functions with a parameter `peers` are called by all ranks in the same order. They raise
UserError, EngineError, PartVectorError and OSError on all ranks at the same point.
"""

from partition.ranks.building import UnitPlan, build
from partition.ranks.exchange import agreed_at_first

__all__ = ["UnitPlan", "agreed_at_first", "build"]
