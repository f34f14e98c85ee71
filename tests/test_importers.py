"""Graphs from elsewhere, through the command line."""

import gzip
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_graph import by_url, directory, links_of
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from crawler import config
from partition import graph
from partition.__main__ import main
from partition.importers.warc import ELEMENTS
from partition.webgraph import WebGraph

LINKS = {(0, 1), (0, 2), (2, 0), (3, 2)}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "graph"


def imported(out: Path, kind: str, *words: object) -> WebGraph:
    assert main(["import", kind, *map(str, words), "--out", str(out)]) == 0
    return graph.read([out])


def test_snap(tmp_path: Path, out: Path) -> None:
    """Ids in any order, a repeated edge, a self-link, comments, blank lines, tabs, two files."""
    one, two = tmp_path / "1.txt.gz", tmp_path / "2.txt"
    one.write_bytes(gzip.compress(b"# Directed graph\n# From To\n10\t20\n10 30\n10\t20\n\n20 20\n"))
    two.write_text("  30 10\r\n40 30")
    web = imported(out, "snap", one, two)
    assert links_of(web) == LINKS
    assert pq.read_table(out / "pages.parquet")["id"].to_pylist() == [10, 20, 30, 40]
    assert web.sites == ("web",)


def test_blocks_end_anywhere(tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partition.importers.text._BLOCK", 3)
    path = tmp_path / "edges.txt"
    path.write_text("# 1 2\n0 1\n0 2\n2 0\n# 3\n3 2\n")
    assert links_of(imported(out, "snap", path)) == LINKS


def test_webgraph(tmp_path: Path, out: Path) -> None:
    path = tmp_path / "web.graph-txt.gz"
    path.write_bytes(gzip.compress(b"5\n1 2\n\n0\n2\n\n"))
    web = imported(out, "webgraph", path)
    assert (web.pages, links_of(web)) == (5, LINKS)


@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_webgraph_with_few_line_ends(tmp_path: Path, out: Path, end: str) -> None:
    path = tmp_path / "web.graph-txt"
    path.write_text("4\n1 2\n\n0\n2" + end)
    assert links_of(imported(out, "webgraph", path)) == LINKS


URLS = ["http://a.example/", "http://a.example/b", "https://b.example:81/", "http://c.example/x,y"]


@pytest.mark.parametrize("heading", ["", "source{0}target{0}weight\n"])
@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_edges_of_urls(tmp_path: Path, out: Path, heading: str, delimiter: str) -> None:
    """URLs are normalised first, so that one page isn't two."""
    path = tmp_path / "edges.csv"
    quoted = f'"{URLS[3]}"'
    rows = [
        ("HTTP://A.example#top", URLS[1]),
        (URLS[0], URLS[2]),
        (URLS[2], URLS[0]),
        (quoted, URLS[2]),
        ("mailto:someone", URLS[2]),
    ]
    lines = [delimiter.join([*row, "1"]) for row in rows]
    path.write_text(heading.format(delimiter) + "\n".join(lines) + "\n")
    web = imported(out, "edges", path)
    place = by_url(web, *URLS)
    assert links_of(web) == {(place[source], place[target]) for source, target in LINKS}
    assert web.sites == ("a.example", "b.example:81", "c.example")


def test_links_left_out_are_counted(
    tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "edges.csv"
    path.write_text(f"{URLS[0]},{URLS[1]}\nftp://a.example/,{URLS[1]}\n{URLS[0]},b\n")
    assert links_of(imported(out, "edges", path)) == {(0, 1)}
    assert "left out: 2 links whose ends aren't both http or https URLs" in capsys.readouterr().err


def test_edges_of_ids(tmp_path: Path, out: Path) -> None:
    path = tmp_path / "edges.tsv.gz"
    path.write_bytes(gzip.compress(b"from\tto\n10\t20\n10\t30\n30\t10\n40\t30\n"))
    assert links_of(imported(out, "edges", path)) == LINKS


def warc(path: Path, *responses: tuple[str, str, list[tuple[str, str]], bytes]) -> Path:
    with path.open("wb") as file:
        writer = WARCWriter(file, gzip=True)
        for address, status, headers, body in responses:
            head = StatusAndHeaders(status, headers, protocol="HTTP/1.1")
            writer.write_record(
                writer.create_warc_record(
                    address, "response", payload=io.BytesIO(body), http_headers=head
                )
            )
    return path


HTML = [("Content-Type", "text/html; charset=iso-8859-1")]


def test_warc(tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pages with links and frames, a base, a redirect, an image, a link to what isn't there."""
    home = (
        b"<a href=b>x</a> <a href=b#y>y</a> <a href=mailto:z>z</a> <a href='http://gone.example/'>"
    )
    files = [
        warc(
            tmp_path / "1.warc.gz",
            ("http://a.example/", "200 OK", HTML, b"<a href=/old>"),
            ("http://a.example/b", "302 Found", [("Location", "/c/")], b"moved"),
            ("http://a.example/c/", "200 OK", HTML, b"<base href=/x/><iframe src='../d.png'>"),
        ),
        warc(
            tmp_path / "2.warc.gz",
            ("http://a.example/", "200 OK", HTML, home),
            ("http://a.example/d.png", "200 OK", [("Content-Type", "image/png")], b"<a href=/b>"),
        ),
    ]
    web = imported(out, "warc", *files)
    a, b, c, d = by_url(web, *(f"http://a.example/{path}" for path in ("", "b", "c/", "d.png")))
    assert links_of(web) == {(a, b), (b, c), (c, d)}
    assert web.bytes[[a, b, c, d]].tolist() == [len(home), 0, 38, 11]
    assert "left out: 1 links to URLs that aren't in the files" in capsys.readouterr().err


XHTML = b"<html xmlns='http://www.w3.org/1999/xhtml'><head><title/></head><a href='/x'/></html>"
LINK = b"<p><a href=/x>"
PAGES: list[tuple[str, list[tuple[str, str]], bytes, bool]] = [
    ("200 OK", [], b"<html>" + LINK, True),
    ("200 OK", [("Content-Type", "text/html,text/html")], LINK, True),
    ("200 OK", [("Content-Type", "*/*"), ("Content-Type", "text/html")], LINK, True),
    ("200 OK", [("Content-Type", "application/xhtml+xml")], XHTML, True),
    ("200 OK", [("Content-Type", "text/xml")], XHTML, True),
    ("200 OK", [("Content-Type", "text/html; charset=hex")], LINK, True),
    ("200 OK", [("Content-Type", "text/html")], LINK.decode().encode("utf-16"), True),
    ("200 OK", [("Content-Type", "text/html")], b"<div>" * 300_000 + LINK, True),
    ("200 OK", [("Content-Type", "text/html")], b"<frameset><noframes>" + LINK, True),
    ("200 OK", [("Content-Type", "application/pdf"), ("Refresh", "0; url=/x")], b"%PDF-", True),
    ("203 Changed", HTML, LINK, True),
    ("404 Not Found", HTML, LINK, False),
    ("200 OK", [("Content-Type", "text/plain")], LINK, False),
]


@pytest.mark.parametrize(("status", "headers", "body", "linked"), PAGES)
def test_pages_are_read_as_in_a_crawl(
    tmp_path: Path,
    out: Path,
    status: str,
    headers: list[tuple[str, str]],
    body: bytes,
    linked: bool,
) -> None:
    file = warc(
        tmp_path / "1.warc.gz",
        ("http://a.example/", status, headers, body),
        ("http://a.example/x", "200 OK", HTML, b""),
    )
    assert len(links_of(imported(out, "warc", file))) == linked


def test_links_are_taken_from_what_a_crawl_takes_them_from_by_default() -> None:
    assert set(config.load().extract.elements) == ELEMENTS


def test_a_warc_file_that_was_gzipped_whole(tmp_path: Path, out: Path) -> None:
    pages = [(f"http://a.example/{name}", "200 OK", HTML, LINK) for name in ("x", "y", "z")]
    data = gzip.decompress(warc(tmp_path / "1.warc.gz", *pages).read_bytes())
    file = tmp_path / "2.warc.gz"
    file.write_bytes(gzip.compress(data))
    web = imported(out, "warc", file)
    x, y, z = by_url(web, *(page[0] for page in pages))
    assert links_of(web) == {(y, x), (z, x)}


@pytest.mark.parametrize("record", [b"", b"WARC/1.0\r\nContent-Length: 0\r\n\r\n\r\n\r\n"])
def test_a_broken_warc_file_is_named_in_one_line(
    tmp_path: Path, out: Path, record: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "1.warc"
    file.write_bytes(record + b"(\xb5/\xfd\x85\x1b[31m" + b"y" * 999 + b"\n")
    assert main(["import", "warc", str(file), "--out", str(out)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isprintable()
    assert "not an intact WARC file" in line
    assert len(line) < 300 + len(str(file))


@pytest.mark.parametrize("column", ["owner", "site"])
def test_parquet(tmp_path: Path, out: Path, column: str) -> None:
    pages = {"id": [7, 5], "url": URLS[1:3], "owner": ["x", "y"], "bytes": [3, 4]}
    folder = directory(tmp_path / "from", pages, {"src": [7], "dst": [5], "n": [3]})
    files = ("--pages", folder / "pages.parquet", "--links", folder / "links.parquet")
    web = imported(out, "parquet", *files, "--site-column", column)
    expected = {"owner": ("x", "y"), "site": ("a.example", "b.example:81")}
    assert web.sites == expected[column]
    assert web.bytes.tolist() == [3, 4]
    assert links_of(web) == {(0, 1)}


@pytest.mark.parametrize(
    ("kind", "content", "message"),
    [
        ("snap", b"1 2\n3\n", "'3': each line must be two whole numbers"),
        ("snap", b"1 2\n3 4 5\n6\n", "'3 4 5': each line must be two whole numbers"),
        ("snap", b"1 two\n", "'1 two': each line must be two whole numbers"),
        ("snap", b"# nothing\n", "the files have no pages"),
        ("snap", b"", "the files have no pages"),
        ("webgraph", b"two\n", "line 1: must be the number of nodes"),
        ("webgraph", b"99999999999999\n1\n", "line 1: 2,147,483,647 nodes at most"),
        ("webgraph", b"9" * 5000, "line 1: 2,147,483,647 nodes at most"),
        ("edges", b"1,2\n1000000000000000000,4\n", "an id has 19 digits or more"),
        ("edges", b"1,2\n" + b"9" * 5000 + b",4\n", "an id has 19 digits or more"),
        ("webgraph", b"1\n0\n0\n", "2 lines of successors; must have 1, one a node"),
        ("webgraph", b"1\n1\n", "a successor isn't one of the nodes 0 to 0"),
        ("webgraph", b"2\n1\nx\n", "line 3: must be whole numbers"),
        ("edges", b"", "must be CSV or TSV of two columns"),
        ("edges", b"http://a.example/\n", "must be CSV or TSV of two columns"),
        ("edges", b"a,b\nc,d\n", "the files have no pages"),
        ("warc", b"no WARC", "not an intact WARC file"),
    ],
)
def test_files_that_are_something_else(
    tmp_path: Path,
    out: Path,
    capsys: pytest.CaptureFixture[str],
    kind: str,
    content: bytes,
    message: str,
) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert main(["import", kind, str(path), "--out", str(out)]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("import snap", "give the files"),
        ("import snap NOWHERE", "no such file"),
        ("import snap FILE --pages FILE", "give the files, without --pages and --links"),
        ("import parquet FILE", "give --pages FILE and --links FILE, nothing else"),
        ("import parquet --pages NOWHERE --links FILE", "no such file; a Parquet file is needed"),
        ("import parquet --pages FILE --links FILE", "not a Parquet file"),
        ("import webgraph FILE FILE", "give one file, because each is a graph"),
        ("synthesize --pages 3 --sites 4", "a site needs at least one page"),
    ],
)
def test_wrong_usage(
    tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str], words: str, message: str
) -> None:
    path = tmp_path / "file"
    path.write_text("0 1\n")
    words = words.replace("FILE", str(path)).replace("NOWHERE", str(tmp_path / "no"))
    assert main([*words.split(), "--out", str(out)]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pages": {"url": ["a"], "site": ["a"]}}, "no column id"),
        ({"pages": {"id": [1], "host": ["a"]}}, "no column site; needed: id, site or url"),
        ({"pages": {"id": [1], "url": ["a"]}}, "needed: normalised http or https URLs"),
        ({"links": {"src": [1]}}, "no column dst; needed: src, dst"),
        ({"links": {"src": ["1"], "dst": [1]}}, "src: is string; must be integers"),
        ({"pages": {"id": [None, 1], "site": ["a", "b"]}}, "id: a row has null"),
        ({"pages": {"id": pa.array([], pa.int64()), "site": []}}, "has no pages"),
        ({"links": {"src": [1], "dst": [2]}}, "dst: an id that isn't in"),
    ],
)
def test_parquet_without_what_is_needed(
    tmp_path: Path,
    out: Path,
    capsys: pytest.CaptureFixture[str],
    change: dict[str, dict[str, list[object]]],
    message: str,
) -> None:
    tables = {"pages": {"id": [1], "site": ["a"]}, "links": {"src": [1], "dst": [1]}} | change
    words = ["import", "parquet", "--out", str(out)]
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), tmp_path / name)
        words += [f"--{name}", str(tmp_path / name)]
    assert main(words) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_what_is_there_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "edges.txt"
    path.write_text("0 1\n")
    for out in (tmp_path, tmp_path / "no" / "graph"):
        assert main(["import", "snap", str(path), "--out", str(out)]) == 2
        assert "must be a new folder, in a folder that exists" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [path]
