"""The cost models of DRUM and VEUNIQ: against the paper's numbers, and against counted bytes."""

import importlib
import os
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"

# Table 2: the number of URLs to check, N with 2 GiB, then DRUM and VEUNIQ with 2, 4, 8 and 16 GiB.
TABLE_2 = """
0.3   2097    2.26 0.67  2.26 0.64  2.26 0.63  2.26 0.62
3     2097    2.26 0.68  2.26 0.64  2.26 0.63  2.26 0.62
30    6926    2.26 0.66  2.26 0.63  2.26 0.62  2.26 0.62
300   38822   2.27 0.67  2.26 0.63  2.26 0.63  2.26 0.62
3000  306991  2.39 0.68  2.29 0.64  2.27 0.63  2.26 0.62
"""


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("uniqueness.model")


def test_table_2_of_the_paper(model: ModuleType) -> None:
    cells = iter(model.table_2())
    for line in TABLE_2.strip().splitlines():
        billions, repositories, *printed = line.split()
        row = [next(cells) for _ in range(4)]
        assert {cell.links for cell in row} == {float(billions) * 1e9}
        assert row[0].repositories == int(repositories)
        assert [word for cell in row for word in (cell.drum, cell.veuniq)] == printed
    assert next(cells, None) is None


@pytest.mark.parametrize(
    ("gib", "terabytes", "buckets"),
    [(2, 22, 2097), (4, 89, 4194), (8, 354, 8388), (16, 1417, 16777)],
)
def test_recommended_disk_and_buckets(
    model: ModuleType, gib: int, terabytes: int, buckets: int
) -> None:
    memory = model.Memory(gib * model.GIB)
    assert round(model.recommended_disk(memory, 110) / 1e12) == terabytes
    assert int(model.recommended_buckets(memory)) == buckets


def test_equation_1_is_the_sum_over_the_merges(model: ModuleType) -> None:
    """The sum of section 4, merge by merge, for 5 merges of 1,000 records of 8 bytes."""
    load = model.Load(links=5_000, known=20_000, url_bytes=100, new_share=0.25)
    filled = 8_000.0
    total = 0.25 * 100 * 5_000
    for i in range(1, 6):
        total += 2 * 20_000 * 8 + 2 * filled * 100 / 8 + 2 * filled
        total += 2 * filled * 0.25 * i - filled * 0.25
    assert model.drum_overhead(load, 8, filled) * 5_000 * 100 == pytest.approx(total)


def test_equation_2_is_equation_1_at_the_recommended_disk(model: ModuleType) -> None:
    """At the border of its two cases, with all the disk D for keys and texts: k r = D H / (H+b)."""
    load, memory = model.Load(3e9, 1e9, 110, 1 / 9), model.Memory(2 * model.GIB)
    disk = model.recommended_disk(memory, 110)
    expected = model.drum_overhead(load, 8, disk * 8 / 118)
    for share in (0.999999, 1.000001):
        assert model.drum_overhead_in(load, memory, disk * share) == pytest.approx(expected, 1e-4)


def test_equation_3_is_the_sum_over_cycles_and_repositories(model: ModuleType) -> None:
    """The sum of section 5 for 4 repositories and 3 cycles of each."""
    load, memory = model.Load(12 * 500, 40_000, 100, 0.25), model.Memory(500 * 104.0)
    total = 0.0
    for _ in range(4):
        for cycle in range(1, 4):
            total += 0.25 * memory.total + 2 * 0.2 * memory.total
            total += 2 * (40_000 / 4 * 100 + (cycle - 1) * 0.25 * memory.total)
    assert model.veuniq_overhead(load, memory, 4, 0.2) * 6_000 * 100 == pytest.approx(total)


@pytest.mark.parametrize(
    "store",
    [
        "drum",
        "veuniq-16",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("drum-native", "veuniq-16-texts")),
    ],
)
def test_the_equations_predict_what_the_stores_count(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five whole rounds of 16 repositories."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    bench = importlib.import_module("uniqueness")
    row = bench.against_model(store, tmp_path, cycle=5_000)
    assert row["cycles"] == 80
    assert 0.2 < row["p"] < 0.3
    assert abs(row["difference"]) < 0.1, row


@pytest.mark.parametrize("store", ["veuniq-4", "veuniq-4-any", "veuniq-4-texts", "drum"])
def test_a_store_that_was_filled_in_bulk_is_like_one_that_has_grown(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both read and write as much in a round of four cycles, in each kind of file."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    bench = importlib.import_module("uniqueness")
    pages = 200

    def four_cycles(subject: Any, stream: Any) -> int:
        new = 0
        for _ in range(4):
            subject.prepare(*stream.cycle(pages, subject.pages(stream)))
            new += sum(subject.check(0))
        return new

    def a_round(subject: Any, stream: Any) -> tuple[Counter[str], Counter[str], int]:
        folder = subject.store.folder
        folder.read.clear()
        folder.written.clear()
        new = four_cycles(subject, stream)
        del folder.written["m"]  # the manifest is small
        return folder.read, folder.written, new

    def filled(name: str, known: int) -> tuple[Any, Any]:
        subject = bench.small(store, tmp_path / name, 10 * pages)
        stream = bench.Stream(known, sites=1000)
        subject.fill(stream, 4, pages)
        return subject, stream

    grown, stream = filled("grown", 5_000)
    for _ in range(5):
        four_cycles(grown, stream)
    at_once, other = filled("at once", int(stream.known.sum()))
    (read, written, new), expected = a_round(at_once, other), a_round(grown, stream)
    assert new == pytest.approx(expected[2], rel=0.08)
    for found, sizes in ((read, expected[0]), (written, expected[1])):
        assert found.keys() == sizes.keys()
        for letter, size in sizes.items():
            assert found[letter] == pytest.approx(size, rel=0.08), letter


def test_stores_of_the_benchmark_find_the_same_new_urls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("rocksdict", "lmdb"):
        pytest.importorskip(module)
    monkeypatch.syspath_prepend(BENCHMARKS)
    bench = importlib.import_module("uniqueness")

    def new_urls(name: str) -> list[int]:
        stream = bench.Stream(20_000, sites=1000)
        subject = bench.STORES[name](tmp_path / name)
        subject.fill(stream, 3)
        found = []
        for _ in range(3):
            subject.prepare(*stream.cycle(100, subject.pages(stream)))
            found.append(sum(subject.check(0)))
        subject.close()
        return found

    expected = new_urls("drum")
    for other in ("memory", "runs", "rocksdb", "lmdb"):
        assert new_urls(other) == expected, other
