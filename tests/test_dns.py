"""Names that are slow, dead, strange or many; what a plain table answers is in test_net.py."""

import asyncio
import socket
import struct
from collections.abc import Iterator, Sequence

import pytest
from fakes import FakeClock
from servers import NXDOMAIN, SERVFAIL, DnsServer, PageServer, quick_dns

from crawler import config, url
from crawler.net import DnsResolver, HttpFetcher
from crawler.ports import Failure, FetchError

Answer = list[tuple[str, int | None]] | Failure


def resolve(dns: config.Dns, *hosts: str) -> list[Answer]:
    """Ask for all hosts at once; failures in place of addresses."""

    async def one(resolver: DnsResolver, host: str) -> Answer:
        try:
            return sorted(await resolver.resolve(host))
        except FetchError as error:
            return error.failure

    async def main() -> list[Answer]:
        async with DnsResolver(dns, True, FakeClock()) as resolver:
            return await asyncio.gather(*(one(resolver, host) for host in hosts))

    return asyncio.run(main())


def quick(*servers: str, **more: int) -> config.Dns:
    return config.Dns(nameservers=servers, timeout_s=0.3, tries=1, **more)


# --- names


@pytest.mark.parametrize(
    "name",
    ["a_b.example", "_tcp.a.example", "-a-.example", "1.2.3.example", "xn--bcher-kva.example"],
)
def test_strange_names_are_asked_for_as_they_are(name: str) -> None:
    with DnsServer({name: ["10.0.0.1"]}) as server:
        assert resolve(quick(server.nameserver), name) == [[("10.0.0.1", None)]]


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a..example", "a.example..", "x" * 64 + ".example", ("x" * 50 + ".") * 6],
)
def test_names_that_cannot_be_do_not_exist_and_nobody_is_asked(name: str) -> None:
    with DnsServer({}) as server:
        assert resolve(quick(server.nameserver), name) == [Failure.DNS_NOT_FOUND]
        assert server.names == []


def test_a_dot_at_the_end_makes_no_other_name() -> None:
    with DnsServer({"a.example": ["10.0.0.1"]}) as server:
        dns = quick(server.nameserver).replace(hosts={"b.example.": "10.0.0.2"})
        names = ["a.example.", "a.example", "b.example.", "b.example"]
        found = resolve(dns, *names)
        assert found == [[("10.0.0.1", None)]] * 2 + [[("10.0.0.2", None)]] * 2
        assert server.names == ["a.example"] * 2  # A and AAAA


def test_an_international_name_of_a_url_and_of_the_table() -> None:
    host = url.host(url.normalise("http://BÜCHER.example/"))
    with DnsServer({"xn--bcher-kva.example": ["10.0.0.1"]}) as server:
        assert resolve(quick(server.nameserver), host) == [[("10.0.0.1", None)]]
    table = config.Dns(hosts={"Bücher.example": "10.0.0.2"})
    assert resolve(table, host) == [[("10.0.0.2", None)]]


# --- servers


def test_what_passes_and_what_does_not_are_told_apart() -> None:
    table: dict[str, list[str] | int] = {"gone.example": NXDOMAIN, "ill.example": SERVFAIL}
    with DnsServer(table) as server:
        found = resolve(quick(server.nameserver), *table, "silent.example")
    assert found == [Failure.DNS_NOT_FOUND, Failure.DNS_FAILED, Failure.DNS_FAILED]


def test_a_failure_is_not_kept_and_an_answer_is() -> None:
    table: dict[str, list[str] | int] = {"a.example": SERVFAIL, "b.example": NXDOMAIN}

    async def main(dns: config.Dns) -> list[str]:
        async with DnsResolver(dns, True, FakeClock()) as resolver:
            failures = []
            for host in ("a.example", "b.example", "b.example"):
                with pytest.raises(FetchError) as error:
                    await resolver.resolve(host)
                failures.append(error.value.failure)
            assert failures == [Failure.DNS_FAILED] + [Failure.DNS_NOT_FOUND] * 2
            table["a.example"] = ["10.0.0.1"]  # it has recovered
            assert await resolver.resolve("a.example") == [("10.0.0.1", None)]
        return server.names

    with DnsServer(table) as server:
        names = asyncio.run(main(quick(server.nameserver)))
    assert names.count("b.example") == 2  # A and AAAA, once


def test_a_dead_name_server_is_passed_over() -> None:
    with DnsServer({}) as dead, DnsServer({"a.example": ["10.0.0.1"]}) as alive:
        dns = quick(dead.nameserver, alive.nameserver)
        assert resolve(dns, "a.example") == [[("10.0.0.1", None)]]


def test_names_of_dead_servers_do_not_keep_the_others_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twice as many dead ones as there is room for; those behind have all come before one fails."""
    monkeypatch.setattr("crawler.net.dns._SLOW_LOOKUP_S", 0.05)
    good = {f"good{number}.example": ["10.0.0.1"] for number in range(100)}
    dead = [f"dead{number}.example" for number in range(64)]
    finished = []

    async def one(resolver: DnsResolver, host: str) -> None:
        try:
            await resolver.resolve(host)
            finished.append(host)
        except FetchError as error:
            finished.append(error.failure)

    async def main(dns: config.Dns) -> None:
        async with DnsResolver(dns, True, FakeClock()) as resolver:
            await asyncio.gather(*(one(resolver, host) for host in [*dead, *good]))

    with DnsServer(dict(good)) as server:
        dns = config.Dns(nameservers=(server.nameserver,), timeout_s=2, tries=1, concurrency=32)
        asyncio.run(main(dns))
    assert sorted(finished[:100]) == sorted(good)
    assert finished[100:] == [Failure.DNS_FAILED] * 64


def test_a_resolver_may_be_left_while_names_are_under_way() -> None:
    async def main(dns: config.Dns) -> None:
        async with DnsResolver(dns, True, FakeClock()) as resolver:
            waiting = [asyncio.ensure_future(resolver.resolve(f"{n}.example")) for n in range(9)]
            await asyncio.sleep(0.05)
        done = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in done)

    with DnsServer({}) as dead:
        asyncio.run(main(config.Dns(nameservers=(dead.nameserver,), concurrency=3)))


@pytest.mark.parametrize("links", [2, 3, 40])
def test_chains_of_names_without_an_end(links: int) -> None:
    class Ring(DnsServer):
        """n0 -> n1 -> ... -> n0, and no address."""

        def _reply(self, query: bytes) -> bytes | None:
            question = query[12 : query.index(b"\0", 12) + 5]
            names = [b"\3n%02d\7example\0" % n for n in range(links)]
            answers = b"".join(
                names[n] + struct.pack("!HHIH", 5, 1, 60, len(names[0])) + names[(n + 1) % links]
                for n in range(links)
            )
            return query[:2] + struct.pack("!5H", 0x8180, 1, links, 0, 0) + question + answers

    with Ring({}) as server:
        assert resolve(quick(server.nameserver), "n00.example") == [Failure.DNS_NOT_FOUND]


def test_addresses_of_both_families_and_behind_a_chain_of_names() -> None:
    def name(text: str) -> bytes:
        return b"".join(bytes([len(p)]) + p.encode() for p in text.split(".")) + b"\0"

    class Chain(DnsServer):
        """Each answer: a.example -> b.example -> c.example, and the address of that."""

        def _reply(self, query: bytes) -> bytes | None:
            question = query[12:]
            question = question[: question.index(b"\0") + 5]
            ipv6 = question[-4:-2] == b"\0\x1c"
            address = socket.inet_pton(
                socket.AF_INET6 if ipv6 else socket.AF_INET, "fd00::1" if ipv6 else "10.0.0.1"
            )
            records = [
                (name("a.example"), 5, name("b.example")),
                (name("b.example"), 5, name("c.example")),
                (name("c.example"), 28 if ipv6 else 1, address),
            ]
            answers = b"".join(
                owner + struct.pack("!HHIH", kind, 1, 60, len(data)) + data
                for owner, kind, data in records
            )
            return query[:2] + struct.pack("!5H", 0x8180, 1, 3, 0, 0) + question + answers

    with Chain({}) as server:
        found = resolve(quick(server.nameserver), "a.example")
    assert found == [[("10.0.0.1", None), ("fd00::1", None)]]


@pytest.mark.parametrize("dead", ["127.0.0.2", "::1"])
def test_addresses_are_tried_in_turn(dead: str) -> None:
    async def main(dns: config.Dns, port: int) -> bytes:
        fetch = config.Fetch(allow_private_addresses=True, connect_timeout_s=5)
        async with (
            DnsResolver(dns, True, FakeClock()) as resolver,
            HttpFetcher(fetch, resolver) as fetcher,
        ):
            return (await fetcher.fetch(f"http://a.example:{port}/")).body

    with (
        PageServer({"/": b"here"}) as server,  # on 127.0.0.1 only
        DnsServer({"a.example": [dead, "127.0.0.1"]}) as names,
    ):
        assert asyncio.run(main(quick(names.nameserver), server.port)) == b"here"


# --- many


@pytest.fixture
def fast_server() -> Iterator[str]:
    with quick_dns() as nameserver:
        yield nameserver


@pytest.mark.parametrize("count", [5000, pytest.param(25_000, marks=pytest.mark.slow)])
def test_dns_many_names_at_once(fast_server: str, count: int) -> None:
    names: Sequence[str] = [
        f"{'gone' if number % 10 == 0 else 'host'}{number}.example" for number in range(count)
    ]
    found = resolve(config.Dns(nameservers=(fast_server,)), *names)
    for name, answer in zip(names, found, strict=True):
        expected: Answer = [("10.0.0.1", None)]
        assert answer == (Failure.DNS_NOT_FOUND if "gone" in name else expected), name
