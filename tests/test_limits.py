"""The limits of a fetch and the kinds of documents, from the configuration to what is stored."""

import gzip
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from crawls import check_warc_files, crawl_here, metrics_of, page_rows, sets
from servers import RawServer, read_head, reset
from warcio.archiveiterator import ArchiveIterator

OK = b"HTTP/1.1 200 OK\r\n"
HTML = OK + b"Content-Type: text/html\r\n"
ZEROS = gzip.compress(bytes(1_000_000))
FEW = gzip.compress(bytes(9000))
TEXT = gzip.compress(b"".join(b"%d bottles, " % n for n in range(999)))


def whole(head: bytes, body: bytes) -> bytes:
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def coded(body: bytes) -> bytes:
    return whole(HTML + b"Content-Encoding: gzip\r\n", body)


# Path -> what is sent; then the row's error and truncated, the record's WARC-Truncated and payload.
# None for the payload: no record.
CASES: dict[str, tuple[bytes, tuple[Any, ...]]] = {
    "whole": (whole(HTML, b"x" * 20_000), (None, None, None, b"x" * 20_000)),
    "long": (whole(HTML, b"x" * 20_001), ("too-large", "length", "length", b"x" * 20_000)),
    "endless": (HTML + b"\r\n" + b"x" * 99_999, ("too-large", "length", "length", b"x" * 20_000)),
    # What was sent is there whole; only what it decodes to isn't.
    "bomb": (coded(ZEROS), ("too-large", "length", None, ZEROS)),
    "ratio": (coded(FEW), ("too-large", "length", None, FEW)),
    "half": (coded(TEXT[:800]), ("bad-encoding", "disconnect", None, TEXT[:800])),
    "both": (coded(TEXT + b"!")[:-900],
             ("disconnected", "disconnect", "disconnect", (TEXT + b"!")[:-900])),
    "cut": (whole(HTML, b"x" * 99)[:-9], ("disconnected", "disconnect", "disconnect", b"x" * 90)),
    "silence": (whole(HTML, b"x" * 99)[:-9], ("timeout", "time", "time", b"x" * 90)),
    "drops": (HTML + b"\r\n", ("timeout", "time", "time", b".")),
    "head": (whole(HTML + b"A: " + b"x" * 9000 + b"\r\n", b""), ("too-large", None, None, None)),
    "lines": (whole(HTML + b"A: b\r\n" * 50, b""), ("too-large", None, None, None)),
    "image": (whole(OK + b"Content-Type: Image/PNG;x\r\n", b"png"), (None, None, None, None)),
    "a.zip": (whole(OK, b"PK\3\4"), (None, None, None, None)),
    "a.php": (whole(HTML, b"<a href=/unseen>"), (None, None, None, b"<a href=/unseen>")),
}  # fmt: skip


def answers(server: RawServer, connection: socket.socket) -> None:
    name = server.requests[-1].split()[1].decode()[1:]
    if not name:
        links = "".join(f"<a href=/{case}>" for case in CASES)
        connection.sendall(whole(HTML, links.encode()))
    else:
        connection.sendall(CASES[name][0])
    if name == "silence":
        connection.recv(1)
    while name == "drops":
        connection.sendall(b".")
        time.sleep(0.1)
    if name not in {"endless", "cut", "both"}:
        read_head(connection)  # a connection that is kept, and lost when it is used again
        reset(connection)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("limits") / "s"
    settings = sets(
        "politeness.delay_s=0", "politeness.connections_per_site=1", "robots.obey=false",
        "retry.tries=1", "retry.base_s=0.01", "retry.give_up_after=0", "fetch.max_bytes=20000",
        "fetch.max_ratio=100", "fetch.max_header_bytes=8000", "fetch.max_headers=40",
        "fetch.timeout_s=1", "fetch.idle_timeout_s=0.5", 'extract.types=["text/html", "!.php"]',
        'storage.types=["*/*", "!image/*", "!.zip"]',
    )  # fmt: skip
    with RawServer(lambda connection: answers(server, connection)) as server:
        done = crawl_here(directory, server.url, *settings)
    assert done.returncode == 0, done.stderr
    return directory


@pytest.mark.parametrize("name", CASES)
def test_limit(session: Path, name: str) -> None:
    _, expected = CASES[name]
    (row,) = (row for row in page_rows(session) if row["url"].endswith(f"/{name}"))
    truncated = payload = None
    if row["warc_file"] is not None:
        with (session / "rank-00000" / row["warc_file"]).open("rb") as file:
            file.seek(row["warc_offset"])
            record = next(iter(ArchiveIterator(file)))
            payload = record.raw_stream.read()
            truncated = record.rec_headers.get_header("WARC-Truncated")
    if name == "drops":
        assert payload is not None
        payload = payload[:1]  # their number is the clock's
    assert (row["error"], row["truncated"], truncated, payload) == expected


def test_connections_that_a_server_drops_are_no_failures(session: Path) -> None:
    assert metrics_of(session)["retries"] == 0
    assert not any(row["retries"] for row in page_rows(session))
    assert metrics_of(session)["pages"] == len(CASES) + 1 - 2  # all but two, whose heads are long


def test_links_are_read_in_some_kinds_of_documents(session: Path) -> None:
    assert not any("unseen" in row["url"] for row in page_rows(session))
    check_warc_files(session)
