"""The experiments of the partitioning papers: which runs may stand in one file."""

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

from partition import importers, synthesize

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
