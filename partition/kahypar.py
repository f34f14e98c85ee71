"""Mt-KaHyPar, in a child process of its own. It balances one weight.

The preset is DEFAULT on one thread, so that equal seeds give equal parts.
"""

from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from partition import child
from partition.child import OneWeight

Array = npt.NDArray[Any]

# What the weights, and the costs, sum to at most: Mt-KaHyPar's integers have 32 bits.
_TOTAL: Final = 1 << 30


def partition(task: OneWeight) -> tuple[Array, int]:
    """The part of each vertex (int32), and the number of weights balanced: 1."""
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
    """As they are if their sum is below _TOTAL, or else in the same proportions."""
    factor = min(1, _TOTAL / max(float(numbers.sum()), 1))
    return np.maximum(np.rint(numbers * factor), least).astype(np.int32)


def serve() -> None:
    """The child's whole life."""
    child.serve(partition)
