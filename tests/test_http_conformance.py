"""Odd HTTP: the replies of curl's and llhttp's own tests, and cases reported of other crawlers."""

import gzip
import json
import re
import zlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import brotli
import pytest
import uvloop
import zstandard
from cases import CASES, needs_cases
from curl import BODIES, Reply, ReplyServer, digest, replies
from servers import RawServer
from test_net import LOCAL, OK, NoResolver, fetch_in_turn, get

from crawler.net import HttpFetcher
from crawler.ports import Failure, FetchError, Response

REPLIES = replies()
CURL: Mapping[str, tuple[int, str, int, str]] = json.loads(BODIES.read_text("utf-8"))

# Pages that curl takes without a word, and we with one.
FLAGGED = {
    "test771": Failure.BAD_HTTP,  # two lengths; newer curls refuse it
    "test222": Failure.BAD_ENCODING,  # the deflate stream doesn't end
    "test232": Failure.BAD_ENCODING,
    "invalid.md: Invalid space after start line": Failure.DISCONNECTED,  # cut in a header line
}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Response | FetchError]:
    """What becomes of a fetch of each reply."""

    async def main(url: str) -> dict[str, Response | FetchError]:
        found: dict[str, Response | FetchError] = {}
        async with HttpFetcher(LOCAL, NoResolver()) as fetcher:
            for number, reply in enumerate(REPLIES):
                try:
                    found[reply.id] = await fetcher.fetch(f"{url}{number}")
                except FetchError as error:
                    found[reply.id] = error
        return found

    with ReplyServer(REPLIES) as server:
        return uvloop.run(main(server.url))


@needs_cases
@pytest.mark.parametrize("reply", REPLIES, ids=lambda reply: reply.id)
def test_reply(reply: Reply, outcomes: dict[str, Response | FetchError]) -> None:
    """Every page that curl gets we get, with the same body; the others end somehow."""
    exit_code, payload, exit_code_decoding, body = CURL[reply.id]
    found = outcomes[reply.id]
    if exit_code == 0:
        assert isinstance(found, Response)
        assert digest(found.payload) == payload
    if exit_code_decoding == 0:
        assert isinstance(found, Response)
        assert digest(found.body) == body
        assert found.failure is FLAGGED.get(reply.id)
    if isinstance(found, Response):
        assert (found.truncated is None) or (found.failure is not None)
    else:
        assert found.failure in {Failure.BAD_HTTP, Failure.DISCONNECTED}


# The cases, each with some of its kin

HTML = b"<html>this is plain text</html>"
TEXT = b"<p>" + b"".join(b"%d bottles of beer on the wall, " % n for n in range(999, 0, -1))
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
WHOLE = {"status": 200, "failure": None, "truncated": None}


def page(headers: bytes, body: bytes = b"ok") -> bytes:
    return OK + headers + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def coded(coding: bytes, payload: bytes) -> bytes:
    return page(b"Content-Encoding: " + coding, payload)


Answers = list[tuple[bytes, dict[str, Any]]]
ok = WHOLE | {"body": b"ok"}
text = WHOLE | {"body": TEXT}
cut = {"status": 200, "truncated": "disconnect"}

ANSWERS: dict[str, Answers] = {
    "http-bare-lf": [(page(b"X: y").replace(b"\r\n", b"\n"), ok)],
    "http-long-header": [
        (page(b"Set-Cookie: " + b"x" * 9000), ok),
        (page(b"Content-Security-Policy: " + b"x" * 500_000), ok),
    ],
    "http-many-headers": [
        (page(b"\r\n".join(b"X-%d: y" % n for n in range(200))), ok),
        (page(b"\r\n".join([b"X: y"] * 5000)), ok),
    ],
    "http-space-before-colon": [
        (page(b"X-Echo a : 1"), ok | {"headers": [(b"Content-Length", b"2")]}),
        (page(b"no colon"), ok | {"headers": [(b"Content-Length", b"2")]}),
        (page(b": no name\r\nX : 1"), ok | {"headers": [(b"Content-Length", b"2")]}),
    ],
    "http-control-in-header": [
        (page(b"Set-Cookie: a=\x01\x1b[31m"), ok),
        (page(b"X: \x7f\x80\xff\rY: z"), ok),
    ],
    "http-cl-twice": [
        (page(b"Content-Length: 2"), ok),
        (page(b"X: y").replace(b": 2", b": 2, 2"), ok),
        (page(b"X: y").replace(b": 2", b": 2,3"), ok | {"failure": Failure.BAD_HTTP}),
    ],
    "http-chunked-and-cl": [
        (OK + b"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", ok),
    ],
    "http-cl-too-large": [
        (OK + b"Content-Length: 100\r\n\r\nsixteen bytes of", cut | {"body": b"sixteen bytes of"}),
    ],
    "http-cl-too-small": [
        (OK + b"Content-Length: 5\r\n\r\nsixteen bytes of", WHOLE | {"body": b"sixte"}),
    ],
    "http-204-body": [
        (b"HTTP/1.1 204 No\r\nContent-Length: 4\r\n\r\nbody", WHOLE | {"status": 204, "body": b""}),
        (b"HTTP/1.1 304 No\r\nContent-Length: 4\r\n\r\nbody", WHOLE | {"status": 304, "body": b""}),
    ],
    "http-chunked-lie": [
        (CHUNKED + b"<html>plain", cut | {"failure": Failure.BAD_HTTP, "body": b""}),
        (CHUNKED + b"9\r\nok", cut | {"failure": Failure.DISCONNECTED, "body": b"ok"}),
        (CHUNKED + b"2\r\nok\r\n0\r\n", cut | {"failure": Failure.DISCONNECTED, "body": b"ok"}),
    ],
    "http-gzip-lie": [
        (coded(coding, HTML), WHOLE | {"body": HTML})
        for coding in (b"gzip", b"deflate", b"br", b"zstd", b"utf-8", b"gzip, gzip")
    ],
    "http-gzip-cut": [
        (coded(coding, payload[: len(payload) // 2]), cut | {"failure": Failure.BAD_ENCODING})
        for coding, payload in (
            (b"gzip", gzip.compress(TEXT)),
            (b"deflate", zlib.compress(TEXT)),
            (b"br", brotli.compress(TEXT)),
        )
    ],
    "http-gzip-twice": [
        (coded(b"gzip, gzip", gzip.compress(gzip.compress(TEXT))), text),
        (coded(b"gzip\r\nContent-Encoding: br", brotli.compress(gzip.compress(TEXT))), text),
        (coded(b"gzip, gzip", gzip.compress(TEXT)), text),
    ],
    "http-x-gzip": [
        (coded(b"x-gzip", gzip.compress(TEXT)), text),
        (coded(b"X-GZip", gzip.compress(TEXT)), text),
        (coded(b"zstd", zstandard.compress(TEXT)), text),
        (OK + b"Transfer-Encoding: gzip\r\n\r\n" + gzip.compress(TEXT), text | {"payload": TEXT}),
    ],
    "http-bomb": [],  # see below
    "http-cookie-names": [
        (page(b"Set-Cookie: balancer://x=1\r\nSet-Cookie: {\"a\": [1]}"), ok),
        (page(b"Set-Cookie: =;;\xff\r\nSet-Cookie:"), ok),
    ],
}  # fmt: skip


def flat(table: dict[str, Answers]) -> list[Any]:
    return [
        pytest.param(answer, expected, id=name + "-kin" * (number > 0))
        for name, answers in table.items()
        for number, (answer, expected) in enumerate(answers)
    ]


@pytest.mark.parametrize(("answer", "expected"), flat(ANSWERS))
def test_case(answer: bytes, expected: dict[str, Any]) -> None:
    with RawServer(answer) as server:
        response = get(server.url)
    assert {name: getattr(response, name) for name in expected} == expected


@pytest.mark.parametrize("name", ["http-chunked-and-cl", "http-cl-too-small", "http-204-body"])
def test_case_closes_the_connection(name: str) -> None:
    def answer(connection: Any) -> None:
        connection.sendall(ANSWERS[name][0][0])
        connection.recv(1)

    with RawServer(answer) as server:
        fetch_in_turn(server.url, 2)
    assert len(server.requests) == 2


def test_case_http_gzip_cut_keeps_the_decodable_part() -> None:
    payload = gzip.compress(TEXT)
    with RawServer(coded(b"gzip", payload[: len(payload) // 2])) as server:
        response = get(server.url)
    assert TEXT.startswith(response.body)
    assert len(response.body) > len(TEXT) // 4


@cache
def deflated() -> bytes:
    """Ten gigabytes of zeros: one megabyte, said again and again."""
    zeros = bytes(1 << 20)
    packer = zlib.compressobj(9, wbits=-15)
    start = packer.compress(zeros) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(zeros) + packer.flush(zlib.Z_FULL_FLUSH)
    return start + 10_239 * again


GZIP_HEAD = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
BOMBS: dict[str, Callable[[], bytes]] = {
    "deflate": deflated,
    "gzip": lambda: GZIP_HEAD + deflated(),
    "gzip, gzip": lambda: gzip.compress(GZIP_HEAD + deflated(), 1),
    "br": lambda: brotli.compress(bytes(256 << 20), quality=1),
    "zstd": lambda: zstandard.compress(bytes(1 << 20)) * 10_240,
}


@pytest.mark.parametrize("coding", BOMBS)
def test_case_http_bomb(coding: str) -> None:
    answer = coded(coding.encode(), BOMBS[coding]())
    with RawServer(answer) as server:
        response = get(server.url)
    assert response.body == bytes(LOCAL.max_bytes)
    assert (response.truncated, response.failure) == ("length", Failure.TOO_LARGE)
    assert len(response.payload) <= LOCAL.max_bytes


@needs_cases
def test_no_case_is_left_out() -> None:
    listed = re.findall(r"id: (http-[a-z0-9-]+)", (CASES / "cases.yaml").read_text("utf-8"))
    elsewhere = {"http-429"}  # retries: test_pipeline.py
    assert set(listed) - elsewhere == set(ANSWERS)
