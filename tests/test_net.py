"""The fetcher and the resolver against real sockets on loopback, mostly ill-behaved ones."""

import asyncio
import contextlib
import gzip
import itertools
import socket
import ssl
import time
import zlib
from collections.abc import Sequence
from typing import Any

import brotli
import pytest
import uvloop
import zstandard
from fakes import FakeClock
from hypothesis import given
from hypothesis import strategies as st
from servers import (
    CERTIFICATE,
    NXDOMAIN,
    SERVFAIL,
    DnsServer,
    Page,
    PageServer,
    RawServer,
    forever,
    read_head,
    reset,
)

from crawler import config
from crawler.net import DnsResolver, HttpFetcher, fetch_robots
from crawler.net.dns import is_public
from crawler.ports import Failure, FetchError, Response, UserError, Validators
from crawler.reading.codings import undo
from crawler.url import normalise

OK = b"HTTP/1.1 200 OK\r\n"


def get(
    url: str,
    hosts: dict[str, str] | None = None,
    validators: Validators | None = None,
    sites: Sequence[config.Site] = (),
    **settings: object,
) -> Response:
    """One fetch by a fetcher of its own."""
    fetch = config.Fetch(**{"allow_private_addresses": True} | settings)
    dns = config.Dns(hosts=hosts or {})

    async def main() -> Response:
        async with (
            DnsResolver(dns, fetch.allow_private_addresses, FakeClock()) as resolver,
            HttpFetcher(fetch, resolver, sites=sites) as fetcher,
        ):
            return await fetcher.fetch(url, validators)

    return uvloop.run(main())


def failure_of(url: str, hosts: dict[str, str] | None = None, **settings: object) -> Failure:
    with pytest.raises(FetchError) as caught:
        get(url, hosts, **settings)
    return caught.value.failure


# What goes over the wire, and what is made of the answer


def test_request_head_is_what_was_sent() -> None:
    with RawServer(OK + b"X-A: 1\r\nContent-Length: 2\r\n\r\nhi") as server:
        url = f"http://a.example:{server.port}/a%2fb/%E9?q=a+b&%20=%3d"
        response = get(url, {"a.example": "127.0.0.1"}, contact="https://a.example/bot")
    assert server.requests == [response.request_head]
    lines = response.request_head.decode().split("\r\n")
    assert lines[:3] == [
        "GET /a%2fb/%E9?q=a+b&%20=%3d HTTP/1.1",
        f"Host: a.example:{server.port}",
        f"User-Agent: {config.Fetch().user_agent} (+https://a.example/bot)",
    ]
    assert (response.url, response.address) == (url, "127.0.0.1")
    assert (response.version, response.status, response.reason) == ("1.1", 200, "OK")
    assert list(response.headers) == [(b"X-A", b"1"), (b"Content-Length", b"2")]
    assert response.payload == response.body == b"hi"
    assert (response.truncated, response.failure) == (None, None)
    assert response.started == pytest.approx(time.time(), abs=60)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"HTTP/1.0 200 Fine\r\n\r\nto the end", ("1.0", 200, "Fine", b"to the end")),
        (b"HTTP/1.1 204 No Content\r\n\r\n", ("1.1", 204, "No Content", b"")),
        (b"HTTP/1.1 304 \r\nContent-Length: 9\r\n\r\n", ("1.1", 304, "", b"")),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"\r\nx", ("1.1", 200, "OK", b"x")),
        (b"HTTP/1.1 200 \xe9\r\n\r\n", ("1.1", 200, "\xe9", b"")),
        (
            b"HTTP/1.1 101 Up\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nx",
            ("1.1", 101, "Up", b"x"),
        ),
        (b"HTTP/1.1 301 Moved\r\nLocation: /\r\n\r\n", ("1.1", 301, "Moved", b"")),
        (
            OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
            ("1.1", 200, "OK", b"abc"),
        ),
    ],
)
def test_answers(answer: bytes, expected: tuple[str, int, str, bytes]) -> None:
    with RawServer(answer) as server:
        response = get(server.url)
    assert (response.version, response.status, response.reason, response.body) == expected
    assert response.failure is None
    assert len(server.requests) == 1  # redirects aren't followed


def fetch_in_turn(url: str, count: int) -> list[bytes]:
    """The bodies of so many fetches, one after another by one fetcher."""

    async def main() -> list[bytes]:
        async with HttpFetcher(LOCAL, NoResolver()) as fetcher:
            return [(await fetcher.fetch(url)).body for _ in range(count)]

    return uvloop.run(main())


ONE, TWO = (OK + b"Content-Length: 1\r\n\r\n" + body for body in (b"1", b"2"))


@pytest.mark.parametrize(
    "farewell",
    [
        lambda connection: None,
        read_head,
        reset,
        lambda connection: (read_head(connection), reset(connection)),
        lambda connection: (read_head(connection), connection.sendall(b"HTTP/1")),
        lambda connection: (read_head(connection), connection.sendall(b"left over")),
        lambda connection: connection.sendall(b"left over"),
    ],
)
def test_a_connection_is_kept_and_its_loss_survived(farewell: Any) -> None:
    def two_answers(connection: socket.socket) -> None:
        connection.sendall(ONE)
        read_head(connection)
        connection.sendall(TWO)
        farewell(connection)

    with RawServer(two_answers) as server:
        assert fetch_in_turn(server.url, 4) == [b"1", b"2", b"1", b"2"]
    assert len(server.requests) == 2  # connections


@pytest.mark.parametrize(
    "answer",
    [
        ONE + b"more than was announced",
        b"HTTP/1.1 204 No Content\r\n\r\nbody",
        OK + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n1\r\n0\r\n\r\n",
        OK + b"Content-Length: 1\r\nConnection: close\r\n\r\n1",
        b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n1",
    ],
)
def test_connections_that_arent_used_again(answer: bytes) -> None:
    def twice(connection: socket.socket) -> None:
        connection.sendall(answer)
        if read_head(connection):
            connection.sendall(TWO)

    with RawServer(twice) as server:
        assert b"2" not in fetch_in_turn(server.url, 3)
    assert len(server.requests) == 3


# Servers that don't behave


def test_nobody_listens() -> None:
    with RawServer(b"") as server:
        url = server.url
    assert failure_of(url) is Failure.REFUSED


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"", Failure.DISCONNECTED),
        (reset, Failure.DISCONNECTED),
        (b"SSH-2.0-OpenSSH_9.6\r\n", Failure.BAD_HTTP),
        (b"\0\1\2\3" * 1000, Failure.BAD_HTTP),
        (b"HTTP/1.1 1", Failure.BAD_HTTP),
        (forever(OK, b"A: b\r\n"), Failure.TOO_LARGE),
        (forever(OK + b"A: ", b"b" * 100), Failure.TOO_LARGE),
        (forever(b"", b"\r\n"), Failure.TOO_LARGE),
        (forever(b"", b"HTTP/1.1 100 Go on\r\n\r\n"), Failure.BAD_HTTP),
        (forever(OK, b"A: b\r\n", pause_s=0.1), Failure.TIMEOUT),
        (lambda connection: connection.recv(1), Failure.TIMEOUT),
    ],
)
def test_no_answer(answer: Any, expected: Failure) -> None:
    with RawServer(answer) as server:
        assert failure_of(server.url, timeout_s=0.5, max_header_bytes="64KiB") is expected
    assert len(server.requests) == 1  # a new connection that breaks isn't asked again


@pytest.mark.parametrize(
    ("answer", "truncated", "body"),
    [
        (OK + b"Content-Length: 100\r\n\r\npart", "disconnect", b"part"),
        (OK + b"Half: of a he", "disconnect", b""),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n4\r\npart\r\n9\r\n", "disconnect", b"part"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n4\r\npart\r\n9\r\n!!", "disconnect", b"part!!"),
    ],
)  # fmt: skip
def test_part_of_an_answer(answer: bytes, truncated: str, body: bytes) -> None:
    with RawServer(answer) as server:
        response = get(server.url)
    assert response.body == body
    assert (response.truncated, response.failure) == (truncated, Failure.DISCONNECTED)


def test_answer_that_turns_to_garbage() -> None:
    def answer(connection: socket.socket) -> None:
        connection.sendall(OK + b"Transfer-Encoding: chunked\r\n\r\n4\r\npart\r\n")
        time.sleep(0.2)
        connection.sendall(b"garbage" * 10)
        connection.recv(1)

    with RawServer(answer) as server:
        response = get(server.url)
    assert response.body == b"part"
    assert (response.truncated, response.failure) == ("disconnect", Failure.BAD_HTTP)


def test_body_that_never_ends() -> None:
    with RawServer(forever(OK + b"\r\n", b"drip", pause_s=0.05)) as server:
        response = get(server.url, timeout_s=0.5)
    assert (response.truncated, response.failure) == ("time", Failure.TIMEOUT)
    assert response.body == b"drip" * (len(response.body) // 4) != b""


def test_server_that_falls_silent() -> None:
    def answer(connection: socket.socket) -> None:
        connection.sendall(OK + b"\r\nhush")
        connection.recv(1)

    with RawServer(answer) as server:
        response = get(server.url, idle_timeout_s=0.3)
    assert (response.truncated, response.failure) == ("time", Failure.TIMEOUT)
    assert response.body == b"hush"


def test_page_of_100_megabytes_is_cut() -> None:
    sent = 0

    def answer(connection: socket.socket) -> None:
        nonlocal sent
        connection.sendall(OK + b"Content-Length: 104857600\r\n\r\n")
        for _ in range(1600):
            connection.sendall(b"x" * 65536)
            sent += 65536

    with RawServer(answer) as server:
        response = get(server.url, max_bytes=1_000_000)
    assert response.payload == response.body == b"x" * 1_000_000
    assert (response.truncated, response.failure) == ("length", Failure.TOO_LARGE)
    assert sent < 50_000_000


def test_exactly_the_limit_is_whole() -> None:
    with RawServer(OK + b"\r\n" + b"x" * 1000) as server:
        assert get(server.url, max_bytes=1000).failure is None
        assert get(server.url, max_bytes=999).failure is Failure.TOO_LARGE


def test_an_error_names_the_address() -> None:
    with RawServer(reset) as server, pytest.raises(FetchError) as caught:
        get(server.url)
    assert (caught.value.failure, caught.value.address) == (Failure.DISCONNECTED, "127.0.0.1")


def test_headers_past_their_number() -> None:
    with RawServer(OK + b"A: b\r\n" * 9 + b"\r\n") as server:
        assert get(server.url, max_headers=9).status == 200
        assert failure_of(server.url, max_headers=8) is Failure.TOO_LARGE


def test_tiny_chunks_are_read_in_turns() -> None:
    answer = OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 50_000 + b"0\r\n\r\n"
    with RawServer(answer) as server:
        response = get(server.url)
    assert (response.body, response.failure) == (b"x" * 50_000, None)


def test_cancelling_is_no_failure() -> None:
    async def main(url: str) -> None:
        async with HttpFetcher(LOCAL, NoResolver()) as fetcher:
            task = asyncio.create_task(fetcher.fetch(url))
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    with RawServer(forever(OK + b"\r\n", b"drip", pause_s=0.05)) as server:
        uvloop.run(main(server.url))


@pytest.mark.parametrize("url", ["http://a.example:99999/", "http:///", "ftp://a.example/"])
def test_bad_url(url: str) -> None:
    assert failure_of(url) is Failure.BAD_URL


# TLS


def test_unknown_certificate() -> None:
    with RawServer(OK + b"\r\nsecret", tls=True) as server:
        assert failure_of(server.url) is Failure.TLS
        assert get(server.url, verify_tls=False).body == b"secret"
        assert get(server.url, ca_files=[str(CERTIFICATE)]).body == b"secret"
        wrong_name = server.url.replace("127.0.0.1", "b.example")
        hosts = {"b.example": "127.0.0.1"}
        assert failure_of(wrong_name, hosts=hosts, ca_files=[str(CERTIFICATE)]) is Failure.TLS


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
@pytest.mark.parametrize(
    "version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1], ids=["TLSv1", "TLSv1_1"]
)
def test_old_tls(version: ssl.TLSVersion) -> None:
    with RawServer(OK + b"\r\nsecret", tls=True) as server:
        assert server.tls is not None
        server.tls.set_ciphers("ALL:@SECLEVEL=0")
        server.tls.minimum_version = server.tls.maximum_version = version
        assert failure_of(server.url, verify_tls=False) is Failure.TLS


def test_tls_that_breaks_after_the_handshake() -> None:
    """As with a server that wants a certificate of ours (TLS 1.3 says so only then)."""
    with RawServer(OK + b"\r\nsecret", tls=True) as server:
        assert server.tls is not None
        server.tls.verify_mode = ssl.CERT_REQUIRED
        assert failure_of(server.url, verify_tls=False) is Failure.TLS
    assert server.requests == []


def test_no_tls_where_it_is_expected() -> None:
    with RawServer(b"HTTP/1.1 400 Bad Request\r\n\r\n") as server:
        assert failure_of(server.url.replace("http:", "https:"), timeout_s=1) is Failure.TLS


@pytest.mark.parametrize("file", ["/nowhere/ca.pem", __file__])
def test_unusable_ca_file(file: str) -> None:
    with pytest.raises(UserError, match=r"fetch\.ca_files"):
        HttpFetcher(config.Fetch(ca_files=(file,)), NoResolver())


# Content codings

TEXT = b"".join(b"%d bottles of beer on the wall, " % n for n in range(9999, 0, -1))
BR, ZSTD = brotli.compress(TEXT), zstandard.compress(TEXT)
GZIP, DEFLATE, RAW_DEFLATE = gzip.compress(TEXT), zlib.compress(TEXT), zlib.compress(TEXT)[2:-4]
LIMIT = 1_000_000


def test_coded_answer() -> None:
    page = Page(gzip.compress(BR), headers={"Content-Encoding": "br", "content-encoding": "gzip"})
    with PageServer({"/": page}) as server:
        response = get(server.url + "/")
    assert (response.payload, response.body) == (page.body, TEXT)
    assert response.failure is None


@pytest.mark.parametrize(
    ("codings", "payload"),
    [
        (["gzip"], GZIP),
        (["x-gzip"], GZIP),
        (["gzip"], gzip.compress(TEXT[:99]) + gzip.compress(TEXT[99:])),
        (["gzip"], GZIP + b"\0\0padding"),
        (["deflate"], DEFLATE),
        (["deflate"], RAW_DEFLATE),
        (["br"], BR),
        (["zstd"], ZSTD),
        (["zstd"], zstandard.compress(TEXT[:99]) + zstandard.compress(TEXT[99:])),
        (["identity", "", "br", "gzip"], gzip.compress(BR)),
        ([""], TEXT),
    ],
)
def test_codings(codings: list[str], payload: bytes) -> None:
    assert undo(codings, payload, LIMIT)[:2] == (TEXT, None)


HTML = b"<html>plain text</html>"


@pytest.mark.parametrize(
    ("codings", "payload", "body"),
    [
        (["gzip"], HTML, HTML),  # what is text was never coded
        (["deflate"], HTML, HTML),
        (["br"], HTML, HTML),
        (["zstd"], HTML, HTML),
        (["gzip", "gzip"], HTML, HTML),
        (["gzip"] * 9, HTML, HTML),
        (["utf-8"], HTML, HTML),
        (["gzip", "gzip"], GZIP, TEXT),  # the label is there twice, the coding once
        (["gzip", "gzip"], gzip.compress(GZIP), TEXT),
        (["gzip", "none"], GZIP, TEXT),
        (["gzip", "deflate"], GZIP, TEXT),
        (["gzip"], DEFLATE, TEXT),
        (["deflate"], GZIP, TEXT),
    ],
)
def test_labels_that_are_wrong(codings: list[str], payload: bytes, body: bytes) -> None:
    assert undo(codings, payload, LIMIT)[:2] == (body, None)


@pytest.mark.parametrize("codings", [["compress"], ["zstd"], ["gzip"] * 5])
def test_codings_that_cant_be_undone(codings: list[str]) -> None:
    assert undo(codings, GZIP, LIMIT)[:2] == (GZIP, Failure.BAD_ENCODING)


@pytest.mark.parametrize(
    ("coding", "payload"), [("gzip", GZIP), ("deflate", RAW_DEFLATE), ("br", BR), ("zstd", ZSTD)]
)
def test_broken_payloads_give_what_they_hold(coding: str, payload: bytes) -> None:
    middle = len(payload) // 2
    for broken in (payload[:-5], payload[:middle], payload[:middle] + b"\xff" * 500):
        body, failure, _ = undo([coding], broken, LIMIT)
        assert failure is Failure.BAD_ENCODING
        assert body[:100] == TEXT[:100] or body == broken
    body, failure, _ = undo(["gzip"], GZIP[:-8] + b"12345678", LIMIT)  # only the checksum is wrong
    assert (body[:300_000], failure) == (TEXT[:300_000], Failure.BAD_ENCODING)


def bombs() -> list[tuple[str, bytes]]:
    """A gigabyte of zeros in each coding, made from one megabyte."""
    zeros = bytes(1 << 20)
    packer = zlib.compressobj(9, wbits=-15)
    start = packer.compress(zeros) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(zeros) + packer.flush(zlib.Z_FULL_FLUSH)  # stands for itself
    raw = start + 1023 * again
    return [
        ("deflate", raw),
        ("gzip", b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + raw),
        ("br", brotli.compress(bytes(64 << 20), quality=1)),
        ("zstd", zstandard.compress(zeros) * 900),
        ("zstd", zstandard.compress(bytes(64 << 20))),
    ]


@pytest.mark.parametrize(("coding", "payload"), bombs())
def test_bombs(coding: str, payload: bytes) -> None:
    assert len(payload) < 2_000_000
    assert undo([coding], payload, LIMIT)[:2] == (bytes(LIMIT), Failure.TOO_LARGE)
    twice = gzip.compress(payload)
    assert undo([coding, "gzip"], twice, 2_000_000)[:2] == (bytes(2_000_000), Failure.TOO_LARGE)


@given(
    st.lists(st.sampled_from(["gzip", "deflate", "br", "zstd", "identity"]), max_size=3),
    st.binary() | st.sampled_from([gzip.compress(b""), brotli.compress(b""), GZIP[:500], BR[:500]]),
)
def test_no_payload_raises(codings: list[str], payload: bytes) -> None:
    body, failure, _ = undo(codings, payload, LIMIT)
    assert len(body) <= LIMIT
    assert failure in {None, Failure.BAD_ENCODING}


def test_empty_body_in_two_codings() -> None:
    assert undo(["deflate", "gzip"], gzip.compress(b""), LIMIT)[:2] == (b"", None)


def test_thousands_of_empty_members_are_left_alone() -> None:
    empty = gzip.compress(b"")
    assert undo(["gzip"], empty * 100_000, LIMIT)[1] is Failure.BAD_ENCODING
    assert undo(["zstd"], zstandard.compress(b"") * 100_000, LIMIT)[1] is Failure.BAD_ENCODING


# Addresses


class NoResolver:
    """For URLs that hold an address."""

    async def resolve(self, host: str) -> list[tuple[str, int | None]]:
        raise FetchError(Failure.DNS_NOT_FOUND, host)


class CarelessResolver:
    """Like a name whose answer has changed since it was checked."""

    async def resolve(self, host: str) -> list[tuple[str, int | None]]:
        return [("127.0.0.1", None)]


LOCAL = config.Fetch(allow_private_addresses=True)


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True), ("2606:4700::1111", True), ("::ffff:8.8.8.8", True),
        ("64:ff9b::808:808", True), ("2002:808:808::1", True),
        ("127.0.0.1", False), ("10.1.2.3", False), ("172.16.0.1", False), ("192.168.1.1", False),
        ("169.254.169.254", False), ("100.64.0.1", False), ("0.0.0.0", False),
        ("224.0.0.1", False), ("240.0.0.1", False), ("255.255.255.255", False),
        ("::1", False), ("::", False), ("fe80::1", False), ("fc00::1", False), ("ff02::1", False),
        ("fec0::1", False), ("::7f00:1", False), ("::ffff:127.0.0.1", False),
        ("64:ff9b::7f00:1", False), ("2002:7f00:1::", False),
    ],
)  # fmt: skip
def test_which_addresses_are_public(address: str, public: bool) -> None:
    assert is_public(address) is public


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "10.0.0.1", "a.example"]
)
def test_private_addresses_are_refused(host: str) -> None:
    with RawServer(OK + b"\r\n") as server:
        url = f"http://{host}:{server.port}/"
        found = failure_of(url, hosts={"a.example": "127.0.0.1"}, allow_private_addresses=False)
        assert found is Failure.PRIVATE_ADDRESS
        assert server.requests == []


@pytest.mark.parametrize(
    "host",
    ["2130706433", "0x7f.1", "017700000001", "127.1", "0177.0.0.01", "0", "%31%32%37.0.0.1",
     "\uff11\uff12\uff17.0.0.1", "127.0.0.1.", "user@127.0.0.1", "[::127.0.0.1]", "[::]",
     "[::ffff:0:127.0.0.1]", "[64:ff9b::127.0.0.1]", "[2002:7f00:1::]", "localhost"],
)  # fmt: skip
def test_private_addresses_are_refused_however_they_are_written(host: str) -> None:
    with RawServer(OK + b"\r\n") as server:
        url = normalise(f"http://{host}:{server.port}/")
        table = {"localhost": "127.0.0.1"}
        found = failure_of(url, hosts=table, allow_private_addresses=False)
        assert found is Failure.PRIVATE_ADDRESS
        assert server.requests == []


def test_public_addresses_are_for_those_who_say_who_they_are() -> None:
    assert failure_of("http://a.example/", hosts={"a.example": "8.8.8.8"}) is Failure.NO_CONTACT
    assert failure_of("http://8.8.8.8/") is Failure.NO_CONTACT


def test_addresses_are_checked_again_at_connect_time() -> None:
    async def main(url: str) -> None:
        async with HttpFetcher(config.Fetch(), CarelessResolver()) as fetcher:
            await fetcher.fetch(url)

    with RawServer(OK + b"\r\n") as server, pytest.raises(FetchError) as caught:
        uvloop.run(main(f"http://a.example:{server.port}/"))
    assert caught.value.failure is Failure.PRIVATE_ADDRESS
    assert caught.value.address == "127.0.0.1"
    assert server.requests == []


# Names


def resolving(dns: config.Dns, *hosts: str, allow_private: bool = True) -> list[object]:
    """Ask for the hosts one after another; failures in place of addresses."""

    async def main() -> list[object]:
        found: list[object] = []
        async with DnsResolver(dns, allow_private, FakeClock()) as resolver:
            for host in hosts:
                try:
                    found.append(list(await resolver.resolve(host)))
                except FetchError as error:
                    found.append(error.failure)
        return found

    return asyncio.run(main())


def test_names_of_the_configuration() -> None:
    dns = config.Dns(
        hosts={"A.example": "10.0.0.1", "b.example": "10.0.0.1:81", "c.example": "[::1]:82",
               "d.example": "::1", "e.example": "[::1]"}
    )  # fmt: skip
    names = [f"{letter}.example" for letter in "abcde"]
    assert resolving(dns, *names, "127.0.0.9", "::1") == [
        [("10.0.0.1", None)],
        [("10.0.0.1", 81)],
        [("::1", 82)],
        [("::1", None)],
        [("::1", None)],
        [("127.0.0.9", None)],
        [("::1", None)],
    ]


def test_port_of_the_configuration_is_connected_to() -> None:
    with PageServer({"/": b"here"}) as server:
        hosts = {"a.example": f"127.0.0.1:{server.port}"}
        response = get("http://a.example/", hosts)
    assert response.body == b"here"
    assert b"\r\nHost: a.example\r\n" in response.request_head


@pytest.mark.parametrize(
    "value", ["", "b.example", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:x", "10.0.0.1:99999", "[:1]"]
)
def test_malformed_table(value: str) -> None:
    with pytest.raises(UserError, match=r"dns\.hosts"):
        DnsResolver(config.Dns(hosts={"a.example": value}), True, FakeClock())


@pytest.mark.parametrize("server", ["ns.example", "1.2.3.4.5", "127.0.0.1:99999", "\xe9"])
def test_malformed_name_server(server: str) -> None:
    with pytest.raises(UserError, match=r"dns\.nameservers"):
        resolving(config.Dns(nameservers=(server,)))


def test_answers_of_a_name_server() -> None:
    table: dict[str, list[str] | int] = {
        "both.example": ["93.184.216.34", "2606:2800::1"],
        "private.example": ["10.0.0.1", "fc00::1"],
        "partly.example": ["10.0.0.1", "93.184.216.34"],
        "empty.example": [],
        "missing.example": NXDOMAIN,
        "failing.example": SERVFAIL,
    }
    with DnsServer(table) as server:
        dns = config.Dns(nameservers=(server.nameserver,), timeout_s=0.2, tries=1)
        both, *others = resolving(dns, *table, "silent.example", "a..b", allow_private=False)
    assert isinstance(both, list)
    assert sorted(both) == [("2606:2800::1", None), ("93.184.216.34", None)]
    assert others == [
        Failure.PRIVATE_ADDRESS,
        [("93.184.216.34", None)],
        Failure.DNS_NOT_FOUND,
        Failure.DNS_NOT_FOUND,
        Failure.DNS_FAILED,
        Failure.DNS_FAILED,
        Failure.DNS_NOT_FOUND,
    ]


def test_one_question_for_many_who_ask_and_one_may_leave() -> None:
    async def main(dns: config.Dns) -> list[object]:
        async with DnsResolver(dns, True, FakeClock()) as resolver:
            tasks = [asyncio.create_task(resolver.resolve("a.example")) for _ in range(100)]
            await asyncio.sleep(0)
            tasks[0].cancel()
            return await asyncio.gather(*tasks, return_exceptions=True)

    with DnsServer({"a.example": ["10.0.0.1"]}) as server:
        first, *others = asyncio.run(main(config.Dns(nameservers=(server.nameserver,))))
    assert isinstance(first, asyncio.CancelledError)
    assert others == [[("10.0.0.1", None)]] * 99
    assert server.names == ["a.example"] * 2  # A and AAAA


def test_how_long_answers_live() -> None:
    """c-ares has a cache too; what is counted here are the questions that it is asked."""
    lives = {"short.example": 30.0, "long.example": 100.0, "missing.example": 300.0}
    tables = ({"short.example": ["10.0.0.1"]}, {"long.example": ["10.0.0.1"]})

    async def asked_again(resolver: DnsResolver, clock: FakeClock, host: str, life: float) -> bool:
        questions = 0
        query = resolver._query

        async def counting(host: str) -> Any:
            nonlocal questions
            questions += 1
            return await query(host)

        resolver._query = counting  # type: ignore[method-assign]
        for step in (0.0, life - 0.1, 0.1):
            clock.advance(step)
            with contextlib.suppress(FetchError):
                await resolver.resolve(host)
            if step == life - 0.1:
                assert questions == 1
        return questions == 2

    async def main(nameserver: str, host: str) -> bool:
        dns = config.Dns(nameservers=(nameserver,), max_ttl_s=100)
        clock = FakeClock()
        async with DnsResolver(dns, True, clock) as resolver:
            return await asked_again(resolver, clock, host, lives[host])

    for table, ttl_s, host in (
        (tables[0], 1, "short.example"),  # at least half a minute
        (tables[1], 5000, "long.example"),  # at most max_ttl_s
        ({"missing.example": NXDOMAIN}, 0, "missing.example"),  # negative_ttl_s
    ):
        with DnsServer(table, ttl_s) as server:
            assert asyncio.run(main(server.nameserver, host))


# robots.txt

DENY = b"User-agent: *\nDisallow: /private\n"


Answer = tuple[bool, bool, Failure | None]


def robots(pages: dict[str, Page | bytes]) -> Answer:
    """Whether / and /private are allowed, and why the rules couldn't be had, given these pages."""
    with PageServer(pages) as server:
        return robots_of(server.url)


def robots_of(authority: str) -> Answer:
    async def main() -> Answer:
        async with HttpFetcher(LOCAL, NoResolver()) as fetcher:
            rules = await fetch_robots(fetcher, authority, "abc-crawler")
            allowed = rules.allows(authority + "/"), rules.allows(authority + "/private")
            return *allowed, rules.unreachable

    return asyncio.run(main())


def hops(count: int) -> dict[str, Page | bytes]:
    """`count` redirects from /robots.txt to DENY."""
    names = ["/robots.txt", *(f"/{n}" for n in range(1, count + 1))]
    pages: dict[str, Page | bytes] = {
        here: Page(status=301, headers={"Location": there})
        for here, there in itertools.pairwise(names)
    }
    return pages | {names[-1]: DENY}


@pytest.mark.parametrize(
    ("pages", "expected"),
    [
        ({"/robots.txt": DENY}, (True, False, None)),
        (hops(5), (True, False, None)),
        (hops(6), (True, True, None)),
        ({}, (True, True, None)),
        ({"/robots.txt": Page(DENY, 403)}, (True, True, None)),
        ({"/robots.txt": Page(DENY, 503)}, (False, False, Failure.ROBOTS_UNREACHABLE)),
        ({"/robots.txt": Page(b"<html>Disallow: /</html>")}, (True, True, None)),
        ({"/robots.txt": Page(status=302, headers={"Location": "ftp://x/"})}, (True, True, None)),
        ({"/robots.txt": Page(status=302, headers={"Location": "/\xe9"}), "/%E9": DENY},
         (True, False, None)),
        ({"/robots.txt": Page(status=302, headers={"Location": "http://x.invalid/"})},
         (False, False, Failure.DNS_NOT_FOUND)),
        ({"/robots.txt": Page(gzip.compress(DENY), headers={"Content-Encoding": "gzip"})},
         (True, False, None)),
        ({"/robots.txt": gzip.compress(DENY)}, (True, False, None)),
        ({"/robots.txt": gzip.compress(DENY + b"#" * 400)[:-20]}, (True, False, None)),
        ({"/robots.txt": ("\ufeff" + DENY.decode()).encode("utf-16-be")}, (True, False, None)),
        ({"/robots.txt": Page(DENY, 429)}, (False, False, Failure.ROBOTS_UNREACHABLE)),
        ({"/robots.txt": Page(status=302, headers={"Location": "/r"}), "/r": Page(DENY, 429)},
         (False, False, Failure.ROBOTS_UNREACHABLE)),
        *[({"/robots.txt": Page(DENY, status)}, (True, True, None))
          for status in (400, 401, 404, 410, 418, 451, 499)],
        *[({"/robots.txt": Page(DENY, status)}, (False, False, Failure.ROBOTS_UNREACHABLE))
          for status in (500, 502, 504, 599)],
    ],
)  # fmt: skip
def test_robots(pages: dict[str, Page | bytes], expected: Answer) -> None:
    assert robots(pages) == expected


@pytest.mark.parametrize(
    ("status", "headers", "wait_s"),
    [(429, {"Retry-After": "7"}, 7.0), (503, {"Retry-After": "7"}, 7.0), (429, {}, None)],
)
def test_a_robots_txt_that_is_not_to_be_asked_for_now_says_how_long(
    status: int, headers: dict[str, str], wait_s: float | None
) -> None:
    async def main(authority: str) -> float | None:
        async with HttpFetcher(LOCAL, NoResolver()) as fetcher:
            return (await fetch_robots(fetcher, authority, "abc-crawler")).retry_after_s

    with PageServer({"/robots.txt": Page(DENY, status, headers)}) as server:
        assert asyncio.run(main(server.url)) == wait_s


def test_half_a_robots_txt_is_none() -> None:
    with RawServer(OK + b"Content-Length: 999\r\n\r\n" + DENY) as server:
        assert robots_of(server.url.removesuffix("/")) == (False, False, Failure.DISCONNECTED)
