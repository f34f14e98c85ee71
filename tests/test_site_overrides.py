"""What `[[sites]]` says of some sites: which sites are meant, and that it holds."""

import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest
from cluster import Cluster, settings
from conftest import MpiRun
from crawls import crawl_here, page_rows, run_here, run_unverified, sets
from hypothesis import given
from hypothesis import strategies as st
from servers import Page, PageServer

from crawler import config
from crawler.agent.timing import SystemClock
from crawler.core.outcomes import DONE
from crawler.core.schemes import SiteHash, UrlHash
from crawler.core.workbench import Workbench
from crawler.names import NamePatterns, normalise_pattern
from crawler.ports import Asked, CrawlUrl, UserError
from crawler.report.verify import verify
from crawler.session import load, read_rests, request_files
from crawler.session.requests import Manners, RequestLog, read_requests
from crawler.simulate import Simulation, Web
from crawler.url import BadUrlError, key
from partition import politeness

# --- which sites are meant ------------------------------------------------------------------------

LABELS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4).map(".".join)
SITES = st.builds(str.__add__, LABELS, st.sampled_from(["", ":81", ":8080"]))
PATTERNS = st.builds(str.__add__, st.sampled_from(["", "*."]), SITES)


def matches(pattern: str, site: str) -> bool:
    """The definition of a pattern."""
    name, _, port = pattern.removeprefix("*.").partition(":")
    host, _, its_port = site.partition(":")
    if port and port != its_port:
        return False
    return host.endswith("." + name) if pattern.startswith("*.") else host == name


@given(st.lists(st.lists(PATTERNS, max_size=3), max_size=5), SITES)
def test_patterns_match_as_defined(groups: list[list[str]], site: str) -> None:
    expected = [n for n, group in enumerate(groups) if any(matches(one, site) for one in group)]
    assert list(NamePatterns(groups).matching(site)) == expected


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("A.Example", "a.example"),
        ("*.Bücher.example", "*.xn--bcher-kva.example"),
        ("a.example:443", "a.example"),
        ("[::1]:81", "[::1]:81"),
    ],
)
def test_patterns_are_normalised(text: str, pattern: str) -> None:
    assert normalise_pattern(text) == pattern


@pytest.mark.parametrize("text", ["", "*", "*.", "*.*.a", "http://a", "a/b", "a b", "a:x", "u@a"])
def test_other_texts_are_no_patterns(text: str) -> None:
    with pytest.raises(BadUrlError):
        normalise_pattern(text)


def test_an_address_is_matched_with_every_port() -> None:
    patterns = NamePatterns([["[::1]"], ["[::1]:81"]])
    assert [patterns.matching(site) for site in ("[::1]", "[::1]:81")] == [(0,), (0, 1)]


def loaded(*tables: dict[str, object]) -> config.Config:
    return config.load(values={"politeness": {"delay_s": 1}, "sites": tables})


def test_for_each_key_the_first_table_counts_that_sets_it() -> None:
    overrides = loaded(
        {"match": "a.example", "delay_s": 3},
        {"match": "*.example", "delay_s": 5, "connections": 2, "robots": False},
    ).overrides()
    both, one, none = (overrides.of(site) for site in ("a.example", "b.example", "c.test"))
    assert (both.delay_s, both.connections, both.robots) == (3, 2, False)
    assert (one.delay_s, one.connections) == (5, 2)
    assert (none.delay_s, none.connections, none.robots) == (None, None, None)


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        (
            "[{match = 'a.example'}, {match = 'b.example', delay = 1}]",
            "[[sites]] 2: delay: unknown",
        ),
        ("[{match = 'a.example', delay_s = -1}]", "[[sites]] 1: delay_s = -1: must be greater"),
        (
            "[{match = 'http://a.example/'}]",
            "[[sites]] 1: match.0 = 'http://a.example/': must be a",
        ),
        ("[{match = []}]", "[[sites]] 1: match = []: must have at least 1"),
        ("[{match = '^('}]", "[[sites]] 1: match.0 = '^(': must be a regular expression"),
        ("[{match = '^a', robots = true}]", "[[sites]] 1: robots belongs to a whole site"),
    ],
)
def test_mistakes_name_the_number_of_the_table(tables: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        config.load(None, [f"sites={tables}"])
    assert str(caught.value).startswith(f"configuration: {words}")
    assert "\n" not in str(caught.value)


def test_an_address_counts_its_connections_itself() -> None:
    table = "sites=[{match = 'a.example'}, {match = 'b.example', connections = 2}]"
    with pytest.raises(UserError, match=r"\[\[sites\]\] 2: connections: with politeness.per"):
        config.load(None, ["politeness.per=address", table])


def test_a_name_that_no_domain_has_is_an_error(tmp_path: Path) -> None:
    tables = "sites=[{match = '*.co.uk', delay_s = 2}, {match = 'www.b.co.uk', delay_s = 2}]"
    words = sets("assignment.site=domain", "fetch.contact=x@a.example", tables)
    done = run_here("crawl", "http://a.example/", "--session", str(tmp_path / "s"), *words)
    assert done.returncode == 2
    assert "[[sites]] 2: match = 'www.b.co.uk': with assignment.site = 'domain'" in done.stderr


def test_a_configuration_shows_its_tables(tmp_path: Path) -> None:
    one = loaded({"match": "a.example", "headers": {"A": "b"}}, {"match": "b", "max_bytes": "1 kB"})
    for commented in (False, True):
        (tmp_path / "c.toml").write_text(config.as_toml(one, commented=commented))
        assert config.load(tmp_path / "c.toml") == one


# --- that it holds on one rank --------------------------------------------------------------------


def found(address: str) -> CrawlUrl:
    return CrawlUrl(key(address), address, address.split("/")[2], 0)


def times(bench: Workbench, until: float) -> Iterator[tuple[str, float]]:
    """The site of each request, and when it begins; requests take no time."""
    now = 0.0
    while now <= until:
        while (visit := bench.acquire(now)) is not None:
            if bench.begin(visit, now):
                yield visit.found.site, now
                bench.end(visit, DONE, now)
        now += 0.25


@pytest.mark.parametrize("connections", [1, 3])
def test_a_site_has_its_own_delay(connections: int) -> None:
    both = loaded(
        {"match": "slow", "delay_s": 4},
        {"match": "quick", "delay_s": 0.5, "connections": connections},
    )
    bench = Workbench(both.politeness, both.retry, overrides=both.overrides())
    for number in range(3):
        for site in ("slow", "quick", "usual"):
            bench.enqueue(found(f"http://{site}/{number}"))
    asked = list(times(bench, 10))
    for site, delay_s in (("slow", 4.0), ("quick", 0.5), ("usual", 1.0)):
        assert [when for name, when in asked if name == site] == [0, delay_s, 2 * delay_s]


def test_a_longer_crawl_delay_counts() -> None:
    one = loaded({"match": "a", "delay_s": 4})
    for crawl_delay_s, gap in ((2.0, 4.0), (6.0, 6.0)):
        bench = Workbench(one.politeness, one.retry, overrides=one.overrides())
        bench.enqueue(found("http://a/1"))
        bench.enqueue(found("http://a/2"))
        visit = bench.acquire(0.0)
        assert visit is not None
        bench.end(visit, DONE, 0.0, crawl_delay_s=crawl_delay_s)
        assert bench.next_time() == gap


def test_a_site_has_its_own_connections() -> None:
    one = config.load(None, ["politeness.delay_s=0", "sites=[{match = 'a', connections = 3}]"])
    bench = Workbench(one.politeness, one.retry, overrides=one.overrides())
    for number in range(5):
        bench.enqueue(found(f"http://a/{number}"))
        bench.enqueue(found(f"http://b/{number}"))
    under_way = []
    while (visit := bench.acquire(0.0)) is not None:
        assert bench.begin(visit, 0.0)
        under_way.append(visit.found.site)
    assert sorted(under_way) == ["a", "a", "a", "b"]


@pytest.mark.parametrize("order", ["breadth-first", "backlinks"])
@pytest.mark.parametrize("per", ["site", "address"])
def test_sites_with_a_higher_priority_come_first(order: str, per: str) -> None:
    tables = "sites=[{match = 'high', priority = 2}, {match = 'low', priority = -1}]"
    overrides = [f"politeness.per={per}", f"frontier.order={order}", tables]
    cluster = Cluster(SiteHash(1), 1, settings(*overrides))
    names = ("low", "usual", "high")
    cluster.start(*(f"http://{name}/{number}" for name in names for number in range(2)))
    (core,) = cluster.cores
    asked = []
    while (visit := core.acquire(cluster.now)) is not None:
        if core.locate(visit, "10.0.0.1", cluster.now) and core.begin(visit, cluster.now):
            asked.append(visit.found.site)
            core.end(visit, DONE, cluster.now)
    assert sorted(asked) == sorted(2 * names)
    if per == "site":
        assert asked == ["high", "high", "usual", "usual", "low", "low"]
    else:  # each site must be tried once before its address is known
        assert asked[1:].index("high") < asked[1:].index("low")


def test_a_site_has_its_own_limit_of_urls() -> None:
    tables = "sites=[{match = 'a', max_urls = 2}, {match = 'b', max_urls = 0}]"
    cluster = Cluster(SiteHash(1), 1, settings("traps.max_urls_per_site=3", tables))
    cluster.start(*(f"http://{name}/{number}" for name in "abc" for number in range(5)))
    states = cluster.cores[0]._bench._states
    assert {site: state.queue.size for site, state in states.items()} == {"a": 2, "b": 5, "c": 3}


def test_a_site_that_may_have_been_asked_before_a_kill_rests_for_its_delay() -> None:
    one = loaded({"match": "slow", "delay_s": 9})
    bench = Workbench(one.politeness, one.retry, overrides=one.overrides())
    bench.enqueue(found("http://slow/1"))
    bench.states.rest_from(5.0)
    bench.enqueue(found("http://usual/1"))
    assert [bench._states[site].next_time for site in ("slow", "usual")] == [14.0, 6.0]


# --- and on several -------------------------------------------------------------------------------


def test_a_simulated_crawl_keeps_the_delay_over_all_ranks() -> None:
    pages = [f"http://{site}.example/{number}" for site in "ab" for number in range(12)]
    links = [(0, page) for page in range(1, len(pages))]
    one = config.load(
        None,
        ["politeness.delay_s=1", "sites=[{match = 'b.example', delay_s = 7, connections = 2}]"],
    )
    simulation = Simulation(Web(pages, np.array(links)), one, UrlHash(3), 3)
    simulation.run([0])
    for site, delay_s in (("a", 1), ("b", 7)):
        started = [
            when
            for page, when in zip(simulation.order, simulation.times, strict=True)
            if pages[page].startswith(f"http://{site}")
        ]
        assert len(started) == 12
        gaps = [later - earlier for earlier, later in pairwise(started)]
        assert delay_s * 0.9 <= min(gaps) <= delay_s * 1.5


HTML = {"Content-Type": "text/html"}


def site(paths: int) -> dict[str, Page | bytes]:
    pages: dict[str, Page | bytes] = {
        f"/{number}": Page(b"", headers=HTML) for number in range(paths)
    }
    links = "".join(f"<a href={path}>" for path in pages)
    return {
        **pages,
        "/": Page(links.encode(), headers=HTML),
        "/robots.txt": b"User-agent: *\nDisallow: /1",
    }


def smallest_gap(times: list[float]) -> float:
    return min(later - earlier for earlier, later in pairwise(sorted(times)))


@pytest.mark.parametrize(
    "assignment", [pytest.param("url-hash", marks=pytest.mark.slow), "dynamic"]
)
def test_ranks_share_a_site_with_a_delay_of_its_own(
    tmp_path: Path, mpirun: MpiRun, assignment: str
) -> None:
    with PageServer(site(6)) as server:
        words = [
            "crawl", "http://h.test/", "--session", str(tmp_path / "s"),
            *sets(
                "politeness.delay_s=0",
                "fetch.allow_private_addresses=true",
                f"assignment.scheme={assignment}",
                f'dns.hosts={{"h.test" = "127.0.0.1:{server.port}"}}',
                'sites=[{match = "*.test", delay_s = 0.2, robots = false, headers = {X-A = "b"}}]',
            ),
        ]  # fmt: skip
        done: subprocess.CompletedProcess[str] = mpirun(3, "-m", "crawler", *words)
        assert done.returncode == 0, done.stderr
    assert smallest_gap(server.times) >= 0.2
    assert len(page_rows(tmp_path / "s")) == 7
    assert "/robots.txt" not in server.paths


def test_verify_names_the_promise_to_a_site_that_was_broken(tmp_path: Path) -> None:
    with PageServer({"/": Page(b"<a href=/a>", headers=HTML), "/a": b""}) as server:
        table = f'sites=[{{match = "127.0.0.1:{server.port}", delay_s = 0.1}}]'
        done = crawl_here(tmp_path / "s", server.url, *sets("politeness.delay_s=9", table))
        assert done.returncode == 0, done.stderr
    (file,) = request_files(tmp_path / "s")
    manners, *rows = read_requests(file)
    assert isinstance(manners, Manners)
    (table_of_sites,) = manners.sites
    file.unlink()
    longer = msgspec.structs.replace(table_of_sites, delay_s=5.0, connections=1)
    log = RequestLog(file, msgspec.structs.replace(manners, sites=[longer]))
    for row in rows:
        assert isinstance(row, Asked)
        log.note(msgspec.structs.replace(row, seconds=60.0))
    log.close()
    verdict = verify(tmp_path / "s")
    assert not verdict.sound
    assert any("promised were 5 s (delay_s in [[sites]])" in line for line in verdict.lines)
    assert any("allowed were 1 (connections in [[sites]])" in line for line in verdict.lines)


def test_a_resume_lets_a_site_rest_for_its_delay(tmp_path: Path) -> None:
    one = loaded({"match": "slow.example", "delay_s": 100})
    clock = SystemClock()
    manners = Manners.of(one, 0, 0, clock)
    log = RequestLog(tmp_path / "requests.log", manners)
    for name in ("slow.example", "usual.example"):
        started = manners.time(clock.now())
        log.note(Asked(started, 0.0, name, f"http://{name}", "page", 1, 200, None, None, None))
    log.close()
    rests = read_rests([tmp_path / "requests.log"], clock, killed=False)
    assert rests["slow.example"] == pytest.approx(100, abs=1)
    assert rests["usual.example"] == pytest.approx(1, abs=1)


def test_the_partitioner_knows_the_delays_of_a_session(tmp_path: Path) -> None:
    one = loaded({"match": "slow", "delay_s": 4}, {"match": "*.a", "connections": 3, "delay_s": 1})
    (tmp_path / "tables").mkdir()
    (tmp_path / "session.toml").write_text(config.as_toml(one))
    read = politeness._configured(tmp_path / "session.toml")
    polite = politeness.Politeness(
        read.delay_s,
        read.connections,
        6.0,
        crawl_delay_s_of={"slow": 9.0},
        exceptions=read.exceptions,
    )
    assert [polite.delay_s_of(name) for name in ("slow", "x.a", "b")] == [9, 1, 1]
    assert polite.rates(["slow", "x.a", "b"]).tolist() == pytest.approx([1 / 15, 1 / 2, 1 / 7])


def test_explain_says_what_holds_for_a_site(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(
        "[[sites]]\nmatch = 'b.example'\n"
        "[[sites]]\nmatch = '*.example'\ndelay_s = 3\nrobots = false"
    )
    words = ["explain", "http://a.example/", "--config", str(tmp_path / "c.toml"), "--json"]
    told = msgspec.json.decode(run_unverified(*words).stdout)
    assert (told["delay_s"], told["connections"], told["sites"]) == (3, 1, [2])
    assert told["robots"] is None  # no request was made


def test_a_session_of_an_earlier_version_keeps_its_headers(tmp_path: Path) -> None:
    one = '[fetch]\nheaders = {"a.example" = {A = "1"}, "https://a.example" = {A = "2"}}\n'
    (tmp_path / "session.toml").write_text(
        '[[run]]\nversion = "0"\nranks = 1\nparts = 1\nscope = ""\nstarted = 2026-01-01T00:00:00Z\n'
        + one
    )
    overrides = load(tmp_path).config.overrides()
    assert overrides.at("http://a.example/").headers == {"A": "1"}
    assert overrides.at("https://a.example/x").headers == {"A": "2"}
