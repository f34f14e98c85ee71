"""What the stages decide by themselves: links of responses, robots asked once, the wire."""

import asyncio

import pytest
from fakes import FakeClock, network
from fetches import found, response

from crawler import config, url
from crawler.exchange import Note
from crawler.pipeline import (
    Alarm,
    RobotsGate,
    SystemClock,
    Tally,
    Wire,
    page_links,
    read_links,
    redirect_target,
)
from crawler.ports import (
    NOFOLLOW,
    OUT_OF_SCOPE,
    REDIRECT,
    Failure,
    Fetched,
    FetchError,
    Response,
)
from crawler.scope import Scope, Sites

A, B = "http://a.example/dir/x", "http://a.example/b"
ELEMENTS = frozenset({"a"})
SCOPE = Scope(config.Scope(), Sites("authority"), [A])


def moved(location: bytes | None, status: int = 301) -> Response:
    headers = [] if location is None else [(b"Location", location)]
    return response(A, b"", status=status, headers=headers)


def read(answer: Response | None, **of_found: object) -> Fetched:
    source = found(A)._replace(**of_found)
    fetched = Fetched(source, 0.0, answer)
    read_links(fetched, SCOPE, ELEMENTS)
    return fetched


# --- links


def test_a_page_gives_its_links_with_their_place_in_the_scope() -> None:
    html = b"<a href=/b></a><a rel=nofollow href=y></a><a href=http://c.example/></a>"
    links = read(response(A, html)).links
    assert [(link.url, link.flags) for link in links] == [
        (B, 0),
        ("http://a.example/dir/y", NOFOLLOW),
        ("http://c.example/", OUT_OF_SCOPE),
    ]
    assert links[0].key == url.key(B)
    assert links[0].site == "http://a.example"


@pytest.mark.parametrize("status", [404, 500, 206])
def test_what_is_no_page_gives_no_links(status: int) -> None:
    assert read(response(A, b"<a href=/b>", status=status)).links == []
    plain = response(A, b"<a href=/b>", headers=[(b"Content-Type", b"text/plain")])
    assert read(plain).links == []
    assert read(None).links == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_a_page_with_one_link(status: int) -> None:
    fetched = read(moved(b"../b", status))
    assert [(link.url, link.flags) for link in fetched.links] == [(B, REDIRECT)]
    assert fetched.failure is None


@pytest.mark.parametrize(
    ("location", "target"),
    [
        (b"/caf\xe9", "http://a.example/caf%E9"),  # one byte of Latin-1
        (b"/caf\xc3\xa9", "http://a.example/caf%C3%A9"),
        (b"/a%26b?u=http%3A%2F%2Fx", "http://a.example/a%26b?u=http%3A%2F%2Fx"),
        (b"///h.example/p", "http://h.example/p"),
        (b"\\\\h.example\\p", "http://h.example/p"),
        (b" /b ", B),
    ],
)
def test_where_a_redirect_leads(location: bytes, target: str) -> None:
    assert redirect_target(moved(location)) == target


@pytest.mark.parametrize("location", [None, b"http://", b"mailto:a@b.example", b"http://a b/"])
def test_a_redirect_to_nowhere(location: bytes | None) -> None:
    fetched = read(moved(location))
    assert (fetched.failure, fetched.links) == (Failure.BAD_REDIRECT, [])


def test_loops_and_long_chains_of_redirects_are_not_followed() -> None:
    assert read(moved(b"x")).failure is Failure.REDIRECT_LOOP
    assert read(moved(b"/b"), chain=(url.key(B),)).failure is Failure.REDIRECT_LOOP
    assert read(moved(b"/b"), chain=(1, 2, 3, 4, 5)).failure is Failure.TOO_MANY_REDIRECTS
    assert read(moved(b"/b"), chain=(1, 2, 3, 4)).failure is None


def test_the_encoding_of_a_page() -> None:
    latin_1 = (b"Content-Type", b"text/html; charset=latin1")
    page = response(A, "<a href=/é>".encode("latin-1"), headers=[latin_1])
    assert page_links(page, ELEMENTS) == ("windows-1252", [("http://a.example/%C3%A9", 0)])
    assert page_links(moved(b"/b"), ELEMENTS) == (None, [])


# --- robots


class RobotsServer:
    """A fetcher of robots.txt files that answers when told to."""

    def __init__(self, answer: Response | FetchError) -> None:
        self.asked: list[str] = []
        self.gate = asyncio.Event()
        self._answer = answer

    async def fetch(self, address: str) -> Response:
        self.asked.append(address)
        await self.gate.wait()
        if isinstance(self._answer, FetchError):
            raise self._answer
        return self._answer


def robots_file(text: bytes) -> Response:
    return response("http://a.example/robots.txt", text, headers=[])


def test_robots_is_asked_once_however_many_wait_for_it() -> None:
    async def scenario() -> None:
        clock, tally = FakeClock(), Tally()
        server = RobotsServer(robots_file(b"User-agent: *\nDisallow: /x\n"))
        gate = RobotsGate(config.Robots(), server, clock, tally)
        waiting = [asyncio.ensure_future(gate.rules("http://a.example")) for _ in range(3)]
        await asyncio.sleep(0)
        server.gate.set()
        answers = await asyncio.gather(*waiting)
        assert sorted(asked for _, asked in answers) == [False, False, True]
        assert not answers[0][0].allows("http://a.example/x")
        assert server.asked == ["http://a.example/robots.txt"]
        assert tally.requests == 1

        assert await gate.rules("http://a.example") == (answers[0][0], False)
        clock.advance(86_400)  # a day later it may have changed
        assert (await gate.rules("http://a.example"))[1]
        assert len(server.asked) == 2

    asyncio.run(scenario())


def test_no_robots_is_asked_when_not_obeyed_and_silence_denies() -> None:
    async def scenario() -> None:
        server = RobotsServer(FetchError(Failure.REFUSED))
        server.gate.set()
        careless = RobotsGate(config.Robots(obey=False), server, FakeClock(), Tally())
        rules, asked = await careless.rules("http://a.example")
        assert rules.allows(A)
        assert not asked
        assert server.asked == []
        careful = RobotsGate(config.Robots(), server, FakeClock(), Tally())
        rules, asked = await careful.rules("http://a.example")
        assert not rules.allows(A)
        assert rules.unreachable is Failure.REFUSED
        assert asked

    asyncio.run(scenario())


# --- waiting and sending


def test_the_alarm_rings_now_later_or_beforehand() -> None:
    async def scenario() -> None:
        alarm, clock = Alarm(), SystemClock()
        alarm.ring()
        await alarm.wait(None)  # rung before: nobody misses it
        before = clock.now()
        await alarm.wait(0.02)
        assert clock.now() - before >= 0.015
        asyncio.get_running_loop().call_soon(alarm.ring)
        await alarm.wait(None)

    asyncio.run(scenario())


@pytest.mark.parametrize("far", [False, True])
def test_the_wire_counts_what_goes_over_it(far: bool) -> None:
    first, second = network(2, seed=1)
    first.far = far
    wire, other = Wire(first), Wire(second)
    note = Note(1, 2, 3, 4, ["a warning that is long enough to be worth compressing. " * 20])
    wire.send(1, note)
    assert wire.messages == 1
    assert (wire.bytes < 400) == far  # compressed between hosts, not within
    assert wire.backlog() == wire.bytes
    got: list[object] = []
    while not got:
        first.network.pump()
        got = list(other.receive())
    assert got == [(0, note)]
