"""The benchmarks, by name.

    python benchmarks                 lists them
    python benchmarks NAME -h         explains one, with its arguments
    python benchmarks NAME ...        runs one

A benchmark is a module with a function `run`, whose parameters are the arguments of the command
line (see `harness.add_argument`). The first line of its docstring says what it measures.
"""

import argparse
import ast
import importlib
import sys
from inspect import signature
from pathlib import Path
from typing import Final

from harness import add_argument

GROUPS: Final = {
    "The crawler": (
        "crawl",
        "frontier",
        "registry",
        "seen",
        "memory",
        "replay",
        "idle",
        "clocks",
        "namespaces",
        "simulator",
    ),
    "The partitioner": ("partitioners",),
    "The papers": ("papers", "parallel-crawlers", "web-sailor", "uniqueness", "preference"),
    "Public conformance tests": ("conformance",),
    "Two versions of the code": ("pairs",),
}


def what_it_measures(name: str) -> str:
    """Return the first line of a benchmark's docstring, without importing the benchmark."""
    path = Path(__file__).parent / name.replace("-", "_")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]


def listing() -> str:
    lines = ["Usage: python benchmarks NAME ...    (NAME -h explains a benchmark)"]
    for group, names in GROUPS.items():
        lines += ["", group, *(f"  {name:18} {what_it_measures(name)}" for name in names)]
    return "\n".join(lines)


def main(words: list[str]) -> int:
    if not words or words[0] in {"-h", "--help"}:
        print(listing())
        return 0
    name, *rest = words
    if not any(name in names for names in GROUPS.values()):
        print(f"error: there is no benchmark {name}\n\n{listing()}", file=sys.stderr)
        return 2
    benchmark = importlib.import_module(name.replace("-", "_"))
    parser = argparse.ArgumentParser(
        prog=f"python benchmarks {name}",
        description=benchmark.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parameters = signature(benchmark.run).parameters
    for parameter in parameters.values():
        add_argument(parser, parameter)
    values = vars(parser.parse_args(rest))
    words = []
    for parameter in parameters.values():
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            words.append(values.pop(parameter.name))
        elif parameter.kind is parameter.VAR_POSITIONAL:
            words += values.pop(parameter.name)
    return benchmark.run(*words, **values) or 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
