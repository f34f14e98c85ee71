"""Functions on Arrow's columns against pyarrow's own."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler import arrow

NUMBERS = st.lists(st.none() | st.integers(-3, 3), max_size=20)


@given(NUMBERS, NUMBERS)
def test_functions_do_as_pyarrow_does(first: list[int | None], second: list[int | None]) -> None:
    count = min(len(first), len(second))
    one, other = pa.array(first[:count], pa.int64()), pa.array(second[:count], pa.int64())
    for name in ("equal", "greater", "greater_equal", "multiply", "subtract"):
        assert getattr(arrow, name)(one, other).equals(getattr(pc, name)(one, other)), name
        assert getattr(arrow, name)(one, 1).equals(getattr(pc, name)(one, 1)), name
    some, more = pc.greater(one, 0), pc.greater(other, 0)
    assert arrow.and_(some, more).equals(pc.and_(some, more))
    assert arrow.or_(some, more).equals(pc.or_(some, more))
    for name in ("is_null", "is_valid", "unique", "value_counts"):
        assert getattr(arrow, name)(one).equals(getattr(pc, name)(one)), name
    assert arrow.sum_(one).equals(pc.sum(one))
    assert arrow.cast(one, pa.float64()).equals(pc.cast(one, pa.float64()))
    assert arrow.fill_null(one, 7).equals(pc.fill_null(one, 7))
    assert arrow.is_in(one, pa.array([1, 2])).equals(pc.is_in(one, pa.array([1, 2])))
    encoded = pa.array([str(number) if number else None for number in first], pa.string())
    assert arrow.dictionary_encode(encoded).equals(encoded.dictionary_encode("encode"))
    table = pa.table({"one": one, "other": other})
    assert arrow.filter_(table, some).equals(table.filter(some))
    batch = pa.RecordBatch.from_pydict({"one": one})
    assert arrow.filter_(batch, some).equals(batch.filter(some))
    order = [("one", "descending"), ("other", "ascending")]
    assert arrow.sort_by(table, order).equals(table.sort_by(order))


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.uint64, np.float64, np.bool_])
@given(st.lists(st.integers(0, 200), max_size=20))
def test_columns_of_numbers(kind: type, numbers: list[int]) -> None:
    array = np.array(numbers).astype(kind)
    assert arrow.column(array).equals(pa.array(array))
    assert arrow.column(array[::-2]).equals(pa.array(array[::-2]))


def test_a_column_of_times() -> None:
    kind = pa.timestamp("us", "UTC")
    array = np.array([3, 4], np.int64)
    assert arrow.column(array, kind).equals(pa.array(array.view("datetime64[us]"), kind))


def test_a_value_that_does_not_fit() -> None:
    with pytest.raises(pa.ArrowInvalid):
        arrow.cast(pa.array([300]), pa.uint8())
