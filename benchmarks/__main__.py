"""The benchmarks, by name.

    python benchmarks                 lists them
    python benchmarks NAME -h         explains one, with its arguments
    python benchmarks NAME ...        runs one

A benchmark is a module with the functions `add_arguments(parser)` and `run(options)`. The first
line of its docstring says what it measures. `harness` has what several of them need.
"""

import argparse
import ast
import importlib
import sys
from pathlib import Path
from typing import Final

GROUPS: Final = {
    "The crawler": (
        "crawl",
        "frontier",
        "registry",
        "replay",
        "idle",
        "clocks",
        "namespaces",
        "simulator",
    ),
    "The partitioner": ("partitioners",),
    "The papers": ("papers", "parallel-crawlers"),
    "Public conformance tests": ("conformance",),
    "Two versions of the code": ("pairs",),
}


def what_it_measures(name: str) -> str:
    """The first line of a benchmark's docstring, without importing what the benchmark imports."""
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
    benchmark.add_arguments(parser)
    return benchmark.run(parser.parse_args(rest)) or 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
