"""Dynamic assignment beside redirects, cookie walls, limits, failures, stops and wide scopes."""

import random
from collections.abc import Iterable
from itertools import pairwise

import pytest
from cluster import Cluster, link, run, settings
from dynamics import KINDS, dynamic
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from test_cookie_walls import Copying, Walls, crawl
from test_core import World
from test_widening import Ranks
from test_widening import World as WideWorld

from crawler.core.ownership import make_scheme
from crawler.core.visits import Visit
from crawler.ports import Failure, Link

SEEDS = st.integers(0, 2**32)
CLIENTS = st.integers(1, 5)
EACH_KIND = pytest.mark.parametrize("kind", KINDS)


@EACH_KIND
@examples(max_examples=60, deadline=None)
@given(SEEDS, CLIENTS)
def test_every_url_once_and_no_early_end(kind: tuple[str, str], seed: int, clients: int) -> None:
    dice = random.Random(seed)
    world = World(dice, redirects=True)
    cluster = Copying(*dynamic(dice, kind, clients, f"politeness.delay_s={dice.choice([0, 1])}"))
    seeds = dice.sample(world.urls, min(3, len(world.urls)))
    cluster.start(*seeds)
    asked = run(cluster, dice, world.answer, retries=0.2)
    assert sorted(address for _, address in asked) == sorted(world.reachable(seeds))
    assert cluster.complete


@EACH_KIND
@examples(max_examples=60, deadline=None)
@given(SEEDS, CLIENTS, st.integers(1, 20))
def test_the_limit_is_met_exactly_and_failures_do_not_count(
    kind: tuple[str, str], seed: int, clients: int, limit: int
) -> None:
    dice = random.Random(seed)
    world = World(dice, redirects=False)  # an unfinished chain would make a page of no URL
    cluster = Copying(*dynamic(dice, kind, clients, f"session.max_pages={limit}"))
    seeds = dice.sample(world.urls, min(5, len(world.urls)))
    cluster.start(*seeds)
    asked = [address for _, address in run(cluster, dice, world.answer, retries=0.2)]
    reachable = world.reachable(seeds)
    assert len(set(asked)) == len(asked)
    assert set(asked) <= reachable
    assert len(set(asked) - world.failing) == min(limit, len(reachable - world.failing))
    assert cluster.complete == (set(asked) == reachable)


@EACH_KIND
@examples(max_examples=60, deadline=None)
@given(SEEDS, CLIENTS, st.integers(0, 150))
def test_a_stop_at_any_moment_ends_the_crawl_and_doubles_nothing(
    kind: tuple[str, str], seed: int, clients: int, moment: int
) -> None:
    dice = random.Random(seed)
    world = World(dice, redirects=True)
    limit = dice.choice([0, 0, 5])
    cluster = Copying(*dynamic(dice, kind, clients, f"session.max_pages={limit}"))
    seeds = dice.sample(world.urls, min(3, len(world.urls)))
    cluster.start(*seeds)
    asked = [
        address for _, address in run(cluster, dice, world.answer, retries=0.2, stop_after=moment)
    ]
    assert len(set(asked)) == len(asked)
    assert set(asked) <= world.reachable(seeds)
    assert cluster.complete == (set(asked) == world.reachable(seeds))


@EACH_KIND
@examples(max_examples=60, deadline=None)
@given(SEEDS, CLIENTS)
def test_whatever_fails_every_url_has_one_outcome_and_the_end_is_exact(
    kind: tuple[str, str], seed: int, clients: int
) -> None:
    dice = random.Random(seed)
    world = World(dice, redirects=True)
    cluster = Copying(
        *dynamic(
            dice,
            kind,
            clients,
            f"retry.tries={dice.choice([1, 2, 3])}",
            f"retry.give_up_after={dice.choice([0, 2, 6])}",
        )
    )
    found: set[str] = set(dice.sample(world.urls, min(3, len(world.urls))))
    cluster.start(*found)

    def answer(visit: Visit) -> tuple[Iterable[Link], bool]:
        links, response = world.answer(visit)
        found.update(one.url for one in links)
        return links, response

    asked = [address for _, address in run(cluster, dice, answer, retries=0.1, failures=0.4)]
    assert sorted(asked) == sorted(found)
    assert cluster.complete


@EACH_KIND
@examples(max_examples=60, deadline=None)
@given(SEEDS, CLIENTS)
def test_every_page_behind_a_wall_is_had(kind: tuple[str, str], seed: int, clients: int) -> None:
    dice = random.Random(seed)
    walls = Walls(dice)
    cluster = Copying(*dynamic(dice, kind, clients, 'scope.domains=["*"]'))
    cluster.start(Walls.url(0))
    crawl(cluster, dice, walls, None)
    assert set(walls.served) == walls.pages()
    assert set(walls.served.values()) == {1}
    assert cluster.complete
    assert not any(jars._jars for jars in cluster.jars)


@EACH_KIND
@examples(max_examples=60, deadline=None)
@given(SEEDS, CLIENTS)
def test_what_is_fetched_is_what_the_final_scope_reaches(
    kind: tuple[str, str], seed: int, clients: int
) -> None:
    dice = random.Random(seed)
    world = WideWorld(dice)
    scheme, count, chosen = dynamic(dice, kind, clients)
    ranks = Ranks(world, scheme, count, dice, chosen)
    ranks.run()
    assert sorted(ranks.fetched) == sorted(world.reachable())
    assert ranks.cluster.complete
    assert all(scope.joined == world.joined() for scope in ranks.scopes)


# --- one by one ---------------------------------------------------------------------------------


def served(clients: int, *overrides: str) -> Cluster:
    """Rank 0 is the server. Pages are given one at a time, and sites aren't kept."""
    chosen = settings(
        "assignment.scheme=dynamic",
        "dynamic.rest_s=0",
        "dynamic.stock=1",
        "dynamic.per_site=1",
        *overrides,
    )
    return Cluster(make_scheme(chosen, 1 + clients), 1 + clients, chosen)


def test_urls_of_sites_that_rest_leave_room_for_others() -> None:
    cluster = served(1, "retry.base_s=1000")
    cluster.start(*(f"http://s{number}.example/" for number in range(4)))
    for number in range(3):
        cluster.settle()
        assert cluster.acquire(1) == f"http://s{number}.example/"
        assert not cluster.fail(1, Failure.TIMEOUT)
        cluster.now += 1
        cluster.tick(1)
    cluster.settle()
    cluster.fetch(1, "http://s3.example/")


def test_a_host_that_one_client_gives_up_is_given_up_at_the_next() -> None:
    cluster = served(2, "retry.tries=1", "retry.give_up_after=2")
    cluster.start(*(f"http://a.example/{number}" for number in range(4)))
    asked = []
    while not cluster.ended:
        cluster.settle()
        rank = 1 + len(asked) % 2
        cluster.now += 10
        if cluster.acquire(rank) is None:
            cluster.settle()
            cluster.tick(rank)
            continue
        refusal = cluster.cores[rank].refusal(cluster.visits[rank][0])
        asked.append((rank, refusal))
        cluster.fail(rank, refusal or Failure.TIMEOUT)
    assert [refusal for _, refusal in asked] == [None, None, *[Failure.SITE_GIVEN_UP] * 2]
    assert {rank for rank, _ in asked} == {1, 2}


# --- rules on traps that depend on pages: the client reads them, the server admits the links ------


def test_urls_that_grow_from_page_to_page_end_where_the_pages_are_read() -> None:
    cluster = served(1, "traps.max_growth=2")
    pages = [f"http://a.example/?at={'/' * number}" for number in range(5)]
    cluster.start(pages[0])
    for page, grown in list(pairwise(pages))[:3]:
        cluster.settle()
        cluster.fetch(1, page, link(grown))
    cluster.settle()
    assert cluster.ended
    assert cluster.complete
    assert cluster.cores[1].door._traps.fired == {"max_growth": 1}


@pytest.mark.parametrize("servers", ["[0]", "[0, 0, 0]"])
def test_a_branch_of_near_duplicates_waits_until_its_site_has_no_other_urls(servers: str) -> None:
    cluster = served(
        2 + servers.count(","), f"dynamic.servers={servers}", "traps.max_near_duplicates=2"
    )
    home = "http://a.example/"
    cluster.start(home)
    cluster.settle()
    rank = next(rank for rank in range(cluster.ranks) if cluster.acquire(rank))
    traps = cluster.cores[rank].door._traps
    for number in range(20):
        for site in "bcde":
            traps._branches.add(f"http://{site}.example/poor/{number}", b"the same words")
    assert traps.poor
    links = [link(f"http://{site}.example/{path}") for site in "bcde" for path in ("poor/x", "y")]
    cluster.end(rank, links)
    asked = list[str]()
    while not cluster.ended:
        cluster.settle()
        cluster.now += 1
        for other in range(cluster.ranks):
            if (address := cluster.acquire(other)) is not None:
                asked.append(address)
                cluster.end(other)
            cluster.tick(other)
    for site in "bcde":
        its = [address for address in asked if f"//{site}." in address]
        assert its == [f"http://{site}.example/y", f"http://{site}.example/poor/x"]


def test_the_host_of_a_seed_is_never_closed() -> None:
    """Whichever client gets it."""
    cluster = served(2, "traps.max_barren_hosts=1")
    seed = "http://s9.site.example/"
    cluster.start(seed)
    hosts = cluster.cores[2].door._traps.hosts
    assert all(core.door._traps.hosts._states == hosts._states for core in cluster.cores)
    assert hosts._states
