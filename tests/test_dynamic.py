"""Dynamic assignment: seed servers that hand out URLs, in random schedules."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from cluster import few_examples, settings
from dynamics import KINDS, TREES, dynamic
from hypothesis import given
from hypothesis import strategies as st
from webs import random_web, reachable

from crawler import config
from crawler.core.dynamic.server import Server
from crawler.core.members import Logged
from crawler.core.seen import MemorySeen, UrlSeen
from crawler.core.tree import Tree
from crawler.messages import Message
from crawler.ports import UserError
from crawler.simulate import Delays, Simulation, Web

Stored = Callable[[int, Logged], None]  # see Simulation


@dataclass
class Served:
    """A random web, and a dynamic crawl of it."""

    web: Web
    links: list[tuple[int, int]]
    seeds: list[int]
    servers: int
    simulation: Simulation


def served(
    seed: int,
    kind: tuple[str, str],
    servers: tuple[int, ...],
    *more: str,
    spares: int = 0,
    stored: Stored | None = None,
    made: type[Simulation] = Simulation,
    make_store: Callable[[], UrlSeen] = MemorySeen,
) -> Served:
    dice = random.Random(seed)
    web, links = random_web(dice)
    scheme, ranks, chosen = dynamic(
        dice,
        kind,
        1 + dice.randrange(6),
        f"politeness.delay_s={dice.choice([0, 0.3])}",
        f"exchange.max_delay_s={dice.choice([0.05, 1])}",
        *more,
        servers=servers,
        spares=spares,
    )
    slowest = dice.choice([0.001, 0.1, 5])
    simulation = made(
        web,
        chosen,
        scheme,
        ranks,
        seed=seed,
        delays=Delays((0.01, dice.choice([0.01, 0.5])), (0.0001, slowest)),
        concurrency=dice.choice([1, 4, 16]),
        copies=dice.choice([0, 0.2]),
        stored=stored,
        make_seen=make_store,
        make_sent=make_store,
    )
    seeds = dice.sample(range(len(web)), min(len(web), dice.randint(1, 4)))
    return Served(web, links, seeds, len(servers), simulation)


@few_examples
@given(st.integers(0, 2**32), st.sampled_from(KINDS), st.sampled_from(TREES))
def test_each_reachable_page_is_fetched_once_by_a_client(
    seed: int, kind: tuple[str, str], servers: tuple[int, ...]
) -> None:
    crawl = served(seed, kind, servers)
    simulation = crawl.simulation
    assert simulation.run(crawl.seeds)
    assert sorted(simulation.order) == sorted(reachable(crawl.web, crawl.seeds))
    assert all(rank >= crawl.servers for rank in simulation.by)
    assert all(core.complete for core in simulation.cores)


@few_examples
@given(st.integers(0, 2**32), st.sampled_from(["page", "site", "dset"]))
def test_the_registry_counts_each_link_of_a_fetched_page(seed: int, granularity: str) -> None:
    crawl = served(seed, (granularity, "server"), (0,))
    crawl.simulation.run(crawl.seeds)
    fetched = reachable(crawl.web, crawl.seeds)
    wanted = Counter(crawl.seeds)
    for source, target in set(crawl.links):
        wanted[target] += source in fetched and source != target
    server = crawl.simulation.cores[0].role
    assert isinstance(server, Server)
    assert {crawl.web.pages[key]: links for key, links in server.link_counts()} == +wanted


class Paired(Simulation):
    """Notes which ranks send messages to which."""

    def __init__(self, *about: Any, **more: Any) -> None:
        super().__init__(*about, **more)
        self.pairs = set[tuple[int, int]]()

    def _arrives(self, rank: int, about: tuple[int, bytes | Message]) -> None:
        self.pairs.add((about[0], rank))
        super()._arrives(rank, about)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(10))
def test_messages_travel_only_along_the_tree(kind: tuple[str, str], seed: int) -> None:
    crawl = served(seed, kind, (0, 0, 1, 1, 0), made=Paired)
    assert isinstance(crawl.simulation, Paired)
    crawl.simulation.run(crawl.seeds)
    tree = crawl.simulation.cores[0].ownership.tree
    assert tree is not None
    assert crawl.simulation.pairs
    for one, other in crawl.simulation.pairs:
        assert other in {tree.above(one), *tree.below(one)}


# --- what a user may get wrong ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["servers=[1]"], "the first entry must be 0"),
        (["servers=[0, 2, 1]"], "a loop: 1, 2, 1"),
        (["servers=[0, 5]"], "rank 5, above rank 1, is no server"),
        (['dsets=[["com"], ["com", "net"]]'], "com is given twice"),
        (['dsets=[["com"], []]'], "set 1 is empty"),
        (["follow=own"], 'follow = "own" needs granularity'),
        (["low=9", "high=3"], "high = 3 must not be below low = 9"),
    ],
)
def test_a_mistake_is_told_in_one_line(overrides: list[str], words: str) -> None:
    with pytest.raises(UserError) as caught:
        settings(*(f"dynamic.{one}" for one in overrides))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("overrides", "ranks", "words"),
    [
        ([], 1, "1 ranks are too few for 1 servers and their clients: start at least 2"),
        (["servers=[0, 0, 0]"], 4, "start at least 5 ranks"),
        (['dsets=[["com"]]', "granularity=dset"], 3, "1 sets for 2 clients: rank 2 would have"),
    ],
)
def test_too_few_ranks_or_sets_are_told(overrides: list[str], ranks: int, words: str) -> None:
    chosen = settings(*(f"dynamic.{one}" for one in overrides))
    with pytest.raises(UserError) as caught:
        Tree(chosen.dynamic, ranks)
    assert words in str(caught.value)


def test_dynamic_assignment_needs_the_exchange_mode() -> None:
    with pytest.raises(UserError, match=r"needs session\.mode = 'exchange'"):
        config.load(None, ["assignment.scheme=dynamic", "session.mode=firewall"])


def test_a_host_without_a_listed_suffix_is_in_some_set() -> None:
    chosen = settings('dynamic.dsets=[["com"], ["edu", "ac.uk"]]', "dynamic.granularity=dset")
    dsets = Tree(chosen.dynamic, 3).dsets
    assert dsets.of("a.com") == 0
    assert dsets.of("b.ac.uk:8080") == 1
    assert dsets.of("c.de") in {0, 1}
