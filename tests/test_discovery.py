"""The order in which a crawl finds pages, and where claims put the sites that a vector lacks."""

import random
from collections import deque

import numpy as np
import pytest
from cluster import Listed, settings
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from crawler import url
from crawler.simulate import Simulation, Web
from partition.discovery import claimed, discovered
from partition.partvector import grant, jump_hash
from partition.partvector.placing import HEADROOM, SLACK
from partition.webgraph import WebGraph, from_arrays


def web_of(links: list[tuple[int, int]], site: list[int]) -> WebGraph:
    src, dst = ([link[end] for link in links] for end in (0, 1))
    return from_arrays(src, dst, site=site)


@st.composite
def webs(draw: st.DrawFn) -> tuple[WebGraph, list[int]]:
    """A web, and the seeds of its crawl."""
    dice = random.Random(draw(st.integers(0, 2**32)))
    pages, sites = dice.randint(1, 400), dice.randint(1, 12)
    links = [
        (dice.randrange(pages), dice.randrange(pages)) for _ in range(dice.randint(0, 3 * pages))
    ]
    web = web_of(links, [dice.randrange(sites) for _ in range(pages)])
    return web, dice.sample(range(pages), dice.randint(0, min(pages, 5)))


def test_seeds_are_first_and_pages_that_nothing_leads_to_are_last() -> None:
    web = web_of([(0, 2), (0, 1), (3, 4), (4, 1)], [0] * 5)
    order, finder = discovered(web, np.array([3], np.int32))
    assert order.tolist() == [3, 4, 1, 0, 2]
    assert finder.tolist() == [-1, 4, 0, -1, 3]


@given(webs())
def test_pages_are_found_breadth_first(some: tuple[WebGraph, list[int]]) -> None:
    web, seeds = some
    order, finder = discovered(web, np.array(seeds, np.int32))
    met: dict[int, int] = dict.fromkeys(seeds, -1)
    queue = deque(seeds)
    for root in range(web.pages + 1):
        while queue:
            page = queue.popleft()
            for target in web.adj[web.xadj[page] : web.xadj[page + 1]].tolist():
                if target not in met:
                    met[target] = page
                    queue.append(target)
        if root < web.pages and root not in met:
            met[root] = -1
            queue.append(root)
    assert order.tolist() == list(met)
    assert [finder[page] for page in met] == list(met.values())


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=8), st.integers(0, 7))
def test_a_claimed_site_never_goes_to_a_rank_that_has_more_than_its_share(
    loads: list[int], number: int
) -> None:
    claimant = number % len(loads)
    share = SLACK * sum(loads) / len(loads) + HEADROOM
    owner = grant(loads, claimant)
    assert loads[owner] <= share
    assert owner == claimant or (loads[claimant] > share and loads[owner] == min(loads))


@given(webs(), st.integers(1, 5), st.integers(0, 2**32))
def test_new_sites_stay_whole_and_listed_pages_stay_in_place(
    some: tuple[WebGraph, list[int]], parts: int, seed: int
) -> None:
    web, seeds = some
    dice = random.Random(seed)
    of_site = [dice.randrange(-1, parts) for _ in web.sites]
    part = np.array(of_site, np.int32)[web.site]
    placed = claimed(web, part, parts, np.array(seeds, np.int32))
    assert (placed[part >= 0] == part[part >= 0]).all()
    # Each site, at its first page, goes where `grant` says by the pages found before.
    begin = np.array(seeds, np.int32) if seeds else np.flatnonzero(part >= 0).astype(np.int32)
    order, finder = (each.tolist() for each in discovered(web, begin))
    first = {web.site[page]: page for page in reversed(order)}
    for site, page in first.items():
        (one,) = set(placed[(web.site == site) & (part < 0)].tolist()) or {-1}
        if one >= 0:
            before = order[: order.index(page)]
            loads = np.bincount(placed[before], minlength=parts).tolist()
            by = finder[page]
            hashed = jump_hash(xxh3_64_intdigest(web.sites[site].encode()), parts)
            assert one == grant(loads, hashed if by < 0 else placed[by])


def test_beyond_its_share_a_finder_gets_no_site() -> None:
    """Part 0 has a site of 300 pages. Its last page leads to a new site of one page."""
    web = web_of([(page, page + 1) for page in range(300)], [0] * 300 + [1])
    part = np.array([0] * 300 + [-1], np.int32)
    seeds = np.array([0], np.int32)
    # With two parts, 300 URLs are more than 1.1 times the mean of 150, and 100.
    assert claimed(web, part, 2, seeds)[-1] == 1
    assert claimed(web, part, 1, seeds)[-1] == 0


@pytest.mark.parametrize("seed", range(20))
def test_a_simulated_crawl_claims_the_same(seed: int) -> None:
    """Each new site has links from one listed site only, so the order of claims doesn't matter."""
    dice = random.Random(seed)
    parts, sites, each = dice.randint(2, 4), 8, 5
    listed = {number: number % parts for number in range(4)}
    home = {new: dice.randrange(4) for new in range(4, sites)}
    site = [page // each for page in range(sites * each)]
    links = [(page, page // each * each + (page + 1) % each) for page in range(sites * each)]
    links += [(number * each, (number + 1) % 4 * each) for number in range(4)]
    links += [
        (at * each + dice.randrange(each), new * each + dice.randrange(each))
        for new, at in home.items()
        for _ in range(3)
    ]
    web = web_of(links, site)
    part = np.array([listed.get(one, -1) for one in site], np.int32)
    expected = claimed(web, part, parts, np.array([0], np.int32))
    urls = [f"http://s{number}.example/{page}" for page, number in enumerate(site)]
    scheme = Listed(parts, {url.site(urls[one * each]): to for one, to in listed.items()})
    chosen = settings("assignment.unlisted=claim")
    simulation = Simulation(Web(urls, np.array(links)), chosen, scheme, parts, seed=seed)
    assert simulation.run([0])
    owners = dict(zip(simulation.order, simulation.by, strict=True))
    assert [owners[page] for page in range(len(urls))] == expected.tolist()
