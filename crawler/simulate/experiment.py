"""The experiments of the papers: many crawls of one web, side by side on all cores, measured."""

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
from crawler.ownership import make_scheme, replicated_urls
from crawler.simulate.shell import Simulation
from crawler.simulate.web import Web

_MOST_PAGES = 4  # times as many as can be reached: an overlap of 3
_WORTH_A_PROCESS = 200_000  # links to follow; to start a Python and hand it the web takes a second


@dataclass(frozen=True, slots=True)
class Experiment:
    """One crawl to be simulated."""

    settings: config.Config  # the mode, the scheme and all the rest
    procs: int
    seeds: int  # for each process
    repeat: int  # the number of the repetition, which draws its own seeds


@dataclass(frozen=True, slots=True)
class Outcome:
    """The measures of a simulated crawl; names and definitions as in metrics.json."""

    mode: str
    scheme: str
    procs: int
    seeds: int
    repeat: int
    pages: int
    unique_pages: int
    coverage: float
    overlap: float
    quality: float
    communication_overhead: float
    inter_part_urls: int
    inter_part_links: int
    dropped_links: int
    inter_part_pages: int
    messages: int  # (page, other rank) pairs, as messages_page_part
    messages_site_part: int
    batches: int
    virtual_seconds: float


def plan(
    settings: Sequence[config.Config], *, procs: Sequence[int], seeds: int, repeat: int = 1
) -> list[Experiment]:
    """One experiment for each of the settings, number of processes and repetition."""
    return [
        Experiment(one, ranks, seeds, number)
        for one, ranks, number in product(settings, procs, range(repeat))
    ]


def experiments(web: Web, planned: Sequence[Experiment]) -> Iterator[Outcome]:
    """The outcomes of experiments, in their order.

    Several run at a time, one on each core, if they are worth it.
    """
    workers = min(len(os.sched_getaffinity(0)), len(planned))
    if workers < 2 or len(web.targets) * len(planned) < _WORTH_A_PROCESS:
        yield from (conduct(web, one) for one in planned)
        return
    # Fresh processes rather than forks: Arrow's threads don't survive a fork.
    with ProcessPoolExecutor(
        workers, get_context("spawn"), initializer=_take_web, initargs=(web,)
    ) as pool:
        yield from pool.map(_conduct_here, planned)


_web_here: Web | None = None  # in a process of the pool


def _take_web(web: Web) -> None:
    global _web_here  # noqa: PLW0603  set once, when the process starts
    _web_here = web


def _conduct_here(experiment: Experiment) -> Outcome:
    assert _web_here is not None
    return conduct(_web_here, experiment)


def conduct(web: Web, experiment: Experiment) -> Outcome:
    """Crawl and measure.

    The crawl ends when all that the seeds reach has been fetched: what ranks of the independent and
    cross-over modes would do after that is overlap and nothing else. It also ends when they have
    fetched _MOST_PAGES times as many pages: the last few of a web may cost each rank a whole crawl.
    """
    ranks = experiment.procs
    chooser = random.Random(f"{experiment.repeat} {ranks}")
    seeds = chooser.sample(range(len(web)), min(len(web), experiment.seeds * ranks))
    scheme = make_scheme(experiment.settings.assignment, ranks)
    popular = _popular(web, experiment.settings, replicated_urls(scheme))
    reachable = len(web.reachable([*seeds, *popular]))
    simulation = Simulation(
        web, experiment.settings, scheme, ranks, seed=experiment.repeat, encoded=False
    )
    with _no_cycles():
        simulation.run(seeds, replicated=popular, enough=reachable, most=_MOST_PAGES * reachable)
    return measure(simulation, experiment, reachable)


def _popular(web: Web, settings: config.Config, listed: Sequence[str]) -> list[int]:
    """The pages that every rank is to know. This web stands for that of the previous session."""
    if settings.session.mode == "independent":
        return []
    wanted = set(listed)
    popular: list[int] = web.most_linked[: settings.exchange.replicated].tolist()
    return popular + [page for page in range(len(web)) if wanted and web.url(page) in wanted]


@contextmanager
def _no_cycles() -> Iterator[None]:
    """A crawl makes millions of objects and no cycles. To look for some is a sixth of its time."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def measure(simulation: Simulation, experiment: Experiment, reachable: int) -> Outcome:
    """The measures of a finished simulation (Cho and Garcia-Molina 2002, section 4).

    Overlap (N-I)/I and coverage I/U, with N pages fetched, I different ones, U reachable from the
    seeds; quality |A_N n P_N|/|P_N| with P_N the N most linked-to pages of the web; communication
    overhead as URLs exchanged per page fetched.
    """
    pages = sum(map(len, simulation.fetched))
    unique = np.unique(np.concatenate([np.array(one, np.int64) for one in simulation.fetched]))
    important = simulation.web.most_linked[: len(unique)]
    traffic = [core.traffic for core in simulation.cores]
    urls = sum(one.inter_part_urls for one in traffic)
    return Outcome(
        mode=experiment.settings.session.mode,
        scheme=experiment.settings.assignment.scheme,
        procs=experiment.procs,
        seeds=experiment.seeds,
        repeat=experiment.repeat,
        pages=pages,
        unique_pages=len(unique),
        coverage=len(unique) / reachable,
        overlap=(pages - len(unique)) / len(unique),
        quality=len(np.intersect1d(unique, important, assume_unique=True)) / len(important),
        communication_overhead=urls / pages,
        inter_part_urls=urls,
        inter_part_links=sum(one.inter_part_links for one in traffic),
        dropped_links=sum(one.dropped_links for one in traffic),
        inter_part_pages=sum(one.inter_part_pages for one in traffic),
        messages=sum(one.messages_page_part for one in traffic),
        messages_site_part=len(set().union(*(one.site_part for one in traffic))),
        batches=sum(one.batches_sent for one in traffic),
        virtual_seconds=simulation.now,
    )
