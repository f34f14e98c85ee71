"""Hosts without end, under a domain or at an address: a trap rule of its own."""

import contextlib
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cluster import AUTHORITIES
from conftest import MpiRun
from crawls import metrics_of, page_rows, sets
from fetches import HTML, response
from hypothesis import given
from hypothesis import strategies as st
from servers import RawServer, read_head

from crawler import config, url
from crawler.ports import CrawlUrl, Failure, Fetched, PageRow
from crawler.reading.hosts import Hosts
from crawler.reading.traps import TrapMonitor
from crawler.report.verify import verify

LIMIT = 20


def traps(**limits: int) -> config.Traps:
    limits = {"max_barren_hosts": LIMIT, "max_hosts_per_domain": 0, **limits}
    return config.load(None, [f"traps.{key}={value}" for key, value in limits.items()]).traps


def found(address: str) -> CrawlUrl:
    return CrawlUrl(url.key(address), address, AUTHORITIES.of(address), 3)


def row(page: str, **more: object) -> PageRow:
    more = {"status": 200, "bytes": 100, "digest": f"sha1:{page}", "address": "10.0.0.1"} | more
    site = AUTHORITIES.of(page)
    return PageRow(page, url.key(page), site, 0, 0, 3, 0.0, 0.0, **more)  # type: ignore[arg-type]


def answers(watch: TrapMonitor, number: int, domain: str = "trap.test", **more: object) -> bool:
    """A page of a host of its own is found and fetched; whether it was let in."""
    address = f"http://h{number}.{domain}/"
    if not watch.admit(found(address), None):
        return False
    watch.stored(row(address, **more))
    return True


BARREN = [
    {"status": 302, "bytes": 0},
    {"status": 404},
    {"duplicate": True},
    {"alike": True},
    {"bytes": 0},
    {"status": None, "error": "dns-not-found", "address": None},
    {"status": None, "error": "timeout"},
    {"status": 503, "error": "unavailable"},
]


@pytest.mark.parametrize("kind", BARREN)
def test_hosts_of_a_domain_that_bring_nothing_end(kind: dict[str, object]) -> None:
    watch = TrapMonitor(traps())
    let_in = [answers(watch, number, **kind) for number in range(200)]
    assert sum(let_in) == LIMIT
    assert watch.fired["max_barren_hosts"] == 200 - LIMIT
    assert answers(watch, 1, "other.test")  # nobody else's trouble
    assert watch.admit(found("http://h1.trap.test/again"), None)
    assert watch.is_crowded(found("http://h1.trap.test/again"))  # it has brought nothing, either


def test_hosts_that_bring_something_new_are_not_held_back() -> None:
    watch = TrapMonitor(traps())
    assert all(answers(watch, number) for number in range(1000))
    assert not watch.fired
    # One fruitful host excuses two barren ones.
    assert all(answers(watch, 1000 + number, status=302, bytes=0) for number in range(2000))
    assert sum(answers(watch, 9000 + n, status=302, bytes=0) for n in range(100)) == LIMIT
    assert not watch.is_crowded(found("http://h5.trap.test/more"))  # it has brought something


def test_a_host_that_brings_something_at_its_second_page_counts_as_fruitful() -> None:
    watch = TrapMonitor(traps())
    for number in range(10 * LIMIT):
        assert answers(watch, number, status=301, bytes=0)
        watch.stored(row(f"http://h{number}.trap.test/home"))


@pytest.mark.parametrize("error", ["robots-denied", "site-full", "internal", "private-address"])
def test_what_says_nothing_about_a_host_counts_for_nothing(error: str) -> None:
    watch = TrapMonitor(traps())
    assert all(answers(watch, n, status=None, error=error) for n in range(10 * LIMIT))


def test_hosts_of_any_domain_at_one_address_end_there() -> None:
    watch = TrapMonitor(traps())
    for number in range(200):
        assert answers(watch, number, f"d{number}.test", status=302, bytes=0)
    new = found("http://new.example.org/")
    assert watch.admit(new, None)
    assert not watch.is_crowded(new)
    assert watch.is_crowded(new, "10.0.0.1")
    assert not watch.is_crowded(new, "10.0.0.2")


def test_hosts_of_a_domain_are_bounded_whatever_they_bring() -> None:
    watch = TrapMonitor(traps(max_hosts_per_domain=70, max_barren_hosts=0))
    assert sum(answers(watch, number) for number in range(200)) == 70
    assert watch.fired["max_hosts_per_domain"] == 130


def test_each_host_of_a_place_for_hosts_is_a_domain_of_its_own() -> None:
    watch = TrapMonitor(traps())
    for number in range(10 * LIMIT):
        address = f"10.0.{number}.1"
        assert answers(watch, number, "blogspot.com", status=302, bytes=0, address=address)


def test_seeds_are_let_in_whatever_their_domain_is_like() -> None:
    watch = TrapMonitor(traps())
    for number in range(100):
        watch.welcome(f"http://seed{number}.trap.test/")
    assert sum(answers(watch, number, status=302, bytes=0) for number in range(100)) == LIMIT
    for number in range(100):
        seed = found(f"http://seed{number}.trap.test/x")
        assert watch.admit(seed, None)
        assert not watch.is_crowded(seed)
        watch.stored(row(seed.url, status=302, bytes=0))


def test_addresses_and_odd_names_have_domains_too() -> None:
    hosts = Hosts(traps())
    names = ["127.0.0.1", "[::1]", "localhost", "a", "co.uk", "a..b", "xn--a", "_x.com", "a" * 300]
    for name in names:
        for port in range(1, 60):
            address = f"http://{name}:{port}/"
            hosts.rule(address)
            hosts.note(row(address, status=302, bytes=0))
    assert all(hosts.rule(f"http://{name}:9999/") == "max_barren_hosts" for name in names)


@pytest.mark.parametrize("text", ["the same words on each page", "x"])
def test_pages_of_many_hosts_that_say_the_same_are_nothing_new(text: str) -> None:
    """The bytes differ, by the links of each page."""
    watch, dice = TrapMonitor(traps()), random.Random(1)
    let_in = 0
    for number in range(300):
        address = f"http://h{number}.trap.test/"
        if not watch.admit(found(address), None):
            continue
        let_in += 1
        body = b"".join(
            b'<a href="http://%d.trap.test/">%b</a>' % (dice.randrange(10**9), text.encode())
            for _ in range(20)
        )
        one = Fetched(found(address), 0.0, response(address, body, headers=[HTML]))
        watch.compare(one)
        watch.stored(row(address, alike=one.alike))
    assert LIMIT <= let_in <= 3 * LIMIT


@st.composite
def histories(draw: st.DrawFn) -> list[PageRow]:
    rows = []
    for _ in range(draw(st.integers(0, 80))):
        host, path = draw(st.integers(0, 40)), draw(st.integers(0, 2))
        domain = draw(st.sampled_from(["a.test", "b.test", "10.0.0.9"]))
        name = domain if domain[0] == "1" else f"h{host}.{domain}"
        more = draw(st.sampled_from([*BARREN, {}, {"status": 304, "bytes": 0}]))
        address = {"address": draw(st.sampled_from(["10.0.0.1", "10.0.0.2", "::1"]))}
        rows.append(row(f"http://{name}:{1000 + host}/{path}", **(address | more)))
    return rows


@given(histories(), st.integers(1, 30), st.integers(0, 3))
def test_what_is_known_of_hosts_is_kept_in_logs_shares_and_snapshots(
    rows: list[PageRow], limit: int, readers: int
) -> None:
    def recalled(some: list[PageRow]) -> TrapMonitor:
        watch = TrapMonitor(traps(max_barren_hosts=limit))
        for one in some:
            watch.replay(one)
        return watch

    live = recalled(rows)
    snapshot = TrapMonitor(traps(max_barren_hosts=limit))
    snapshot.restore(live.tables())
    shared = TrapMonitor(traps(max_barren_hosts=limit))
    for reader in range(readers + 1):
        shared.restore(recalled(rows[reader :: readers + 1]).tables())
    live.tables()  # looks up what is still to be looked up
    for other in (snapshot, shared):
        other.tables()
        assert other.hosts._states.keys() == live.hosts._states.keys()
    assert snapshot.hosts._states == live.hosts._states
    assert snapshot.hosts._addresses == live.hosts._addresses
    assert +snapshot.hosts._barren == +live.hosts._barren
    assert +snapshot.hosts._fruitful == +live.hosts._fruitful
    for watch in (live, snapshot, shared):
        new = [f"http://new.{domain}/" for domain in ("a.test", "b.test")]
        possible = [address for address in new if watch.hosts.may_have_kept_out(address)]
        assert all(address in possible for address in new if watch.hosts.rule(address))


def test_a_snapshot_of_an_earlier_version_is_still_read() -> None:
    watch = TrapMonitor(traps())
    answers(watch, 1)
    again = TrapMonitor(traps())
    again.restore(watch.tables()[:5])
    assert answers(again, 2)


# --- live


@contextmanager
def wildcard_dns() -> Iterator[str]:
    """A name server that says 127.0.0.1 for every name."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.1", 0))

        def serve() -> None:
            while True:
                try:
                    query, client = bound.recvfrom(4096)
                except OSError:
                    return
                end = query.index(b"\0", 12) + 5
                found = query[end - 3] == 1
                answer = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x7f\0\0\1" if found else b""
                head = query[:2] + b"\x81\x80\0\1\0" + bytes([found]) + b"\0\0\0\0"
                bound.sendto(head + query[12:end] + answer, client)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{bound.getsockname()[1]}"


class TrapServer(RawServer):
    """Each page has twenty links to hosts that nobody has heard of, or leads to such a host."""

    def __init__(self) -> None:
        super().__init__(b"")
        self._dice = random.Random(5)

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            head = read_head(connection).decode()
            self.requests.append(head.encode())
            connection.sendall(self._page(head))

    def _page(self, head: str) -> bytes:
        new = [f"http://x{self._dice.randrange(10**9)}.{{}}:{self.port}/" for _ in range(20)]
        if " /robots.txt " in head:
            return b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"
        if "redirect" in head and "start" not in head:
            location = new[0].format("redirect.test")
            lines = f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
            return lines.encode()
        if "domains" in head:  # each of a domain of its own, but at one address
            links = [link.format(f"d{self._dice.randrange(10**9)}.test") for link in new]
        elif "redirect" in head:
            links = [f"http://x{n}.redirect.test:{self.port}/" for n in range(600)]
        else:
            links = [link.format("trap.test") for link in new]
        text = "".join(f'<a href="{link}">x</a>' for link in links)
        kind = f"Content-Type: text/html\r\nContent-Length: {len(text)}"
        return f"HTTP/1.1 200 OK\r\n{kind}\r\n\r\n{text}".encode()


@pytest.mark.parametrize(
    "domain",
    [
        "trap.test",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("redirect.test", "domains.test")),
    ],
)
def test_a_crawl_gets_out_of_a_domain_with_hosts_without_end(
    tmp_path: Path, mpirun: MpiRun, domain: str
) -> None:
    session = tmp_path / "s"
    with TrapServer() as server, wildcard_dns() as nameserver:
        options = sets(
            'scope.suffixes=["test"]',
            "fetch.allow_private_addresses=true",
            f'dns.nameservers=["{nameserver}"]',
            f"traps.max_barren_hosts={LIMIT}",
            "politeness.delay_s=0",
        )
        seed = f"http://start.{domain}:{server.port}/"
        words = ["crawl", seed, "--session", str(session), "--max-time", "250s", *options]
        done = mpirun(2, "-m", "crawler", *words)
        assert done.returncode == 0, done.stderr
        measures = metrics_of(session)
        asked = len(server.requests)
    assert measures["complete"]
    rows = page_rows(session)
    refused = [one for one in rows if one["error"] == Failure.TOO_MANY_HOSTS]
    assert measures["by_trap"]["max_barren_hosts"] >= len(refused)
    assert measures["by_trap"]["max_barren_hosts"] > 0
    assert len({url.host(one["url"]) for one in rows if one["status"]}) <= 2 * (5 * LIMIT) + 600
    assert asked < 3000
    verdict = verify(session)
    assert verdict.sound, verdict.lines


def test_any_status_of_success_may_bring_something_new() -> None:
    """As everywhere: a body that comes with a 2xx is a page."""
    for status in (200, 203, 226):
        watch = TrapMonitor(traps())
        assert all(answers(watch, number, status=status) for number in range(4 * LIMIT))
