"""Which client of a server each site is at, and when it may go to another one.

A site is at one client at a time. With the granularity `page` it is free at first. It comes to the
client that is handed a URL of it, and stays there until it has rested. With `site` and `dset` it is
at a client from its birth, and other clients have it only while that client isn't here.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from crawler import config
from crawler.core.dynamic.pace import ClientState
from crawler.core.tree import Tree

if TYPE_CHECKING:  # only a server needs numba, which takes a second to import
    from crawler.core.registry import Registry

FREE: Final = 0  # the pool of sites that any client may have


class Places:
    """The places of a server's sites. The sites at a client are in the pool with its rank."""

    def __init__(
        self,
        dynamic: config.Dynamic,
        tree: Tree,
        registry: "Registry",
        states: Mapping[int, ClientState],
    ) -> None:
        self._granularity = dynamic.granularity
        self._rest_s = dynamic.rest_s
        self._tree = tree
        self._registry = registry
        self._states = states
        # With the granularity `page`, the clients of the sites that aren't free. With `dset`, those
        # of the sites that are at a substitute, because the holder of their DSet wasn't here.
        self._at: dict[str, ClientState] = {}
        # Sites that leave their clients: the client that each goes to; None if any may have it.
        self._leaving: dict[str, ClientState | None] = {}
        self._left = tree.ranks  # the pool of the sites that are leaving
        # Sites without a URL at their client, the first to be free first; also sites that have got
        # one meanwhile.
        self._resting: deque[tuple[float, str]] = deque()
        self._rested_at: dict[str, float] = {}  # when each of these may go to another client

    def pool_for(self, site: str) -> int:
        """The pool in which a site is born."""
        if self._granularity == "page":
            return FREE
        if self._granularity == "dset":
            client = self._states[self._tree.dsets.holder(site)]
        else:
            every = self._states.values()
            here = [client for client in every if client.stock]
            expected = [client for client in every if client.rank not in self._tree.spares]
            client = min(
                here or expected,
                key=lambda one: (self._registry.waiting(one.rank), one.sites),
            )
        client.sites += 1
        return client.rank

    def load(self, client: ClientState) -> int:
        """How many sites a client has something to fetch from."""
        return self._registry.sites_waiting(client.rank) + client.busy + client.coming

    def hand(self, sites: Iterable[str], pools: Iterable[int], client: ClientState) -> None:
        """Note that a client was handed a URL of each site, which was in its pool before."""
        for site, pool in zip(sites, pools, strict=True):
            if pool != client.rank:
                self._give(site, pool, client)
            self._rested_at.pop(site, None)

    def _give(self, site: str, pool: int, client: ClientState) -> None:
        """Note that a site is at a client: a free one, or one of another client."""
        if pool != FREE:
            self._states[pool].sites -= 1
        client.sites += 1
        if self._granularity == "page" or (
            self._granularity == "dset" and self._tree.dsets.holder(site) != client.rank
        ):
            self._at[site] = client
        else:
            self._at.pop(site, None)

    def end(self, site: str, client: ClientState, now: float) -> None:
        """Let a site go to other clients in time, because its client has no URL of it."""
        if site in self._leaving:
            self._arrive(site, client)
            return
        client.busy -= 1
        if self._granularity != "page":
            return
        if self._rest_s and client.stock:
            self._rested_at[site] = now + self._rest_s
            self._resting.append((now + self._rest_s, site))
        else:
            self._release(site, client)

    def _release(self, site: str, client: ClientState) -> None:
        if self._at.pop(site, None) is not None:
            client.sites -= 1
            self._registry.move(site, FREE)
        self._rested_at.pop(site, None)

    def release_rested(self, now: float) -> bool:
        """Let the sites be free that have rested. Returns whether there are any."""
        released = False
        while self._resting and self._resting[0][0] <= now:
            time, site = self._resting.popleft()
            if self._rested_at.get(site) == time and not self._registry.out(site):
                self._release(site, self._at[site])
                released = True
        return released

    def next_time(self) -> float | None:
        """When the next site may go to another client, or None."""
        return self._resting[0][0] if self._resting else None

    def let_leave(self, site: str, before: ClientState, after: ClientState | None) -> None:
        """Let a site go to another client when its client has fetched its URLs of it.

        `after`: None if any client may have it. A certain client may be named later.
        """
        if site not in self._leaving:
            before.busy -= 1
            self._registry.move(site, self._left)
        elif after is None or self._leaving[site] is not None:
            return
        self._leaving[site] = after
        if after is not None:
            after.coming += 1

    def _arrive(self, site: str, before: ClientState) -> None:
        """Give a site that is leaving its client to the client that it was meant for."""
        client = self._leaving.pop(site)
        if client is not None:
            client.coming -= 1
        if client is not None and client.stock:
            self._give(site, before.rank, client)
            self._registry.move(site, client.rank)
        elif self._granularity == "page":
            self._release(site, before)
        else:
            self._registry.move(site, before.rank)

    def call_home(self, client: ClientState) -> None:
        """Let a client that has come have the sites of its DSets that are at others."""
        if self._granularity != "dset":
            return
        holder = self._tree.dsets.holder
        for site in [site for site in self._at if holder(site) == client.rank]:
            if self._registry.out(site):
                self.let_leave(site, self._at[site], client)
            else:
                self._give(site, self._at[site].rank, client)
                self._registry.move(site, client.rank)

    def part_with(self, client: ClientState) -> None:
        """Let others have the sites of a client that has left, as soon as it has no URL of them."""
        for key in client.handed:
            self.let_leave(self._registry.site_of(key), client, None)
        if self._granularity == "page":
            for site in [site for site, at in self._at.items() if at is client]:
                if site not in self._leaving:
                    self._release(site, client)
