"""Hosts with several addresses: all are tried, once, in bounded time, and clocks stay true."""

import asyncio
import itertools
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import uvloop
from aiohappyeyeballs import AddrInfoType, start_connection
from crawls import crawl_here, page_rows, sets
from hypothesis import given, settings
from hypothesis import strategies as st
from servers import DnsServer, RawServer, read_head
from test_net import OK

from crawler import config
from crawler.net import HttpFetcher
from crawler.net.addresses import AddressBook
from crawler.ports import Failure, FetchError, MovedError, Response

PAGE = OK + b"Content-Length: 2\r\nConnection: close\r\n\r\nhi"
LOCAL = config.Fetch(allow_private_addresses=True, connect_timeout_s=5)


class Names:
    """A resolver with a table, whose answers may change."""

    def __init__(self, **table: Sequence[str]) -> None:
        self.table = {f"{name}.example": addresses for name, addresses in table.items()}

    async def resolve(self, host: str) -> list[tuple[str, int | None]]:
        return [(address, None) for address in self.table[host]]


class Silence:
    """Loopback addresses that answer no attempt to connect to a port."""

    def __init__(self, port: int, *silent: str) -> None:
        self._sockets: list[socket.socket] = []
        for address in silent:
            full = socket.socket()
            full.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            full.bind((address, port))
            full.listen(0)
            self._sockets.append(full)
            for _ in range(2):  # the queue is full: no connection is made any more
                filler = socket.socket()
                filler.setblocking(False)
                filler.connect_ex((address, port))
                self._sockets.append(filler)

    def end(self) -> None:
        for each in self._sockets:
            each.close()


def ask(names: Names, url: str, fetch: config.Fetch = LOCAL, **settings: bool) -> Response:
    async def main() -> Response:
        async with HttpFetcher(fetch, names, **settings) as fetcher:
            return await fetcher.fetch(url)

    return uvloop.run(main())


def failure(names: Names, url: str, fetch: config.Fetch = LOCAL) -> Failure:
    with pytest.raises(FetchError) as caught:
        ask(names, url, fetch)
    return caught.value.failure


@pytest.mark.parametrize("dead", [1, 2, 3, 7, 39])
def test_the_last_of_many_answers(dead: int) -> None:
    names = Names(a=[*(f"127.0.1.{n}" for n in range(1, dead + 1)), "127.0.0.1"])
    with RawServer(PAGE) as server:
        response = ask(names, f"http://a.example:{server.port}/")
    assert (response.status, response.address) == (200, "127.0.0.1")


@settings(max_examples=30)
@given(st.permutations(["::1", "::2", "127.0.1.1", "127.0.1.2", "127.0.0.1"]))
def test_the_order_of_an_answer_doesnt_matter(addresses: list[str]) -> None:
    with RawServer(PAGE) as server:
        response = ask(Names(a=addresses), f"http://a.example:{server.port}/")
    assert response.address == "127.0.0.1"


def test_silent_addresses_cost_a_quarter_of_a_second_each() -> None:
    with RawServer(PAGE) as server:
        silent = ["127.0.1.1", "127.0.1.2"]
        silence = Silence(server.port, *silent)
        started = time.monotonic()
        response = ask(Names(a=[*silent, "127.0.0.1"]), f"http://a.example:{server.port}/")
        took = time.monotonic() - started
        silence.end()
    assert response.address == "127.0.0.1"
    assert took < 4  # and not twice a connect timeout


def test_each_address_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    async def counting(addresses: Sequence[AddrInfoType], **settings: Any) -> socket.socket:
        def make(info: AddrInfoType) -> socket.socket:
            tried.append(info[4][0])
            return socket.socket(*info[:3])

        return await start_connection(addresses, socket_factory=make, **settings)

    monkeypatch.setattr("crawler.net.connections.start_connection", counting)
    addresses = [f"127.0.1.{n}" for n in range(1, 9)] + [f"::{n}" for n in range(2, 9)]
    assert failure(Names(a=addresses), "http://a.example:9/") in {
        Failure.REFUSED,
        Failure.UNREACHABLE,
    }
    assert sorted(tried) == sorted(addresses)


def test_an_endless_answer_is_cut() -> None:
    book = AddressBook(Names(a=[f"10.0.{n >> 8}.{n & 255}" for n in range(4000)]), lambda _: None)
    assert len(asyncio.run(book.resolve("a.example", 80))) == 40


def test_an_address_that_answered_comes_first() -> None:
    book = AddressBook(Names(a=["10.0.0.1", "10.0.0.2", "10.0.0.3"]), lambda _: None)

    async def main() -> list[str]:
        assert await book.locate("a.example") == "10.0.0.1"
        assert book.answered("a.example", "10.0.0.3")
        return [address[0] for *_, address in await book.resolve("a.example", 80)]

    assert asyncio.run(main()) == ["10.0.0.3", "10.0.0.1", "10.0.0.2"]


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["127.0.0.1", "10.0.0.1"], ["::1", "127.0.0.1", "127.0.0.2"]]
)
def test_no_private_address_of_many_is_connected_to(addresses: list[str]) -> None:
    with RawServer(PAGE) as server:
        found = failure(Names(a=addresses), f"http://a.example:{server.port}/", config.Fetch())
    assert found is Failure.PRIVATE_ADDRESS
    assert server.requests == []


def test_public_addresses_among_private_ones_are_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    public = {"127.0.0.1"}
    monkeypatch.setattr("crawler.net.http.is_public", public.__contains__)
    fetch = config.Fetch(contact="me@a.example")
    with RawServer(PAGE) as server, RawServer(PAGE) as other:
        names = Names(a=["::1", "127.0.0.2", "127.0.0.1"])
        assert ask(names, f"http://a.example:{server.port}/", fetch).address == "127.0.0.1"
        public.clear()
        assert failure(names, f"http://a.example:{other.port}/", fetch) is Failure.PRIVATE_ADDRESS
    assert other.requests == []


# Clocks by address


def by_address(names: Names, port: int, visits: int) -> list[tuple[str, object]]:
    """What `locate` names, and what then becomes of a fetch, again and again."""

    async def main() -> list[tuple[str, object]]:
        found: list[tuple[str, object]] = []
        url = f"http://a.example:{port}/"
        async with HttpFetcher(LOCAL, names, one_address=True) as fetcher:
            for _ in range(visits):
                address = await fetcher.locate(url)
                try:
                    response = await fetcher.fetch(url)
                    assert response.address == address
                    found.append((address, response.status))
                except MovedError:
                    found.append((address, "moved"))
                except FetchError as error:
                    found.append((address, error.failure))
        return found

    return uvloop.run(main())


def test_by_address_a_host_moves_on_from_addresses_that_fail() -> None:
    names = Names(a=["127.0.0.3", "127.0.0.1", "127.0.0.2"])
    with RawServer(PAGE, host="127.0.0.3") as server:
        assert by_address(names, server.port, 5) == [
            ("127.0.0.1", "moved"),
            ("127.0.0.2", "moved"),
            ("127.0.0.3", 200),
            ("127.0.0.3", 200),
            ("127.0.0.3", 200),
        ]


def test_by_address_a_failure_is_final_when_all_addresses_failed() -> None:
    round_of_two = [("127.0.0.1", "moved"), ("127.0.0.2", Failure.REFUSED)]
    assert by_address(Names(a=["127.0.0.2", "127.0.0.1"]), 9, 4) == 2 * round_of_two
    assert by_address(Names(a=["127.0.0.1"]), 9, 2) == [("127.0.0.1", Failure.REFUSED)] * 2


def test_by_address_a_kept_connection_to_another_address_is_left() -> None:
    """The answers of the name server change while a connection is kept."""
    kept = PAGE.replace(b"Connection: close\r\n", b"")

    def serve(connection: socket.socket) -> None:
        connection.sendall(kept)
        read_head(connection)
        connection.sendall(kept)

    names = Names(a=["127.0.0.2", "127.0.0.3"])

    async def main(port: int) -> list[str | None]:
        url = f"http://a.example:{port}/"
        async with HttpFetcher(LOCAL, names, one_address=True) as fetcher:
            found = [(await fetcher.fetch(url)).address]
            names.table["a.example"] = ["127.0.0.1", "127.0.0.3"]
            found.append(await fetcher.locate(url))
            found.append((await fetcher.fetch(url)).address)
        return found

    with RawServer(serve, host="0.0.0.0") as server:  # all of loopback
        assert uvloop.run(main(server.port)) == ["127.0.0.2", "127.0.0.1", "127.0.0.1"]


def test_crawl_by_address_of_a_host_whose_first_address_is_dead(tmp_path: Path) -> None:
    """The addresses of the host are known to a name server only. The crawl has all pages."""
    table = {"a.example": ["127.0.0.1", "127.0.0.2", "127.0.0.3"], "b.example": ["127.0.0.3"]}
    page = OK + b"Content-Type: text/html\r\nConnection: close\r\n\r\n<a href=/x>x</a>"
    with RawServer(page, host="127.0.0.3") as server, DnsServer(table) as dns:
        settings = sets(
            f'dns.nameservers=["{dns.nameserver}"]',
            "politeness.per=address",
            "politeness.delay_s=0.2",
        )
        seeds = [f"http://{host}:{server.port}/" for host in table]
        done = crawl_here(tmp_path / "s", *seeds, *settings)
    assert done.returncode == 0, done.stderr
    rows = page_rows(tmp_path / "s")
    assert {(row["address"], row["status"]) for row in rows} == {("127.0.0.3", 200)}
    assert len(rows) == 4
    times = sorted(row["time"].timestamp() for row in rows)
    assert min(b - a for a, b in itertools.pairwise(times)) > 0.19
