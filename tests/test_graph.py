"""The web graph from arrays, from session tables and from folders; the site graph."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler import url
from crawler.ports import OUT_OF_SCOPE, REDIRECT
from partition import UserError, graph
from partition.graph import WebGraph

A, B, C = "http://a.example/", "http://a.example/b", "http://c.example:81/x"


def links_of(web: WebGraph) -> set[tuple[int, int]]:
    return set(zip(web.sources().tolist(), web.adj.tolist(), strict=True))


def session(
    folder: Path,
    pages: list[tuple[str, str, int, float]],
    links: list[tuple[str, str, int]],
) -> Path:
    """Tables as a session leaves them: pages (url, site, bytes, time), links (from, to, flags)."""
    tables = folder / "tables"
    tables.mkdir(parents=True)
    urls, sites, sizes, times = zip(*pages, strict=True) if pages else ((), (), (), ())
    sources, targets, flags = zip(*links, strict=True) if links else ((), (), ())

    def keys(texts: tuple[str, ...]) -> pa.Array:
        return pa.array([url.key(text) for text in texts], pa.uint64())

    pq.write_table(
        pa.table(
            {
                "url": pa.array(urls, pa.string()),
                "key": keys(urls),
                "site": pa.array(sites, pa.string()),
                "time": pa.array(times, pa.float64()),
                "bytes": pa.array(sizes, pa.int64()),
            }
        ),
        tables / "pages.parquet",
    )
    pq.write_table(
        pa.table(
            {
                "source_key": keys(sources),
                "target_key": keys(targets),
                "target_url": pa.array(targets, pa.string()),
                "flags": pa.array(flags, pa.uint8()),
            }
        ),
        tables / "links.parquet",
    )
    return folder


def directory(folder: Path, pages: dict[str, Any], links: dict[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table(pages), folder / "pages.parquet")
    pq.write_table(pa.table(links), folder / "links.parquet")
    return folder


def by_url(web: WebGraph, *urls: str) -> list[int]:
    keys = web.key.tolist()
    return [keys.index(url.key(text)) for text in urls]


@given(
    st.integers(1, 8).flatmap(
        lambda n: st.tuples(
            st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)))
        )
    )
)
def test_arrays_lose_only_repeated_links_and_self_links(
    case: tuple[int, list[tuple[int, int]]],
) -> None:
    n, links = case
    web = graph.from_arrays(
        [source for source, _ in links], [target for _, target in links], site=[0] * n
    )
    assert links_of(web) == {(source, target) for source, target in links if source != target}
    assert web.links == len(links_of(web))
    assert len(set(web.key.tolist())) == n
    for page in range(n):
        row = web.adj[web.xadj[page] : web.xadj[page + 1]]
        assert (np.diff(row) > 0).all()


def test_session_tables(tmp_path: Path) -> None:
    """A links to B twice and to itself; B redirects to C, never fetched; D is out of scope."""
    folder = session(
        tmp_path,
        [(A, "http://a.example", 100, 1.0), (B, "http://a.example", 20, 2.0)],
        [
            (A, B, 0),
            (A, B, 1),
            (A, A, 0),
            (B, C, REDIRECT),
            (A, "http://d.example/", OUT_OF_SCOPE),
        ],
    )
    web = graph.read([folder])
    a, b, c = by_url(web, A, B, C)
    assert (web.pages, web.sites) == (3, ("http://a.example", "http://c.example:81"))
    assert links_of(web) == {(a, b), (b, c)}
    assert web.bytes[[a, b, c]].tolist() == [100, 20, 0]
    assert web.site[[a, b, c]].tolist() == [0, 0, 1]
    assert web.url_bytes[[a, b, c]].tolist() == [len(A), len(B), len(C)]


def test_a_page_fetched_twice_has_its_last_size_and_all_its_links(tmp_path: Path) -> None:
    folder = session(
        tmp_path,
        [
            (A, "http://a.example", 7, 9.0),
            (A, "http://a.example", 100, 1.0),
            (B, "http://a.example", 1, 2.0),
        ],
        [(A, B, 0), (A, C, 0)],
    )
    web = graph.read([folder])
    a, b, c = by_url(web, A, B, C)
    assert web.bytes[a] == 7
    assert links_of(web) == {(a, b), (a, c)}


def test_of_several_sessions_the_later_ones_win(tmp_path: Path) -> None:
    """The second session has A again, with another link, at an earlier time of day or not."""
    pages = [(A, "http://a.example", 100, 50.0), (B, "http://a.example", 10, 51.0)]
    first = session(tmp_path / "1", pages, [(A, B, 0), (B, A, 0)])
    second = session(tmp_path / "2", [(A, "http://a.example", 5, 2.0)], [(A, C, 0)])
    web = graph.read([first, second])
    a, b, c = by_url(web, A, B, C)
    assert web.bytes[[a, b, c]].tolist() == [5, 10, 0]
    assert links_of(web) == {(a, c), (b, a)}


def test_order_of_rows_doesnt_matter(tmp_path: Path) -> None:
    pages = [(f"http://{host}.example/", f"http://{host}.example", 1, 1.0) for host in "zyx"]
    links = [(pages[0][0], f"http://{host}.example/", 0) for host in "tusyx"]
    one = graph.read([session(tmp_path / "1", pages, links)])
    other = graph.read([session(tmp_path / "2", pages[::-1], links[::-1])])
    for name in ("key", "site", "bytes", "url_bytes", "xadj", "adj"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist()
    assert one.sites == other.sites


def test_sites_that_are_domains(tmp_path: Path) -> None:
    """A page never fetched belongs to the site that its authority is known to belong to."""
    folder = session(
        tmp_path,
        [("http://www.a.example/", "a.example", 1, 1.0)],
        [
            ("http://www.a.example/", "http://www.a.example/new", 0),
            ("http://www.a.example/", "http://b.example/", 0),
        ],
    )
    web = graph.read([folder])
    new, other = by_url(web, "http://www.a.example/new", "http://b.example/")
    assert web.sites[web.site[new]] == "a.example"
    assert web.sites[web.site[other]] == "http://b.example"


def test_directory(tmp_path: Path) -> None:
    folder = directory(
        tmp_path,
        {"id": [30, 10, 20], "url": [A, B, C], "user": ["u", "t", "t"], "bytes": [3, 1, 2]},
        {"src": [30, 10, 10, 20], "dst": [10, 20, 20, 20]},
    )
    web = graph.read([folder], site_column="user")
    assert links_of(web) == {(0, 1), (1, 2)}
    assert web.sites == ("t", "u")
    assert web.site.tolist() == [1, 0, 0]
    assert web.bytes.tolist() == [3, 1, 2]
    assert web.url_bytes.tolist() == [len(A), len(B), len(C)]
    assert web.key.tolist() == [url.key(text) for text in (A, B, C)]


def test_directory_with_the_least(tmp_path: Path) -> None:
    folder = directory(tmp_path, {"id": [0, 1], "site": [5, 7]}, {"src": [0], "dst": [1]})
    web = graph.read([folder])
    assert (web.bytes.tolist(), web.url_bytes.tolist(), web.sites) == ([1, 1], [1, 1], ("5", "7"))


@pytest.mark.parametrize(
    ("pages", "links", "message"),
    [
        ({"id": [0]}, {"src": [0], "dst": [0]}, "pages.parquet: no column site; needed: id, site"),
        ({"id": [0], "site": ["a"]}, {"src": [0]}, "links.parquet: no column dst"),
        ({"id": [0, 0], "site": ["a", "b"]}, {"src": [], "dst": []}, "an id occurs twice"),
        ({"id": [0, 1], "site": ["a", None]}, {"src": [], "dst": []}, "site: null in a row"),
        ({"id": [0], "site": ["a"], "bytes": [-1]}, {"src": [], "dst": []}, "must be 0 or more"),
        ({"id": [0], "site": ["a"]}, {"src": [0], "dst": [7]}, "dst 7: must be the id of a page"),
        ({"id": [], "site": []}, {"src": [], "dst": []}, "the graph is empty"),
    ],
)
def test_a_folder_that_is_no_graph(
    tmp_path: Path, pages: dict[str, Any], links: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        graph.read([directory(tmp_path, pages, links)])


def test_other_mistakes(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"with tables/, or a graph, with pages.parquet"):
        graph.read([tmp_path / "nowhere"])
    with pytest.raises(UserError, match=r"must be a session that has ended, with tables/$"):
        graph.read([tmp_path, tmp_path])
    (tmp_path / "tables").mkdir()
    with pytest.raises(UserError, match=r"tables/pages.parquet: no such file"):
        graph.read([tmp_path])
    (tmp_path / "pages.parquet").write_text("id,site")
    with pytest.raises(UserError, match="not a Parquet file"):
        graph.read([tmp_path])
    empty = session(tmp_path / "empty", [], [])
    with pytest.raises(UserError, match="the graph is empty"):
        graph.read([empty])
    orphan = session(tmp_path / "orphan", [(A, "a", 1, 1.0)], [(B, A, 0)])
    with pytest.raises(UserError, match="a source_key isn't in"):
        graph.read([orphan])


def test_site_graph() -> None:
    """Sites X (pages 0, 1), Y (2), Z (3): two links X -> Y, one back, one Y -> Z."""
    web = graph.from_arrays(
        [0, 0, 1, 2, 2],
        [1, 2, 2, 0, 3],
        site=[0, 0, 1, 2],
        bytes=[10, 20, 5, 0],
        url_bytes=[1, 10, 100, 1000],
    )
    sites = graph.site_graph(web)
    assert sites.weights.tolist() == [[30, 2], [5, 1], [0, 1]]
    assert sites.xadj.tolist() == [0, 1, 3, 4]
    assert sites.adj.tolist() == [1, 0, 2, 1]
    assert sites.costs.tolist() == [201, 201, 1000, 1000]
