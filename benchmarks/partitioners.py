"""How good and how fast our engine partitions, compared with Mt-KaHyPar.

    python benchmarks partitioners GRAPH... -k 4,16,64 --model site [--seeds 5]

GRAPH is a folder that `python -m partition` reads: a session, or pages.parquet and links.parquet.
The hypergraph has a net for each page: its site (or the page itself) and those of the pages that it
links to. Our engine balances bytes and requests (`two`) and bytes alone (`one`). Mt-KaHyPar
(`mtkahypar`, DEFAULT, one thread) balances bytes alone, if it is installed. All have the same
tolerance. Gives a row for each graph, K and engine, with medians over the seeds:
connectivity - 1, both imbalances, CPU seconds of the engine, and memory. Every run is a process of
its own. It is forked after the graph is read and our engine is compiled.
"""

import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from harness import Numbers, Row, Timer, alone, medians

from partition import kahypar
from partition.child import OneWeight, peak_memory
from partition.graph import read
from partition.hypergraph import Hypergraph, connectivity_minus_one, imbalances
from partition.models import hypergraph
from partition.multilevel import partition

TOLERANCE = 0.05
ENGINES = ("two", "one", "mtkahypar")


def measure(h: Hypergraph, engine: str, parts: int, seed: int) -> dict[str, float]:
    with Timer() as timer:
        if engine == "mtkahypar":
            weight = h.weights[:, 0]
            task = OneWeight(h.xpins, h.pins, h.costs, weight, parts, TOLERANCE, seed)
            part, _ = kahypar.partition(task)
        else:
            same = np.repeat(h.weights[:, :1], 2, axis=1)
            balanced = h if engine == "two" else replace(h, weights=same)
            part = partition(balanced, parts, tolerances=(TOLERANCE, TOLERANCE), seed=seed)
    size, requests = imbalances(h, part, parts)
    return {
        "km1": int(connectivity_minus_one(h, part)),
        "bytes": size,
        "requests": requests,
        "cpu_s": timer.cpu_s,
        "peak_mb": peak_memory() >> 20,
    }


def run(
    *graph: Path,
    k: Annotated[Numbers, "numbers of parts"] = (4, 16, 64),
    model: Literal["site", "page"] = "site",
    seeds: int = 3,
) -> Iterator[Row]:
    # Compile our engine.
    partition(Hypergraph(np.array([0, 2]), np.arange(2), np.ones(1, int), np.ones((9, 2), int)), 3)
    engines = [e for e in ENGINES if e != "mtkahypar" or importlib.util.find_spec(e)]
    for folder in graph:
        web = read([folder])
        h = hypergraph(web, web.site if model == "site" else np.arange(web.pages))
        for parts, engine in product(k, engines):
            rows = [alone(partial(measure, h, engine, parts, seed))[0] for seed in range(seeds)]
            yield {"graph": folder.name, "k": parts, "engine": engine, **medians(rows)}
