"""From sessions to a part vector, and the command line."""

import json
from pathlib import Path

import numpy as np
import pytest
from test_graph import directory, session

from partition import UserError, engines, evaluate, graph, job, partvector
from partition.__main__ import main
from partition.graph import WebGraph
from partition.partvector import PartVector

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


def test_site_graph_finds_the_families(crawl: Path) -> None:
    """Cut are the 4 links from family to family: each its own page, site, target and length."""
    web = graph.read([crawl])
    assert (web.pages, len(web.sites)) == (4 * 13, 12)
    plan = job.plan(web, "site-graph", 4)
    assert plan.feasible
    assert plan.constraints == 2
    assert plan.counts.messages_page_part == plan.counts.messages_site_part == 4
    assert plan.counts.transmissions_target_part == plan.counts.inter_part_links == 4
    assert plan.counts.volume_bytes == 4 * len("http://s0.f0.example/0")
    assert plan.counts.loads[:, 1].tolist() == [13] * 4


def test_build_writes_what_it_planned(crawl: Path, tmp_path: Path) -> None:
    built, url_hash, site_hash = job.build([crawl], 4, tmp_path / "pv")
    assert (url_hash.model, site_hash.model) == ("url-hash", "site-hash")
    assert built.counts.messages_page_part < site_hash.counts.messages_page_part
    vector = PartVector.open(tmp_path / "pv")
    assert (vector.parts, vector.model, vector.sites) == (4, "site-graph", 12)
    assert vector.sessions == ("crawl",)
    followed = job.follow(graph.read([crawl]), vector)
    assert followed.part.tolist() == built.part.tolist()


def test_equal_seeds_build_equal_files(crawl: Path, tmp_path: Path) -> None:
    for name in "12":
        job.build([crawl], 3, tmp_path / name, seed=5)
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_a_site_that_is_too_heavy_is_named(tmp_path: Path) -> None:
    """Site x has 8 of 10 pages: of 2 parts, 1.6 times a part's share; bytes are even."""
    pages = {
        "id": list(range(10)),
        "site": ["x"] * 8 + ["y", "z"],
        "bytes": [1] * 8 + [4, 4],
    }
    web = graph.read([directory(tmp_path, pages, {"src": [0], "dst": [9]})])
    plan = job.plan(web, "site-graph", 2)
    assert not plan.feasible
    assert plan.reason == (
        "requests 60.0% over the average (allowed 5.0%): site x alone has 1.60 parts' share"
    )
    assert job.plan(web, "site-graph", 2, tolerances=(0.0, 0.6)).feasible


def test_more_parts_than_sites(crawl: Path) -> None:
    plan = job.plan(graph.read([crawl]), "site-graph", 50)
    assert (plan.counts.loads[:, 1] > 0).sum() == 12
    assert not plan.feasible


def test_one_part_has_no_messages(crawl: Path) -> None:
    for model in job.MODELS:
        plan = job.plan(graph.read([crawl]), model, 1)
        assert plan.feasible
        assert plan.counts.messages_page_part == plan.counts.volume_bytes == 0


def test_no_parts_and_unknown_models(crawl: Path, tmp_path: Path) -> None:
    web = graph.read([crawl])
    with pytest.raises(UserError, match="0 parts: must be 1 or more"):
        job.plan(web, "site-hash", 0)
    with pytest.raises(UserError, match="model best: must be one of url-hash, "):
        job.plan(web, "best", 2)
    with pytest.raises(UserError, match="model url-hash: a part vector is made by site-graph"):
        job.build([crawl], 2, tmp_path / "pv", model="url-hash")


def test_the_best_of_several_tries_is_taken(crawl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By seed: balanced with many messages, balanced with few, out of balance with none."""
    web = graph.read([crawl])
    families = np.array([int(name[1]) for name in family(web)], np.int32)
    results = {0: np.arange(12, dtype=np.int32) % 4, 1: families, 2: np.zeros(12, np.int32)}
    monkeypatch.setattr(
        engines,
        "metis",
        lambda *_, seed, tolerances: engines.Partition(results[seed]),
    )
    plan = job.plan(web, "site-graph", 4, tries=3, tolerances=(0.2, 0.2))
    assert plan.part.tolist() == families[web.site].tolist()


def test_pages_of_a_vector_before_sites_and_strangers_by_hash(crawl: Path, tmp_path: Path) -> None:
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
    expected = np.where(web.site == listed, part, hashed)
    expected[alone] = (hashed[alone] + 2) % 4
    followed = job.follow(web, PartVector.open(tmp_path / "pv"))
    assert followed.part.tolist() == expected.tolist()


def test_command_evaluate(crawl: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(crawl), "-k", "2,4", "--models", "all", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["k"], row["model"]) for row in rows] == [
        (k, model) for k in (2, 4) for model in ("url-hash", "site-hash", "site-graph")
    ]
    assert all(row.keys() >= FIELDS for row in rows)
    assert rows[-1]["messages_page_part"] == 4
    assert rows[-1]["feasible"] is True
    assert main(["evaluate", str(crawl), "-k", "4", "--models", "site-graph"]) == 0
    heading, row = capsys.readouterr().out.splitlines()
    assert heading.startswith("model       k  imbalance bytes  requests  messages page  site")
    assert row.split()[:5] == ["site-graph", "4", "0.0%", "0.0%", "4"]


def test_command_build_then_evaluate_the_vector(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "pv")
    assert main(["build", str(crawl), "-k", "4", "--out", out, "--json"]) == 0
    built, stderr = capsys.readouterr()
    assert "by site-hash, 4 by site-graph" in stderr
    assert main(["evaluate", out, "--on", str(crawl), "--json"]) == 0
    followed = json.loads(capsys.readouterr().out)
    counts = [name for name in FIELDS if name not in ("seconds", "peak_bytes")]
    for one, other in zip(json.loads(built), followed, strict=True):
        assert {name: one[name] for name in counts} == {name: other[name] for name in counts}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "required: command"),
        ("evaluate CRAWL", "-k: needed, numbers of parts like 4,8,16"),
        ("evaluate CRAWL -k 4,0", "argument -k: 0: must be a whole number, 1 or more"),
        ("evaluate CRAWL -k 4 --models best", "best: must be all, or some of url-hash,"),
        ("evaluate CRAWL -k 4 --epsilon bytes=-1", "has the form bytes=0.05,requests=0.05"),
        ("evaluate CRAWL -k 4 --epsilon speed=1", "has the form bytes=0.05,requests=0.05"),
        ("evaluate CRAWL -k 4 --seed=-1", "argument --seed: -1: must be a whole number from 0 to"),
        ("evaluate CRAWL -k 4 --on CRAWL", "--on: only for a part vector"),
        ("evaluate NOWHERE -k 4", ": must be a session that has ended, with tables/, or a graph, "),
        ("evaluate CRAWL/tables/pages.parquet", "not a part vector; needed is"),
        ("evaluate VECTOR", "a part vector needs --on SESSION|GRAPH"),
        ("evaluate VECTOR --on CRAWL -k 3", "has 4 parts; leave -k out"),
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
        job.build([crawl], 4, vector)
    for name, path in (("CRAWL", crawl), ("NOWHERE", tmp_path / "no"), ("VECTOR", vector)):
        words = words.replace(name, str(path))
    assert main(words.split()) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.count("\n") == 1
    assert error.startswith("partition: ")
    assert message in error


def test_a_failing_engine_is_exit_code_1(
    crawl: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engines, "_METIS", ("false",))
    assert main(["evaluate", str(crawl), "-k", "4"]) == 1
    assert capsys.readouterr().err.startswith("partition: METIS: ended with code 1 (12 vertices")


@pytest.mark.parametrize("words", [["--help"], ["build", "--help"], ["evaluate", "--version"]])
def test_help_and_version(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ending:
        main(words)
    assert ending.value.code == 0
    assert capsys.readouterr().out
