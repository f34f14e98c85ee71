"""A served web crawled over MPI, and the same crawl simulated: the same decisions, so the same."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path

import pytest
from conftest import MpiRun
from crawls import crawl_here, demo_config, metrics_of, page_rows, sets

from crawler import config, session, url
from crawler.core.schemes import make_scheme
from crawler.demo.web import DemoWeb, serve
from crawler.simulate import Simulation, Web, load_web

RANKS = 4


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DemoWeb, int, Web]]:
    """A web that is being served, and what a crawl by one rank finds it to be."""
    with serve(3, 200, 12) as (web, port):
        folder = tmp_path_factory.mktemp("whole")
        done = crawl_here(folder / "s", str(demo_config(folder / "c.toml", web, port)))
        assert done.returncode == 0, done.stderr
        yield web, port, load_web(folder / "s")


@pytest.mark.parametrize(
    "mode",
    [
        "exchange",
        *(
            pytest.param(mode, marks=pytest.mark.slow)
            for mode in ("firewall", "cross-over", "independent")
        ),
    ],
)
def test_a_live_crawl_is_as_simulated(
    tmp_path: Path, mpirun: MpiRun, served: tuple[DemoWeb, int, Web], mode: str
) -> None:
    """To their end, all modes fetch what they fetch whatever the timing, on every single rank."""
    site, port, web = served
    file, directory = demo_config(tmp_path / "c.toml", site, port), tmp_path / "s"
    words = ("--session", str(directory), "--set", f"session.mode={mode}")
    done = mpirun(RANKS, "-m", "crawler", "crawl", str(file), *words)
    assert done.returncode == 0, done.stderr
    live: dict[int, list[str]] = defaultdict(list)
    for row in page_rows(directory):
        live[row["rank"]].append(row["url"])

    simulation = simulated(web, file, f"session.mode={mode}")
    for rank, pages in enumerate(simulation.fetched):
        assert sorted(live[rank]) == sorted(web.url(page) for page in pages)
    measures = metrics_of(directory)
    assert measures["mode"] == mode
    for name in ("inter_part_urls", "inter_part_links", "dropped_links", "messages_page_part"):
        assert measures[name] == sum(getattr(core.traffic, name) for core in simulation.cores), name
    rows = sum(map(len, live.values()))
    different = len({address for addresses in live.values() for address in addresses})
    assert (rows, different) == (simulation.pages, simulation.different)
    assert (rows > different) == (mode in {"cross-over", "independent"})


@pytest.mark.slow
def test_a_cross_over_that_is_stopped_has_about_the_overlap_of_the_simulated_one(
    tmp_path: Path, mpirun: MpiRun, served: tuple[DemoWeb, int, Web]
) -> None:
    """After as many pages as the web has. How many two ranks both have depends on which is faster:
    two dozen live crawls covered 0.82 to 0.86 of the web, simulated ones 0.84 to 0.88."""
    site, port, web = served
    file, directory = demo_config(tmp_path / "c.toml", site, port), tmp_path / "s"
    options = ["session.mode=cross-over", f"session.max_pages={len(web)}"]
    words = ("--session", str(directory), *sets(*options))
    done = mpirun(RANKS, "-m", "crawler", "crawl", str(file), *words)
    assert done.returncode == 0, done.stderr
    simulation = simulated(web, file, *options)
    assert simulation.pages == len(web)
    # URLs that robots.txt denies are no pages to a live crawl's limit.
    rows = sorted(page_rows(directory), key=itemgetter("time"))[: len(web)]
    different = len({row["url"] for row in rows})
    assert len(rows) == len(web)
    size = len(web)
    assert different / size == pytest.approx(simulation.different / size, abs=0.08)
    assert size / different == pytest.approx(size / simulation.different, abs=0.12)


def test_what_is_to_be_replicated_must_come_from_somewhere(tmp_path: Path) -> None:
    for value, reason in (("5", "needs session.previous"), ("-1", "greater than or equal to 0")):
        done = crawl_here(
            tmp_path / "s", "http://127.0.0.1:9/", *sets(f"exchange.replicated={value}")
        )
        assert done.returncode == 2
        assert f"exchange.replicated = {value}" in done.stderr
        assert reason in done.stderr
        assert done.stderr.count("\n") == 1
        assert not (tmp_path / "s").exists()


@pytest.mark.slow
def test_popular_urls_of_the_previous_session_are_sent_by_nobody(
    tmp_path: Path, mpirun: MpiRun, served: tuple[DemoWeb, int, Web]
) -> None:
    """Known to every rank from the start, they begin at their owners; the rest is as simulated."""
    site, port, web = served
    file, sent = demo_config(tmp_path / "c.toml", site, port), []
    assert crawl_here(tmp_path / "before", str(file)).returncode == 0
    previous = f'session.previous="{tmp_path / "before"}"'
    for number in (0, 50):
        directory = tmp_path / str(number)
        words = ("--session", str(directory), *sets(previous, f"exchange.replicated={number}"))
        done = mpirun(RANKS, "-m", "crawler", "crawl", str(file), *words)
        assert done.returncode == 0, done.stderr
        popular = session.replicated(directory)
        assert len(popular) == number
        simulation = simulated(web, file, popular=popular)
        sent.append(metrics_of(directory)["inter_part_urls"])
        assert sent[-1] == sum(core.traffic.inter_part_urls for core in simulation.cores)
        for rank, pages in enumerate(simulation.fetched):
            urls = [row["url"] for row in page_rows(directory) if row["rank"] == rank]
            assert sorted(urls) == sorted(web.url(page) for page in pages)
    assert sent[1] < sent[0]


@pytest.mark.slow
def test_popular_urls_out_of_scope_are_fetched_by_nobody(
    tmp_path: Path, mpirun: MpiRun, served: tuple[DemoWeb, int, Web]
) -> None:
    """The previous session knew one site more, with popular pages."""
    site, port, _ = served
    file, directory = demo_config(tmp_path / "c.toml", site, port), tmp_path / "s"
    assert crawl_here(tmp_path / "before", str(file)).returncode == 0
    most_linked = session.alone(session.most_linked(tmp_path / "before", 50, session.Alone()))
    popular = Counter(map(url.authority, most_linked))
    seeds = set(map(url.authority, site.seeds))
    left_out = next(name for name, _ in popular.most_common() if name not in seeds)
    known = [host for host in site.hosts if left_out != f"http://{host}"]
    options = [f"scope.hosts={json.dumps(known)}", f'session.previous="{tmp_path / "before"}"']
    words = ("--session", str(directory), *sets(*options, "exchange.replicated=50"))
    done = mpirun(RANKS, "-m", "crawler", "crawl", str(file), *words)
    assert done.returncode == 0, done.stderr
    assert sum(url.authority(u) == left_out for u in session.replicated(directory)) > 0
    fetched = [row["url"] for row in page_rows(directory)]
    assert len(fetched) == len(set(fetched))
    assert left_out not in map(url.authority, fetched)
    alone = crawl_here(tmp_path / "alone", str(file), *sets(options[0]))
    assert alone.returncode == 0, alone.stderr
    assert set(fetched) >= {row["url"] for row in page_rows(tmp_path / "alone")}


def simulated(web: Web, file: Path, *options: str, popular: Sequence[str] = ()) -> Simulation:
    """The crawl of a configuration."""
    settings = config.load(file, options)
    page_of = {web.url(page): page for page in range(len(web))}
    simulation = Simulation(web, settings, make_scheme(settings, RANKS), RANKS)
    seeds, replicated = ([page_of[u] for u in urls] for urls in (settings.session.seeds, popular))
    simulation.run(seeds, replicated=replicated)
    return simulation
