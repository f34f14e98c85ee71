"""Runs Mt-KaHyPar in a child process. It balances one weight.

It uses the preset DEFAULT on one thread, so that equal seeds give equal results.
"""

from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from partition import child
from partition.child import OneWeight

Array = npt.NDArray[Any]

# The most that the weights, and the costs, may sum to: Mt-KaHyPar's integers have 32 bits.
_TOTAL: Final = 1 << 30


def partition(task: OneWeight) -> tuple[Array, int]:
    """Return the part of each vertex (int32), and the number of weights balanced: 1."""
    import mtkahypar  # type: ignore[import-not-found]  # noqa: PLC0415 - optional

    kahypar = mtkahypar.initialize(1, print_warnings=False)
    mtkahypar.set_seed(task.seed)
    context = kahypar.context_from_preset(mtkahypar.PresetType.DEFAULT)
    context.set_partitioning_parameters(task.parts, task.tolerance, mtkahypar.Objective.KM1)
    context.logging = False
    hypergraph = kahypar.create_hypergraph(
        context,
        len(task.weights),
        len(task.costs),
        [task.pins[low:high] for low, high in pairwise(task.xpins.tolist())],
        _small(task.weights, least=0),
        _small(task.costs, least=1),
    )
    part = hypergraph.partition(context).get_partition()
    return np.array(part, np.int32), 1


def _small(numbers: Array, least: int) -> Array:
    """Return the numbers, scaled in proportion if their sum exceeds _TOTAL."""
    factor = min(1, _TOTAL / max(float(numbers.sum()), 1))
    return np.maximum(np.rint(numbers * factor), least).astype(np.int32)


def serve() -> None:
    """Run the child: read one task, write one answer."""
    child.serve(partition)
