"""What several benchmarks need: arguments, measured commands and calls, medians, lines of JSON."""

import argparse
import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from inspect import Parameter
from itertools import groupby, islice
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self, TextIO, TypeVar, get_args, get_origin

from crawler import config

Row = dict[str, Any]  # a line of JSON
_T = TypeVar("_T")


# --- arguments --------------------------------------------------------------------------------


def words(text: str) -> list[str]:
    """Return the words of `a,b,c`."""
    return text.split(",")


def numbers(text: str) -> list[int]:
    """Return the numbers of `1,2,4`."""
    return [int(word) for word in text.split(",")]


Words = Annotated[Sequence[str], words]
Numbers = Annotated[Sequence[int], numbers]


def add_argument(parser: argparse.ArgumentParser, parameter: Parameter) -> None:
    """Add the argument that a parameter of a benchmark's `run` stands for.

    A keyword-only parameter is an option. Another parameter is a positional argument: `*name`
    takes one or more values, `name: list[X] = []` takes any number, and `name: X | None = None`
    takes one or none. `Annotated` may add a help text, and a function that makes the value from the
    text.
    """
    kind, *notes = (parameter.annotation,)
    if get_origin(kind) is Annotated:
        kind, *notes = get_args(kind)
    default = None if parameter.default is parameter.empty else parameter.default
    how: Row = {"help": next((note for note in notes if isinstance(note, str)), None)}
    if kind is bool:
        how["action"] = "store_true"
    elif get_origin(kind) is Literal:
        how["choices"] = get_args(kind)
    else:
        how["type"] = next(filter(callable, notes), kind)
    if parameter.kind is not parameter.KEYWORD_ONLY:
        if parameter.kind is parameter.VAR_POSITIONAL:
            how["nargs"] = "+"
        elif default is not None:
            how |= {"nargs": "*", "type": get_args(kind)[0]}
        elif parameter.default is None:
            how |= {"nargs": "?", "type": get_args(kind)[0]}
        parser.add_argument(parameter.name, metavar=parameter.name.upper(), **how)
        return
    if default not in (None, False):
        shown = ",".join(map(str, default)) if isinstance(default, list | tuple) else default
        how["help"] = f"{how['help'] or ''} (default: {shown})".strip()
    flag = "-" if len(parameter.name) == 1 else "--"
    required = parameter.default is parameter.empty
    parser.add_argument(
        flag + parameter.name.replace("_", "-"), default=default, required=required, **how
    )


def one_of(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a function that reads words, each of which must be one of the names."""
    known = list(names)

    def check(text: str) -> list[str]:
        if unknown := [word for word in words(text) if word not in known]:
            problem = f"{', '.join(unknown)}: must be of {', '.join(known)}"
            raise argparse.ArgumentTypeError(problem)
        return words(text)

    return check


# --- commands and calls, measured -------------------------------------------------------------


class Usage(NamedTuple):
    """What a process and its children used."""

    wall_s: float
    cpu_s: float
    peak_bytes: int  # of the process that used most
    status: int  # an exit code, or minus a signal


def run_command(
    command: Sequence[str], output: Path, limit_s: int | None = None, **how: Any
) -> Usage:
    """Run a command, with its standard output in a file; `how` is for Popen.

    `limit_s` bounds the CPU seconds of the command's own process. The usage is that of the command
    and of the processes that it waited for.
    """
    reading, writing = os.pipe()
    own = [sys.executable, "-IS", "-c", _LAUNCHER, str(writing), str(limit_s or 0)]
    with output.open("w") as out, os.fdopen(reading) as report:
        child = subprocess.Popen([*own, *command], stdout=out, pass_fds=[writing], **how)
        os.close(writing)
        text = report.read()
        child.wait()
    if not text:
        raise SystemExit(f"error: {command[0]} couldn't be run")
    return Usage(*json.loads(text))


# A process starts with the peak of the process that started it. So a command is started by a small
# process, not by this one.
_LAUNCHER = """
import json, os, resource, sys, time
report, limit, *command = sys.argv[1:]
started = time.perf_counter()
if not (child := os.fork()):
    if int(limit):
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit)))
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
    os._exit(127)
_, status, used = os.wait4(child, 0)
figures = time.perf_counter() - started, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024
with open(int(report), "w") as file:
    json.dump([*figures, os.waitstatus_to_exitcode(status)], file)
"""


def alone(call: Callable[[], Any], limit_s: int | None = None) -> tuple[Any, Usage]:
    """Call a function in a fork of this process. Returns its answer, through JSON, and its usage.

    The answer is None if a signal ended the fork. An exception in the fork ends this program, too.
    `limit_s` bounds the CPU seconds; ten times `limit_s` bounds the time.
    """
    reading, writing = os.pipe()
    started = time.perf_counter()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            if limit_s is not None:
                resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
                signal.alarm(limit_s * 10)
            with os.fdopen(writing, "w") as pipe:
                json.dump(call(), pipe)
            code = 0
        except BaseException:  # shown, and the process ends
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)  # the fork must never return into the program of its parent
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    usage = _wait(pid, started)
    if usage.status > 0:
        raise SystemExit("a measured call ended with an error of its own, see above")
    return (json.loads(text) if usage.status == 0 else None), usage


def _wait(pid: int, started: float) -> Usage:
    _, status, used = os.wait4(pid, 0)
    return Usage(
        time.perf_counter() - started,
        used.ru_utime + used.ru_stime,
        used.ru_maxrss * 1024,
        os.waitstatus_to_exitcode(status),
    )


class Timer:
    """Measures the seconds of a `with` block, and the CPU seconds of this process in it."""

    def __enter__(self) -> Self:
        self._start = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall_s = time.perf_counter() - self._start[0]
        self.cpu_s = time.process_time() - self._start[1]


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def random_site(number: int, sites: int) -> int:
    """Return the site of the URL with this number. Half of the URLs are on sites by Zipf's law."""
    mixed = number * 0x9E3779B97F4A7C15 % 2**64
    draw = (mixed >> 11) / 2**53
    return int(sites**draw) if mixed % 2 else int(sites * draw)


def mpirun(ranks: int) -> list[str]:
    """Return the words before a command that run it on `ranks` ranks; none for one rank.

    The mpirun beside this Python comes first, as it is of the same MPI as mpi4py.
    """
    if ranks == 1:
        return []
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return [shutil.which("mpirun", path=path) or "mpirun", "-n", str(ranks)]


def write_config(path: Path, tables: Mapping[str, Mapping[str, Any]]) -> None:
    """Write a configuration file with these tables, and the defaults for all other keys."""
    path.write_text(config.as_toml(config.load(values=tables)))


# --- several runs -----------------------------------------------------------------------------


def in_turns(contestants: Mapping[str, Callable[[], _T]], rounds: int) -> dict[str, list[_T]]:
    """Return the results of each contestant; in each round all run once, because speed drifts."""
    results: dict[str, list[_T]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, call in contestants.items():
            results[name].append(call())
            print(name, results[name][-1], file=sys.stderr)
    return results


def batched(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    """Give the items in lists of `size`."""
    items = iter(items)
    while batch := list(islice(items, size)):
        yield batch


def medians(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the median of each figure."""
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}


# --- what is written --------------------------------------------------------------------------


def show(row: Mapping[str, Any], file: TextIO | None = None) -> None:
    """Print a line of JSON at once, with four digits of each fraction."""
    short = {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in row.items()}
    print(json.dumps(short), flush=True, file=file)


def table(rows: Iterable[Row]) -> Iterator[str]:
    """Give the lines of a table for each run of rows whose first fields have the same name."""
    for _, group in groupby(rows, lambda row: next(iter(row))):
        alike = list(group)
        names = list(dict.fromkeys(name for row in alike for name in row))
        words = sum(isinstance(alike[0].get(name), str) for name in names)
        lines = ([_in_words(row.get(name, "")) for name in names] for row in alike)
        yield from ["", *markdown(names, lines, words)]


def _in_words(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return f"{value:,}" if is_count else str(value)


def markdown(heads: Sequence[str], rows: Iterable[Sequence[Any]], left: int = 1) -> list[str]:
    """Return the lines of a table. Columns after the first `left` are aligned to the right."""
    ruler = "|" + "---|" * left + "--:|" * (len(heads) - left)
    first, *others = (f"| {' | '.join(map(str, line))} |" for line in (heads, *rows))
    return [first, ruler, *others]


def read_rows(path: Path) -> list[Row]:
    """Return the lines of JSON in a file; none if there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def append_rows(path: Path, rows: Iterable[Row], line: Callable[[Row], str]) -> None:
    """Append each row to a file when it is made, and print its `line` on standard error."""
    with path.open("a") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(line(row), file=sys.stderr)


def provenance() -> Row:
    """Return where a row comes from: the commit, the day, and the machine."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    cpus = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(": ")[2] for line in cpus if line.startswith("model name")), "")
    cores = sum(line.startswith("processor") for line in cpus)
    return {
        "commit": commit.stdout.strip(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": f"{cores} cores, {model}",
    }


def require_one_origin(path: Path, rows: Iterable[Row], here: Row | None = None) -> None:
    """End the program if the rows of a file, and those to come, are of several origins.

    `here` is the provenance of the rows to come. An origin is a commit and a machine. Rows that
    name none, as those of earlier versions of a benchmark, are refused too.
    """
    rows = [*rows, *([here] if here else [])]
    if not all("commit" in row and "machine" in row for row in rows):
        raise SystemExit(
            f"error: {path}: some rows don't name their commit and machine, so an earlier version"
            " made them; move the file away"
        )
    origins = {(row["commit"], row["machine"]) for row in rows}
    if len(origins) > 1:
        found = "; ".join(f"commit {commit} on {machine}" for commit, machine in sorted(origins))
        raise SystemExit(
            f"error: {path}: rows of several origins don't mix: {found}; move the file away, or"
            " go back to its commit"
        )
