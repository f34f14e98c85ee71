"""The outside world for tests: a clock that is told the time, ranks that live in one process."""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NoReturn, TypeAlias, TypeVar

from crawler import ports
from crawler.core.core import Core
from crawler.core.foreign import Traffic
from crawler.ports import LostRankError

T = TypeVar("T")


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
        self.dead: set[int] = set()
        self.abandoned = False  # a rank goes on no more, because one has died
        self._random = random.Random(seed)

    def pump(self) -> int:
        """Deliver a random part of what is in flight, in random order; returns how many."""
        self._random.shuffle(self.in_flight)
        keep = self._random.randint(0, len(self.in_flight))
        delivered, self.in_flight = self.in_flight[keep:], self.in_flight[:keep]
        for source, destination, message in delivered:
            self.transports[destination].inbox.append((source, message))
        return len(delivered)


def counted(cores: Iterable[Core]) -> list[dict[str, object]]:
    """Return what cores have counted of their messages, also where the class is compiled."""
    names = [name for name in dir(Traffic()) if not name.startswith("_")]
    return [
        {name: value for name in names if not callable(value := getattr(core.traffic, name))}
        for core in cores
    ]


class NoRepository:
    """A `ports.Repository` for tests in which nothing is stored."""

    def hash(self, fetched: ports.Fetched) -> None:
        pass

    def archive(
        self, fetched: ports.Fetched, part: int, follows: Callable[[ports.PageRow], bool]
    ) -> ports.PageRow:
        raise NotImplementedError

    def log(self, pages: Sequence[ports.Fetched], rows: list[ports.PageRow]) -> None:
        raise NotImplementedError

    def flush(self) -> None:
        pass

    def keep(self, url: str, response: ports.Response) -> None:
        raise NotImplementedError

    def keep_failure(
        self, url: str, started: float, seconds: float, error: ports.FetchError
    ) -> None:
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
        self.lost: set[int] = set()
        self.inbox: list[tuple[int, bytes]] = []

    def send(self, rank: int, message: bytes) -> None:
        assert rank != self.rank, "a rank has no messages for itself"
        assert 0 <= rank < self.size
        if self.network.abandoned or rank in self.lost:
            return
        self.network.in_flight.append((self.rank, rank, message))

    def receive(self) -> list[tuple[int, bytes]]:
        received, self.inbox = self.inbox, []
        return [(source, message) for source, message in received if source not in self.lost]

    def backlog(self, rank: int) -> int:
        return sum(
            len(message)
            for source, destination, message in self.network.in_flight
            if (source, destination) == (self.rank, rank)
        )

    def remote(self, rank: int) -> bool:
        return self.far and rank != self.rank

    async def wait(self, timeout: float) -> None:
        if self.network.abandoned:
            raise LostRankError
        if self.network.dead - self.lost:
            raise LostRankError(self.network.dead - self.lost)
        if self.network.pump() or self.inbox:
            await asyncio.sleep(0)
        else:
            await asyncio.sleep(min(timeout, 0.001))

    async def close(self) -> None:
        self.network.closing += 1
        while self.network.closing < self.size - len(self.lost) or self.network.in_flight:
            await self.wait(0.001)
            self.inbox.clear()

    def forgo(self, ranks: Iterable[int]) -> None:
        self.lost.update(ranks)

    def abandon(self) -> None:
        self.network.abandoned = True


_Brought: TypeAlias = "dict[FakeGroup, Any]"


class World:
    """Ranks that live in one process, on one event loop. A test may let some of them die."""

    def __init__(self, ranks: int, seed: int = 0) -> None:
        self.groups = [FakeGroup(self, rank, ranks) for rank in range(ranks)]
        self.network: Network | None = None  # of the latest crawl
        self.random = random.Random(seed)
        self._alive = list(self.groups)  # by rank
        # Since all met in `survive`: ranks that have died, and whether one has heard of that.
        self._dead: set[int] = set()
        self._broken = False
        self._survived = 0  # times that they met there
        # What ranks have brought to each meeting, and what was agreed upon there.
        self._meetings: defaultdict[tuple[int, str, int], _Brought] = defaultdict(dict)
        self._agreed: dict[tuple[int, int], bool] = {}
        self._stirred = asyncio.Event()

    def lose(self, group: "FakeGroup") -> None:
        """Let a rank die. The test itself ends what runs there."""
        self._alive.remove(group)
        self._dead.add(group.rank)
        if self.network is not None:
            self.network.dead.add(group.rank)
        self._stir()

    async def exchange(self, group: "FakeGroup", value: T) -> list[T]:
        """The values of all ranks, in their order."""
        brought, _ = self._bring(group, "value", value)
        while len(brought) < group.size:
            if self._broken or self._dead:
                raise LostRankError
            await self._stirred.wait()
        return [brought[one] for one in sorted(brought, key=lambda one: one.rank)]

    async def agree(self, group: "FakeGroup", done: bool, lost: Collection[int]) -> bool:
        if not done:
            self._break()
        survived = self._survived
        brought, number = self._bring(group, "done", done)
        await self._await_all(brought)
        verdict = all(brought[one] for one in self._alive)
        verdict &= not self._broken and self._dead <= set(lost)
        return self._agreed.setdefault((survived, number), verdict)

    async def survive(self, group: "FakeGroup") -> None:
        survived = self._survived
        brought, _ = self._bring(group, "survive", True)
        await self._await_all(brought)
        if survived == self._survived:  # the first to go on counts the ranks through
            self._broken = False
            self._dead.clear()
            self._survived += 1
            for rank, one in enumerate(self._alive):
                one.rank, one.size = rank, len(self._alive)
                one.meetings.clear()

    def _bring(self, group: "FakeGroup", kind: str, value: object) -> tuple["_Brought", int]:
        """Come to a meeting: what ranks have brought so far, and the number of the meeting."""
        number = group.meetings[kind]
        group.meetings[kind] += 1
        brought = self._meetings[self._survived, kind, number]
        brought[group] = value
        self._stir()
        return brought, number

    async def _await_all(self, brought: "_Brought") -> None:
        """Wait until all ranks that are alive have come."""
        while not all(one in brought for one in self._alive):
            await self._stirred.wait()

    def _break(self) -> None:
        self._broken = True
        if self.network is not None:
            self.network.abandoned = True
        self._stir()

    def _stir(self) -> None:
        self._stirred.set()
        self._stirred = asyncio.Event()


class FakeGroup:
    """`ports.Group` of one rank in a World."""

    def __init__(self, world: World, rank: int, size: int) -> None:
        self.world = world
        self.rank = rank
        self.size = size
        self.meetings: Counter[str] = Counter()  # that this rank came to, by their kind
        self.is_broken = False

    async def connect(self) -> ports.Transport:
        network = Network(self.size, self.world.random.getrandbits(32)) if self.rank == 0 else None
        network = await self.bcast(network)
        assert network is not None
        self.world.network = network
        return network.transports[self.rank]

    async def bcast(self, value: T) -> T:
        return (await self.world.exchange(self, value))[0]

    async def gather(self, value: T) -> list[T]:
        values = await self.world.exchange(self, value)
        return values if self.rank == 0 else []

    async def alltoall(self, values: Sequence[T]) -> list[T]:
        assert len(values) == self.size
        return [given[self.rank] for given in await self.world.exchange(self, values)]

    async def all_done(self, done: bool, lost: Collection[int] = ()) -> bool:
        self.is_broken = self.is_broken or not await self.world.agree(self, done, lost)
        return not self.is_broken

    async def survive(self) -> None:
        await self.world.survive(self)
        self.is_broken = False

    def abort(self, code: int, message: str) -> NoReturn:
        raise AssertionError(f"the crawl is aborted with exit code {code}: {message}")


def _check(transport: FakeTransport, group: FakeGroup) -> tuple[ports.Transport, ports.Group]:
    return transport, group  # mypy holds the fakes against the protocols
