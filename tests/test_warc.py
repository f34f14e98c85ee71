"""WARC files as other programs see them: warcio reads every file that these tests write."""

import array
import base64
import gzip
import hashlib
import itertools
import json
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from conftest import PATIENCE_S
from fetches import HTML, REQUEST, fetched, put, response
from hypothesis import given
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from crawler.config import Storage
from crawler.ports import Failure, PageRow
from crawler.session import Alone, Previous, RankStore, alone, mend
from crawler.session.warc import (
    _fitting_lines,
    _http_head,
    _record_ids,
    digest,
    warc_date,
    warc_files,
)

A, B, C, D = (f"http://a.example/{name}" for name in "abcd")
EMPTY_SHA1 = "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"  # of nothing, as in every book


def open_store(session: Path, storage: Storage | None = None) -> RankStore:
    return RankStore(
        session, 3, storage or Storage(), user_agent="tester/1\r\nX: y", obeys_robots=True
    )


def records(path: Path) -> list[tuple[dict[str, str], bytes]]:
    """Headers and whole block of each record."""
    with path.open("rb") as file:
        return [
            (dict(record.rec_headers.headers), record.raw_stream.read())
            for record in ArchiveIterator(file, no_record_parse=True)
        ]


def member_at(directory: Path, row: PageRow) -> bytes:
    assert row.warc_file is not None
    assert row.warc_offset is not None
    with (directory / row.warc_file).open("rb") as file:
        file.seek(row.warc_offset)
        with gzip.open(file) as unpacked:
            return unpacked.readline() + unpacked.readline() + unpacked.readline()


def assert_warcio_accepts(path: Path) -> list[dict[str, str]]:
    """What `warcio index` says of the file, after `warcio check` found nothing."""
    warcio = [sys.executable, "-m", "warcio.cli"]
    check = subprocess.run(
        [*warcio, "check", "-v", path], check=False, capture_output=True, text=True
    )
    assert check.returncode == 0, check.stdout
    assert "digest fail" not in check.stdout
    index = subprocess.run([*warcio, "index", path], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in index.stdout.splitlines()]


def test_a_fetch_becomes_a_response_and_a_request(tmp_path: Path) -> None:
    store = open_store(tmp_path / "crawl-1")
    row = put(store, fetched(response(A, b"hello")), part=7)
    store.close()
    [path] = warc_files(store.directory)
    assert re.fullmatch(r"abc-\d{14}-00003-00000\.warc\.gz", path.name)
    (info, about), (answer, block), (request, request_block) = records(path)

    assert info["WARC-Type"] == "warcinfo"
    assert info["WARC-Filename"] == path.name
    fields = dict(line.split(": ", 1) for line in about.decode().splitlines())
    assert fields["http-header-user-agent"] == "tester/1  X: y"
    assert fields["isPartOf"] == "crawl-1"
    assert fields["robots"] == "obey"
    assert fields["format"] == "WARC File Format 1.1"

    assert answer["WARC-Type"] == "response"
    assert answer["WARC-Target-URI"] == A
    assert answer["WARC-Date"] == request["WARC-Date"] == "2027-01-15T08:00:00.250000Z"
    assert answer["WARC-IP-Address"] == "127.0.0.1"
    # echo -n hello | sha1sum | xxd -r -p | base32
    assert answer["WARC-Payload-Digest"] == row.digest == "sha1:VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N"
    assert re.fullmatch(
        r"<urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}>", answer["WARC-Record-ID"]
    )
    assert block == (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"
        b"Content-Length: 5\r\n\r\nhello"
    )
    assert request["WARC-Type"] == "request"
    assert request["WARC-Concurrent-To"] == answer["WARC-Record-ID"] != request["WARC-Record-ID"]
    assert request_block == REQUEST
    assert row.warc_file == path.name
    assert [entry["offset"] for entry in assert_warcio_accepts(path)][1] == str(row.warc_offset)


def test_the_same_payload_again_is_a_revisit(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    rows = [put(store, fetched(response(url, b"same")), 0) for url in (A, B, C)]
    store.close()
    assert [row.duplicate for row in rows] == [False, True, True]
    assert len({row.digest for row in rows}) == 1
    [path] = warc_files(store.directory)
    index = assert_warcio_accepts(path)
    assert [entry["warc-type"] for entry in index] == [
        "warcinfo", "response", "request", "revisit", "request", "revisit", "request",
    ]  # fmt: skip
    first, revisit = records(path)[1], records(path)[3]
    for name, value in (("", "Record-ID"), ("-Target-URI", "Target-URI"), ("-Date", "Date")):
        assert revisit[0][f"WARC-Refers-To{name}"] == first[0][f"WARC-{value}"]
    assert revisit[0]["WARC-Profile"].endswith("/warc/1.1/revisit/identical-payload-digest")
    assert revisit[0]["WARC-Payload-Digest"] == rows[0].digest
    assert revisit[1].endswith(b"\r\nContent-Length: 4\r\n\r\n")
    assert b"WARC-Type: revisit" in member_at(store.directory, rows[2])


def test_only_whole_payloads_of_good_pages_are_revisited(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    answers = [
        response(A, b""),
        response(B, b""),
        response(A, b"gone", status=404),
        response(B, b"gone", status=404),
        response(A, b"cut", truncated="length", failure=Failure.TOO_LARGE),
        response(B, b"cut", truncated="length", failure=Failure.TOO_LARGE),
    ]
    rows = [put(store, fetched(answer), 0) for answer in answers]
    store.close()
    assert not any(row.duplicate for row in rows)
    assert rows[0].digest == EMPTY_SHA1
    assert (rows[4].error, rows[4].truncated) == ("too-large", "length")
    [path] = warc_files(store.directory)
    assert_warcio_accepts(path)
    headers, _ = records(path)[9]
    assert headers["WARC-Truncated"] == "length"


def test_a_second_run_of_a_rank_goes_on_in_new_files(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    row = put(store, fetched(response(A, b"same")), 0)
    store.close()
    again = open_store(tmp_path)
    again.seen.remember(row)
    duplicate = put(again, fetched(response(B, b"same")), 0)
    assert duplicate.duplicate
    again.close()
    assert [path.name[-14:] for path in warc_files(store.directory)] == [
        "-00000.warc.gz",
        "-00001.warc.gz",
    ]
    first, second = warc_files(store.directory)
    assert records(second)[1][0]["WARC-Refers-To"] == records(first)[1][0]["WARC-Record-ID"]
    assert_warcio_accepts(second)


def test_a_payload_whose_file_was_moved_away_is_stored_again(tmp_path: Path) -> None:
    store = open_store(tmp_path, Storage(warc_size=1))
    first = put(store, fetched(response(A, b"same")), 0)
    assert first.warc_file is not None
    (store.directory / first.warc_file).rename(tmp_path / "elsewhere")
    assert not put(store, fetched(response(B, b"same")), 0).duplicate
    assert put(store, fetched(response(C, b"same")), 0).duplicate
    store.close()


def test_files_are_rolled_by_size_and_every_row_points_at_its_record(tmp_path: Path) -> None:
    store = open_store(tmp_path, Storage(warc_size=5000, compression=0))
    rows = {
        url: put(store, fetched(response(url, url.encode() * 20)), 0)
        for url in (f"http://a.example/{n}" for n in range(30))
    }
    store.close()
    paths = warc_files(store.directory)
    assert len(paths) > 2
    assert [int(path.name[-13:-8]) for path in paths] == list(range(len(paths)))
    for path in paths:
        assert assert_warcio_accepts(path)[0]["warc-type"] == "warcinfo"
    for path in paths[:-1]:
        assert 5000 <= path.stat().st_size < 8000
    for url, row in rows.items():
        member = member_at(store.directory, row)
        assert member == f"WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: {url}\r\n".encode()


@pytest.mark.parametrize(
    ("received", "stored"),
    [
        ([], [b"Content-Length: 5"]),
        ([(b"content-length", b"5")], [b"content-length: 5"]),
        (
            [(b"content-length", b"9")],
            [b"X-Crawler-content-length: 9", b"Content-Length: 5"],
        ),
        (
            [(b"Content-Length", b"5"), (b"Content-Length", b"5")],
            [b"Content-Length: 5", b"X-Crawler-Content-Length: 5"],
        ),
        (
            [(b"Transfer-Encoding", b"chunked")],
            [b"X-Crawler-Transfer-Encoding: chunked", b"Content-Length: 5"],
        ),
        (
            [(b"Transfer-Encoding\0", b"chunked")],
            [b"X-Crawler-Transfer-Encoding: chunked", b"Content-Length: 5"],
        ),
        (
            [(b"X", b"a\r\nSet-Cookie: b\0c")],
            [b"X: a  Set-Cookie: b c", b"Content-Length: 5"],
        ),
    ],
)
def test_headers_are_true_of_the_stored_payload(
    received: list[tuple[bytes, bytes]], stored: list[bytes]
) -> None:
    head = _http_head(response(A, b"hello", headers=received))
    assert head.split(b"\r\n") == [b"HTTP/1.1 200 OK", *stored, b"", b""]


headers = st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=40)), max_size=5)


@given(headers, st.text(max_size=20), st.binary(max_size=50))
def test_no_header_breaks_out_of_its_line(
    received: list[tuple[bytes, bytes]], reason: str, payload: bytes
) -> None:
    head = _http_head(response(A, payload, headers=received, reason=reason))
    lines = head.split(b"\r\n")
    added = len(lines) - 3 - len(received)  # status line before them, an empty line after
    assert added in {0, 1}
    assert lines[-2:] == [b"", b""]
    assert all(lines[:-2])
    assert not any(byte in line for line in lines for byte in b"\r\n\0")
    assert sum(line.lower().startswith(b"content-length:") for line in lines) == 1


NAMES = [b"Date", b"Content-Encoding", b"Transfer-Encoding", b"content-length", b"Z ", b"A:B", b""]
TEXTS = st.text("a \t\r\n\0\x0b\x7f\x80\xff:", max_size=3).map(lambda text: text.encode("latin-1"))
ODD = st.tuples(
    st.one_of(st.sampled_from(NAMES), st.binary(max_size=4)),
    st.one_of(st.sampled_from([b"5", b"6", b" 5", b"5 ", b""]), TEXTS),
)


@given(st.lists(ODD, max_size=2), st.integers(0, 2), st.booleans())
def test_clean_headers_are_written_as_others_are(
    odd: list[tuple[bytes, bytes]], place: int, readable: bool
) -> None:
    received = [(b"Content-Length", b"5"), HTML]
    received[place:place] = odd
    answer = response(A, b"hello", headers=received)
    answer = msgspec.structs.replace(answer, readable=readable, by_name={})
    head = _http_head(answer)
    assert head == b"HTTP/1.1 200 OK\r\n" + _fitting_lines(answer, b"5") + b"\r\n"


def test_usual_headers_take_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawler.session.warc._fitting_lines", None)
    coding = (b"Content-Encoding", b"gzip")
    received = [(b"Date", b"Mon, 30 Nov 2026 07:00:00 GMT"), (b"Content-Length", b"5"), coding]
    head = _http_head(response(A, b"hello", headers=received))
    assert head.split(b"\r\n")[1:-2] == [b"%b: %b" % one for one in received]


def test_records_have_names_of_their_own() -> None:
    names = list(itertools.islice(_record_ids(), 1000))
    assert len(set(names)) == 1000
    for name in names:
        assert uuid.UUID(name.removeprefix("<").removesuffix(">")).version == 4


def test_each_of_many_payloads_is_known_again(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    rows = [put(store, fetched(response(f"{A}{n}", b"%d" % n)), 0) for n in range(700)]
    files, hashes, places = store.seen.state()
    again = [put(store, fetched(response(f"{B}{n}", b"%d" % n)), 0) for n in range(700)]
    store.close()
    assert not any(row.duplicate for row in rows)
    assert all(row.duplicate for row in again)
    assert files == [rows[0].warc_file]
    assert len(hashes) == len(places) == 8 * 700
    assert sorted(array.array("Q", places)) == [row.warc_offset for row in rows]


def test_warcio_reads_back_what_the_web_sends(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    odd = [
        (b"", b"no name"),
        (b"X-Bytes", bytes(range(256))),
        (b"X-\xff", b"\r\n\r\nHTTP/1.1 200 Fake\r\n\r\n"),
        (b"Content-Length", b"-1"),
        (b"Content-Encoding", b"gzip"),
    ]
    payload = b"\r\n\r\nWARC/1.1\r\n" + bytes(range(256)) * 300
    put(store, fetched(response(A, payload, headers=odd, reason="caf\xe9\r\n\ud800")), 0)
    store.close()
    [path] = warc_files(store.directory)
    assert len(assert_warcio_accepts(path)) == 3
    with path.open("rb") as file:
        _, answer, _ = (
            (record.http_headers, record.raw_stream.read()) for record in ArchiveIterator(file)
        )
    assert answer[1] == payload
    assert answer[0].get_header("content-length") == str(len(payload))


def test_a_record_torn_by_a_kill_is_cut_off_by_mending(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put(store, fetched(response(A)), 0)
    put(store, fetched(response(B, b"other")), 0)
    store.close()
    [path] = warc_files(store.directory)
    whole = path.read_bytes()
    offsets = [int(entry["offset"]) for entry in assert_warcio_accepts(path)]
    for cut in range(offsets[-2] + 1, len(whole), 40):
        path.write_bytes(whole[:cut])
        mend([store.directory])
        expected = max(offset for offset in offsets if offset <= cut)
        assert path.read_bytes() == whole[:expected]
    path.write_bytes(whole)
    mend([store.directory])
    assert path.read_bytes() == whole
    path.write_bytes(whole[:100] + b"\xff" * 20 + whole[120:])  # damaged, not torn
    damaged = path.read_bytes()
    mend([store.directory])
    assert path.read_bytes() == damaged
    path.write_bytes(whole[:5])
    mend([store.directory])
    assert not path.exists()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_pywb_replays_pages_and_revisits(tmp_path: Path) -> None:
    programs = install_pywb(tmp_path / "pywb")
    page = b"<!doctype html><p>gr\xc3\xbc\xc3\x9f dich</p>" * 100
    store = open_store(tmp_path / "session")
    chunked = [HTML, (b"Transfer-Encoding", b"chunked")]
    zipped = [HTML, (b"Content-Encoding", b"gzip")]
    put(store, fetched(response(A, page, headers=chunked)), 0)
    revisit = put(store, fetched(response(B, page, started=1_800_000_100.0)), 0)
    put(store, fetched(response(C, gzip.compress(page), headers=zipped)), 0)
    put(store, fetched(response(D, page + b"!", headers=[HTML, (b"ETag", b"1")])), 0)
    store.close()
    assert revisit.duplicate
    later = open_store(tmp_path / "later")
    with alone(Previous.read(tmp_path / "session", Alone(), lambda row: 0)) as previous:
        for answer in (
            response(D, b"", status=304, headers=[], started=1_800_000_200.0),
            response(A, page, started=1_800_000_300.0),
        ):
            again = fetched(answer)
            again.earlier = previous.find(again.found.key)
            assert later.append(again, 0).duplicate
    later.close()

    archive = tmp_path / "archive"
    archive.mkdir()
    manager = [programs / "wb-manager"]
    subprocess.run([*manager, "init", "crawl"], cwd=archive, check=True)
    subprocess.run(
        [
            *(*manager, "add", "crawl"),
            *(*warc_files(store.directory), *warc_files(later.directory)),
        ],
        cwd=archive,
        check=True,
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [programs / "wayback", "-b", "127.0.0.1", "-p", str(port)], cwd=archive
    )
    try:
        for url in (A, B, C):
            replayed = replay(f"http://127.0.0.1:{port}/crawl/2027id_/{url}")
            assert replayed == page
        # Of the second session, by its dates; pywb would send an unchanged page to a browser.
        for url, date, body in (
            (D, "20270115080320", page + b"!"),
            (A, "20270115080500", page),
        ):
            assert replay(f"http://127.0.0.1:{port}/crawl/{date}id_/{url}") == body
    finally:
        server.terminate()
        server.wait()


def install_pywb(environment: Path) -> Path:
    """pywb in an environment of its own; the directory of its programs."""
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    # pywb takes pkg_resources for granted, and venv brings no setuptools from Python 3.12 on.
    pip = [environment / "bin" / "python", "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "pywb>=2.8", "setuptools<81"], check=True)
    return environment / "bin"


def replay(url: str) -> bytes:
    """The body at the URL, content coding undone, once the server has come up."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                body: bytes = answer.read()
                return gzip.decompress(body) if answer.headers["Content-Encoding"] else body
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError):
                raise
            assert time.monotonic() < deadline, "wayback doesn't answer"
            time.sleep(0.2)


@given(st.binary(max_size=9))
def test_a_digest_is_sha_1_in_base_32(payload: bytes) -> None:
    expected = base64.b32encode(hashlib.sha1(payload, usedforsecurity=False).digest()).decode()
    assert digest(payload) == f"sha1:{expected}"


@given(st.floats(0, 4e9) | st.integers(0, 1 << 32).map(lambda half: half / 2))
def test_a_date_is_that_of_the_standard_library(time: float) -> None:
    expected = datetime.fromtimestamp(time, UTC).replace(tzinfo=None)
    assert warc_date(time) == expected.isoformat(timespec="microseconds") + "Z"
