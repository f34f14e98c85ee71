"""The table on dynamic assignment: what a seed server gives to its clients (docs/dynamic.md)."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from crawler.config.table import ASIDE, Table
from crawler.config.values import Count, Natural, seconds


class Dynamic(Table):
    """Dynamic assignment, for `assignment.scheme = "dynamic"`."""

    granularity: Literal["page", "site", "dset"] = Field(
        "page",
        description="what a server gives to a client. page: a URL at a time, to any client; site:"
        " a site, when its first URL is found, for the whole crawl; dset: a set of sites, for the"
        " whole crawl",
    )
    follow: Literal["server", "own"] = Field(
        "server",
        description="who follows a link. server: clients report all links, and fetch only what they"
        " are handed; own: a client follows links within the sites that it holds, and reports the"
        " others",
    )
    servers: tuple[Natural, ...] = Field(
        (0,),
        min_length=1,
        description="the first ranks are servers; this is, for each, the rank of the server above"
        " it. Rank 0 is above all, and has itself. (0, 0, 0) means: ranks 1 and 2 are below rank 0."
        " Clients are dealt to the servers that have no server below them",
    )
    dsets: tuple[tuple[str, ...], ...] = Field(
        (),
        description='sets of suffixes of host names, such as [["com"], ["edu", "ac.uk"]]; other'
        " hosts are dealt to the sets by their hash. Empty: all hosts are dealt by their hash",
    )
    rest_s: Annotated[float, BeforeValidator(seconds), Field(ge=0)] = Field(
        60.0,
        json_schema_extra=ASIDE,
        description="for granularity = page: a site stays at its client until the client has had no"
        " URL of it for this time, or until another client would be idle without it",
    )
    stock: Natural = Field(
        0,
        json_schema_extra=ASIDE,
        description="URLs that a client has at hand, beside those of sites that must rest; 0: what"
        " it fetches while it waits for others",
    )
    per_site: Natural = Field(
        0,
        json_schema_extra=ASIDE,
        description="URLs of one site that a client has at hand; 0: one, or two if"
        " politeness.delay_s is less than half of exchange.max_delay_s",
    )
    connections: tuple[Count, ...] = Field(
        (),
        json_schema_extra=ASIDE,
        description="connections of each client at its start, in the order of ranks; clients beyond"
        " the list have fetch.concurrency",
    )
    spares: Natural = Field(
        0,
        json_schema_extra=ASIDE,
        description="the last so many ranks are spares: clients that wait until their server has"
        " them come",
    )
    join_after_s: Annotated[float, BeforeValidator(seconds), Field(ge=0)] = Field(
        0.0,
        json_schema_extra=ASIDE,
        description="a server has a spare come each time that so much of the crawl has passed."
        " 0: not by time",
    )
    join_waiting: Natural = Field(
        0,
        json_schema_extra=ASIDE,
        description="a server has a spare come when more seeds (URLs that wait for a client) than"
        " this wait for each client that is there. 0: not by their number",
    )
    low: Natural = Field(
        0,
        json_schema_extra=ASIDE,
        description="with fewer seeds (URLs that wait for a client) than this, a server has the"
        " client slow down: use `step` connections less. 0: never",
    )
    high: Natural = Field(
        0,
        json_schema_extra=ASIDE,
        description="with more seeds than this, a server has the client hurry up: use `step`"
        " connections more, up to fetch.concurrency. 0: never",
    )
    step: Count = Field(
        1, json_schema_extra=ASIDE, description="by how many connections a client changes at a time"
    )
    least_connections: Count = Field(
        1, json_schema_extra=ASIDE, description="a client doesn't slow down below this"
    )

    @model_validator(mode="after")
    def _fits(self) -> "Dynamic":
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
        return self


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
