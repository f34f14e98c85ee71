"""Which links reach a seed server, counted from outside."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from test_dynamic import served
from test_faults import Schedule

from crawler.config import Config
from crawler.core.dynamic.server import Server
from crawler.core.members import Logged
from crawler.messages import Batch, Message, decode
from crawler.reading.scope import Sites
from crawler.simulate import Simulation


class Heard(Simulation):
    """Gives each message that arrives to `arrive`, with its receiver and its sender."""

    arrive: Callable[[int, int, Message], None]

    def _arrives(self, rank: int, about: tuple[int, bytes | Message]) -> None:
        sender, message = about
        super()._arrives(rank, about)
        self.arrive(rank, sender, decode(message) if isinstance(message, bytes) else message)


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize(
    "kind", [("page", "server"), ("site", "server"), ("site", "own"), ("dset", "own")]
)
def test_links_that_lead_out_of_what_a_client_holds_reach_the_server(
    seed: int, kind: tuple[str, str]
) -> None:
    """With follow = "server" a client holds no site. With "own" it has some from the start."""
    crawl = served(seed, kind, (0,), "frontier.order=backlinks", made=Heard)
    simulation = crawl.simulation
    assert isinstance(simulation, Heard)
    tree = simulation.cores[0].ownership.tree
    assert tree is not None
    held = defaultdict[int, set[str]](set)
    site_of = Sites("authority").of
    left = arrived = 0
    batches = set[tuple[int, int]]()

    def stored(rank: int, logged: Logged) -> None:
        nonlocal left
        for link in logged.links:
            own = link.site in held[rank] or (
                kind == ("dset", "own") and tree.dsets.holder(link.site) == rank
            )
            left += not own

    def arrive(rank: int, sender: int, message: Message) -> None:
        nonlocal arrived
        if not isinstance(message, Batch):
            return
        if rank and kind == ("site", "own"):
            held[rank].update(map(site_of, message.urls))
        elif rank == 0 and (sender, message.number) not in batches:
            batches.add((sender, message.number))
            arrived += sum(message.counts)
            for _, counts in message.known.values():
                arrived += int(np.frombuffer(counts, np.uint32).sum())

    simulation.arrive = arrive
    simulation._stored = stored
    assert simulation.run(crawl.seeds)
    assert arrived == left


class Counted(Schedule):
    """A session of seed servers that count links. `earlier`: pages of the runs before the last."""

    def __init__(self, number: int, directory: Path) -> None:
        super().__init__(number, directory)
        self.kind, self.follow = "dynamic", "server"
        self.earlier = set[str]()

    def _run_once(self, *, faulty: bool) -> bool:
        self.earlier = set(self.pages())
        return super()._run_once(faulty=faulty)

    def _settings(self, servers: tuple[int, ...]) -> Config:
        settings = super()._settings(servers)
        frontier = settings.frontier.replace(order="backlinks")
        return settings.replace(frontier=frontier)

    def counts(self) -> dict[int, int]:
        """What the servers have counted for each page that no earlier run fetched."""
        servers = [core.role for core in self._cores if isinstance(core.role, Server)]
        links = (pair for server in servers for pair in server.link_counts())
        numbers = {self.web.pages[key]: number for key, number in links}
        return {page: number for page, number in numbers.items() if self._is_new(page)}

    def in_degrees(self) -> dict[int, int]:
        """The links to each of these pages from other pages, and from the user."""
        wanted = Counter(self.seeds)
        for address in set(self.pages()):
            (source,) = (n for n, link in enumerate(self.web.links) if link.url == address)
            targets = {self.web.pages[link.key] for link in self.web.out_links[source]}
            wanted.update(targets - {source})
        return {page: number for page, number in wanted.items() if self._is_new(page)}

    def _is_new(self, page: int) -> bool:
        return self.web.links[page].url not in self.earlier


@pytest.mark.parametrize(
    "block", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 10))]
)
def test_a_registry_made_from_the_logs_counts_each_link_of_their_pages(
    block: int, tmp_path: Path
) -> None:
    dice = random.Random(block)
    for number in range(20):
        schedule = Counted(dice.getrandbits(32), tmp_path / str(number))
        schedule.run()
        assert schedule.counts() == schedule.in_degrees()
