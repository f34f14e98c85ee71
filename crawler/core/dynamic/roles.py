"""The part that a rank has in dynamic assignment: a seed server, a client of one, or neither."""

from collections.abc import Callable
from functools import partial
from math import ceil
from typing import Final

from crawler import config
from crawler.core.claims import Claims
from crawler.core.clocks import SharedClocks
from crawler.core.dynamic.client import Client
from crawler.core.dynamic.seedbench import SeedBench
from crawler.core.dynamic.server import Server
from crawler.core.foreign import Foreign, TreeExchange
from crawler.core.leases import Leases
from crawler.core.order import BreadthFirst, make_order
from crawler.core.outboxes import Outboxes
from crawler.core.ownership import Ownership
from crawler.core.quota import Quota
from crawler.core.workbench import Workbench
from crawler.ports import Spill
from crawler.reading.cookies import Jars
from crawler.reading.declared import DeclaredSitemaps
from crawler.reading.scope import Sites

_MOST_PER_SITE: Final = 4


def make_bench(
    settings: config.Config,
    ownership: Ownership,
    order: BreadthFirst | None,
    spill: Spill | None,
    leases: Leases | None,
) -> Workbench:
    """Make the workbench of a rank: a server's has the registry, and the order that is configured.

    A client fetches in the order in which URLs are handed to it.
    """
    tree = ownership.tree
    order = order or make_order(settings.frontier)
    if tree is None or not tree.hands_out:
        pass
    elif tree.is_server(ownership.rank):
        from crawler.core.registry import Registry  # noqa: PLC0415 (it imports numba: a second)

        registry = partial(Registry, per_site(settings), spill)
        return SeedBench(settings.politeness, settings.retry, order, registry, leases)
    else:
        order = BreadthFirst()
    memory = settings.frontier.memory
    return Workbench(settings.politeness, settings.retry, order, spill, memory, leases)


def per_site(settings: config.Config) -> int:
    """How many URLs of a site a client has at hand, from one to four.

    They last while the client reports one and the server hands out the next.
    """
    delay_s = settings.politeness.delay_s
    if settings.dynamic.per_site:
        return settings.dynamic.per_site
    if delay_s == 0:
        return _MOST_PER_SITE
    return min(1 + ceil(settings.exchange.max_delay_s / delay_s), _MOST_PER_SITE)


def make_server(
    settings: config.Config,
    ownership: Ownership,
    bench: Workbench,
    foreign: Foreign,
    outboxes: Outboxes,
    clocks: SharedClocks | None,
    quota: Quota,
    jars: Jars,
    declared: DeclaredSitemaps,
) -> Server | None:
    """The server that a rank is; None if it is none."""
    if not isinstance(bench, SeedBench) or ownership.tree is None:
        return None
    assert isinstance(foreign, TreeExchange)
    return Server(
        ownership.rank,
        settings,
        ownership.tree,
        bench.backlog,
        foreign,
        outboxes,
        clocks,
        quota,
        jars,
        declared,
    )


def make_assign(ownership: Ownership, claims: Claims) -> Callable[[str], int] | None:
    """Return how a server chooses the client of a new site: the one with the smallest load.

    Returns None for a client.
    """
    tree = ownership.tree
    if tree is None or not tree.is_server(ownership.rank):
        return None
    clients = tree.clients_of(ownership.rank)
    return lambda site: claims.least_loaded(clients)


def make_client(
    settings: config.Config,
    ownership: Ownership,
    bench: Workbench,
    foreign: Foreign,
    outboxes: Outboxes,
    sites: Sites,
    jars: Jars,
    declared: DeclaredSitemaps,
) -> Client | None:
    """The client that a rank is; None if it is none, or follows links itself."""
    tree = ownership.tree
    if tree is None or not tree.hands_out or tree.is_server(ownership.rank):
        return None
    assert isinstance(foreign, TreeExchange)
    wants_links = make_order(settings.frontier).wants_links
    return Client(
        ownership.rank,
        settings,
        tree,
        bench,
        foreign,
        outboxes,
        sites,
        jars,
        declared,
        wants_links=wants_links,
    )
