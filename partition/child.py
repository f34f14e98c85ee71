"""Runs engines in a child process, so that a crash or an endless call ends only the child.

The parent pickles a task to the child's standard input and reads one pickled `Answer` from its
standard output. The parent keeps the child's standard input open. When it closes, because the
parent has died or given up, the child ends at once.
"""

import contextlib
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy.typing as npt


class EngineError(Exception):
    """An engine ended without a partition."""


class OneWeight(NamedTuple):
    """A task for a hypergraph engine that balances one weight."""

    xpins: npt.NDArray[Any]  # (nets + 1,)
    pins: npt.NDArray[Any]
    costs: npt.NDArray[Any]  # of the nets
    weights: npt.NDArray[Any]  # of the vertices
    parts: int
    tolerance: float
    seed: int


class Answer(NamedTuple):
    """The result of an engine."""

    part: npt.NDArray[Any]  # of each vertex, int32
    constraints: int  # how many weights were balanced
    peak_bytes: int  # of the child's memory


def ask(command: tuple[str, ...], task: object) -> Answer:
    """Run an engine on a task, and return its answer. The engine never outlives the call.

    Raises EngineError with the last line that the child wrote to standard error.
    """
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(  # noqa: S603 - a command of ours
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
        ) as child,
    ):
        assert child.stdin
        assert child.stdout
        try:
            pickle.dump(task, child.stdin)
            child.stdin.flush()  # but left open, because the child ends when it closes
            answer: Answer = pickle.load(child.stdout)  # noqa: S301 - comes from our own child
        except (BrokenPipeError, EOFError, pickle.UnpicklingError):
            with contextlib.suppress(BrokenPipeError):
                child.stdin.close()
            code = child.wait()
            errors.seek(0)
            words = errors.read().decode(errors="replace").strip().rpartition("\n")[2]
            ending = f"ended by signal {-code}" if code < 0 else f"ended with code {code}"
            raise EngineError(f"{ending}: {words}" if words else ending) from None
        finally:
            child.kill()
    return answer


def serve(work: Callable[[Any], tuple[npt.NDArray[Any], int]]) -> None:
    """Run the child: read one task, write one answer.

    `work` returns, for a task, the part of each vertex and the number of weights balanced.
    """
    # Engines print to standard output. So the answer gets the original one, and what engines print
    # goes to standard error.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    task = pickle.load(sys.stdin.buffer)  # noqa: S301 - comes from our own parent
    threading.Thread(target=_end_with_parent, daemon=True).start()
    part, constraints = work(task)
    with answers:
        pickle.dump(Answer(part, constraints, peak_memory()), answers)


def peak_memory() -> int:
    """Return the most resident memory that this process has had, in bytes."""
    with contextlib.suppress(OSError), Path("/proc/self/status").open() as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    # For other systems. On Linux, ru_maxrss also counts the memory of the parent before the fork.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _end_with_parent() -> None:
    os.read(0, 1)  # returns when the parent closes its end, and no sooner
    os._exit(1)
