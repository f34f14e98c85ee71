"""How good and how fast our engine partitions, beside Mt-KaHyPar.

    python benchmarks partitioners GRAPH... -k 4,16,64 --model site [--seeds 5]

GRAPH is a folder that `python -m partition` reads: a session, or pages.parquet and links.parquet.
The hypergraph has a net for each page: its site (or the page itself) and those of the pages that it
links to. Our engine balances bytes and requests (`two`) and bytes alone (`one`). Mt-KaHyPar
(`mtkahypar`, DEFAULT, one thread) balances bytes alone, if it is installed. All have the same
tolerance. Prints a line of JSON for each graph, K and engine, with medians over the seeds:
connectivity - 1, both imbalances, CPU seconds of the engine, and memory. Every run is a process of
its own, forked when the graph is read and our engine is compiled.
"""

import argparse
import importlib.util
import time
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from harness import alone, medians, numbers, show

from partition import kahypar
from partition.child import OneWeight, peak_memory
from partition.graph import read
from partition.hypergraph import Hypergraph, connectivity_minus_one, imbalances
from partition.models import hypergraph
from partition.multilevel import partition

TOLERANCE = 0.05
ENGINES = ("two", "one", "mtkahypar")


def warm_up() -> None:
    """Compile our engine."""
    toy = Hypergraph(
        np.array([0, 2]), np.array([0, 1], np.int32), np.ones(1, np.int64), np.ones((9, 2), int)
    )
    partition(toy, 3)


def measure(h: Hypergraph, engine: str, parts: int, seed: int) -> dict[str, float]:
    start = time.process_time()
    if engine == "mtkahypar":
        weight = h.weights[:, 0]
        task = OneWeight(h.xpins, h.pins, h.costs, weight, parts, TOLERANCE, seed)
        part, _ = kahypar.partition(task)
    else:
        same = np.repeat(h.weights[:, :1], 2, axis=1)
        balanced = h if engine == "two" else replace(h, weights=same)
        part = partition(balanced, parts, tolerances=(TOLERANCE, TOLERANCE), seed=seed)
    seconds = time.process_time() - start
    size, requests = imbalances(h, part, parts)
    return {
        "km1": int(connectivity_minus_one(h, part)),
        "bytes": size,
        "requests": requests,
        "cpu_s": seconds,
        "peak_mb": peak_memory() >> 20,
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("graphs", nargs="+", type=Path, metavar="GRAPH")
    parser.add_argument("-k", type=numbers, default=[4, 16, 64], help="numbers of parts")
    parser.add_argument("--model", choices=["site", "page"], default="site")
    parser.add_argument("--seeds", type=int, default=3, help="default: 3")


def run(options: argparse.Namespace) -> None:
    warm_up()
    engines = [e for e in ENGINES if e != "mtkahypar" or importlib.util.find_spec(e)]
    for graph in options.graphs:
        web = read([graph])
        h = hypergraph(web, web.site if options.model == "site" else np.arange(web.pages))
        for parts, engine in product(options.k, engines):
            rows = [
                alone(partial(measure, h, engine, parts, seed))[0] for seed in range(options.seeds)
            ]
            show({"graph": graph.name, "k": parts, "engine": engine, **medians(rows)})
