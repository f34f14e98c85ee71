"""The part that a rank has in dynamic assignment: a seed server, a client of one, or neither."""

from functools import partial

from crawler import config
from crawler.core.courtesy import Courtesy
from crawler.core.dynamic.client import Client
from crawler.core.dynamic.held_seen import HeldSeen
from crawler.core.dynamic.holder import Assigner, Holder
from crawler.core.dynamic.role import Role
from crawler.core.dynamic.seedbench import SeedBench
from crawler.core.dynamic.server import Server
from crawler.core.leases import Leases
from crawler.core.order import BreadthFirst, Given, order_of
from crawler.core.ownership import Ownership
from crawler.core.parts import Parts
from crawler.core.seen import LateSeen, SiteGroups, UrlSeen
from crawler.core.workbench import Workbench
from crawler.ports import Spill


def make_bench(
    settings: config.Config,
    ownership: Ownership,
    order: BreadthFirst | None,
    spill: Spill | None,
    leases: Leases | None,
    groups: SiteGroups | None,
) -> Workbench:
    """Make the workbench of a rank: a server's has the registry, and the order that is configured.

    A client fetches the best URL of its stock first, by the scores that the server gives with the
    URLs. Of URLs with equal scores, the one that was handed out first comes first. `groups`: see
    Workbench.
    """
    tree = ownership.tree
    order = order or order_of(settings)
    overrides = settings.overrides()
    if tree is None or not tree.hands_out:
        pass
    elif tree.is_server(ownership.rank):
        from crawler.core.registry import Registry  # noqa: PLC0415 (it imports numba: a second)

        courtesy = Courtesy(settings.politeness, overrides)
        registry = partial(Registry, per_site(settings), spill, priority_of=courtesy.priority)
        return SeedBench(settings.politeness, settings.retry, order, registry, leases, overrides)
    else:
        order = Given()
    memory = settings.frontier.memory
    return Workbench(
        settings.politeness, settings.retry, order, spill, memory, leases, groups, overrides
    )


def make_seen(
    ownership: Ownership, bench: Workbench, seen: UrlSeen | LateSeen
) -> UrlSeen | LateSeen:
    """Return what a rank uses as the store of URL-seen, instead of `seen` or on top of it."""
    if isinstance(bench, SeedBench):
        return bench.seen
    tree = ownership.tree
    if tree is None or tree.hands_out or tree.is_server(ownership.rank):
        return seen
    assert not isinstance(seen, LateSeen), "a client can't give away what isn't answered"
    return HeldSeen(seen)


def per_site(settings: config.Config) -> int:
    """How many URLs of a site a client has at hand.

    One is best: more only make the choice of URLs worse. But if the site may be asked again at
    once, it would rest until the client has reported one URL and got the next.
    """
    if settings.dynamic.per_site:
        return settings.dynamic.per_site
    return 1 if 2 * settings.politeness.delay_s >= settings.exchange.max_delay_s else 2


def make_role(settings: config.Config, parts: Parts, spill: Spill | None) -> Role:
    """Make the role of a rank. `spill`: see `Core`."""
    tree, rank = parts.ownership.tree, parts.ownership.rank
    if tree is None:
        return Role(parts.door)
    if tree.hands_out and tree.is_server(rank):
        return Server(rank, settings, tree, parts)
    if tree.hands_out:
        return Client(rank, settings, tree, parts, order_of(settings))
    return Assigner(parts, spill) if tree.is_server(rank) else Holder(parts)
