"""Content codings, there and back: what a crawl stores, warcio and our own importer read."""

import gzip
import io
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import brotli
import pyarrow.parquet as pq
import pytest
import zstandard
from crawls import assert_sound, check_warc_files, crawl_here, page_rows, sets
from hypothesis import given
from hypothesis import strategies as st
from servers import Page, PageServer
from warcio.archiveiterator import ArchiveIterator
from warcio.recordloader import ArcWarcRecord
from warcio.statusandheaders import StatusAndHeaders

from crawler.ports import Failure
from crawler.reading.codings import undo
from partition.__main__ import main as partition

PAGE = b"<html><a href='/target'>x</a>" + b"".join(b"<p>%d bottles" % n for n in range(3000))


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "GZIP": gzip.compress,
    "deflate": zlib.compress,
    "x-deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.compress,
    "identity": lambda data: data,
}
# What servers send, asked or unasked: a label, and what is done to the page.
SENT: list[tuple[str, Callable[[bytes], bytes]]] = [
    *PACK.items(),
    ("deflate", raw_deflate),
    ("gzip, br", lambda data: brotli.compress(gzip.compress(data))),
    ("gzip, gzip", lambda data: gzip.compress(gzip.compress(data))),
    ("gzip, gzip", gzip.compress),
    ("identity, gzip", gzip.compress),
    ("gzip,", gzip.compress),
    ("gzip", lambda data: gzip.compress(data[:500]) + gzip.compress(data[500:])),
    ("gzip", lambda data: gzip.compress(b"") + gzip.compress(data)),
    ("gzip", lambda data: gzip.compress(data) + bytes(99)),
    ("gzip", zlib.compress),
    ("deflate", gzip.compress),
    *((label, bytes) for label in ("gzip", "deflate", "br", "zstd", "utf-8", "none", "compress")),
]


def read_by_warcio(session: Path) -> dict[str, bytes]:
    """The bodies of all responses, by path."""
    bodies = {}
    for path in session.glob("rank-*/*.warc.gz"):
        with path.open("rb") as file:
            for record in ArchiveIterator(file):
                if record.rec_type == "response":
                    address = record.rec_headers.get_header("WARC-Target-URI")
                    bodies["/" + address.split("/", 3)[3]] = record.content_stream().read()
    return bodies


def import_links(session: Path, out: Path) -> set[tuple[str, str]]:
    """The links that our importer finds in the WARC files of a session, by path."""
    files = map(str, session.glob("rank-*/*.warc.gz"))
    assert not partition(["import", "warc", *files, "--out", str(out)])
    pages = pq.read_table(out / "pages.parquet").to_pydict()
    named = zip(pages["id"], pages["url"], strict=True)
    path = {number: "/" + url.split("/", 3)[3] for number, url in named}
    links = pq.read_table(out / "links.parquet").to_pydict()
    return {(path[src], path[dst]) for src, dst in zip(links["src"], links["dst"], strict=True)}


def test_warcio_and_our_importer_read_every_coding(tmp_path: Path) -> None:
    pages: dict[str, Page | bytes] = {"/target": b"here"}
    bodies: dict[str, bytes] = {}
    for number, (label, pack) in enumerate(SENT):
        head = {"Content-Type": "text/html", "Content-Encoding": label}
        bodies[f"/{number}"] = PAGE + b"<p>page %d" % number
        pages[f"/{number}"] = Page(pack(bodies[f"/{number}"]), headers=head)
    index = "".join(f"<a href=/{number}>x</a>" for number in range(len(SENT)))
    pages["/"] = Page(index.encode(), headers={"Content-Type": "text/html"})
    session = tmp_path / "s"
    with PageServer(pages) as server:
        settings = sets("politeness.delay_s=0", "robots.obey=false")
        done = crawl_here(session, server.url + "/", *settings)
    assert done.returncode == 0, done.stderr
    rows = {row["url"].removeprefix(server.url): row for row in page_rows(session)}
    assert {row["error"] for row in rows.values()} == {None}
    found = read_by_warcio(session)
    for path, body in bodies.items():
        assert found[path] == body, SENT[int(path[1:])][0]
        sent = pages[path]
        assert isinstance(sent, Page)
        assert rows[path]["bytes"] == len(sent.body)
    links = import_links(session, tmp_path / "graph")
    assert {(path, "/target") for path in bodies} <= links
    check_warc_files(session)
    assert_sound(session)


def test_codings_asked_for_are_kept_as_sent() -> None:
    for label, payload in (("gzip", gzip.compress(PAGE)), ("deflate", zlib.compress(PAGE))):
        assert undo([label], payload, 10**6) == (PAGE, None, True)


def warcio_reads(label: str, payload: bytes) -> bytes:
    headers = StatusAndHeaders("200 OK", [("Content-Encoding", label)] if label else [])
    stream: Any = io.BytesIO(payload)
    record = ArcWarcRecord("warc", "response", None, stream, headers, "", len(payload))
    body: bytes = record.content_stream().read()
    return body


@given(
    st.lists(st.sampled_from(sorted(PACK)), max_size=3),
    st.lists(st.sampled_from(sorted(PACK)), max_size=3),
    st.binary() | st.just(PAGE) | st.just(gzip.compress(PAGE)[:-40]),
    st.binary(max_size=3),
)
def test_what_is_called_readable_is_read_by_warcio(
    said: list[str], done: list[str], data: bytes, behind: bytes
) -> None:
    """Whatever is said, and whatever was done."""
    payload = data
    for coding in done:
        payload = PACK[coding](payload)
    payload += behind
    label = ", ".join(said)
    body, failure, readable = undo([coding.lower() for coding in said], payload, 10**7)
    if readable and failure is None:
        assert warcio_reads(label, payload) == body


@pytest.mark.parametrize("label", ["gzip", "deflate"])
@pytest.mark.parametrize("at", [0.5, -4, -2])
def test_data_with_an_error_in_them_are_stored_as_far_as_they_can_be_decoded(
    label: str, at: float
) -> None:
    """warcio ends with an error, or hands the payload out as it is."""
    whole = PAGE * 40
    payload = bytearray(PACK[label](whole))
    place = int(len(payload) * at) if at > 0 else int(at)
    payload[place : place + 2] = b"\xff\xff"
    body, failure, readable = undo([label], bytes(payload), 10**7)
    assert failure is Failure.BAD_ENCODING
    assert not readable
    start = len(whole) // 4
    assert body[:start] == whole[:start]
    assert undo([label], PACK[label](whole)[:-20], 10**7).readable  # it only ends early


def test_our_importer_reads_revisits(tmp_path: Path) -> None:
    """Pages with the same bytes, whose links lead elsewhere from each."""
    head = {"Content-Type": "text/html"}
    same, index = b"<a href=target>x</a>", b"<a href=/1/a><a href=/2/b>"
    pages = {f"/{n}/{name}": Page(same, headers=head) for n, name in ((1, "a"), (2, "b"))}
    pages |= {f"/{n}/target": Page(b"here", headers=head) for n in (1, 2)}
    pages["/"] = Page(index, headers=head)
    session = tmp_path / "s"
    with PageServer(pages) as server:
        settings = sets("politeness.delay_s=0", "robots.obey=false")
        done = crawl_here(session, server.url + "/", *settings)
    assert done.returncode == 0, done.stderr
    assert sum(row["duplicate"] for row in page_rows(session)) == 2
    assert import_links(session, tmp_path / "graph") == {
        ("/", "/1/a"),
        ("/", "/2/b"),
        ("/1/a", "/1/target"),
        ("/2/b", "/2/target"),
    }
