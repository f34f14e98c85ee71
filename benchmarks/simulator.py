"""How fast the simulator crawls a known web, one crawl after another in this process.

    python benchmarks simulator GRAPH [--modes M,..] [--procs N,..] [--order O] [--repeat R]

Prints a line of JSON for each crawl: pages and links (of the pages fetched, so a page fetched twice
counts twice), CPU seconds, links a second, and the peak of memory so far. `python -m crawler
simulate` would have done the same but for the measures. The first line is about what all crawls
share: the graph is read, and its links are made. Background load slows down memory most, so on a
busy machine compare only runs that took turns (`python benchmarks pairs`).
"""

import argparse
import gc
import random
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from harness import numbers, show, words

from crawler import config
from crawler.core.ownership import make_scheme
from crawler.simulate import Simulation, Web, load_web
from partition.child import peak_memory

SEEDS = 5  # for each process


def crawl(web: Web, settings: config.Config, procs: int, repeat: int) -> dict[str, Any]:
    seeds = random.Random(f"{repeat} {procs}").sample(range(len(web)), SEEDS * procs)
    reachable = len(web.reachable(seeds))
    gc.collect()
    gc.disable()  # as in an experiment
    started = time.process_time()
    scheme = make_scheme(settings.assignment, procs)
    simulation = Simulation(web, settings, scheme, procs, seed=repeat, encoded=False)
    simulation.run(seeds, enough=reachable, most=4 * reachable)
    seconds = time.process_time() - started
    gc.enable()
    links = int(np.diff(web.offsets)[np.array(simulation.order)].sum())
    return {
        "mode": settings.session.mode,
        "procs": procs,
        "pages": simulation.pages,
        "links": links,
        "cpu_s": round(seconds, 2),
        "links_per_s": round(links / seconds),
        "peak_mb": peak_memory() >> 20,
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("graph", type=Path, metavar="GRAPH")
    modes = ["exchange", "firewall", "cross-over"]
    parser.add_argument("--modes", type=words, default=modes, metavar="M,..")
    parser.add_argument("--procs", type=numbers, default=[64], metavar="N,..")
    parser.add_argument("--order", default="breadth-first")
    parser.add_argument("--repeat", type=int, default=1)


def run(options: argparse.Namespace) -> None:
    started = time.process_time()
    web = load_web(options.graph)
    loaded = time.process_time()
    gc.disable()
    figures = {"pages": len(web), "links": len(web.targets), "load_s": round(loaded - started, 2)}
    assert len(web.pages) == len(web.out_links)  # makes them
    gc.enable()
    show(
        figures
        | {"links_made_s": round(time.process_time() - loaded, 2), "peak_mb": peak_memory() >> 20}
    )
    sets = ["politeness.delay_s=0", *(f"traps.{key}=0" for key in config.Traps.model_fields)]
    sets.append(f"frontier.order={options.order}")
    for mode, procs, repeat in product(options.modes, options.procs, range(options.repeat)):
        settings = config.load(None, sets, {"session": {"mode": mode}})
        show(crawl(web, settings, procs, repeat))
