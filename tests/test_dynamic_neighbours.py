"""Dynamic assignment beside redirects, cookie walls, limits, failures, stops and wide scopes."""

import random
from itertools import pairwise

import pytest
from cluster import Cluster, few_examples, link, settings
from dynamics import KINDS, dynamic
from hypothesis import given
from hypothesis import strategies as st
from test_cookie_walls import Copying, Walls, crawl
from test_widening import Ranks
from test_widening import World as WideWorld
from worlds import (
    MakeCluster,
    assert_each_url_has_one_outcome,
    assert_every_url_once,
    assert_limit_is_met,
    assert_stop_doubles_nothing,
)

from crawler.core.schemes import make_scheme
from crawler.ports import Failure

SEEDS = st.integers(0, 2**32)
CLIENTS = st.integers(1, 5)
KIND = st.sampled_from(KINDS)


def clusters(
    dice: random.Random, kind: tuple[str, str], clients: int, *overrides: str
) -> MakeCluster:
    return lambda _, *more: Copying(*dynamic(dice, kind, clients, *overrides, *more))


@few_examples
@given(KIND, SEEDS, CLIENTS)
def test_every_url_once_and_no_early_end(kind: tuple[str, str], seed: int, clients: int) -> None:
    dice = random.Random(seed)
    polite = f"politeness.delay_s={dice.choice([0, 1])}"
    assert_every_url_once(dice, clusters(dice, kind, clients, polite))


@few_examples
@given(KIND, SEEDS, CLIENTS, st.integers(1, 20))
def test_the_limit_is_met_exactly_and_failures_do_not_count(
    kind: tuple[str, str], seed: int, clients: int, limit: int
) -> None:
    dice = random.Random(seed)
    assert_limit_is_met(dice, clusters(dice, kind, clients), limit)


@few_examples
@given(KIND, SEEDS, CLIENTS, st.integers(0, 150))
def test_a_stop_at_any_moment_ends_the_crawl_and_doubles_nothing(
    kind: tuple[str, str], seed: int, clients: int, moment: int
) -> None:
    dice = random.Random(seed)
    assert_stop_doubles_nothing(dice, clusters(dice, kind, clients), moment)


@few_examples
@given(KIND, SEEDS, CLIENTS)
def test_whatever_fails_every_url_has_one_outcome_and_the_end_is_exact(
    kind: tuple[str, str], seed: int, clients: int
) -> None:
    dice = random.Random(seed)
    assert_each_url_has_one_outcome(dice, clusters(dice, kind, clients))


@few_examples
@given(KIND, SEEDS, CLIENTS)
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


@few_examples
@given(KIND, SEEDS, CLIENTS)
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


def test_a_client_fetches_the_best_url_of_its_stock_first() -> None:
    cluster = served(1, "dynamic.stock=4", "frontier.order=depth-first")
    home, *pages = (f"http://{site}.example/" for site in "habc")
    cluster.start(home)
    cluster.settle()
    cluster.fetch(1, home, link(pages[0]), link(pages[1]))
    cluster.settle()
    cluster.fetch(1, pages[1], link(pages[2]))
    cluster.settle()
    cluster.fetch(1, pages[2])  # it came after the first page, but the server likes it better
    cluster.fetch(1, pages[0])


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
