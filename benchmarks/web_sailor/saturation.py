"""How many pages a second the clients of seed servers may fetch together.

The cores of servers get batches as clients make them. Each URL that they hand out is reported
later, with the links of its page. Only the CPU time of the servers counts, with reading and writing
their messages. What the links lead to follows a crawl of real pages by 16 clients. The batches and
the stocks are as large as those of a client that fetches 1,000 pages a second with the default
settings. The rules on traps are off.

Before that, some of the known URLs are handed out and end. The first URL of a site costs most, as
all its new URLs are compared then.
"""

from collections.abc import Sequence
from time import process_time
from typing import Final

import numpy as np
from harness import Row, batched, random_site
from numpy.typing import NDArray
from registry import add, settle

from crawler import config, url
from crawler.agent.timing import collect_rarely
from crawler.core.core import Core
from crawler.core.dynamic.server import Server
from crawler.core.ownership import Ownership
from crawler.core.schemes import make_scheme, place_parts
from crawler.core.seen import MemorySeen
from crawler.core.tree import Tree
from crawler.messages import Batch, Message, Relay, decode, encode
from crawler.modes import mode_of
from crawler.ports import CrawlUrl
from crawler.reading.scope import Sites

LINKS: Final = 36  # of a page
CLIENT_PAGES_PER_S: Final = 1000
_DISTINCT: Final = 0.82  # URLs of a batch, as a share of its links
_TEXTS: Final = (
    0.31  # of these, the share that comes with its text, because the client is new to it
)
_NEW: Final = 0.06  # and the share that the servers don't know
_ACROSS: Final = 0.13  # of links lead to other sites, half of them to the sites of another server
_SITES: Final = 200_000
_AT_ONCE: Final = 4096  # URLs that become known together
_PHI: Final = 0x9E3779B97F4A7C15


def make_url(number: int) -> CrawlUrl:
    mixed = number * _PHI % 2**64
    site = f"www.site{random_site(number, _SITES)}.example"
    words = f"{mixed % 9973:x}-{mixed // 9973 % 997:x}"
    text = f"http://{site}/section-{mixed % 97}/{words}/{number}-the-title"
    return CrawlUrl(url.key(text), text, site, number % 20)


class Servers:
    """The servers of a crawl, which know URLs, and the clients below them."""

    def __init__(self, tree: Sequence[int], clients: int, urls: int) -> None:
        sets = ["assignment.scheme=dynamic", f"dynamic.servers={list(tree)}"]
        sets += ["frontier.order=backlinks"]
        sets += [f"traps.{key}=0" for key in config.Traps.all_keys]
        chosen, ranks = config.load(None, sets), len(tree) + clients
        self._batch_pages = chosen.exchange.batch_pages
        self._connections = chosen.fetch.concurrency
        # As in `Client._fitting_stock`, without the time of messages.
        wait_s = chosen.exchange.max_delay_s + chosen.politeness.delay_s
        self._stock = round(CLIENT_PAGES_PER_S * wait_s)
        scheme = make_scheme(chosen, ranks)
        assert isinstance(scheme, Tree)
        self.tree, places = scheme, place_parts(scheme, ranks)
        self._sites = Sites("authority")
        self.cores = [
            Core(
                chosen,
                ranks,
                Ownership(rank, scheme, places, chosen.assignment.unlisted, mode_of(chosen)),
                self._sites,
                MemorySeen(),
            )
            for rank in self.tree.servers
        ]
        self.used_s = [0.0 for _ in self.cores]
        self.handed: list[list[int]] = [[] for _ in range(ranks)]
        self.now = 0.0
        self._urls = urls
        self._keys, self._numbers = self._fill(urls)
        self._draw = np.random.default_rng(1)
        self._sent = [0] * ranks

    def _fill(self, urls: int) -> tuple[NDArray[np.uint64], dict[int, NDArray[np.int64]]]:
        """Let each server know its URLs. Returns their keys, and their numbers by server."""
        registries = {}
        for rank in self.tree.leaves:
            role = self.cores[rank].role
            assert isinstance(role, Server)
            registries[rank] = role._registry
        keys, owners = np.zeros(urls, np.uint64), np.zeros(urls, np.int8)
        for some in batched(range(urls), _AT_ONCE):
            new: dict[int, list[CrawlUrl]] = {rank: [] for rank in registries}
            for number in some:
                found = make_url(number)
                assert self._sites.of(found.url) == found.site
                keys[number], owners[number] = found.key, self.tree.part(found.key, found.site)
                new[int(owners[number])].append(found)
            for rank, found in new.items():
                add(registries[rank], found)
        for registry in registries.values():
            settle(registry, min(3 * _SITES, urls // 10))
        return keys, {rank: np.flatnonzero(owners == rank) for rank in registries}

    def start(self) -> None:
        """Let the clients come. After this call their stocks are full."""
        collect_rarely()  # as an agent does
        for client in self.tree.clients:
            self._say(client, Batch(stock=self._stock, connections=self._connections))
        self.used_s = [0.0 for _ in self.cores]

    def report(self, client: int) -> int:
        """Let a client report its oldest pages. Returns their number."""
        pages, handed = self._batch_pages, self.handed[client]
        ended, self.handed[client] = handed[:pages], handed[pages:]
        server = self.tree.above(client)
        entries = round(len(ended) * LINKS * _DISTINCT)
        new, texts = round(entries * _NEW), round(entries * _TEXTS)
        told = self._make_new(server, new)
        known = {}
        for owner in self._numbers:
            share = _ACROSS / len(self._numbers)
            if owner == server:
                share = 1 - share * (len(self._numbers) - 1)
            numbers = self._popular(owner, round((entries - new) * share))
            split = round((texts - new) * share)
            told += map(make_url, numbers[:split].tolist())
            keys = self._keys[numbers[split:]]
            counts = self._draw.geometric(_DISTINCT, len(keys)).astype("u4")
            known[owner] = keys.tobytes(), counts.tobytes()
        batch = Batch(
            urls=[found.url for found in told],
            keys=np.array([found.key for found in told], np.uint64).tobytes(),
            counts=[1] * len(told),
            hops=[found.hops for found in told],
            known=known,
            ended=np.array(ended, np.uint64).tobytes(),
        )
        self.now += pages / (CLIENT_PAGES_PER_S * len(self.tree.clients))
        self._say(client, batch)
        return len(ended)

    def _make_new(self, server: int, count: int) -> list[CrawlUrl]:
        """Make URLs that no server knows, nearly all on sites of this server."""
        made: list[CrawlUrl] = []
        while len(made) < count:
            self._urls += 1
            found = make_url(self._urls)
            owner = self.tree.part(found.key, found.site)
            if owner == server or self._draw.random() < _ACROSS:
                made.append(found)
        return made

    def _popular(self, server: int, count: int) -> NDArray[np.int64]:
        """Draw different URLs of a server at random; half of the draws prefer popular ones."""
        numbers, drawn = self._numbers[server], self._draw.random(count)
        popular = (float(len(numbers)) ** drawn).astype(np.int64)
        places = np.where(self._draw.random(count) < 0.5, popular, drawn * len(numbers))
        return self._draw.permutation(numbers[np.unique(places.astype(np.int64))])

    def _say(self, client: int, batch: Batch) -> None:
        batch.number = self._sent[client]
        self._sent[client] += 1
        flights = [(client, self.tree.above(client), encode(batch, compress=False))]
        while flights:
            sender, receiver, data = flights.pop()
            if self.tree.is_server(receiver):
                flights += self._deliver(sender, receiver, data)
            else:
                self._hear(receiver, decode(data))

    def _deliver(self, sender: int, server: int, data: bytes) -> list[tuple[int, int, bytes]]:
        """Deliver a message to a server. Returns its answers: sender, receiver, bytes."""
        core, started = self.cores[server], process_time()
        core.received(sender, decode(data), self.now)
        answers = [
            (server, to, encode(message, compress=False)) for to, message in core.tick(self.now)
        ]
        self.used_s[server] += process_time() - started
        return answers

    def _hear(self, client: int, message: Message) -> None:
        if isinstance(message, Relay):
            message = message.message
        if isinstance(message, Batch):
            self.handed[client] += map(url.key, message.urls)


def serve(tree: Sequence[int], clients: int, urls: int, pages: int) -> Row:
    """Let clients report so many pages. Returns how many a second the busiest server could take."""
    servers = Servers(tree, clients, urls)
    servers.start()
    done = 0
    while done < pages:
        done += sum(map(servers.report, servers.tree.clients))
    busiest = max(servers.used_s)
    return {
        "part": "saturation",
        "servers": len(tree),
        "clients": clients,
        "urls": urls,
        "pages": done,
        "used_s": servers.used_s,
        "pages_per_s": done / busiest,
    }
