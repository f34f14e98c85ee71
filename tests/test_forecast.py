"""The prediction of a crawl's time, beside simulated crawls of the same webs."""

import random

import numpy as np
import pytest

from crawler import config
from crawler.core.schemes import make_scheme
from crawler.simulate.shell import Simulation
from crawler.simulate.web import Web
from partition import webgraph
from partition.forecast import Costs, Forecast, forecast, useful_ranks
from partition.politeness import Politeness
from partition.webgraph import WebGraph

FETCH_S, MESSAGE_S = 0.275, 0.0255  # the means of the simulator


def make(pages: int, sites: int, skew: float, within: float, seed: int) -> tuple[Web, WebGraph]:
    """A random web that can be reached from page 0. `skew`: of the sizes of sites (Zipf's law)."""
    dice = np.random.default_rng(seed)
    shares = 1 / np.arange(1, sites + 1) ** skew
    site = np.sort(dice.choice(sites, pages, p=shares / shares.sum()))
    site = np.unique(site, return_inverse=True)[1]
    starts = np.searchsorted(site, np.arange(site.max() + 2))
    source = np.repeat(np.arange(pages), 4)
    inside = starts[site[source]] + (
        dice.random(len(source)) * np.diff(starts)[site[source]]
    ).astype(np.int64)
    anywhere = dice.integers(0, pages, len(source))
    target = np.where(dice.random(len(source)) < within, inside, anywhere)
    urls = [f"http://s{number}.example/p{page}" for page, number in enumerate(site.tolist())]
    links = np.stack([source, target], 1)
    reached = Web(urls, links).reachable([0])
    number = np.full(pages, -1)
    number[reached] = np.arange(len(reached))
    links = number[links[number[source] >= 0]]
    web = Web([urls[page] for page in reached.tolist()], links)
    names, site = np.unique(site[reached], return_inverse=True)
    graph = webgraph.from_arrays(
        *links.T, site=site, sites=[f"s{name}.example" for name in names.tolist()]
    )
    return web, graph


def both(
    web: Web, graph: WebGraph, *words: str, ranks: int, delay_s: float, fetches: int = 16
) -> tuple[float, Forecast]:
    """The time of a simulated crawl from page 0, and the prediction."""
    usual = ['scope.domains=["example"]', "fetch.contact=nobody@example.org"]
    chosen = config.load(None, [*usual, *words, f"politeness.delay_s={delay_s}"])
    crawl = Simulation(web, chosen, make_scheme(chosen, ranks), ranks, concurrency=fetches)
    assert crawl.run([0])
    ownership = crawl.cores[0].ownership
    part = np.array([ownership.owner(link) for link in web.links], np.int32)
    connections = chosen.politeness.connections_per_site
    politeness = Politeness(delay_s, connections, FETCH_S, asks_robots=False, fetches=fetches)
    costs = Costs(0, 0, MESSAGE_S)
    return crawl.now, forecast(graph, part, ranks, politeness, costs, np.zeros(1, np.int64))


@pytest.mark.parametrize("number", range(12))
def test_a_prediction_is_within_a_tenth_of_a_polite_simulated_crawl(number: int) -> None:
    dice = random.Random(number)
    sites = dice.choice([1, 3, 10, 50, 100])
    # Ranks that share a site pass its clock on in turns, which is slow for a site of few pages.
    scheme = dice.choice(["site-hash", "url-hash"]) if sites <= 10 else "site-hash"
    web, graph = make(
        pages=dice.randint(1000, 3000),
        sites=sites,
        skew=dice.choice([0, 0.8, 1.3]),
        within=dice.choice([0.3, 0.9, 0.98]),
        seed=number,
    )
    delay_s = dice.choice([0.2, 1.0])
    taken, predicted = both(
        web,
        graph,
        f"politeness.connections_per_site={dice.choice([1, 1, 3])}",
        f"assignment.scheme={scheme}",
        ranks=dice.randint(1, 8),
        delay_s=delay_s,
        fetches=dice.choice([4, 16, 100]),
    )
    # In a short crawl it matters which of some pages happens to be fetched first.
    chance_s = 5 * (delay_s + FETCH_S)
    assert predicted.seconds == pytest.approx(taken, rel=0.1, abs=chance_s)


def test_what_bounds_a_crawl() -> None:
    politeness, seeds = Politeness(1.0, 1, 0.0), np.zeros(1, np.int64)
    star = webgraph.from_arrays([0] * 99, range(1, 100), site=[0] * 100, sites=["a.example"])
    one = np.zeros(100, np.int32)
    polite = forecast(star, one, 1, politeness, Costs(0.01), seeds)
    assert polite.limit == "site"
    assert polite.site_seconds == 100
    assert polite.seconds == pytest.approx(100 + 0.01)  # with robots.txt, and no delay at the end
    few = webgraph.from_arrays([0, 0], [1, 2], site=[0] * 3, sites=["a.example"])
    slow = forecast(few, one[:3], 1, Politeness(1.0, 1, 10.0), Costs(0.01), seeds)
    assert slow.limit == "site"  # its robots.txt takes as long as a page
    assert slow.site_seconds == 10 + 3 * (1 + 10)
    assert slow.seconds == pytest.approx(slow.site_seconds + 0.01)
    busy = forecast(star, one, 1, politeness, Costs(2.0), seeds)
    assert busy.limit == "rank"
    assert busy.seconds == pytest.approx(200, abs=2)
    # Each site links to the next, so one is asked after the other.
    chain = webgraph.from_arrays(
        range(99), range(1, 100), site=range(100), sites=[f"{n}.example" for n in range(100)]
    )
    late = forecast(chain, one, 1, Politeness(1.0, 1, 0.5), Costs(0.01), seeds)
    assert late.limit == "links"
    assert late.seconds == pytest.approx(100 * (1.5 + 0.5 + 0.01))


def test_the_messages_of_a_rank_take_its_time() -> None:
    web = webgraph.from_arrays([0, 0, 1, 2], [1, 2, 2, 1], site=[0, 1, 1])
    part = np.array([0, 1, 1], np.int32)
    costs = Costs(1.0, 0.5, 0.0)
    quick = Politeness(0.0, 1, 0.0, asks_robots=False)
    # Rank 0 sends two URLs. Rank 1 gets them.
    predicted = forecast(web, part, 2, quick, costs, np.zeros(1, np.int64))
    assert predicted.rank_seconds == 1 * 2 + 0.5 * 2
    assert predicted.rank == 1
    assert predicted.seconds == 1 + 0.5 * 2 + 2 * (1 + 0.5)


def test_pages_without_links_to_them_are_crawled_too() -> None:
    web = webgraph.from_arrays([1, 3], [2, 4], site=[0] * 6)
    predicted = forecast(
        web,
        np.zeros(6, np.int32),
        1,
        Politeness(1.0, 1, 0.0, asks_robots=False),
        Costs(0),
        np.array([1]),
    )
    assert predicted.seconds == 5


def test_more_ranks_help_until_a_site_bounds_the_crawl() -> None:
    # 20 sites of 50 pages each: a site takes 50 s, and all pages keep a processor busy for 200 s.
    site = np.repeat(np.arange(20), 50)
    links = [(page, page + 1) for page in range(999)] + [(0, page) for page in range(0, 1000, 50)]
    web = webgraph.from_arrays(*zip(*links, strict=True), site=site)
    seeds = np.arange(0, 1000, 50)
    costs = Costs(0.2, 0.0, 0.0)
    slow = Politeness(
        0.8, 1, 0.0, asks_robots=False
    )  # with 0.2 s to read a page, whose link leads to the next
    ranks = useful_ranks(web, slow, costs, seeds)
    times = {
        number: forecast(web, (site % number).astype(np.int32), number, slow, costs, seeds).seconds
        for number in (ranks // 2, ranks, 20)
    }
    assert 4 <= ranks <= 7
    assert times[ranks] <= 1.1 * times[20]
    assert times[ranks // 2] > 1.5 * times[20]
    assert useful_ranks(web, Politeness(100.0, 1, 0.0), costs, seeds) == 1
