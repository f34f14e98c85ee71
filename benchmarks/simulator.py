"""How fast the simulator crawls a known web, one crawl after another in this process.

    python benchmarks simulator GRAPH [--modes M,..] [--procs N,..] [--order O] [--repeat R]

Prints a line of JSON for each crawl: pages and links (of the pages fetched, so a page fetched twice
counts twice), CPU seconds, links a second, and the peak of memory so far. `python -m crawler
simulate` would have done the same but for the measures. The first line is about what all crawls
share: the graph is read, and its links are made. Background load slows down memory most, so on a
busy machine compare only runs that took turns (`python benchmarks pairs`).
"""

import gc
import random
from itertools import product
from pathlib import Path

import numpy as np
from harness import Numbers, Row, Timer, Words, show

from crawler import config
from crawler.core.ownership import make_scheme
from crawler.simulate import Simulation, Web, load_web
from partition.child import peak_memory

SEEDS = 5  # for each process


def crawl(web: Web, settings: config.Config, procs: int, repeat: int) -> Row:
    seeds = random.Random(f"{repeat} {procs}").sample(range(len(web)), SEEDS * procs)
    reachable = len(web.reachable(seeds))
    gc.collect()
    gc.disable()  # as in an experiment
    with Timer() as timer:
        scheme = make_scheme(settings, procs)
        simulation = Simulation(web, settings, scheme, procs, seed=repeat, encoded=False)
        simulation.run(seeds, enough=reachable, most=4 * reachable)
    gc.enable()
    links = int(np.diff(web.offsets)[np.array(simulation.order)].sum())
    return {
        "mode": settings.session.mode,
        "procs": procs,
        "pages": simulation.pages,
        "links": links,
        "cpu_s": round(timer.cpu_s, 2),
        "links_per_s": round(links / timer.cpu_s),
        "peak_mb": peak_memory() >> 20,
    }


def run(
    graph: Path,
    *,
    modes: Words = ("exchange", "firewall", "cross-over"),
    procs: Numbers = (64,),
    order: str = "breadth-first",
    repeat: int = 1,
) -> None:
    with Timer() as loading:
        web = load_web(graph)
    gc.disable()
    with Timer() as making:
        assert len(web.pages) == len(web.out_links)  # makes them
    gc.enable()
    row = {"pages": len(web), "links": len(web.targets), "load_s": round(loading.cpu_s, 2)}
    show(row | {"links_made_s": round(making.cpu_s, 2), "peak_mb": peak_memory() >> 20})
    sets = ["politeness.delay_s=0", *(f"traps.{key}=0" for key in config.Traps.model_fields)]
    sets.append(f"frontier.order={order}")
    for mode, ranks, number in product(modes, procs, range(repeat)):
        settings = config.load(None, sets, {"session": {"mode": mode}})
        show(crawl(web, settings, ranks, number))
