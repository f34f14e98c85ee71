"""A served web crawled over MPI, and the same crawl simulated: the same decisions, so the same."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import MpiRun
from crawls import crawl_here, demo_config, metrics_of, page_rows

from crawler import config
from crawler.demoweb import DemoWeb, serve
from crawler.ownership import make_scheme
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


@pytest.mark.parametrize("mode", ["exchange", "firewall", "cross-over", "independent"])
def test_a_live_crawl_is_as_simulated(
    tmp_path: Path, mpirun: MpiRun, served: tuple[DemoWeb, int, Web], mode: str
) -> None:
    """To their end, all modes fetch what they fetch whatever the timing, on every single rank."""
    site, port, web = served
    file, session = demo_config(tmp_path / "c.toml", site, port), tmp_path / "s"
    words = ("--session", str(session), "--set", f"session.mode={mode}")
    done = mpirun(RANKS, "-m", "crawler", "crawl", str(file), *words)
    assert done.returncode == 0, done.stderr
    live: dict[int, list[str]] = defaultdict(list)
    for row in page_rows(session):
        live[row["rank"]].append(row["url"])

    settings = config.load(file, [f"session.mode={mode}"])
    page_of = {web.link(page).url: page for page in range(len(web))}
    simulation = Simulation(web, settings, make_scheme(settings.assignment, RANKS), RANKS)
    simulation.run(page_of[seed] for seed in settings.session.seeds)

    for rank, pages in enumerate(simulation.fetched):
        assert sorted(live[rank]) == sorted(web.url(page) for page in pages)
    measures = metrics_of(session)
    assert measures["mode"] == mode
    for name in ("inter_part_urls", "inter_part_links", "dropped_links", "messages_page_part"):
        assert measures[name] == sum(getattr(core.traffic, name) for core in simulation.cores), name
    rows = sum(map(len, live.values()))
    different = len({address for addresses in live.values() for address in addresses})
    assert (rows, different) == (simulation.pages, simulation.different)
    assert (rows > different) == (mode in {"cross-over", "independent"})


def test_a_cross_over_that_is_stopped_has_about_the_overlap_of_the_simulated_one(
    tmp_path: Path, mpirun: MpiRun, served: tuple[DemoWeb, int, Web]
) -> None:
    """As many pages as the web has: half of them at least are different, and not all."""
    site, port, web = served
    file, session = demo_config(tmp_path / "c.toml", site, port), tmp_path / "s"
    limit = len(web) // 2
    options = ["session.mode=cross-over", f"session.max_pages={limit}"]
    sets = [word for option in options for word in ("--set", option)]
    done = mpirun(RANKS, "-m", "crawler", "crawl", str(file), "--session", str(session), *sets)
    assert done.returncode == 0, done.stderr
    settings = config.load(file, options)
    page_of = {web.link(page).url: page for page in range(len(web))}
    simulation = Simulation(web, settings, make_scheme(settings.assignment, RANKS), RANKS)
    simulation.run(page_of[seed] for seed in settings.session.seeds)
    measures = metrics_of(session)
    assert measures["pages"] == simulation.pages == limit
    overlap = simulation.pages / simulation.different - 1
    assert measures["overlap"] == pytest.approx(overlap, abs=0.5)
    print(measures["overlap"], overlap, limit, measures["unique_pages"])
