"""Whole crawls of known webs: each reachable page once, and the traffic that the models predict."""

import random
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cluster import Listed, few_examples, settings
from hypothesis import given
from hypothesis import strategies as st
from webs import Setting, crawls, exact, random_web, reachable

from crawler import url
from crawler.__main__ import main
from crawler.core.schemes import SiteHash
from crawler.core.visits import Visit
from crawler.messages import Batch, Message, decode
from crawler.ports import NOFOLLOW, OUT_OF_SCOPE, Failure, UserError
from crawler.session.columns import LINKS, PAGES
from crawler.simulate import (
    Delays,
    Experiment,
    Outcome,
    Simulation,
    Web,
    experiments,
    load_web,
    measure,
    plan,
)

# --- what the models say ----------------------------------------------------------------------


def connectivity_minus_one(nets: Iterable[Iterable[int]], part: Sequence[int]) -> int:
    """By its definition: for each net the number of parts that its pins lie in, less one."""
    return sum(len({part[pin] for pin in net}) - 1 for net in nets)


def target_nets(links: Iterable[tuple[int, int]]) -> list[set[int]]:
    """One net for each page with links to it: the page and every page that links to it."""
    nets: dict[int, set[int]] = {}
    for source, target in links:
        nets.setdefault(target, {target}).add(source)
    return list(nets.values())


def source_nets(links: Iterable[tuple[int, int]]) -> list[set[int]]:
    """One net for each page with links: the page and every page that it links to."""
    return target_nets((target, source) for source, target in links)


# The hypergraph of Mt-KaHyPar's tests: nets {0,2} {0,1,3,4} {3,4,6} {2,5,6}, here the nets of the
# pages 0, 1, 3 and 5. In the parts below, net {0,2} lies in one part, the others in 3, 2 and 2.
TOY = [(0, 2), (1, 0), (1, 3), (1, 4), (3, 4), (3, 6), (5, 2), (5, 6)]
TOY_PARTS = [0, 0, 0, 1, 2, 2, 2]


def test_connectivity_minus_one_of_the_toy() -> None:
    assert sorted(map(sorted, source_nets(TOY))) == [[0, 1, 3, 4], [0, 2], [2, 5, 6], [3, 4, 6]]
    assert connectivity_minus_one(source_nets(TOY), TOY_PARTS) == 4
    # Of the pages linked to, 0 lies in one part with its sources; 2, 3 and 6 in two, 4 in three.
    assert connectivity_minus_one(target_nets(TOY), TOY_PARTS) == 5


# --- random crawls ----------------------------------------------------------------------------


def predicted_traffic(setting: Setting, simulation: Simulation) -> tuple[int, int]:
    """URLs sent and (page, rank) pairs that the nets predict for who fetched what."""
    part = [-1] * len(setting.web)
    for rank, pages in enumerate(simulation.fetched):
        for page in pages:
            part[page] = rank
    links = [link for link in setting.links if part[link[0]] >= 0]
    return (
        connectivity_minus_one(target_nets(links), part),
        connectivity_minus_one(source_nets(links), part),
    )


@pytest.mark.parametrize("late", [False, True])
@few_examples
@given(crawls())
def test_every_reachable_page_once_and_the_traffic_of_the_theorem(
    late: bool, setting: Setting
) -> None:
    """The headline. With `discoverer` a page of a new site is fetched by whoever finds it."""
    simulation = setting.simulation(late=late)
    simulation.run(setting.seeds)
    fetched = [page for pages in simulation.fetched for page in pages]
    assert set(fetched) == reachable(setting.web, setting.seeds)
    assert all(core.ended and core.complete for core in simulation.cores)
    for pages in simulation.fetched:
        assert len(set(pages)) == len(pages)
    if exact(setting):
        assert len(set(fetched)) == len(fetched)
        traffic = [core.traffic for core in simulation.cores]
        urls, messages = predicted_traffic(setting, simulation)
        assert sum(one.inter_part_urls for one in traffic) == urls
        assert sum(one.messages_page_part for one in traffic) == messages


@few_examples
@given(crawls().filter(exact), st.sampled_from(["cache", "batch"]), st.integers(1, 20))
def test_with_less_memory_only_the_number_of_urls_sent_grows(
    setting: Setting, remember: str, cache: int
) -> None:
    simulation = setting.simulation(f"exchange.remember={remember}", f"exchange.cache_urls={cache}")
    simulation.run(setting.seeds)
    fetched = [page for pages in simulation.fetched for page in pages]
    assert sorted(fetched) == sorted(reachable(setting.web, setting.seeds))
    traffic = [core.traffic for core in simulation.cores]
    urls, messages = predicted_traffic(setting, simulation)
    sent = sum(one.inter_part_urls for one in traffic)
    assert urls <= sent <= sum(one.inter_part_links for one in traffic)
    assert sum(one.messages_page_part for one in traffic) == messages


@pytest.mark.parametrize("late", [False, True])
@few_examples
@given(crawls().filter(exact), st.integers(1, 70))
def test_max_pages_is_met_exactly(late: bool, setting: Setting, limit: int) -> None:
    simulation = setting.simulation(f"session.max_pages={limit}", late=late)
    simulation.run(setting.seeds)
    fetched = [page for pages in simulation.fetched for page in pages]
    everything = reachable(setting.web, setting.seeds)
    assert len(fetched) == min(limit, len(everything))
    assert len(set(fetched)) == len(fetched)
    assert set(fetched) <= everything
    assert all(core.complete for core in simulation.cores) == (limit >= len(everything))


@few_examples
@given(crawls().filter(exact), st.floats(0, 5), st.integers(0, 6))
def test_a_stop_at_any_moment_ends_the_crawl_soon(
    setting: Setting, moment: float, rank: int
) -> None:
    simulation = setting.simulation()
    stopper = rank % setting.ranks
    simulation.run(setting.seeds, stop_at=(moment, stopper))
    fetched = [page for pages in simulation.fetched for page in pages]
    everything = reachable(setting.web, setting.seeds)
    assert len(set(fetched)) == len(fetched)
    assert set(fetched) <= everything
    assert all(core.complete for core in simulation.cores) == (set(fetched) == everything)
    # The stop arrives, fetches under way end, what they found is sent, claims and their answers
    # too; then the open wave and two more, each of them there and back.
    longest_fetch, longest_message = setting.delays.fetch[1], setting.delays.message[1]
    assert simulation.now <= moment + longest_fetch + 10 * longest_message


class Logged(Simulation):
    """Keeps the start, the end and the URL of each fetch."""

    def __init__(self, *about: Any, **more: Any) -> None:
        super().__init__(*about, **more)
        self.log: list[tuple[float, float, str]] = []
        self._started: dict[int, float] = {}  # by the key of the URL that is visited

    def _advance(self, rank: int) -> None:
        super()._advance(rank)
        for key in self.cores[rank].unfinished.visiting:
            self._started.setdefault(key, self.now)

    def _fetch_done(self, rank: int, visit: Visit) -> None:
        self.log.append((self._started.pop(visit.found.key), self.now, visit.found.url))
        super()._fetch_done(rank, visit)


@few_examples
@given(crawls().filter(exact), st.integers(1, 4), st.integers(1, 2))
def test_the_sites_of_an_address_share_its_clock(
    setting: Setting, addresses: int, connections: int
) -> None:
    """All is fetched all the same, and the traffic is what it always is."""
    delay_s = 0.3
    address_of = {link.site: str(url.key(link.site) % addresses) for link in setting.web.links}
    simulation = Logged(
        setting.web,
        settings(
            *setting.options,
            "politeness.per=address",
            f"politeness.delay_s={delay_s}",
            f"politeness.connections_per_site={connections}",
        ),
        SiteHash(1),
        1,
        seed=setting.seed,
        delays=setting.delays,
        concurrency=setting.concurrency,
        addresses=address_of,
    )
    simulation.run(setting.seeds)
    assert set(simulation.fetched[0]) == reachable(setting.web, setting.seeds)
    assert len(simulation.fetched[0]) == len(simulation.log)
    for address in set(address_of.values()):
        fetches = sorted(
            (start, end)
            for start, end, page in simulation.log
            if address_of[url.site(page)] == address
        )
        for (start, end), (following, _) in pairwise(fetches):
            assert following >= (end if connections == 1 else start) + delay_s
        for start, _ in fetches:
            assert sum(begun <= start < end for begun, end in fetches) <= connections


@few_examples
@given(crawls().filter(exact), st.floats(0, 0.6))
def test_failures_that_pass_cost_time_and_no_page(setting: Setting, share: float) -> None:
    """Each fetch may fail; with tries enough all is fetched once, and sent as ever."""
    dice = random.Random(setting.seed)
    simulation = setting.simulation("retry.tries=100", "retry.give_up_after=0", "retry.max_s=2")
    simulation._trouble = lambda url, now: Failure.TIMEOUT if dice.random() < share else None
    simulation.run(setting.seeds)
    fetched = [page for pages in simulation.fetched for page in pages]
    assert sorted(fetched) == sorted(reachable(setting.web, setting.seeds))
    urls, messages = predicted_traffic(setting, simulation)
    traffic = [core.traffic for core in simulation.cores]
    assert sum(one.inter_part_urls for one in traffic) == urls
    assert sum(one.messages_page_part for one in traffic) == messages


def test_a_site_that_is_down_for_a_while_is_crawled_when_it_is_back() -> None:
    """a.example is down for the first five seconds; it is asked at 0, 1, 3, 7 (and a bit)."""
    urls = [f"http://{site}.example/{number}" for site in "ab" for number in range(3)]
    web = Web(urls, np.array([(0, 1), (0, 2), (3, 4), (3, 5)]))
    simulation = Logged(
        web,
        settings("retry.tries=5"),
        SiteHash(1),
        1,
        trouble=lambda address, now: Failure.REFUSED if "//a" in address and now < 5 else None,
    )
    simulation.run([0, 3])
    assert sorted(simulation.fetched[0]) == list(range(6))
    assert simulation.fetched[0][:3] == [3, 4, 5]  # the other site didn't wait
    asked = [start for start, _, address in simulation.log if address == urls[0]]
    assert len(asked) == 4
    for (before, after), rest_s in zip(pairwise(asked), (1, 2, 4), strict=True):
        assert rest_s <= after - before <= 1.25 * rest_s + 0.5  # with the fetch


def test_a_dead_site_is_given_up_and_its_urls_dealt_with_at_once() -> None:
    urls = [f"http://a.example/{number}" for number in range(50)]
    web = Web(urls, np.empty((0, 2), np.int64))
    simulation = Logged(
        web, settings(), SiteHash(1), 1, trouble=lambda address, now: Failure.CONNECT_TIMEOUT
    )
    simulation.run(range(50))
    assert len(simulation.log) == 6  # three tries for each of two URLs
    assert simulation.now < 60
    assert simulation.cores[0].complete


def test_a_waking_that_another_has_forestalled_brings_forth_none() -> None:
    """Each page links to the next of its site and to one of the other's. Sites and batches are due
    at different times; wakings that don't end would double with each of them."""
    urls = [f"http://{site}.example/{number}" for site in "ab" for number in range(20)]
    onward = [(page, page + 1) for page in range(39) if page != 19]
    across = [(page, (20 if page < 20 else 0) + (7 * page + 3) % 20) for page in range(40)]
    options = settings("politeness.delay_s=1", "politeness.connections_per_site=3")
    scheme = Listed(2, {"a.example": 0, "b.example": 1})
    simulation = Simulation(Web(urls, np.array(onward + across)), options, scheme, 2)
    assert simulation.run([0, 20], lost_after=400)  # events
    assert [len(pages) for pages in simulation.fetched] == [20, 20]


class Counted(Simulation):
    """Notes, for each page, how many URLs had arrived when it was fetched."""

    def __init__(self, *about: Any, **more: Any) -> None:
        super().__init__(*about, **more)
        self.arrived, self.counts = 0, list[int]()

    def _arrives(self, rank: int, about: tuple[int, bytes | Message]) -> None:
        _, message = about
        message = decode(message) if isinstance(message, bytes) else message
        self.arrived += len(message.urls) if isinstance(message, Batch) else 0
        super()._arrives(rank, about)

    def _fetch_done(self, rank: int, visit: Visit) -> None:
        self.counts.append(self.arrived)
        super()._fetch_done(rank, visit)


@given(crawls())
def test_progress_is_what_had_arrived_when_each_page_was_fetched(setting: Setting) -> None:
    """Counted once more, message by message and page by page."""
    simulation = setting.simulation(kind=Counted)
    simulation.run(setting.seeds)
    assert isinstance(simulation, Counted)
    assert simulation.progress.tolist() == simulation.counts


def test_the_same_seed_gives_the_same_crawl() -> None:
    dice = random.Random(5)
    web, _ = random_web(dice)
    runs = []
    for seed in (1, 1, 2):
        simulation = Simulation(web, settings(), SiteHash(3), 3, seed=seed)
        simulation.run([0])
        runs.append((simulation.now, simulation.fetched))
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


# --- crawls that can be checked by hand -------------------------------------------------------


def measured(simulation: Simulation, seeds: Iterable[int]) -> Outcome:
    experiment = Experiment(simulation.settings, len(simulation.cores), 1, 0)
    return measure(simulation, experiment, simulation.web.reachable(seeds))


def toy(links: list[tuple[int, int]], *overrides: str) -> Simulation:
    """A crawl of seven sites of one page each, in three parts, from all pages."""
    sites = [f"{number}.example" for number in range(7)]
    web = Web([f"http://{site}/" for site in sites], np.array(links))
    scheme = Listed(3, dict(zip(sites, TOY_PARTS, strict=True)))
    simulation = Simulation(web, settings(*overrides), scheme, 3)
    simulation.run(range(7))
    assert list(map(sorted, simulation.fetched)) == [[0, 1, 2], [3], [4, 5, 6]]
    return simulation


def test_the_toy_sends_what_its_nets_say() -> None:
    simulation = toy(TOY)
    outcome = measured(simulation, range(7))
    assert outcome.messages_page_part == 4  # pages 1 (to two ranks), 3 and 5
    assert outcome.messages_site_part == 4  # as many: each page is a site
    assert outcome.inter_part_urls == 5  # 3 and 4 from rank 0; 4 and 6 from rank 1; 2 from rank 2
    assert outcome.inter_part_links == 5
    backwards = measured(toy([(target, source) for source, target in TOY]), range(7))
    assert backwards.inter_part_urls == 4  # its target nets are the toy's source nets
    assert backwards.messages_page_part == 5


def test_what_each_memory_sends_of_a_url_that_three_pages_link_to() -> None:
    """Pages 0 to 2 of one rank link to page 3 of the other; each batch is of one page."""
    urls = [f"http://a.example/{number}" for number in range(3)] + ["http://b.example/"]
    web = Web(urls, np.array([(0, 3), (1, 3), (2, 3)]))
    scheme = Listed(2, {"a.example": 0, "b.example": 1})
    sent = {}
    for remember in ("all", "cache", "batch"):
        options = settings(f"exchange.remember={remember}", "exchange.batch_pages=1")
        simulation = Simulation(web, options, scheme, 2)
        simulation.run([0, 1, 2])
        sent[remember] = simulation.cores[0].traffic.inter_part_urls
    assert sent == {"all": 1, "cache": 1, "batch": 3}


def test_the_thesis_rule_fetches_twice_what_two_ranks_find() -> None:
    """The pages of a and b link to the same page of an unlisted site."""
    web = Web(
        ["http://a.example/", "http://b.example/", "http://new.example/"],
        np.array([(0, 2), (1, 2)]),
    )
    scheme = Listed(2, {"a.example": 0, "b.example": 1})
    simulation = Simulation(web, settings("assignment.unlisted=discoverer"), scheme, 2)
    simulation.run([0, 1])
    assert simulation.fetched == [[0, 2], [1, 2]]
    outcome = measured(simulation, [0, 1])
    assert (outcome.pages, outcome.unique_pages) == (4, 3)
    assert outcome.overlap == pytest.approx(1 / 3)
    assert outcome.coverage == 1
    assert outcome.communication_overhead == 0


def test_quality_is_the_share_of_the_most_linked_pages() -> None:
    """Five pages; 4 and 3 have the most back-links, and a limit stops the crawl after 0 and 4."""
    urls = [f"http://a.example/{number}" for number in range(5)]
    web = Web(urls, np.array([(0, 4), (1, 4), (2, 4), (1, 3), (2, 3), (4, 1)]))
    assert web.most_linked[:2].tolist() == [4, 3]
    simulation = Simulation(web, settings("session.max_pages=2"), SiteHash(1), 1)
    simulation.run([0])
    assert simulation.fetched == [[0, 4]]
    outcome = measured(simulation, [0])
    assert outcome.quality == 0.5
    assert outcome.coverage == pytest.approx(2 / 4)  # 0, 4, 1 and 3 can be reached


def test_a_simulated_crawl_is_measured_by_pagerank_too_and_over_time() -> None:
    """Page 4 has the most back-links, then 3; it hands all that it has to 1, which has most."""
    urls = [f"http://a.example/{number}" for number in range(5)]
    web = Web(urls, np.array([(0, 4), (1, 4), (2, 4), (1, 3), (2, 3), (4, 1)]))
    simulation = Simulation(web, settings("session.max_pages=2"), SiteHash(1), 1)
    simulation.run([4])
    assert simulation.fetched == [[4, 1]]
    outcome = measured(simulation, [4])
    assert (outcome.quality, outcome.quality_pagerank) == (0.5, 1.0)
    one, two = outcome.series
    assert (one["pages"], one["quality"], one["quality_pagerank"]) == (1, 1.0, 0.0)
    assert (two["pages"], two["quality"], two["quality_pagerank"]) == (2, 0.5, 1.0)
    assert (one["coverage"], two["coverage"]) == (1 / 3, 2 / 3)  # of 4, 1 and 3


def test_experiments_run_each_number_of_processes_as_often_as_asked() -> None:
    web, _ = random_web(random.Random(7))
    modes = [settings(f"session.mode={mode}") for mode in ("exchange", "firewall")]
    outcomes = list(experiments(web, plan(modes, procs=[1, 3], seeds=2, repeat=2)))
    assert [(one.mode, one.procs, one.repeat) for one in outcomes] == [
        (mode, procs, repeat)
        for mode in ("exchange", "firewall")
        for procs in (1, 3)
        for repeat in (0, 1)
    ]
    for one in outcomes:
        assert one.overlap == 0
        assert one.coverage == 1 or (one.mode == "firewall" and one.dropped_links)
        assert one.inter_part_urls == 0 or (one.procs == 3 and one.mode == "exchange")
        assert one.series[-1]["pages"] == one.pages


def test_experiments_side_by_side_give_what_they_give_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    web, _ = random_web(random.Random(8))
    planned = plan([settings()], procs=[1, 2, 3], seeds=1, repeat=2)
    one_by_one = list(experiments(web, planned))
    monkeypatch.setattr("crawler.simulate.experiment._WORTH_A_PROCESS", 0)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    assert list(experiments(web, planned)) == one_by_one


@pytest.mark.parametrize(
    ("enough", "most", "different", "pages"),
    [(60, 1000, range(60, 62), range(8 * 50, 8 * 60)), (100, 400, range(50, 100), range(400, 408))],
)
def test_a_crawl_can_be_told_when_it_is_enough(
    enough: int, most: int, different: range, pages: range
) -> None:
    """Eight independent ranks go round a ring of a hundred pages, from the first eight."""
    web = Web(
        [f"http://a.example/{n}" for n in range(100)],
        np.array([(n, (n + 1) % 100) for n in range(100)]),
    )
    delays = Delays(fetch=(1, 1.01))
    options = settings("session.mode=independent", "politeness.connections_per_site=16")
    simulation = Simulation(web, options, SiteHash(8), 8, delays=delays)
    simulation.run(range(8), enough=enough, most=most)
    assert simulation.different in different
    assert simulation.pages in pages


def test_the_most_linked_pages_are_replicated_and_cost_nothing() -> None:
    """Page 1 has three back-links and page 2 two; ranks 0 and 1 hold a and b."""
    urls = [f"http://{site}.example/{n}" for n, site in enumerate("abbaa")]
    web = Web(urls, np.array([(0, 1), (3, 1), (4, 1), (0, 2), (3, 2), (0, 3), (0, 4)]))
    sites = ["assignment.scheme=hierarchical", 'assignment.suffixes={"a.example"=0,"b.example"=1}']
    sent = []
    for number in range(3):
        options = settings(*sites, f"exchange.replicated={number}")
        planned = plan([options], procs=[2], seeds=5)
        for one in experiments(web, planned):
            assert one.coverage == 1
            assert one.overlap == 0
            sent.append(one.inter_part_urls)
    assert sent == [2, 1, 0]


def test_independent_crawls_end_when_there_is_nothing_new() -> None:
    """Four pages in a ring, two ranks: 0, 1 and 2, 3; to go on would be overlap and no more."""
    web = Web(
        [f"http://a.example/{n}" for n in range(4)], np.array([(0, 1), (1, 2), (2, 3), (3, 0)])
    )
    planned = plan([settings("session.mode=independent")], procs=[2], seeds=2)
    (outcome,) = experiments(web, planned)
    assert outcome.coverage == 1
    assert outcome.pages < 8  # as many as both would fetch


# --- webs -------------------------------------------------------------------------------------


def test_self_links_and_repeated_links_count_for_nothing() -> None:
    web = Web(["http://a.example/0", "http://a.example/1"], np.array([(0, 1), (0, 0), (0, 1)]))
    assert [link.url for link in web.out_links[0]] == ["http://a.example/1"]
    assert web.out_links[1] == ()
    assert len(web) == 2


def test_reachable_follows_links_forward() -> None:
    urls = [f"http://a.example/{number}" for number in range(5)]
    web = Web(urls, np.array([(0, 1), (1, 2), (2, 0), (3, 0)]))
    assert reachable(web, [0]) == {0, 1, 2}
    assert reachable(web, [3, 4]) == {0, 1, 2, 3, 4}
    assert reachable(web, []) == set()


def write(folder: Path, **tables: pa.Table) -> Path:
    folder.mkdir(exist_ok=True)
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet")
    return folder


def edges(web: Web) -> set[tuple[str, str]]:
    return {(web.url(p), link.url) for p in range(len(web)) for link in web.out_links[p]}


def urls(web: Web) -> list[str]:
    return [web.url(page) for page in range(len(web))]


@pytest.mark.parametrize("folder", ["", "tables"])
def test_a_web_from_a_session_has_the_pages_that_were_only_linked_to(
    tmp_path: Path, folder: str
) -> None:
    """As after a crawl that was stopped; links out of scope aren't followed."""
    a, b, new, outside = (
        "http://a.example/",
        "http://b.example/",
        "http://b.example/new",
        "http://c.example/",
    )
    pages = [{"url": address, "key": url.key(address)} for address in (a, b)]
    links = [
        {
            "source_key": url.key(source),
            "target_key": url.key(target),
            "target_url": target,
            "flags": flags,
        }
        for source, target, flags in (
            (a, b, 0),
            (a, b, NOFOLLOW),
            (b, new, NOFOLLOW),
            (b, outside, OUT_OF_SCOPE),
        )
    ]
    write(
        tmp_path / folder,
        pages=pa.Table.from_pylist(pages, PAGES),
        links=pa.Table.from_pylist(links, LINKS),
    )
    web = load_web(tmp_path)
    assert urls(web) == [a, b, new]
    assert edges(web) == {(a, b), (b, new)}


def test_a_web_from_a_graph_directory(tmp_path: Path) -> None:
    links = pa.table({"src": [10, 30, 30], "dst": [30, 10, 20]})
    texts = ["http://A.example", "http://b.example/x#top", "http://b.example/y"]
    write(tmp_path, pages=pa.table({"id": [10, 20, 30], "url": texts}), links=links)
    web = load_web(tmp_path)
    assert urls(web) == ["http://a.example/", "http://b.example/x", "http://b.example/y"]
    assert edges(web) == {
        ("http://a.example/", "http://b.example/y"),
        ("http://b.example/y", "http://a.example/"),
        ("http://b.example/y", "http://b.example/x"),
    }


@pytest.mark.parametrize("site", ["a.example", "http://a.example"])
def test_pages_of_a_graph_without_urls_keep_their_sites(tmp_path: Path, site: str) -> None:
    pages = pa.table({"id": [0, 1, 2], "site": [site, site, "http://b.example:81"]})
    table = pa.table({"src": [0, 1], "dst": [1, 2]})
    web = load_web(write(tmp_path, pages=pages, links=table))
    links = web.links
    assert len({link.key for link in links}) == 3
    assert [link.site for link in links] == [
        "a.example",
        "a.example",
        "b.example:81",
    ]


def test_a_graph_without_links_is_a_web(tmp_path: Path) -> None:
    none = pa.array([], pa.int64())
    pages = pa.table({"id": [0], "site": ["a.example"]})
    web = load_web(write(tmp_path, pages=pages, links=pa.table({"src": none, "dst": none})))
    assert reachable(web, [0]) == {0}


def test_pages_that_no_crawl_could_fetch_are_left_out_with_their_links(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = ["http://a.example/", "http://198.133.37.08/", None, "http://b.example/"]
    links = pa.table({"src": [0, 0, 1, 2, 0], "dst": [1, 2, 3, 3, 3]})
    path = write(tmp_path, pages=pa.table({"id": [0, 1, 2, 3], "url": texts}), links=links)
    web = load_web(path)
    assert urls(web) == ["http://a.example/", "http://b.example/"]
    assert edges(web) == {("http://a.example/", "http://b.example/")}
    assert web.left_out == 2
    assert main(["simulate", str(path), "--procs", "1", "--seeds", "1"]) == 0
    assert "left out: 2 pages" in capsys.readouterr().err


def refused(path: Path) -> str:
    with pytest.raises(UserError) as error:
        load_web(path)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_folder_without_tables_is_refused(tmp_path: Path) -> None:
    assert "pages.parquet" in refused(tmp_path)
    assert "none" in refused(tmp_path / "none")


def test_files_that_are_no_tables_or_other_tables_are_refused(tmp_path: Path) -> None:
    good = pa.table({"src": [0], "dst": [0]})
    write(tmp_path, links=good)
    (tmp_path / "pages.parquet").write_bytes(b"no table")
    assert str(tmp_path) in refused(tmp_path)
    write(tmp_path, pages=pa.table({"x": [0]}))
    assert str(tmp_path) in refused(tmp_path)


@pytest.mark.parametrize("target", [1, 5, -7])
def test_a_link_to_no_page_is_refused(tmp_path: Path, target: int) -> None:
    pages = pa.table({"id": [0, 2], "site": ["a.example", "b.example"]})
    links = pa.table({"src": [0], "dst": [target]})
    assert str(target) in refused(write(tmp_path, pages=pages, links=links))
