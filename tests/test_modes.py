"""The modes of a parallel crawl: what each fetches, whatever the order of things."""

import random
from collections.abc import Sequence
from typing import get_args

import numpy as np
import pytest
from cluster import Cluster, Listed, few_examples, link, run, settings
from hypothesis import given
from hypothesis import strategies as st
from slow_seen import stores
from webs import Setting, crawls, exact, reachable

from crawler import config, url
from crawler.core.ownership import Ownership
from crawler.core.schemes import SiteHash, UrlHash, place_parts
from crawler.core.visits import Visit
from crawler.modes import mode_of
from crawler.ports import REDIRECT, Failure, Link
from crawler.reading.reader import redirect_failure
from crawler.simulate import Simulation, Web

MODES = ("exchange", "firewall", "cross-over", "independent")
A, B, C = "http://a.example", "http://b.example", "http://c.example"
SITE_A, SITE_B, SITE_C = map(url.site, (A, B, C))
THREE = Listed(3, {SITE_A: 0, SITE_B: 1, SITE_C: 2})


def test_every_mode_that_can_be_configured_is_a_mode() -> None:
    names = get_args(config.Session.all_keys["mode"].kind)
    modes = [mode_of(settings(f"session.mode={name}")) for name in names]
    assert [mode.name for mode in modes] == list(names) == list(MODES)
    assert [mode.name for mode in modes if mode.overlaps] == ["cross-over", "independent"]
    with pytest.raises(AttributeError):
        modes[0].sends = False  # type: ignore[misc]


# --- what each mode has to fetch --------------------------------------------------------------


def expected(setting: Setting, mode: str) -> list[set[int]]:
    """The pages that each rank fetches if nothing stops it, by the definitions of the modes.

    For exchange the URLs' owners must be known beforehand, so there must be no claims.
    """
    web, ranks = setting.web, setting.ranks
    table = place_parts(setting.scheme, ranks)
    unlisted = next(o for o in setting.options if "unlisted" in o).partition("=")[2]
    its = mode_of(settings(f"session.mode={mode}"))
    result = []
    for rank in range(ranks):
        ownership = Ownership(rank, setting.scheme, table, unlisted, its)
        own = {page for page in range(len(web)) if ownership.owner(web.links[page]) == rank}
        first = [page for page in setting.seeds if ownership.starts(web.links[page])]
        match mode:
            case "exchange":
                result.append(reachable(web, setting.seeds) & own)
            case "firewall":
                result.append(reachable_within(web, first, own))
            case "cross-over":
                result.append(reachable(web, first))
            case _:
                result.append(reachable(web, setting.seeds[rank::ranks]))
    return result


def reachable_within(web: Web, seeds: Sequence[int], own: set[int]) -> set[int]:
    """What can be reached from the seeds without leaving some pages."""
    reached, todo = set(seeds), list(seeds)
    while todo:
        new = {web.pages[out.key] for out in web.out_links[todo.pop()]} & own - reached
        reached |= new
        todo += new
    return reached


def without_claims(setting: Setting) -> bool:
    return "assignment.unlisted=claim" not in setting.options or not isinstance(
        setting.scheme, Listed
    )


@few_examples
@given(crawls(), st.sampled_from(MODES[1:]))
def test_each_rank_fetches_what_its_mode_says_once(setting: Setting, mode: str) -> None:
    simulation = setting.simulation(f"session.mode={mode}")
    simulation.run(setting.seeds)
    assert all(core.ended and core.complete for core in simulation.cores)
    for pages, its in zip(simulation.fetched, expected(setting, mode), strict=True):
        assert sorted(pages) == sorted(its)


@few_examples
@given(crawls(), st.sampled_from(MODES[1:]))
def test_without_exchange_nothing_is_sent_and_every_inter_part_link_counted(
    setting: Setting, mode: str
) -> None:
    simulation = setting.simulation(f"session.mode={mode}")
    simulation.run(setting.seeds)
    for core, pages in zip(simulation.cores, simulation.fetched, strict=True):
        traffic, mine = core.traffic, core.ownership
        foreign = [
            mine.owner(out) != core.rank for page in pages for out in setting.web.out_links[page]
        ]
        assert traffic.inter_part_links == sum(foreign)
        assert traffic.dropped_links == (sum(foreign) if mode == "firewall" else 0)
        crossed = [page for page in pages if mine.owner(setting.web.links[page]) != core.rank]
        assert traffic.inter_part_pages == len(crossed)
        assert mode == "cross-over" or not crossed
        nothing = (traffic.inter_part_urls, traffic.messages_page_part, traffic.claims)
        assert nothing == (0, 0, 0)
        if not mine.shares_sites:  # else clocks of sites travel
            assert traffic.batches_sent == traffic.batches_received == 0


@few_examples
@given(crawls().filter(exact))
def test_firewall_has_no_overlap_and_cross_over_misses_nothing(setting: Setting) -> None:
    """Exchange has neither fault; independent ranks miss nothing either."""
    fetched = {}
    for mode in MODES:
        simulation = setting.simulation(f"session.mode={mode}")
        simulation.run(setting.seeds)
        fetched[mode] = [page for pages in simulation.fetched for page in pages]
    everything = reachable(setting.web, setting.seeds)
    for mode in ("exchange", "firewall"):
        assert len(set(fetched[mode])) == len(fetched[mode])
    for mode in ("exchange", "cross-over", "independent"):
        assert set(fetched[mode]) == everything
    assert set(fetched["firewall"]) <= everything


# --- in any order, with limits, stops and failures --------------------------------------------


@few_examples
@given(crawls().filter(without_claims), st.sampled_from(MODES), st.integers(1, 70))
def test_max_pages_is_met_exactly_in_every_mode(setting: Setting, mode: str, limit: int) -> None:
    simulation = setting.simulation(f"session.mode={mode}", f"session.max_pages={limit}")
    simulation.run(setting.seeds)
    everything = expected(setting, mode)
    if mode == "exchange" and not exact(setting):
        return  # whoever finds a new page fetches it: how often depends on time
    assert sum(map(len, simulation.fetched)) == min(limit, sum(map(len, everything)))
    for pages, its in zip(simulation.fetched, everything, strict=True):
        assert len(set(pages)) == len(pages)
        assert set(pages) <= its
    done = limit >= sum(map(len, everything))
    assert all(core.complete for core in simulation.cores) == done


@few_examples
@given(crawls(), st.sampled_from(MODES[1:]), st.floats(0, 5), st.integers(0, 6))
def test_a_stop_ends_every_mode(setting: Setting, mode: str, moment: float, rank: int) -> None:
    simulation = setting.simulation(f"session.mode={mode}")
    simulation.run(setting.seeds, stop_at=(moment, rank % setting.ranks))
    everything = expected(setting, mode)
    for pages, its in zip(simulation.fetched, everything, strict=True):
        assert len(set(pages)) == len(pages)
        assert set(pages) <= its
    done = sum(map(len, simulation.fetched)) == sum(map(len, everything))
    assert all(core.complete for core in simulation.cores) == done


@pytest.mark.parametrize("late", [False, True])
@few_examples
@given(crawls(), st.sampled_from(MODES[1:]), st.integers(0, 2**32))
def test_the_end_is_exact_whatever_overtakes_what_and_whatever_fails(
    late: bool, setting: Setting, mode: str, seed: int
) -> None:
    """`run` asserts that no core ends while anything is under way."""
    dice = random.Random(seed)
    web = setting.web
    number = {web.links[page].key: page for page in range(len(web))}
    unlisted = next(option for option in setting.options if "unlisted" in option)
    cluster = Cluster(
        setting.scheme,
        setting.ranks,
        settings(unlisted, f"session.mode={mode}", "retry.tries=9", "retry.give_up_after=0"),
        make_seen=stores(dice, late=late),
    )
    cluster.start(*(web.url(page) for page in setting.seeds))

    def answer(visit: Visit) -> tuple[list[Link], bool]:
        return web.out_links[number[visit.found.key]], dice.random() < 0.9

    asked = run(cluster, dice, answer, retries=0.2, failures=0.1)
    for rank, its in enumerate(expected(setting, mode)):
        assert sorted(u for r, u in asked if r == rank) == sorted(web.url(page) for page in its)
    assert cluster.complete


# --- firewall ---------------------------------------------------------------------------------


def test_a_firewall_drops_links_redirects_and_nothing_else() -> None:
    cluster = Cluster(THREE, 3, settings("session.mode=firewall"))
    cluster.start(f"{A}/", f"{B}/")
    cluster.fetch(0, f"{A}/", link(f"{A}/r"), link(f"{B}/x"), link(f"{B}/x"), link(f"{C}/"))
    cluster.fetch(0, f"{A}/r", link(f"{B}/r", REDIRECT))
    cluster.fetch(1, f"{B}/")
    cluster.settle()
    assert cluster.ended
    assert cluster.complete
    assert [core.traffic.dropped_links for core in cluster.cores] == [4, 0, 0]
    assert [core.pages for core in cluster.cores] == [2, 1, 0]


@pytest.mark.parametrize("mode", ["firewall", "cross-over"])
def test_a_site_that_no_table_knows_goes_by_its_hash_where_there_are_no_claims(mode: str) -> None:
    cluster = Cluster(THREE, 3, settings(f"session.mode={mode}"))
    ranks = [core.ownership for core in cluster.cores]
    for number in range(50):
        its = link(f"http://new-{number}.example/")
        owner = SiteHash(3).part(its.key, its.site)
        assert [known.owner(its) for known in ranks] == [owner] * 3
        assert [known.starts(its) for known in ranks] == [rank == owner for rank in range(3)]


def test_behind_a_firewall_the_thesis_rule_keeps_new_sites_where_they_are_found() -> None:
    cluster = Cluster(THREE, 3, settings("session.mode=firewall", "assignment.unlisted=discoverer"))
    cluster.start(f"{A}/", f"{B}/")
    for rank, address in ((0, f"{A}/"), (1, f"{B}/")):
        cluster.fetch(rank, address, link("http://new.example/"))
        cluster.fetch(rank, "http://new.example/")
    cluster.settle()
    assert cluster.ended
    assert [core.traffic.dropped_links for core in cluster.cores] == [0, 0, 0]


def test_seeds_of_one_part_leave_the_other_ranks_without_work() -> None:
    for mode, ranks_with_pages in (("firewall", {0}), ("cross-over", {0}), ("exchange", {0, 1, 2})):
        web = Web([f"{A}/", f"{B}/", f"{C}/"], np.array([(0, 1), (1, 2), (2, 0)]))
        simulation = Simulation(web, settings(f"session.mode={mode}"), THREE, 3)
        simulation.run([0])
        assert {rank for rank in range(3) if simulation.fetched[rank]} == ranks_with_pages
        fetched = set().union(*simulation.fetched)
        assert fetched == ({0} if mode == "firewall" else {0, 1, 2})


@pytest.mark.parametrize("mode", MODES)
def test_one_rank_fetches_everything_in_every_mode(mode: str) -> None:
    web = Web([f"{A}/", f"{B}/", f"{C}/"], np.array([(0, 1), (1, 2)]))
    simulation = Simulation(web, settings(f"session.mode={mode}"), SiteHash(1), 1)
    simulation.run([0])
    assert simulation.fetched == [[0, 1, 2]]
    traffic = simulation.cores[0].traffic
    assert (traffic.inter_part_links, traffic.dropped_links, traffic.inter_part_pages) == (0, 0, 0)


@pytest.mark.parametrize("mode", MODES)
def test_ranks_without_a_site_end_with_the_others(mode: str) -> None:
    """Two sites and twelve ranks; each page is a seed."""
    web = Web([f"{A}/", f"{A}/1", f"{B}/"], np.array([(0, 1), (1, 2), (2, 0)]))
    simulation = Simulation(web, settings(f"session.mode={mode}"), SiteHash(12), 12)
    simulation.run([0, 1, 2])
    assert set().union(*simulation.fetched) == {0, 1, 2}
    assert all(core.ended and core.complete for core in simulation.cores)
    owners = {SiteHash(12).part(0, site) for site in (SITE_A, SITE_B)}
    assert len(owners) == 2
    assert sum(map(bool, simulation.fetched)) == (3 if mode == "independent" else 2)


# --- cross-over -------------------------------------------------------------------------------


def test_a_rank_crosses_over_to_the_oldest_when_its_own_are_done() -> None:
    cluster = Cluster(THREE, 3, settings("session.mode=cross-over"))
    cluster.start(f"{A}/")
    links = [link(f"{C}/1"), link(f"{A}/own"), link(f"{B}/1"), link(f"{C}/2"), link(f"{C}/1")]
    cluster.fetch(0, f"{A}/", *links)
    assert cluster.acquire(0) == f"{A}/own"
    assert cluster.acquire(0) is None  # own pages may turn up yet
    cluster.end(0)
    cluster.fetch(0, f"{C}/1", link(f"{B}/2"), link(f"{A}/late"))
    order = []  # B/1 and C/2 have been taken up already, while the clock of C was on its way
    while not cluster.ended and (address := cluster.acquire(0)):
        order.append(address)
        cluster.end(0)
    abroad = [one for one in order if not one.startswith(A)]
    assert sorted(abroad[:2]) == [f"{B}/1", f"{C}/2"]
    assert abroad[2:] == [f"{B}/2"]
    assert order.index(f"{A}/late") < order.index(f"{B}/2")  # again one of its own
    cluster.settle()
    assert cluster.ended
    assert cluster.complete
    assert [core.pages for core in cluster.cores] == [7, 0, 0]
    assert cluster.cores[0].traffic.inter_part_pages == 4
    assert cluster.cores[0].traffic.inter_part_links == 5


def test_foreign_pages_are_fetched_side_by_side_and_no_more_than_asked_for() -> None:
    options = settings("session.mode=cross-over", "fetch.concurrency=2")
    foreign = [f"http://{number}.example" for number in range(4)]
    listed = {SITE_A: 0, **dict.fromkeys(map(url.site, foreign), 1)}
    cluster = Cluster(Listed(2, listed), 2, options)
    cluster.start(f"{A}/")
    cluster.fetch(0, f"{A}/", *(link(f"{site}/") for site in foreign))
    assert [cluster.acquire(0) for _ in range(3)] == [f"{foreign[0]}/", f"{foreign[1]}/", None]
    assert cluster.cores[0].waiting == 2
    cluster.end(0)
    assert cluster.acquire(0) == f"{foreign[2]}/"


def test_a_site_that_may_not_be_asked_yet_does_not_hold_up_the_others_abroad() -> None:
    cluster = Cluster(THREE, 3, settings("session.mode=cross-over", "politeness.delay_s=10"))
    cluster.start(f"{A}/")
    cluster.fetch(0, f"{A}/", link(f"{B}/1"), link(f"{B}/2"), link(f"{C}/"))
    cluster.fetch(0, f"{B}/1")
    cluster.fetch(0, f"{C}/")
    assert cluster.acquire(0) is None
    cluster.now = 10
    cluster.fetch(0, f"{B}/2")
    cluster.settle()
    assert cluster.ended


def test_a_foreign_page_that_fails_is_tried_again_like_any_other() -> None:
    cluster = Cluster(THREE, 3, settings("session.mode=cross-over", "retry.tries=2"))
    cluster.start(f"{A}/")
    cluster.fetch(0, f"{A}/", link(f"{B}/"))
    assert cluster.acquire(0) == f"{B}/"
    assert not cluster.fail(0, Failure.REFUSED)
    cluster.now = 2
    assert cluster.acquire(0) == f"{B}/"
    assert cluster.fail(0, Failure.REFUSED)
    cluster.settle()
    assert cluster.ended
    assert cluster.cores[0].traffic.inter_part_pages == 0  # there was no page


@pytest.mark.parametrize("remember", ["all", "cache", "batch"])
def test_after_a_resume_nobody_crosses_over_to_what_was_fetched(remember: str) -> None:
    options = settings("session.mode=cross-over", f"exchange.remember={remember}")
    cluster = Cluster(THREE, 3, options)
    cluster.cores[0]._foreign.note_earlier_links([url.key(f"{B}/old")], [])
    cluster.start(f"{A}/")
    cluster.fetch(0, f"{A}/", link(f"{B}/old"), link(f"{B}/new"))
    cluster.fetch(0, f"{B}/new")
    cluster.settle()
    assert cluster.ended


def test_a_foreign_redirect_keeps_its_chain() -> None:
    cluster = Cluster(THREE, 3, settings("session.mode=cross-over"))
    cluster.start(f"{A}/r")
    cluster.fetch(0, f"{A}/r", link(f"{B}/r", REDIRECT))
    assert cluster.acquire(0) == f"{B}/r"
    found = cluster.visits[0][0].found
    assert found.chain == (url.key(f"{A}/r"),)
    assert redirect_failure(found, url.key(f"{A}/r")) is Failure.REDIRECT_LOOP


def test_the_page_quota_is_asked_for_on_behalf_of_foreign_pages_too() -> None:
    cluster = Cluster(THREE, 3, settings("session.mode=cross-over", "session.max_pages=3"))
    cluster.start(f"{B}/")
    for address in (f"{B}/", f"{C}/1", f"{C}/2"):
        if cluster.acquire(1) is None:
            cluster.settle()
            assert cluster.acquire(1) == address
        cluster.end(1, [link(f"{C}/1"), link(f"{C}/2"), link(f"{C}/3")])
    assert cluster.acquire(1) is None
    cluster.settle()
    assert cluster.ended
    assert not cluster.complete
    assert cluster.cores[1].waiting == 1


# --- independent ------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", [SiteHash(3), UrlHash(3), THREE])
def test_independent_ranks_are_dealt_the_seeds_and_own_all_that_they_find(scheme: SiteHash) -> None:
    cluster = Cluster(scheme, 3, settings("session.mode=independent"))
    cluster.start(f"{A}/0", f"{A}/1", f"{A}/2", f"{A}/3")
    assert [core._backlog.waiting for core in cluster.cores] == [2, 1, 1]
    for rank, seeds in enumerate([(0, 3), (1,), (2,)]):
        for number in seeds:
            cluster.fetch(rank, f"{A}/{number}", link(f"{B}/"), link("http://new.example/"))
        cluster.fetch(rank, f"{B}/")
        cluster.fetch(rank, "http://new.example/")
    cluster.settle()
    assert cluster.ended
    assert [core.traffic.inter_part_links for core in cluster.cores] == [0, 0, 0]


def test_more_independent_ranks_than_seeds_end_together() -> None:
    cluster = Cluster(SiteHash(5), 5, settings("session.mode=independent"))
    cluster.start(f"{A}/")
    cluster.fetch(0, f"{A}/")
    cluster.settle()
    assert cluster.ended


# --- replicated URLs --------------------------------------------------------------------------


def replicated(mode: str) -> Cluster:
    """Three cores; b.example/ is popular. The seed links to it and to another page there."""
    cluster = Cluster(THREE, 3, settings(f"session.mode={mode}"))
    for rank, core in enumerate(cluster.cores):
        core.start([link(f"{A}/")], 0, [link(f"{B}/")])
        cluster.tick(rank)
    cluster.fetch(0, f"{A}/", link(f"{B}/"), link(f"{B}/x"))
    return cluster


def test_a_firewall_lets_popular_urls_be_fetched_by_their_owners() -> None:
    cluster = replicated("firewall")
    cluster.fetch(1, f"{B}/")
    cluster.settle()
    assert cluster.ended
    assert cluster.cores[0].traffic.dropped_links == 1


def test_nobody_crosses_over_to_popular_urls() -> None:
    cluster = replicated("cross-over")
    cluster.fetch(0, f"{B}/x")
    cluster.fetch(1, f"{B}/")
    cluster.settle()
    assert cluster.ended


def test_independent_ranks_have_nothing_to_replicate() -> None:
    cluster = replicated("independent")
    cluster.fetch(0, f"{B}/")
    cluster.fetch(0, f"{B}/x")
    cluster.settle()
    assert cluster.ended
