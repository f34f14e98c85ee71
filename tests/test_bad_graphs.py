"""Bad graphs end in one line with exit code 2, before the work; and in no other way."""

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_graph import directory

from partition import UserError, politeness
from partition.__main__ import main
from partition.arrays import total
from partition.evaluate import evaluate
from partition.hypergraph import Hypergraph, connectivity_minus_one
from partition.multilevel import MAX_PARTS, partition
from partition.webgraph import from_arrays

PAGES: dict[str, Any] = {
    "id": list(range(20)),
    "url": [f"http://a{number // 5}.example/{number}" for number in range(20)],
    "site": [f"a{number // 5}.example" for number in range(20)],
    "bytes": [100 + number for number in range(20)],
}
LINKS = {"src": [0, 1, 6, 11, 16], "dst": [6, 11, 16, 1, 2]}


def changed(**columns: Any) -> dict[str, Any]:
    return PAGES | columns


BAD = {
    "a URL twice": (changed(url=["http://a.example/"] * 20), "is in two rows"),
    "NUL in a URL": (changed(url=["http://a.example/\0", *PAGES["url"][1:]]), "has a NUL"),
    "words as URLs": (changed(url=[f"page {n}" for n in range(20)]), "'page 0' is no http"),
    "one path as URL": (changed(url=[*PAGES["url"][1:], "/19"]), "'/19' is no http"),
    "a URL without a host": (changed(url=["http:///a", *PAGES["url"][1:]]), "is no http"),
    "another scheme": (changed(url=["ftp://a.example/", *PAGES["url"][1:]]), "is no http"),
    "an empty URL": (changed(url=["", *PAGES["url"][1:]]), "'' is no http"),
    "NUL in a site": (changed(site=["a\0"] * 20), "isn't a site name"),
    "no name": (changed(site=[" "] * 20), "isn't a site name"),
    "an address without a host": (changed(site=["https://[::bad"] * 20), "isn't a site name"),
    "slashes alone": (changed(site=["//"] * 20), "isn't a site name"),
    "bytes beyond 2^63": (changed(bytes=[1 << 62] * 20), "sum to 2^63"),
    "unsigned bytes": (changed(bytes=pa.array([1 << 63] * 20, pa.uint64())), "sum to 2^63"),
    "negative bytes": (changed(bytes=[-1] * 20), "must be 0 or more"),
    "an id twice": (changed(id=[7] * 20), "an id occurs twice"),
    "lists as sites": (changed(site=[["a"]] * 20), "must be single values"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("command", ["build", "evaluate"])
def test_a_bad_graph(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, command: str
) -> None:
    pages, what = BAD[name]
    words = [command, str(directory(tmp_path / "web", pages, LINKS)), "-k", "2"]
    words += ["--out", str(tmp_path / "pv")] if command == "build" else ["--models", "site-hash"]
    assert main(words) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("partition: ")
    assert what in last
    assert not (tmp_path / "pv").exists()


def test_text_that_is_not_utf_8(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = directory(tmp_path / "web", PAGES, LINKS)
    url = pa.array([b"http://a.example/\xff"] * 20).view(pa.string())
    pq.write_table(pa.table(PAGES | {"url": url}), folder / "pages.parquet")
    assert main(["evaluate", str(folder), "-k", "2", "--models", "site-hash"]) == 2
    assert "UTF8" in capsys.readouterr().err.splitlines()[-1].replace("-", "")


@pytest.mark.parametrize(
    ("option", "what"),
    [
        (["--epsilon", "bytes=0.1,bytes=0.2"], "given twice"),
        (["--epsilon", "bytes=nan"], "has the form"),
        (["--epsilon", "bytes=-1"], "has the form"),
        (["--migration", "nan"], "must be a number"),
        (["--migration", "0.2"], "only with --previous"),
        (["--rank-rate", "0"], "above 0"),
        (["--rank-rate", "-1"], "above 0"),
        (["--t-start", "1", "--model", "site-graph"], "only for the model hybrid"),
        (["--t-byte", "1", "--model", "page-hypergraph"], "only for the model hybrid"),
        (["--t-start", "inf"], "must be a number"),
        (["-k", str(MAX_PARTS + 1)], "at most"),
    ],
)
def test_bad_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: list[str], what: str
) -> None:
    words = ["build", str(directory(tmp_path / "web", PAGES, LINKS)), "-k", "2", *option]
    assert main([*words, "--out", str(tmp_path / "pv")]) == 2
    assert what in capsys.readouterr().err.splitlines()[-1]


def test_a_damaged_table_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = directory(tmp_path / "web", PAGES, LINKS)
    whole = (folder / "links.parquet").read_bytes()
    words = ["build", str(folder), "-k", "2", "--out", str(tmp_path / "pv")]
    for at in range(0, len(whole), max(len(whole) // 40, 1)):
        damaged = whole[:at] + bytes(len(whole[at : at + 40])) + whole[at + 40 :]
        (folder / "links.parquet").write_bytes(damaged)
        code = main(words)
        told = [line for line in capsys.readouterr().err.splitlines() if "links.parquet" in line]
        if code:
            assert code == 2
            assert len(told) == 1, told


def test_a_link_to_a_part_vector_stays_a_link(tmp_path: Path) -> None:
    folder = directory(tmp_path / "web", PAGES, LINKS)
    (tmp_path / "latest").symlink_to(tmp_path / "first")
    assert main(["build", str(folder), "-k", "2", "--out", str(tmp_path / "latest")]) == 0
    assert (tmp_path / "latest").is_symlink()
    assert (tmp_path / "first").is_file()


def test_a_site_cannot_control_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = changed(site=["a\x1b[2J"] * 18 + ["b", "c"])
    words = ["build", str(directory(tmp_path / "web", pages, LINKS)), "-k", "2"]
    assert main([*words, "--out", str(tmp_path / "pv")]) == 0
    out, err = capsys.readouterr()
    assert "a?[2J" in out + err
    assert "\x1b" not in out + err


def test_more_parts_than_sites_leave_some_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["build", str(directory(tmp_path / "web", PAGES, LINKS)), "-k", "6"]
    assert main([*words, "--out", str(tmp_path / "pv")]) == 0
    assert "2 of 6 parts are empty: there are only 4 sites" in capsys.readouterr().out


@pytest.mark.parametrize("model", ["site-hypergraph", "site-graph", "hybrid", "page-hypergraph"])
def test_bytes_just_below_the_limit_count_exactly(tmp_path: Path, model: str) -> None:
    sizes = [(1 << 58) + number for number in range(20)]
    web = directory(tmp_path / "web", PAGES | {"bytes": sizes}, LINKS)
    assert main(["build", str(web), "-k", "3", "--model", model, "--out", str(tmp_path / "p")]) == 0
    graph = from_arrays([], [], site=[0] * 20, bytes=sizes)
    counts = evaluate(graph, np.zeros(20, np.int32), 1)
    assert counts.loads[0, 0] == sum(sizes)


@given(st.lists(st.integers(0, (1 << 63) - 1), max_size=20))
def test_sums_are_exact(numbers: list[int]) -> None:
    assert total(np.array(numbers, np.int64)) == sum(numbers)


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.uint16(), pa.int64(), pa.uint64()])
def test_bytes_may_have_any_width(tmp_path: Path, kind: pa.DataType) -> None:
    pages = changed(bytes=pa.array([100] * 20, kind))
    web = directory(tmp_path / "web", pages, LINKS)
    assert main(["evaluate", str(web), "-k", "2", "--models", "site-graph"]) == 0


def test_weights_and_costs_beyond_64_bits() -> None:
    def pair(weight: int, cost: int) -> Hypergraph:
        pins = np.array([0, 1, 0, 1, 1, 2], np.int32)
        costs = np.full(3, cost, np.int64)
        return Hypergraph(np.arange(0, 7, 2), pins, costs, np.full((6, 2), weight, np.int64))

    with pytest.raises(ValueError, match="must sum to less than 2"):
        partition(pair(1 << 61, 1), 2)
    h = pair(1, 1 << 62)
    part = partition(h, 2)
    assert part[0] == part[1] == part[2]
    assert connectivity_minus_one(h, part) == 0
    assert connectivity_minus_one(h, np.arange(6, dtype=np.int32)) == 3 << 62


def test_parts_without_end() -> None:
    h = Hypergraph(np.array([0, 2]), np.array([0, 1]), np.array([1]), np.ones((3, 2), np.int64))
    assert partition(h, 100_000).tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="at most"):
        partition(
            Hypergraph(h.xpins, h.pins, h.costs, np.ones((MAX_PARTS + 2, 2), np.int64)),
            MAX_PARTS + 1,
        )


@pytest.mark.parametrize("what", ["nothing", "a folder"])
def test_a_previous_vector_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    previous = tmp_path / "before"
    if what == "a folder":
        previous.mkdir()
    words = ["build", str(directory(tmp_path / "web", PAGES, LINKS)), "-k", "2"]
    assert main([*words, "--out", str(tmp_path / "pv"), "--previous", str(previous)]) == 2
    assert f"--previous {previous}: " in capsys.readouterr().err.splitlines()[-1]


def test_a_fifo_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "fifo"
    os.mkfifo(out)
    words = ["build", str(directory(tmp_path / "web", PAGES, LINKS)), "-k", "2"]
    assert main([*words, "--out", str(out)]) == 2
    assert "must be a file" in capsys.readouterr().err.splitlines()[-1]
    assert out.is_fifo()


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -1.0])
def test_seconds_that_no_fetch_takes(tmp_path: Path, seconds: float) -> None:
    with pytest.raises(UserError, match=r"the seconds of the pages of a\.example sum to"):
        politeness.of_sessions([tmp_path], {"a.example": (seconds, 1)})


def test_delays_of_sites_that_no_crawl_has(tmp_path: Path) -> None:
    for delay in ("nan", "inf", "-1"):
        text = f'[[sites]]\nmatch = ["a.example"]\ndelay_s = {delay}\n'
        (tmp_path / "session.toml").write_text(text)
        with pytest.raises(UserError, match=r"\[\[sites\]\]: delay_s must be 0 or more"):
            politeness.of_sessions([tmp_path], {})
