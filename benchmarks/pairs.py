"""How much faster or slower one version of the code is than another, in pairs of runs.

    python benchmarks pairs OLD NEW [--rounds 7] [--field FIELD] -- PYTHON ARGUMENTS

OLD and NEW are folders with a checkout each. Python runs in both with the remaining arguments, for
example `benchmarks simulator GRAPH --json`. The versions take turns. Gives the medians,
and the median of the ratios NEW / OLD within a round, with the smallest and the largest ratio.
The figure is the CPU seconds of the whole command, or the sum of a field of its lines of JSON.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

from harness import Row, in_turns, read_rows, run_command


def run(
    old: Path,
    new: Path,
    *argument: str,
    rounds: int = 7,
    field: Annotated[str, "of the lines of JSON (default: CPU of the command)"] = "",
) -> Iterator[Row]:
    trees = {"old": old, "new": new}
    results = in_turns(
        {name: partial(figure, tree, argument, field) for name, tree in trees.items()}, rounds
    )
    ratios = [after / before for before, after in zip(*results.values(), strict=True)]
    medians = {name: statistics.median(values) for name, values in results.items()}
    ratio = statistics.median(ratios)
    yield {**medians, "ratio": ratio, "least": min(ratios), "most": max(ratios)}


def figure(tree: Path, arguments: Sequence[str], field: str) -> float:
    """Run Python in a checkout, and return the figure."""
    environment = os.environ | {"PYTHONPATH": str(tree.resolve())}
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "output"
        command = [sys.executable, *arguments]
        used = run_command(command, output, cwd=tree, env=environment, stderr=subprocess.DEVNULL)
        if used.status:
            raise SystemExit(f"error: {' '.join(command)} ended with {used.status} in {tree}")
        if not field:
            return used.cpu_s
        return sum(row[field] for row in read_rows(output) if field in row)
