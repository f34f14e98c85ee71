"""The connections of a fetcher: which are kept, how proxies are used, and when time is over."""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from math import inf

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st
from servers import CERTIFICATE, RawServer, read_head
from test_credentials import PAGE, ProxyServer, sent
from test_net import LOCAL, OK, NoResolver, failure_of, get

from crawler.net import HttpFetcher
from crawler.net.connections import Connections, Server, Way
from crawler.net.wire import Watch
from crawler.ports import Failure

TLS = {"ca_files": [str(CERTIFICATE)]}


# Kept connections


def serve_well(connection: socket.socket) -> None:
    """Answer one request after another, until the client closes."""
    connection.sendall(PAGE)
    while read_head(connection):
        connection.sendall(PAGE)


def connections_of(fetcher: HttpFetcher) -> Connections:
    return fetcher._connections


def test_the_connection_used_last_is_taken_first() -> None:
    """So those that aren't needed any more grow old."""

    async def main(url: str) -> None:
        async with HttpFetcher(LOCAL, NoResolver()) as fetcher:
            await asyncio.gather(*(fetcher.fetch(url) for _ in range(3)))
            ((way, idle),) = connections_of(fetcher)._idle.items()
            first, *_, last = list(idle)
            for _ in range(4):
                await fetcher.fetch(url)
            assert len(idle) == 3
            assert connections_of(fetcher).take(way) is last
            assert connections_of(fetcher).take(way) is not first

    with RawServer(serve_well) as server:
        uvloop.run(main(server.url))
    assert len(server.requests) == 3  # connections


def test_connections_that_are_idle_for_long_are_closed() -> None:
    async def main(url: str) -> None:
        async with HttpFetcher(LOCAL, NoResolver()) as fetcher:
            await asyncio.gather(*(fetcher.fetch(url) for _ in range(3)))
            connections = connections_of(fetcher)
            ((way, idle),) = connections._idle.items()
            old, young = idle[:2], idle[2]
            for one in old:
                one.idle_since = -inf
            connections._sweep()
            await asyncio.wait([one.lost for one in old])
            assert connections._idle == {way: [young]}
            assert connections._sweeper is not None  # it comes again for the others
            young.idle_since = -inf
            connections._sweep()
            assert connections._idle == {}
            assert connections._sweeper is None

    with RawServer(serve_well) as server:
        uvloop.run(main(server.url))


@pytest.mark.interpreted
def test_so_many_connections_are_kept_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is closed by its server isn't kept at all."""
    monkeypatch.setattr("crawler.net.connections.MAX_IDLE", 2)

    async def main(url: str, other: str) -> None:
        async with HttpFetcher(LOCAL, NoResolver()) as fetcher:
            connections = connections_of(fetcher)
            await asyncio.gather(*(fetcher.fetch(url) for _ in range(5)))
            assert len(connections._kept) == 2
            (kept,) = connections._idle.values()
            assert list(connections._kept) == kept
            first, second = kept
            await fetcher.fetch(other)
            assert first.lost.done() or not first.is_open
            assert second in connections._kept
            async with asyncio.timeout(60):
                while len(connections._kept) > 1:  # until the other server has closed
                    await asyncio.sleep(0.01)
            assert list(connections._kept) == [second]
            assert list(connections._idle.values()) == [[second]]
            assert len(connections._open) == 1

    with RawServer(serve_well) as server, RawServer(PAGE) as other:
        uvloop.run(main(server.url, other.url))


def test_no_connection_is_left_open() -> None:
    async def main(url: str) -> None:
        async with HttpFetcher(LOCAL, NoResolver()) as fetcher:
            connections = connections_of(fetcher)
            await fetcher.fetch(url)
            task = asyncio.create_task(fetcher.fetch(f"{url}slow"))
            await asyncio.sleep(0.05)
            assert len(connections._open) == 1
        assert not connections._open
        with contextlib.suppress(Exception):
            await task

    def serve_once(connection: socket.socket) -> None:
        connection.sendall(PAGE)
        read_head(connection)
        connection.recv(1)

    with RawServer(serve_once) as server:
        uvloop.run(main(server.url))


class Eager(RawServer):
    """Answers before it is asked, without end."""

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection.sendall(OK + b"\r\n")
            while True:
                connection.sendall(b"x" * 65536)


def test_what_a_server_says_before_it_is_asked_is_its_answer() -> None:
    with Eager(b"") as server:
        response = get(server.url, max_bytes=300_000)
    assert (response.failure, len(response.body)) == (Failure.TOO_LARGE, 300_000)


def test_bytes_before_a_request_dont_pile_up() -> None:
    async def main(url: str) -> None:
        async with HttpFetcher(LOCAL, NoResolver()) as fetcher:
            host, port = url.split("/")[2].split(":")
            connections = connections_of(fetcher)
            protocol = await connections.open(Way(Server(host, int(port), tls=False)))
            before, kept = -1, 0
            while kept < 10_000_000 and (not kept or before < kept):
                before = kept
                await asyncio.sleep(0.1)
                kept = len(protocol._early)
            assert kept < 10_000_000
            assert len((await protocol.exchange(b"GET / HTTP/1.1", inf, kept + 1)).payload) > 0

    with Eager(b"") as server:
        uvloop.run(main(server.url))


# Proxies


def test_http_through_a_proxy_with_tls() -> None:
    with ProxyServer(tls=True) as proxy:
        url = proxy.url.replace("//", "//me:SECRET@")
        assert get("http://nowhere.invalid/a", proxy=url, **TLS).status == 200
    assert proxy.requests[0].startswith(b"GET http://nowhere.invalid/a HTTP/1.1\r\n")


def test_https_through_a_proxy_with_tls() -> None:
    with RawServer(PAGE, tls=True) as server, ProxyServer(tls=True) as proxy:
        url = f"https://a.example:{server.port}/x"
        response = get(url, proxy=proxy.url, **TLS)
    assert (response.status, response.address) == (200, None)
    assert server.requests[0] == response.request_head


def test_what_a_proxy_is_asked_for() -> None:
    with ProxyServer(tunnel=b"HTTP/1.1 502 No\r\n\r\n") as proxy:
        url = proxy.url.replace("//", "//me:SECRET@")
        failure_of("https://[::ffff]:8443/a", proxy=url)
        failure_of("https://a.example./a", proxy=url)
    first, second = proxy.requests
    assert first.startswith(b"CONNECT [::ffff]:8443 HTTP/1.1\r\n")
    assert second.startswith(b"CONNECT a.example.:443 HTTP/1.1\r\n")
    assert sent(first)["Host"] == "[::ffff]:8443"
    assert sent(second)["Host"] == "a.example"
    assert set(sent(first)) == {"Host", "User-Agent", "Proxy-Authorization"}


def in_pieces(*pieces: bytes) -> Callable[[socket.socket], None]:
    def send(connection: socket.socket) -> None:
        for piece in pieces:
            connection.sendall(piece)

    return send


@pytest.mark.parametrize(
    "answer",
    [
        in_pieces(),
        in_pieces(b"SSH-2.0-OpenSSH\r\n"),
        in_pieces(b"HTTP/1.1 2"),
        in_pieces(b"HTTP/1.1 407 Who are you\r\n", b"Content-Length: 2\r\n\r\n", b"no"),
        in_pieces(b"HTTP/1.1 200 " + b"x" * 1_000_000),
        in_pieces(b"HTTP/1.1 204 No tunnel\r\n\r\n"),
        in_pieces(b"HTTP/1.1 100 Wait\r\n\r\n" * 200),
    ],
)
def test_a_proxy_that_gives_no_tunnel(answer: Callable[[socket.socket], None]) -> None:
    with RawServer(answer) as proxy:
        assert failure_of("https://a.example/", proxy=proxy.url) is Failure.UNREACHABLE


def test_a_proxy_that_says_nothing() -> None:
    with RawServer(lambda connection: connection.recv(1)) as proxy:  # type: ignore[arg-type, return-value]
        found = failure_of("https://a.example/", proxy=proxy.url, connect_timeout_s=0.2)
    assert found is Failure.CONNECT_TIMEOUT


def test_a_tunnel_that_ends_in_the_handshake() -> None:
    with RawServer(OK + b"\r\n") as proxy:
        assert failure_of("https://a.example/", proxy=proxy.url) is Failure.DISCONNECTED


def test_a_tunnel_to_something_else() -> None:
    with RawServer(OK + b"\r\n" + b"this is no TLS" * 9) as proxy:
        assert failure_of("https://a.example/", proxy=proxy.url) in {
            Failure.TLS,
            Failure.DISCONNECTED,
        }


def test_nobody_at_the_address_of_the_proxy() -> None:
    with RawServer(b"") as server:
        pass
    for url in ("http://a.example/", "https://a.example/"):
        assert failure_of(url, proxy=server.url) is Failure.UNREACHABLE
        assert failure_of(url, proxy="http://nobody.invalid:80") is Failure.UNREACHABLE


# Time limits


class VirtualLoop:
    """As much of an event loop as a Watch needs, in virtual time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> "VirtualLoop.Handle":
        timer = when, callback
        self.timers.append(timer)
        return VirtualLoop.Handle(self, timer)

    class Handle:
        def __init__(self, loop: "VirtualLoop", timer: tuple[float, Callable[[], None]]) -> None:
            self._loop = loop
            self._timer = timer

        def cancel(self) -> None:
            with contextlib.suppress(ValueError):
                self._loop.timers.remove(self._timer)

    def run_until(self, end: float) -> None:
        while self.timers and min(when for when, _ in self.timers) <= end:
            timer = min(self.timers, key=lambda one: one[0])
            self.timers.remove(timer)
            self.now = max(self.now, timer[0])
            timer[1]()
        self.now = max(self.now, end)


class Exchange:
    """Is over `silence` after it last heard something."""

    def __init__(self, silence: float, now: float) -> None:
        self.silence = silence
        self.heard = now
        self.ended: float | None = None

    def look(self, now: float) -> float:
        if now < self.heard + self.silence:
            return self.heard + self.silence
        if self.ended is None:
            self.ended = now
        return inf


@pytest.mark.interpreted
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["begin", "hear", "end", "pass"]),
            st.integers(0, 5),
            st.integers(1, 20),
        ),
        max_size=60,
    )
)
def test_each_exchange_ends_exactly_when_its_time_is_over(
    steps: list[tuple[str, int, int]],
) -> None:
    loop = VirtualLoop()
    watch = Watch(loop)  # type: ignore[arg-type]
    exchanges: list[Exchange] = []
    for what, which, amount in steps:
        running = [one for one in exchanges if one.ended is None]
        if what == "begin":
            exchanges.append(Exchange(amount, loop.now))
            watch.begin(exchanges[-1], loop.now + amount)  # type: ignore[arg-type]
        elif what == "hear" and which < len(running):
            running[which].heard = loop.now
        elif what == "end" and which < len(running):
            watch.end(running[which])  # type: ignore[arg-type]
            exchanges.remove(running[which])
        else:
            loop.run_until(loop.now + amount)
        assert len(loop.timers) <= 1
        for one in exchanges:
            due = one.heard + one.silence
            assert one.ended == (due if due <= loop.now else None)
