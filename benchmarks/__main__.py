"""The benchmarks, by name.

    python -m benchmarks --help             lists them
    python -m benchmarks NAME --help        explains one, with its arguments
    python -m benchmarks NAME ...           runs one
    python -m benchmarks [--quick] [--json [FILE]]    runs those of the cost of a crawl

A benchmark is a module with a function `run`, whose parameters are the arguments of the command
line (see `harness.add_argument`). The first line of its docstring says what it measures. If `run`
gives rows, they are shown as a table at the end. If the module has QUICK, `--quick` takes these
values for arguments that aren't given: a small run, which shows that the benchmark works.
"""

import argparse
import ast
import importlib
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from inspect import signature
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
if str(HERE) not in sys.path:  # with -m
    sys.path.insert(0, str(HERE))

from harness import Row, add_argument, show, table  # noqa: E402

COST: Final = "The cost of a crawl, and how it grows (these run without a NAME)"
GROUPS: Final = {
    COST: ("crawl", "growth", "cost"),
    "The crawler": (
        "frontier",
        "registry",
        "seen",
        "memory",
        "replay",
        "ends",
        "idle",
        "clocks",
        "namespaces",
        "simulator",
        "scanner",
    ),
    "The partitioner": ("partitioners", "sessions", "ranks", "forecast"),
    "The papers": ("papers", "parallel-crawlers", "web-sailor", "uniqueness", "preference"),
    "Public conformance tests": ("conformance",),
    "Two versions of the code": ("pairs",),
}


def what_it_measures(name: str) -> str:
    """Return the first line of a benchmark's docstring, without importing the benchmark."""
    path = HERE / name.replace("-", "_")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]


def listing() -> str:
    lines = ["Usage: python -m benchmarks [NAME] ...    (NAME -h explains a benchmark)"]
    for group, names in GROUPS.items():
        lines += ["", group, *(f"  {name:18} {what_it_measures(name)}" for name in names)]
    return "\n".join(lines)


def shown(rows: Iterator[Row], json: str | None) -> None:
    """Show rows: as lines of JSON when they are made, and as a table at the end."""
    if json == "-":
        for row in rows:
            show(row)
        return
    made = []
    with Path(json).open("a") if json else nullcontext(sys.stderr) as file:
        for row in rows:
            made.append(row)
            show(row, file)
    if made:
        print("\n".join(table(made)))


def main(words: list[str]) -> int:
    if words[:1] in (["-h"], ["--help"]):
        print(listing())
        return 0
    if not words or words[0].startswith("-"):
        return max(run_one(name, words) for name in GROUPS[COST])
    name, *rest = words
    if not any(name in names for names in GROUPS.values()):
        print(f"error: there is no benchmark {name}\n\n{listing()}", file=sys.stderr)
        return 2
    return run_one(name, rest)


def run_one(name: str, rest: list[str]) -> int:
    """Run a benchmark with its arguments. Returns its exit code."""
    benchmark = importlib.import_module(name.replace("-", "_"))
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks {name}",
        description=benchmark.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    function = signature(benchmark.run)
    for parameter in function.parameters.values():
        add_argument(parser, parameter)
    if hasattr(benchmark, "QUICK"):
        parser.add_argument("--quick", action="store_true", help="a small run, to try it")
        if "--quick" in rest:
            parser.set_defaults(**benchmark.QUICK)
    gives_rows = function.return_annotation == Iterator[Row]
    if gives_rows:
        parser.add_argument(
            "--json", nargs="?", const="-", metavar="FILE", help="lines of JSON, also into a file"
        )
    values = vars(parser.parse_args(rest))
    words = []
    for parameter in function.parameters.values():
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            words.append(values.pop(parameter.name))
        elif parameter.kind is parameter.VAR_POSITIONAL:
            words += values.pop(parameter.name)
    values.pop("quick", None)
    json = values.pop("json", None)
    answer = benchmark.run(*words, **values)
    if gives_rows:
        shown(answer, json)
        return 0
    return answer or 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
