"""Sites stay whole: the default model, balance beside heavy sites, and what bounds the crawl."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_graph import directory, session

from crawler import url
from partition import UserError, evaluate, graph, job, judge, partvector, planning, webgraph
from partition import politeness as polite
from partition.__main__ import main
from partition.arrays import Ids
from partition.models import MODELS, Units
from partition.partvector import PartVector
from partition.politeness import Politeness
from partition.settings import Settings
from partition.webgraph import WebGraph


@pytest.mark.parametrize(
    ("delay_s", "connections", "fetch_s", "rate"),
    [
        (1, 1, 0.25, 0.8),
        (0, 1, 0.001, 1000),
        (0.001, 1, 0.001, 500),
        (0, 16, 0.004, 4000),
        (0.1, 16, 0.004, 10),
        (0.1, 2, 1.0, 2),
        (0, 1, 0, np.inf),
    ],
)
def test_what_a_site_allows(delay_s: float, connections: int, fetch_s: float, rate: float) -> None:
    assert Politeness(delay_s, connections, fetch_s).rates(["a"]).tolist() == pytest.approx([rate])


def crawl(folder: Path, delay_s: float, connections: int, fetch_s: float | None) -> Path:
    """A session of a site with 24 of 36 pages, in 3 directories, and 12 sites with a page each."""
    texts = [f"http://big.example/{'abc'[number % 3]}/{number}" for number in range(24)]
    texts += [f"http://s{number}.example/" for number in range(12)]
    pages = [(text, url.site(text), 10, 1.0) for text in texts]
    links = [(texts[number], texts[number + 3], 0) for number in range(21)]
    session(folder, pages, links)
    if fetch_s is not None:
        path = folder / "tables" / "pages.parquet"
        table = pq.read_table(path)
        pq.write_table(table.append_column("seconds", pa.array([fetch_s] * len(table))), path)
    (folder / "session.toml").write_text(
        f"[politeness]\ndelay_s = {delay_s}\nconnections_per_site = {connections}\n"
    )
    return folder


@pytest.mark.parametrize(
    ("delay_s", "connections", "fetch_s", "options", "model"),
    [
        (1.0, 1, 0.1, [], "site-hypergraph"),
        (0.0, 1, 0.01, [], "site-hypergraph"),  # 100 pages a second
        (0.0, 1, 0.001, [], "hybrid"),
        (0.0, 16, 0.01, [], "hybrid"),
        (0.0, 16, 0.01, ["--rank-rate", "2000"], "site-hypergraph"),
        (0.01, 16, 0.01, [], "site-hypergraph"),
        (1.0, 1, 0.1, ["--model", "hybrid"], "hybrid"),
    ],
)
def test_a_site_is_split_only_where_that_is_useful(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    delay_s: float,
    connections: int,
    fetch_s: float,
    options: list[str],
    model: str,
) -> None:
    first = crawl(tmp_path / "first", delay_s, connections, fetch_s)
    out = str(tmp_path / "pv")
    assert main(["build", str(first), "-k", "4", "--out", out, "--json", *options]) == 0
    row = json.loads(capsys.readouterr().out)[0]
    assert row["model"] == PartVector.open(Path(out)).model == model
    assert row["feasible"]
    assert max(row["loads_requests"]) == (24 if model == "site-hypergraph" else 9)
    assert row["giants"] == (["big.example"] if model == "site-hypergraph" else [])
    assert (row["bounding_site"], row["bounding_pages"]) == ("big.example", 24)
    page_s = max(delay_s, fetch_s / connections) if connections > 1 else delay_s + fetch_s
    assert row["bounding_seconds"] == pytest.approx(24 * page_s)
    if delay_s == 1.0 and not options:
        assert row["crawl_limit"] == "site"
        assert row["crawl_seconds"] == pytest.approx(25 * 1.1 - 1, rel=0.1)  # with robots.txt


def test_as_many_parts_as_make_the_crawl_faster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, out = crawl(tmp_path / "first", 1.0, 1, 0.1), str(tmp_path / "pv")
    words = ["build", str(first), "-k", "auto", "--out", out]
    assert main(words) == 0  # one site of 24 pages bounds the crawl
    assert PartVector.open(Path(out)).parts == 1
    stderr = capsys.readouterr().err
    assert "with 1 rank, the crawl takes about 26.5 s: the site that takes longest bounds" in stderr
    assert main([*words, "--rank-rate", "0.5"]) == 0  # now 48 pages are 96 s of work
    assert PartVector.open(Path(out)).parts > 1
    assert "bounds it, which is busy for" in capsys.readouterr().err
    assert main(["evaluate", str(first), "-k", "2", "--models", "site-hash"]) == 0
    assert "from 1 rank on, more ranks hardly make the crawl faster" in capsys.readouterr().err


def test_the_bound_keeps_crawl_delays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (crawl(tmp_path / name, 1.0, 1, 0.0) for name in ("first", "second"))
    for folder, delays in ((first, [30.0, 5.0, None]), (second, [None, 90.0, 0.5])):
        sites = pa.table({"site": ["big.example", "s0.example", "s1.example"]})
        delay = pa.array(delays, pa.float64())
        pq.write_table(sites.append_column("crawl_delay", delay), folder / "tables/sites.parquet")
    known = polite.read([first, second])
    assert known is not None
    assert known.crawl_delay_s_of == {"big.example": 30, "s0.example": 60, "s1.example": 0.5}
    assert known.rates(["big.example", "s0.example", "s1.example", "s2.example"]).tolist() == [
        1 / 30, 1 / 60, 1, 1,
    ]  # fmt: skip
    assert main(["build", str(first), "-k", "2", "--out", str(tmp_path / "pv")]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "site big.example bounds the crawl: 24 pages at a delay of 30 s take 12 min"
    with (second / "session.toml").open("a") as file:
        file.write("max_crawl_delay_s = 7\n")
    known = polite.read([first, second])
    assert known is not None
    assert known.crawl_delay_s_of == {"big.example": 7, "s0.example": 7, "s1.example": 0.5}
    with (second / "session.toml").open("a") as file:
        file.write("[robots]\nobey = false\n")
    known = polite.read([first, second])
    assert known is not None
    assert known.crawl_delay_s_of == {}


def test_only_fast_sites_are_split() -> None:
    """Of two sites heavier than a part one is slow, and stays whole."""
    web = webgraph.from_arrays([], [], site=[0] * 40 + [1] * 40, sites=["fast", "slow"])
    politeness = Politeness(0.0, 1, 0.001, {"slow": 1.0})
    model, how = job.chosen(web.sites, web.loads(web.site, 2), 8, Settings(politeness=politeness))
    assert model == "hybrid"
    plan = planning.plan(web, model, 8, how)
    assert len(set(plan.part[40:].tolist())) == 1
    assert len(set(plan.part[:40].tolist())) > 1
    assert plan.giants == ("slow",)


def test_a_session_that_says_nothing_is_as_polite_as_the_crawler(tmp_path: Path) -> None:
    first = crawl(tmp_path / "first", 0, 1, None)
    assert polite.read([first]) == Politeness(0.0)
    (first / "session.toml").unlink()
    assert polite.read([first]) == Politeness(1.0, 1)
    (first / "session.toml").write_text("[politeness]\ndelay_s = 'long'\n")
    with pytest.raises(UserError, match="not the file of a session"):
        polite.read([first])


def test_a_graph_keeps_its_sites_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = {"id": list(range(10)), "site": ["x"] * 8 + ["y", "z"]}
    web = directory(tmp_path / "web", pages, {"src": [0], "dst": [9]})
    (web / "tables").mkdir()  # for addresses
    assert main(["build", str(web), "-k", "2", "--out", str(tmp_path / "pv")]) == 0
    stdout, stderr = capsys.readouterr()
    assert main(["build", str(web), "-k", "auto", "--out", str(tmp_path / "pv")]) == 2
    assert "-k auto: " in capsys.readouterr().err
    bound = "site x bounds the crawl: 8 pages at a delay of 1 s take 8 s"
    assert stdout.splitlines()[-1] == bound
    assert stderr.splitlines()[-2] == f"written: {tmp_path / 'pv'}; {bound}"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(8, "8 s"), (119, "119 s"), (600, "10 min"), (40_000, "11 h 7 min"), (864_000, "10 days 0 h")],
)
def test_durations(seconds: float, text: str) -> None:
    assert polite.duration(seconds) == text


def test_parts_beside_a_giant_are_judged_among_themselves() -> None:
    """16 parts: a site of half of all, then 150 sites of one page; 15 parts can have 10 each."""
    web = webgraph.from_arrays([], [], site=[0] * 150 + list(range(1, 151)))

    def judged(loads: list[int]) -> tuple[str, ...]:
        part = np.repeat(np.arange(16), [150, *loads]).astype(np.int32)
        counts = evaluate.evaluate(web, part, 16)
        return judge.balance(web, "site-graph", part, counts, (0.05, 0.05), {}).reasons

    assert judged([10] * 15) == ()
    assert "of the parts without site 0" in str(judged([12, 8, *[10] * 13]))


# The part vector is what the plan was.


def texts_of(paths: list[str]) -> list[str]:
    return [f"http://h.example/{path}" for path in paths]


@settings(max_examples=60)
@given(st.data())
def test_a_vector_says_what_was_planned(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Sites that share a host and its directories, each page in any part."""
    step = st.sampled_from(["a", "b", "c"])
    paths = data.draw(
        st.lists(st.lists(step, max_size=3).map("/".join), min_size=1, max_size=25, unique=True)
    )
    texts = [f"{text}/{number}" for number, text in enumerate(texts_of(paths))]
    n = len(texts)
    site = data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    whole = data.draw(st.integers(0, 2))
    part: Ids = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)), np.int32)
    part[np.array(site) == whole] = 3
    web = webgraph.from_arrays(
        [],
        [],
        site=site,
        sites=["x", "y", "z"],
        key=[url.key(text) for text in texts],
        texts=lambda pages: [texts[page] for page in pages],
    )
    sites, urls, directories = job._tables(web, part)
    path = tmp_path_factory.getbasetemp() / "planned"
    partvector.write(path, parts=4, sites=sites, urls=urls, directories=directories, model="hybrid")
    vector = PartVector.open(path)
    job._must_say(vector, web, part)
    for text, number, planned in zip(texts, site, part.tolist(), strict=True):
        assert vector.part_of_url(text, url.key(text), "xyz"[number]) == planned
        new = f"{text}/new"
        at = np.array([url.key(new)], np.uint64)
        one = WebGraph(
            key=at,
            site=np.array([number], np.int32),
            bytes=np.ones(1, np.int64),
            url_bytes=np.ones(1, np.int32),
            sites=web.sites,
            xadj=np.zeros(2, np.int64),
            adj=np.zeros(0, np.int32),
            texts=lambda pages, new=new: [new] * len(pages),  # type: ignore[misc]
        )
        listed = planning.listed(one, vector).tolist()
        assert listed == [vector.part_of_url(new, int(at[0]), "xyz"[number])]
        if number == whole:
            assert listed == [3]


def test_a_vector_that_differs_from_its_plan_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = crawl(tmp_path / "first", 1.0, 1, 0.1)
    tables = job._tables

    def wrong(web: WebGraph, part: Ids) -> Any:
        sites, urls, directories = tables(web, part)
        return sites | {"s1.example": (sites["s1.example"] + 1) % 4}, urls, directories

    monkeypatch.setattr(job, "_tables", wrong)
    (tmp_path / "pv").write_text("old")
    with pytest.raises(AssertionError, match=r"1 of 36 pages in another part .* site s1.example"):
        job.build([first], 4, tmp_path / "pv")
    assert (tmp_path / "pv").read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"first", "pv"}


@pytest.mark.parametrize("model", MODELS)
def test_every_model_builds_what_it_planned(tmp_path: Path, model: str) -> None:
    first = crawl(tmp_path / "first", 1.0, 1, 0.1)
    built, *_ = job.build([first], 4, tmp_path / "pv", model=model)
    followed = planning.follow(graph.read([first]), PartVector.open(tmp_path / "pv"))
    assert followed.part.tolist() == built.part.tolist()


# Migration and addresses.


def random_web(seed: int) -> WebGraph:
    random = np.random.default_rng(seed)
    source, target = random.integers(0, 300, (2, 900))
    sizes = random.lognormal(5, 1, 300).astype(np.int64)
    return webgraph.from_arrays(source, target, site=np.arange(300) // 12, bytes=sizes)


@settings(max_examples=20)
@given(
    st.integers(0, 1000),
    st.sampled_from(list(MODELS)),
    st.sampled_from([0.0, 0.02, 0.1, 0.5]),
    st.booleans(),
)
def test_what_moves_is_bounded_in_bytes_and_requests(
    tmp_path_factory: pytest.TempPathFactory, seed: int, model: str, bound: float, by_page: bool
) -> None:
    """From a vector of sites, or of pages at random, of which some are unlisted."""
    web, random = random_web(seed), np.random.default_rng(seed)
    part = random.integers(0, 4, web.pages).astype(np.int32)
    path = tmp_path_factory.getbasetemp() / "previous"
    if not by_page:
        part = part[web.site]
    known = random.random(web.pages) > 0.1
    sites = {web.sites[n]: int(part[web.site == n][0]) for n in range(len(web.sites) - 2)}
    urls = (web.key[known], part[known]) if by_page else None
    partvector.write(path, parts=4, sites=sites, urls=urls, model="any")
    how = Settings(previous=PartVector.open(path), migration=bound)
    plan = planning.plan(web, model, 4, how)
    assert plan.moved is not None
    if by_page and MODELS[model].units is Units.SITES:
        assert max(plan.moved) <= bound or not plan.feasible
        assert max(plan.moved) <= bound or "move to another part" in str(plan.reason)
    else:
        assert max(plan.moved) <= bound


@pytest.mark.parametrize("model", MODELS)
def test_an_address_stays_whole_or_the_option_is_refused(model: str) -> None:
    """12 of 25 sites share a server: half of all pages, in 4 parts."""
    web = random_web(1)
    together = {web.sites[number]: "10.0.0.1" for number in range(12)}
    how = Settings(together=together, tolerances=(0.4, 0.4))
    if MODELS[model].units is Units.PAGES:
        with pytest.raises(UserError, match=f"--together: the model {model} divides sites"):
            planning.plan(web, model, 4, how)
        return
    plan = planning.plan(web, model, 4, how)
    assert len(set(plan.part[web.site < 12].tolist())) == 1
    assert plan.giants == ("sites at 10.0.0.1",)
    assert plan.feasible
