"""What a seed server hands to its clients, and when (WEB-SAILOR, section 3.2).

Each client has a stock of URLs at hand. It tells the server how large the stock should be, and
which of its URLs are dealt with; the server fills the stock up with the best URLs that wait. A site
is at one client at a time. So a URL comes from one of two pools: that of the sites which are at the
client, and that of the sites which any client may have.
"""

from array import array
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from math import ceil
from operator import attrgetter

import numpy as np

from crawler import config
from crawler.core.dynamic.pace import ClientState, Pace
from crawler.core.dynamic.places import FREE, Places
from crawler.core.dynamic.role import ClientFacts, Role
from crawler.core.dynamic.seedbench import Keys, SeedBacklog
from crawler.core.exchange import TreeExchange
from crawler.core.hands import Dealt, Hand
from crawler.core.parts import Parts
from crawler.core.tree import Tree
from crawler.messages import Batch
from crawler.ports import CrawlUrl, names_of
from crawler.reading.cookies import NO_COOKIES, Jar


class Server(Role):
    """One server: it hands the URLs of its registry to the clients below it."""

    def __init__(self, rank: int, settings: config.Config, tree: Tree, parts: Parts) -> None:
        super().__init__(parts.door)
        backlog, foreign = parts.bench.backlog, parts.door.foreign
        assert isinstance(backlog, SeedBacklog)
        assert isinstance(foreign, TreeExchange)
        self.states = {rank: ClientState(rank) for rank in tree.clients_of(rank)}
        self._rank = rank
        self._foreign = foreign
        self._dynamic = settings.dynamic
        self._pace = Pace(settings.dynamic, settings.fetch.concurrency)
        self._tree = tree
        self._owns_all = tree.leaves == [rank]
        self._sites = parts.sites
        self._has_rules = parts.rules.on
        self._backlog = backlog
        self._registry = backlog.registry
        self._outboxes = parts.outboxes
        self._clocks = parts.clocks
        self._quota = parts.quota
        self._jars = parts.jars
        self._declared = parts.declared
        self._places = Places(settings.dynamic, tree, backlog.registry, self.states)
        backlog.pool_for = self._places.pool_for
        self._turns = deque(self.states)  # the client to be served next comes first
        self._changed = False  # whether there may be something to hand out

    def link_counts(self) -> Iterator[tuple[int, int]]:
        """The keys of all URLs of this server, each with the number of links to it."""
        return self._backlog.link_counts()

    def clients(self) -> list[ClientFacts]:
        """See Role."""
        return [
            ClientFacts(client.rank, client.connections, client.pages, self._seeds(client))
            for client in self.states.values()
            if client.stock
        ]

    # --- what a client says -------------------------------------------------------------------

    def receive(self, sender: int, batch: Batch, now: float) -> None:
        """Take new URLs, links to others, and what a client says of those that it has."""
        beyond = self._take_in(batch)
        self._door.receive(sender, batch, now, list(batch.chains))
        for owner, found, count in beyond:
            jar, poor = Jar.of(batch.cookies.get(found.key, ())), found.key in batch.poor
            self._foreign.pass_on(owner, found, count, jar, now, poor=poor)
        self._changed = True
        for owner, (packed_keys, packed_counts) in batch.known.items():
            keys, counts = np.frombuffer(packed_keys, np.uint64), np.frombuffer(packed_counts, "u4")
            if owner == self._rank:
                self._backlog.count(keys, counts)
            else:
                links = dict(zip(keys.tolist(), counts.tolist(), strict=True))
                self._foreign.count(owner, links, now)
        for source, targets in batch.pages:
            page = CrawlUrl(source, "", "", 0)
            self._backlog.note_page(page, np.frombuffer(targets, np.uint64).tolist())
        for sitemap, names in batch.declared_by.items():
            self._tell_names(sitemap, names, now)
        client = self.states.get(sender)
        if client is None:
            return
        client.heard += 1
        if batch.stock is not None:
            client.resting = batch.resting
            self._hear(client, batch.stock, batch.connections)
        ended = np.frombuffer(batch.ended, np.uint64)
        client.reported += len(ended)
        self._end(client, ended, batch.unanswered, now)
        for key in batch.returned_urls:
            if key in client.handed:
                client.jars[key] = Jar.of(batch.cookies.get(key, ()))
                self._returned(client, key, now)
        self._backlog.look()

    def _take_in(self, batch: Batch) -> list[tuple[int, CrawlUrl, int]]:
        """Count the links to known URLs, and take in the new ones that this server owns.

        This is most of a server's work. URLs with chains are left out: they pass the door one by
        one. Returns the URLs of other servers: owner, URL and number of links.
        """
        keys = np.frombuffer(batch.keys, np.uint64)
        links = np.frombuffer(array("I", batch.counts), np.uint32)
        assert len(keys) == len(batch.urls), "a batch without keys"
        places = np.delete(np.arange(len(keys)), list(batch.chains))
        unknown = places[self._backlog.count_known(keys[places], links[places])]
        urls, hops, counts, site_of = batch.urls, batch.hops, batch.counts, self._sites.of
        found, counted, poor, beyond = [], [], set(batch.poor), []
        new_tuple = tuple.__new__
        for index, key in zip(unknown.tolist(), keys[unknown].tolist(), strict=True):
            address = urls[index]
            site = site_of(address)
            # The same as CrawlUrl(...), in half the time.
            one = new_tuple(CrawlUrl, (key, address, site, hops[index], ()))
            owner = self._rank if self._owns_all else self._tree.part(key, site)
            if owner != self._rank:
                beyond.append((owner, one, counts[index]))
                continue
            if self._has_rules:
                if not self._door.lets_in(one, None):
                    continue
                if key not in poor and self._door.is_poor(one):
                    poor.add(key)
            found.append(one)
            counted.append(counts[index])
        self._backlog.take_in_all(found, counted, poor)
        return beyond

    def _hear(self, client: ClientState, stock: int, connections: int) -> None:
        """Note what a client wants: at its start, when that changes, and 0 when it leaves."""
        if client.has_left:
            return
        came = bool(stock) != bool(client.stock)
        client.stock, client.connections = stock, connections
        if came:
            self._deal_pools()
            if stock:
                self._places.call_home(client)

    def _deal_pools(self) -> None:
        """Deal the pools of clients that aren't here to those that are."""
        present = [client for client in self.states.values() if client.stock]
        absent = [client.rank for client in self.states.values() if not client.stock]
        for client in self.states.values():
            client.pools = [client.rank] if client.stock else []
        for number, pool in enumerate(absent if present else ()):
            present[number % len(present)].pools.append(pool)

    def _end(
        self, client: ClientState, keys: Keys, unanswered: Collection[int], now: float
    ) -> None:
        """Note that a client has dealt with URLs, some of which weren't answered."""
        handed = client.handed  # some URLs may have been handed to another client meanwhile
        those = [key for key in keys.tolist() if handed.pop(key, True) is None]
        if client.jars:
            for key in those:
                client.jars.pop(key, None)
        ended = self._backlog.end(np.array(those, np.uint64))
        lost = len(set(unanswered).intersection(those)) if unanswered else 0
        client.pages += len(those) - lost
        self._quota.left += lost
        for site, out in ended:
            if not out:
                self._places.end(site, client, now)

    def _returned(self, client: ClientState, key: int, now: float) -> None:
        del client.handed[key]
        self._jars.put(key, client.jars.pop(key, NO_COOKIES))
        site = self._registry.site_of(key)
        self._registry.put_back(key)
        self.returned += 1
        self._quota.left += 1
        if not self._registry.out(site):
            self._places.end(site, client, now)

    # --- handing out --------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Fill up the stocks of the clients, one URL at a time to each in turn."""
        if not self._places.release_rested(now) and not self._changed:
            return
        self._changed = False
        for client in self._pace.change(self.states.values(), self._seeds, now):
            box = self._outboxes.open(client.rank, now, urgent=True)
            box.connections = client.connections
        low = [self.states[rank] for rank in self._turns if self._is_low(self.states[rank])]
        share = self._fair_share()
        while self._deal(low, share, now):
            low.sort(key=lambda client: self._turns.index(client.rank))
        if self._dynamic.granularity == "page":
            for client in low:
                self._take_over(client, now)
        self._backlog.look()

    def _is_low(self, client: ClientState) -> bool:
        """Whether a message to this client is worth it."""
        lot = max(1, client.stock // 4)
        few = min(client.connections, client.stock)
        return client.room >= lot or client.ready < few

    def _deal(self, clients: Sequence[ClientState], share: int, now: float) -> bool:
        """Hand URLs to clients, one to each in turn. Returns whether more might be handed out.

        `share`: see `_fair_share`.
        """
        room = sum(max(0, client.room) for client in clients)
        if not room or not self._has_quota(now):
            return False
        most = int(min(room, self._quota.left))
        hands = [
            Hand(client.rank, client.pools, client.room, client.busy + client.coming)
            for client in clients
        ]
        free = FREE if self._dynamic.granularity == "page" else None
        dealt = self._backlog.deal(hands, free, share, most)
        for one in dealt:
            self._hand(clients[one.hand], one, now)
        for one in sorted(dealt, key=attrgetter("last")):
            rank = clients[one.hand].rank
            self._turns.remove(rank)
            self._turns.append(rank)
        return sum(len(one.found) for one in dealt) == most

    def _hand(self, client: ClientState, dealt: Dealt, now: float) -> None:
        """Hand a client URLs, and their sites with them."""
        keys = [found.key for found in dealt.found]
        self._quota.left -= len(keys)
        self.handed += len(keys)
        client.busy += dealt.begun
        client.handed.update(dict.fromkeys(keys))
        sites = [found.site for found in dealt.found]
        self._places.hand(sites, dealt.pools, client)
        box = self._outboxes.open(client.rank, now, urgent=True)
        box.found.update(zip(keys, dealt.found, strict=True))
        box.scores.update(zip(keys, dealt.scores, strict=True))
        box.heard = client.heard
        if not self._jars.empty:
            for key in keys:
                jar = self._jars.take(key)
                if jar.cookies:
                    box.cookies[key] = jar.terms()
                    client.jars[key] = jar
        if not self._declared.empty:
            for key in keys:
                names = names_of(self._declared.authorities(key))
                if names:
                    box.declared_by[key] = list(names)
        if self._clocks is not None:
            self._clocks.offer(sites, client.rank, now)

    def _has_quota(self, now: float) -> bool:
        while self._quota.left < 1 and self._registry.waits and not self._quota.starved:
            self._quota.ask(now)
        return self._quota.left >= 1

    def _fair_share(self) -> int:
        """How many sites with something to fetch each client may have."""
        loads = [self._places.load(client) for client in self.states.values() if client.stock]
        return ceil((sum(loads) + self._registry.sites_waiting(FREE)) / max(1, len(loads)))

    def _take_over(self, client: ClientState, now: float) -> None:
        """Let a client that would be idle have a site of the client that has most to do.

        Sites stay at their clients. Without this, one client would have too many, and others none.
        """
        if client.room <= 0 or client.ready >= client.connections:
            return
        other = max(self.states.values(), key=self._places.load)
        if self._places.load(other) < self._places.load(client) + 2 or not other.handed:
            return
        site = self._registry.best_site(other.rank)
        if site is None:
            site = self._registry.site_of(next(reversed(other.handed)))
        if self._registry.out(site):
            self._places.let_leave(site, other, client)
        elif self._has_quota(now):
            hand = Hand(client.rank, [other.rank], 1, 0)
            for one in self._backlog.deal([hand], None, 0, 1):
                self._hand(client, one, now)

    def _tell_names(self, key: int, names: Sequence[str], now: float) -> None:
        """Tell the client of a sitemap, if one has it, which authorities declare it."""
        for client in self.states.values():
            if key in client.handed:
                box = self._outboxes.open(client.rank, now, urgent=True)
                box.declared_by.setdefault(key, []).extend(names)

    def _seeds(self, client: ClientState) -> int:
        """URLs that wait for a client; of those that wait for any, its share."""
        present = sum(one.stock > 0 for one in self.states.values())
        own = sum(map(self._registry.waiting, client.pools))
        return own + self._registry.waiting(FREE) // present

    # --- clients that join and leave ----------------------------------------------------------

    @property
    def seeds(self) -> int:
        """URLs that wait for a client."""
        return self._registry.waits

    def is_complete(self, ranks: Sequence[int]) -> bool:
        """Whether all of these clients have come."""
        return all(self.states[rank].stock for rank in ranks)

    def part_with(self, rank: int, now: float) -> None:
        """Hand nothing more to a client. Its sites become free as soon as it has no URL of them."""
        client = self.states[rank]
        client.has_left = self._changed = True
        client.stock = 0
        self._deal_pools()
        self._places.part_with(client)

    def recover(self, rank: int, key: int, now: float, *, answered: bool) -> None:
        """Note that a lost client had dealt with a URL. The links of the page are admitted."""
        self._changed = True
        unanswered = () if answered else (key,)
        self._end(self.states[rank], np.array([key], np.uint64), unanswered, now)
        self._backlog.look()

    def take_back(self, rank: int, now: float) -> None:
        """Let the other clients have the URLs that a lost client had."""
        client, self._changed = self.states[rank], True
        for key in list(client.handed):
            self._returned(client, key, now)
        self._backlog.look()

    def next_time(self) -> float | None:
        """When the next site may go to another client, or None."""
        return self._places.next_time()
