"""Simulates one crawl of a known web.

A heap of events drives the crawl: fetches that end, messages that arrive, cores that asked to be
woken at a time, orders from outside, and ranks that are lost. After each event the core of the
event's rank does what it can.
"""

import random
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count, repeat
from math import inf
from typing import Any, Final

import numpy as np
from mypy_extensions import mypyc_attr

from crawler import config
from crawler.core.core import Core
from crawler.core.members import Logged
from crawler.core.outcomes import DENIED, DONE, Outcome
from crawler.core.ownership import Ownership
from crawler.core.schemes import Scheme, place_parts
from crawler.core.seen import LateSeen, MemorySeen, UrlSeen
from crawler.core.visits import Visit
from crawler.messages import Batch, Message, decode, encode
from crawler.modes import mode_of
from crawler.ports import CrawlUrl, Failure, Fields, Link
from crawler.reading.scope import Sites
from crawler.simulate.web import Pages, Web

# The kinds of events. They are numbers, because a callback for each event would make a crawl 2 %
# slower.
_FETCHED: Final = 0
_ARRIVAL: Final = 1  # of a message
_AWAKENING: Final = 2
_ORDER: Final = 3
_LOSS: Final = 4

Order = Callable[[Core, float], object]  # gets the core and the time


@dataclass(frozen=True, slots=True)
class Delays:
    """Bounds of random delays: (shortest, longest) in seconds of virtual time."""

    fetch: tuple[float, float] = (0.05, 0.5)
    message: tuple[float, float] = (0.001, 0.05)


@mypyc_attr(allow_interpreted_subclasses=True)  # the tests watch crawls by subclasses
class Simulation:
    """One crawl of a web by `ranks` cores."""

    def __init__(
        self,
        web: Web,
        settings: config.Config,
        scheme: Scheme,
        ranks: int,
        *,
        seed: int = 0,
        delays: Delays | None = None,
        concurrency: int = 16,
        addresses: Mapping[str, str] | None = None,
        trouble: Callable[[str, float], Failure | None] | None = None,
        encoded: bool = True,
        copies: float = 0.0,
        stored: Callable[[int, Logged], None] | None = None,
        make_seen: Callable[[], UrlSeen | LateSeen] = MemorySeen,
        make_sent: Callable[[], UrlSeen] = MemorySeen,
    ) -> None:
        """Prepare a crawl; all arguments after `seed` are optional.

        `addresses`: the address of each site, for politeness.per = "address". `trouble(url, now)`
        returns the failure of a fetch that ends now, or None for a success. `encoded`: encode the
        messages as bytes, as real ranks do; without this, a crawl is faster, but the codec isn't
        tested. `copies`: the share of messages that arrive twice. `stored(rank, row)` is called
        when a rank would write a row to its log, before the links are admitted.
        `make_seen` makes the store of URL-seen of each rank, and `make_sent` that of the URLs sent.
        """
        self.web = web
        self.settings = settings
        self.now = 0.0
        self.pages = 0  # fetches of all ranks
        self.different = 0  # different pages among them
        # For each fetch, in their order: the number of the page, the rank, and the time.
        self.order, self.by, self.times = list[int](), list[int](), array("d")
        # For each batch that has arrived: how many pages had been fetched by then, and how many
        # URLs the batch holds.
        self._arrived_at, self._arrived = array("q"), array("q")
        sites = Sites("authority")
        rank_of_part = place_parts(scheme, ranks)
        self.cores = [
            Core(
                settings,
                ranks,
                Ownership(
                    rank,
                    scheme,
                    rank_of_part,
                    settings.assignment.unlisted,
                    mode_of(settings),
                ),
                sites,
                make_seen(),
                sent=make_sent(),
            )
            for rank in range(ranks)
        ]
        self._dice = random.Random(seed).random
        self._delays = delays or Delays()
        self._concurrency = concurrency
        self._addresses = addresses
        # With one connection a site, each request may start at once. So `begin` isn't called, which
        # saves time.
        connections = [site.connections or 1 for site in settings.sites]
        self._one_connection = max(settings.politeness.connections_per_site, 1, *connections) == 1
        self._trouble = trouble
        self._encoded = encoded
        self._copies = copies
        self._stored = stored
        self.gone: set[int] = set()  # lost ranks, without which a seed server went on
        self._under_way = [0] * ranks
        self._wake = [inf] * ranks
        self._page_of, self._out_links = web.pages, web.out_links
        self._had = bytearray(len(web))
        # A heap of (time, number of the event, kind, rank, what the event is about).
        self._events: list[tuple[float, int, int, int, Any]] = []
        self._number = count()

    @property
    def fetched(self) -> list[list[int]]:
        """The pages that each rank has fetched, in the order of fetching."""
        pages: list[list[int]] = [[] for _ in self.cores]
        for page, rank in zip(self.order, self.by, strict=True):
            pages[rank].append(page)
        return pages

    @property
    def progress(self) -> Pages:
        """For each fetch, how many URLs had arrived at their owners by then; shape (pages,)."""
        some = np.bincount(self._arrived_at, self._arrived, minlength=self.pages)
        return some[: self.pages].cumsum().astype(np.int64)

    def run(
        self,
        seeds: Iterable[int],
        *,
        replicated: Iterable[int] = (),
        stop_at: tuple[float, int] | None = None,
        enough: float = inf,
        most: float = inf,
        again: Callable[[int], None] | None = None,
        lost_after: int | None = None,
        orders: Iterable[tuple[float, int, Order]] = (),
        losses: Iterable[tuple[float, int]] = (),
        log_of: Callable[[int], Sequence[Logged]] | None = None,
        inherit: Callable[[int, int], None] | None = None,
    ) -> bool:
        """Crawl until every core knows that the crawl is over. Returns whether that happened.

        `replicated`: popular pages, which every rank knows from the start. `stop_at`: a time, and
        the rank that stops at this time, as by a signal. `enough`: stop after so many different
        pages. `most`: stop after so many fetches. `again(rank)` is called when a core has started,
        and admits what earlier runs found. `lost_after`: the number of events after which all ranks
        are lost, with all that they know and all messages under way. `orders`: times, ranks, and
        what is done to the cores of these ranks then. `losses`: times, and ranks that are lost
        then, with all that they know and all messages from and to them. If a seed server can't go
        on without the rank, this returns False: the other ranks begin again from the logs, in
        another simulation. `log_of`: the rows that a lost rank has logged, all of them. Without it,
        the log can't be read. `inherit(server, rank)` is called when a server goes on without a
        rank, and admits `Members.earlier_links`.

        Raises RuntimeError if the cores wait for something that can't happen.
        """
        link = self.web.links.__getitem__
        links, popular = (list(map(link, some)) for some in (seeds, replicated))
        if stop_at is not None:
            time, rank = stop_at
            self._at(time, _ORDER, rank, lambda core, now: core.halt.stop(now))
        for time, rank, order in orders:
            self._at(time, _ORDER, rank, order)
        for time, rank in losses:
            self._at(time, _LOSS, rank, (log_of, inherit))
        for rank, core in enumerate(self.cores):
            core.start(links, self.now, popular)
            if again is not None:
                again(rank)
            self._advance(rank)
        events, cores, under_way, advance = self._events, self.cores, self._under_way, self._advance
        for _ in repeat(None) if lost_after is None else range(lost_after):
            if not events:
                break
            self.now, _, event, rank, about = heappop(events)
            if self.gone and rank in self.gone:
                continue
            if event == _FETCHED:
                self._fetch_done(rank, about)
            elif event == _ARRIVAL:
                self._arrives(rank, about)
            elif event == _AWAKENING:
                self._awake(rank)
            elif event == _ORDER:
                about(cores[rank], self.now)
            else:
                server = self._lose(rank, *about)
                if server is None:
                    return False
                rank = server
            if self.different >= enough or self.pages >= most:
                cores[rank].halt.stop(self.now)
            advance(rank)
            if not under_way[rank] and cores[rank].ended and self._all_ended():
                return True
        ended = self._all_ended()
        if not (ended or events):
            raise RuntimeError(f"stuck at {self.now}: {self.cores}")
        return ended

    def _all_ended(self) -> bool:
        return all(core.ended for core in self.cores if core.rank not in self.gone)

    def _advance(self, rank: int) -> None:
        """Let a core do all that it can do at this moment."""
        core, now, under_way = self.cores[rank], self.now, self._under_way
        while under_way[rank] < self._concurrency:
            visit = core.acquire(now)
            if visit is None:
                time = core.next_visit_time()
                if time is not None:
                    self._awake_at(time, rank)
                break
            if core.refusal(visit) is not None:
                core.end(visit, DENIED, now)
                self._store(core, visit.found, (), response=False)
            elif (
                not self._addresses or core.locate(visit, self._addresses[visit.found.site], now)
            ) and (self._one_connection or core.begin(visit, now)):
                under_way[rank] += 1
                # `_at` and `_draw` are inlined here, because calling them makes a crawl 5 % slower.
                shortest, longest = self._delays.fetch
                time = now + shortest + (longest - shortest) * self._dice()
                heappush(self._events, (time, next(self._number), _FETCHED, rank, visit))
        for receiver, message in core.tick(now):
            about = rank, encode(message, compress=False) if self._encoded else message
            self._at(now + self._draw(self._delays.message), _ARRIVAL, receiver, about)
            if self._copies and self._dice() < self._copies:
                self._at(now + self._draw(self._delays.message), _ARRIVAL, receiver, about)
        time = core.next_time()
        if time is not None:
            self._awake_at(time, rank)

    def _at(self, time: float, event: int, rank: int, about: Any) -> None:
        heappush(self._events, (time, next(self._number), event, rank, about))

    def _awake_at(self, time: float, rank: int) -> None:
        if self.now < time < self._wake[rank]:
            self._wake[rank] = time
            self._at(time, _AWAKENING, rank, None)

    def _draw(self, bounds: tuple[float, float]) -> float:
        shortest, longest = bounds
        return shortest + (longest - shortest) * self._dice()

    # --- what happens -------------------------------------------------------------------------

    def _fetch_done(self, rank: int, visit: Visit) -> None:
        core, found, now = self.cores[rank], visit.found, self.now
        self._under_way[rank] -= 1
        if self._trouble and (failure := self._trouble(found.url, now)) is not None:
            if core.end(visit, Outcome.of(failure), now):
                self._store(core, found, (), response=False)
            return
        fields: Fields = found
        page = self._page_of[fields[0]]
        self.pages += 1
        self.order.append(page)
        self.by.append(rank)
        self.times.append(now)
        if not self._had[page]:
            self._had[page] = 1
            self.different += 1
        core.end(visit, DONE, now)
        self._store(core, found, self._out_links[page], response=True)

    def _store(self, core: Core, found: CrawlUrl, links: Sequence[Link], *, response: bool) -> None:
        if self._stored:
            self._stored(core.rank, Logged(found, links, response))
        for _ in core.stored(found, links, self.now, response=response):
            pass

    def _arrives(self, rank: int, about: tuple[int, bytes | Message]) -> None:
        sender, message = about
        if isinstance(message, bytes):
            message = decode(message)
        if isinstance(message, Batch):
            self._arrived_at.append(self.pages)
            self._arrived.append(len(message.urls))
        self.cores[rank].received(sender, message, self.now)

    def _lose(
        self,
        rank: int,
        log_of: Callable[[int], Sequence[Logged]] | None,
        inherit: Callable[[int, int], None] | None,
    ) -> int | None:
        """Lose a rank. Returns its server, or None if the other ranks can't go on."""
        tree, now = self.cores[rank].ownership.tree, self.now
        if tree is None:
            return None
        server = tree.above(rank)
        members = self.cores[server].members
        if members is None or not members.may_lose(rank):
            return None
        self.gone.add(rank)
        rows = () if log_of is None else log_of(rank)
        logged = defaultdict[str, list[int]](list)
        for row in rows:
            logged[row.found.site].append(row.found.key)
        members.lose(rank, logged, sum(row.response for row in rows), now)
        for row in rows[members.reported(rank) :]:
            members.recover(rank, row, now)
        if inherit is not None:
            inherit(server, rank)
        members.hand_on(rank, now)
        return server

    def _awake(self, rank: int) -> None:
        if self._wake[rank] <= self.now:  # otherwise another wake-up has replaced this one
            self._wake[rank] = inf
