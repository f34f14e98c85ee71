"""The experiments of the partitioning papers: runs, tables, and properties of webs."""

import importlib
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from partition import importers, synthesize, webgraph

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def papers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    found = importlib.import_module("papers")
    monkeypatch.setattr(found, "_compile", lambda: None)  # hashing needs no compiled function
    return found


@pytest.fixture
def web(tmp_path: Path) -> Path:
    importers.write(tmp_path / "tiny", *synthesize.google_like(300, 20, 0))
    return tmp_path / "tiny"


def runs(out: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (out / "runs.jsonl").read_text().splitlines()]


def test_each_run_names_its_origin(papers: ModuleType, web: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for k in ((2,), (2, 4)):  # the second command continues
        papers.run([web], models=["url-hash", "site-hash"], k=k, out=out)
    rows = runs(out)
    assert [(row["contestant"], row["k"], row["seed"]) for row in rows] == [
        *(("url-hash", 2, 0), ("site-hash", 2, 0)),
        *(("url-hash", 4, 0), ("site-hash", 4, 0)),
    ]
    assert all({"commit", "date", "machine"} <= set(row) for row in rows)


@pytest.mark.parametrize("change", [{"commit": "another"}, {"machine": "another"}, None])
def test_runs_of_another_origin_are_refused(
    papers: ModuleType, web: Path, tmp_path: Path, change: dict[str, str] | None
) -> None:
    out = tmp_path / "out"
    papers.run([web], models=["url-hash"], k=(2,), out=out)
    (row,) = runs(out)
    other = row | change if change else {"graph": "tiny", "contestant": "url-hash"}
    (out / "runs.jsonl").write_text(json.dumps(other) + "\n")
    with pytest.raises(SystemExit) as refusal:
        papers.run([web], models=["url-hash"], k=(4,), out=out)
    said = str(refusal.value)
    assert said.startswith(f"error: {out}/runs.jsonl: ")
    assert "move the file away" in said
    assert "\n" not in said
    assert runs(out) == [other]
    (out / "runs.jsonl").write_text("".join(json.dumps(one) + "\n" for one in (row, other)))
    with pytest.raises(SystemExit, match="move the file away"):
        papers.run(check=True, out=out)  # without runs of its own


# Three sites: pages 0 to 2, page 3, and pages 4 and 5.
SITES = [0, 0, 0, 1, 2, 2]
LINKS = [(0, 1), (0, 3), (0, 4), (0, 5), (1, 2), (2, 3), (3, 0)]


def test_properties_of_a_web_counted_by_hand(papers: ModuleType) -> None:
    source, target = zip(*LINKS, strict=True)
    web = webgraph.from_arrays(source, target, site=SITES, url_bytes=[1, 1, 1, 20, 1, 3])
    found = papers.properties(web)
    table = found.pop("table")
    # Pages 0, 2 and 3 link to other sites: page 0 to two of them.
    assert found == {
        "pages": 6,
        "sites": 3,
        "links": 7,
        "within": 28.57,
        "nets": 3,
        "pins": 3 + 4,
    }
    assert table["edges"] == [7, 3]
    assert table["mean weight of an edge, bytes"] == [47 / 7, 45 / 3]
    assert table["largest weight of an edge, bytes"] == [20, 40]
    assert table["largest out-degree"] == [4, 2]
    assert table["largest in-degree"] == [2, 1]
    assert table["connected components"] == [1, 1]
    assert table["nets"] == [6, 6]  # each page has one
    assert table["pins"] == [6 + 7, 6 + 4]
    assert table["most pins of a net"] == [5, 3]
    assert table["most nets of a vertex"] == [3, 4]  # pages 0 to 2, and page 3's net


@pytest.mark.parametrize("seed", range(20))
def test_components_are_those_of_a_walk(papers: ModuleType, seed: int) -> None:
    random = np.random.default_rng(seed)
    pages = int(random.integers(1, 40))
    links = random.integers(0, pages, (int(random.integers(0, 40)), 2))
    links = links[links[:, 0] != links[:, 1]]
    found = papers.properties(webgraph.from_arrays(*links.T, site=[0] * pages))["table"]
    near: list[set[int]] = [{page} for page in range(pages)]
    for one, other in links.tolist():
        joined = near[one] | near[other]
        for page in joined:
            near[page] = joined
    sizes = [len(group) for group in {id(group): group for group in near}.values()]
    assert found["connected components"][0] == len(sizes)
    assert found["vertices of the largest component"][0] == max(sizes)


def test_each_value_of_the_texts_stands_beside_ours(
    papers: ModuleType, web: Path, tmp_path: Path
) -> None:
    web.rename(tmp_path / "google-tiny")
    out = tmp_path / "out"
    papers.run([tmp_path / "google-tiny"], models=["url-hash", "site-hash"], k=(4, 8), out=out)
    text = (out / "partitioning-tables.md").read_text()
    (row,) = (json.loads(line) for line in (out / "webs.jsonl").read_text().splitlines())
    assert (row["graph"], row["pages"], row["sites"]) == ("google-tiny", 300, 20)
    found = [run for run in runs(out) if (run["contestant"], run["k"]) == ("site-hash", 8)]
    ours = found[0]["volume_bytes"]
    assert isinstance(ours, int)
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    tables = [line for line in lines if line]
    start = tables.index(next(line for line in tables if line[0] == "site-hash, thesis"))
    head = [line for line in tables[:start] if line[0] == "volume, MB"][-1]
    at = head.index("K = 8")
    assert tables[start][at] == "23"  # 23,046,239 bytes
    assert tables[start + 1][0] == "site-hash, ours"
    assert tables[start + 1][at].removesuffix(" †") == f"{ours / 1e6:.3g}"
    assert ["google, thesis", "7.76", "7.61", "7.31", "7.11", "6.05", "4.58"] in [
        [cell for cell in line if cell] for line in tables
    ]


def run_of(model: str, imbalance: float, reason: str | None) -> dict[str, object]:
    counts = dict.fromkeys(("messages_page_part", "messages_site_part"), 100)
    counts |= dict.fromkeys(("transmissions_target_part", "volume_bytes", "peak_bytes"), 100)
    about = {"graph": "tiny", "pages": 9, "contestant": model, "k": 4, "seed": 0, "cpu_s": 1.0}
    both = {"imbalance_bytes": 0.01, "imbalance_requests": imbalance}
    return {**about, **counts, **both, "reason": reason}


@pytest.mark.parametrize(
    ("model", "imbalance", "reason", "holds"),
    [
        ("hybrid", 0.05, None, True),
        ("hybrid", 0.8, None, False),  # it may divide the giant
        ("hybrid", 0.8, "requests 80 %: site a alone has 1.80 times the average load", False),
        ("site-graph", 0.8, None, True),  # within the limits of parts beside a giant
        ("site-graph", 0.8, "requests 80 %: site a alone has 1.80 times the average load", True),
        ("site-graph", 0.8, "5 % over the limit with site a, alone 1.80 times the average", True),
        ("site-graph", 0.8, "5 % over the limit of the parts without site a", True),
        ("site-graph", 0.8, "1 of 4 parts are empty: there are only 3 sites", True),
        ("site-graph", 0.8, "requests of part 1 are 80 % over the average", False),
        ("page-graph", 0.8, "requests 80 %: page a alone has 1.80 times the average load", True),
    ],
)
def test_a_giant_that_is_named_excuses_imbalance_of_whole_sites(
    papers: ModuleType, model: str, imbalance: float, reason: str | None, *, holds: bool
) -> None:
    said = papers.check_runs([run_of(model, imbalance, reason)])
    (row,) = (line for line in said.splitlines() if line.startswith(f"| {model} within"))
    assert ("| 1 of 1 |" in row) == holds


def test_only_plans_of_equal_balance_are_compared(papers: ModuleType) -> None:
    """The site hypergraph is feasible, because a giant is excused, and yet out of balance."""
    for imbalance, compared in ((0.05, True), (0.8, False)):
        runs = [run_of("hybrid", 0.05, None), run_of("site-hypergraph", imbalance, None)]
        assert ("at equal balance" in papers.check_runs(runs)) == compared
