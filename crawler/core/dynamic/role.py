"""What a rank does under dynamic assignment, beside what every rank does.

A core tells its `Role` of the moments listed here. In a static scheme, and for a client that
follows links itself, there is nothing to do at them. `client` and `server` have derived classes.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from crawler.core.door import Door
from crawler.core.dynamic.retained import Retained
from crawler.messages import Batch
from crawler.ports import CrawlUrl, Link


class ClientFacts(NamedTuple):
    """What is known of a client at one moment."""

    rank: int
    connections: int  # that it uses at most
    pages: int  # that it has fetched in this run
    seeds: int  # URLs that wait for it


class Role:
    """The role of a rank that fetches what it owns.

    `has_room`: whether a further visit may begin. `is_away`: whether this rank fetches nothing,
    because it is a client that hasn't come yet or has left. `counts_links`: its server's order
    counts the links to a URL. `holds_batches`: no batch may leave now.
    """

    def __init__(self, door: Door) -> None:
        self.has_room = True
        self.is_away = False
        self.counts_links = False
        self.holds_batches = False
        self.connections = 0  # that a client uses at most; 0: as many as are configured
        self.handed = self.returned = 0  # URLs that a server has handed out, and got back
        self.retained: Retained | None = None  # gets all batches that leave for clients
        self._door = door

    def start(self, now: float) -> None:
        """Begin, once the seeds are admitted."""

    def receive(self, sender: int, batch: Batch, now: float) -> None:
        """Take the URLs of a batch, and what a server and its client tell each other."""
        self._door.receive(sender, batch, now)

    def show_page(self, page: CrawlUrl, links: Iterable[int], now: float) -> None:
        """Show the order the links of a page that an earlier run fetched, by their keys."""
        self._door.show_order(page, links)

    def earlier_keys(self) -> bytes:
        """The packed keys of the pages that earlier runs fetched of a client that holds sites."""
        return b""

    def note_earlier(self, client: int, fetched: bytes, links: bytes) -> None:
        """As a server that assigns sites, note what a client knows from earlier runs.

        `fetched`: see `earlier_keys`. `links`: the packed keys of the targets of links that the
        client admits in a resume.
        """

    def tick(self, now: float) -> None:
        """Do what is due, before the batches leave."""

    def next_time(self) -> float | None:
        """When `tick` must be called next, or None."""
        return None

    def clients(self) -> list[ClientFacts]:
        """What a server that hands out URLs knows of the clients that are here."""
        return []

    def begin(self, now: float) -> None:
        """Note that a visit has begun."""

    def end(self, found: CrawlUrl, now: float, *, over: bool) -> None:
        """Note that a visit has ended. `over`: its URL is dealt with; if not, it waits again."""

    def open_page(self) -> None:
        """Note that the links of a URL are to be admitted, in steps. Then `finish` is called."""

    def finish(self, found: CrawlUrl, links: Sequence[Link], now: float, *, response: bool) -> None:
        """Note that a URL is dealt with, and that its links were admitted. See `Core.stored`."""
