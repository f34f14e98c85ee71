"""The web that a crawl is compared with: the same for each number of processes."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from known_webs import keys, known_web
from tabled import together

from crawler import url
from crawler.core.order import pagerank
from crawler.ports import OUT_OF_SCOPE, PAGE, REQUISITE, Peers, UserError
from crawler.report.importance import pagerank_by_key
from crawler.report.measures import importance_ranks
from crawler.report.reference import Web
from crawler.session import Alone, alone

_Links = list[tuple[int, int, bool]]  # source, target, whether it leads out of the scope

_links = st.lists(st.tuples(st.integers(0, 14), st.integers(0, 14), st.booleans()), max_size=60)
_pages = st.lists(st.tuples(st.integers(0, 12), st.booleans(), st.booleans()), max_size=20)


def _read(path: Path, processes: int) -> list[Web]:
    return together(processes, lambda peers: Web.read(path, peers))


def _put_together(parts: list[Web]) -> tuple[np.ndarray, list[np.ndarray]]:
    """The keys of the whole web, ascending, and the places of its pages."""
    for rank, part in enumerate(parts):
        assert (part.keys % np.uint64(len(parts)) == rank).all()
        assert part.pages == sum(len(one.keys) for one in parts)
    held = np.concatenate([part.keys for part in parts])
    order = np.argsort(held)
    places = zip(*(part.places for part in parts), strict=True)
    return held[order], [np.concatenate(one)[order] for one in places]


def _write(folder: Path, name: str, table: pa.Table, files: int, rows: int) -> None:
    """Write a table in several files, with row groups of so many rows."""
    (folder / name).mkdir(parents=True)
    for number in range(files):
        begin, end = (at * len(table) // files for at in (number, number + 1))
        file = folder / name / f"{number:05}.parquet"
        pq.write_table(table.slice(begin, end - begin), file, row_group_size=rows)


def _check(path: Path, pages: set[int], links: list[tuple[int, int]], processes: int) -> None:
    """Compare what several processes read with the definition, and with what one reads."""
    web = known_web(keys(*pages), *(keys(*(link[at] for link in links)) for at in (0, 1)))
    held, places = _put_together(_read(path, processes))
    assert held.tolist() == web.keys.tolist()
    assert places[0].tolist() == importance_ranks(web.back_links).tolist()
    by_pagerank = web.pagerank[np.argsort(places[1])]
    assert sorted(places[1]) == list(range(len(pages)))
    assert (np.diff(by_pagerank) < 1e-6).all()
    one_alone = alone(Web.read(path, Alone()))
    assert one_alone.pages == len(pages)
    assert one_alone.places[1].tolist() == places[1].tolist()


@settings(max_examples=30)
@given(_pages, _links, st.integers(1, 3), st.integers(1, 7), st.integers(1, 6))
def test_a_session_is_the_web_of_its_pages_with_status_200(
    pages: list[tuple[int, bool, bool]], links: _Links, files: int, rows: int, processes: int
) -> None:
    numbers, good, needed = ([page[at] for page in pages] for at in range(3))
    table = pa.table({
        "key": pa.array(numbers, pa.uint64()),
        "status": pa.array([200 if one else None for one in good], pa.int16()),
        "role": pa.array([REQUISITE if one else PAGE for one in needed], pa.string()),
    })  # fmt: skip
    followed = pa.table({
        "source_key": pa.array([link[0] for link in links], pa.uint64()),
        "target_key": pa.array([link[1] for link in links], pa.uint64()),
        "flags": pa.array([OUT_OF_SCOPE * link[2] for link in links], pa.uint8()),
    })  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        _write(Path(name) / "tables", "pages", table, files, rows)
        _write(Path(name) / "tables", "links", followed, files, rows)
        known = {number for number, is_good, is_needed in pages if is_good and not is_needed}
        inside = [(source, target) for source, target, outside in links if not outside]
        _check(Path(name), known, inside, processes)


@settings(max_examples=15)
@given(st.permutations(range(12)), st.integers(0, 12), _links, st.integers(1, 6))
def test_a_graph_is_the_web_of_all_its_urls(
    ids: list[int], count: int, links: _Links, processes: int
) -> None:
    ids = ids[:count]
    key_of = {number: url.own_key(f"http://a.example/{number}") for number in ids}
    table = pa.table({
        "id": pa.array(ids, pa.int64()),
        "url": pa.array([f"http://a.example/{number}" for number in ids], pa.string()),
    })  # fmt: skip
    ends = [pa.array([link[at] for link in links], pa.int64()) for at in (0, 1)]
    with tempfile.TemporaryDirectory() as name:
        pq.write_table(table, Path(name) / "pages.parquet", row_group_size=3)
        pq.write_table(
            pa.table(dict(zip(("src", "dst"), ends, strict=True))),
            Path(name) / "links.parquet",
            row_group_size=5,
        )
        known = [link[:2] for link in links if link[0] in key_of and link[1] in key_of]
        by_key = [(key_of[source], key_of[target]) for source, target in known]
        _check(Path(name), set(key_of.values()), by_key, processes)


def test_a_larger_web_has_the_same_places_however_it_is_divided(tmp_path: Path) -> None:
    """Many pages are equally important here, and a process names only some of its pages."""
    random, pages = np.random.default_rng(1), np.arange(20_000, dtype=np.uint64)
    ends = [random.zipf(1.5, 60_000) % 21_000, random.zipf(1.5, 60_000) % 21_000]
    sources, targets = (one.astype(np.uint64) * np.uint64(3) % np.uint64(20_011) for one in ends)
    _write(tmp_path, "pages", pa.table({"key": pages, "status": [200] * len(pages)}), 3, 5000)
    table = pa.table({
        "source_key": sources, "target_key": targets, "flags": np.zeros(len(sources), np.uint8)
    })  # fmt: skip
    _write(tmp_path, "links", table, 3, 9000)
    web = known_web(pages, sources, targets)
    (held, places), one_alone = _put_together(_read(tmp_path, 3)), _read(tmp_path, 1)[0]
    assert held.tolist() == pages.tolist()
    assert places[0].tolist() == importance_ranks(web.back_links).tolist()
    assert [one.tolist() for one in places] == [one.tolist() for one in one_alone.places]


@pytest.mark.parametrize("pages", [1, 900])
def test_scores_are_the_same_to_the_last_bit_however_the_links_are_divided(pages: int) -> None:
    random = np.random.default_rng(1)
    sources, targets = (random.zipf(1.3, 3000).astype(np.uint64) * 7 % pages for _ in range(2))
    names = np.unique(np.concatenate((sources, targets)))
    at = (np.searchsorted(names, keys) for keys in (sources, targets))
    expected, _ = pagerank(len(names), *at)

    async def score(peers: Peers) -> tuple[np.ndarray, np.ndarray]:
        its = np.random.default_rng(2).integers(peers.size, size=len(sources)) == peers.rank
        return await pagerank_by_key(sources[its], targets[its], peers)

    ((one_names, one_alone),) = together(1, score)
    assert one_names.tolist() == names.tolist()
    assert one_alone == pytest.approx(expected, rel=1e-6)
    for processes in range(2, 6):
        for rank, (own, scores) in enumerate(together(processes, score)):
            held = np.flatnonzero(names % np.uint64(processes) == rank)
            assert own.tolist() == names[held].tolist()
            assert scores.tolist() == one_alone[held].tolist()


def test_what_is_no_web_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [7]}), tmp_path / "pages.parquet")
    with pytest.raises(UserError, match="no such file"):
        _read(tmp_path, 1)
    pq.write_table(pa.table({"src": [7], "dst": [7]}), tmp_path / "links.parquet")
    with pytest.raises(UserError, match=r"unusable: .*url"):
        _read(tmp_path, 1)
    table = pa.table({"id": [7], "url": ["http://a.example:port/"]})
    pq.write_table(table, tmp_path / "pages.parquet")
    with pytest.raises(UserError, match="unusable"):
        _read(tmp_path, 1)
    with pytest.raises(UserError, match="no such file"):
        _read(tmp_path / "nowhere", 1)
