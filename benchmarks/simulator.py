"""How fast the simulator is: crawls of a known web, one after another in this process.

    python benchmarks/simulator.py GRAPH [--modes M,..] [--procs N,..] [--order O] [--repeat R]

A line of JSON for each crawl, with all that `python -m crawler simulate` would have done for it but
the measures: pages and links (of the pages fetched, so a page fetched twice counts twice), CPU
seconds, links a second, and the peak of memory so far. The first line is of what all share, the
graph read and its links made. Background load costs the most where memory is waited for, so on a
busy machine compare only what has run in turns.
"""

import argparse
import gc
import json
import random
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from crawler import config
from crawler.core.ownership import make_scheme
from crawler.simulate import Simulation, Web, load_web

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
        "peak_mb": peak_mb(),
    }


def peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("graph", type=Path)
    parser.add_argument("--modes", default="exchange,firewall,cross-over")
    parser.add_argument("--procs", default="64")
    parser.add_argument("--order", default="breadth-first")
    parser.add_argument("--repeat", type=int, default=1)
    options = parser.parse_args()
    started = time.process_time()
    web = load_web(options.graph)
    loaded = time.process_time()
    gc.disable()
    figures = {"pages": len(web), "links": len(web.targets), "load_s": round(loaded - started, 2)}
    assert len(web.pages) == len(web.out_links)  # makes them
    gc.enable()
    figures |= {"links_made_s": round(time.process_time() - loaded, 2), "peak_mb": peak_mb()}
    show(figures)
    sets = ["politeness.delay_s=0", *(f"traps.{key}=0" for key in config.Traps.model_fields)]
    sets.append(f"frontier.order={options.order}")
    for mode in options.modes.split(","):
        settings = config.load(None, sets, {"session": {"mode": mode}})
        for procs in map(int, options.procs.split(",")):
            for repeat in range(options.repeat):
                show(crawl(web, settings, procs, repeat))


def show(figures: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(figures) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
