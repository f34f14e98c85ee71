"""What a seed server knows of each client, and whether a client should hurry up or slow down."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from crawler import config
from crawler.reading.cookies import Jar

_INTERVAL_S: Final = 1.0  # between two looks at the clients


class ClientState:
    """What a server knows about one client. It has a pool of sites with its rank as number."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.pools: list[int] = []  # its own, and of clients that aren't here
        self.stock = 0  # URLs that it wants at hand; 0 until it has come, and after it has left
        self.resting = 0  # URLs that it has beside the stock, because their sites must rest
        self.connections = 0
        self.handed: dict[int, None] = {}  # keys of URLs that it has, oldest first
        self.sites = 0  # that are at this client
        self.busy = 0  # sites of which it has URLs
        self.coming = 0  # sites that it gets from others, once these have fetched their URLs of it
        self.pages = 0  # that it has fetched
        self.heard = 0  # batches that have come from it
        self.reported = 0  # URLs that it has dealt with, in the order of its log's rows
        self.jars: dict[int, Jar] = {}  # cookies that went with its URLs, by key
        self.has_left = False

    @property
    def ready(self) -> int:
        """How many of its URLs it can fetch without a long rest, as far as is known."""
        return len(self.handed) - self.resting

    @property
    def room(self) -> int:
        """How many URLs more it may have."""
        return self.stock - self.ready if self.stock else 0


class Pace:
    """How many connections the clients use, by the seeds that wait for them (section 4.3)."""

    def __init__(self, dynamic: config.Dynamic, most_connections: int) -> None:
        self._dynamic = dynamic
        self._most_connections = most_connections
        self._looked = 0.0

    def change(
        self, clients: Iterable[ClientState], seeds: Callable[[ClientState], int], now: float
    ) -> Iterator[ClientState]:
        """Set the connections of the clients anew. Yields those that must be told.

        `seeds` says how many URLs wait for a client.
        """
        low, high = self._dynamic.low, self._dynamic.high
        if not (low or high) or now < self._looked + _INTERVAL_S:
            return
        self._looked = now
        for client in clients:
            if not client.stock:
                continue
            wait, before = seeds(client), client.connections
            if wait < low:
                least = min(before, self._dynamic.least_connections)
                client.connections = max(least, before - self._dynamic.step)
            elif 0 < high < wait:
                most = max(before, self._most_connections)
                client.connections = min(most, before + self._dynamic.step)
            if client.connections != before:
                yield client
