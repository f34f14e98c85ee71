"""What the web sends writes nothing of its own making: no path, log line, header, or escape."""

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from crawls import crawl_here, page_rows
from servers import RawServer
from warcio.archiveiterator import ArchiveIterator

ESCAPE = b"\x1b]0;owned\x07\x1b[2J"
FORGED = b"WARC/1.1\r\nWARC-Type: response\r\nContent-Length: 0\r\n\r\n\r\n\r\n"
FILES = re.compile(
    r"session\.toml|seeds\.txt|status\.json"
    r"|rank-00000/(?:abc-\d{14}-00000-00000\.(?:warc\.gz|cdxj)|agent\.log|crawl\.log)"
    r"|rank-00000/(?:log|requests)/00000\.log|tables/(?:pages|links|sites)/00000\.parquet"
    r"|report/(?:metrics|counters)\.json|report/site_part\.npz|report/index\.html"
    r"|report/(?:skipped|broken|outside)\.jsonl"
)
FIELDS = {
    "WARC-Type", "WARC-Target-URI", "WARC-Date", "WARC-IP-Address", "WARC-Record-ID",
    "WARC-Payload-Digest", "WARC-Concurrent-To", "WARC-Filename",
    "WARC-Truncated", "Content-Type", "Content-Length",
}  # fmt: skip

LINKS = (
    b'<a href="/../../../../etc/passwd%00">', b'<a href="/%0d%0aWARC-Type:%20x">',
    b'<a href="/a\r\nSet-Cookie: b">', b'<a href="/..%2f..%2f..%2fx">', b'<a href="/\x1b[2J">',
    b'<a href="/' + b"x" * 1000 + b'">', b'<a href="/\xe2\x80\xae.exe">', b'<a href="/a.warc.gz">',
    b'<a href="/type">', b'<a href="/ends">', b'<a href="/moves">',
)  # fmt: skip


def answers(server: RawServer, connection: socket.socket) -> None:
    path = server.requests[-1].split()[1]
    if path == b"/moves":
        connection.sendall(b"HTTP/1.1 302 " + ESCAPE + b"\r\nLocation: /" + ESCAPE + b"\r\n\r\n")
    elif path == b"/ends":
        connection.sendall(ESCAPE + b"\r\n\r\n")
    else:
        body = b"".join(LINKS) + FORGED
        end = b"" if path == b"/type" else b"; x="
        connection.sendall(
            b"HTTP/1.1 200 " + ESCAPE + b"\r\nContent-Type: text/html" + end + ESCAPE + b"\r\n"
            b"X-\x1b[31mName: value\rWARC-Type: forged\r\nETag: \"\x1b[2J\"\r\n"
            b"Set-Cookie: a=\x01\x02\x00b\r\nConnection: close\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body) + body
        )  # fmt: skip


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A session of a site that tries, and all that was said during its crawl."""
    session = tmp_path_factory.mktemp("hostile") / "s"
    with RawServer(lambda connection: answers(server, connection)) as server:
        sets = ["politeness.delay_s=0", "robots.obey=false", "retry.base_s=0.01"]
        words = [word for one in sets for word in ("--set", one)]
        done = crawl_here(session, server.url, *words)
        assert done.returncode == 0, done.stderr
        fetch = subprocess.run(
            [
                *(sys.executable, "-m", "crawler", "fetch", server.url, f"{server.url}moves"),
                *("--set", "fetch.allow_private_addresses=true"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert fetch.returncode == 1  # each response breaks the rules of HTTP
    assert len(page_rows(session)) > len(LINKS)
    return session, done.stdout + done.stderr + fetch.stdout + fetch.stderr


def test_nothing_said_steers_a_terminal(hostile: tuple[Path, str]) -> None:
    _, said = hostile
    assert "status" in said
    assert not [c for c in said if not c.isprintable() and c != "\n"]


def test_no_file_has_a_name_of_the_webs_making(hostile: tuple[Path, str]) -> None:
    session, _ = hostile
    paths = [str(p.relative_to(session)) for p in session.rglob("*") if not p.is_dir()]
    assert len(paths) >= 8
    assert [path for path in paths if not FILES.fullmatch(path)] == []


def test_every_line_of_the_log_is_ours(hostile: tuple[Path, str]) -> None:
    session, _ = hostile
    for line in (session / "rank-00000" / "agent.log").read_bytes().splitlines():
        assert {"time", "level", "rank", "event"} <= json.loads(line).keys()
        assert line.decode("ascii").isprintable()


def test_every_warc_header_is_ours(hostile: tuple[Path, str]) -> None:
    session, _ = hostile
    (path,) = session.rglob("*.warc.gz")
    check = [sys.executable, "-m", "warcio.cli", "check", str(path)]
    assert subprocess.run(check, check=False, capture_output=True).returncode == 0
    with path.open("rb") as file:
        records = list(ArchiveIterator(file))
    kinds = [record.rec_type for record in records]
    assert kinds[0] == "warcinfo"
    assert len(kinds) - 1 == 2 * sum(row["status"] is not None for row in page_rows(session))
    for record in records:
        names = [name for name, _ in record.rec_headers.headers]
        assert set(names) - FIELDS <= {
            "WARC-Profile", "WARC-Refers-To", "WARC-Refers-To-Target-URI", "WARC-Refers-To-Date"
        }  # fmt: skip
        assert len(set(names)) == len(names)
        assert all(value.isprintable() for _, value in record.rec_headers.headers)


def test_what_tables_hold_can_be_printed(hostile: tuple[Path, str]) -> None:
    session, _ = hostile
    for table in ("pages", "links", "sites"):
        columns = pq.read_table(session / "tables" / table).to_pydict().values()
        texts = [value for column in columns for value in column if isinstance(value, str)]
        assert texts
        assert [text for text in texts if not (text.isascii() and text.isprintable())] == []
