"""From sessions to a part vector, and the command line."""

import json
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_graph import directory, session

from crawler import url
from partition import (
    UserError,
    discovery,
    engines,
    evaluate,
    graph,
    job,
    partvector,
    planning,
    webgraph,
)
from partition.__main__ import main
from partition.models import MODELS
from partition.partvector import PartVector
from partition.settings import Settings
from partition.webgraph import WebGraph

FIELDS = {
    *("model", "k", "imbalance_bytes", "imbalance_requests", "messages_page_part"),
    *("messages_site_part", "transmissions_target_part", "transmission_bytes", "volume_bytes"),
    *("seconds", "peak_bytes", "feasible", "reason"),
}


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    """A session of 4 families of 3 sites of 4 pages. Sites link within, and to their family.

    A page never fetched hangs on each family, and each family has one link to the next.
    """

    def page(family: int, site: int, number: int) -> str:
        return f"http://s{site}.f{family % 4}.example/{number}"

    pages, links = [], []
    for family in range(4):
        for site in range(3):
            for number in range(4):
                text = page(family, site, number)
                pages.append((text, text[: text.rindex("/")], 100 + number, 1.0))
                links.append((text, page(family, site, (number + 1) % 4), 0))
                links.append((text, page(family, (site + 1) % 3, number), 0))
        links.append((page(family, 0, 0), page(family, 0, 99), 0))
        links.append((page(family, 0, 0), page(family + 1, 0, 0), 0))
    return session(tmp_path / "crawl", pages, links)


def family(web: WebGraph) -> list[str]:
    return [site.split(".")[1] for site in web.sites]


@pytest.mark.parametrize("model", MODELS)
def test_all_models_find_the_families(crawl: Path, model: str) -> None:
    """Cut are the 4 links from family to family: each its own page, site, target and length.

    The pages that have them may also change family, at the same number of messages.
    """
    web = graph.read([crawl])
    assert (web.pages, len(web.sites)) == (4 * 13, 12)
    plan = planning.plan(web, model, 4)
    assert plan.feasible
    assert plan.constraints == 2
    assert plan.counts.messages_page_part == plan.counts.messages_site_part == 4
    if not MODELS[model].hyper:
        assert plan.counts.transmissions_target_part == plan.counts.inter_part_links == 4
        assert plan.counts.volume_bytes == 4 * len("http://s0.f0.example/0")
    assert plan.counts.loads[:, 1].tolist() == [13] * 4


def test_build_writes_what_it_planned(crawl: Path, tmp_path: Path) -> None:
    built, url_hash, site_hash = job.build([crawl], 4, tmp_path / "pv", model="site-graph")
    assert (url_hash.model, site_hash.model) == ("url-hash", "site-hash")
    assert built.counts.messages_page_part < site_hash.counts.messages_page_part
    vector = PartVector.open(tmp_path / "pv")
    assert (vector.parts, vector.model, vector.sites) == (4, "site-graph", 12)
    assert vector.sessions == ("crawl",)
    followed = planning.follow(graph.read([crawl]), vector)
    assert followed.part.tolist() == built.part.tolist()


def test_equal_seeds_build_equal_files(crawl: Path, tmp_path: Path) -> None:
    for name in "12":
        job.build([crawl], 3, tmp_path / name, settings=Settings(seed=5))
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_a_site_that_is_too_heavy_is_named(tmp_path: Path) -> None:
    """Site x has 8 of 10 pages: of 2 parts, 1.6 times a part's share; bytes are even."""
    pages = {
        "id": list(range(10)),
        "site": ["x"] * 8 + ["y", "z"],
        "bytes": [1] * 8 + [4, 4],
    }
    web = graph.read([directory(tmp_path, pages, {"src": [0], "dst": [9]})])
    plan = planning.plan(web, "site-graph", 2)
    assert plan.feasible
    assert plan.giants == ("x",)
    assert plan.remark == (
        "balanced beside sites heavier than a part; "
        "requests 60.0% over the average (allowed 5.0%):"
        " site x alone has 1.60 times the average load"
    )
    assert not planning.plan(web, "site-graph", 2, Settings(tolerances=(0.0, 0.6))).giants


def test_more_parts_than_sites(crawl: Path) -> None:
    plan = planning.plan(graph.read([crawl]), "site-graph", 50)
    assert (plan.counts.loads[:, 1] > 0).sum() == 12
    assert plan.reason == "38 of 50 parts are empty: there are only 12 sites"


def test_one_part_has_no_messages(crawl: Path) -> None:
    for model in (*planning.BASELINES, *MODELS):
        plan = planning.plan(graph.read([crawl]), model, 1)
        assert plan.feasible
        assert plan.counts.messages_page_part == plan.counts.volume_bytes == 0


def test_no_parts_and_unknown_models(crawl: Path, tmp_path: Path) -> None:
    web = graph.read([crawl])
    with pytest.raises(UserError, match="0 parts: must be 1 or more"):
        planning.plan(web, "site-hash", 0)
    with pytest.raises(UserError, match="model best: must be one of url-hash, "):
        planning.plan(web, "best", 2)
    with pytest.raises(
        UserError, match="model url-hash: can't make a part vector; use one of page-graph, "
    ):
        job.build([crawl], 2, tmp_path / "pv", model="url-hash")


def test_the_best_of_several_tries_is_taken(crawl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By seed: balanced with many messages, balanced with few, out of balance with none."""
    web = graph.read([crawl])
    families = np.array([int(name[1]) for name in family(web)], np.int32)
    results = {0: np.arange(12, dtype=np.int32) % 4, 1: families, 2: np.zeros(12, np.int32)}
    monkeypatch.setattr(
        engines, "partition", lambda *_, seed, **__: engines.Partition(results[seed])
    )
    plan = planning.plan(web, "site-graph", 4, Settings(tries=3, tolerances=(0.2, 0.2)))
    assert plan.part.tolist() == families[web.site].tolist()


def test_pages_of_a_vector_before_sites_and_strangers_by_claims(
    crawl: Path, tmp_path: Path
) -> None:
    web = graph.read([crawl])
    hashed = evaluate.site_hash(web, 4)
    alone, listed = 7, int(web.site[20])
    part = (hashed[web.site == listed][0] + 1) % 4
    partvector.write(
        tmp_path / "pv",
        parts=4,
        sites={web.sites[listed]: int(part)},
        urls=(web.key[[alone]], np.array([(hashed[alone] + 2) % 4])),
        model="mixed",
    )
    known = np.where(web.site == listed, part, -1).astype(np.int32)
    known[alone] = (hashed[alone] + 2) % 4
    expected = discovery.claimed(web, known, 4, np.zeros(0, np.int32))
    assert (expected >= 0).all()
    followed = planning.follow(web, PartVector.open(tmp_path / "pv"))
    assert followed.part.tolist() == expected.tolist()


@pytest.fixture
def giant(tmp_path: Path) -> Path:
    """A session with a site of 24 of 32 pages: its home page and, in each of 3 directories, a page
    with links to 7 others of it and back. The other sites have 1 page, and no links."""
    home = "http://g.example/"
    pages, links = [(home, "http://g.example", 10, 1.0)], []
    for folder in "abc":
        top = f"{home}{folder}/"
        for number in range(8 if folder < "c" else 7):
            pages.append((f"{top}{number}", "http://g.example", 10, 1.0))
            links += [(f"{top}0", f"{top}{number}", 0), (f"{top}{number}", f"{top}0", 0)]
        links.append((home, f"{top}0", 0))
    pages += [(f"http://s{n}.example/", f"http://s{n}.example", 10, 1.0) for n in range(8)]
    return session(tmp_path / "giant", pages, links)


def test_hybrid_splits_a_giant_site(giant: Path, tmp_path: Path) -> None:
    """4 parts of 8: with 8 pages a part, site g is 3 of them; its directories fit."""
    web = graph.read([giant])
    assert planning.plan(web, "site-graph", 4).counts.loads[:, 1].max() == 24
    built, *_ = job.build([giant], 4, tmp_path / "pv", model="hybrid")
    assert built.feasible
    assert built.counts.loads[:, 1].tolist() == [8] * 4
    vector = PartVector.open(tmp_path / "pv")
    assert len(vector.url_keys) == 24
    assert vector.sites == 9
    assert vector.loads.tolist() == built.counts.loads.tolist()
    assert planning.follow(web, vector).part.tolist() == built.part.tolist()


@pytest.mark.parametrize("seed", range(5))
def test_hybrid_is_no_worse_than_whole_sites(seed: int) -> None:
    """24 sites of 10 pages, of which a part holds 3: each is split, and they can stay whole."""
    random = np.random.default_rng(seed)
    source, target = random.integers(0, 240, (2, 1500))
    web = webgraph.from_arrays(source, target, site=np.arange(240) // 10)
    hybrid, whole = (planning.plan(web, model, 8) for model in ("hybrid", "site-hypergraph"))
    assert hybrid.feasible
    assert whole.feasible
    assert hybrid.counts.messages_page_part <= whole.counts.messages_page_part


def test_new_pages_of_a_split_site_go_with_their_directory(giant: Path, tmp_path: Path) -> None:
    web = graph.read([giant])
    keys = web.key.tolist()
    page = {name: keys.index(url.key(f"http://g.example/{name}")) for name in ("a/1", "b/1", "")}
    part = np.full(web.pages, 3, np.int32)
    texts = web.texts(np.arange(web.pages, dtype=np.int32))
    for number, folder in enumerate(("/a/", "/b/", "/c/")):
        part[[folder in text for text in texts]] = number
    sites, urls, directories = job._tables(web, part)
    assert sites["g.example"] == 0
    assert directories == {
        ("g.example", "http://g.example/b/"): 1,
        ("g.example", "http://g.example/c/"): 2,
    }
    path = tmp_path / "pv"
    partvector.write(path, parts=4, sites=sites, urls=urls, directories=directories, model="hybrid")
    vector = PartVector.open(path)

    def of(text: str) -> tuple[int | None, int | None]:
        key, site = url.key(text), url.site(text)
        return vector.part_of_url(text, key, site), vector.part(key, site)

    assert of("http://g.example/") == (3, 3)  # listed by itself
    assert of("http://g.example/b/new") == of("http://g.example/b/x/y?z=/") == (1, 0)
    assert of("http://g.example/b") == of("http://g.example/new/") == (0, 0)
    assert of("http://s1.example/new") == (3, 3)
    assert of("http://t.example/") == (None, None)
    assert page["a/1"] != page["b/1"] != page[""]


def test_follow_sends_new_pages_where_the_crawler_does(giant: Path, tmp_path: Path) -> None:
    job.build([giant], 4, tmp_path / "pv", model="hybrid")
    vector = PartVector.open(tmp_path / "pv")
    new = ["http://g.example/a/new", "http://g.example/b/new", "http://s1.example/new"]
    pages = [(text, url.site(text), 1, 1.0) for text in new]
    web = graph.read([session(tmp_path / "next", pages, [])])
    expected = [vector.part_of_url(text, url.key(text), url.site(text)) for text in new]
    order = [web.key.tolist().index(url.key(text)) for text in new]
    assert planning.follow(web, vector).part[order].tolist() == expected


@pytest.mark.parametrize("seeds", [(), ("http://s0.f0.example/0",)])
def test_evaluate_places_new_sites_as_claims_do(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], seeds: tuple[str, ...]
) -> None:
    """The vector lacks one site of each family. Only pages of its family link to the site."""
    listed = {f"s{n}.f{family}.example": family for n in (0, 1) for family in range(4)}
    partvector.write(tmp_path / "pv", parts=4, sites=listed, model="site-graph")
    path = crawl / "tables" / "pages.parquet"
    pages = pq.read_table(path)
    hops = [0 if text in seeds else 1 for text in pages["url"].to_pylist()]
    pq.write_table(pages.append_column("hops", pa.array(hops)), path)
    assert main(["evaluate", str(tmp_path / "pv"), "--on", str(crawl), "--json"]) == 0
    output, stderr = capsys.readouterr()
    said = "aren't in " + str(tmp_path / "pv") + " and go to the parts that find them first"
    assert "4 of 12 sites " + said in stderr
    followed, *baselines = json.loads(output)
    assert followed["messages_page_part"] == 4  # from family to family
    assert followed["loads_requests"] == [13] * 4
    assert all(followed.keys() == one.keys() for one in baselines)  # with the same predictions


def test_giant_site_without_urls_is_split_into_ranges() -> None:
    """One site of 64 pages in a chain: 4 parts of 16 neighbours, 3 links cut."""
    web = webgraph.from_arrays(range(63), range(1, 64), site=[0] * 64)
    plan = planning.plan(web, "hybrid", 4)
    assert plan.feasible
    assert plan.counts.messages_page_part == 3


def test_a_page_heavier_than_a_part_is_named(tmp_path: Path) -> None:
    pages = {"id": list(range(9)), "site": ["x"] * 9, "bytes": [100] + [1] * 8}
    web = graph.read([directory(tmp_path, pages, {"src": [0], "dst": [8]})])
    plan = planning.plan(web, "hybrid", 2, Settings(tolerances=(0.05, 1.0)))
    assert plan.reason
    assert plan.reason.endswith(": page 0 alone has 1.85 times the average load")


def test_links_to_replicated_urls_cost_nothing(crawl: Path, tmp_path: Path) -> None:
    """Each family's page 0 of site 0 has 3 links to it, all other pages 2 or 1; with these known to
    all, no link goes from family to family."""
    built, *_ = job.build([crawl], 4, tmp_path / "pv", replicate=4)
    assert built.counts.messages_page_part == 0
    vector = PartVector.open(tmp_path / "pv")
    assert set(vector.replicated) == {f"http://s0.f{family}.example/0" for family in range(4)}
    web = graph.read([crawl])
    assert planning.follow(web, vector).counts.messages_page_part == 4
    assert planning.follow(planning.known_to(web, vector), vector).counts.messages_page_part == 0
    plain = directory(tmp_path / "g", {"id": [0], "site": ["a"]}, {"src": [], "dst": []})
    with pytest.raises(UserError, match="has no URLs to replicate; leave out --replicate"):
        job.build([plain], 1, tmp_path / "pv", replicate=1)


def test_sites_with_an_address_stay_together(crawl: Path, tmp_path: Path) -> None:
    """One site of each family on the same server, the others each on its own."""
    shared = {f"s0.f{family}.example": "10.0.0.1" for family in range(4)}
    web = graph.read([crawl])
    for model in ("site-graph", "site-hypergraph"):
        plan = planning.plan(web, model, 3, Settings(together=shared, tolerances=(0.3, 0.3)))
        assert plan.feasible
        parts = {int(p) for p, s in zip(plan.part, web.site, strict=True) if web.sites[s] in shared}
        assert len(parts) == 1
    table = pa.table({"site": list(shared), "address": list(shared.values())})
    pq.write_table(table, crawl / "tables" / "sites.parquet")
    job.build([crawl], 3, tmp_path / "pv", model="site-graph", together=True)
    vector = PartVector.open(tmp_path / "pv")
    assert len({vector.site_part(site) for site in shared}) == 1


def test_evaluate_keeps_an_address_together_as_build_does(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With all sites on one server, all pages are in one of the parts."""
    sites = graph.read([crawl]).sites
    table = pa.table({"site": list(sites), "address": ["10.0.0.1"] * len(sites)})
    pq.write_table(table, crawl / "tables" / "sites.parquet")
    options = ["--together", "address", "--json"]
    words = ["evaluate", str(crawl), "-k", "3", "--models", "site-graph", *options]
    assert main(words) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert sorted(row["loads_requests"]) == [0, 0, 52]
    out = str(tmp_path / "pv")
    assert main(["build", str(crawl), "-k", "3", "--model", "site-graph", "--out", out]) == 0
    capsys.readouterr()
    assert main(["evaluate", out, "--on", str(crawl), "--models", "site-graph", *options]) == 0
    vector, again = json.loads(capsys.readouterr().out)
    assert sorted(vector["loads_requests"]) != [0, 0, 52]  # it is as it is
    assert sorted(again["loads_requests"]) == [0, 0, 52]


def test_parts_are_placed_on_ranks(crawl: Path) -> None:
    """The families talk in a ring, one message to the next: on two places with two ranks each, two
    of the four must pay."""
    far = 100.0
    costs = np.array([[0 if a % 2 == b % 2 else far for a in range(4)] for b in range(4)])
    np.fill_diagonal(costs, 0)
    plan = planning.plan(graph.read([crawl]), "site-graph", 4, Settings(network=costs))
    assert plan.network_cost == plan.row()["network_cost"] == 2 * far
    with pytest.raises(UserError, match="--network: has costs for 4 ranks, must have 3"):
        planning.plan(graph.read([crawl]), "site-graph", 3, Settings(network=costs))


def test_an_earlier_vector_is_where_the_engine_starts(
    crawl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 12 sites the vector lists 11; then two of them move, which are 2 of 12 of the bytes."""
    web = graph.read([crawl])
    before = {site: int(site.split(".")[1][1]) for site in web.sites}
    new = web.sites[4]
    listed = {site: part for site, part in before.items() if site != new}
    partvector.write(tmp_path / "pv", parts=4, sites=listed, model="site-graph")
    asked = {}

    def engine(net: object, parts: int, **options: object) -> np.ndarray:
        asked.update(options)
        part = np.array(list(before.values()), np.int32)
        part[[0, 1]] = (part[[0, 1]] + 1) % 4
        return part

    monkeypatch.setattr(engines.multilevel, "partition", engine)
    settings = Settings(previous=PartVector.open(tmp_path / "pv"), migration=0.2)
    for model in ("site-graph", "site-hypergraph"):
        plan = planning.plan(web, model, 4, settings)
        expected = [-1 if site == new else part for site, part in before.items()]
        assert asked["previous"].tolist() == expected
        assert asked["max_migration"] == 0.2
        assert plan.moved
        assert plan.moved[0] == pytest.approx(2 / 12)
        assert plan.row()["moved_bytes"] == plan.moved[0]


@pytest.mark.parametrize("model", MODELS)
def test_migration_is_bounded(crawl: Path, tmp_path: Path, model: str) -> None:
    """Sites were spread over the parts against their families; 4 of 12 may go, then none."""
    web = graph.read([crawl])
    scattered = {site: number // 3 for number, site in enumerate(web.sites)}
    partvector.write(tmp_path / "pv", parts=4, sites=scattered, model="site-graph")
    vector = PartVector.open(tmp_path / "pv")
    before = planning.follow(web, vector)
    some, none = (
        planning.plan(web, model, 4, Settings((0.4, 0.4), previous=vector, migration=migration))
        for migration in (0.34, 0.0)
    )
    assert some.moved
    assert 0 < some.moved[0] <= 0.34
    assert some.feasible
    assert some.counts.messages_page_part < before.counts.messages_page_part
    assert none.moved
    assert none.moved[0] == 0


def test_command_evaluate(crawl: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(crawl), "-k", "2,4", "--models", "all", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["k"], row["model"]) for row in rows] == [
        (k, model)
        for k in (2, 4)
        for model in (*("url-hash", "site-hash", "hierarchical"), *MODELS)
    ]
    assert all(row.keys() >= FIELDS for row in rows)
    assert rows[-1]["messages_page_part"] == 4
    assert rows[-1]["feasible"] is True
    assert main(["evaluate", str(crawl), "-k", "4", "--models", "site-graph"]) == 0
    above, heading, row = capsys.readouterr().out.splitlines()
    assert above.split() == ["bytes", "requests", "messages", "messages", "URLs", "KB", "of"]
    assert heading.startswith("model       k  over mean  over mean   by page   by site  sent")
    assert row.split()[:5] == ["site-graph", "4", "0.0%", "0.0%", "4"]


@pytest.mark.parametrize(
    ("seed", "migration"), [(0, 0.0), (1, 0.0), (2, 0.02), (3, 0.1), (4, 0.1), (5, 1.0)]
)
def test_a_warm_start_is_never_less_balanced_than_the_vector_that_it_starts_from(
    tmp_path: Path, seed: int, migration: float
) -> None:
    """A session with a quarter more pages, and new sites. Limits count, as a site may be heavy."""
    dice = random.Random(seed)
    parts, sites, pages = dice.randint(2, 4), dice.randint(10, 30), 250
    site = [min(int(dice.expovariate(4 / sites)), sites - 1) for _ in range(pages)]
    size = [dice.randint(1, 1000) for _ in range(pages)]
    links = [(page, dice.randrange(pages)) for page in range(pages) for _ in range(2)]
    names = [f"s{number}.example" for number in range(sites)]

    def first(number: int) -> WebGraph:
        ends = zip(*(link for link in links if max(link) < number), strict=True)
        return webgraph.from_arrays(*ends, site=site[:number], sites=names, bytes=size[:number])

    before, web = first(200), first(pages)
    old = planning.plan(before, "site-hypergraph", parts)
    of_site = {names[one]: part for one, part in zip(site, old.part.tolist(), strict=False)}
    loads = old.counts.loads
    partvector.write(tmp_path / "pv", parts=parts, sites=of_site, loads=loads, model=old.model)
    vector = PartVector.open(tmp_path / "pv")
    warm = Settings(previous=vector, migration=migration)
    plans = planning.follow(web, vector), planning.plan(web, "site-hypergraph", parts, warm)
    followed, repartitioned = (float((plan.counts.loads / plan.limits).max()) for plan in plans)
    assert repartitioned <= max(1.0, followed)
    assert plans[1].moved is not None
    assert max(plans[1].moved) <= migration
    assert plans[1].feasible == (repartitioned <= 1.0)


def test_command_build_then_evaluate_the_vector(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "pv")
    assert main(["build", str(crawl), "-k", "4", "--out", out, "--json"]) == 0
    built, stderr = capsys.readouterr()
    closing = stderr.splitlines()[-1]
    assert closing.startswith("4 parts by site-hypergraph: 4 messages, ")
    assert "bytes 0.0% (allowed 5.0%), requests 0.0% (allowed 5.0%)" in closing
    assert main(["evaluate", out, "--on", str(crawl), "--json"]) == 0
    followed = json.loads(capsys.readouterr().out)
    counts = [name for name in FIELDS if name not in ("seconds", "peak_bytes")]
    for one, other in zip(json.loads(built), followed, strict=True):
        assert {name: one[name] for name in counts} == {name: other[name] for name in counts}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "required: command"),
        ("evaluate CRAWL", "-k: give numbers of parts, like 4,8,16"),
        ("evaluate CRAWL -k 4,0", "argument -k: 0: must be a whole number, 1 or more"),
        ("evaluate CRAWL -k 4 --models best", "best: must be all, or some of url-hash,"),
        ("evaluate CRAWL -k 4 --epsilon bytes=-1", "has the form bytes=0.05,requests=0.05"),
        ("evaluate CRAWL -k 4 --epsilon bytes=nan", "has the form bytes=0.05,requests=0.05"),
        ("evaluate CRAWL -k 4 --epsilon speed=1", "has the form bytes=0.05,requests=0.05"),
        ("evaluate CRAWL -k 4 --seed=-1", "argument --seed: -1: must be a whole number from 0 to"),
        ("evaluate CRAWL -k 4 --on CRAWL", "isn't a part vector; leave --on out"),
        (
            "evaluate NOWHERE -k 4",
            ": must be a session that has ended (a folder with tables/), or ",
        ),
        ("evaluate CRAWL/tables/pages.parquet", "not a part vector; give"),
        ("evaluate VECTOR --suffixes NOWHERE", "--suffixes: only for the model hierarchical"),
        ("evaluate VECTOR --together address", "a part vector needs --on SESSION|GRAPH"),
        ("evaluate VECTOR", "a part vector needs --on SESSION|GRAPH"),
        ("evaluate VECTOR --on CRAWL -k 3", "has 4 parts; leave -k out"),
        ("evaluate CRAWL -k 4 --replicate -1", "--replicate -1: must be 0 or more"),
        ("evaluate VECTOR --on CRAWL --replicate 1", "lists the replicated URLs itself"),
        ("evaluate CRAWL -k 4 --t-start 0", "--t-start, --t-byte: one of them must be more than 0"),
        ("evaluate CRAWL -k 4 --t-byte=-1", "argument --t-byte: -1: must be a number, 0 or more"),
        ("evaluate CRAWL -k 4 --migration 2", "argument --migration: 2: must be a number from 0"),
        ("evaluate CRAWL -k 3 --previous VECTOR", "--previous: has 4 parts, must have 3"),
        ("evaluate CRAWL -k 4 --previous CRAWL/tables/links.parquet", "not a part vector; give"),
        ("evaluate CRAWL -k 4 --network NOWHERE", "must be TOML with "),
        (
            "evaluate CRAWL -k 4 --models site-hypergraph --engine metis",
            "engine metis: cuts graphs only; a hypergraph model needs another",
        ),
        (
            "build CRAWL -k 4 --out NOWHERE --engine best",
            "argument --engine: invalid choice: 'best'",
        ),
        (
            "build CRAWL -k 4 --out CRAWL/pv --together address",
            "sites.parquet: can't read the addresses of a session",
        ),
        ("evaluate CRAWL -k 4 --together address", "sites.parquet: can't read the addresses"),
        ("evaluate CRAWL -k 4 --engine-ranks 2", "--engine-ranks: only for --engine zoltan"),
        ("evaluate CRAWL -k 4 --engine zoltan --engine-ranks 0", "0: must be a whole number, 1 or"),
        ("evaluate CRAWL -k 4 --previous VECTOR --engine zoltan", "zoltan: can't start from a"),
        ("build CRAWL -k 4 --out NOWHERE --pins-per-rank 9", "only for several ranks; use mpirun"),
        ("build CRAWL -k 4", "the following arguments are required: --out"),
        ("build CRAWL -k 4 --out NOWHERE/pv", "must be a file in a folder that exists"),
        ("build CRAWL -k 4 --out CRAWL", "must be a file in a folder that exists"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, message: str
) -> None:
    vector = tmp_path / "vector"
    if "VECTOR" in words:
        job.build([crawl], 4, vector, model="site-graph")
    for name, path in (("CRAWL", crawl), ("NOWHERE", tmp_path / "no"), ("VECTOR", vector)):
        words = words.replace(name, str(path))
    assert main(words.split()) == 2
    out, error = capsys.readouterr()
    assert out == ""
    last = error.splitlines()[-1]  # what comes before it is progress
    assert last.startswith("partition: ")
    assert message in last


def test_a_failing_engine_is_exit_code_1(
    crawl: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engines, "_METIS", ("false",))
    assert main(["evaluate", str(crawl), "-k", "4", "--models", "site-graph"]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("partition: METIS: ended with code 1 (12 vertices")


@pytest.mark.parametrize("words", [["--help"], ["build", "--help"], ["evaluate", "--version"]])
def test_help_and_version(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ending:
        main(words)
    assert ending.value.code == 0
    assert capsys.readouterr().out
