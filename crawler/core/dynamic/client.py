"""A client of a seed server: what it is handed, and what it reports (WEB-SAILOR, section 3.2).

With `dynamic.follow = "server"` a client fetches only URLs that its server hands to it, and reports
all links. Its own queues hold the stock: URLs that were handed out and not fetched yet.
"""

from array import array
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from math import ceil, inf
from typing import Final

import numpy as np

from crawler import config
from crawler.core.dynamic.role import Role
from crawler.core.exchange import TreeExchange
from crawler.core.order import BreadthFirst
from crawler.core.outboxes import Outbox
from crawler.core.parts import Parts
from crawler.core.tree import Tree
from crawler.messages import Batch, CookieTerms
from crawler.ports import OUT_OF_SCOPE, CrawlUrl, Link
from crawler.reading.cookies import Jar

# Bounds of the stock, by connections. With less than the first a client often runs dry; more than
# the second only makes the choice of URLs worse (docs/results/web-sailor.md).
_LEAST_STOCK: Final = 4
_MOST_STOCK: Final = 16
_RATE_WINDOW_S: Final = 5.0
_LOOK_INTERVAL_S: Final = 0.5  # between two looks at the stock


class Client(Role):
    """What one rank has of its server's URLs."""

    def __init__(
        self,
        rank: int,
        settings: config.Config,
        tree: Tree,
        parts: Parts,
        order: BreadthFirst,
    ) -> None:
        """`order`: an object of the order that the server's registry has."""
        super().__init__(parts.door)
        assert isinstance(parts.door.foreign, TreeExchange)
        number = tree.clients.index(rank)
        given = settings.dynamic.connections
        most = settings.fetch.concurrency
        self.server = tree.above(rank)
        self.connections = min(given[number], most) if number < len(given) else most
        self.visits = 0  # open ones: each uses a connection
        # Sites, by the keys of URLs that were handed out and not dealt with.
        self._at_hand: dict[int, str] = {}
        self._resting = 0  # of these, URLs of sites that must rest, as the server was told
        self._fixed_stock = settings.dynamic.stock
        self._max_delay_s = settings.exchange.max_delay_s
        self._site_delay_s = settings.politeness.delay_s
        self._bench = parts.bench
        self._outboxes = parts.outboxes
        self._foreign = parts.door.foreign
        self._sites = parts.sites
        self._jars = parts.jars
        self._declared = parts.declared
        self.counts_links = order.counts
        self._wants_links = order.wants_links
        self._stock = 0
        self._is_spare = rank in tree.spares
        self._has_left = False
        self._ended = 0  # visits since `_since`
        self._since = 0.0
        self._busy_s = 0.0  # of all connections, since `_since`
        self._counted = 0.0  # when `_busy_s` was brought up to date
        # The time from a report that leaves at once to the URLs that answer it: the latest that is
        # known, and the shortest one since `_since`.
        self._round_trip_s, self._shortest_trip_s = 0.0, inf
        self._report: tuple[int, float] | None = None  # one that waits for its answer: number, time
        self._looked = 0.0  # when the stock was fitted to the rate and to the rests
        self._next_look = inf  # when that is due again
        self.is_away, self.has_room = True, False
        parts.quota.left = inf  # the server sees to the limit

    def _look(self) -> None:
        """Note whether this client is away, and whether a further visit may begin."""
        self.is_away = self._stock == 0
        self.has_room = not self.is_away and self.visits < self.connections

    def _box(self, now: float, *, urgent: bool = False) -> Outbox:
        return self._outboxes.open(self.server, now, urgent=urgent)

    # --- coming and leaving -------------------------------------------------------------------

    def start(self, now: float) -> None:
        """Come, if this client is no spare."""
        if not self._is_spare:
            self.come(now)

    def come(self, now: float) -> None:
        """Tell the server that this client is here, and how large its stock should be."""
        if self._has_left or not self.is_away:
            return
        self._since = now
        self._tell_stock(self._fixed_stock or _LEAST_STOCK * self.connections, now)

    def leave(self, under_way: Container[int], now: float) -> None:
        """Return what hasn't begun, and take no more.

        `under_way`: the keys of visits, which go on to their end. A client that has left doesn't
        come back.
        """
        self._has_left = True
        self._tell_stock(0, now)
        for key in [key for key in self._at_hand if key not in under_way]:
            self._return(key, now)

    def begin(self, now: float) -> None:
        """Let a visit use a connection."""
        self._count_visits(1, now)

    def end(self, found: CrawlUrl, now: float, *, over: bool) -> None:
        """End a visit. If its URL waits again, and this client has left, the URL is returned."""
        self._count_visits(-1, now)
        self._ended += 1
        self._look_soon()
        if not over and self.is_away and found.key in self._at_hand:
            self._return(found.key, now)

    def _count_visits(self, more: int, now: float) -> None:
        self._busy_s += self.visits * (now - self._counted)
        self._counted = now
        self.visits += more
        self._look()

    def _return(self, key: int, now: float) -> None:
        del self._at_hand[key]
        self._give_back(key, self._jars.take(key).terms(), now)

    def _give_back(self, key: int, cookies: tuple[CookieTerms, ...], now: float) -> None:
        box = self._box(now, urgent=True)
        box.returned_urls.append(key)
        if cookies:
            box.cookies[key] = cookies

    def _tell_stock(self, stock: int, now: float) -> None:
        self._stock = stock
        self._look()
        box = self._box(now, urgent=True)
        box.stock, box.resting, box.connections = stock, self._resting, self.connections

    # --- from the server ----------------------------------------------------------------------

    def receive(self, sender: int, batch: Batch, now: float) -> None:
        """Take what the server hands out, and how many connections it wants to be used."""
        if batch.connections:
            self.connections = batch.connections
            self._look()
        for key, names in batch.declared_by.items():
            self._declared.declare(key, tuple(names))
        if self._report is not None and batch.heard > self._report[0]:
            self._shortest_trip_s = min(self._shortest_trip_s, now - self._report[1])
            self._report = None
        scores = np.frombuffer(batch.scores).tolist()
        for index, key in enumerate(np.frombuffer(batch.keys, np.uint64).tolist()):
            address = batch.urls[index]
            if self.is_away:
                self._give_back(key, batch.cookies.get(key, ()), now)
                continue
            found = CrawlUrl(
                key,
                address,
                self._sites.of(address),
                batch.hops[index],
                batch.chains.get(index, ()),
            )
            self._jars.put(key, Jar.of(batch.cookies.get(key, ())))
            self._at_hand[key] = found.site
            self._foreign.note_text(key)
            self._bench.restore(found, scores[index])
        self._look_soon()

    # --- to the server ------------------------------------------------------------------------

    def open_page(self) -> None:
        """Hold the batches back, so that all links of a page leave together with its report.

        If this client is lost, its server knows either all or nothing of the page.
        """
        self.holds_batches = True

    def finish(self, found: CrawlUrl, links: Sequence[Link], now: float, *, response: bool) -> None:
        """Report that a URL is dealt with, after its links."""
        self.holds_batches = False
        if found.key not in self._at_hand:
            return  # an errand
        del self._at_hand[found.key]
        box = self._box(now)
        box.ended.append(found.key)
        if len(box.ended) >= len(self._at_hand) - self._resting:
            self._box(now, urgent=True)
            if self._report is None:
                self._report = self._outboxes.sent(self.server), now
        if not response:
            box.unanswered.append(found.key)
        elif self._wants_links:
            followed = (link.key for link in links if not link.flags & OUT_OF_SCOPE)
            self.show_page(found, followed, now)

    def show_page(self, page: CrawlUrl, links: Iterable[int], now: float) -> None:
        """Show the order of the server the links of a page, by their keys, if it wants them."""
        if self._wants_links:
            self._box(now).pages.append((page.key, array("Q", links).tobytes()))

    # --- the stock ----------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Tell the server if this client needs another stock now."""
        if now < self._next_look:
            return
        self._looked, self._next_look = now, inf
        if self.is_away:
            return
        stock, resting = self._fitting_stock(now), self._count_resting(now)
        little = self._stock // 4
        if abs(stock - self._stock) > little or abs(resting - self._resting) > little:
            self._resting = resting
            self._tell_stock(stock, now)

    def next_time(self) -> float | None:
        """When the stock must be looked at, or None if nothing has changed."""
        return None if self._next_look == inf else self._next_look

    def _look_soon(self) -> None:
        self._next_look = min(self._next_look, self._looked + _LOOK_INTERVAL_S)

    def _fitting_stock(self, now: float) -> int:
        """Fit the stock to the rate that this client has while all of its connections are used.

        The stock lasts while a report waits to be sent, and while it is answered. And so many URLs
        more wait for the delays of their sites.
        """
        if self._fixed_stock or now < self._since + _RATE_WINDOW_S:
            return self._stock
        rate = self.connections * self._ended / self._busy_s if self._busy_s else 0.0
        self._ended, self._busy_s, self._since = 0, 0.0, now
        if self._shortest_trip_s < inf:
            self._round_trip_s, self._shortest_trip_s = self._shortest_trip_s, inf
        least, most = _LEAST_STOCK * self.connections, _MOST_STOCK * self.connections
        stock = min(max(least, ceil(rate * (self._max_delay_s + self._round_trip_s))), most)
        return stock + ceil(rate * self._site_delay_s)

    def _count_resting(self, now: float) -> int:
        """The number of URLs at hand whose sites must rest longer than for the usual delay.

        They must not keep the server from handing out others.
        """
        soon = now + self._site_delay_s
        sites = Counter(self._at_hand.values()).items()
        return sum(urls for site, urls in sites if self._bench.rests_beyond(site, soon))
