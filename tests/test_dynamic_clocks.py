"""One clock a site under dynamic assignment, whatever the order in which messages arrive."""

import random

import pytest
from cluster import few_examples
from dynamics import KINDS, TREES, dynamic
from hypothesis import given
from hypothesis import strategies as st
from slow_seen import stores
from watched import PATIENT, Watched, crawl_politely

from crawler.core.dynamic.pace import ClientState
from crawler.core.dynamic.server import Server
from crawler.core.visits import Visit


class Handed(Watched):
    """A watched cluster of seed servers and clients: a site is at one client at a time.

    `page_ends`: when the latest visit to a page of each site ended, and at which client.
    `taken_over`: sites that a server has taken from a client, with the client that got them because
    it would have been idle.
    """

    def watch(self, dice: random.Random, crawl_delays: dict[str, float]) -> None:
        super().watch(dice, crawl_delays)
        self.page_ends: dict[str, tuple[float, int]] = {}
        self.taken_over = set[tuple[str, int]]()
        for core in self.cores:
            if isinstance(core.role, Server):
                self._watch_server(core.role)

    def _watch_server(self, server: Server) -> None:
        places = server._places
        give, take = places._give, server._take_over

        def give_and_note(site: str, pool: int, client: ClientState) -> None:
            if pool:
                self.taken_over.add((site, client.rank))
            give(site, pool, client)

        def take_if_idle(client: ClientState, now: float) -> None:
            before = len(self.taken_over), len(places._leaving)
            had = client.ready
            take(client, now)
            if (len(self.taken_over), len(places._leaving)) != before:
                assert had < client.connections

        places._give = give_and_note  # type: ignore[method-assign]
        server._take_over = take_if_idle  # type: ignore[method-assign]

    def acquire(self, rank: int, *, clocks_are_fast: bool = True) -> str | None:
        address = super().acquire(rank, clocks_are_fast=clocks_are_fast)
        if address is None or (visit := self.visits[rank][-1]).found.is_errand:
            return address
        site = visit.found.site
        for other, visits in enumerate(self.visits):
            open_sites = [one.found.site for one in visits if not one.found.is_errand]
            assert other == rank or site not in open_sites, site
        ended, client = self.page_ends.get(site, (self.now, rank))
        if client != rank and self.settings.dynamic.granularity == "dset":
            tree = self.cores[rank].ownership.tree
            assert tree is not None
            assert tree.dsets.holder(site) == rank, site  # it has come after the other client
        elif client != rank:
            assert self.settings.dynamic.granularity == "page", site
            rested = self.now - ended >= self.settings.dynamic.rest_s
            assert rested or (site, rank) in self.taken_over, site
        return address

    def _over(self, rank: int, index: int) -> Visit:
        visit = super()._over(rank, index)
        if not visit.found.is_errand:
            self.page_ends[visit.found.site] = (self.now, rank)
        return visit


@pytest.mark.interpreted
@few_examples
@given(
    seed=st.integers(0, 2**32),
    kind=st.sampled_from(KINDS),
    servers=st.sampled_from(TREES),
    clients=st.integers(1, 5),
    connections=st.sampled_from([1, 1, 3]),
    delay_s=st.sampled_from([0.0, 0.5, 30.0]),
    per=st.sampled_from(["site", "site", "address"]),
    limit=st.sampled_from([0, 0, 7]),
    moves=st.sampled_from([0.0, 0.05, 0.2]),
    far=st.sampled_from([0.0, 0.5]),
)
def test_promises_are_kept_in_any_order(
    seed: int,
    kind: tuple[str, str],
    servers: tuple[int, ...],
    clients: int,
    connections: int,
    delay_s: float,
    per: str,
    limit: int,
    moves: float,
    far: float,
) -> None:
    dice = random.Random(seed)
    arguments = dynamic(
        dice,
        kind,
        clients,
        f"politeness.delay_s={delay_s}",
        f"politeness.connections_per_site={connections}",
        f"politeness.per={per}",
        f"session.max_pages={limit}",
        *PATIENT,
        servers=servers,
    )
    cluster = Handed(*arguments, make_seen=stores(dice, late=False))
    crawl_politely(cluster, dice, moves=moves, far=far)
