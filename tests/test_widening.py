"""Sites that join the scope, as redirects of seeds end there: in every order, and live."""

import random
import struct
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

import pyarrow.parquet as pq
import pytest
from cluster import AUTHORITIES, Cluster, Listed, settings
from conftest import MpiRun
from crawls import assert_sound, crawl_here, metrics_of, run_here, sets
from fetches import response
from hypothesis import given
from hypothesis import strategies as st
from servers import Page

from crawler import config
from crawler.agent.widening import admit_late
from crawler.config import toml_value
from crawler.core.schemes import Scheme, SiteHash, UrlHash
from crawler.core.visits import Visit
from crawler.ports import OUT_OF_SCOPE, REDIRECT, Failure, Fetched, PageRow, Response
from crawler.reading.reader import MAX_REDIRECTS, PageReader, make_scope
from crawler.report.endings import causes
from crawler.session import Correction, LoggedPage

# --- in any order -----------------------------------------------------------------------------


class World:
    """A random web. The seeds' redirects go through pages that nothing else leads to."""

    def __init__(self, dice: random.Random) -> None:
        sites = [f"http://s{number}.example" for number in range(dice.randint(2, 6))]
        inside = dice.sample(sites, dice.randint(1, len(sites) - 1))  # of the seeds
        self.pages = [f"{dice.choice(sites)}/{n}" for n in range(dice.randint(1, 30))]
        self.targets = {page: dice.choices(self.pages, k=dice.randint(0, 5)) for page in self.pages}
        # Other redirects: one hop, so that no chain is too long.
        self.moved: dict[str, str] = {}
        for number in range(dice.randint(0, 3)):
            moved = f"{dice.choice(sites)}/moved{number}"
            self.moved[moved] = dice.choice(self.pages)
            self.targets[dice.choice(self.pages)].append(moved)
        self.denied: set[str] = set()
        self.seeds: list[str] = []
        self.chains: list[list[str]] = []
        for number in range(dice.randint(1, 5)):
            chain = [f"{dice.choice(inside)}/seed{number}"]
            self.seeds.append(chain[0])
            hops = range(dice.randint(0, MAX_REDIRECTS - 1))
            chain += [f"{dice.choice(sites)}/hop{number}-{hop}" for hop in hops]
            end = dice.choice([*self.pages, f"{dice.choice(sites)}/denied{number}", chain[0]])
            if "denied" in end:
                self.denied.add(end)
            self.moved |= dict(zip(chain, [*chain[1:], end], strict=True))
            self.chains.append(chain)

    def answer(self, address: str) -> Response | Failure:
        if address in self.denied:
            return Failure.ROBOTS_DENIED
        if address in self.moved:
            location = [(b"Location", self.moved[address].encode())]
            return response(address, b"", headers=location, status=302)
        links = "".join(f"<a href={target}>x</a>" for target in self.targets[address])
        return response(address, links.encode())

    def joined(self) -> set[str]:
        """The sites where the seeds' redirects end, but for those of the seeds."""
        ends = {self.moved[chain[-1]] for chain in self.chains}
        sites = map(AUTHORITIES.of, ends - set(self.seeds))  # a seed at the end is a loop
        return set(sites) - set(map(AUTHORITIES.of, self.seeds))

    def reachable(self) -> set[str]:
        """The pages that can be reached in the scope as it is in the end."""
        scope = self.joined() | set(map(AUTHORITIES.of, self.seeds))
        reached = {page for chain in self.chains for page in chain}
        reached |= {self.moved[chain[-1]] for chain in self.chains}
        todo = list(reached)
        while todo:
            page = todo.pop()
            out = [self.moved[page]] if page in self.moved else self.targets.get(page, [])
            new = {target for target in out if AUTHORITIES.of(target) in scope} - reached
            reached |= new
            todo += new
        return reached


class Ranks:
    """Cores with what stands around them in an agent: a scope, a reader and a log each."""

    def __init__(
        self,
        world: World,
        scheme: Scheme,
        ranks: int,
        dice: random.Random,
        options: config.Config | None = None,
    ) -> None:
        options = options or settings(
            f"exchange.batch_pages={dice.choice([1, 3, 64])}",
            f"assignment.unlisted={dice.choice(['claim', 'site-hash'])}",
            f"exchange.remember={dice.choice(['all', 'batch'])}",
        )
        self.world = world
        self.cluster = Cluster(scheme, ranks, options)
        self.scopes = [make_scope(options, world.seeds, 2027) for _ in range(ranks)]
        self.readers = [PageReader(options, scope) for scope in self.scopes]
        self.logs: list[list[LoggedPage]] = [[] for _ in range(ranks)]
        self.fetched: list[str] = []
        self._dice = dice
        self._reading: list[tuple[Fetched, Iterator[None]] | None] = [None] * ranks
        self._joining: list[tuple[int, Iterator[None]] | None] = [None] * ranks

    def run(self) -> None:
        cluster, dice = self.cluster, self._dice
        cluster.start(*self.world.seeds)
        for _ in range(100_000):
            if cluster.ended:
                return
            rank = dice.randrange(cluster.ranks)
            kind = dice.choice(["acquire", "read", "join", "message", "time"])
            if kind == "acquire" and len(cluster.visits[rank]) < 3:
                cluster.acquire(rank, clocks_are_fast=False)
            elif kind == "read":
                self._read(rank)
            elif kind == "join":
                self._join(rank)
            elif kind == "message" and cluster.flights:
                cluster.deliver(dice.choice(cluster.flights))
            elif kind == "time":
                cluster.now += 1
                cluster.tick(rank)
        raise AssertionError("no end")

    def _read(self, rank: int) -> None:
        """Begin to read a page, or go on, or store it: the parse stage."""
        cluster, reading = self.cluster, self._reading[rank]
        if reading is None:
            if cluster.visits[rank]:
                visit = self._dice.choice(cluster.visits[rank])
                fetched = self._fetched(visit)
                self._reading[rank] = fetched, self.readers[rank].read(fetched)
            return
        fetched, steps = reading
        if next(steps, self) is None or self._dice.random() < 0.5:  # the disk may be full
            return
        self._reading[rank] = None
        reader, core, found = self.readers[rank], cluster.cores[rank], fetched.found
        reader.renew(fetched)
        self.logs[rank].append(logged(fetched, rank))
        self.fetched.append(found.url)
        if fetched.joins is not None:
            core.joining.join(*fetched.joins, found.url, cluster.now)
        (index,) = [i for i, visit in enumerate(cluster.visits[rank]) if visit.found is found]
        cluster.end(rank, fetched.links, index=index)

    def _fetched(self, visit: Visit) -> Fetched:
        answer = self.world.answer(visit.found.url)
        if isinstance(answer, Failure):
            return Fetched(visit.found, 0.0, failure=answer)
        return Fetched(visit.found, 0.0, answer)

    def _join(self, rank: int) -> None:
        """Begin to take sites into the scope of a rank, or go on: crawler.agent.widening."""
        core, joining = self.cluster.cores[rank], self._joining[rank]
        if joining is None:
            if core.joining.sites:
                sites = {site for site, _, _ in core.joining.sites}
                for site in sites:
                    self.scopes[rank].join(site)
                reader, log = self.readers[rank], list(self.logs[rank])
                steps = admit_late(core, reader.judge, sites, log, lambda: self.cluster.now)
                self._joining[rank] = len(sites), steps
            return
        count, steps = joining
        if next(steps, self) is not None:
            self._joining[rank] = None
            core.joining.end(count, wholly=True)
        self.cluster.tick(rank)


def logged(fetched: Fetched, rank: int) -> LoggedPage:
    found, links = fetched.found, fetched.links
    return LoggedPage(
        PageRow(found.url, found.key, found.site, 0, rank, found.hops, 0.0, 0.0),
        struct.pack(f"<{len(links)}Q", *[link.key for link in links]),
        bytes([link.flags for link in links]),
        "".join(f"{link.url}\n" for link in links).encode(),
        False,
        found.chain,
        judged_with=fetched.judged_with,
    )


@given(st.integers(0, 2**32), st.integers(1, 5))
def test_what_is_fetched_is_what_the_final_scope_reaches(seed: int, count: int) -> None:
    dice = random.Random(seed)
    world = World(dice)
    listed = {f"s{n}.example": n % count for n in range(6) if dice.random() < 0.5}
    scheme = dice.choice([UrlHash(count), SiteHash(count), Listed(count, listed)])
    ranks = Ranks(world, scheme, count, dice)
    ranks.run()
    assert sorted(ranks.fetched) == sorted(world.reachable())
    assert ranks.cluster.complete
    for scope, reader, log in zip(ranks.scopes, ranks.readers, ranks.logs, strict=True):
        assert scope.joined == world.joined()
        correct = Correction(scope.joined, reader.judge.brings_in)
        for page in log:  # the logs say the same, wherever the pages were read
            for address, flags in zip(page.urls, correct(page).flags, strict=True):
                followed = scope.judge(address).allowed or address in world.reachable()
                assert bool(flags & OUT_OF_SCOPE) != followed or flags & REDIRECT, (page, address)


# --- live -------------------------------------------------------------------------------------

HTML = {"Content-Type": "text/html"}
HOSTS = ("a.example", "www.example", "hop.example", "b.example", "other.example")


class Web:
    """Hosts on one server; `pages` by (host, path). Those asked for are kept in `asked`."""

    def __init__(self, pages: dict[tuple[str, str], Page]) -> None:
        self.asked: list[tuple[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                place = self.headers["Host"].partition(":")[0], self.path
                outer.asked.append(place)
                page = pages.get(place, Page(status=404))
                self.send_response(page.status)
                for name, value in page.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(page.body)))
                self.end_headers()
                self.wfile.write(page.body)

            def log_message(self, *_: object) -> None:
                """Tests read `asked` instead."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=[0.02], daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def settings(self) -> list[str]:
        hosts = toml_value(dict.fromkeys(HOSTS, f"127.0.0.1:{self.port}"))
        return sets(
            "fetch.allow_private_addresses=true", "politeness.delay_s=0", f"dns.hosts={hosts}"
        )

    def pages_asked(self) -> list[str]:
        return sorted(f"http://{host}{path}" for host, path in self.asked if path != "/robots.txt")


def moved(target: str, status: int = 301) -> Page:
    return Page(status=status, headers={"Location": target})


def page(*targets: str) -> Page:
    return Page("".join(f"<a href={target}>x</a>" for target in targets).encode(), headers=HTML)


def a_web(links: int = 300) -> dict[tuple[str, str], Page]:
    """The seed b.example links to www.example from many pages, long before it joins the scope."""
    pages = {
        ("a.example", "/"): moved("http://hop.example/x", 302),
        ("hop.example", "/x"): moved("http://www.example/"),
        ("www.example", "/"): page("/1", "http://hop.example/y", "http://other.example/"),
        ("www.example", "/1"): page("http://b.example/"),
    }
    for number in range(links):
        pages["b.example", f"/{number or ''}"] = page(
            f"/{number + 1}", f"http://www.example/from/{number}"
        )
        pages["www.example", f"/from/{number}"] = page("/1", f"/from/{number}")
    return pages


def expected(links: int = 300) -> list[str]:
    pages = ["http://a.example/", "http://hop.example/x", "http://www.example/1"]
    pages += ["http://www.example/", *(f"http://www.example/from/{n}" for n in range(links))]
    return sorted(pages + [f"http://b.example/{n or ''}" for n in range(links + 1)])


SEEDS = ["http://b.example/", "http://a.example/"]


def check(directory: Path) -> None:
    """The tables, too, say that the links were followed."""
    rows = pq.read_table(directory / "tables" / "links").to_pylist()
    for row in rows:
        outside = not row["flags"] & REDIRECT and row["target_url"].split("/")[2] in {
            "hop.example",
            "other.example",
        }
        assert bool(row["flags"] & OUT_OF_SCOPE) == outside, row
    metrics = metrics_of(directory)
    assert metrics["complete"]
    assert metrics["redirected_seeds"] == [
        {"seed": SEEDS[1], "url": "http://www.example/", "what": "its site joined the scope"}
    ]


@pytest.mark.parametrize(
    ("ranks", "scheme"),
    [
        (1, "site-hash"),
        pytest.param(2, "site-hash", marks=pytest.mark.slow),
        (4, "url-hash"),
    ],
)
def test_the_site_that_a_seed_redirects_to_is_crawled(
    tmp_path: Path, mpirun: MpiRun, ranks: int, scheme: str
) -> None:
    directory = tmp_path / "s"
    words = ["crawl", *SEEDS, "--session", str(directory), *sets(f"assignment.scheme={scheme}")]
    with Web(a_web()) as web:
        done = mpirun(ranks, "-m", "crawler", *words, *web.settings)
        assert done.returncode == 0, done.stderr
        assert web.pages_asked() == expected()
        assert f"seed {SEEDS[1]}: redirects to http://www.example/" in done.stderr
    shown = run_here("report", str(directory)).stdout
    assert f"{SEEDS[1]} redirects to http://www.example/: its site joined" in shown
    check(directory)


@pytest.mark.parametrize(
    "limit", [310, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 40, 303, 450))]
)
def test_a_resume_has_the_scope_that_the_session_has_got(
    tmp_path: Path, mpirun: MpiRun, limit: int
) -> None:
    """Also where the site joined at the end of a run, and for ranks that hadn't heard of it."""
    directory = tmp_path / "s"
    words = ["crawl", *SEEDS, "--session", str(directory), "--max-pages", str(limit)]
    with Web(a_web()) as web:
        assert mpirun(2, "-m", "crawler", *words, *web.settings).returncode in {0, 1}
        if limit == 310:
            for path in directory.glob("rank-*/snapshot"):
                path.unlink()
        resume = ["resume", str(directory), "--max-pages", "0"]
        done = mpirun(3, "-m", "crawler", *resume)
        assert done.returncode == 0, done.stderr
        assert web.pages_asked() == expected()
    check(directory)


def test_named_hosts_are_the_scope_and_the_seed_is_named(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    named = sets('scope.hosts=["a.example", "b.example"]')
    with Web(a_web(3)) as web:
        done = crawl_here(directory, *SEEDS, *named, *web.settings)
        assert done.returncode == 0
        assert web.pages_asked() == [
            "http://a.example/", *(f"http://b.example/{n or ''}" for n in range(4))
        ]  # fmt: skip
    told = f"{SEEDS[1]} redirects to http://hop.example/x: out of scope"
    assert told in run_here("report", str(directory)).stdout
    assert f"seed {SEEDS[1]}: redirects to http://hop.example/x, which is out" in done.stderr
    (end,) = metrics_of(directory)["redirected_seeds"]
    assert end == {"seed": SEEDS[1], "url": "http://hop.example/x", "what": "out of scope"}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_of_any_status_lead_there(tmp_path: Path, status: int) -> None:
    pages = {
        ("a.example", "/"): moved("http://www.example/", status),
        ("www.example", "/"): page("/1"),
        ("www.example", "/1"): page(),
    }
    with Web(pages) as web:
        assert crawl_here(tmp_path / "s", "http://a.example/", *web.settings).returncode == 0
        assert len(web.pages_asked()) == 3


@pytest.mark.parametrize(
    ("pages", "seeds", "cause"),
    [
        ({}, ["http://a.example/"], "status 404: http://a.example/"),
        ({("a.example", "/"): moved("/")}, ["http://a.example/"], "redirect-loop"),
        ({("a.example", "/"): moved("http://127.0.0.1:1/")}, ["http://a.example/"], "refused"),
        (
            {("a.example", "/robots.txt"): Page(b"User-agent: *\nDisallow: /")},
            ["http://a.example/", "http://a.example/2"],
            "robots-denied: http://a.example/ (and 1 more)",
        ),
        ({}, ["http://nowhere.example/"], "dns-"),
        ({("a.example", "/"): moved("http://b.example/")}, ["http://a.example/"], "status 404"),
    ],
)
def test_a_crawl_without_a_page_has_failed_and_says_why(
    tmp_path: Path, pages: dict[tuple[str, str], Page], seeds: list[str], cause: str
) -> None:
    directory = tmp_path / "s"
    quick = sets("retry.tries=1", "fetch.connect_timeout_s=0.2", "fetch.timeout_s=1", "dns.tries=1")
    with Web(pages) as web:
        done = crawl_here(directory, *seeds, *web.settings, *quick)
        assert done.returncode == 1
        (line,) = [one for one in done.stderr.splitlines() if one.startswith("error")]
        assert line.startswith("error: nothing fetched: ")
        assert cause in line
        metrics = metrics_of(directory)
        assert (metrics["complete"], metrics["reason"]) == (False, "nothing fetched")
        assert_sound(directory)
        assert run_here("resume", str(directory)).returncode == 1


def test_a_firewall_that_drops_the_target_of_a_seed_is_named() -> None:
    metrics = {"redirected_seeds": [], "failed_seeds": [], "waiting": 0, "dropped_links": 1}
    (line,) = causes(metrics)
    assert "1 links led to other ranks" in line
    assert "session.mode = exchange" in line


def test_the_rule_that_keeps_the_target_of_a_seed_out_is_named(tmp_path: Path) -> None:
    words = sets('scope.exclude=["/x$"]')
    with Web({("a.example", "/"): moved("http://www.example/x")}) as web:
        done = crawl_here(tmp_path / "s", "http://a.example/", *words, *web.settings)
    assert done.returncode == 1
    assert "http://www.example/x, which is out of scope (scope.exclude: /x$)" in done.stderr


def test_a_seed_that_only_refreshes_to_another_site_is_named(tmp_path: Path) -> None:
    refresh = b'<meta http-equiv=refresh content="0; url=http://www.example/">'
    with Web(
        {("a.example", "/"): Page(refresh, headers=HTML), ("www.example", "/"): page()}
    ) as web:
        done = crawl_here(tmp_path / "s", "http://a.example/", *web.settings)
        assert done.returncode == 0
        assert web.pages_asked() == ["http://a.example/"]
    told = "seed http://a.example/: none of its 1 links is in scope"
    assert f"{told}; the first is http://www.example/" in done.stderr


def test_a_complete_session_is_resumed_with_nothing_to_do(tmp_path: Path) -> None:
    with Web({("a.example", "/"): page()}) as web:
        directory = tmp_path / "s"
        assert crawl_here(directory, "http://a.example/", *web.settings).returncode == 0
        assert run_here("resume", str(directory)).returncode == 0
        assert len(web.pages_asked()) == 1
