"""Engines: they cut a graph into balanced parts. So far METIS, in a child process."""

import contextlib
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from partition.graph import Graph, Ids, Ints
from partition.metis import Answer, Task

_METIS: Final = (sys.executable, "-c", "from partition.metis import serve; serve()")
_TOTAL: Final = 1 << 30


class EngineError(Exception):
    """An engine that ended without a partition."""


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    part: Ids  # of each vertex
    constraints: int = 2  # weights that were balanced; 1 where that was only their sum
    peak_bytes: int = 0  # of the engine's own memory


def metis(graph: Graph, parts: int, *, tolerances: Sequence[float], seed: int) -> Partition:
    """Parts whose cut edges cost little, each weight within its tolerance where METIS manages.

    `tolerances` are the imbalances allowed, for bytes and requests; the result is only METIS's
    best, to be judged by whoever calls. Equal arguments give equal parts. Where there are no more
    vertices than parts, each gets a part of its own. Raises EngineError.
    """
    vertices = len(graph.weights)
    if parts == 1:
        return Partition(np.zeros(vertices, np.int32))
    if vertices <= parts:
        return Partition(np.arange(vertices, dtype=np.int32))
    task = Task(
        xadj=graph.xadj,
        adj=graph.adj,
        costs=_scaled(graph.costs),
        weights=np.stack([_scaled(weight) for weight in graph.weights.T], axis=1),
        parts=parts,
        tolerances=tuple(tolerances),
        seed=seed,
    )
    try:
        answer = _ask(_METIS, task)
    except EngineError as error:
        edges = len(graph.adj) // 2
        raise EngineError(
            f"METIS: {error} ({vertices} vertices, {edges} edges, {parts} parts)"
        ) from None
    return Partition(answer.part, answer.constraints, answer.peak_bytes)


def _scaled(numbers: Ints) -> Ints:
    """In the same proportions, summing to about _TOTAL, none 0.

    METIS divides by sums of weights, and may hold them in 32 bits; 1 in 2^30 is as good as 0.
    """
    factor = _TOTAL / max(int(numbers.sum()), 1)
    scaled: Ints = np.maximum(np.rint(numbers * factor), 1).astype(np.int64)
    return scaled


def _ask(command: Sequence[str], task: Task) -> Answer:
    """Run an engine on a task; whatever happens here, it doesn't outlive the call."""
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
            child.stdin.flush()  # but left open: it is the child's lifeline
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
