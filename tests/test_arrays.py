"""Functions on arrays against those of numpy."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from crawler.arrays import distinct


@given(st.lists(st.integers(0, 9) | st.integers(0, 2**64 - 1)))
def test_distinct_numbers(numbers: list[int]) -> None:
    array = np.array(numbers, np.uint64)
    before = array.copy()
    found = distinct(array)
    assert found.tolist() == sorted(set(numbers))
    assert found.dtype == array.dtype
    assert (array == before).all()
