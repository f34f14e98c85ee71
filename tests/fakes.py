"""The outside world for tests: a clock that is told the time, a network of ranks in one process."""

import asyncio
import random
from collections.abc import Callable, Sequence

from crawler import ports


class FakeClock:
    """`ports.Clock`. Time passes when a test says so."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    def time(self) -> float:
        return 1_800_000_000.0 + self._now

    def advance(self, seconds: float) -> None:
        assert seconds >= 0, "a clock never goes back"
        self._now += seconds


def network(n: int, seed: int) -> list["FakeTransport"]:
    """`n` ranks joined by one Network. The same seed and calls give the same delays and order."""
    return Network(n, seed).transports


class Network:
    """Messages between the ranks of one process: none lost, each delayed, any order.

    Nothing arrives by itself: `pump` delivers some of what is in flight, and a waiting transport
    pumps too, so that agents on one event loop need no further help.
    """

    def __init__(self, n: int, seed: int) -> None:
        self.transports = [FakeTransport(self, rank, n) for rank in range(n)]
        self.in_flight: list[tuple[int, int, bytes]] = []  # source, destination, message
        self.closing = 0  # ranks that have come to close
        self._random = random.Random(seed)

    def pump(self) -> int:
        """Deliver a random part of what is in flight, in random order; returns how many."""
        self._random.shuffle(self.in_flight)
        keep = self._random.randint(0, len(self.in_flight))
        delivered, self.in_flight = self.in_flight[keep:], self.in_flight[:keep]
        for source, destination, message in delivered:
            self.transports[destination].inbox.append((source, message))
        return len(delivered)


class NoRepository:
    """A `ports.Repository` for tests in which nothing is stored."""

    def append(
        self, fetched: ports.Fetched, part: int, follows: Callable[[ports.PageRow], bool]
    ) -> ports.PageRow:
        raise NotImplementedError

    def keep(self, url: str, response: ports.Response) -> None:
        raise NotImplementedError

    def introduce(self, authority: str, sitemaps: Sequence[ports.Link]) -> None:
        raise NotImplementedError

    def note(self, what: ports.Asked | ports.CrawlDelay) -> None:
        raise NotImplementedError


class FakeTransport:
    """`ports.Transport` of one rank in a Network. No two ranks share a host if `far` is set."""

    far = False

    def __init__(self, network: Network, rank: int, size: int) -> None:
        self.network = network
        self.rank = rank
        self.size = size
        self.inbox: list[tuple[int, bytes]] = []

    def send(self, rank: int, message: bytes) -> None:
        assert rank != self.rank, "a rank has no messages for itself"
        assert 0 <= rank < self.size
        self.network.in_flight.append((self.rank, rank, message))

    def receive(self) -> list[tuple[int, bytes]]:
        received, self.inbox = self.inbox, []
        return received

    def backlog(self, rank: int) -> int:
        return sum(
            len(message)
            for source, destination, message in self.network.in_flight
            if (source, destination) == (self.rank, rank)
        )

    def remote(self, rank: int) -> bool:
        return self.far and rank != self.rank

    async def wait(self, timeout: float) -> None:
        if self.network.pump() or self.inbox:
            await asyncio.sleep(0)
        else:
            await asyncio.sleep(min(timeout, 0.001))

    async def close(self) -> None:
        self.network.closing += 1
        while self.network.closing < self.size or self.network.in_flight:
            await self.wait(0.001)
            self.inbox.clear()


def _check(transport: FakeTransport) -> ports.Transport:
    return transport  # mypy holds the fake against the protocol
