"""The link graph of a session for other programs: pairs of URLs, and WebGraph's ASCII form."""

import gzip
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler import session, url
from crawler.export.graph import write_edges, write_webgraph
from crawler.ports import OUT_OF_SCOPE, Link, PageRow
from crawler.session.log import LogWriter
from partition.importers import text as importers

URLS = [f"http://{host}.example/{page}" for host in "ab" for page in "wxyz"]
NUMBERS = st.integers(0, len(URLS) - 1)
# (rank, page, kind, targets): a page may come twice, and link to any URL.
Row = tuple[int, int, str, list[int]]
KINDS = st.sampled_from(["page", "page", "page", "failed", "requisite"])
ROWS = st.lists(
    st.tuples(st.integers(0, 2), NUMBERS, KINDS, st.lists(NUMBERS, unique=True, max_size=5))
)


def write_logs(folder: Path, rows: list[Row]) -> None:
    for rank in range(3):
        directory = folder / f"rank-{rank:05}" / "log"
        directory.mkdir(parents=True)
        log = LogWriter(directory)
        for its, page, kind, targets in rows:
            if its == rank:
                text = URLS[page]
                fields: dict[str, Any] = (
                    {"error": "timeout"} if kind == "failed" else {"status": 200, "role": kind}
                )
                row = PageRow(text, url.key(text), url.site(text), 0, rank, 0, 0.0, 0.0, **fields)
                links = [(URLS[one], OUT_OF_SCOPE * (one % 2)) for one in targets]
                found = [Link(url.key(t), t, url.site(t), flags) for t, flags in links]
                log.write([log.frame(row, found)])
        log.close()


def graph_of(rows: list[Row]) -> dict[str, set[str]]:
    """The successors of each page, in the order of the logs; the last response of a page counts."""
    pages: dict[str, set[str]] = {}
    for _, page, kind, targets in sorted(rows, key=lambda row: row[0]):
        if kind == "page":
            pages.pop(URLS[page], None)
            pages[URLS[page]] = {URLS[one] for one in targets}
    return {page: {one for one in ends if one in pages} for page, ends in pages.items()}


@settings(max_examples=25)  # each writes files to disk
@given(ROWS)
def test_both_forms_hold_the_graph(rows: list[Row]) -> None:
    graph = graph_of(rows)
    count = sum(map(len, graph.values()))
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_logs(folder, rows)
        for path in (folder / "edges.tsv", folder / "edges.tsv.gz"):
            assert write_edges(folder, path) == [
                f"{path}: {count:,} links between {len(graph):,} pages"
            ]
        lines = (folder / "edges.tsv").read_text().splitlines()
        assert sorted(lines) == sorted(f"{a}\t{b}" for a, ends in graph.items() for b in ends)
        assert (
            gzip.decompress((folder / "edges.tsv.gz").read_bytes()).decode().splitlines() == lines
        )

        write_webgraph(folder, folder / "web")
        names = (folder / "web.urls").read_text().splitlines()
        assert names == list(graph)
        first, *successors = (folder / "web.graph-txt").read_text().split("\n")[:-1]
        numbers = [list(map(int, line.split())) for line in successors]
        assert int(first) == len(names) == len(numbers)
        assert numbers == [sorted(names.index(one) for one in graph[page]) for page in names]


def test_the_importers_of_the_partitioner_read_both(tmp_path: Path) -> None:
    write_logs(tmp_path, [(0, 0, "page", [0, 1, 2]), (0, 1, "page", []), (1, 2, "page", [7, 1])])
    write_edges(tmp_path, tmp_path / "edges.tsv.gz")
    write_webgraph(tmp_path, tmp_path / "web")
    pages, source, target = importers.edges([tmp_path / "edges.tsv.gz"], print)
    named = pages["url"].to_pylist()
    found = {(named[a], named[b]) for a, b in zip(source, target, strict=True)}
    assert found == {(URLS[a], URLS[b]) for a, b in ((0, 0), (0, 1), (0, 2), (2, 1))}
    pages, source, target = importers.webgraph([tmp_path / "web.graph-txt"], print)
    assert len(pages) == 3
    assert np.column_stack([source, target]).tolist() == [[0, 0], [0, 1], [0, 2], [2, 1]]


def test_pieces_of_a_large_graph_make_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        (n % 3, n % 8, ("page" if n % 5 else "failed"), [n * k % 8 for k in range(1, 2 + n % 2)])
        for n in range(60)
    ]
    write_logs(tmp_path, rows)
    write_webgraph(tmp_path, tmp_path / "large")
    monkeypatch.setattr("crawler.export.graph._LINKS", 3)
    monkeypatch.setattr("crawler.export.graph._PAGES", 2)
    write_webgraph(tmp_path, tmp_path / "small")
    for end in ("urls", "graph-txt"):
        large, small = (tmp_path / f"{name}.{end}" for name in ("large", "small"))
        assert large.read_bytes() == small.read_bytes()


def test_urls_that_share_a_key_are_pages_of_their_own(tmp_path: Path) -> None:
    ends = [(0, 0, "page", [1, 2]), (0, 1, "page", [2]), (0, 2, "page", [])]
    write_logs(tmp_path, ends)
    (tmp_path / "shared-keys.txt").write_text(f"{url.key(URLS[1]):016x} {URLS[1]}\n")
    try:
        write_webgraph(tmp_path, tmp_path / "web")
        assert (tmp_path / "web.graph-txt").read_text() == "3\n1 2\n2\n\n"
    finally:
        url.tell_apart([])
    assert session.given_up(tmp_path) == [(url.key(URLS[1]), URLS[1])]
