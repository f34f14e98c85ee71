"""The order of the frontier: which of the URLs that wait comes first (docs/order.md).

`scores` and `pagerank` say what a URL is worth. `fifo` and `heaps` keep the queues of the sites,
packed, the far ends of long ones on disk; they are equals, one for breadth-first, one for scores.
`heads` keeps sites by the best that they have. The workbench alone enters here, with one order a
rank; what it decides besides is when a site may be asked.
"""

from collections.abc import Callable

from crawler import config
from crawler.core.order.fifo import Fifos
from crawler.core.order.heads import Heads, Rank
from crawler.core.order.heaps import Heaps
from crawler.core.order.packing import Queue, Queues
from crawler.core.order.pagerank import PageRank, pagerank, pagerank_by_key
from crawler.core.order.scores import (
    Backlinks,
    BreadthFirst,
    Custom,
    DepthFirst,
    Opic,
    Random,
    Scored,
    load,
)

__all__ = [
    "Backlinks",
    "BreadthFirst",
    "Custom",
    "DepthFirst",
    "Fifos",
    "Heads",
    "Heaps",
    "Opic",
    "PageRank",
    "Queue",
    "Queues",
    "Random",
    "Rank",
    "Scored",
    "make_order",
    "pagerank",
    "pagerank_by_key",
]


def make_order(
    frontier: config.Frontier, earlier: Callable[[int], float | None] = lambda key: None
) -> BreadthFirst:
    """The order that the configuration names. `earlier`: see PageRank.

    Raises UserError for a function of the user's that isn't there.
    """
    if ":" in frontier.order:
        return load(frontier.order)
    if frontier.order == "random":
        return Random(frontier.seed)
    if frontier.order == "pagerank":
        return PageRank(earlier)
    orders = {
        "breadth-first": BreadthFirst,
        "depth-first": DepthFirst,
        "backlinks": Backlinks,
        "opic": Opic,
    }
    return orders[frontier.order]()
