"""A cluster whose servers watch that the promises to them are kept."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf

from cluster import Cluster, Flight, link, run, store

from crawler.core.courtesy import Courtesy
from crawler.core.outboxes import OrderedArrivals
from crawler.core.outcomes import BUSY, DONE, HELD, RETRY, Outcome
from crawler.core.visits import Visit
from crawler.messages import Batch, Message
from crawler.ports import PASSING, Failure, Link

PATIENT = ["retry.tries=50", "retry.give_up_after=0"]  # settings: each URL is had in the end


@dataclass
class Server:
    """What a site, or an address, has been asked, by all ranks."""

    under_way: int = 0
    most: int = 0
    started: float = -inf
    ended: float = -inf
    rests_until: float = 0.0  # by what it has answered
    delay_s: float = 0.0  # of an address: that of the site asked last, as its rank knew it
    gaps: list[float] = field(default_factory=list)


class Watched(Cluster):
    """A cluster whose servers check that the promises to them are kept.

    `crawl_delays`: by site, what each rank learns from robots.txt with its first visit there.
    `moves`: how often the address of a site changes. `far`: how often a robots.txt redirects to one
    of the `files`.
    """

    addresses: dict[str, str] | None = None
    copies: float = 0.0
    moves: float = 0.0
    far: float = 0.0
    files: Sequence[str] = ()

    def watch(self, dice: random.Random, crawl_delays: dict[str, float]) -> None:
        self.dice = dice
        self.courtesy = Courtesy(self.settings.politeness, self.settings.overrides())
        self.crawl_delays = crawl_delays
        self.servers: defaultdict[str, Server] = defaultdict(Server)
        self.known: defaultdict[str, set[int]] = defaultdict(set)  # ranks that know robots.txt
        self.held: list[list[str]] = [[] for _ in range(self.ranks)]  # sites that wait for errands
        self.asked_at: dict[Visit, str] = {}  # the address

    # --- requests -----------------------------------------------------------------------------

    def server(self, visit: Visit) -> Server:
        return self.servers[self.asked_at.get(visit, visit.found.site)]

    def delay_s(self, site: str, rank: int) -> float:
        """The delay that the rank has to keep: at least its own, and what robots.txt asks for."""
        courtesy = self.courtesy
        knows = rank in self.known[site]
        if courtesy.connections(site) == 1 and not courtesy.by_address:
            knows = bool(self.known[site])  # who has the clock knows what those before it learned
        crawl_delay_s = self.crawl_delays.get(site, 0.0) if knows else 0.0
        return max(courtesy.delay_s(site), min(crawl_delay_s, courtesy.max_crawl_delay_s))

    def acquire(self, rank: int, *, clocks_are_fast: bool = True) -> str | None:
        core = self.cores[rank]
        visit = core.acquire(self.now)
        self.tick(rank)
        if visit is None:
            return None
        site = visit.found.site
        if self.addresses is not None:
            if self.dice.random() < self.moves:
                self.addresses[site] = self.dice.choice(["10.0.0.1", "10.0.0.2", "10.0.0.3"])
            self.asked_at[visit] = self.addresses[site]
            if not core.locate(visit, self.addresses[site], self.now):
                self.tick(rank)
                return None
        knows = rank in self.known[site]
        crawl_delay_s = self.crawl_delays.get(site) if knows else None
        if not core.begin(visit, self.now, crawl_delay_s=crawl_delay_s):
            self.tick(rank)
            return None
        server, connections = self.server(visit), self.courtesy.connections(site)
        assert server.under_way < connections, site
        since = server.ended if connections == 1 else server.started
        server.gaps.append(self.now - since)
        delay_s = self.delay_s(site, rank) if self.addresses is None else server.delay_s
        assert server.gaps[-1] >= delay_s - 1e-9, (site, server.gaps[-1], delay_s)
        assert self.now >= server.rests_until - 1e-9, site
        server.started, server.delay_s = self.now, self.delay_s(site, rank)
        server.under_way += 1
        server.most = max(server.most, server.under_way)
        self.visits[rank].append(visit)
        return visit.found.url

    def _over(self, rank: int, index: int) -> Visit:
        visit = self.visits[rank][index]
        server = self.server(visit)
        server.under_way -= 1
        server.ended = self.now
        return visit

    def end(
        self, rank: int, links: Sequence[Link] = (), *, response: bool = True, index: int = 0
    ) -> Visit:
        if self._over(rank, index).found.is_errand:
            return self._end_errand(rank, index)
        return super().end(rank, links, response=response, index=index)

    def retry(self, rank: int, index: int = 0) -> None:
        """The visit has read robots.txt, and now and then another site has it."""
        visit = self._over(rank, index)
        if self.dice.random() < self.far and not visit.found.is_errand:
            self._wait_for_another(rank, index)
            return
        self.known[visit.found.site].add(rank)
        core = self.cores[rank]
        delay_s = self.crawl_delays.get(visit.found.site)
        core.end(self.visits[rank].pop(index), RETRY, self.now, crawl_delay_s=delay_s)
        self.tick(rank)

    def _wait_for_another(self, rank: int, index: int) -> None:
        """The site waits for a file of any site, perhaps its own."""
        visit, core = self.visits[rank].pop(index), self.cores[rank]
        core.end(visit, HELD, self.now)
        core.door.run_errand(self.dice.choice(self.files), self.now)
        self.held[rank].append(visit.found.site)
        self.tick(rank)

    def _end_errand(self, rank: int, index: int) -> Visit:
        """Wake one of the sites that wait at a rank; there is an errand for each."""
        visit, core = self.visits[rank].pop(index), self.cores[rank]
        core.end(visit, DONE, self.now)
        store(core, visit.found, (), self.now, response=False)
        core.wake(self.held[rank].pop(self.dice.randrange(len(self.held[rank]))))
        self.tick(rank)
        return visit

    def fail(self, rank: int, failure: Failure, index: int = 0) -> bool:
        """The server says that it is too busy, now and then for how long."""
        visit = self._over(rank, index)
        core, server = self.cores[rank], self.server(visit)
        asks = failure is not Failure.SITE_GIVEN_UP
        rest_s = self.dice.choice([None, 3.0, 20.0]) if asks else None
        outcome = BUSY if failure in PASSING else Outcome.of(failure)
        final = core.end(self.visits[rank].pop(index), outcome, self.now, retry_after_s=rest_s)
        if final:
            store(core, visit.found, (), self.now, response=False)
            if visit.found.is_errand:
                core.wake(self.held[rank].pop())
        several = self.courtesy.connections(visit.found.site) > 1
        if rest_s is not None and not several and self.addresses is None:
            server.rests_until = max(server.rests_until, self.now + rest_s)
        self.tick(rank)
        return final

    # --- messages -----------------------------------------------------------------------------

    def deliver(self, flight: Flight) -> Message:
        if self.copies and self.dice.random() < self.copies:
            self.flights.append(Flight(flight.sender, flight.receiver, flight.data))
        message = super().deliver(flight)
        self.check_clocks()
        return message

    def tick(self, rank: int) -> None:
        super().tick(rank)
        if hasattr(self, "dice"):
            self.check_clocks()

    def batches(self) -> list[tuple[int, int, Batch]]:
        """Those that aren't opened yet, without copies."""
        batches = {}
        for sender, receiver, batch in [*super().batches(), *self._early_batches()]:
            arrived = self.cores[receiver]._mail._arrivals[sender]
            before = arrived.opened if isinstance(arrived, OrderedArrivals) else arrived._before
            if batch.number >= before and batch.number not in arrived._beyond:
                batches[sender, receiver, batch.number] = (sender, receiver, batch)
        return list(batches.values())

    def _early_batches(self) -> Iterator[tuple[int, int, Batch]]:
        """Those that have arrived before others that were sent before them."""
        for receiver, core in enumerate(self.cores):
            for sender, arrived in enumerate(core._mail._arrivals):
                if isinstance(arrived, OrderedArrivals):
                    yield from ((sender, receiver, one) for one in arrived._early.values())

    def check_clocks(self) -> None:
        """One clock for each key, and as many connections as there are."""
        places, connections = Counter[str](), Counter[str]()
        keys = set()
        for core in self.cores:
            assert core._clocks is not None
            for key, home in core._clocks._homes.items():
                keys.add(key)
                places[key] += home.holder is None
                connections[key] += home.free
            for key, lease in core._bench.sharing.leases._leases.items():
                places[key] += lease.held
                connections[key] += lease.free + lease.ended + sum(lease.early_free.values())
                clock = core._bench.sharing.clock(lease)
                connections[key] += 0 if clock is None else clock.active
        for _, _, batch in self.batches():
            for terms in batch.clocks:
                places[terms.key] += 1
                connections[terms.key] += terms.free
            for freed in batch.freed:
                connections[freed.key] += freed.count
        for key in keys:
            assert places[key] == 1, key
            assert connections[key] == self.courtesy.connections(key), key


def web(dice: random.Random, hosts: int, pages: int) -> dict[str, list[Link]]:
    """A page's links by its URL. The first page leads to all."""
    urls = [f"http://h{number % hosts}.example/{number}" for number in range(pages)]
    links = {one: [link(dice.choice(urls)) for _ in range(3)] for one in urls}
    links[urls[0]] = [link(one) for one in urls]
    return links


def crawl_politely(
    cluster: Watched,
    dice: random.Random,
    *,
    moves: float = 0.0,
    far: float = 0.0,
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """Crawl a random web in a random order. The promises are kept, and each page is had once.

    `meanwhile` is called before each answer.
    """
    links = web(dice, hosts=dice.choice([1, 2, 4]), pages=30)
    sites = [f"h{number}.example" for number in range(6)]
    if cluster.settings.politeness.per == "address":
        cluster.addresses = {site: dice.choice(["10.0.0.1", "10.0.0.2"]) for site in sites}
        cluster.moves = moves
    cluster.copies = dice.choice([0.0, 0.2])
    cluster.far = far
    cluster.files = [f"http://{site}/robots.txt" for site in sites]
    asked_for = [0.0] if cluster.moves else [0.0, 2.0, 10.0]  # an address doesn't know its sites
    cluster.watch(dice, {site: dice.choice(asked_for) for site in sites})
    seeds = [next(iter(links)), *dice.sample(sorted(links), 4)]
    cluster.start(*dict.fromkeys(seeds))

    def answer(visit: Visit) -> tuple[Iterable[Link], bool]:
        meanwhile()
        return links.get(visit.found.url, ()), True

    asked = run(cluster, dice, answer, retries=0.2, failures=0.1)
    pages = [address for _, address in asked if address in links]
    limit = cluster.settings.session.max_pages
    if cluster.settings.session.mode == "exchange":
        assert len(set(pages)) == len(pages) == (min(limit, len(links)) if limit else len(links))
    assert cluster.complete or limit
    assert not any(cluster.visits)
