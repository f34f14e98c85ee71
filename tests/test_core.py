"""The core of several ranks, event by event, and then in every order that chance finds."""

import random

import pytest
from cluster import Cluster, Listed, few_examples, link, run, settings
from hypothesis import given
from hypothesis import strategies as st
from slow_seen import stores
from worlds import (
    MakeCluster,
    World,
    assert_each_url_has_one_outcome,
    assert_every_url_once,
    assert_limit_is_met,
    assert_stop_doubles_nothing,
    redirect,
)

from crawler import url
from crawler.core.foreign import pair_hash
from crawler.core.schemes import Hierarchical, Scheme, SiteHash, UrlHash
from crawler.messages import Batch, Report, Sums
from crawler.ports import OUT_OF_SCOPE, REDIRECT, CrawlUrl, Failure
from crawler.reading.reader import MAX_REDIRECTS, redirect_failure

A, B, C = "http://a.example", "http://b.example", "http://c.example"
SITE_A, SITE_B, SITE_C = map(url.site, (A, B, C))
THREE = Listed(3, {SITE_A: 0, SITE_B: 1, SITE_C: 2})


def site_of_registrar(cluster: Cluster, rank: int) -> str:
    """The authority of an unlisted site that the rank decides about."""
    names = (f"http://unlisted-{number}.example" for number in range(1000))
    registrar = cluster.cores[0].ownership.registrar
    return next(name for name in names if registrar(url.site(name)) == rank)


# --- seeds and links --------------------------------------------------------------------------


def test_a_seed_starts_at_its_owner_only_and_is_sent_by_nobody() -> None:
    cluster = Cluster(THREE, 3)
    cluster.start(f"{A}/", f"{B}/", f"{B}/x", f"{A}/")
    assert [core.waiting for core in cluster.cores] == [1, 2, 0]
    assert cluster.batches() == []
    assert cluster.cores[0].traffic.inter_part_links == 0
    assert cluster.acquire(0) == f"{A}/"
    assert cluster.visits[0][0].found == CrawlUrl(
        url.key(f"{A}/"), f"{A}/", SITE_A, hops=0, chain=()
    )


def test_a_seed_out_of_scope_starts_nowhere() -> None:
    cluster = Cluster(THREE, 3)
    for core in cluster.cores:
        core.start([link(f"{A}/", OUT_OF_SCOPE)], 0)
        assert core.waiting == 0


def test_own_links_are_queued_and_others_go_to_their_owner_once() -> None:
    cluster = Cluster(THREE, 3)
    cluster.start(f"{A}/")
    links = [link(f"{A}/x"), link(f"{B}/x"), link(f"{B}/y"), link(f"{C}/"), link(f"{A}/")]
    cluster.fetch(0, f"{A}/", *links)
    traffic = cluster.cores[0].traffic
    assert (traffic.inter_part_links, traffic.inter_part_urls) == (3, 3)
    assert traffic.messages_page_part == 2  # this page to ranks 1 and 2
    assert cluster.cores[0].waiting == 1
    cluster.fetch(0, f"{A}/x", link(f"{B}/x"), link(f"{A}/"))
    assert (traffic.inter_part_links, traffic.inter_part_urls) == (4, 3)  # sent before
    assert traffic.messages_page_part == 3
    assert traffic.site_part == {pair_hash(SITE_A, 1), pair_hash(SITE_A, 2)}
    sent = [(receiver, batch.urls) for _, receiver, batch in cluster.batches()]
    assert sent == [(1, [f"{B}/x", f"{B}/y"]), (2, [f"{C}/"])]
    cluster.settle()
    assert [core.waiting for core in cluster.cores] == [0, 2, 1]


def test_links_out_of_scope_are_not_followed() -> None:
    cluster = Cluster(THREE, 3)
    cluster.start(f"{A}/")
    cluster.fetch(0, f"{A}/", link(f"{A}/x", OUT_OF_SCOPE), link(f"{B}/", OUT_OF_SCOPE))
    assert cluster.complete
    assert cluster.cores[0].traffic.inter_part_links == 0


def test_max_hops_counts_links_across_ranks() -> None:
    cluster = Cluster(THREE, 3, settings("scope.max_hops=2"))
    cluster.start(f"{A}/")
    cluster.fetch(0, f"{A}/", link(f"{B}/"))
    cluster.settle()
    cluster.fetch(1, f"{B}/", link(f"{C}/"))
    cluster.settle()
    cluster.fetch(2, f"{C}/", link(f"{C}/too-far"), link(f"{A}/too-far"))
    cluster.settle()
    assert cluster.ended
    assert cluster.complete


def test_back_links_are_counted_until_the_batch_leaves() -> None:
    cluster = Cluster(THREE, 3)
    cluster.start(f"{A}/1", f"{A}/2", f"{A}/3")
    for number in (1, 2, 3):
        cluster.fetch(0, f"{A}/{number}", link(f"{B}/"))
    ((_, _, batch),) = cluster.batches()
    assert (batch.urls, batch.counts) == ([f"{B}/"], [3])


# --- redirects --------------------------------------------------------------------------------


def test_a_redirect_is_no_hop_and_its_chain_travels_in_batches() -> None:
    cluster = Cluster(THREE, 3, settings("scope.max_hops=1"))
    cluster.start(f"{A}/")
    cluster.fetch(0, f"{A}/", link(f"{A}/r"))
    for rank, address, target in ((0, f"{A}/r", f"{B}/r"), (1, f"{B}/r", f"{C}/r")):
        cluster.fetch(rank, address, link(target, REDIRECT))
        cluster.settle()
    assert cluster.acquire(2) == f"{C}/r"
    found = cluster.visits[2][0].found
    assert found.hops == 1
    assert found.chain == (url.key(f"{A}/r"), url.key(f"{B}/r"))


def test_a_link_from_the_end_of_a_chain_has_no_chain() -> None:
    cluster = Cluster(THREE, 3)
    cluster.start(f"{A}/r")
    cluster.fetch(0, f"{A}/r", link(f"{A}/page", REDIRECT))
    cluster.fetch(0, f"{A}/page", link(f"{A}/next"))
    assert cluster.acquire(0) == f"{A}/next"
    assert cluster.visits[0][0].found.chain == ()


def test_a_redirect_loop_over_ranks_is_found_where_it_closes() -> None:
    cluster = Cluster(THREE, 3)
    cluster.start(f"{A}/r")
    cluster.fetch(0, f"{A}/r", link(f"{B}/r", REDIRECT))
    cluster.settle()
    assert cluster.acquire(1) == f"{B}/r"
    found = cluster.visits[1][0].found
    assert redirect_failure(found, url.key(f"{A}/r")) is Failure.REDIRECT_LOOP
    assert redirect_failure(found, url.key(f"{B}/r")) is Failure.REDIRECT_LOOP
    assert redirect_failure(found, url.key(f"{C}/r")) is None


@pytest.mark.parametrize("scheme", [SiteHash(1), UrlHash(3)])
def test_a_chain_of_redirects_is_followed_so_far_and_no_further(scheme: Scheme) -> None:
    cluster = Cluster(scheme, scheme.parts)
    cluster.start(f"{A}/0")
    asked = run(
        cluster,
        random.Random(0),
        lambda visit: (redirect(visit, f"{A}/{int(visit.found.url.rpartition('/')[2]) + 1}"), True),
    )
    assert {address for _, address in asked} == {
        f"{A}/{number}" for number in range(MAX_REDIRECTS + 1)
    }
    assert len(asked) == MAX_REDIRECTS + 1


# --- what was sent before ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("remember", "sent"),
    [
        ("exchange.remember=all", [["x"], [], [], ["y"], []]),
        ("exchange.remember=cache", [["x"], [], [], ["y"], ["x"]]),
        ("exchange.remember=batch", [["x"], ["x"], ["x"], ["y"], ["x"]]),
    ],
)
def test_what_is_remembered_is_not_sent_again(remember: str, sent: list[list[str]]) -> None:
    """Five pages, each with one link to the other rank; every batch holds the links of one."""
    cluster = Cluster(
        THREE, 3, settings(remember, "exchange.cache_urls=1", "exchange.batch_pages=1")
    )
    cluster.start(*(f"{A}/{number}" for number in range(5)))
    batches = []
    for number, name in enumerate("xxxyx"):
        cluster.fetch(0, f"{A}/{number}", link(f"{B}/{name}"))
        batches.append([u.removeprefix(f"{B}/") for _, _, b in cluster.batches() for u in b.urls])
        cluster.settle()
    assert batches == sent
    assert cluster.cores[0].traffic.inter_part_urls == sum(map(len, sent))
    assert cluster.cores[0].traffic.inter_part_links == 5
    assert cluster.cores[1].waiting == 2  # x and y, however often they came


def test_a_batch_holds_a_url_once_whatever_is_remembered() -> None:
    cluster = Cluster(THREE, 3, settings("exchange.remember=batch"))
    cluster.start(f"{A}/1", f"{A}/2")
    cluster.fetch(0, f"{A}/1", link(f"{B}/"))
    cluster.fetch(0, f"{A}/2", link(f"{B}/"))
    ((_, _, batch),) = cluster.batches()
    assert (batch.urls, batch.counts) == ([f"{B}/"], [2])
    assert cluster.cores[0].traffic.inter_part_urls == 1


# --- claims -----------------------------------------------------------------------------------


def test_the_urls_of_an_unlisted_site_are_held_until_its_registrar_answers() -> None:
    cluster = Cluster(THREE, 3)
    site = site_of_registrar(cluster, 2)
    cluster.start(f"{A}/")
    cluster.fetch(0, f"{A}/", link(f"{site}/1"), link(f"{site}/2"), link(f"{site}/1"))
    core = cluster.cores[0]
    assert core.waiting == 0
    assert not core.complete
    assert cluster.batches() == [(0, 2, Batch(claims=[url.site(site)], load=1))]
    cluster.deliver(cluster.flights[-1])
    assert cluster.batches() == [(2, 0, Batch(grants={url.site(site): 0}))]
    cluster.settle()
    assert core.waiting == 2
    assert core.traffic.inter_part_links == 0
    assert cluster.cores[1].ownership.owner(link(f"{site}/")) is None  # nobody asked


def test_a_registrar_keeps_the_sites_that_it_discovers_itself() -> None:
    cluster = Cluster(THREE, 3)
    site = site_of_registrar(cluster, 0)
    cluster.start(f"{A}/")
    cluster.fetch(0, f"{A}/", link(f"{site}/"))
    assert cluster.batches() == []
    assert cluster.acquire(0) == f"{site}/"


def test_the_second_to_claim_sends_its_urls_to_the_first() -> None:
    cluster = Cluster(THREE, 3)
    site = site_of_registrar(cluster, 2)
    cluster.start(f"{A}/", f"{B}/")
    cluster.fetch(0, f"{A}/", link(f"{site}/0"))
    cluster.fetch(1, f"{B}/", link(f"{site}/1"), link(f"{site}/2"))
    cluster.settle()
    assert [core.waiting for core in cluster.cores] == [3, 0, 0]
    traffic = cluster.cores[1].traffic
    assert (traffic.inter_part_urls, traffic.messages_page_part) == (2, 1)  # counted for the page
    assert traffic.site_part == {pair_hash(SITE_B, 0)}


def test_a_url_may_come_before_the_grant() -> None:
    """Rank 1 learns that the site is rank 0's, and its URL overtakes the registrar's answer."""
    cluster = Cluster(THREE, 3)
    site = site_of_registrar(cluster, 2)
    cluster.start(f"{A}/", f"{B}/")
    cluster.fetch(0, f"{A}/", link(f"{site}/0"))
    cluster.fetch(1, f"{B}/", link(f"{site}/1"))
    for flight in list(cluster.flights):
        if isinstance(flight.message, Batch):
            cluster.deliver(flight)  # both claims
    to_0, to_1 = (
        next(f for f in cluster.flights if f.receiver == rank and isinstance(f.message, Batch))
        for rank in (0, 1)
    )
    cluster.deliver(to_1)
    urls = next(f for f in cluster.flights if f.sender == 1 and isinstance(f.message, Batch))
    assert urls.receiver == 0
    cluster.deliver(urls)
    assert cluster.cores[0].waiting == 2  # the one received, and the one held
    cluster.deliver(to_0)  # says nothing new
    assert cluster.cores[0].waiting == 2
    assert cluster.cores[0].complete is False
    assert cluster.cores[0].ownership.owner(link(f"{site}/")) == 0


def test_ranks_tell_their_loads_as_they_grow() -> None:
    """Their sites have no links to each other, so no batch would leave otherwise."""
    cluster = Cluster(THREE, 3)
    cluster.start(*(f"{A}/{number}" for number in range(30)))
    cluster.now += 1
    cluster.tick(0)
    assert cluster.batches() == [(0, other, Batch(load=30)) for other in (1, 2)]
    cluster.settle()
    cluster.fetch(0, f"{A}/0", *(link(f"{A}/more{number}") for number in range(21)))
    cluster.now += 1
    cluster.tick(0)
    assert cluster.batches() == []  # 51 URLs; the next batch leaves when there are more than 51.5
    cluster.fetch(0, f"{A}/1", link(f"{A}/one-more"))
    cluster.now += 1
    cluster.tick(0)
    assert [batch.load for _, _, batch in cluster.batches()] == [52, 52]


def test_a_site_may_be_granted_to_a_rank_that_did_not_claim_it() -> None:
    cluster = Cluster(THREE, 3)
    site = site_of_registrar(cluster, 2)
    cluster.start(*(f"{A}/{number}" for number in range(1000)))
    cluster.fetch(0, f"{A}/0", link(f"{site}/"))
    for number in range(1, 65):  # the batch of 64 pages leaves
        cluster.fetch(0, f"{A}/{number}")
    while cluster.batches():
        cluster.settle()
        cluster.now += 1
        for rank in range(3):
            cluster.tick(rank)
    # Rank 0 had 1,000 URLs to fetch when it claimed, the others none.
    owners = [core.ownership.owner(link(f"{site}/")) for core in cluster.cores]
    assert owners == [1, 1, 1]
    assert cluster.cores[1].waiting == 1


def test_a_registrar_over_its_share_does_not_load_one_rank_with_all_it_gives_away() -> None:
    """Rank 0 decides about hundreds of sites; their URLs reach the others only later."""
    ranks = 4
    cluster = Cluster(Listed(ranks, {SITE_A: 0}), ranks)
    names = (f"http://unlisted-{number}.example" for number in range(10_000))
    own = [n for n in names if cluster.cores[0].ownership.registrar(n) == 0][:600]
    cluster.start(*(f"{site}/" for site in own))
    cluster.settle()
    cluster.now += 1
    cluster.tick(0)
    cluster.settle()
    loads = [core._backlog.enqueued for core in cluster.cores]
    assert sum(loads) == 600
    assert max(loads) <= 1.1 * 600 / ranks + 100


# --- page quota -------------------------------------------------------------------------------


def test_quota_is_asked_for_granted_returned_and_granted_again() -> None:
    cluster = Cluster(THREE, 3, settings("session.max_pages=1"))
    cluster.start(f"{B}/", f"{C}/")
    assert cluster.acquire(1) is None
    assert cluster.acquire(2) is None
    first, second = (flight for flight in cluster.flights if isinstance(flight.message, Batch))
    assert cluster.deliver(first) == Batch(load=1, ask=True)
    cluster.deliver(second)
    ((_, to, allow),) = cluster.batches()
    assert (to, allow.allow) == (1, 1)
    cluster.settle()
    assert cluster.acquire(1) == f"{B}/"
    cluster.end(1, response=False)  # no page: the quota is still there, and rank 1 has no URL
    cluster.settle()
    assert cluster.acquire(1) is None
    assert cluster.acquire(2) == f"{C}/"
    cluster.end(2)
    cluster.settle()
    assert cluster.ended
    assert cluster.complete


def test_rank_0_does_not_keep_quota_that_it_asked_for_and_no_longer_needs() -> None:
    """Both its pages fail while rank 1 waits for the only page of quota."""
    cluster = Cluster(Listed(2, {SITE_A: 0, SITE_B: 1}), 2, settings("session.max_pages=1"))
    cluster.start(f"{A}/1", f"{A}/2", f"{B}/")
    assert cluster.acquire(0) == f"{A}/1"
    assert cluster.acquire(0) is None  # rank 0 waits in its own queue
    assert cluster.acquire(1) is None
    cluster.settle()
    cluster.end(0, response=False)
    assert cluster.acquire(0) == f"{A}/2"
    cluster.end(0, response=False)
    cluster.settle()
    assert not cluster.ended
    assert cluster.acquire(1) == f"{B}/"
    cluster.end(1)
    cluster.settle()
    assert cluster.ended
    assert cluster.complete


def test_a_used_up_limit_ends_the_crawl_incomplete() -> None:
    cluster = Cluster(THREE, 3, settings("session.max_pages=2"))
    cluster.start(f"{A}/")
    cluster.fetch(0, f"{A}/", link(f"{A}/x"), link(f"{B}/"), link(f"{C}/"))
    cluster.settle()
    asked = [address for rank in range(3) if (address := cluster.acquire(rank))]
    cluster.settle()
    assert not cluster.ended  # the second page is still being fetched
    assert len(asked) == 1
    for rank in range(3):
        if cluster.visits[rank]:
            cluster.end(rank)
    for _ in range(3):
        for rank in range(3):
            assert cluster.acquire(rank) is None
        cluster.settle()
    assert cluster.ended
    assert not cluster.complete


# --- stop and end -----------------------------------------------------------------------------


def test_a_stop_reaches_every_rank_and_ends_the_crawl() -> None:
    cluster = Cluster(THREE, 3)
    cluster.start(f"{A}/1", f"{A}/2", f"{B}/1", f"{B}/2", f"{C}/1", f"{C}/2")
    for rank in range(3):
        assert cluster.acquire(rank)
    cluster.stop(1)
    cluster.stop(1)  # a second signal changes nothing
    assert [(receiver, batch.stop) for _, receiver, batch in cluster.batches()] == [
        (0, True),
        (2, True),
    ]
    cluster.settle()
    assert [core.halt.stopping for core in cluster.cores] == [True] * 3
    assert [cluster.acquire(rank) for rank in range(3)] == [None] * 3
    assert not cluster.ended
    for rank in range(3):
        cluster.end(rank, [link(f"{A}/new")])  # what was under way still counts
    cluster.settle()
    assert cluster.ended
    assert not cluster.complete
    assert cluster.cores[0].waiting == 2


@pytest.mark.parametrize("connections", [1, 2])
def test_a_visit_that_has_not_begun_at_a_stop_is_given_back(connections: int) -> None:
    cluster = Cluster(SiteHash(1), 1, settings(f"politeness.connections_per_site={connections}"))
    cluster.start(f"{A}/1", f"{B}/1")
    core = cluster.cores[0]
    visits = [core.acquire(0), core.acquire(0)]
    assert not any(core.declines(visit, 0) for visit in visits if visit)  # nothing stops yet
    cluster.stop(0)
    first, second = visits
    assert first
    assert second
    assert not core.begin(first, 0)
    assert core.declines(second, 0)
    cluster.tick(0)
    assert cluster.ended
    assert not cluster.complete
    assert core.waiting == 2
    assert core.resumption.state() is not None  # for a snapshot


def test_one_rank_without_a_seed_ends_at_once() -> None:
    cluster = Cluster(SiteHash(1), 1)
    cluster.start()
    assert cluster.ended
    assert cluster.complete


def test_a_rank_reports_only_while_it_has_nothing_to_do() -> None:
    cluster = Cluster(THREE, 3)
    cluster.start(f"{B}/")
    reports = [flight.sender for flight in cluster.flights]
    assert reports == [2]  # rank 0 keeps its own, and rank 1 has a URL
    assert cluster.acquire(1) == f"{B}/"
    cluster.settle()
    assert not cluster.ended
    cluster.end(1)
    assert [type(flight.message) for flight in cluster.flights] == [Report]
    cluster.deliver(cluster.flights[0])
    assert [flight.message for flight in cluster.flights] == [Sums(0, 0, 0)] * 2
    cluster.settle()
    assert cluster.ended


def test_a_stop_after_the_end_changes_nothing() -> None:
    cluster = Cluster(THREE, 3)
    cluster.start(f"{A}/")
    cluster.fetch(0, f"{A}/")
    cluster.settle()
    assert cluster.ended
    cluster.cores[1].halt.stop(0)
    assert cluster.complete


# --- in any order -----------------------------------------------------------------------------


def scheme_for(world: World, ranks: int, dice: random.Random) -> Scheme:
    parts = ranks + dice.choice([0, 0, 1, ranks])  # more parts than ranks, too
    listed = {site: number % parts for site, number in world.listed.items()}
    kinds: list[Scheme] = [
        UrlHash(parts),
        SiteHash(parts),
        Hierarchical({"1.example": parts - 1}, parts),
        Listed(parts, listed),
        Listed(parts, listed),  # claims are where the surprises are
    ]
    return dice.choice(kinds)


def clusters(ranks: int, dice: random.Random, *overrides: str, late: bool = False) -> MakeCluster:
    def make(world: World, *more: str) -> Cluster:
        chosen = settings(
            *overrides, *more, f"politeness.connections_per_site={dice.choice([1, 2])}"
        )
        scheme = scheme_for(world, ranks, dice)
        return Cluster(scheme, ranks, chosen, make_seen=stores(dice, late=late))

    return make


@pytest.mark.parametrize("late", [False, True])
@few_examples
@given(st.integers(0, 2**32), st.integers(1, 7), st.sampled_from(["claim", "claim", "site-hash"]))
def test_every_url_once_and_no_early_end(late: bool, seed: int, ranks: int, unlisted: str) -> None:
    dice = random.Random(seed)
    overrides = [
        f"assignment.unlisted={unlisted}",
        f"exchange.batch_pages={dice.choice([1, 3, 64])}",
        f"politeness.delay_s={dice.choice([0, 1])}",
        f"exchange.remember={dice.choice(['all', 'cache', 'batch'])}",
        "exchange.cache_urls=2",
    ]
    cluster, asked = assert_every_url_once(dice, clusters(ranks, dice, *overrides, late=late))
    for rank, address in asked:
        assert cluster.cores[rank].ownership.owner(link(address)) == rank


@pytest.mark.parametrize("late", [False, True])
@few_examples
@given(st.integers(0, 2**32), st.integers(1, 7), st.integers(1, 20))
def test_the_limit_is_met_exactly_and_failures_do_not_count(
    late: bool, seed: int, ranks: int, limit: int
) -> None:
    dice = random.Random(seed)
    assert_limit_is_met(dice, clusters(ranks, dice, late=late), limit)


@pytest.mark.parametrize("late", [False, True])
@few_examples
@given(st.integers(0, 2**32), st.integers(1, 7), st.integers(0, 150))
def test_a_stop_at_any_moment_ends_the_crawl_and_doubles_nothing(
    late: bool, seed: int, ranks: int, moment: int
) -> None:
    dice = random.Random(seed)
    assert_stop_doubles_nothing(dice, clusters(ranks, dice, late=late), moment)


# --- failures ---------------------------------------------------------------------------------


def test_a_failed_url_is_pending_until_its_last_try() -> None:
    cluster = Cluster(THREE, 3, settings("retry.tries=2", "retry.base_s=5"))
    cluster.start(f"{A}/")
    assert cluster.acquire(0) == f"{A}/"
    assert not cluster.fail(0, Failure.REFUSED)
    cluster.settle()
    assert not cluster.ended
    assert not cluster.complete
    assert cluster.acquire(0) is None
    cluster.now = 6.25  # and up to a quarter more than 5
    assert cluster.acquire(0) == f"{A}/"
    assert cluster.visits[0][0].retries == 1
    assert cluster.fail(0, Failure.REFUSED)
    cluster.settle()
    assert cluster.ended
    assert cluster.complete
    assert cluster.cores[0].retries == 1


@pytest.mark.parametrize(
    ("failure", "final"),
    [
        (Failure.REFUSED, False),
        (Failure.DNS_FAILED, False),
        (Failure.TIMEOUT, False),
        (Failure.UNAVAILABLE, False),
        (Failure.ROBOTS_UNREACHABLE, False),
        (Failure.DNS_NOT_FOUND, True),
        (Failure.PRIVATE_ADDRESS, True),
        (Failure.BAD_HTTP, True),
    ],
)
def test_what_passes_is_tried_again_and_what_does_not_is_final(
    failure: Failure, final: bool
) -> None:
    cluster = Cluster(THREE, 3)
    cluster.start(f"{A}/")
    cluster.acquire(0)
    assert cluster.fail(0, failure) == final
    assert cluster.cores[0].waiting == (not final)


def test_a_retry_needs_no_second_page_of_quota() -> None:
    cluster = Cluster(SiteHash(1), 1, settings("session.max_pages=1"))
    cluster.start(f"{A}/", f"{B}/")
    assert cluster.acquire(0) == f"{A}/"
    assert not cluster.fail(0, Failure.REFUSED)
    assert cluster.acquire(0) == f"{B}/"
    cluster.end(0)
    cluster.now = 2
    assert cluster.acquire(0) is None
    assert cluster.ended


def test_a_host_that_keeps_failing_is_given_up_with_what_is_found_later() -> None:
    cluster = Cluster(THREE, 3, settings("retry.tries=1", "retry.give_up_after=2"))
    cluster.start(f"{A}/0", f"{A}/1", f"{A}/2", f"{B}/")
    core = cluster.cores[0]
    for number in (0, 1):
        cluster.now = core.next_visit_time() or 0
        assert cluster.acquire(0) == f"{A}/{number}"
        assert core.refusal(cluster.visits[0][0]) is None
        cluster.fail(0, Failure.REFUSED)
    cluster.fetch(1, f"{B}/", link(f"{A}/3"))
    cluster.settle()
    for number in (2, 3):
        assert cluster.acquire(0) == f"{A}/{number}"  # at once: nobody is asked
        assert core.refusal(cluster.visits[0][0]) is Failure.SITE_GIVEN_UP
        assert cluster.fail(0, Failure.SITE_GIVEN_UP)
    cluster.settle()
    assert cluster.ended


def test_one_answer_makes_a_host_as_good_as_new() -> None:
    cluster = Cluster(SiteHash(1), 1, settings("retry.tries=1", "retry.give_up_after=2"))
    cluster.start(*(f"{A}/{number}" for number in range(4)))
    core = cluster.cores[0]
    for works in (False, True, False, True):
        cluster.now = core.next_visit_time() or 0
        assert cluster.acquire(0)
        assert core.refusal(cluster.visits[0][0]) is None
        if works:
            cluster.end(0)
        else:
            cluster.fail(0, Failure.TIMEOUT)
    assert cluster.ended


@few_examples
@given(st.integers(0, 2**32), st.integers(1, 5))
def test_whatever_fails_every_url_has_one_outcome_and_the_end_is_exact(
    seed: int, ranks: int
) -> None:
    dice = random.Random(seed)
    assert_each_url_has_one_outcome(dice, clusters(ranks, dice))


# --- traps at the owner -----------------------------------------------------------------------


def test_a_trap_is_held_at_its_cap_and_other_sites_are_not() -> None:
    cluster = Cluster(THREE, 3, settings("traps.max_urls_per_site=3"))
    cluster.start(f"{A}/")
    cluster.fetch(0, f"{A}/", *(link(f"{site}/{n}") for site in (A, B) for n in range(5)))
    cluster.now = 1
    cluster.tick(0)
    cluster.settle()
    assert cluster.cores[0].waiting == 2  # with the seed three
    assert cluster.cores[1].waiting == 3
    assert [core.door._traps.fired["max_urls_per_site"] for core in cluster.cores] == [3, 2, 0]
    assert cluster.cores[0].traffic.inter_part_urls == 5


def test_links_too_far_from_a_seed_are_not_followed() -> None:
    cluster = Cluster(SiteHash(1), 1, settings("traps.max_depth=2"))
    cluster.start(f"{A}/0")
    for number in range(3):
        cluster.fetch(0, f"{A}/{number}", link(f"{A}/{number + 1}"))
    assert cluster.ended
    assert cluster.cores[0].door._traps.fired == {"max_depth": 1}


def test_replicated_urls_are_sent_to_nobody_and_count_for_nothing() -> None:
    popular = [link("http://b.example/"), link("http://c.example/", OUT_OF_SCOPE)]
    sites = {SITE_A: 0, SITE_B: 1, SITE_C: 1}
    cluster = Cluster(Listed(2, sites), 2, settings())
    for core in cluster.cores:
        core.start([link("http://a.example/")], cluster.now, popular)
    cluster.fetch(0, "http://a.example/", *popular, link("http://b.example/other"))
    cluster.fetch(1, "http://b.example/")  # its owner has it from the start
    cluster.settle()
    cluster.fetch(1, "http://b.example/other")
    traffic = cluster.cores[0].traffic
    assert (traffic.inter_part_urls, traffic.inter_part_links) == (1, 1)
    assert traffic.messages_page_part == 1


@pytest.mark.parametrize("order", ["breadth-first", "backlinks"])
def test_the_owner_of_a_sitemap_hears_of_all_who_name_it_even_if_it_was_sent_before(
    order: str,
) -> None:
    cluster = Cluster(THREE, 3, settings(f"frontier.order={order}"))
    cluster.start(f"{A}/")
    sitemap = link(f"{B}/sitemap.xml")
    cluster.fetch(0, f"{A}/", sitemap)  # a plain link
    cluster.settle()
    for rank, authority in ((0, A), (2, C), (0, C), (0, A)):
        core = cluster.cores[rank]
        cluster.declared[rank].declare(sitemap.key, authority)
        core.door.introduce([sitemap], cluster.now)
        cluster.tick(rank)
        cluster.settle()
    assert cluster.declared[1].as_dict() == {sitemap.key: tuple(sorted((A, C)))}
    assert cluster.acquire(1) == sitemap.url
    cluster.end(1)
    cluster.settle()
    assert cluster.ended
