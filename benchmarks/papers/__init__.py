"""What the models of the partitioning papers, and ours, do to link graphs.

    python benchmarks papers GRAPH... [--models M,..] [-k K,..] [--repeat R] --out DIR
    python benchmarks papers GRAPH... --build hybrid:64,site-hypergraph:16 --out DIR
    python benchmarks papers --check --plots --out DIR

GRAPH is a folder of `python -m partition import` or `synthesize`; its name names the graph. Each
model, K and seed is a process of its own, forked when the graph has been read. So its CPU seconds
(model, engine and evaluation) and its peak memory (with the graph) are its own. Runs are appended
to DIR/runs.jsonl and never repeated. Hashing, which no seed changes, runs once. At the end
DIR/partitioning-tables.md and DIR/summary.csv are made anew from all runs. `--build` measures the
whole command `python -m partition build` instead, from tables to part vector. `--check` prints what
must hold, with the figures. Linux only.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq
from harness import Row, alone, append_rows, numbers, one_of, read_rows, words
from harness import run as measure

from partition import UserError, graph, job, webgraph
from partition.child import EngineError
from partition.job import BASELINES, Plan
from partition.models import MESSAGES, MODELS, VOLUME
from partition.settings import Settings

from .bounds import check
from .tables import COUNTS, key, write_tables

LOG: Final = "runs.jsonl"
_KEPT: Final = (*COUNTS, "feasible", "reason")


@dataclass(frozen=True)
class Contestant:
    model: str
    settings: Mapping[str, Any] = field(default_factory=dict)


_ONE_WEIGHT: Final = {"engine": "mt-kahypar", "tolerances": (float("inf"), 0.05)}

CONTESTANTS: Final[Mapping[str, Contestant]] = {
    **{name: Contestant(name) for name in (*BASELINES, *MODELS)},
    # The hybrid model makes both messages and volume small; here one of them alone.
    "hybrid-messages": Contestant("hybrid", {"objective": MESSAGES}),
    "hybrid-volume": Contestant("hybrid", {"objective": VOLUME}),
    # What the best of eight seeds is worth.
    **{f"{name}/8-tries": Contestant(name, {"tries": 8}) for name in ("site-hypergraph", "hybrid")},
    # What the second constraint costs: Mt-KaHyPar, and our engine, balancing requests alone.
    **{
        f"{name}/{suffix}": Contestant(name, settings)
        for name in ("page-hypergraph", "site-hypergraph", "hybrid")
        for suffix, settings in (
            ("mt-kahypar", _ONE_WEIGHT),
            ("one-weight", {"tolerances": _ONE_WEIGHT["tolerances"]}),
        )
    },
}
_FIGURES: Final = (*BASELINES, *MODELS)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("graphs", nargs="*", type=Path, metavar="GRAPH", help="none: only tables and plots")
    add("--models", type=one_of(CONTESTANTS), default=_FIGURES, metavar="M,..")
    add("-k", type=numbers, default=[2, 4, 8, 16, 32, 64], help="default: 2,4,8,16,32,64")
    add("--repeat", type=int, default=8, metavar="R", help="seeds of each (default: 8)")
    add("--seed0", type=int, default=0, metavar="S", help="the first seed (default: 0)")
    add("--limit", type=int, default=600, metavar="SECONDS", help="of CPU for a run (default: 600)")
    add("--build", type=words, metavar="M:K,..", help="measure the whole command for these")
    add("--check", action="store_true", help="print what must hold")
    add("--plots", action="store_true", help="draw the plots, too (needs matplotlib)")
    add("--out", type=Path, required=True, metavar="DIR", help="runs, tables, plots")


def run(options: argparse.Namespace) -> None:
    options.out.mkdir(parents=True, exist_ok=True)
    log = options.out / LOG
    done = {key(row) for row in read_rows(log)}
    for folder in options.graphs:
        new = builds(folder, options, done) if options.build else experiments(folder, options, done)
        append_rows(log, new, _line)
    runs = read_rows(log)
    write_tables(runs, options.out)
    if options.plots:
        from .plots import write_plots  # noqa: PLC0415 - matplotlib need not be there

        write_plots(runs, options.out)
    if options.check:
        print(check(runs))


def experiments(folder: Path, options: argparse.Namespace, done: set[Any]) -> Iterator[Row]:
    """The runs of a graph that haven't been done, one after the other."""
    name = folder.resolve().name
    todo = [
        (contestant, parts, seed)
        for number in range(options.repeat)
        for parts in options.k
        for contestant in options.models
        if contestant not in BASELINES or not number
        for seed in [0 if contestant in BASELINES else options.seed0 + number]
        if (name, contestant, parts, seed) not in done
    ]
    if not todo:
        return
    web = graph.read([folder])
    _compile()
    for contestant, parts, seed in todo:
        chosen = CONTESTANTS[contestant]
        plan = partial(job.plan, web, chosen.model, parts, Settings(seed=seed, **chosen.settings))
        result, used = alone(lambda plan=plan: _counts(plan), options.limit)
        yield {
            "graph": name,
            "pages": web.pages,
            "sites": len(web.sites),
            "links": web.links,
            "contestant": contestant,
            "k": parts,
            "seed": seed,
            **(result or {"failed": _ending(used.status, options.limit)}),
            "cpu_s": round(used.cpu_s, 2),
        }


def _compile() -> None:
    """Have all that is compiled at run time ready before the first fork."""
    random = np.random.default_rng(0)
    source, target = random.integers(0, 400, (2, 2000))
    web = webgraph.from_arrays(source, target, site=np.arange(400) // 4)
    for model in MODELS:
        for objective in (None, MESSAGES, VOLUME):
            job.plan(web, model, 4, Settings(objective=objective))


def _counts(make: Callable[[], Plan]) -> Row:
    """What a plan costs, or why there is none."""
    try:
        plan = make()
    except (EngineError, UserError) as error:
        return {"failed": str(error)}
    row = plan.row()
    return {**{name: row[name] for name in _KEPT}, "peak_bytes": plan.peak_bytes}


def _ending(status: int, limit_s: int) -> str:
    if -status in {signal.SIGXCPU, signal.SIGKILL}:
        return f"not finished within {limit_s} CPU seconds"
    return f"ended by {signal.Signals(-status).name}"


def builds(folder: Path, options: argparse.Namespace, done: set[Any]) -> Iterator[Row]:
    """`python -m partition build`, whole: reading, writing, and the baselines that it prints."""
    name = folder.resolve().name
    for model, _, parts in (wanted.partition(":") for wanted in options.build):
        if (name, f"build {model}", int(parts), 0) in done:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            command = [sys.executable, "-m", "partition", "build", str(folder), "--json"]
            command += ["-k", parts, "--model", model, "--out", f"{scratch}/vector"]
            output = Path(scratch) / "output"
            used = measure(command, output, options.limit, stderr=subprocess.DEVNULL)
            row = {} if used.status else json.loads(output.read_text())[0]
        yield {
            "graph": name,
            "pages": pq.read_metadata(folder / "pages.parquet").num_rows,
            "contestant": f"build {model}",
            "k": int(parts),
            "seed": 0,
            **({n: row[n] for n in _KEPT} if row else {"failed": f"ended, {used.status}"}),
            "cpu_s": round(used.cpu_s, 2),
            "peak_bytes": used.peak_bytes,
        }


def _line(run: Row) -> str:
    start = f"{run['graph']:10} {run['contestant']:22} k={run['k']:<4} seed {run['seed']} "
    if "failed" in run:
        return f"{start} {run['failed']}"
    return (
        f"{start} {run['messages_page_part']:>10,} {run['volume_bytes']:>12,}"
        f" {run['imbalance_bytes']:6.1%} {run['imbalance_requests']:6.1%} {run['cpu_s']:7.1f} s"
        f" {run['peak_bytes'] / 1e6:6.0f} MB"
    )
