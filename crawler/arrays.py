"""Functions on arrays of numbers that numpy lacks, or that it has only slow."""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

_Number = TypeVar("_Number", bound=np.generic)


def distinct(numbers: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """Return the different numbers, ascending.

    np.unique hashes them, and takes ten times as long. It also imports masked arrays, for 12 ms.
    """
    ascending = np.sort(numbers)
    is_new = np.ones(len(ascending), np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=is_new[1:])
    return ascending[is_new]
