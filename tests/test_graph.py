"""The web graph from arrays, from session tables and from folders."""

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
from partition import UserError, arrays, graph, webgraph
from partition.webgraph import WebGraph

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
    web = webgraph.from_arrays(
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
        [(A, "a.example", 100, 1.0), (B, "a.example", 20, 2.0)],
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
    assert (web.pages, web.sites) == (3, ("a.example", "c.example:81"))
    assert links_of(web) == {(a, b), (b, c)}
    assert web.bytes[[a, b, c]].tolist() == [100, 20, 0]
    assert web.site[[a, b, c]].tolist() == [0, 0, 1]
    assert web.url_bytes[[a, b, c]].tolist() == [len(A), len(B), len(C)]


def test_a_page_fetched_twice_has_its_last_size_and_all_its_links(tmp_path: Path) -> None:
    folder = session(
        tmp_path,
        [
            (A, "a.example", 7, 9.0),
            (A, "a.example", 100, 1.0),
            (B, "a.example", 1, 2.0),
        ],
        [(A, B, 0), (A, C, 0)],
    )
    web = graph.read([folder])
    a, b, c = by_url(web, A, B, C)
    assert web.bytes[a] == 7
    assert links_of(web) == {(a, b), (a, c)}


def test_of_several_sessions_the_later_ones_win(tmp_path: Path) -> None:
    """The second session has A again, with another link, at an earlier time of day or not."""
    pages = [(A, "a.example", 100, 50.0), (B, "a.example", 10, 51.0)]
    first = session(tmp_path / "1", pages, [(A, B, 0), (B, A, 0)])
    second = session(tmp_path / "2", [(A, "a.example", 5, 2.0)], [(A, C, 0)])
    web = graph.read([first, second])
    a, b, c = by_url(web, A, B, C)
    assert web.bytes[[a, b, c]].tolist() == [5, 10, 0]
    assert links_of(web) == {(a, c), (b, a)}


def test_order_of_rows_doesnt_matter(tmp_path: Path) -> None:
    pages = [(f"http://{host}.example/", f"{host}.example", 1, 1.0) for host in "zyx"]
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
    assert web.sites[web.site[other]] == "b.example"


def test_domains_of_pages_never_fetched(tmp_path: Path) -> None:
    """If session.toml says that sites are domains, a site nobody has seen is a domain too."""
    targets = {
        "http://www.b.example/": "b.example",
        "http://x.y.github.io/": "y.github.io",  # a public suffix of the private kind
        "http://localhost:81/": "localhost",
        "http://127.0.0.1/": "127.0.0.1",
        "http://[::1]:81/": "::1",
    }
    start = "http://www.a.example/"
    folder = session(tmp_path, [(start, "a.example", 1, 1.0)], [(start, to, 0) for to in targets])
    (folder / "session.toml").write_text('[assignment]\nsite = "domain"\n')
    web = graph.read([folder])
    sites = [web.sites[web.site[page]] for page in by_url(web, *targets)]
    assert sites == list(targets.values())


def test_sessions_must_agree_on_what_a_site_is(tmp_path: Path) -> None:
    page = [(A, "a.example", 1, 1.0)]
    folders = [session(tmp_path / name, page, []) for name in ("authority", "domain")]
    for folder in folders:
        (folder / "session.toml").write_text(f'[assignment]\nsite = "{folder.name}"\n')
    with pytest.raises(UserError, match=r"assignment.site differs; must be the same in all"):
        graph.read(folders)
    (folders[0] / "session.toml").write_text("site = ")
    with pytest.raises(UserError, match=r"session.toml: not the file of a session"):
        graph.read(folders)


def test_texts_are_read_again(tmp_path: Path) -> None:
    """Of fetched pages and others, in any order and more than once."""
    first = session(tmp_path / "1", [(A, "a", 1, 1.0)], [(A, C, 0), (A, A, 0)])
    second = session(tmp_path / "2", [(B, "a", 1, 1.0)], [])
    folder = directory(
        tmp_path / "3",
        {"id": [7, 5, 6], "url": [A, B, C], "site": ["a", "b", "c"]},
        {"src": [7], "dst": [5]},
    )
    for web in (graph.read([first, second]), graph.read([folder])):
        assert web.texts
        wanted = by_url(web, C, A, B, A)
        assert web.texts(np.array(wanted, np.int32)) == [C, A, B, A]
        assert web.texts(np.array([], np.int32)) == []


def test_addresses(tmp_path: Path) -> None:
    folder = session(tmp_path, [(A, "a", 1, 1.0)], [])
    with pytest.raises(UserError, match=r"sites.parquet: can't read the addresses of a session"):
        graph.addresses(folder)
    table = pa.table({"site": ["a", "b", "c"], "address": ["10.0.0.1", None, "10.0.0.1"]})
    pq.write_table(table, folder / "tables" / "sites.parquet")
    assert graph.addresses(folder) == {"a": "10.0.0.1", "c": "10.0.0.1"}


def test_popular_pages_and_the_web_without_links_to_them() -> None:
    """Pages 1 and 2 have two links each, of which 2 has the lower key."""
    links = [(0, 1), (0, 2), (0, 3), (3, 1), (3, 2)]
    web = webgraph.from_arrays(*zip(*links, strict=True), site=[0] * 4, key=[0, 9, 5, 7])
    assert webgraph.popular(web, 2).tolist() == [2, 1]
    assert webgraph.popular(web, 99).tolist() == [2, 1, 3, 0]
    less = webgraph.without_links_to(web, np.array([1], np.int32))
    assert links_of(less) == {(0, 2), (0, 3), (3, 2)}
    assert less.xadj.tolist() == [0, 2, 2, 2, 3]


def test_majority() -> None:
    """Group 0 has parts 1, 1, 0; group 1 parts 2 and 0; group 2 nobody in a part; 3 nobody."""
    group = np.array([0, 0, 0, 1, 1, 2], np.int32)
    part = np.array([1, 1, 0, 2, 0, -1], np.int32)
    assert arrays.majority(group, part, 4).tolist() == [1, 0, -1, -1]
    assert arrays.majority(group, part * 0 - 1, 4).tolist() == [-1] * 4


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
        ({"id": [0, 1], "site": ["a", None]}, {"src": [], "dst": []}, "site: a row has null"),
        ({"id": [0], "site": ["a"], "bytes": [-1]}, {"src": [], "dst": []}, "must be 0 or more"),
        ({"id": [0], "site": ["a"]}, {"src": [0], "dst": [7]}, "dst 7: must be the id of a page"),
        ({"id": ["0"], "site": ["a"]}, {"src": [], "dst": []}, "id: is string; must be integers"),
        (
            {"id": [0], "site": ["a"]},
            {"src": [0.0], "dst": [0]},
            "src: is double; must be integers",
        ),
        ({"id": [0], "site": [1], "url": [2]}, {"src": [], "dst": []}, "url: is int64; must be st"),
        ({"id": [], "site": []}, {"src": [], "dst": []}, "the graph is empty"),
    ],
)
def test_a_folder_that_is_no_graph(
    tmp_path: Path, pages: dict[str, Any], links: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        graph.read([directory(tmp_path, pages, links)])


def test_other_mistakes(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"or a graph folder \(with pages.parquet"):
        graph.read([tmp_path / "nowhere"])
    with pytest.raises(
        UserError, match=r"must be a session that has ended \(a folder with tables/\)$"
    ):
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
