"""METIS with several weights a vertex, in a child process of its own.

pymetis passes one weight a vertex to METIS, but its extension module exports METIS's own functions,
which take several; they are called here by ctypes. A call can't be interrupted, and a crash in it
would end the process, hence the child.

Where the extension module exports no such function, `pymetis.part_graph` balances the sum of the
weights instead, and the answer says so.
"""

import ctypes
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pymetis
import pymetis._internal

from partition import child

Array = npt.NDArray[Any]

CUTS: Final = 10  # METIS keeps the best of so many; ten took 18 % off the volume of a single one
_FEWER_FROM: Final = 2_000_000  # edges (in both rows): as many cuts as this holds take seconds
ROUNDS: Final = 30  # of refinement on each level

_OPTIONS: Final = 40  # METIS_NOPTIONS
_OK: Final = 1  # METIS_OK
_SLACK: Final = 5e-5  # METIS adds this to each tolerance; taken off beforehand


class Task(NamedTuple):
    """A graph, and how to partition it."""

    xadj: Array  # vertices + 1
    adj: Array
    costs: Array  # of the edges in `adj`, 1 or more
    weights: Array  # vertices x weights, 1 or more
    parts: int  # fewer than vertices, 2 or more
    tolerances: tuple[float, ...]  # the imbalance allowed for each weight
    seed: int  # 0 or more


def partition(task: Task, library: ctypes.CDLL) -> Array:
    """The part of each vertex, by METIS_PartGraphKway with all weights balanced.

    Raises RuntimeError with METIS's code.
    """
    index = _index_type(library)
    cuts = min(CUTS, max(CUTS * _FEWER_FROM // max(len(task.adj), 1), 1))
    options = np.full(_OPTIONS, -1, index)
    place = pymetis._internal.options_indices  # type: ignore[attr-defined]  # noqa: SLF001
    options[[place.NITER, place.NCUTS, place.NUMBERING]] = ROUNDS, cuts, 0
    options[place.SEED] = task.seed + 1  # to METIS 0 and 1 are the same
    bounds = np.array([1 + max(bound - _SLACK, 0) for bound in task.tolerances], np.float32)
    part = np.zeros(len(task.weights), index)
    arrays: list[Array | None] = [
        *(np.array([number], index) for number in task.weights.shape),
        *(np.ascontiguousarray(a, index) for a in (task.xadj, task.adj, task.weights)),
        None,  # sizes of vertices, for another objective
        np.ascontiguousarray(task.costs, index),
        np.array([task.parts], index),
        None,  # all parts alike
        bounds,
        options,
        np.zeros(1, index),  # METIS's word on the cut, not used
        part,
    ]
    code = library.METIS_PartGraphKway(
        *(None if a is None else a.ctypes.data_as(ctypes.c_void_p) for a in arrays)
    )
    if code != _OK:
        raise RuntimeError(f"METIS returned {code}")
    return part.astype(np.int32)


def partition_by_sum(task: Task) -> Array:
    """The part of each vertex, by pymetis's own function, which balances the sum of all weights."""
    options = pymetis.Options(
        seed=task.seed + 1,
        ncuts=CUTS,
        niter=ROUNDS,
        ufactor=max(1, round(1000 * (min(task.tolerances) - _SLACK))),
    )
    _, part = pymetis.part_graph(
        task.parts,
        pymetis.CSRAdjacency(task.xadj, task.adj),
        vweights=task.weights.sum(axis=1),
        eweights=task.costs,
        recursive=False,
        options=options,
    )
    return np.array(part, np.int32)


def find_library() -> ctypes.CDLL | None:
    """The METIS library inside pymetis; None if it can't be called with several weights.

    pymetis itself has no function for several weights, so its private module is looked at.
    """
    library = ctypes.CDLL(pymetis._internal.__file__)  # noqa: SLF001
    return library if hasattr(library, "METIS_PartGraphKway") else None


def _index_type(library: ctypes.CDLL) -> type[np.int32] | type[np.int64]:
    """METIS fills its options with -1; the number of bytes it wrote shows the width of an index."""
    options = np.zeros(_OPTIONS, np.int64)
    library.METIS_SetDefaultOptions(options.ctypes.data_as(ctypes.c_void_p))
    return np.int64 if options[-1] == -1 else np.int32


def serve() -> None:
    """The child's whole life."""
    child.serve(work)


def work(task: Task) -> tuple[Array, int]:
    """The part of each vertex, and how many weights were balanced."""
    library = find_library()
    if library is None:
        return partition_by_sum(task), 1
    return partition(task, library), task.weights.shape[1]
