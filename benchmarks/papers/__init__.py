"""How the models of the partitioning papers, and ours, partition link graphs.

    python benchmarks papers GRAPH... [--models M,..] [-k K,..] [--repeat R] --out DIR
    python benchmarks papers GRAPH... --build hybrid:64,site-hypergraph:16 --out DIR
    python benchmarks papers --check --plots --out DIR

GRAPH is a folder made by `python -m partition import` or `synthesize`. Its name names the graph.
Each model, K and seed runs in a process of its own, forked after the graph has been read. So the
CPU seconds (model, engine and evaluation) and the peak memory (with the graph) are those of one
run. Runs are appended to DIR/runs.jsonl and never repeated. Hashing doesn't depend on the seed and
runs once. All runs of a file are of one commit and one machine, which each row names. Others are
refused. DIR/webs.jsonl has the properties of each graph. At the end, DIR/partitioning-tables.md and
DIR/summary.csv are written from all runs.
`--build` measures the whole command `python -m partition build` instead.
`--check` prints which bounds hold, with the figures. Linux only.
"""

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import pyarrow.parquet as pq
from harness import (
    Numbers,
    Row,
    Words,
    alone,
    append_rows,
    one_of,
    provenance,
    read_rows,
    require_one_origin,
    run_command,
)

from partition import UserError, graph, planning, webgraph
from partition.child import EngineError
from partition.models import MESSAGES, MODELS, VOLUME
from partition.planning import BASELINES, Plan
from partition.settings import Settings

from .beside import beside_papers
from .bounds import check_runs
from .tables import COUNTS, key, summarise, write_tables
from .webs import properties

LOG: Final = "runs.jsonl"
WEBS: Final = "webs.jsonl"
_KEPT: Final = (*COUNTS, "feasible", "reason")


@dataclass(frozen=True)
class Contestant:
    model: str
    settings: Mapping[str, Any] = field(default_factory=dict)


_REQUESTS_ALONE: Final = (float("inf"), 0.05)
_BYTES_ALONE: Final = (0.05, float("inf"))

CONTESTANTS: Final[Mapping[str, Contestant]] = {
    **{name: Contestant(name) for name in (*BASELINES, *MODELS)},
    # The hybrid model with only one objective, messages or volume, instead of both.
    "hybrid-messages": Contestant("hybrid", {"objective": MESSAGES}),
    "hybrid-volume": Contestant("hybrid", {"objective": VOLUME}),
    # The best of eight seeds.
    **{f"{name}/8-tries": Contestant(name, {"tries": 8}) for name in ("site-hypergraph", "hybrid")},
    # Without the second constraint: Mt-KaHyPar balances one weight, and our engine requests alone.
    **{
        f"{name}/{suffix}": Contestant(name, settings)
        for name in ("page-hypergraph", "site-hypergraph", "hybrid")
        for suffix, settings in (
            ("mt-kahypar", {"engine": "mt-kahypar", "tolerances": _REQUESTS_ALONE}),
            ("mt-kahypar-bytes", {"engine": "mt-kahypar", "tolerances": _BYTES_ALONE}),
            ("one-weight", {"tolerances": _REQUESTS_ALONE}),
        )
    },
}
_FIGURES: Final = (*BASELINES, *MODELS)


def run(
    graphs: Annotated[list[Path], "none: only tables and plots"] = [],  # noqa: B006 - not changed
    *,
    models: Annotated[Sequence[str], one_of(CONTESTANTS)] = _FIGURES,
    k: Numbers = (2, 4, 8, 16, 32, 64),
    repeat: Annotated[int, "seeds of each"] = 8,
    seed0: Annotated[int, "the first seed"] = 0,
    limit: Annotated[int, "CPU seconds of a run"] = 600,
    build: Annotated[Words, "measure the whole command for MODEL:K,.."] = (),
    check: Annotated[bool, "print what must hold"] = False,
    plots: Annotated[bool, "draw the plots, too (needs matplotlib)"] = False,
    out: Annotated[Path, "folder of runs, tables, plots"],
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    earlier = read_rows(out / LOG)
    origin = provenance()
    require_one_origin(out / LOG, earlier, origin if graphs else None)
    done = {key(row) for row in earlier}
    described = {row["graph"] for row in read_rows(out / WEBS)}
    for folder in graphs:
        name = folder.resolve().name
        if name not in described:
            row = {"graph": name, **properties(graph.read([folder])), **origin}
            append_rows(out / WEBS, [row], json.dumps)
        if build:
            planned = [
                (f"build {model}", int(parts), 0) for model, parts in (b.split(":") for b in build)
            ]
        else:
            planned = [
                (contestant, parts, 0 if contestant in BASELINES else seed0 + number)
                for number in range(repeat)
                for parts in k
                for contestant in models
                if contestant not in BASELINES or not number
            ]
        todo = [one for one in planned if (name, *one) not in done]
        rows = (builds if build else experiments)(folder, todo, limit)
        append_rows(out / LOG, ({**row, **origin} for row in rows), _line)
    runs = read_rows(out / LOG)
    write_tables(runs, beside_papers(summarise(runs), read_rows(out / WEBS)), out)
    if plots:
        from .plots import write_plots  # noqa: PLC0415 - matplotlib need not be there

        write_plots(runs, out)
    if check:
        print(check_runs(runs))


def experiments(folder: Path, todo: Sequence[tuple[str, int, int]], limit_s: int) -> Iterator[Row]:
    """Do runs (contestant, parts, seed) of a graph, one after the other."""
    if not todo:
        return
    web = graph.read([folder])
    _compile()
    for contestant, parts, seed in todo:
        chosen = CONTESTANTS[contestant]
        plan = partial(
            planning.plan, web, chosen.model, parts, Settings(seed=seed, **chosen.settings)
        )
        result, used = alone(partial(_counts, plan), limit_s)
        yield {
            "graph": folder.resolve().name,
            "pages": web.pages,
            "sites": len(web.sites),
            "links": web.links,
            "contestant": contestant,
            "k": parts,
            "seed": seed,
            **(result or {"failed": _ending(used.status, limit_s)}),
            "cpu_s": round(used.cpu_s, 2),
        }


def _compile() -> None:
    """Compile all functions before the first fork."""
    random = np.random.default_rng(0)
    source, target = random.integers(0, 400, (2, 2000))
    web = webgraph.from_arrays(source, target, site=np.arange(400) // 4)
    for model in MODELS:
        for objective in (None, MESSAGES, VOLUME):
            planning.plan(web, model, 4, Settings(objective=objective))


def _counts(make: Callable[[], Plan]) -> Row:
    """Return the counts of a plan, or why it failed."""
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


def builds(folder: Path, todo: Sequence[tuple[str, int, int]], limit_s: int) -> Iterator[Row]:
    """Do whole runs of `python -m partition build`: from reading to writing, with baselines."""
    for contestant, parts, seed in todo:
        with tempfile.TemporaryDirectory() as scratch:
            command = [sys.executable, "-m", "partition", "build", str(folder), "--json"]
            command += ["-k", str(parts), "--model", contestant.removeprefix("build ")]
            command += ["--out", f"{scratch}/vector"]
            output = Path(scratch) / "output"
            used = run_command(command, output, limit_s, stderr=subprocess.DEVNULL)
            row = {} if used.status else json.loads(output.read_text())[0]
        yield {
            "graph": folder.resolve().name,
            "pages": pq.read_metadata(folder / "pages.parquet").num_rows,
            "contestant": contestant,
            "k": parts,
            "seed": seed,
            **({name: row[name] for name in _KEPT} if row else {"failed": f"ended, {used.status}"}),
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
