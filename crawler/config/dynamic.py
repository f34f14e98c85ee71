"""The table on dynamic assignment: what a seed server gives to its clients (docs/dynamic.md)."""

from typing import Annotated, Literal

from crawler.config.table import Table, key
from crawler.config.values import Bounds, Count, Duration, Natural


class Dynamic(Table):
    """Dynamic assignment, for `assignment.scheme = "dynamic"`."""

    granularity: Literal["page", "site", "dset"] = key(
        default="page",
        about="what a server gives to a client. page: a URL at a time, to any client; site: a site,"
        " when its first URL is found, for the whole crawl; dset: a set of sites, for the whole"
        " crawl",
    )
    follow: Literal["server", "own"] = key(
        default="server",
        about="who follows a link. server: clients report all links, and fetch only what they are"
        " handed; own: a client follows links within the sites that it holds, and reports the"
        " others",
    )
    servers: Annotated[tuple[Natural, ...], Bounds(min_length=1)] = key(
        default=(0,),
        about="the first ranks are servers; this is, for each, the rank of the server above it."
        " Rank 0 is above all, and has itself. (0, 0, 0) means: ranks 1 and 2 are below rank 0."
        " Clients are dealt to the servers that have no server below them",
    )
    dsets: tuple[tuple[str, ...], ...] = key(
        default=(),
        about='sets of suffixes of host names, such as [["com"], ["edu", "ac.uk"]]; other hosts are'
        " dealt to the sets by their hash. Empty: all hosts are dealt by their hash",
    )
    rest_s: Duration = key(
        default=60.0,
        aside=True,
        about="for granularity = page: a site stays at its client until the client has had no URL"
        " of it for this time, or until another client would be idle without it",
    )
    stock: Natural = key(
        default=0,
        aside=True,
        about="URLs that a client has at hand, beside those of sites that must rest; 0: what it"
        " fetches while it waits for others",
    )
    per_site: Natural = key(
        default=0,
        aside=True,
        about="URLs of one site that a client has at hand; 0: one, or two if politeness.delay_s is"
        " less than half of exchange.max_delay_s",
    )
    connections: tuple[Count, ...] = key(
        default=(),
        aside=True,
        about="connections of each client at its start, in the order of ranks; clients beyond the"
        " list have fetch.concurrency",
    )
    spares: Natural = key(
        default=0,
        aside=True,
        about="the last so many ranks are spares: clients that wait until their server has them"
        " come",
    )
    join_after_s: Duration = key(
        default=0.0,
        aside=True,
        about="a server has a spare come each time that so much of the crawl has passed. 0: not by"
        " time",
    )
    join_waiting: Natural = key(
        default=0,
        aside=True,
        about="a server has a spare come when more seeds (URLs that wait for a client) than this"
        " wait for each client that is there. 0: not by their number",
    )
    low: Natural = key(
        default=0,
        aside=True,
        about="with fewer seeds (URLs that wait for a client) than this, a server has the client"
        " slow down: use `step` connections less. 0: never",
    )
    high: Natural = key(
        default=0,
        aside=True,
        about="with more seeds than this, a server has the client hurry up: use `step` connections"
        " more, up to fetch.concurrency. 0: never",
    )
    step: Count = key(
        default=1, aside=True, about="by how many connections a client changes at a time"
    )
    least_connections: Count = key(
        default=1, aside=True, about="a client doesn't slow down below this"
    )

    def check(self) -> None:
        """Raise ValueError if the values don't fit each other."""
        if self.granularity == "page" and self.follow == "own":
            raise ValueError(
                'follow = "own" needs granularity = "site" or "dset": clients hold no sites with'
                ' granularity = "page"'
            )
        if self.join_waiting and self.follow == "own":
            raise ValueError(
                'join_waiting: with follow = "own" no URL waits at a server; use join_after_s'
            )
        if 0 < self.high < self.low:
            raise ValueError(f"high = {self.high} must not be below low = {self.low}")
        seen: set[str] = set()
        for number, dset in enumerate(self.dsets):
            if not dset:
                raise ValueError(f"dsets: set {number} is empty; remove it, or give it a suffix")
            for suffix in dset:
                name = suffix.lower().strip(".")
                if not name:
                    raise ValueError(
                        f"dsets: set {number} has the suffix {suffix!r}: name a suffix"
                    )
                if name in seen:
                    raise ValueError(f"dsets: {suffix} is given twice; remove one of the two")
                seen.add(name)
        _check_tree(self.servers)


def _check_tree(servers: tuple[int, ...]) -> None:
    """Raise ValueError unless rank 0 is above all servers."""
    if servers[0] != 0:
        raise ValueError(f"servers: rank 0 is above all, so the first entry must be 0: {servers}")
    for rank, above in enumerate(servers):
        if above >= len(servers):
            raise ValueError(
                f"servers: rank {above}, above rank {rank}, is no server: there are"
                f" {len(servers)} servers, ranks 0 to {len(servers) - 1}"
            )
        way = [rank]
        while way[-1]:
            way.append(servers[way[-1]])
            if way[-1] in way[:-1]:
                loop = ", ".join(map(str, way))
                raise ValueError(f"servers: a loop: {loop}; each must lead up to rank 0")
