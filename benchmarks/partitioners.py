"""Compare the engine with Mt-KaHyPar on graphs: connectivity - 1, imbalances, CPU seconds, memory.

    python benchmarks/partitioners.py GRAPH... -k 4,16,64 --model site [--seeds 5]

GRAPH is a folder that `python -m partition` reads, a session or pages.parquet and links.parquet.
The hypergraph has a net for every page: its site (or itself) and those of the pages it links to.
Ours balances bytes and requests (`two`) and bytes alone (`one`); Mt-KaHyPar (`mtkahypar`, DEFAULT,
one thread), if it is installed, bytes alone. All have the same tolerance. Each result is counted
by partition.hypergraph. Medians over the seeds; every run is a process of its own, whose CPU
seconds don't hold the reading of the graph nor, by a warm-up, the compilation.
"""

import argparse
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np

from partition.child import peak_memory
from partition.graph import read
from partition.hypergraph import (
    Hypergraph,
    connectivity_minus_one,
    contract,
    imbalances,
    simplify,
)
from partition.multilevel import partition

TOLERANCE = 0.05
ENGINES = ("two", "one", "mtkahypar")


def hypergraph(path: Path, model: str) -> Hypergraph:
    web = read([path])
    pages = np.arange(web.pages, dtype=np.int32)
    h = Hypergraph(
        xpins=web.xadj + np.arange(web.pages + 1),
        pins=np.insert(web.adj, web.xadj[:-1], pages),
        costs=np.ones(web.pages, np.int64),
        weights=np.stack([web.bytes, np.ones(web.pages, np.int64)], axis=1),
    )
    return contract(h, web.site, len(web.sites)) if model == "site" else simplify(h)


def mtkahypar_parts(h: Hypergraph, parts: int, seed: int) -> Callable[[], np.ndarray]:
    import mtkahypar  # noqa: PLC0415 - an engine that need not be there

    library = mtkahypar.initialize(1)
    context = library.context_from_preset(mtkahypar.PresetType.DEFAULT)
    context.set_partitioning_parameters(parts, TOLERANCE, mtkahypar.Objective.KM1)
    context.logging = False
    weights = h.weights[:, 0] // max(1, int(h.weights[:, 0].sum()) >> 29)  # it takes 32 bits
    nets = np.split(h.pins, h.xpins[1:-1])
    theirs = library.create_hypergraph(
        context, h.vertices, h.nets, nets, np.maximum(weights, 1).tolist(), h.costs.tolist()
    )
    mtkahypar.set_seed(seed)
    return lambda: np.array(theirs.partition(context).get_partition(), np.int32)


def run(path: Path, model: str, engine: str, parts: int, seed: int) -> dict[str, float]:
    h = hypergraph(path, model)
    if engine == "mtkahypar":
        work = mtkahypar_parts(h, parts, seed)
    else:
        same = np.repeat(h.weights[:, :1], 2, axis=1)
        task = h if engine == "two" else replace(h, weights=same)
        toy = Hypergraph(
            np.array([0, 2]), np.array([0, 1], np.int32), np.ones(1, np.int64), np.ones((9, 2), int)
        )
        partition(toy, 3, tries=1)

        def work() -> np.ndarray:
            return partition(task, parts, tolerances=(TOLERANCE, TOLERANCE), seed=seed)

    start = time.process_time()
    part = work()
    seconds = time.process_time() - start
    size, requests = imbalances(h, part, parts)
    return {
        "km1": connectivity_minus_one(h, part),
        "bytes": size,
        "requests": requests,
        "cpu_s": seconds,
        "peak_mb": peak_memory() / 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graphs", nargs="+", type=Path)
    parser.add_argument("-k", default="4,16,64", help="numbers of parts")
    parser.add_argument("--model", choices=["site", "page"], default="site")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--one", help=argparse.SUPPRESS)  # a run of a child: engine,parts,seed
    options = parser.parse_args()
    if options.one:
        engine, parts, seed = options.one.split(",")
        print(json.dumps(run(options.graphs[0], options.model, engine, int(parts), int(seed))))
        return
    engines = [e for e in ENGINES if e != "mtkahypar" or importlib.util.find_spec(e)]
    print("graph\tk\tengine\tkm1\tbytes\trequests\tCPU s\tpeak MB")
    for graph in options.graphs:
        for parts in options.k.split(","):
            for engine in engines:
                rows = []
                for seed in range(options.seeds):
                    command = [sys.executable, __file__, str(graph), "--model", options.model]
                    command += ["--one", f"{engine},{parts},{seed}"]
                    child = subprocess.run(command, stdout=subprocess.PIPE, check=True)
                    rows.append(json.loads(child.stdout))
                m = {name: median(row[name] for row in rows) for name in rows[0]}
                print(
                    f"{graph.name}\t{parts}\t{engine}\t{m['km1']:.0f}\t{m['bytes']:.2%}"
                    f"\t{m['requests']:.2%}\t{m['cpu_s']:.1f}\t{m['peak_mb']:.0f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
