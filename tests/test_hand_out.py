"""How even and how good the choice of a seed server is, on made webs in virtual time."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from cluster import settings

from crawler.core.door import Door
from crawler.core.dynamic.roles import per_site
from crawler.core.dynamic.seedbench import SeedBacklog
from crawler.core.dynamic.server import Server
from crawler.core.schemes import make_scheme
from crawler.core.tree import Tree
from crawler.ports import CrawlUrl
from crawler.simulate import Delays, Simulation, Web


def star(sites: list[int]) -> Web:
    """A web whose first page links to all others; `sites` are the numbers of pages of the sites."""
    urls = [
        f"http://s{site}.example/{page}" for site, size in enumerate(sites) for page in range(size)
    ]
    return Web(urls, np.array([(0, page) for page in range(1, len(urls))]))


QUICK = Delays((0.1, 0.1), (0.01, 0.01))


def crawl(
    web: Web, clients: int, *more: str, concurrency: int = 2, delays: Delays = QUICK
) -> Simulation:
    chosen = settings("assignment.scheme=dynamic", f"fetch.concurrency={concurrency}", *more)
    simulation = Simulation(
        web,
        chosen,
        make_scheme(chosen, clients + 1),
        clients + 1,
        delays=delays,
        concurrency=concurrency,
    )
    assert simulation.run([0])
    assert sorted(simulation.order) == list(range(len(web)))
    return simulation


def test_a_client_that_would_be_idle_gets_a_site_of_another() -> None:
    # The sites are dealt evenly, but all large ones may be at one client. It would fetch them to
    # the end of the crawl alone.
    sites = [1] + [60, 5] * 6
    simulation = crawl(star(sites), 2, "dynamic.rest_s=60")
    shares = np.bincount(simulation.by, minlength=3)[1:] / sum(sites)
    assert shares.max() < 0.56


def test_a_site_stays_where_it_is_while_all_clients_have_enough_to_do() -> None:
    web = star([1] + [40] * 40)
    simulation = crawl(web, 2, "dynamic.rest_s=60", "politeness.delay_s=0.1")
    half = simulation.order[: len(web) // 2]
    at = {web.url(page).split("/")[2]: set[int]() for page in half}
    for page, rank in zip(half, simulation.by, strict=False):
        at[web.url(page).split("/")[2]].add(rank)
    assert {len(clients) for clients in at.values()} == {1}


@pytest.mark.parametrize(
    ("delay_s", "max_delay_s", "wanted"), [(0, 1, 2), (0.4, 1, 2), (0.5, 1, 1), (10, 1, 1)]
)
def test_a_client_has_one_url_of_a_site_if_the_next_comes_in_time(
    delay_s: float, max_delay_s: float, wanted: int
) -> None:
    chosen = settings(f"politeness.delay_s={delay_s}", f"exchange.max_delay_s={max_delay_s}")
    assert per_site(chosen) == wanted
    assert per_site(settings("dynamic.per_site=3")) == 3


def test_a_client_reports_when_half_of_its_urls_are_dealt_with() -> None:
    # With eight URLs at hand, a report of four comes for each four pages, and an answer to it.
    simulation = crawl(star([1] * 400), 1, "dynamic.stock=8")
    client = simulation.cores[1]
    assert 400 / 4.5 < client.traffic.batches_sent < 400 / 3.5


def test_the_stock_lasts_while_sites_rest() -> None:
    # Of ten connections each could fetch ten pages a second. So with a delay of 2 s, all are used
    # only if about 200 sites are at hand.
    web = star([1] + [40] * 400)
    simulation = crawl(web, 1, "politeness.delay_s=2", concurrency=10)
    middle = [time for time in simulation.times if 60 < time < 90]
    assert len(middle) > 0.8 * 10 * 10 * 30


def test_the_stock_lasts_while_messages_are_slow() -> None:
    # Ten connections fetch 100 pages a second, and a report is answered after a second.
    web = star([1] * 8000)
    slow = Delays((0.1, 0.1), (0.5, 0.5))
    simulation = crawl(web, 1, concurrency=10, delays=slow)
    middle = [time for time in simulation.times if 30 < time < 50]
    assert len(middle) > 0.9 * 100 * 20


@pytest.mark.interpreted
def test_a_server_takes_each_url_in_once_and_counts_all_links(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken, passed = [], []
    add, pass_on = SeedBacklog._add, Door._pass_on

    def noted(backlog: SeedBacklog, found: Sequence[CrawlUrl], *args: Any) -> None:
        taken.extend(one.key for one in found)
        add(backlog, found, *args)

    def slow(door: Door, sender: int, *args: Any) -> bool:
        passed.append(sender)
        return pass_on(door, sender, *args)

    monkeypatch.setattr(SeedBacklog, "_add", noted)
    monkeypatch.setattr(Door, "_pass_on", slow)
    pages = range(60)
    urls = [f"http://s{page % 20}.example/{page}" for page in pages]
    web = Web(urls, np.array([(source, target) for source in pages for target in pages]))
    simulation = crawl(web, 4)
    server = simulation.cores[0].role
    assert isinstance(server, Server)
    counts = dict(server.link_counts())
    assert {counts[link.key] for link in web.links[1:]} == {len(web) - 1}
    assert sorted(taken) == sorted(link.key for link in web.links)
    assert not passed  # the door asks no questions about them


@pytest.mark.parametrize("follow", ["server", "own"])
def test_a_spare_gets_the_sites_of_its_dsets_when_it_comes(follow: str) -> None:
    chosen = settings(
        "assignment.scheme=dynamic",
        "dynamic.granularity=dset",
        f"dynamic.follow={follow}",
        "dynamic.spares=1",
        "dynamic.join_after_s=20",
        "politeness.delay_s=0.5",
    )
    web = star([1] + [100] * 40)
    scheme = make_scheme(chosen, 4)
    assert isinstance(scheme, Tree)
    simulation = Simulation(web, chosen, scheme, 4, delays=QUICK)
    assert simulation.run([0])
    assert sorted(simulation.order) == list(range(len(web)))
    fetched = zip(simulation.order, simulation.by, simulation.times, strict=True)
    of_spare = [
        (time, rank)
        for page, rank, time in fetched
        if scheme.dsets.holder(web.links[page].site) == 3
    ]
    assert {rank for time, rank in of_spare if time < 20} == {1}  # its substitute
    assert {rank for time, rank in of_spare if time > 22} == {3}
    assert len([time for time, _ in of_spare if time > 22]) > 100


def test_rates_stay_steady_when_a_client_joins() -> None:
    # WEB-SAILOR, figure 6, on a smaller scale.
    web = star([1] + [100] * 200)
    chosen = settings(
        "assignment.scheme=dynamic",
        "dynamic.connections=[5,2,2]",
        "dynamic.spares=1",
        "dynamic.join_after_s=60",
        "fetch.concurrency=5",
        "politeness.delay_s=0.5",
    )
    scheme, delays = make_scheme(chosen, 4), Delays((0.2, 0.3), (0.025, 0.025))
    simulation = Simulation(web, chosen, scheme, 4, delays=delays, concurrency=5)
    simulation.run([0], stop_at=(120, 0))
    times, by = np.array(simulation.times), np.array(simulation.by)
    rates = [np.histogram(times[by == rank], 12, (0, 120))[0] for rank in (1, 2, 3)]
    for before, after in ((rate[1:6], rate[7:12]) for rate in rates[:2]):
        assert abs(after.mean() / before.mean() - 1) < 0.05
        assert max(before.std() / before.mean(), after.std() / after.mean()) < 0.1
    assert not rates[2][:6].any()
    assert abs(rates[2][7:].mean() / rates[1][7:].mean() - 1) < 0.1
