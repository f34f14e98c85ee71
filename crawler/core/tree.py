"""Who is a server, who is a client, and which way a message takes from one to another.

The servers form a tree, and each client is below one server (WEB-SAILOR, section 4.4). A rank sends
messages only to the rank above it and to the ranks below it. So two clients never talk to each
other, and a message to another rank is passed on by the servers between them.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import cycle
from typing import Final

from xxhash import xxh3_64_intdigest

from crawler import config, url
from crawler.ports import UserError
from partition.partvector import jump_hash

ROOT: Final = 0  # the rank of the server above all others
_CACHED: Final = 1 << 16  # sites whose sets are remembered, about 200 bytes each


class Tree:
    """The servers, their clients, and the DSets that each client or server has."""

    def __init__(self, dynamic: config.Dynamic, ranks: int) -> None:
        """Raises UserError if a server would have no client, or a client no DSet."""
        servers = len(dynamic.servers)
        self.ranks = ranks
        self.servers = range(servers)
        self.clients = range(servers, ranks)
        above = set(dynamic.servers[1:])
        self.leaves = [rank for rank in self.servers if rank not in above]  # they have clients
        self.spares = range(ranks - dynamic.spares, ranks)  # clients that don't come at the start
        if self.spares and len(self.clients) - len(self.spares) < len(self.leaves):
            raise UserError(
                f"dynamic.spares = {dynamic.spares}: {ranks} ranks are too few for {servers}"
                f" servers, their clients and the spares: start at least"
                f" {servers + len(self.leaves) + dynamic.spares} ranks, or have fewer spares"
            )
        if ranks < servers + len(self.leaves):
            raise UserError(
                f"assignment.scheme = 'dynamic': {ranks} ranks are too few for {servers} servers"
                f" and their clients: start at least {servers + len(self.leaves)} ranks"
            )
        self._above = [
            *dynamic.servers,
            *(self.leaves[number % len(self.leaves)] for number in range(len(self.clients))),
        ]
        self.dsets = self._make_dsets(dynamic)
        # Whether servers own all URLs, and hand them out. Otherwise they assign units to clients,
        # which own the URLs in them: DSets from the start, or sites when their first URL is found.
        self.hands_out = dynamic.follow == "server"
        self._assigns_dsets = not self.hands_out and dynamic.granularity == "dset"
        self.parts = ranks

    def _make_dsets(self, dynamic: config.Dynamic) -> "DSets":
        """Make the DSets. Each is a client's, or with other granularities a server's."""
        holders = list(self.clients) if dynamic.granularity == "dset" else self.leaves
        if dynamic.dsets and len(dynamic.dsets) < len(holders):
            what = "clients" if dynamic.granularity == "dset" else "servers with clients"
            raise UserError(
                f"dynamic.dsets: {len(dynamic.dsets)} sets for {len(holders)} {what}: rank"
                f" {holders[len(dynamic.dsets)]} would have nothing to fetch; make more sets, or"
                " start fewer ranks"
            )
        return DSets(dynamic.dsets, holders)

    def is_server(self, rank: int) -> bool:
        """Whether a rank is a server, which fetches nothing."""
        return rank < len(self.servers)

    def above(self, rank: int) -> int:
        """The server above a rank. Above the root is the root itself."""
        return self._above[rank]

    def below(self, rank: int) -> list[int]:
        """The ranks directly below a rank."""
        return [other for other in range(1, self.ranks) if self._above[other] == rank]

    def neighbours(self, rank: int) -> list[int]:
        """The ranks to which a rank sends messages."""
        above = [] if rank == ROOT else [self._above[rank]]
        return above + self.below(rank)

    def clients_of(self, server: int) -> list[int]:
        """The clients directly below a server."""
        return [rank for rank in self.below(server) if not self.is_server(rank)]

    def first_clients_of(self, server: int) -> list[int]:
        """The clients directly below a server that come at the start: all but spares."""
        return [rank for rank in self.clients_of(server) if rank not in self.spares]

    def server_of(self, holder: int) -> int:
        """The server that serves a holder of DSets: a client's, or the server itself."""
        return holder if self.is_server(holder) else self._above[holder]

    def part(self, key: int, site: str) -> int:
        """The server that takes care of a URL. So a tree is a `Scheme` (`core.schemes`)."""
        return self.server_of(self.dsets.holder(site))

    # --- what a server assigns to clients -------------------------------------------------------

    def unit(self, site: str) -> str:
        """What a site belongs to that is at one client, and moves as a whole: a DSet, or itself."""
        return str(self.dsets.of(site)) if self._assigns_dsets else site

    def home(self, unit: str) -> int | None:
        """The client that has a DSet whenever it is there. None for a site, which has no home."""
        return self.dsets.holders[int(unit)] if self._assigns_dsets else None

    def first_holders(self) -> dict[str, int]:
        """By DSet, the client that has it at the start: its home, or another if that is a spare.

        Empty if sites are assigned, which aren't known at the start.
        """
        if not self._assigns_dsets:
            return {}
        others = {server: cycle(self.first_clients_of(server)) for server in self.leaves}
        return {
            str(number): next(others[self._above[home]]) if home in self.spares else home
            for number, home in enumerate(self.dsets.holders)
        }

    def next_hop(self, rank: int, to: int) -> int:
        """The neighbour of `rank` on the way to another rank."""
        hop = to
        while hop != ROOT:
            above = self._above[hop]
            if above == rank:
                return hop
            hop = above
        return self._above[rank]


class DSets:
    """The DSets (WEB-SAILOR, section 3.1): sets of sites, by suffixes of their hosts or by hash."""

    def __init__(self, suffixes: Sequence[Sequence[str]], holders: Sequence[int]) -> None:
        """`holders`: ranks, which hold the sets in turn."""
        self.count = len(suffixes) or len(holders)
        self.holders = [holders[number % len(holders)] for number in range(self.count)]
        self._by_suffix: Mapping[str, int] = {
            suffix.lower().strip("."): number
            for number, one in enumerate(suffixes)
            for suffix in one
        }
        self._of_site = lru_cache(_CACHED)(self._look_up)

    def of(self, site: str) -> int:
        """The number of the set that a site is in."""
        return self._of_site(site)

    def holder(self, site: str) -> int:
        """The rank that holds the set of a site."""
        return self.holders[self.of(site)]

    def _look_up(self, site: str) -> int:
        suffix = url.host_of_site(site) if self._by_suffix else ""
        while suffix:
            if suffix in self._by_suffix:
                return self._by_suffix[suffix]
            suffix = suffix.partition(".")[2]
        return jump_hash(xxh3_64_intdigest(site.encode()), self.count)
