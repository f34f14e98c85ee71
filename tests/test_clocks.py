"""One clock a site, at one rank at a time, whatever the order in which messages arrive."""

import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from cluster import Cluster, Listed, few_examples, link, run, settings, store
from hypothesis import example, given
from hypothesis import strategies as st
from slow_seen import stores
from watched import PATIENT, Watched, crawl_politely

from crawler import config
from crawler.core.core import Core
from crawler.core.outcomes import BUSY, DONE
from crawler.core.schemes import Scheme, SiteHash, UrlHash
from crawler.core.visits import Visit
from crawler.ports import without_errand
from crawler.simulate import Simulation, Web
from crawler.simulate.shell import Delays
from partition import partvector

BIG = "http://big.example"
RULES = "http://b.example/rules"  # to which the robots.txt of another site redirects


# --- random schedules ---------------------------------------------------------------------------


@pytest.mark.parametrize("late", [False, True])
@few_examples
@given(
    seed=st.integers(0, 2**32),
    ranks=st.integers(2, 5),
    connections=st.sampled_from([1, 1, 2, 4]),
    delay_s=st.sampled_from([0.0, 0.5, 1.0, 30.0]),
    per=st.sampled_from(["site", "site", "address"]),
    mode=st.sampled_from(["exchange", "exchange", "cross-over", "independent", "firewall"]),
    limit=st.sampled_from([0, 0, 7]),
    moves=st.sampled_from([0.0, 0.05, 0.2]),
    far=st.sampled_from([0.0, 0.5]),
    other_delay_s=st.sampled_from([None, None, 0.0, 3.0, 50.0]),
    other_connections=st.sampled_from([None, 1, 3]),
)
@example(0, 2, 4, 0.0, "site", "independent", 0, 0.0, 0.5, None, None)  # held, its clock away
@example(
    1807092176, 5, 1, 0.5, "site", "exchange", 0, 0.05, 0.5, None, None
)  # lent after forgotten
def test_promises_are_kept_in_any_order(
    late: bool,
    seed: int,
    ranks: int,
    connections: int,
    delay_s: float,
    per: str,
    mode: str,
    limit: int,
    moves: float,
    far: float,
    other_delay_s: float | None,
    other_connections: int | None,
) -> None:
    """Also to sites that `[[sites]]` names."""
    dice = random.Random(seed)
    listed = Listed(ranks, {f"h{number}.example": number % ranks for number in (0, 1)})
    scheme: Scheme = dice.choice([UrlHash(ranks), UrlHash(ranks), SiteHash(ranks), listed])
    whole = not isinstance(scheme, UrlHash) and mode in {"exchange", "firewall"}
    if per == "site" and whole and not far:
        scheme = UrlHash(ranks)  # else nothing is shared
    other = {"match": ["h0.example", "*.h1.example"], "priority": 1}
    if other_delay_s is not None:
        other["delay_s"] = other_delay_s
    if other_connections is not None and per == "site":
        other["connections"] = other_connections
    cluster = Watched(
        scheme,
        ranks,
        config.load(
            None,
            [
                f"sites=[{config.toml_value(other)}]",
                f"politeness.delay_s={delay_s}",
                f"politeness.connections_per_site={connections}",
                f"politeness.per={per}",
                f"session.mode={mode}",
                f"session.max_pages={limit}",
                *PATIENT,
            ],
        ),
        make_seen=stores(dice, late=late),
    )
    crawl_politely(cluster, dice, moves=moves, far=far)


class AtOneAddress(Cluster):
    """Two ranks, with a site each. `asked`: which rank asked for which URL, and when."""

    def __init__(self, per: str) -> None:
        polite = ["politeness.delay_s=1", f"politeness.per={per}"]
        super().__init__(Listed(2, {"a.example": 0, "b.example": 1}), 2, settings(*polite))
        self.asked: list[tuple[int, str, float]] = []

    def request(self) -> tuple[Core, Visit]:
        """The next request of any rank."""
        for _ in range(1000):
            for rank, core in enumerate(self.cores):
                visit = core.acquire(self.now)
                if visit is not None and core.locate(visit, "10.0.0.1", self.now):
                    self.asked.append((rank, without_errand(visit.found.url), self.now))
                    return core, visit
                self.tick(rank)
            self.settle()
            self.now += 0.5
        raise AssertionError("no request")

    def visit(self, *, crawl_delay_s: float | None = None) -> None:
        """A request with an answer. A page's robots.txt has asked for a delay."""
        core, visit = self.request()
        delay_s = None if visit.found.is_errand else crawl_delay_s
        core.end(visit, DONE, self.now, crawl_delay_s=delay_s)
        store(core, visit.found, (), self.now, response=not visit.found.is_errand)

    def fail(self, rest_s: float) -> None:  # type: ignore[override]
        """A request whose answer is to come later."""
        core, visit = self.request()
        core.end(visit, BUSY, self.now, retry_after_s=rest_s)


@pytest.mark.parametrize("per", ["site", "address"])
@pytest.mark.parametrize("first", ["http://a.example/", RULES])
def test_an_errand_waits_as_long_as_its_site_told_the_owner(per: str, first: str) -> None:
    """Also if the rank has the clock already, for another site at the address."""
    cluster = AtOneAddress(per)
    cluster.start("http://b.example/1")
    cluster.fail(rest_s=60)
    cluster.cores[0].door.run_errand(first, cluster.now)
    if first != RULES:
        cluster.visit()
        cluster.now += 5  # the address may be asked again
        cluster.cores[0].door.run_errand(RULES, cluster.now)
    cluster.visit()
    times = [when for _, address, when in cluster.asked if "b.example" in address]
    assert times[1] - times[0] >= 60


@pytest.mark.parametrize("per", ["site", "address"])
def test_a_crawl_delay_holds_before_and_after_an_errand(per: str) -> None:
    cluster = AtOneAddress(per)
    cluster.start(*(f"http://b.example/{number}" for number in range(4)))
    for _ in range(3):
        cluster.visit(crawl_delay_s=10)
        cluster.cores[0].door.run_errand(RULES, cluster.now)
        cluster.visit(crawl_delay_s=10)
    assert {rank for rank, _, _ in cluster.asked} == {0, 1}
    times = [when for _, _, when in cluster.asked]
    assert min(later - earlier for earlier, later in pairwise(times)) >= 10, cluster.asked


# --- what it costs ------------------------------------------------------------------------------


def one_site(pages: int) -> Web:
    """The first page leads to all others, each of these to a few."""
    dice = random.Random(1)
    links = [(0, page) for page in range(1, pages)]
    links += [(page, dice.randrange(pages)) for page in range(pages) for _ in range(3)]
    return Web([f"{BIG}/{page}" for page in range(pages)], np.array(links))


@pytest.mark.parametrize(
    ("connections", "delay_s", "pages"),
    [(1, 1.0, 400), (1, 0.1, 400), (4, 0.25, 400), (8, 0.0, 4000)],  # minutes of virtual time
)
def test_a_site_of_eight_ranks_is_crawled_at_the_rate_of_one_owner(
    connections: int, delay_s: float, pages: int
) -> None:
    """In virtual time, so it doesn't depend on the machine. Messages take up to 0.1 s."""
    web = one_site(pages)
    options = settings(
        f"politeness.delay_s={delay_s}", f"politeness.connections_per_site={connections}"
    )
    seconds = []
    for scheme, ranks in ((SiteHash(1), 1), (UrlHash(8), 8)):
        simulation = Simulation(
            web, options, scheme, ranks, delays=Delays(fetch=(0.05, 0.5), message=(0.001, 0.1))
        )
        assert simulation.run([0])
        assert simulation.pages == len(web)
        seconds.append(simulation.now)
    assert seconds[0] / seconds[1] >= 0.95


@pytest.mark.parametrize(("latency_s", "turn_s"), [(0.001, 0.5), (0.05, 2.5), (3.0, 5.0)])
def test_turns_without_a_delay_are_long_beside_a_handover(latency_s: float, turn_s: float) -> None:
    """How long a holder had the clock before, 100 s, doesn't matter."""
    cluster = Cluster(UrlHash(3), 3, settings("politeness.connections_per_site=2"))
    urls = [link(f"{BIG}/{number}") for number in range(60)]
    home = cluster.cores[0].ownership.clock_home(urls[0].site)
    first, second = (rank for rank in range(3) if rank != home)

    def wants(rank: int) -> None:
        """Let a rank have a URL of the site; the clock is there once all messages have come."""
        own = next(one for one in urls if one.key % 3 == rank)
        cluster.cores[rank].door.introduce([own], cluster.now)
        cluster.acquire(rank, clocks_are_fast=False)
        while cluster.flights:
            cluster.now += latency_s
            for flight in list(cluster.flights):
                cluster.deliver(flight)

    wants(first)
    cluster.acquire(first)
    cluster.end(first)
    cluster.now += 100
    wants(second)
    lease = cluster.cores[second]._bench.sharing.leases.of(urls[0].site)
    assert lease.held
    assert lease.ends - cluster.now == pytest.approx(turn_s)


@pytest.mark.parametrize("mode", ["exchange", "cross-over"])
def test_the_owner_of_a_whole_site_sends_nothing_for_its_clock(tmp_path: Path, mode: str) -> None:
    """The vector splits another site; and nobody crosses over to these."""
    partvector.write(
        tmp_path / "v.parts",
        parts=2,
        sites={"big.example": 0, "a.example": 0, "b.example": 1},
        directories={"http://big.example/1/": 1},
        model="hybrid",
    )
    vector = partvector.PartVector.open(tmp_path / "v.parts")
    cluster = Cluster(vector, 2, settings(f"session.mode={mode}", "politeness.delay_s=1"))
    cluster.start("http://a.example/", "http://b.example/")
    assert all(core.ownership.shares_sites for core in cluster.cores)
    for rank, site in enumerate("ab"):
        cluster.fetch(rank, f"http://{site}.example/", link(f"http://{site}.example/1"))
    cluster.now = 1.0
    for rank, site in enumerate("ab"):
        cluster.fetch(rank, f"http://{site}.example/1")
    cluster.settle()
    assert cluster.ended
    assert [core.traffic.batches_sent for core in cluster.cores] == [0, 0]


def test_a_clock_stays_where_it_was_used_last_until_another_rank_wants_it() -> None:
    cluster = Cluster(UrlHash(3), 3, settings("politeness.delay_s=1"))
    urls = [link(f"{BIG}/{number}") for number in range(60)]
    home = cluster.cores[0].ownership.clock_home(urls[0].site)
    owner = next(rank for rank in range(3) if rank != home)
    mine = [one for one in urls if one.key % 3 == owner][:5]
    cluster.start(mine[0].url)
    cluster.fetch(owner, mine[0].url, *mine[1:])
    before = sum(core.traffic.batches_sent for core in cluster.cores)
    for one in mine[1:]:
        cluster.now += 1
        cluster.fetch(owner, one.url)
    assert sum(core.traffic.batches_sent for core in cluster.cores) == before == 2


def test_a_rank_without_page_quota_lets_others_have_its_clocks() -> None:
    """Both ranks have URLs of the site and quota for one page in all: the crawl ends."""
    cluster = Cluster(UrlHash(2), 2, settings("session.max_pages=1", "politeness.delay_s=1"))
    urls = [f"{BIG}/{number}" for number in range(8)]
    cluster.start(*urls)
    dice = random.Random(5)
    asked = run(cluster, dice, lambda visit: ([], True))
    assert len(asked) == 1
