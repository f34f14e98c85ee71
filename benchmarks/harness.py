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
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

Row = dict[str, Any]  # a line of JSON
_T = TypeVar("_T")


# --- arguments --------------------------------------------------------------------------------


def words(text: str) -> list[str]:
    """The words of `a,b,c`, for argparse."""
    return text.split(",")


def numbers(text: str) -> list[int]:
    """The numbers of `1,2,4`, for argparse."""
    return [int(word) for word in text.split(",")]


def one_of(names: Iterable[str]) -> Callable[[str], list[str]]:
    """A type for argparse: words, each of which must be one of the names."""
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


def run(command: Sequence[str], output: Path, limit_s: int | None = None, **how: Any) -> Usage:
    """Run a command, with its standard output in a file; `how` is for Popen.

    `limit_s` bounds the CPU seconds of the command's own process.
    """
    started = time.perf_counter()
    with output.open("w") as out:
        child = subprocess.Popen(command, stdout=out, **how)
        if limit_s is not None:
            resource.prlimit(child.pid, resource.RLIMIT_CPU, (limit_s, limit_s))
        usage = _wait(child.pid, started)
    child.returncode = usage.status
    return usage


def alone(call: Callable[[], Any], limit_s: int | None = None) -> tuple[Any, Usage]:
    """Call a function in a fork of this process; its answer, as JSON keeps it, and what it used.

    The answer is None if a signal ended the fork. An exception in the fork is shown there, and
    ends this program too. `limit_s` bounds the CPU seconds, and ten times as much the time.
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


def mpirun(ranks: int) -> list[str]:
    """The words before a command that run it on so many ranks; none for one rank.

    The mpirun beside this Python comes first, as it is of the same MPI as mpi4py.
    """
    if ranks == 1:
        return []
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return [shutil.which("mpirun", path=path) or "mpirun", "-n", str(ranks)]


# --- several runs -----------------------------------------------------------------------------


def in_turns(contestants: Mapping[str, Callable[[], _T]], rounds: int) -> dict[str, list[_T]]:
    """The results of each contestant. All run once in each round, as a machine's speed drifts."""
    results: dict[str, list[_T]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, call in contestants.items():
            results[name].append(call())
            print(name, results[name][-1], file=sys.stderr)
    return results


def medians(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of each figure."""
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}


# --- what is written --------------------------------------------------------------------------


def show(row: Mapping[str, Any]) -> None:
    """Print a line of JSON at once, with four digits of each fraction."""
    short = {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in row.items()}
    print(json.dumps(short), flush=True)


def markdown(heads: Sequence[str], rows: Iterable[Sequence[Any]], left: int = 1) -> list[str]:
    """The lines of a table; columns after the first `left` are aligned to the right."""
    ruler = "|" + "---|" * left + "--:|" * (len(heads) - left)
    first, *others = (f"| {' | '.join(map(str, line))} |" for line in (heads, *rows))
    return [first, ruler, *others]


def read_rows(path: Path) -> list[Row]:
    """The lines of JSON of a file; none if there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def append_rows(path: Path, rows: Iterable[Row], line: Callable[[Row], str]) -> None:
    """Append each row to a file as soon as it is there, and tell of it on standard error."""
    with path.open("a") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(line(row), file=sys.stderr)
