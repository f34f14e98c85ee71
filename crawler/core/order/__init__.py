"""The order of the frontier: which of the waiting URLs comes first (docs/order.md).

`scores` and `pagerank` compute the score of a URL. `fifo` and `heaps` keep the queues of the sites:
`fifo` for breadth-first, `heaps` for orders by scores. Both pack their URLs, and move the far ends
of long queues to disk. `heads` orders the sites by their best URLs.

Only the workbench uses this package. It has one order for all sites of its rank, and decides by
itself when a site may be asked.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from crawler import config
from crawler.core.order.fifo import Fifos
from crawler.core.order.heads import GroupedHeads, Heads, Priority, Tiers
from crawler.core.order.heaps import Heaps
from crawler.core.order.packing import Queue, Queues
from crawler.core.order.pagerank import PageRank, pagerank
from crawler.core.order.scores import (
    Backlinks,
    BreadthFirst,
    Custom,
    DepthFirst,
    Given,
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
    "Given",
    "GroupedHeads",
    "Heads",
    "Heaps",
    "Opic",
    "PageRank",
    "Priority",
    "Queue",
    "Queues",
    "Random",
    "Scored",
    "Tiers",
    "make_order",
    "order_of",
    "pagerank",
]


def make_order(
    frontier: config.Frontier,
    earlier: Callable[[int], float | None] = lambda key: None,
    options: Mapping[str, object] = MappingProxyType({}),
) -> BreadthFirst:
    """Make the order that the configuration names.

    `earlier`: see PageRank. `options`: of a plug-in. Raises UserError if there is no such order, or
    if a plug-in can't be used.
    """
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
    built_in = orders.get(frontier.order)
    return load(frontier.order, options) if built_in is None else built_in()


def order_of(
    settings: config.Config, earlier: Callable[[int], float | None] = lambda key: None
) -> BreadthFirst:
    """Make the order of a configuration, with its options. See `make_order`."""
    frontier = settings.frontier
    return make_order(frontier, earlier, settings.options_of(frontier.order))
