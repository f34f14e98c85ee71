"""How much faster or slower one version of the code is than another, in pairs of runs.

    python benchmarks pairs OLD NEW [--rounds 7] [--field cpu_s] -- PYTHON ARGUMENTS

OLD and NEW are folders with a checkout each. The rest is what Python is given in either of them,
for example `benchmarks simulator GRAPH --modes exchange`. The versions take turns. Prints the
medians, and the median of NEW divided by OLD within a round, with the least and the most of them.
The figure is the CPU seconds of the whole command, or the sum of a field of its lines of JSON.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from harness import in_turns, read_rows, show
from harness import run as measure


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("old", type=Path, metavar="OLD")
    parser.add_argument("new", type=Path, metavar="NEW")
    parser.add_argument("--rounds", type=int, default=7, help="default: 7")
    parser.add_argument("--field", help="of the lines of JSON (default: CPU of the command)")
    parser.add_argument("command", nargs="+", metavar="ARGUMENT")


def run(options: argparse.Namespace) -> None:
    trees = {"old": options.old, "new": options.new}
    results = in_turns(
        {name: partial(figure, tree, options) for name, tree in trees.items()}, options.rounds
    )
    ratios = [new / old for old, new in zip(results["old"], results["new"], strict=True)]
    medians = {name: statistics.median(values) for name, values in results.items()}
    show({**medians, "ratio": statistics.median(ratios), "least": min(ratios), "most": max(ratios)})


def figure(tree: Path, options: argparse.Namespace) -> float:
    """The figure of one run in a checkout."""
    environment = os.environ | {"PYTHONPATH": str(tree.resolve())}
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "output"
        command = [sys.executable, *options.command]
        used = measure(command, output, cwd=tree, env=environment, stderr=subprocess.DEVNULL)
        if used.status:
            raise SystemExit(f"error: {' '.join(command)} ended with {used.status} in {tree}")
        if options.field is None:
            return used.cpu_s
        return sum(row[options.field] for row in read_rows(output) if options.field in row)
