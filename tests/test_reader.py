"""The response reader, bytes to events; however the bytes are cut, the outcome is the same."""

import gzip
import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crawler.net.response import End, Event, Head, ResponseReader
from crawler.ports import Failure, FetchError

OK = b"HTTP/1.1 200 OK\r\n"
TE = b"Transfer-Encoding: chunked"
CHUNKED = OK + TE + b"\r\n\r\n"


def events(*pieces: bytes, max_head_bytes: int = 10_000, max_headers: int = 100) -> list[Event]:
    """What a connection brings that sends these pieces and closes."""
    reader = ResponseReader(max_head_bytes, max_headers)
    found: list[Event] = []
    for piece in pieces:
        found += reader.feed(piece)
        while reader.behind:
            found += reader.feed(b"")
    return found + reader.close()


def outcome(*pieces: bytes) -> tuple[Head, bytes, End] | Failure | None:
    try:
        found = events(*pieces)
    except FetchError as error:
        return error.failure
    if not found:
        return None
    head, *body, end = found
    assert isinstance(head, Head)
    assert isinstance(end, End)
    assert all(isinstance(piece, bytes) and piece for piece in body)
    return head, b"".join(piece for piece in body if isinstance(piece, bytes)), end


def read(response: bytes) -> tuple[Head, bytes, End]:
    found = outcome(response)
    assert isinstance(found, tuple)
    return found


def reusable(response: bytes) -> bool:
    """Whether the connection is kept once a response has come."""
    reader = ResponseReader(10_000, 100)
    assert reader.feed(response)[-1] is End.WHOLE
    return reader.reusable


# Heads


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"HTTP/1.1 200 OK", ("1.1", 200, "OK")),
        (b"HTTP/1.0 404 Not Found", ("1.0", 404, "Not Found")),
        (b"HTTP/1.1 200", ("1.1", 200, "")),
        (b"HTTP/1.1 200 ", ("1.1", 200, "")),
        (b"HTTP/1.1  200  OK", ("1.1", 200, "OK")),
        (b"HTTP/1.1\t200\tOK", ("1.1", 200, "OK")),
        (b"HTTP/1.1 200OK", ("1.1", 200, "OK")),
        (b"http/1.1 200 ok", ("1.1", 200, "ok")),
        (b"HTTP/1.2 200 OK", ("1.1", 200, "OK")),
        (b"HTTP/2 200", ("1.1", 200, "")),
        (b"HTTP/0.9 200 OK", ("1.0", 200, "OK")),
        (b"HTTP 200 OK", ("1.0", 200, "OK")),
        (b"ICY 200 OK", ("1.0", 200, "OK")),
        (b"HTTP/1.1 999 \xe9\x1b[31m", ("1.1", 999, "\xe9 [31m")),
        (b"\r\n\n\r\nHTTP/1.1 200 OK", ("1.1", 200, "OK")),
        (
            b"HTTP/1.1 100 Continue\r\nA: b\r\n\r\nHTTP/1.1 103\r\n\r\n" + OK[:-2],
            ("1.1", 200, "OK"),
        ),
    ],
)
def test_status_lines(line: bytes, expected: tuple[str, int, str]) -> None:
    for end in (b"\r\n", b"\n"):
        assert read(line + end + b"Content-Length: 0\r\n\r\n")[0][:3] == expected


@pytest.mark.parametrize(
    "line",
    [b"<html>", b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 20 OK\n", b"HTTP/1.1 2000 OK\n", b"\0",
     b"HTTP/1.1 -12 OK\n", b"HTTP/1.1 012 OK\n", b"HTTP/1.012345 200 OK\n", b"HTTPS/1.1 200 OK\n",
     b"RTSP/1.0 200 OK\n", b"HTTP/1.1\n", b"HTTP/1.1 OK\n"],
)  # fmt: skip
def test_what_isnt_http_is_noticed_at_once(line: bytes) -> None:
    with pytest.raises(FetchError) as caught:
        ResponseReader(10_000, 100).feed(line)
    assert caught.value.failure is Failure.BAD_HTTP
    assert caught.value.detail.isprintable()


def test_headers() -> None:
    head, body, _ = read(
        OK + b"A: 1\nB:2\r\nno colon\r\nX-Echo a : 3\r\n: 4\r\nLatin: caf\xe9 \x01\r\n"
        b"Folded: one\r\n  two\n\tthree\r\nEmpty:\r\nA:  again\r\n\r\nbody"
    )
    assert head.headers == [
        (b"A", b"1"), (b"B", b"2"), (b"Latin", b"caf\xe9 \x01"), (b"Folded", b"one two three"),
        (b"Empty", b""), (b"A", b"again"),
    ]  # fmt: skip
    assert not head.flawed
    assert body == b"body"


def test_limits_of_a_head() -> None:
    response = OK + b"A: b\r\n" * 50 + b"\r\n"
    assert len(events(response, max_head_bytes=len(response), max_headers=50)) == 2
    for limits in ({"max_head_bytes": len(response) - 1}, {"max_headers": 49}):
        with pytest.raises(FetchError) as caught:
            events(response, **limits)
        assert caught.value.failure is Failure.TOO_LARGE


# Where a body ends


@pytest.mark.parametrize(
    ("headers", "rest", "body", "end"),
    [
        (b"Content-Length: 2", b"ok", b"ok", End.WHOLE),
        (b"Content-Length: 2\nContent-Length: 2", b"ok", b"ok", End.WHOLE),
        (b"Content-Length: 2, 02", b"ok", b"ok", End.WHOLE),
        (b"Content-Length: 99", b"16 bytes of body", b"16 bytes of body", End.CUT),
        (b"Content-Length: 5", b"16 bytes of body", b"16 by", End.WHOLE),
        (b"Content-Length: 36893488147419103232", b"ok", b"ok", End.WHOLE),
        (b"Content-Length: 9\n" + TE, b"2\r\nok\r\n0\r\n\r\n", b"ok", End.WHOLE),
        (b"Transfer-Encoding: identity\nContent-Length: 1", b"ok", b"ok", End.WHOLE),
        (b"TRANSFER-ENCODING: Chunked", b"2\nok\n0\n\n", b"ok", End.WHOLE),
        (TE, b"2;ext=\"1\"\r\nok\r\n0;x\r\nT: x\r\n\r\n", b"ok", End.WHOLE),
        (TE, b"0002 x\r\nok\r\n000\r\n\r\n", b"ok", End.WHOLE),
        (TE, b"2\r\nok\r\n0\r\n\r\nmore", b"ok", End.WHOLE),
        (TE, b"2\r\nok\r\n0\r\n", b"ok", End.CUT),
        (TE, b"2\r\nok\r\n", b"ok", End.CUT),
        (TE, b"9\r\nok", b"ok", End.CUT),
        (TE, b"<html>", b"", End.BROKEN),
        (TE, b"2\r\nok?", b"ok", End.BROKEN),
        (TE, b"2\r\nok\r\n-1\r\n", b"ok", End.BROKEN),
        (TE, b"11112222333344445\r\nok", b"", End.BROKEN),
        (TE, b"2;" + b"x" * 20_000 + b"\r\nok", b"", End.BROKEN),
        (b"Connection: close", b"to the end", b"to the end", End.WHOLE),
        (b"Connection: keep-alive", b"to the end", b"to the end", End.WHOLE),
    ],
)  # fmt: skip
def test_bodies(headers: bytes, rest: bytes, body: bytes, end: End) -> None:
    head, *found = read(OK + headers + b"\n\n" + rest)
    assert found == [body, end]
    assert not head.flawed


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_answers_without_a_body(status: bytes) -> None:
    head = b"HTTP/1.1 " + status + b"\r\nContent-Length: 4\r\n\r\n"
    assert read(head + b"body")[1:] == (b"", End.WHOLE)
    assert reusable(head)
    assert not reusable(head + b"body")


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (b"Content-Length: 6\nContent-Length: 2", b"ok"),
        (b"Content-Length: 2 bytes", b"ok"),
        (b"Content-Length: -2", b"ok?"),
        (b"Content-Length: two", b"ok?"),
        (b"Nul: \0", b"ok?"),
    ],
)
def test_doubts(headers: bytes, body: bytes) -> None:
    head, found, end = read(OK + headers + b"\n\nok?")
    assert head.flawed
    assert (found, end) == (body, End.WHOLE)


def test_transfer_codings() -> None:
    head, _, _ = read(OK + b"Transfer-Encoding: gzip, Chunked\r\nTransfer-Encoding: x\r\n\r\n")
    assert head.transfer_codings == ["gzip", "x"]


def test_many_tiny_chunks_are_taken_and_endless_framing_isnt() -> None:
    assert read(CHUNKED + b"1\r\nx\r\n" * 50_000 + b"0\r\n\r\n")[1:] == (b"x" * 50_000, End.WHOLE)
    line = b"1;" + b"x" * 10_000 + b"\r\nx\r\n"
    assert read(CHUNKED + line * 200)[2] is End.BROKEN


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (OK + b"Content-Length: 2\r\n\r\n", True),
        (OK + b"Connection: Keep-Alive\r\nContent-Length: 2\r\n\r\n", True),
        (OK + b"Connection: x, Close\r\nContent-Length: 2\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n", True),
        (OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n", False),
    ],
)
def test_which_connections_are_kept(head: bytes, expected: bool) -> None:
    assert reusable(head + b"ok") is expected
    assert not reusable(head + b"ok, and more")


def test_chunked_bodies_and_kept_connections() -> None:
    body = b"2\r\nok\r\n0\r\n\r\n"
    assert reusable(CHUNKED + body)
    assert not reusable(CHUNKED + body + b"x")
    assert not reusable(OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n" + body)


def test_bytes_that_come_later_end_a_kept_connection() -> None:
    reader = ResponseReader(10_000, 100)
    reader.feed(OK + b"Content-Length: 2\r\n\r\nok")
    assert reader.reusable
    assert reader.feed(b"x") == []
    assert not reader.reusable


# Any bytes, cut anywhere

WORDS = [
    OK, b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.0 304\n", b"Content-Length: 5\r\n",
    b"Content-Length: 2, 2\n", b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n",
    b"X: \xe9\r\n folded\r\n", b"\r\n", b"\n", b"\r", b" ", b"5\r\nhello\r\n", b"0\r\n",
    b"0\r\n\r\n", b"3;x\nabc\n", b"hello", b"T: x\r\n", b"ff", gzip.compress(b"hello"),
    b"Content-Encoding: gzip\n",
]  # fmt: skip
RESPONSES = st.lists(st.sampled_from(WORDS) | st.binary(max_size=4), max_size=12).map(b"".join)


@given(st.sampled_from([b"", OK, CHUNKED]), RESPONSES, st.lists(st.integers(0, 200), max_size=6))
@example(b"", b"\r\n\r\n" + OK + b"\r\n", [1, 3])
def test_cuts_dont_matter(start: bytes, rest: bytes, cuts: list[int]) -> None:
    response = start + rest
    places = [0, *sorted(cuts), len(response)]
    pieces = [response[a:b] for a, b in itertools.pairwise(places)]
    whole = outcome(response)
    assert outcome(*pieces) == whole
    assert outcome(*(bytes([byte]) for byte in response)) == whole


@given(st.binary(max_size=300), st.lists(st.integers(1, 40), max_size=10))
def test_chunked_bodies_come_back(body: bytes, sizes: list[int]) -> None:
    chunks, at = [], 0
    for size in [*sizes, len(body) + 1]:
        if piece := body[at : at + size]:
            chunks.append(b"%x\r\n%b\r\n" % (len(piece), piece))
        at += size
    response = CHUNKED + b"".join(chunks) + b"0\r\n\r\n"
    assert read(response)[1:] == (body, End.WHOLE)
    assert reusable(response)


@given(
    st.lists(
        st.tuples(
            st.from_regex(rb"\A[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z"),
            st.binary(max_size=30).map(lambda value: value.translate(None, b"\r\n").strip()),
        ),
        max_size=9,
    )
)
def test_headers_come_back(headers: list[tuple[bytes, bytes]]) -> None:
    lines = b"".join(b"%b: %b\r\n" % header for header in headers)
    assert read(OK + lines + b"\r\n")[0].headers == headers
