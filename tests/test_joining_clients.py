"""Clients that join, leave and are lost during a crawl by dynamic assignment."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from cluster import Cluster, few_examples, link, settings
from dynamics import dynamic
from fakes import counted
from hypothesis import example, given
from hypothesis import strategies as st
from slow_seen import stores
from test_dynamic import Served, served
from test_stores import in_a_table, on_disk
from watched import PATIENT, Watched, crawl_politely
from webs import reachable

from crawler.core.members import Logged
from crawler.core.schemes import make_scheme
from crawler.core.seen import MemorySeen, UrlSeen
from crawler.core.tree import Tree
from crawler.ports import REDIRECT

HANDED = [("page", "server"), ("site", "server"), ("dset", "server")]
HELD = [("site", "own"), ("dset", "own")]
TREES = [(0,), (0,), (0, 0, 0)]
DEEP = (0, 0, 0, 1, 2, 0, 5)


@dataclass
class Changing:
    """A dynamic crawl during which clients come and go."""

    crawl: Served
    logs: defaultdict[int, list[Logged]] = field(default_factory=lambda: defaultdict(list))
    lost: set[int] = field(default_factory=set)

    def run(self, dice: random.Random, *, lasts: float, reads_logs: bool) -> bool:
        """Crawl. Orders and losses come within the time that the crawl `lasts` without them.

        The first client of each server stays.
        """
        simulation = self.crawl.simulation
        tree = simulation.cores[0].ownership.tree
        assert tree is not None
        steady = {tree.clients_of(server)[0] for server in tree.leaves}
        others = [rank for rank in tree.clients if rank not in steady]
        orders, losses = [], []
        for rank in others:
            moment = dice.random() * lasts
            what = dice.choice(["stay", "come", "leave", "leave", "lost", "lost"])
            giver = dice.choice(list(tree.servers))
            if what == "come" or (rank in tree.spares and dice.random() < 0.7):
                named = dice.choice([None, rank])
                orders.append((moment, giver, activating(named)))
                moment += dice.random() * (lasts - moment)
            if what == "leave":
                orders.append((moment, giver, retiring(rank)))
                moment += dice.random() * (lasts - moment)
            if what == "lost" or (what == "leave" and dice.random() < 0.3):
                losses.append((moment, rank))
        self.lost = {rank for _, rank in losses}
        return simulation.run(
            self.crawl.seeds,
            orders=orders,
            losses=losses,
            log_of=self.logs.__getitem__ if reads_logs else None,
        )

    @property
    def lost_late(self) -> bool:
        """Whether the crawl ended by reports of the ranks that don't know of a loss yet."""
        before = self.crawl.simulation.cores[0]._mail._termination._before
        return before is not None and before[1] < len(self.crawl.simulation.gone)


def activating(rank: int | None):  # type: ignore[no-untyped-def]
    return lambda core, now: core.members.activate(now, rank)


def retiring(rank: int):  # type: ignore[no-untyped-def]
    return lambda core, now: core.members.retire(rank, now)


def changing(
    seed: int,
    kind: tuple[str, str],
    servers: tuple[int, ...],
    make_store: Callable[[], UrlSeen] = MemorySeen,
) -> Changing:
    dice = random.Random(seed + 1)
    spares = dice.randrange(4)
    options = [f"dynamic.join_after_s={dice.choice([0, 0, 0.3])}"]
    if kind[1] == "server":
        options.append(f"dynamic.join_waiting={dice.choice([0, 0, 3])}")
    logs = defaultdict[int, list[Logged]](list)

    def stored(rank: int, row: Logged) -> None:
        logs[rank].append(row)

    crawl = served(
        seed, kind, servers, *options, spares=spares, stored=stored, make_store=make_store
    )
    return Changing(crawl, logs)


def lasting(seed: int, kind: tuple[str, str], servers: tuple[int, ...]) -> float:
    """How long the crawl takes if nobody leaves or is lost."""
    crawl = changing(seed, kind, servers).crawl
    crawl.simulation.run(crawl.seeds)
    return crawl.simulation.now


def link_counts(crawl: Served) -> dict[int, int]:
    """The back-link counts of all servers, by page."""
    servers = crawl.simulation.cores[: crawl.servers]
    return {
        crawl.web.pages[key]: links for core in servers for key, links in core.role.link_counts()
    }


def in_degrees(crawl: Served, fetched: set[int]) -> dict[int, int]:
    """The links that lead to each page from other pages that are fetched, and from the user."""
    wanted = Counter(crawl.seeds)
    for source, target in set(crawl.links):
        wanted[target] += source in fetched and source != target
    return +wanted


@few_examples
@given(
    st.integers(0, 2**32),
    st.sampled_from([*HANDED, *HELD]),
    st.sampled_from([*TREES, DEEP]),
    st.booleans(),
)
@example(612, ("page", "server"), DEEP, True)
def test_all_pages_are_fetched_whoever_comes_and_goes(
    seed: int, kind: tuple[str, str], servers: tuple[int, ...], reads_logs: bool
) -> None:
    crawl = changing(seed, kind, servers)
    simulation = crawl.crawl.simulation
    lasts = lasting(seed, kind, servers)
    assert crawl.run(random.Random(seed), lasts=lasts, reads_logs=reads_logs)
    wanted = reachable(crawl.crawl.web, crawl.crawl.seeds)
    assert set(simulation.order) == wanted
    firsts = dict(zip(reversed(simulation.order), reversed(simulation.by), strict=True))
    repeated = [page for page, times in Counter(simulation.order).items() if times > 1]
    assert not (reads_logs and repeated)
    assert {firsts[page] for page in repeated} <= crawl.lost
    if reads_logs and kind not in HELD:
        assert link_counts(crawl.crawl) == in_degrees(crawl.crawl, wanted)
    # A client that is lost at the very end, and whose log can't be read, leaves pages in doubt.
    if reads_logs or not crawl.lost_late:
        assert all(c.complete for c in simulation.cores if c.rank not in crawl.lost)


def test_a_url_is_not_asked_again_because_a_client_is_lost_that_redirected_back_to_it() -> None:
    """Its server has already sent on the redirect that the client's log names."""
    chosen = settings("assignment.scheme=dynamic", "dynamic.granularity=site", "dynamic.follow=own")
    cluster = Cluster(make_scheme(chosen, 3), 3, chosen)
    first, second = link("http://a/", REDIRECT), link("http://b/", REDIRECT)
    cluster.start(first.url)
    cluster.settle()
    assert cluster.acquire(1) == first.url
    cluster.end(1, [second])
    cluster.settle()
    assert cluster.acquire(2) == second.url
    found = cluster.end(2, [first]).found
    cluster.settle()
    assert cluster.acquire(1) == first.url
    cluster.end(1)
    members = cluster.cores[0].members
    assert members is not None
    members.lose(2, {found.site: [found.key]}, 1, cluster.now)
    members.recover(2, Logged(found, [first], True), cluster.now)
    members.hand_on(2, cluster.now)
    cluster.tick(0)
    cluster.settle()
    assert cluster.acquire(1) is None


@pytest.mark.parametrize("make_store", [in_a_table, on_disk], ids=["table", "disk"])
@pytest.mark.parametrize("kind", [("page", "server"), *HELD])
def test_a_crawl_is_the_same_with_each_store_of_urls(
    make_store: Callable[[], UrlSeen], kind: tuple[str, str]
) -> None:
    for seed in range(3):
        crawls = [changing(seed, kind, (0,), one) for one in (MemorySeen, make_store)]
        lasts = lasting(seed, kind, (0,))
        for crawl in crawls:
            crawl.run(random.Random(seed), lasts=lasts, reads_logs=True)
        one, other = (crawl.crawl.simulation for crawl in crawls)
        assert (other.order, other.by, other.times) == (one.order, one.by, one.times)
        assert counted(other.cores) == counted(one.cores)


def test_a_site_goes_home_even_if_it_is_leaving_another_client_already() -> None:
    """Client 1 has stood in for the spare, and has left, when the spare comes."""
    chosen = settings("assignment.scheme=dynamic", "dynamic.granularity=dset", "dynamic.spares=1")
    scheme = make_scheme(chosen, 4)
    assert isinstance(scheme, Tree)
    site = next(name for name in map(str, range(99)) if scheme.dsets.holder(name) == 3)
    cluster = Cluster(scheme, 4, chosen)
    cluster.start(f"http://{site}/")
    cluster.settle()
    assert cluster.acquire(1) == f"http://{site}/"
    members = cluster.cores[0].members
    assert members is not None
    members.retire(1, cluster.now)
    members.activate(cluster.now)
    cluster.tick(0)
    cluster.settle()
    cluster.end(1, [link(f"http://{site}/1")])
    cluster.settle()
    assert cluster.acquire(2) is None
    assert cluster.acquire(3) == f"http://{site}/1"


# --- politeness ---------------------------------------------------------------------------------


class Shared(Watched):
    """A watched cluster: no two clients have visits to pages of one site at the same time."""

    def acquire(self, rank: int, *, clocks_are_fast: bool = True) -> str | None:
        address = super().acquire(rank, clocks_are_fast=clocks_are_fast)
        if address is not None and not self.visits[rank][-1].found.is_errand:
            site = self.visits[rank][-1].found.site
            for other, visits in enumerate(self.visits):
                asked = {one.found.site for one in visits if not one.found.is_errand}
                assert other == rank or site not in asked, site
        return address


@few_examples
@given(
    st.integers(0, 2**32),
    st.sampled_from([*HANDED, *HELD]),
    st.sampled_from(TREES),
    st.sampled_from(["site", "site", "address"]),
)
def test_promises_are_kept_whoever_comes_and_goes(
    seed: int, kind: tuple[str, str], servers: tuple[int, ...], per: str
) -> None:
    dice = random.Random(seed)
    arguments = dynamic(
        dice,
        kind,
        1 + dice.randrange(3),
        f"politeness.delay_s={dice.choice([0, 0.5, 30])}",
        f"politeness.connections_per_site={dice.choice([1, 1, 3])}",
        f"politeness.per={per}",
        *PATIENT,
        servers=servers,
        spares=dice.randrange(3),
    )
    cluster = Shared(*arguments, make_seen=stores(dice, late=False))

    def change() -> None:
        members = cluster.cores[dice.choice(range(len(servers)))].members
        assert members is not None
        if dice.random() < 0.15:
            members.retire(dice.randrange(len(servers), cluster.ranks), cluster.now)
        elif dice.random() < 0.15:
            members.activate(cluster.now)

    crawl_politely(cluster, dice, far=dice.choice([0.0, 0.5]), meanwhile=change)
