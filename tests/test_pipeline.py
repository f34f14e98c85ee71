"""What the stages decide by themselves: links of responses, robots asked once, the wire."""

import asyncio
from asyncio import Queue
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from unittest import mock

import pytest
from cluster import Cluster, settings
from fakes import FakeClock, NoRepository, network
from fetches import found, response
from hypothesis import given
from hypothesis import strategies as st

from crawler import config, url
from crawler.agent.fetching import FetchStage
from crawler.agent.pipeline import (
    _TOGETHER,
    _runs,
    _store,
    busy_host_stage,
    dns_stage,
    most_waiting,
    parse_stage,
)
from crawler.agent.progress import Tally
from crawler.agent.robots_gate import MOVED_ON, RobotsGate
from crawler.agent.timing import Alarm, SystemClock, Turn
from crawler.agent.wire import Wire
from crawler.core.schemes import SiteHash
from crawler.core.visits import Visit
from crawler.faults import Faults
from crawler.messages import Note, RobotsFacts
from crawler.ports import (
    NOFOLLOW,
    OUT_OF_SCOPE,
    REDIRECT,
    CrawlUrl,
    Earlier,
    Failure,
    Fetched,
    FetchError,
    PageRow,
    Response,
    Validators,
    errand,
)
from crawler.reading.parse import finish
from crawler.reading.reader import PageReader, make_scope
from crawler.reading.traps import TrapMonitor

A, B = "http://a.example/dir/x", "http://a.example/b"


def reader(*overrides: str) -> PageReader:
    settings = config.load(None, ["traps.max_calendar_years=0", *overrides])
    return PageReader(settings, make_scope(settings, [A], year=2027))


def moved(location: bytes | None, status: int = 301) -> Response:
    headers = [] if location is None else [(b"Location", location)]
    return response(A, b"", status=status, headers=headers)


def read(answer: Response | None, **of_found: object) -> Fetched:
    source = found(A)._replace(**of_found)
    fetched = Fetched(source, 0.0, answer)
    list(reader().read(fetched))
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
    assert links[0].site == "a.example"


@pytest.mark.parametrize("status", [200, 201, 202, 203, 206, 207, 226, 299])
def test_every_status_of_success_gives_links(status: int) -> None:
    assert [link.url for link in read(response(A, b"<a href=/b>", status=status)).links] == [B]


@pytest.mark.parametrize("status", [404, 500, 199])
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
    assert reader().redirect_target(moved(location)) == target


@pytest.mark.parametrize("location", [None, b"http://", b"mailto:a@b.example", b"http://a b/"])
def test_a_redirect_to_nowhere(location: bytes | None) -> None:
    fetched = read(moved(location))
    assert (fetched.failure, fetched.links) == (Failure.BAD_REDIRECT, [])


def test_loops_and_long_chains_of_redirects_are_not_followed() -> None:
    assert read(moved(b"x")).failure is Failure.REDIRECT_LOOP
    assert read(moved(b"/b"), chain=(url.key(B),)).failure is Failure.REDIRECT_LOOP
    assert read(moved(b"/b"), chain=tuple(range(20))).failure is Failure.TOO_MANY_REDIRECTS


@pytest.mark.parametrize(("exact", "location"), [(True, b"/b"), (True, b"x"), (False, b"/b")])
def test_a_loop_may_be_one_only_by_a_shared_key(exact: bool, location: bytes) -> None:
    """With `seen.exact` its row has the target, if that is another URL. It isn't followed yet."""
    fetched = Fetched(found(A)._replace(chain=(url.key(B),)), 0.0, moved(location))
    list(reader(f"seen.exact={str(exact).lower()}").read(fetched))
    assert fetched.failure is Failure.REDIRECT_LOOP
    assert [link.url for link in fetched.links] == [B] * (exact and location == b"/b")
    assert fetched.followed == []
    assert read(moved(b"/b"), chain=tuple(range(19))).failure is None


# --- reading and storing


class Repository(NoRepository):
    """Knows the order of the pages, and that the log names each site before it has links to it."""

    def __init__(self) -> None:
        self.stored: list[str] = []
        self.sites = 0  # that the log names

    def archive(self, fetched: Fetched, part: int, follows: Callable[[PageRow], bool]) -> PageRow:
        self.sites += fetched.joins is not None
        one = fetched.found
        return PageRow(one.url, one.key, one.site, part, 0, one.hops, fetched.time, 0.5, status=200)

    def log(self, pages: Sequence[Fetched], rows: list[PageRow]) -> None:
        for fetched, row in zip(pages, rows, strict=True):
            assert fetched.judged_with <= self.sites
            self.stored.append(row.url)


@pytest.mark.interpreted
@given(st.lists(st.sampled_from(["page", "page", "seed", "errand"]), max_size=40))
def test_pages_that_wait_together_are_stored_as_if_each_was_alone(kinds: list[str]) -> None:
    """A `seed` stands for a page on a site of its own, to which a seed redirects."""
    repository, core, page_reader, robots = Repository(), mock.Mock(), reader(), mock.Mock()
    admitted: list[str] = []

    def admit(source: CrawlUrl, *_: object, **__: object) -> Sequence[None]:
        assert source.is_errand or source.url in repository.stored
        admitted.append(source.url)
        return ()

    core.stored.side_effect = admit
    pages: list[str] = []

    async def walk() -> None:
        to_parse: Queue[Fetched] = Queue()
        for number, kind in enumerate(kinds):
            address = f"http://{'a' if kind == 'page' else number}.example/{number}"
            one = found(errand(address, number) if kind == "errand" else address)
            if kind == "seed":
                one = one._replace(chain=(url.key(A),))
            html = "".join(f"<a href=http://{other}.example/>" for other in range(len(kinds)))
            to_parse.put_nowait(Fetched(one, 0.0, response(address, html.encode())))
            if kind != "errand":
                pages.append(address)
        traps = TrapMonitor(config.Traps())
        tally, wire, faults = mock.Mock(), mock.AsyncMock(), Faults()
        wire.deliver = mock.Mock()
        stage = asyncio.create_task(
            parse_stage(
                to_parse, robots, page_reader, repository, core, tally, wire, SystemClock(), faults,
                traps,
            )
        )  # fmt: skip
        joined = asyncio.create_task(to_parse.join())
        await asyncio.wait([stage, joined], return_when=asyncio.FIRST_COMPLETED)
        if stage.done():
            await stage
        stage.cancel()
        assert faults.count == 0

    asyncio.run(walk())
    assert repository.stored == pages
    assert [address for address in admitted if "#" not in address] == pages
    assert len(admitted) == len(kinds)
    assert core.joining.join.call_count == kinds.count("seed")


@pytest.mark.interpreted
def test_links_are_judged_after_the_last_pause_before_they_are_logged() -> None:
    """A site may join the scope in a pause. Then the log is searched for links to it."""
    settings = config.load(None, [])
    scope = make_scope(settings, [A], year=2027)
    judged: list[int] = []

    class Pausing(Repository):
        def archive(
            self, fetched: Fetched, part: int, follows: Callable[[PageRow], bool]
        ) -> PageRow:
            assert scope.join(f"{len(scope.joined)}.example")
            return super().archive(fetched, part, follows)

        def log(self, pages: Sequence[Fetched], rows: list[PageRow]) -> None:
            judged.extend(page.judged_with for page in pages)

    pages = [Fetched(found(A), 0.0, response(A, b"")) for _ in range(3)]
    stored = _store(
        pages,
        Pausing(),
        PageReader(settings, scope),
        mock.Mock(),
        Faults(),
        TrapMonitor(config.Traps()),
        Turn(SystemClock()),
    )
    asyncio.run(stored)
    assert judged == [3, 3, 3]


def test_large_pages_are_in_runs_of_their_own() -> None:
    sizes = [10, 20, 600_000, 600_000, 5_000_000, 7, 5_000_000, 5_000_000, 30]
    pages = [Fetched(found(A), 0.0, response(A, b"x" * size)) for size in sizes]
    runs = [
        [len(page.response.payload) for page in run if page.response]
        for run in _runs(pages, reader())
    ]
    large = [[5_000_000], [7], [5_000_000], [5_000_000], [30]]
    assert runs == [[10, 20, 600_000], [600_000], *large]


def test_few_pages_wait_or_are_in_hand() -> None:
    for concurrency in range(1, 200):
        waiting = most_waiting(concurrency)
        assert 1 <= waiting + min(_TOGETHER, waiting) <= concurrency + 1


def test_the_encoding_of_a_page() -> None:
    latin_1 = (b"Content-Type", b"text/html; charset=latin1")
    page = finish(reader().page(response(A, "<a href=/é>".encode("latin-1"), headers=[latin_1])))
    assert page is not None
    assert (page.encoding, page.links) == ("windows-1252", {"http://a.example/%C3%A9": 0})


# --- robots


class RobotsServer:
    """A fetcher of robots.txt files that answers when told to."""

    def __init__(self, answer: Response | FetchError) -> None:
        self.asked: list[str] = []
        self.gate = asyncio.Event()
        self._answer = answer

    async def fetch(
        self,
        address: str,
        validators: Validators | None = None,
        max_bytes: int | None = None,
        cookie: str = "",
    ) -> Response:
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


def test_what_is_known_of_a_robots_file_is_told_without_a_request() -> None:
    async def scenario() -> None:
        text = b"User-agent: *\nCrawl-delay: 3\nDisallow: /x\n"
        server = RobotsServer(robots_file(text))
        server.gate.set()
        gate = RobotsGate(config.Robots(), server, FakeClock(), Tally())
        assert gate.facts("a.example", A) == []
        for name in ("http://a.example", "https://a.example", "http://b.example"):
            await gate.rules(name)
        asked = list(server.asked)
        other = RobotsFacts("https://a.example", "", 3.0)
        allowed = RobotsFacts("http://a.example", "", 3.0, True, "")
        assert gate.facts("a.example", "http://a.example/") == [allowed, other]
        denied = RobotsFacts("http://a.example", "", 3.0, False, "Disallow: /x")
        assert gate.facts("a.example", "http://a.example/x") == [denied, other]
        assert gate.facts("a.example", "") == [RobotsFacts("http://a.example", "", 3.0), other]
        gate.spoil("http://b.example")
        (spoilt,) = gate.facts("b.example", "")
        assert spoilt.unreachable == Failure.INTERNAL
        careless = RobotsGate(config.Robots(obey=False), server, FakeClock(), Tally())
        assert careless.facts("a.example", A) == [RobotsFacts("http://a.example", obeyed=False)]
        assert server.asked == asked

    asyncio.run(scenario())


def test_rules_that_could_not_be_had_are_asked_for_again() -> None:
    async def scenario() -> None:
        server = RobotsServer(FetchError(Failure.TIMEOUT))
        server.gate.set()
        gate = RobotsGate(config.Robots(), server, FakeClock(), Tally())
        for _ in range(2):
            rules, asked = await gate.rules("http://a.example")
            assert (rules.unreachable, asked) == (Failure.TIMEOUT, True)
        server._answer = robots_file(b"User-agent: *\nDisallow: /x\n")
        rules, _ = await gate.rules("http://a.example")
        assert not rules.allows("http://a.example/x")
        assert len(server.asked) == 3

    asyncio.run(scenario())


def test_known_rules_are_used_for_another_day_if_they_cannot_be_had() -> None:
    async def scenario() -> None:
        clock = FakeClock()
        server = RobotsServer(robots_file(b"User-agent: *\nDisallow: /x\n"))
        server.gate.set()
        gate = RobotsGate(config.Robots(), server, clock, Tally())
        known, _ = await gate.rules("http://a.example")
        server._answer = FetchError(Failure.TIMEOUT)
        clock.advance(86_400)
        assert await gate.rules("http://a.example") == (known, True)
        clock.advance(86_399)
        assert await gate.rules("http://a.example") == (known, False)
        clock.advance(1)
        server._answer = robots_file(b"")
        rules, asked = await gate.rules("http://a.example")
        assert (rules.allows("http://a.example/x"), asked) == (True, True)

    asyncio.run(scenario())


# --- from visit to page


Script = dict[str, list[Response | FetchError]]


class Scripted:
    """A fetcher that answers by a script, for each URL in order; robots.txt is missing unless in
    the script. Hosts in the script fail to be located so."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked: list[tuple[float, str]] = []
        self.validators: list[Validators | None] = []
        self.clock = FakeClock()

    async def fetch(
        self,
        address: str,
        validators: Validators | None = None,
        max_bytes: int | None = None,
        cookie: str = "",
    ) -> Response:
        self.asked.append((self.clock.now(), address))
        self.validators.append(validators)
        return self._next(address) or response(address, b"", status=404)

    async def locate(self, address: str) -> str:
        self._next(url.host(address))
        return "10.0.0.1"

    def _next(self, name: str) -> Response | None:
        answers = self.script.get(name)
        if not answers:
            return None
        answer = answers.pop(0)
        if isinstance(answer, FetchError):
            raise answer
        return answer


def walk(
    script: Script,
    *seeds: str,
    overrides: Sequence[str] = (),
    find_earlier: Callable[[int], Earlier | None] = lambda key: None,
    steps: int = 200,
) -> tuple[list[Fetched], Scripted]:
    """One rank's stages in virtual time, from the seeds up to what the parse stage would get."""

    async def main() -> tuple[list[Fetched], Scripted]:
        cluster = Cluster(SiteHash(1), 1, settings(*overrides))
        core = cluster.cores[0]
        scope = make_scope(cluster.settings, seeds, year=2027)
        world = Scripted(script)
        clock, alarm = world.clock, Alarm()
        to_resolve: Queue[Visit] = Queue(4)
        to_fetch: Queue[Visit] = Queue(4)
        to_parse: Queue[Fetched] = Queue()
        wire = Wire(network(1, seed=0)[0], core, alarm, clock, 1 << 20)
        robots = RobotsGate(cluster.settings.robots, world, clock, Tally())
        tasks = [
            asyncio.ensure_future(stage)
            for stage in (
                busy_host_stage(core, to_resolve, to_parse, wire, alarm, clock),
                dns_stage(to_resolve, world, core, to_fetch, to_parse, alarm, clock, Faults()),
                FetchStage(
                    to_fetch,
                    robots,
                    world,
                    find_earlier,
                    PageReader(cluster.settings, scope),
                    NoRepository(),
                    core,
                    to_parse,
                    alarm,
                    clock,
                    Faults(),
                ).run(),
            )
        ]
        cluster.start(*seeds)
        done = []
        for _ in range(steps):
            for _ in range(20):
                await asyncio.sleep(0)
            while not to_parse.empty():
                done.append(to_parse.get_nowait())
            due = core.next_visit_time()
            if due is not None:
                clock.advance(max(0.0, due - clock.now()))
                alarm.ring()
        for task in tasks:
            task.cancel()
        return done, world

    return asyncio.run(main())


def asked_at(world: Scripted, address: str) -> list[float]:
    return [time for time, asked in world.asked if asked == address]


def redirect(address: str, target: str) -> Response:
    return response(address, b"", status=302, headers=[(b"Location", target.encode())])


@pytest.mark.parametrize("file", ["http://f.example/rules", "http://f.example/robots.txt"])
def test_sites_that_have_one_file_elsewhere_have_it_asked_for_once_a_day(file: str) -> None:
    names = [f"http://{letter}.example" for letter in "abc"]

    async def scenario() -> None:
        rules = response(file, b"User-agent: *\nDisallow: /x\n", headers=[])
        script: Script = {f"{name}/robots.txt": [redirect(name, file)] * 9 for name in names}
        world = Scripted(script | {file: [rules] * 9})
        gate = RobotsGate(config.Robots(), world, world.clock, Tally())
        first, second, third = names

        async def asks(name: str) -> bool:
            """Whether the rules have to come by an errand."""
            await gate.rules(name)
            if not gate.awaits(name):
                return False
            await gate.fetch_errand(file)
            known, _ = await gate.rules(name)
            assert not known.allows(f"{name}/x")
            return True

        assert await asks(first)
        world.clock.advance(86_399)
        assert not await asks(second)
        assert not gate.must_ask(second)
        world.clock.advance(1)
        assert gate.must_ask(second)  # what it has is a day old
        assert await asks(third)
        assert not await asks(second)
        assert len(asked_at(world, file)) == 2

    asyncio.run(scenario())


def test_a_file_elsewhere_is_known_by_all_of_its_url() -> None:
    names = [f"http://{letter}.example" for letter in "ab"]
    files = ["http://f.example/a", "http://f.example/a/robots.txt"]

    async def scenario() -> None:
        script: Script = {
            f"{name}/robots.txt": [redirect(name, file)]
            for name, file in zip(names, files, strict=True)
        }
        world = Scripted(script)
        gate = RobotsGate(config.Robots(), world, world.clock, Tally())
        await gate.rules(names[0])
        await gate.fetch_errand(files[0])
        await gate.rules(names[1])
        assert gate.awaits(names[1])

    asyncio.run(scenario())


def test_hosts_with_large_robots_files_are_asked_once_and_for_their_pages() -> None:
    """The rules of twenty of them have no room together: each must bring its page all the same."""
    line = b"".join(b"Allow: *ba%d\n" % number for number in range(13_000))
    large = b"User-agent: *\nDisallow: /p\n" + line
    hosts = [f"http://h{number}.example" for number in range(20)]
    script: Script = {f"{host}/robots.txt": [robots_file(large)] * 9 for host in hosts}
    script |= {f"{host}/": [response(f"{host}/", b"page")] for host in hosts}
    seeds = [f"{host}/{path}" for path in ("", "p") for host in hosts]
    done, world = walk(script, *seeds, steps=400)
    asked = Counter(address for _, address in world.asked)
    assert all(asked[f"{host}/"] == 1 for host in hosts)
    assert all(asked[f"{host}/robots.txt"] <= 2 for host in hosts)  # once for each URL at most
    assert not any(address.endswith("/p") for address in asked)
    errors = Counter(fetched.failure for fetched in done)
    assert errors[None] == len(hosts)


def test_large_robots_files_are_read_one_after_the_other() -> None:
    async def scenario() -> None:
        text = b"User-agent: *\n" + b"Disallow: /x*y\n" * 5_000
        server = RobotsServer(robots_file(text))
        server.gate.set()
        gate = RobotsGate(config.Robots(), server, FakeClock(), Tally())
        order: list[int] = []
        reading: list[int] = []  # how far the others were when one was done

        async def ask(number: int) -> None:
            await gate.rules(f"http://h{number}.example")
            order.append(number)
            reading.append(rounds)

        waiting = [asyncio.ensure_future(ask(number)) for number in range(3)]
        rounds = 0
        while not all(task.done() for task in waiting):
            await asyncio.sleep(0)
            rounds += 1
        assert order == [0, 1, 2]
        assert reading[0] < rounds * 0.6  # side by side, all would be done at the end

    asyncio.run(scenario())


def test_a_stop_ends_the_reading_of_large_robots_files() -> None:
    async def scenario() -> None:
        text = b"User-agent: *\n" + b"Disallow: /x*y\n" * 5_000
        server, tally = RobotsServer(robots_file(text)), Tally()
        server.gate.set()
        stops: list[bool] = []
        stopping = partial(bool, stops)
        gate = RobotsGate(config.Robots(), server, FakeClock(), tally, stopping=stopping)
        first = await gate.rules("http://first.example")
        hosts = [f"http://h{number}.example" for number in range(50)]
        waiting = [asyncio.ensure_future(gate.rules(host)) for host in [*hosts, hosts[0]]]
        for _ in range(3):
            await asyncio.sleep(0)
        assert not any(task.done() for task in waiting)
        stops.append(True)
        for _ in range(3 * len(hosts)):  # to read one file takes more rounds
            await asyncio.sleep(0)
        assert [task.result()[0] for task in waiting] == [MOVED_ON] * 51
        assert sum(task.result()[1] for task in waiting) == 50
        assert tally.requests == 51
        assert gate.must_ask(hosts[0])
        assert await gate.rules("http://first.example") == (first[0], False)
        assert await gate.fetch_errand("http://other.example/robots.txt") is MOVED_ON

    asyncio.run(scenario())


def test_visits_that_have_not_begun_at_a_stop_ask_for_nothing() -> None:
    async def scenario() -> None:
        seeds = [f"http://h{number}.example/" for number in range(8)]
        cluster = Cluster(SiteHash(1), 1, settings())
        core, world, alarm = cluster.cores[0], Scripted({}), Alarm()
        cluster.start(*seeds)
        to_resolve: Queue[Visit] = Queue()
        to_fetch: Queue[Visit] = Queue()
        to_parse: Queue[Fetched] = Queue()
        for _ in seeds:
            visit = core.acquire(0.0)
            assert visit
            to_resolve.put_nowait(visit)
        for _ in seeds[:4]:
            visit = to_resolve.get_nowait()
            assert core.locate(visit, "10.0.0.1", 0.0)
            to_fetch.put_nowait(visit)
        robots = RobotsGate(cluster.settings.robots, world, world.clock, Tally())
        pages = PageReader(cluster.settings, make_scope(cluster.settings, seeds, year=2027))
        core.halt.stop(0.0)
        stages = (
            dns_stage(to_resolve, world, core, to_fetch, to_parse, alarm, world.clock, Faults()),
            FetchStage(
                to_fetch,
                robots,
                world,
                lambda key: None,
                pages,
                NoRepository(),
                core,
                to_parse,
                alarm,
                world.clock,
                Faults(),
            ).run(),
        )
        tasks = [asyncio.ensure_future(stage) for stage in stages]
        for _ in range(50):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        assert (to_resolve.qsize(), to_fetch.qsize(), to_parse.qsize()) == (0, 0, 0)
        assert world.asked == []
        assert core.waiting == len(seeds)
        cluster.tick(0)
        assert core.ended
        assert not core.complete

    asyncio.run(scenario())


PAGE = "http://a.example/"
ROBOTS = "http://a.example/robots.txt"


def busy(status: int = 503, retry_after: bytes | None = None) -> Response:
    headers = [] if retry_after is None else [(b"Retry-After", retry_after)]
    return response(PAGE, b"later", status=status, headers=headers)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("retry_after", "rest_s"),
    [
        (None, 60),
        (b"5", 5),
        (b"Fri, 15 Jan 2027 08:00:30 GMT", 30),  # 30 s after the clock's beginning
        (b"Friday, 15-Jan-27 08:00:30 GMT", 30),
        (b"Fri Jan 15 08:00:30 2027", 30),
        (b"Thu, 01 Jan 1970 00:00:00 GMT", 0),
        (b"999999999999999999999999", 3600),
        (b"Fri, 15 Jan 9999999 08:00:30 GMT", 60),
        (b"soon", 60),
        (b"-5", 60),
        (b"", 60),
        (b"\xff", 60),
    ],
)
def test_http_429_a_busy_site_is_left_alone_for_as_long_as_it_says(
    status: int, retry_after: bytes | None, rest_s: float
) -> None:
    good = response(PAGE)
    done, world = walk({PAGE: [busy(status, retry_after), good]}, PAGE)
    assert [(one.response, one.failure, one.retries) for one in done] == [(good, None, 1)]
    first, second = asked_at(world, PAGE)
    assert rest_s - 0.01 <= second - first <= 1.25 * rest_s + 0.01


def test_http_429_the_pause_doubles_and_the_last_answer_is_stored() -> None:
    done, world = walk({PAGE: [busy() for _ in range(9)]}, PAGE)
    (only,) = done
    assert (only.failure, only.retries) == (Failure.UNAVAILABLE, 2)
    assert only.response is not None
    assert only.response.status == 503
    first, second, third = asked_at(world, PAGE)
    assert 60 <= second - first <= 75
    assert 120 <= third - second <= 150


@pytest.mark.parametrize(
    ("answer", "rest_s"),
    [
        (response(ROBOTS, b"", status=503, headers=[]), 60),
        (response(ROBOTS, b"", status=500, headers=[]), 60),
        (FetchError(Failure.TIMEOUT), 1),
        (FetchError(Failure.TLS), 1),
    ],
)
def test_robots_5xx_asks_again_later_and_fetches_nothing_before(
    answer: Response | FetchError, rest_s: float
) -> None:
    good, rules = response(PAGE), response(ROBOTS, b"User-agent: *\nAllow: /\n", headers=[])
    done, world = walk({ROBOTS: [answer, answer, rules], PAGE: [good]}, PAGE)
    assert [(one.response, one.failure) for one in done] == [(good, None)]
    first, second, third = asked_at(world, ROBOTS)
    assert rest_s <= second - first <= 1.25 * rest_s
    assert 2 * rest_s <= third - second <= 2.5 * rest_s
    assert asked_at(world, PAGE) >= [third]


def test_robots_5xx_is_not_decided_for_the_session() -> None:
    """The first page pays for three tries; the second has its own, and they succeed."""
    down = FetchError(Failure.REFUSED)
    rules = response(ROBOTS, b"User-agent: *\nDisallow: /x\n", headers=[])
    done, _ = walk({ROBOTS: [down, down, down, down, rules]}, PAGE + "1", PAGE + "2", PAGE + "x")
    assert [(one.found.url, one.failure, one.retries) for one in done] == [
        (PAGE + "1", Failure.REFUSED, 2),
        (PAGE + "2", None, 1),
        (PAGE + "x", Failure.ROBOTS_DENIED, 0),
    ]


def test_a_name_that_fails_is_tried_again_and_one_that_is_not_there_is_not() -> None:
    script: Script = {
        "a.example": [FetchError(Failure.DNS_FAILED)] * 2,
        "b.example": [FetchError(Failure.DNS_NOT_FOUND)],
    }
    done, world = walk(script, PAGE, "http://b.example/")
    assert sorted((one.found.url, one.failure, one.retries) for one in done) == [
        (PAGE, None, 2),
        ("http://b.example/", Failure.DNS_NOT_FOUND, 0),
    ]
    assert asked_at(world, PAGE) != []
    assert asked_at(world, "http://b.example/") == []


def test_a_dead_site_is_given_up_and_the_rest_of_it_costs_no_request() -> None:
    seeds = [f"{PAGE}{number}" for number in range(40)]
    script: Script = {seed: [FetchError(Failure.CONNECT_TIMEOUT)] * 9 for seed in seeds}
    done, world = walk(script, *seeds, "http://b.example/")
    failures = [one.failure for one in done if one.found.site == "a.example"]
    assert failures == [Failure.CONNECT_TIMEOUT] * 2 + [Failure.SITE_GIVEN_UP] * 38
    assert sum(address.startswith(PAGE) and address != ROBOTS for _, address in world.asked) == 6
    assert any(one.found.url == "http://b.example/" and one.response for one in done)


def test_the_sites_of_an_address_are_asked_one_after_another() -> None:
    overrides = ("politeness.per=address", "politeness.delay_s=2")
    seeds = [f"http://{letter}.example/" for letter in "abcd"]
    done, world = walk({}, *seeds, overrides=overrides)
    assert len(done) == 4
    assert [round(time) for time, _ in world.asked] == list(range(0, 16, 2))


def test_a_site_that_has_sent_too_much_is_asked_no_more() -> None:
    """The stages know of it from the core; here it is told so directly."""
    cluster = Cluster(SiteHash(1), 1, settings("traps.max_bytes_per_site=10"))
    cluster.start(PAGE)
    core = cluster.cores[0]
    cluster.acquire(0)
    visit = cluster.visits[0][0]
    assert core.refusal(visit) is None
    row = PageRow(PAGE, 1, "a.example", 0, 0, 0, 0.0, 0.0, status=200, bytes=10)
    assert core.door._traps.stored(row)
    assert core.refusal(visit) is Failure.SITE_FULL
    cluster.end(0)
    core.door.run_errand(ROBOTS, cluster.now)  # for another site
    errand = core.acquire(cluster.now)
    assert errand is not None
    assert core.refusal(errand) is None
    assert core.door._traps.fired == {"max_bytes_per_site": 1}


# --- what the previous session knows


def earlier(*links: tuple[str, int], etag: str | None = '"1"') -> Earlier:
    row = PageRow(
        A,
        url.key(A),
        "a.example",
        0,
        0,
        0,
        0.0,
        0.0,
        status=200,
        etag=etag,
        title="T",
        language="de",
    )
    return Earlier(row, links, Path("x.warc.gz"))


def test_a_page_that_was_stored_before_is_asked_for_by_its_validators() -> None:
    known = earlier()
    for knows, sent in ((known, Validators('"1"', None)), (earlier(etag=None), None), (None, None)):
        done, world = walk({}, A, find_earlier=lambda key, knows=knows: knows)  # type: ignore[misc]
        assert done[0].earlier is knows
        assert world.validators == [None, sent]  # robots.txt, the page


def test_an_unchanged_page_has_the_links_and_the_title_that_it_had() -> None:
    links = [(B, NOFOLLOW | OUT_OF_SCOPE), ("http://c.example/", 0)]
    fetched = Fetched(found(A), 0.0, response(A, b"", status=304), earlier=earlier(*links))
    list(reader().read(fetched))
    assert [(link.url, link.flags) for link in fetched.links] == [  # by the scope of today
        (B, NOFOLLOW),
        ("http://c.example/", OUT_OF_SCOPE),
    ]
    assert (fetched.title, fetched.language) == ("T", "de")
    assert read(response(A, b"", status=304)).links == []


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
    cores = Cluster(SiteHash(2), 2).cores
    wire, other = (
        Wire(end, core, Alarm(), SystemClock(), 1 << 20)
        for end, core in zip((first, second), cores, strict=True)
    )
    note = Note(1, 2, 3, 4, ["a warning that is long enough to be worth compressing. " * 20])
    wire.send(1, note)
    assert wire.messages_to == {1: 1}
    assert (wire.bytes < 400) == far  # compressed between hosts, not within
    assert wire.backlog() == wire.bytes
    got: list[object] = []
    while not got:
        first.network.pump()
        got = list(other.receive())
    assert got == [(0, note)]
