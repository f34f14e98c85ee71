"""Assignment: no model worse than what it starts from, and the hybrid's two aims."""

from dataclasses import replace

import numpy as np
import pytest

from partition import assign, evaluate, models, planning, threads, webgraph
from partition.models import MESSAGES, MODELS, VOLUME, Objective, Units
from partition.settings import Settings
from partition.webgraph import WebGraph


def web_of_sites(seed: int, sites: int = 30, pages: int = 10, links: int = 2000) -> WebGraph:
    """Most links go to a near site; sites differ in size, and URLs in length."""
    random = np.random.default_rng(seed)
    site = np.sort(random.integers(0, sites, sites * pages))
    n = len(site)
    source = random.integers(0, n, links)
    far = random.random(links) < 0.2
    target = np.where(far, random.integers(0, n, links), source + random.integers(-40, 40, links))
    return webgraph.from_arrays(
        source,
        target % n,
        site=site,
        bytes=random.integers(1, 1000, n),
        url_bytes=random.integers(10, 200, n),
    )


def value(plan: planning.Plan, objective: Objective) -> float:
    return objective.value(plan.counts)


@pytest.mark.parametrize("seed", [0])
@pytest.mark.parametrize("objective", [MESSAGES, VOLUME, Objective(1, 0.02)])
def test_hybrid_is_no_worse_than_what_it_starts_from(seed: int, objective: Objective) -> None:
    web = web_of_sites(seed)
    settings = Settings(objective=objective, seed=seed)
    hybrid = planning.plan(web, "hybrid", 4, settings)
    assert hybrid.feasible
    for model in ("site-graph", "site-hypergraph") if objective is MESSAGES else ("site-graph",):
        other = planning.plan(web, model, 4, settings)
        assert other.feasible
        assert value(hybrid, objective) <= value(other, objective)


@pytest.mark.parametrize("units", ["site", pytest.param("page", marks=pytest.mark.slow)])
def test_hypergraphs_are_no_worse_than_graphs(units: str) -> None:
    web = web_of_sites(1)
    graph, hyper = (planning.plan(web, f"{units}-{kind}", 8) for kind in ("graph", "hypergraph"))
    assert graph.feasible
    assert hyper.feasible
    assert value(hyper, MESSAGES) <= value(graph, MESSAGES)


@pytest.mark.parametrize(
    "model", ["hybrid", pytest.param("page-hypergraph", marks=pytest.mark.slow), "site-hypergraph"]
)
def test_threads_change_no_result(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    web, settings = web_of_sites(2, sites=12), Settings(tries=2)
    found = []
    for cores in (1, 4):
        monkeypatch.setattr(threads, "cores", lambda cores=cores: cores)
        found.append(assign.assign(web, MODELS[model], 4, settings).part)
    assert np.array_equal(*found)


@pytest.mark.slow
def test_further_searches_find_more() -> None:
    """Where units are small; a web of more links than `max_links` has only one."""
    web = web_of_sites(0, sites=100, links=8000)
    settings = Settings(seed=1)
    several, one = (
        assign.assign(web, MODELS["page-hypergraph"], 8, settings, policy=policy).part
        for policy in (assign.DEFAULT, assign.Policy(max_links=web.links - 1))
    )
    counts = [evaluate.evaluate(web, part, 8) for part in (several, one)]
    assert counts[0].messages_page_part < counts[1].messages_page_part


@pytest.mark.parametrize("seed", [0, 3])
def test_hybrid_misses_its_aims_by_less_than_either_reference(seed: int) -> None:
    """The messages of the site hypergraph, and the volume of the site graph and 5 %."""
    web = web_of_sites(seed)
    hybrid, few, little = (
        planning.plan(web, model, 4, Settings(seed=seed)).counts
        for model in ("hybrid", "site-hypergraph", "site-graph")
    )

    def miss(counts: evaluate.Evaluation) -> float:
        return max(
            counts.messages_page_part / few.messages_page_part,
            counts.volume_bytes / (1.05 * little.volume_bytes),
            1.0,
        )

    assert miss(hybrid) <= min(miss(few), miss(little))


def conflict() -> WebGraph:
    """Sites a, b, c, d of 1 page each in a ring, on two parts of two sites.

    a -> b and c -> d by four messages each of 1 byte, b -> c and d -> a by one each of 100 bytes.
    Cut the first two links, or the others.
    """
    ends = [(0, 4), (1, 4), (2, 4), (3, 4)]
    ends += [(8, 12), (9, 12), (10, 12), (11, 12)]
    ends += [(5, 9), (13, 1)]
    long = np.ones(16, np.int64)
    long[[9, 1]] = 100
    return webgraph.from_arrays(
        [a for a, _ in ends],
        [b for _, b in ends],
        site=np.arange(16) // 4,
        sites=["a", "b", "c", "d"],
        url_bytes=long,
    )


def test_messages_of_pages_and_of_sites() -> None:
    """Five pages of site A link to B: five messages of pages, but one of A. A and C link to each
    other by a page each, and so do B and D: four messages, whoever counts."""
    a, b, c, d = (range(8 * site, 8 * site + 8) for site in range(4))
    links = [(page, b[0]) for page in a[:5]]
    links += [(a[5], c[0]), (c[0], a[0]), (b[0], d[0]), (d[0], b[0])]
    web = webgraph.from_arrays(*zip(*links, strict=True), site=np.arange(32) // 8)
    pages, sites = (
        planning.plan(web, name, 2).counts for name in ("site-hypergraph", "site-messages")
    )
    assert (pages.messages_page_part, pages.messages_site_part) == (4, 4)
    assert (sites.messages_page_part, sites.messages_site_part) == (5, 1)


def test_where_both_cant_be_had_neither_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few messages: 2 of 200 bytes. Little volume: 8 of 8 bytes. Sites stay whole here: the ratios
    to the aims are then 1 and 24, or 4 and 1, and the second is the lesser miss."""
    monkeypatch.setattr(models.division, "SHARE", 10.0)
    web = conflict()
    tolerances = (0.0, 0.0)
    few = planning.plan(web, "site-hypergraph", 2, Settings(tolerances=tolerances)).counts
    little = planning.plan(web, "site-graph", 2, Settings(tolerances=tolerances)).counts
    hybrid = planning.plan(web, "hybrid", 2, Settings(tolerances=tolerances)).counts
    assert (few.messages_page_part, few.volume_bytes) == (2, 200)
    assert (little.messages_page_part, little.volume_bytes) == (8, 8)
    assert (hybrid.messages_page_part, hybrid.volume_bytes) == (8, 8)
    asked = Settings(tolerances=tolerances, objective=MESSAGES)
    assert planning.plan(web, "hybrid", 2, asked).counts.messages_page_part == 2


def test_a_previous_vector_is_the_only_start() -> None:
    """Nothing may move, so that the pages stay where they were, however bad that is."""
    web = web_of_sites(0)
    before = (np.arange(web.pages) % 4).astype(np.int32)
    before = before[np.searchsorted(web.site, web.site)]  # that of the site's first page
    settings = replace(Settings(migration=0.0), previous=object())  # type: ignore[arg-type]
    for name, model in MODELS.items():
        found = assign.assign(web, model, 4, settings, before)
        assert np.array_equal(found.part, before), name


@pytest.mark.parametrize(
    "name",
    ["site-graph", "site-hypergraph", pytest.param("hybrid", marks=pytest.mark.slow)],
)
def test_tries_keep_the_best(name: str) -> None:
    web = web_of_sites(1)
    model = MODELS[name]
    asked = Settings(objective=MESSAGES)
    tried = [assign.assign(web, model, 8, replace(asked, seed=seed)).part for seed in range(3, 5)]
    best = assign.assign(web, model, 8, replace(asked, seed=3, tries=2)).part
    values = [model.objective.value(evaluate.evaluate(web, part, 8)) for part in (*tried, best)]
    assert values[-1] == min(values[:-1])
    assert any(np.array_equal(best, part) for part in tried)


def test_tries_of_two_objectives_keep_one_of_them() -> None:
    web = web_of_sites(1, sites=12)
    both = assign.assign(web, MODELS["hybrid"], 4, Settings(tries=2)).part
    alone = (assign.assign(web, MODELS["hybrid"], 4, Settings(seed=seed)).part for seed in (0, 1))
    assert any(np.array_equal(both, part) for part in alone)


def test_units_are_kept_whole() -> None:
    web = web_of_sites(2, sites=12)
    for name, model in MODELS.items():
        if model.units is not Units.HYBRID:
            unit = models.units(web, model.units, 4, {})
            part = assign.assign(web, model, 4, Settings()).part
            first = part[np.unique(unit, return_index=True)[1]]
            assert np.array_equal(part, first[unit]), name


def least_imbalance(weights: np.ndarray) -> float:
    """The least that the larger imbalance of two parts can be: by all sums of both weights."""
    of_requests = {0: {0}}  # number of requests -> the bytes that some units with as many have
    for size, requests in weights.tolist():
        before = {number: set(sums) for number, sums in of_requests.items()}
        for number, sums in before.items():
            of_requests.setdefault(number + requests, set()).update(one + size for one in sums)
    whole = weights.sum(axis=0).tolist()
    return min(
        max(max(number, total - number) / total for number, total in zip(pair, whole, strict=True))
        * 2
        - 1
        for requests, sums in of_requests.items()
        for pair in ((size, requests) for size in sums)
    )


@pytest.mark.parametrize("seed", [2, 43, 266, 268])
def test_hybrid_of_a_few_pages_is_nearly_as_even_as_its_units_can_be(seed: int) -> None:
    """Of partitions that aren't balanced, one with few messages was taken, however uneven."""
    random = np.random.default_rng(seed)
    giants, others = int(random.integers(0, 3)), int(random.integers(20, 90))
    sizes = np.append(random.integers(200, 1500, giants), random.integers(1, 20, others))
    random.shuffle(sizes)
    pages = len(sizes)
    site = np.unique(np.sort(random.integers(0, 5, pages)), return_inverse=True)[1]
    links = int(random.integers(5, 200))
    ends = [random.integers(0, pages, links) for _ in range(2)]
    web = webgraph.from_arrays(*ends, site=site, bytes=sizes)
    unit = models.units(web, Units.HYBRID, 2, {})
    plan = planning.plan(web, "hybrid", 2, Settings())
    assert max(plan.counts.imbalances) <= least_imbalance(models.weights(web, unit)) + 0.05
