"""Cookie walls whose URLs belong to several ranks: a chain of redirects takes its cookies along."""

import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from cluster import Cluster, Flight, Listed, few_examples, link, run, settings
from conftest import MpiRun
from crawls import metrics_of, page_rows, run_here, sets
from fetches import response
from hypothesis import given
from hypothesis import strategies as st
from servers import RawServer
from test_redirects import Site, page
from test_redirects import moved as redirected
from test_replay import restored

from crawler import url
from crawler.core.schemes import UrlHash
from crawler.core.visits import Visit
from crawler.messages import Batch, Message
from crawler.ports import CrawlUrl, Failure, Fetched, Link, Response
from crawler.reading.cookies import Jar
from crawler.reading.reader import PageReader, make_scope
from partition import evaluate, graph

A, LOGIN, ABOUT, C = (f"http://{host}.example/" for host in ("a", "login.a", "about", "c"))
OWNERS = {A: 0, LOGIN: 1, ABOUT: 1, C: 2}
THREE = Listed(3, {url.site(each): rank for each, rank in OWNERS.items()})


def wall(*overrides: str) -> Cluster:
    """Three ranks."""
    return Cluster(THREE, 3, settings('scope.domains=["*"]', *overrides))


def moved(source: str, target: str, *cookies: str) -> Response:
    headers = [(b"Location", target.encode())]
    headers += [(b"Set-Cookie", cookie.encode()) for cookie in cookies]
    return response(source, status=302, headers=headers)


def read(cluster: Cluster, rank: int, found: CrawlUrl, answer: Response) -> Fetched:
    """What the parse stage of a rank makes of a response."""
    scope = make_scope(cluster.settings, [], 2026)
    fetched = Fetched(found, answer.started, answer)
    for _ in PageReader(cluster.settings, scope, jars=cluster.jars[rank]).read(fetched):
        pass
    return fetched


def cookie_of(cluster: Cluster, rank: int, found: CrawlUrl) -> str:
    """What a request for the URL sends."""
    return cluster.jars[rank].get(found.key).header(found.url)


def redirect(cluster: Cluster, rank: int, address: str, target: str, *cookies: str) -> str:
    """A whole visit of a rank that ends in a redirect; the cookie that was sent."""
    assert cluster.acquire(rank) == address
    found = cluster.visits[rank][-1].found
    sent = cookie_of(cluster, rank, found)
    links = read(cluster, rank, found, moved(address, target, *cookies)).links
    cluster.end(rank, links, index=-1)
    return sent


def total(cluster: Cluster, *names: str) -> list[int]:
    """Counts of the traffic, over all ranks."""
    return [sum(getattr(core.traffic, name) for core in cluster.cores) for name in names]


# --- over ranks


@given(st.lists(st.tuples(st.binary(max_size=60), st.binary(max_size=60)), max_size=5))
def test_cookies_come_out_of_a_batch_as_they_went_in(pairs: list[tuple[bytes, bytes]]) -> None:
    lines = [(b"Set-Cookie", name + b"=" + value + b"; Path=/" + name) for name, value in pairs]
    jar = Jar().after(response(A, status=302, headers=lines))
    cluster = wall()
    cluster.start(A)
    assert cluster.acquire(0) == A
    found = cluster.visits[0][0].found
    cluster.jars[0].put(found.key, jar)
    cluster.end(0, read(cluster, 0, found, moved(A, LOGIN)).links)
    ((_, _, batch),) = cluster.batches()
    assert bool(batch.cookies) == bool(jar.cookies)
    cluster.settle()
    assert cluster.jars[1].get(url.key(LOGIN)) == jar
    assert cluster.jars[0].get(url.key(A)) == Jar()


def test_a_chain_takes_its_cookies_to_the_next_rank_and_back() -> None:
    cluster = wall()
    cluster.start(A)
    assert redirect(cluster, 0, A, LOGIN, "a=1; Domain=a.example") == ""
    cluster.settle()
    assert redirect(cluster, 1, LOGIN, A, "b=2; Domain=a.example") == "a=1"
    cluster.settle()
    assert cluster.acquire(0) == A
    found = cluster.visits[0][0].found
    assert found.chain == (url.key(A), url.key(LOGIN))
    assert cookie_of(cluster, 0, found) == "a=1; b=2"
    cluster.end(0, [link(C)])
    cluster.settle()
    cluster.fetch(2, C)
    cluster.settle()
    assert cluster.ended
    assert cluster.complete
    counts = "inter_part_links", "inter_part_urls", "transmissions_target_part"
    assert total(cluster, *counts) == [3, 3, 3]


def test_a_cookie_for_another_host_makes_nobody_ask_again() -> None:
    cluster = wall()
    cluster.start(A)
    redirect(cluster, 0, A, LOGIN)
    cluster.settle()
    assert cluster.acquire(1) == LOGIN
    fetched = read(cluster, 1, cluster.visits[1][0].found, moved(LOGIN, A, "b=2"))
    assert fetched.failure is Failure.REDIRECT_LOOP
    cluster.end(1, fetched.links)
    cluster.settle()
    assert cluster.ended


@pytest.mark.parametrize("order", ["breadth-first", "backlinks"])
@pytest.mark.parametrize("plain", ["is sent before", "waits in the batch", "is sent after"])
@pytest.mark.parametrize("overtaken", [False, True])
def test_a_link_to_the_same_url_changes_nothing(order: str, plain: str, overtaken: bool) -> None:
    size = "exchange.batch_pages=64" if plain == "waits in the batch" else "exchange.batch_pages=1"
    cluster = wall(f"frontier.order={order}", size)
    cluster.start(A, ABOUT)
    redirect(cluster, 0, A, LOGIN)
    cluster.settle()
    assert cluster.acquire(1) == ABOUT
    if plain != "is sent after":
        cluster.end(1, [link(A)])
    redirect(cluster, 1, LOGIN, A, "b=2; Domain=a.example")
    if plain == "is sent after":
        cluster.end(1, [link(A)])
    flights = [flight for flight in cluster.flights if isinstance(flight.message, Batch)]
    assert sum(len(batch.cookies) for _, _, batch in cluster.batches()) == 1
    for flight in reversed(flights) if overtaken else flights:
        cluster.deliver(flight)
    assert cluster.acquire(0) == A
    assert cookie_of(cluster, 0, cluster.visits[0][0].found) == "b=2"
    cluster.end(0)
    assert cluster.acquire(0) is None
    cluster.settle()
    assert cluster.ended
    links, targets = total(cluster, "inter_part_links", "transmissions_target_part")
    assert (links, targets) == (3, 2)
    if order == "breadth-first":
        assert total(cluster, "inter_part_urls") == [2]


def test_cookies_stay_with_a_rank_that_crosses_over() -> None:
    cluster = wall("session.mode=cross-over")
    cluster.start(A)
    redirect(cluster, 0, A, LOGIN, "a=1; Domain=a.example")
    assert redirect(cluster, 0, LOGIN, LOGIN, "b=2") == "a=1"
    assert redirect(cluster, 0, LOGIN, A, "c=3; Domain=a.example") == "a=1; b=2"
    assert cluster.acquire(0) == A
    assert cookie_of(cluster, 0, cluster.visits[0][0].found) == "a=1; c=3"
    cluster.end(0)
    cluster.settle()
    assert cluster.ended
    assert not any(batch.cookies for _, _, batch in cluster.batches())
    assert total(cluster, "inter_part_pages") == [2]


# --- in any order, and after stops


class Walls:
    """Pages behind walls of 1 to 4 URLs. A page is served to who sends all cookies of its wall."""

    def __init__(self, dice: random.Random) -> None:
        self.setters = [
            [number == 0 or dice.random() < 0.5 for number in range(dice.randint(1, 4))]
            for _ in range(dice.randint(1, 8))
        ]
        for setters in self.setters:
            dice.shuffle(setters)
        self.links = [dice.choices(range(len(self.setters)), k=3) for _ in self.setters]
        self.served: Counter[str] = Counter()

    @staticmethod
    def url(wall: int, step: int = 0) -> str:
        return f"http://a.example/{wall}/{step}"

    def pages(self) -> set[str]:
        """Those that can be reached from the first one."""
        reached, todo = {0}, [0]
        while todo:
            new = set(self.links[todo.pop()]) - reached
            reached |= new
            todo += new
        return set(map(self.url, reached))

    def answer(self, address: str, cookie: str) -> Response:
        wall, step = map(int, address.split("/")[3:])
        setters = self.setters[wall]
        if step == 0 and len(cookie.split("; ")) * bool(cookie) == sum(setters):
            self.served[address] += 1
            page = "".join(f"<a href={self.url(target)}>" for target in self.links[wall])
            return response(address, page.encode())
        cookies = [f"c{step}=1; Path=/{wall}/"] if setters[step] else []
        return moved(address, self.url(wall, (step + 1) % len(setters)), *cookies)


class Copying(Cluster):
    """Batches may come a second time, long after."""

    def deliver(self, flight: Flight) -> Message:
        message = super().deliver(flight)
        if isinstance(message, Batch):
            past = self.__dict__.setdefault("past", [])
            past.append(flight)
            old = random.Random(len(past)).choice(past)
            self.cores[old.receiver].received(old.sender, old.message, self.now)
            self.tick(old.receiver)
        return message


def crawl(cluster: Cluster, dice: random.Random, walls: Walls, stop_after: int | None) -> None:
    def answer(visit: Visit) -> tuple[Iterable[Link], bool]:
        rank = next(rank for rank in range(cluster.ranks) if visit in cluster.visits[rank])
        cookie = cookie_of(cluster, rank, visit.found)
        fetched = read(cluster, rank, visit.found, walls.answer(visit.found.url, cookie))
        return fetched.links, True

    run(cluster, dice, answer, retries=0.2, stop_after=stop_after)


def cluster_of(ranks: int, dice: random.Random, *overrides: str) -> Cluster:
    return Copying(
        UrlHash(ranks),
        ranks,
        settings(
            'scope.domains=["*"]',
            f"exchange.batch_pages={dice.choice([1, 3, 64])}",
            f"politeness.connections_per_site={dice.choice([1, 2])}",
            *overrides,
        ),
    )


@few_examples
@given(st.integers(0, 2**32), st.integers(1, 5), st.sampled_from(["all", "cache", "batch"]))
def test_every_page_behind_a_wall_is_had(seed: int, ranks: int, remember: str) -> None:
    dice = random.Random(seed)
    walls = Walls(dice)
    memory = f"exchange.remember={remember}", "exchange.cache_urls=2"
    cluster = cluster_of(ranks, dice, *memory)
    cluster.start(Walls.url(0))
    crawl(cluster, dice, walls, None)
    assert set(walls.served) == walls.pages()
    assert set(walls.served.values()) == {1}
    assert cluster.complete
    assert not any(jars._jars for jars in cluster.jars)
    sent, targets = total(cluster, "inter_part_urls", "transmissions_target_part")
    assert sent == targets


@few_examples
@given(st.integers(0, 2**32), st.integers(1, 5), st.lists(st.integers(0, 60), max_size=3))
def test_walls_are_walked_anew_after_a_stop(seed: int, ranks: int, stops: list[int]) -> None:
    """Cookies are in no snapshot; still every page is had, and nothing goes on for ever."""
    dice = random.Random(seed)
    walls = Walls(dice)
    cluster = cluster_of(ranks, dice)
    cluster.start(Walls.url(0))
    for moment in stops:
        crawl(cluster, dice, walls, moment)
        if cluster.complete:
            break
        cluster = restored(cluster)
        assert not any(jars._jars for jars in cluster.jars)
        cluster.start(Walls.url(0))
    crawl(cluster, dice, walls, None)
    assert set(walls.served) == walls.pages()
    assert set(walls.served.values()) == {1}
    assert cluster.complete


# --- whole crawls

WALLS = 8


def serve_walls(path: str, cookie: str) -> bytes:
    """`/` leads to /0, /1, ...: each sets a cookie, and so does its login page, which wants the
    first cookie. Every second one has no login page of its own, but redirects to itself."""
    wall = path.rpartition("/")[2]
    if not wall:
        return page("".join(f"<a href=/{number}>" for number in range(WALLS)))
    if path.startswith("/login/"):
        login = f"b{wall}=SECRET; Path=/{wall}"
        return redirected(f"/{wall}", login) if f"a{wall}" in cookie else redirected(f"/{wall}")
    if f"a{wall}" in cookie and (f"b{wall}" in cookie or int(wall) % 2):
        return page("inside")
    target = f"/{wall}" if int(wall) % 2 else f"/login/{wall}"
    return redirected(target, f"a{wall}=SECRET; Path=/")


def words_for(server: RawServer, session: Path) -> list[str]:
    options = sets(
        f'dns.hosts={{"walls.test" = "127.0.0.1:{server.port}"}}',  # so each URL has one owner
        "fetch.allow_private_addresses=true",
        "politeness.delay_s=0",
        "robots.obey=false",
        "assignment.scheme=url-hash",
    )
    return ["-m", "crawler", "crawl", "http://walls.test/", "--session", str(session), *options]


def assert_all_inside(session: Path) -> None:
    rows = Counter((row["url"].rpartition("/")[2], row["status"]) for row in page_rows(session))
    assert {rows.pop((str(number), 200), 0) for number in range(WALLS)} == {1}
    assert rows.pop(("", 200)) == 1
    assert {status for _, status in rows} == {302}
    measures = metrics_of(session)
    assert measures["complete"]
    assert measures["unique_pages"] == 1 + WALLS + WALLS // 2
    assert measures["asked_again"] == measures["pages"] - measures["unique_pages"]
    assert measures["overlap"] == 0
    for file in session.rglob("*"):
        if file.is_file() and not file.name.endswith(".warc.gz"):
            assert b"SECRET" not in file.read_bytes(), file


def test_four_ranks_get_behind_walls_over_all_of_them(tmp_path: Path, mpirun: MpiRun) -> None:
    with Site(serve_walls).server as server:
        done = mpirun(4, *words_for(server, tmp_path / "s"))
    assert done.returncode == 0, done.stderr
    assert "SECRET" not in done.stdout + done.stderr
    assert_all_inside(tmp_path / "s")
    measures = metrics_of(tmp_path / "s")
    assert measures["pages"] == 1 + 2 * WALLS + WALLS // 2
    web = graph.from_sessions([tmp_path / "s" / "tables"])
    predicted = evaluate.evaluate(web, evaluate.url_hash(web, 4), 4)
    assert len({row["rank"] for row in page_rows(tmp_path / "s")}) == 4
    assert measures["inter_part_urls"] == measures["transmissions_target_part"]
    assert measures["transmissions_target_part"] == predicted.transmissions_target_part
    assert measures["messages_page_part"] == predicted.messages_page_part


@pytest.mark.parametrize("runs", [[2, 2, 2], pytest.param([3, 1, 2], marks=pytest.mark.slow)])
def test_no_page_is_lost_by_a_stop_within_its_wall(
    tmp_path: Path, mpirun: MpiRun, runs: list[int]
) -> None:
    """With snapshots, and from the logs."""
    session = tmp_path / "s"
    with Site(serve_walls).server as server:
        words = words_for(server, session)
        for number, ranks in enumerate(runs, start=1):
            limit = 7 * number if number < len(runs) else 0
            done = mpirun(ranks, *words, "--max-pages", str(limit))
            assert done.returncode == 0, done.stderr
            words = ["-m", "crawler", "resume", str(session)]
        assert_all_inside(session)
        pages = metrics_of(session)["pages"]
        assert pages > 1 + 2 * WALLS + WALLS // 2
        done = run_here("resume", str(session))
    assert done.returncode == 0, done.stderr
    assert metrics_of(session)["pages"] == pages
