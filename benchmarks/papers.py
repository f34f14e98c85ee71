"""The papers' experiments on link graphs: every model, K and seed, measured alone, then tabled.

    python benchmarks/papers.py GRAPH... [--models M,..] [-k K,..] [--repeat R] --out DIR
    python benchmarks/papers.py GRAPH... --build hybrid:64,site-hypergraph:16 --out DIR
    python benchmarks/papers.py --check --out DIR

GRAPH is a folder of `python -m partition import` or `synthesize`; its name names the graph. Each
run is a process of its own, forked when the graph has been read, so that its CPU seconds (model,
engine and evaluation) and its peak memory (with the graph) are its own. Runs are appended to
DIR/runs.jsonl and never repeated; hashing, which no seed changes, runs once. At the end
DIR/tables.md, DIR/summary.csv and the plots are made anew from all runs. `--build` measures the
whole command `python -m partition build` instead: from tables to part vector. `--check` prints what
must hold, with the figures. Linux only.
"""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq
from paper_tables import COUNTS, Run, check, key, read_runs, write_tables
from plots import write_plots

from partition import UserError, graph, job, webgraph
from partition.child import EngineError
from partition.job import BASELINES, Plan
from partition.models import MESSAGES, MODELS, VOLUME
from partition.settings import Settings
from partition.webgraph import WebGraph

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("graphs", nargs="*", type=Path, metavar="GRAPH", help="none: only tables and plots")
    add("--models", default=",".join(_FIGURES), help=f"of {', '.join(CONTESTANTS)}")
    add("-k", default="2,4,8,16,32,64", help="numbers of parts (default 2,4,8,16,32,64)")
    add("--repeat", type=int, default=8, metavar="R", help="seeds of each (default 8)")
    add("--seed0", type=int, default=0, metavar="S", help="the first seed (default 0)")
    add("--limit", type=int, default=600, metavar="SECONDS", help="of CPU for a run (default 600)")
    add("--build", metavar="M:K,..", help="measure the whole command for these")
    add("--check", action="store_true", help="print what must hold")
    add("--out", type=Path, required=True, metavar="DIR", help="runs, tables, plots")
    arguments = parser.parse_args()
    contestants = arguments.models.split(",")
    if unknown := set(contestants) - set(CONTESTANTS):
        parser.error(f"--models {', '.join(unknown)}: must be of {', '.join(CONTESTANTS)}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    log = arguments.out / "runs.jsonl"
    runs = read_runs(log)
    seeds = range(arguments.seed0, arguments.seed0 + arguments.repeat)
    for folder in arguments.graphs:
        if arguments.build:
            wanted = [(m, int(k)) for m, k in (w.split(":") for w in arguments.build.split(","))]
            new = builds(folder, wanted, arguments.limit, runs)
        else:
            parts = [int(word) for word in arguments.k.split(",")]
            new = experiments(folder, contestants, parts, seeds, arguments.limit, runs)
        with log.open("a") as file:
            for run in new:
                file.write(json.dumps(run) + "\n")
                file.flush()
                print(_line(run), file=sys.stderr)
    runs = read_runs(log)
    write_tables(runs, arguments.out)
    write_plots(runs, arguments.out)
    if arguments.check:
        print(check(runs))


def experiments(
    folder: Path,
    contestants: list[str],
    numbers: list[int],
    seeds: range,
    limit_s: int,
    done: list[Run],
) -> Iterator[Run]:
    """The runs of a graph that haven't been done, one after the other."""
    name = folder.resolve().name
    known = {key(run) for run in done}
    todo = [
        (contestant, parts, seed)
        for seed in seeds
        for parts in numbers
        for contestant in contestants
        if (contestant not in BASELINES or seed == seeds[0])
        and (name, contestant, parts, 0 if contestant in BASELINES else seed) not in known
    ]
    if not todo:
        return
    web = graph.read([folder])
    _compile()
    for contestant, parts, seed in todo:
        chosen = CONTESTANTS[contestant]
        settings = Settings(seed=seed, **chosen.settings)
        result = alone(web, chosen.model, parts, settings, limit_s)
        yield {
            "graph": name,
            "pages": web.pages,
            "sites": len(web.sites),
            "links": web.links,
            "contestant": contestant,
            "k": parts,
            "seed": 0 if contestant in BASELINES else seed,
            **result,
        }


def _compile() -> None:
    """Have all that is compiled at run time ready before the first fork."""
    random = np.random.default_rng(0)
    source, target = random.integers(0, 400, (2, 2000))
    web = webgraph.from_arrays(source, target, site=np.arange(400) // 4)
    for model in MODELS:
        for objective in (None, MESSAGES, VOLUME):
            job.plan(web, model, 4, Settings(objective=objective))


def alone(web: WebGraph, model: str, parts: int, settings: Settings, limit_s: int) -> Run:
    """One plan in a forked process: its counts, or why it failed; CPU seconds and peak memory."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        # Whatever happens below, the child must not return into the parent's program.
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
            signal.alarm(limit_s * 10)
            try:
                answer = _counts(job.plan(web, model, parts, settings))
            except (EngineError, UserError) as error:
                answer = {"failed": str(error)}
            os.write(writing, json.dumps(answer).encode())
            code = 0
        except BaseException:  # shown, and the process ends
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    _, status, usage = os.wait4(pid, 0)
    if not os.WIFSIGNALED(status) and os.WEXITSTATUS(status):
        raise SystemExit(f"{model}, k = {parts}: the run ended with an error of ours, see above")
    result: Run = json.loads(text) if text else {"failed": _ending(status, limit_s)}
    return {**result, "cpu_s": round(usage.ru_utime + usage.ru_stime, 2)}


def _counts(plan: Plan) -> Run:
    row = plan.row()
    return {**{name: row[name] for name in _KEPT}, "peak_bytes": plan.peak_bytes}


def _ending(status: int, limit_s: int) -> str:
    number = os.WTERMSIG(status)
    if number in {signal.SIGXCPU, signal.SIGKILL}:
        return f"not finished within {limit_s} CPU seconds"
    return f"ended by {signal.Signals(number).name}"


def builds(
    folder: Path, wanted: list[tuple[str, int]], limit_s: int, done: list[Run]
) -> Iterator[Run]:
    """`python -m partition build`, whole: reading, writing, and the baselines that it prints."""
    name = folder.resolve().name
    known = {key(run) for run in done}
    for model, parts in wanted:
        if (name, f"build {model}", parts, 0) in known:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            command = [sys.executable, "-m", "partition", "build", str(folder), "--json"]
            command += ["-k", str(parts), "--model", model, "--out", f"{scratch}/vector"]
            with (Path(scratch) / "output").open("w+") as output:
                child = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL)
                resource.prlimit(child.pid, resource.RLIMIT_CPU, (limit_s, limit_s))
                _, status, usage = os.wait4(child.pid, 0)
                child.returncode = os.waitstatus_to_exitcode(status)
                output.seek(0)
                row = json.load(output)[0] if not child.returncode else {}
        yield {
            "graph": name,
            "pages": pq.read_metadata(folder / "pages.parquet").num_rows,
            "contestant": f"build {model}",
            "k": parts,
            "seed": 0,
            **({n: row[n] for n in _KEPT} if row else {"failed": f"ended, {child.returncode}"}),
            "cpu_s": round(usage.ru_utime + usage.ru_stime, 2),
            "peak_bytes": usage.ru_maxrss * 1024,
        }


def _line(run: Run) -> str:
    start = f"{run['graph']:10} {run['contestant']:22} k={run['k']:<4} seed {run['seed']} "
    if "failed" in run:
        return f"{start} {run['failed']}"
    return (
        f"{start} {run['messages_page_part']:>10,} {run['volume_bytes']:>12,}"
        f" {run['imbalance_bytes']:6.1%} {run['imbalance_requests']:6.1%} {run['cpu_s']:7.1f} s"
        f" {run['peak_bytes'] / 1e6:6.0f} MB"
    )


if __name__ == "__main__":
    main()
