"""Functions of Arrow on columns and tables, by the names that pyarrow.compute gives them.

Importing pyarrow.compute makes 300 documented functions, for 28 ms on each rank. The methods of
pyarrow's tables and columns that compute something import it, too, such as `filter` and `unique`.
So what runs at the end of each crawl takes these functions in their place.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

try:
    from pyarrow import _compute as compute  # what pyarrow.compute makes its functions of
except ImportError:  # its name is private, so another version may lack it
    from pyarrow import compute


def _of(name: str) -> Callable[..., Any]:
    def call(*arguments: object) -> Any:
        return compute.call_function(name, list(arguments))

    return call


and_: Final = _of("and")
equal: Final = _of("equal")
filter_: Final = _of("filter")  # the rows where a condition holds
greater: Final = _of("greater")
greater_equal: Final = _of("greater_equal")
is_null: Final = _of("is_null")
is_valid: Final = _of("is_valid")
multiply: Final = _of("multiply")
or_: Final = _of("or")
subtract: Final = _of("subtract")
sum_: Final = _of("sum")  # without nulls
take: Final = _of("take")
unique: Final = _of("unique")
value_counts: Final = _of("value_counts")


def column(numbers: npt.NDArray[Any], kind: pa.DataType | None = None) -> pa.Array:
    """Return a column with these numbers. `kind`: its type, if not that of the array.

    pa.array would do the same, but imports masked arrays of numpy, for 12 ms.
    """
    kind = pa.from_numpy_dtype(numbers.dtype) if kind is None else kind
    packed = np.packbits(numbers, bitorder="little") if numbers.dtype == np.bool_ else numbers
    buffer = pa.py_buffer(np.ascontiguousarray(packed))
    return pa.Array.from_buffers(kind, len(numbers), [None, buffer])


def cast(values: Any, kind: pa.DataType) -> Any:
    """Return a column with another type. Raises ArrowInvalid if a value doesn't fit."""
    return compute.call_function("cast", [values], compute.CastOptions(kind))


def dictionary_encode(values: Any) -> Any:
    """Return a column as numbers and a dictionary, which may have a null."""
    options = compute.DictionaryEncodeOptions("encode")
    return compute.call_function("dictionary_encode", [values], options)


def fill_null(values: Any, value: object) -> Any:
    """Return a column with a value in the place of nulls."""
    return compute.call_function("coalesce", [values, pa.scalar(value, values.type)])


def is_in(values: Any, wanted: pa.Array) -> Any:
    """Return whether each value of a column is one of some values."""
    return compute.call_function("is_in", [values], compute.SetLookupOptions(value_set=wanted))


def sort_by(table: pa.Table, order: Sequence[tuple[str, str]]) -> pa.Table:
    """Return a table with its rows ordered by columns, each `ascending` or `descending`."""
    options = compute.SortOptions(sort_keys=list(order))
    return take(table, compute.call_function("sort_indices", [table], options))
