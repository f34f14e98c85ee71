"""Cores of several ranks on a table of tests: every event happens when, and if, a test says so."""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hypothesis import settings as examples

from crawler import config, url
from crawler.core.core import Core
from crawler.core.outcomes import DONE, RETRY, Outcome
from crawler.core.ownership import Ownership
from crawler.core.schemes import Scheme
from crawler.core.seen import LateSeen, MemorySeen, UrlSeen
from crawler.core.visits import Visit
from crawler.messages import Batch, Message, Relay, decode, encode
from crawler.modes import mode_of
from crawler.ports import CrawlUrl, Failure, Link
from crawler.reading.cookies import Jars
from crawler.reading.declared import DeclaredSitemaps
from crawler.reading.scope import Sites

# Random crawls are dear: a test tries few of them, unless --hypothesis-profile=thorough is given.
few_examples = examples(max_examples=examples().max_examples * 2 // 5)
AUTHORITIES = Sites("authority")
_MOVES = 60  # of shared clocks, for one visit


class Listed:
    """A scheme that knows the given sites only, as a part vector does."""

    def __init__(self, parts: int, sites: Mapping[str, int]) -> None:
        self.parts = parts
        self.sites = sites

    def part(self, key: int, site: str) -> int | None:
        return self.sites.get(site)


def link(address: str, flags: int = 0) -> Link:
    return Link(url.own_key(address), address, AUTHORITIES.of(address), flags)


def store(
    core: Core, found: CrawlUrl, links: Sequence[Link], now: float, *, response: bool
) -> None:
    """Let a core admit the links of a URL whose visit has ended, all at once."""
    for _ in core.stored(found, links, now, response=response):
        pass


def settings(*overrides: str) -> config.Config:
    """The configuration without a delay between requests, unless overridden."""
    return config.load(None, ["politeness.delay_s=0", *overrides])


@dataclass
class Flight:
    """A message on its way."""

    sender: int
    receiver: int
    data: bytes

    @property
    def message(self) -> Message:
        return decode(self.data)


@dataclass
class Cluster:
    """Cores, the messages in flight between them, and the visits that are open.

    After each event at a core its `tick` is called, as by the shells.
    """

    scheme: Scheme
    ranks: int
    settings: config.Config = field(default_factory=settings)
    now: float = 0.0
    flights: list[Flight] = field(default_factory=list)
    make_seen: Callable[[], UrlSeen | LateSeen] = MemorySeen
    make_sent: Callable[[], UrlSeen] = MemorySeen

    def __post_init__(self) -> None:
        table = [part % self.ranks for part in range(self.scheme.parts)]
        unlisted, mode = self.settings.assignment.unlisted, mode_of(self.settings)
        self.declared = [DeclaredSitemaps() for _ in range(self.ranks)]
        self.jars = [Jars() for _ in range(self.ranks)]
        self.cores = [
            Core(
                self.settings,
                self.ranks,
                Ownership(rank, self.scheme, table, unlisted, mode),
                AUTHORITIES,
                self.make_seen(),
                sent=self.make_sent(),
                declared=self.declared[rank],
                jars=self.jars[rank],
            )
            for rank in range(self.ranks)
        ]
        self.visits: list[list[Visit]] = [[] for _ in range(self.ranks)]

    def start(self, *seeds: str) -> None:
        for rank in range(self.ranks):
            self.cores[rank].start([link(seed) for seed in seeds], self.now)
            self.tick(rank)

    def tick(self, rank: int) -> None:
        for receiver, message in self.cores[rank].tick(self.now):
            assert receiver != rank, "a rank has no messages for itself"
            self.flights.append(Flight(rank, receiver, encode(message, compress=False)))

    def acquire(self, rank: int, *, clocks_are_fast: bool = True) -> str | None:
        """Begin a visit if the core has one; the URL.

        `clocks_are_fast`: batches with nothing but shared clocks arrive at once, and time passes
        for the turns of others that this rank waits for.
        """
        core = self.cores[rank]
        visit = core.acquire(self.now)
        self.tick(rank)
        moves = _MOVES if clocks_are_fast else 0
        while visit is None and moves and self._clocks_move(core):
            moves -= 1  # for a clock that is in use, others may take turns without end
            visit = core.acquire(self.now)
            self.tick(rank)
        if visit is None or not core.begin(visit, self.now):
            return None
        self.visits[rank].append(visit)
        return visit.found.url

    def _clocks_move(self, core: Core) -> bool:
        """Let one thing happen to shared clocks, if there is one to wait for."""
        flight = self._clock_flight()
        if flight is not None:
            self.deliver(flight)
            return True
        turns = [one._clocks.next_time() for one in self.cores if one._clocks is not None]
        ends = [end for end in turns if end is not None]
        if not (ends and core.waiting):
            return False
        self.now = max(self.now, min(ends))
        for rank in range(self.ranks):
            self.tick(rank)
        return True

    def _clock_flight(self) -> Flight | None:
        """A batch in flight with nothing but shared clocks."""
        for flight in self.flights:
            batch = flight.message
            if isinstance(batch, Batch):
                bare = Batch(
                    number=batch.number,
                    load=batch.load,
                    wants=batch.wants,
                    clocks=batch.clocks,
                    recalls=batch.recalls,
                    freed=batch.freed,
                )
                if batch == bare:
                    return flight
        return None

    def end(
        self, rank: int, links: Sequence[Link] = (), *, response: bool = True, index: int = 0
    ) -> Visit:
        """End one of the visits of a rank, with the links that were found."""
        core, visit = self.cores[rank], self.visits[rank].pop(index)
        core.end(visit, DONE, self.now)
        store(core, visit.found, links, self.now, response=response)
        self.tick(rank)
        return visit

    def fail(self, rank: int, failure: Failure, index: int = 0) -> bool:
        """End one of the visits of a rank with a failure; whether that was final."""
        core, visit = self.cores[rank], self.visits[rank].pop(index)
        final = core.end(visit, Outcome.of(failure), self.now)
        if final:
            store(core, visit.found, (), self.now, response=False)
        self.tick(rank)
        return final

    def retry(self, rank: int, index: int = 0) -> None:
        self.cores[rank].end(self.visits[rank].pop(index), RETRY, self.now)
        self.tick(rank)

    def fetch(self, rank: int, address: str, *links: Link) -> None:
        """One whole visit, to the given URL."""
        assert self.acquire(rank) == address
        self.end(rank, links)

    def stop(self, rank: int) -> None:
        self.cores[rank].halt.stop(self.now)
        self.tick(rank)

    def deliver(self, flight: Flight) -> Message:
        self.flights.remove(flight)
        message = flight.message
        self.cores[flight.receiver].received(flight.sender, message, self.now)
        self.tick(flight.receiver)
        return message

    def batches(self) -> list[tuple[int, int, Batch]]:
        """Sender, receiver and content of the batches in flight, also of those passed on."""
        batches = []
        for flight in self.flights:
            sender, receiver, message = flight.sender, flight.receiver, flight.message
            if isinstance(message, Relay):
                sender, receiver, message = message.sender, message.receiver, message.message
            if isinstance(message, Batch):
                batches.append((sender, receiver, message))
        return batches

    def settle(self) -> None:
        """Deliver messages, oldest first, until none is in flight."""
        while self.flights:
            self.deliver(self.flights[0])

    @property
    def ended(self) -> bool:
        return all(core.ended for core in self.cores)

    @property
    def complete(self) -> bool:
        return all(core.complete for core in self.cores)


def run(
    cluster: Cluster,
    dice: random.Random,
    answer: Callable[[Visit], tuple[Iterable[Link], bool]],
    *,
    retries: float = 0.0,
    failures: float = 0.0,
    concurrency: int = 3,
    stop_after: int | None = None,
) -> list[tuple[int, str]]:
    """Let what can happen happen in random order until all cores have ended.

    `answer` gives the links that a visit finds and whether there was a response; a share of visits
    ask for something else before (`retries`) or fail (`failures`). Any message may be
    overtaken by any other, any visit may last for ever so long; only nothing is lost. The (rank,
    URL) pairs that were asked for come back. An end with work left is an AssertionError.
    """
    asked: list[tuple[int, str]] = []
    favour = dice.choice(["visits", "messages", "acquire", "time"])
    slow = dice.randrange(cluster.ranks)  # while its visits last, the others run out of work
    for step in range(100_000):
        if cluster.ended:
            return asked
        if step == stop_after:
            cluster.stop(dice.randrange(cluster.ranks))
        if stop_after is None and any(core.ended for core in cluster.cores):
            # A stop may still be on its way then, because a signal comes from outside.
            assert not cluster.batches(), "an early end: URLs or quota are on their way"
            assert not any(cluster.visits), "an early end: a visit is open"
        rank = dice.randrange(cluster.ranks)
        kind = dice.choice(["visits", "messages", "acquire", "time", favour])
        if kind == "messages" and cluster.flights:
            cluster.deliver(dice.choice(cluster.flights))
        elif kind == "visits" and cluster.visits[rank]:
            if rank == slow and dice.random() < 0.9:
                continue
            index = dice.randrange(len(cluster.visits[rank]))
            visit = cluster.visits[rank][index]
            if dice.random() < retries:
                cluster.retry(rank, index)
            elif (refusal := cluster.cores[rank].refusal(visit)) is not None:
                asked.append((rank, visit.found.url))
                assert cluster.fail(rank, refusal, index)
            elif dice.random() < failures:
                if cluster.fail(rank, Failure.REFUSED, index):
                    asked.append((rank, visit.found.url))
            else:
                asked.append((rank, visit.found.url))
                links, response = answer(visit)
                cluster.end(rank, list(links), response=response, index=index)
        elif kind == "acquire" and len(cluster.visits[rank]) < concurrency:
            cluster.acquire(rank, clocks_are_fast=False)
        elif kind == "time":
            cluster.now += dice.choice([0, 0.25, 1, 100 * failures])
            cluster.tick(rank)
    raise AssertionError(f"no end: {cluster.cores}")
