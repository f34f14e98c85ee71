"""The experiments of the papers: many crawls of one web, in parallel processes, and measured."""

import gc
import os
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context

import numpy as np

from crawler import config
from crawler.core.schemes import make_scheme, replicated_urls
from crawler.modes import mode_of
from crawler.report import measures
from crawler.simulate.shell import Simulation
from crawler.simulate.web import Pages, Web

_MOST_PAGES = 4  # fetches per reachable page at most, which is an overlap of 3
# Links to follow that make parallel processes worth it: starting a process and sending it the web
# takes a second.
_WORTH_A_PROCESS = 200_000


@dataclass(frozen=True, slots=True)
class Experiment:
    """One crawl to be simulated."""

    settings: config.Config
    procs: int  # the number of ranks
    seeds: int  # for each rank
    repeat: int  # the number of the repetition; each repetition draws its own seeds


@dataclass(frozen=True, slots=True)
class Outcome:
    """The measures of a simulated crawl, with the names and definitions of metrics.json.

    Two are new: `batches` counts the batches that were sent, and `virtual_seconds` is the time from
    the start to the end.
    """

    mode: str
    scheme: str
    procs: int
    seeds: int
    repeat: int
    pages: int
    unique_pages: int
    coverage: float | None
    overlap: float | None
    quality: float | None  # by back-links
    quality_pagerank: float | None
    communication_overhead: float
    inter_part_urls: int
    inter_part_links: int
    dropped_links: int
    inter_part_pages: int
    messages_page_part: int
    messages_site_part: int
    batches: int
    virtual_seconds: float
    series: list[dict[str, float | None]]  # the fields of measures.Point


def plan(
    settings: Sequence[config.Config], *, procs: Sequence[int], seeds: int, repeat: int = 1
) -> list[Experiment]:
    """One experiment for each combination of settings, number of ranks and repetition."""
    return [
        Experiment(one, ranks, seeds, number)
        for one, ranks, number in product(settings, procs, range(repeat))
    ]


def experiments(web: Web, planned: Sequence[Experiment]) -> Iterator[Outcome]:
    """Run experiments, and give their outcomes in the order of `planned`.

    If the web is large enough, several run at a time, one on each processor core.
    """
    workers = min(len(os.sched_getaffinity(0)), len(planned))
    if workers < 2 or len(web.targets) * len(planned) < _WORTH_A_PROCESS:
        yield from (conduct(web, one) for one in planned)
        return
    # Processes are spawned and not forked, because Arrow's threads don't survive a fork.
    with ProcessPoolExecutor(
        workers, get_context("spawn"), initializer=_receive_web, initargs=(web,)
    ) as pool:
        yield from pool.map(_conduct_here, planned)


_web_here: Web | None = None  # in a process of the pool


def _receive_web(web: Web) -> None:
    global _web_here  # noqa: PLW0603  set once, when the process starts
    _web_here = web


def _conduct_here(experiment: Experiment) -> Outcome:
    assert _web_here is not None
    return conduct(_web_here, experiment)


def conduct(web: Web, experiment: Experiment) -> Outcome:
    """Simulate one crawl, and measure it.

    The crawl ends when all pages that the seeds reach have been fetched. After that, ranks in the
    modes independent and cross-over would only fetch pages a second time. The crawl also ends after
    _MOST_PAGES times as many fetches, because the last few pages may cost each rank a whole crawl.
    """
    ranks = experiment.procs
    chooser = random.Random(f"{experiment.repeat} {ranks}")
    seeds = chooser.sample(range(len(web)), min(len(web), experiment.seeds * ranks))
    scheme = make_scheme(experiment.settings, ranks)
    popular = _popular(web, experiment.settings, replicated_urls(scheme))
    reachable = web.reachable([*seeds, *popular])
    simulation = Simulation(
        web, experiment.settings, scheme, ranks, seed=experiment.repeat, encoded=False
    )
    with _no_cycles():
        simulation.run(
            seeds,
            replicated=popular,
            enough=len(reachable),
            most=_MOST_PAGES * len(reachable),
        )
    return measure(simulation, experiment, reachable)


def _popular(web: Web, settings: config.Config, listed: Sequence[str]) -> list[int]:
    """The popular pages, which every rank knows from the start.

    A real crawl takes them from the previous session. Here they are taken from the web itself.
    """
    if not mode_of(settings).divides:
        return []
    wanted = set(listed)
    popular: list[int] = web.most_linked[: settings.exchange.replicated].tolist()
    return popular + [page for page in range(len(web)) if wanted and web.url(page) in wanted]


@contextmanager
def _no_cycles() -> Iterator[None]:
    """A context without cyclic garbage collection, which would take a sixth of the time.

    A crawl makes millions of objects, but no reference cycles.
    """
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def measure(simulation: Simulation, experiment: Experiment, reachable: Pages) -> Outcome:
    """The measures of a finished simulation (Cho and Garcia-Molina 2002, section 4).

    Coverage counts the pages that can be reached from the seeds (`reachable`). Quality uses the
    importance that pages have in the whole web.
    """
    order = np.array(simulation.order)
    traffic = [core.traffic for core in simulation.cores]
    urls = sum(one.inter_part_urls for one in traffic)
    points = measures.series(
        order.astype(np.uint64),
        np.ones(len(order), bool),
        np.array(simulation.times),
        simulation.progress,
        simulation.web.reference,
        reachable.astype(np.uint64),
    )
    last = points[-1]
    return Outcome(
        mode=experiment.settings.session.mode,
        scheme=experiment.settings.assignment.scheme,
        procs=experiment.procs,
        seeds=experiment.seeds,
        repeat=experiment.repeat,
        pages=len(order),
        unique_pages=simulation.different,
        coverage=last.coverage,
        overlap=last.overlap,
        quality=last.quality,
        quality_pagerank=last.quality_pagerank,
        communication_overhead=urls / len(order),
        inter_part_urls=urls,
        inter_part_links=sum(one.inter_part_links for one in traffic),
        dropped_links=sum(one.dropped_links for one in traffic),
        inter_part_pages=sum(one.inter_part_pages for one in traffic),
        messages_page_part=sum(one.messages_page_part for one in traffic),
        messages_site_part=len(set().union(*(one.site_part for one in traffic))),
        batches=sum(one.batches_sent for one in traffic),
        virtual_seconds=simulation.now,
        series=[point._asdict() for point in points],
    )
