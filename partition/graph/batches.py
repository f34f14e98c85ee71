"""Reads the rows of Parquet files in batches, and checks them."""

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crawler.dataset import table_files
from partition import UserError
from partition.arrays import Ids, total

_BATCH_ROWS: Final = 1 << 18
_INTEGERS: Final = frozenset(
    ("id", "src", "dst", "bytes", "key", "source_key", "target_key", "flags")
)
_TEXTS: Final = frozenset(("url", "target_url"))


class Share(NamedTuple):
    """A share of the rows of a table: every `size`-th row group, from number `rank` on."""

    rank: int
    size: int


WHOLE: Final = Share(0, 1)


def batches(
    path: Path, *columns: str, optional: Sequence[str] = (), share: Share = WHOLE
) -> Iterator[pa.RecordBatch]:
    """Read these columns of a table in batches, with those of `optional` that it has.

    `path`: a Parquet file, or a directory with the files of a table. Columns that this module knows
    must be integers or texts; others may have any type. Raises UserError for a missing column,
    another type, a null, or a negative number of bytes.
    """
    groups = 0
    try:
        for file in table_files(path):
            groups = yield from _batches_of(file, columns, optional, share, groups)
    except OSError as error:
        what = "no such file" if isinstance(error, FileNotFoundError) else _one_line(error)
        raise UserError(f"{path}: {what}; a Parquet file is needed") from None


def _batches_of(
    path: Path, columns: Sequence[str], optional: Sequence[str], share: Share, before: int
) -> Generator[pa.RecordBatch, None, int]:
    """Yield the share of a file in batches.

    `before` is the number of row groups in the files before. Returns that number for the next file.
    """
    try:
        with pq.ParquetFile(path) as file:
            present = {field.name: field.type for field in file.schema_arrow}
            for name in columns:
                if name not in present:
                    raise UserError(f"{path}: no column {name}; needed: {', '.join(columns)}")
            wanted = [*columns, *(name for name in optional if name in present)]
            for name in wanted:
                _check_type(path, name, present[name])
            groups = range(before, before + file.num_row_groups)
            own = [group - before for group in groups if group % share.size == share.rank]
            for batch in file.iter_batches(_BATCH_ROWS, row_groups=own, columns=wanted):
                for name in wanted:
                    if batch[name].null_count:
                        raise UserError(f"{path}: {name}: a row has null; give each row a value")
                    _check_texts(path, name, batch[name])
                    if name == "bytes" and (pc.min(batch[name]).as_py() or 0) < 0:
                        raise UserError(f"{path}: bytes: a negative number; must be 0 or more")
                yield batch
            return groups.stop
    except pa.ArrowInvalid as error:
        raise UserError(f"{path}: not a Parquet file: {_one_line(error)}") from None


def _one_line(error: Exception) -> str:
    """Return what an error of pyarrow says, which may have several lines."""
    return " ".join(str(error).split())


def _check_texts(path: Path, name: str, column: pa.Array) -> None:
    if name not in _TEXTS:
        return
    column.validate(full=True)  # UTF-8
    with_nul = pc.index(pc.match_substring(column, "\0"), value=True).as_py()
    if with_nul >= 0:
        raise UserError(f"{path}: {name}: {column[with_nul].as_py()!r}: has a NUL; remove it")


def _check_type(path: Path, name: str, kind: pa.DataType) -> None:
    types = pa.types
    if types.is_nested(kind):
        raise UserError(f"{path}: {name}: is {kind}; must be single values")
    if types.is_null(kind):
        return  # the type of a column without rows, or of nulls (reported elsewhere)
    if name in _INTEGERS and not types.is_integer(kind):
        raise UserError(f"{path}: {name}: is {kind}; must be integers")
    if name in _TEXTS and not (types.is_string(kind) or types.is_large_string(kind)):
        raise UserError(f"{path}: {name}: is {kind}; must be strings")


def check_sum(path: Path, sizes: npt.NDArray[np.integer[Any]]) -> None:
    """Raise UserError if the sizes of the pages in a file, in bytes, sum to 2^63 or more."""
    if total(sizes) >= 1 << 63:
        raise UserError(f"{path}: bytes: sum to 2^63 or more; must be less")


def lengths(texts: pa.Array) -> Ids:
    """The length of each text, in bytes of UTF-8."""
    return np.asarray(pc.binary_length(texts).to_numpy(), np.int32)
