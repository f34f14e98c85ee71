"""Predicts how long the crawl of a known web takes under a plan, and what bounds its time.

The prediction is a crawl of the web in virtual time, with one event for each fetch. A site is asked
as its politeness allows, by whichever ranks own its pages. A rank has a number of fetches under
way at most. It reads one page after the other, which takes its processor some time, and so do the
URLs that it sends and gets. A URL waits from when the first page with a link to it was read, and a
little longer if another rank has read that page. Each site has one queue, in which URLs wait in the
order in which they were found.

What isn't predicted: failures, pages that the earlier crawl didn't know, and times that differ from
fetch to fetch. Each fetch takes the mean time of its site.
"""

from dataclasses import dataclass
from heapq import heappop, heappush, heapreplace
from math import inf
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from crawler.compiled import compiled
from partition.arrays import Ids, Ints, distinct
from partition.discovery import discovered
from partition.politeness import Politeness, duration
from partition.webgraph import LinkGraph

Seconds = npt.NDArray[np.float64]

_LATE: Final = 1.1  # times the time of the slowest site and rank: then links are found too late
_NEAR: Final = 1.05  # times the shortest time
_BLOCK: Final = 1 << 16  # pages whose links are counted at a time
_READY: Final = 0  # kinds of events: a site may be asked
_FETCHED: Final = 1  # a page was fetched
_READ: Final = 2  # a page was read


@dataclass(frozen=True, slots=True)
class Costs:
    """What a rank can do. Times are those of its processor, but for `message_s`."""

    page_s: float = 1 / 700  # to fetch and read a page
    url_s: float = 10e-6  # to send a URL; and as much to receive one
    message_s: float = 0.05  # from a page that was read to the owners of its links


@dataclass(frozen=True, slots=True)
class Forecast:
    """How long a crawl takes, and why. Times are in seconds."""

    seconds: float  # from the start until the last page was read
    site: int  # the site that takes longest by its politeness
    site_seconds: float
    rank: int  # the rank that has most to do
    rank_seconds: float

    @property
    def limit(self) -> Literal["site", "rank", "links"]:
        """What bounds the time. `links`: many links are found late, so all wait."""
        if self.seconds > _LATE * max(self.site_seconds, self.rank_seconds):
            return "links"
        return "site" if self.site_seconds >= self.rank_seconds else "rank"

    def row(self) -> dict[str, object]:
        """The forecast as fields of the JSON object of a plan."""
        return {
            "crawl_seconds": round(self.seconds, 3),
            "crawl_limit": self.limit,
            "busiest_rank": self.rank,
            "busiest_rank_seconds": round(self.rank_seconds, 3),
        }

    def __str__(self) -> str:
        why = {
            "site": "the site that takes longest bounds it",
            "rank": f"rank {self.rank} bounds it, which is busy for {duration(self.rank_seconds)}",
            "links": "it waits for pages that are found late",
        }
        return f"the crawl takes about {duration(self.seconds)}: {why[self.limit]}"


def forecast(
    web: LinkGraph, part: Ids, parts: int, politeness: Politeness, costs: Costs, seeds: Ids
) -> Forecast:
    """Predict the crawl of a web in which page i belongs to rank `part[i]`.

    `seeds`: the pages with which the crawl begins. Pages to which no links lead from these begin
    with them. The web must have pages.
    """
    connections = np.array([politeness.connections_of(site) for site in web.sites], np.int64)
    delay_s = np.array([politeness.delay_s_of(site) for site in web.sites])
    fetch_s = np.array([politeness.fetch_s_of.get(site, politeness.fetch_s) for site in web.sites])
    robots_s = (delay_s + fetch_s) * politeness.asks_robots
    pages_s = np.bincount(web.site, minlength=len(web.sites)) / politeness.rates(web.sites)
    # `pages_s` has a delay too many, after the last page. It stands for the one after robots.txt.
    site_s = fetch_s * politeness.asks_robots + pages_s
    pages = np.bincount(part, minlength=parts)
    busy_s = costs.page_s * pages + costs.url_s * _urls(web, part, parts)
    order, finder = discovered(web, seeds)
    roots = order[finder[order] < 0].astype(np.int64)
    seconds = _crawl(
        web.xadj,
        web.adj,
        web.site,
        part,
        roots,
        delay_s,
        fetch_s,
        connections,
        robots_s,
        busy_s / np.maximum(pages, 1),
        costs.message_s,
        politeness.fetches,
    )
    fetches_s = np.bincount(part, fetch_s[web.site], parts)
    rank_s = np.maximum(busy_s, fetches_s / politeness.fetches)
    site, rank = int(site_s.argmax()), int(rank_s.argmax())
    return Forecast(seconds, site, float(site_s[site]), rank, float(rank_s[rank]))


def useful_ranks(web: LinkGraph, politeness: Politeness, costs: Costs, seeds: Ids) -> int:
    """Return from which number of ranks on more ranks hardly help: the crawl is 5 % faster at most.

    Sites stay whole, and are dealt to the ranks by their pages. The web must have pages.
    """

    def seconds(ranks: int) -> float:
        part = _dealt(pages, ranks)[web.site]
        return forecast(web, part, ranks, politeness, costs, seeds).seconds

    pages = np.bincount(web.site, minlength=len(web.sites))
    enough_s = _NEAR * seconds(len(pages))
    ranks = 1
    while ranks < len(pages) and seconds(ranks) > enough_s:
        ranks *= 2
    first, last = ranks // 2 + 1, min(ranks, len(pages))
    while first < last:
        middle = (first + last) // 2
        if seconds(middle) > enough_s:
            first = middle + 1
        else:
            last = middle
    return last


def _dealt(pages: Ints, ranks: int) -> Ids:
    """Deal sites to ranks, the largest first, each to the rank with the fewest pages so far."""
    part = np.empty(len(pages), np.int32)
    loads = [(0, rank) for rank in range(ranks)]
    for site in np.argsort(-pages, kind="stable").tolist():
        load, rank = loads[0]
        part[site] = rank
        heapreplace(loads, (load + int(pages[site]), rank))
    return part


def _urls(web: LinkGraph, part: Ids, parts: int) -> Ints:
    """Return how many URLs each rank sends and gets. A rank sends each URL once."""
    found = [np.empty(0, np.int64)]
    for low in range(0, web.pages, _BLOCK):
        starts = web.xadj[low : low + _BLOCK + 1]
        source = np.repeat(part[low : low + _BLOCK], np.diff(starts))
        target = web.adj[starts[0] : starts[-1]]
        crossing = np.flatnonzero(source != part[target])
        found.append(distinct(target[crossing].astype(np.int64) * parts + source[crossing]))
    sent = distinct(np.concatenate(found))
    senders, owners = sent % parts, part[sent // parts]
    return np.bincount(senders, minlength=parts) + np.bincount(owners, minlength=parts)


@compiled
def _crawl(
    xadj: Ints,
    adj: Ids,
    site: Ids,
    part: Ids,
    seeds: Ints,
    delay_s: Seconds,
    fetch_s: Seconds,
    connections: Ints,
    robots_s: Seconds,
    page_s: Seconds,
    message_s: float,
    fetches: int,
) -> float:
    """Return when the last page was read.

    `robots_s`: of each site, from its first link until its first page may be asked for. `page_s`:
    of each rank, for a page with its messages.
    """
    pages, sites, ranks = len(site), len(delay_s), len(page_s)
    found_at = np.full(pages, inf)  # when the owner of a page hears of it
    following = np.full(pages, -1, np.int32)  # in the queue of its site
    first, last = np.full(sites, -1, np.int32), np.full(sites, -1, np.int32)
    met = np.zeros(sites, np.bool_)
    asked = np.zeros(sites, np.int64)  # requests under way
    next_s = np.zeros(sites)  # when the next request may begin
    expected = np.zeros(sites, np.bool_)  # whether an event or a rank waits for the site
    under_way = np.zeros(ranks, np.int64)
    free_s = np.zeros(ranks)  # when the processor has done all it got so far
    waiting = np.full(sites, -1, np.int32)  # in the queue of sites that wait for a rank
    first_site, last_site = np.full(ranks, -1, np.int32), np.full(ranks, -1, np.int32)
    end = 0.0
    events: list[tuple[float, int, Any]] = [(0.0, _READY, 0)]  # numba takes the types from it
    events.pop()
    for page in seeds:
        one = site[page]
        found_at[page] = 0.0
        if first[one] < 0:
            first[one] = page
            expected[one] = met[one] = True
            next_s[one] = robots_s[one]
            heappush(events, (next_s[one], _READY, np.int64(one)))
        else:
            following[last[one]] = page
        last[one] = page
    while events:
        now, kind, number = heappop(events)
        if kind == _READY:
            one = number
            page = first[one]
            if page < 0 or asked[one] == connections[one]:
                expected[one] = False
            elif max(found_at[page], next_s[one]) > now:
                heappush(events, (max(found_at[page], next_s[one]), _READY, one))
            elif under_way[part[page]] == fetches:
                rank = part[page]
                if first_site[rank] < 0:
                    first_site[rank] = one
                else:
                    waiting[last_site[rank]] = one
                last_site[rank] = one
                waiting[one] = -1
            else:
                first[one] = following[page]
                asked[one] += 1
                under_way[part[page]] += 1
                next_s[one] = now + delay_s[one]
                heappush(events, (now + fetch_s[one], _FETCHED, np.int64(page)))
                heappush(events, (next_s[one], _READY, one))
        elif kind == _FETCHED:
            one, rank = site[number], part[number]
            asked[one] -= 1
            if connections[one] == 1:
                next_s[one] = now + delay_s[one]
            if not expected[one]:
                expected[one] = True
                heappush(events, (max(now, next_s[one]), _READY, np.int64(one)))
            free_s[rank] = max(now, free_s[rank]) + page_s[rank]
            heappush(events, (free_s[rank], _READ, number))
        else:
            end, rank = now, part[number]
            under_way[rank] -= 1
            if first_site[rank] >= 0:
                one = first_site[rank]
                first_site[rank] = waiting[one]
                heappush(events, (now, _READY, np.int64(one)))
            for page in adj[xadj[number] : xadj[number + 1]]:
                if found_at[page] < inf:
                    continue
                found_at[page] = now if part[page] == rank else now + message_s
                one = site[page]
                if not met[one]:
                    met[one] = True
                    next_s[one] = found_at[page] + robots_s[one]
                if first[one] < 0:
                    first[one] = page
                    if not expected[one]:
                        expected[one] = True
                        heappush(events, (max(found_at[page], next_s[one]), _READY, np.int64(one)))
                else:
                    following[last[one]] = page
                last[one] = page
    return end
