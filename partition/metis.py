"""Runs METIS with several weights a vertex, in a child process.

pymetis passes only one weight a vertex to METIS. But its extension module exports the functions of
METIS itself, which accept several weights, so this module calls them by ctypes. Such a call can't
be interrupted, and a crash would end the process. Therefore it runs in a child.

If the extension module exports no such function, `pymetis.part_graph` balances the sum of the
weights. The answer says so.
"""

import ctypes
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pymetis
import pymetis._internal

from partition import child

Array = npt.NDArray[Any]

CUTS: Final = 10  # METIS keeps the best of these cuts; ten have 18 % less volume than one
_MANY_EDGES: Final = 2_000_000  # with more edges (counted in both rows), there are fewer cuts
ROUNDS: Final = 30  # rounds of refinement on each level

_OPTIONS: Final = 40  # METIS_NOPTIONS
_OK: Final = 1  # METIS_OK
_SLACK: Final = 5e-5  # METIS adds this to each tolerance, so it is subtracted first


class Task(NamedTuple):
    """A graph, and how to partition it."""

    xadj: Array  # (vertices + 1,)
    adj: Array
    costs: Array  # cost of each edge in `adj`, 1 or more
    weights: Array  # vertices x weights, 1 or more
    parts: int  # from 2 to vertices - 1
    tolerances: tuple[float, ...]  # the imbalance allowed for each weight
    seed: int  # 0 or more


def partition(task: Task, library: ctypes.CDLL) -> Array:
    """Return the part of each vertex, by METIS_PartGraphKway with all weights balanced.

    Raises RuntimeError with METIS's return code.
    """
    index = _index_type(library)
    cuts = min(CUTS, max(CUTS * _MANY_EDGES // max(len(task.adj), 1), 1))
    options = np.full(_OPTIONS, -1, index)
    place = pymetis._internal.options_indices  # type: ignore[attr-defined]  # noqa: SLF001
    options[[place.NITER, place.NCUTS, place.NUMBERING]] = ROUNDS, cuts, 0
    options[place.SEED] = task.seed + 1  # METIS treats 0 and 1 alike
    bounds = np.array([1 + max(bound - _SLACK, 0) for bound in task.tolerances], np.float32)
    part = np.zeros(len(task.weights), index)
    arrays: list[Array | None] = [
        *(np.array([number], index) for number in task.weights.shape),
        *(np.ascontiguousarray(a, index) for a in (task.xadj, task.adj, task.weights)),
        None,  # sizes of vertices, for another objective
        np.ascontiguousarray(task.costs, index),
        np.array([task.parts], index),
        None,  # all parts get equal weights
        bounds,
        options,
        np.zeros(1, index),  # gets the edge cut; not used
        part,
    ]
    code = library.METIS_PartGraphKway(
        *(None if a is None else a.ctypes.data_as(ctypes.c_void_p) for a in arrays)
    )
    if code != _OK:
        raise RuntimeError(f"METIS returned {code}")
    return part.astype(np.int32)


def partition_by_sum(task: Task) -> Array:
    """Return the part of each vertex, by pymetis, which balances the sum of all weights."""
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
    """Return the METIS library inside pymetis, or None if it has no function for several weights.

    pymetis has no public function for this, so its private module is used.
    """
    library = ctypes.CDLL(pymetis._internal.__file__)  # noqa: SLF001
    return library if hasattr(library, "METIS_PartGraphKway") else None


def _index_type(library: ctypes.CDLL) -> type[np.int32] | type[np.int64]:
    """Return the integer type of METIS.

    METIS fills its options with -1; the number of bytes that it wrote shows the size of the
    type.
    """
    options = np.zeros(_OPTIONS, np.int64)
    library.METIS_SetDefaultOptions(options.ctypes.data_as(ctypes.c_void_p))
    return np.int64 if options[-1] == -1 else np.int32


def serve() -> None:
    """Run the child: read one task, write one answer."""
    child.serve(work)


def work(task: Task) -> tuple[Array, int]:
    """Return the part of each vertex, and the number of weights balanced."""
    library = find_library()
    if library is None:
        return partition_by_sum(task), 1
    return partition(task, library), task.weights.shape[1]
