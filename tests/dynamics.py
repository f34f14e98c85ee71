"""Random settings of dynamic assignment, for clusters in random schedules."""

import random
from collections.abc import Sequence

from cluster import settings

from crawler import config
from crawler.core.schemes import Scheme, make_scheme

KINDS = [  # granularity, follow
    ("page", "server"),
    ("site", "server"),
    ("dset", "server"),
    ("site", "own"),
    ("dset", "own"),
]
TREES = [(0,), (0,), (0, 0, 0), (0, 0, 1, 1, 0)]
ORDERS = ["breadth-first", "backlinks", "opic", "pagerank", "depth-first", "random"]


def dynamic(
    dice: random.Random,
    kind: tuple[str, str],
    clients: int,
    *overrides: str,
    servers: Sequence[int] = (),
    spares: int = 0,
) -> tuple[Scheme, int, config.Config]:
    """The arguments of a `Cluster`: a tree of servers with at least so many clients."""
    servers = servers or dice.choice(TREES)
    leaves = len(set(range(len(servers))) - set(servers[1:]))
    ranks = len(servers) + max(leaves, clients) + spares
    order = dice.choice([*ORDERS, f"{__name__}:by_length"])
    chosen = settings(
        "assignment.scheme=dynamic",
        f"dynamic.granularity={kind[0]}",
        f"dynamic.follow={kind[1]}",
        f"dynamic.servers={list(servers)}",
        f"dynamic.spares={spares}",
        f"dynamic.rest_s={dice.choice([0, 1, 60])}",
        f"dynamic.stock={dice.choice([0, 1, 3, 20])}",
        f"dynamic.per_site={dice.choice([0, 1, 2, 4])}",
        f"frontier.order={order}",
        f"exchange.batch_pages={dice.choice([1, 3, 64])}",
        f"exchange.remember={dice.choice(['all', 'cache', 'batch'])}",
        "exchange.cache_urls=2",
        f"politeness.connections_per_site={dice.choice([1, 2])}",
        *overrides,
    )
    return make_scheme(chosen, ranks), ranks, chosen


def by_length(found: object) -> float:
    """An order of a user: short URLs come first."""
    return -len(str(found))
