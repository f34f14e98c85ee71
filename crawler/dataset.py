"""Finds and reads the Parquet files of a table.

A table is a directory, `FOLDER/pages/*.parquet`, with a file for each rank of a session. Graph
folders, and sessions of earlier versions, have one file in its place, `FOLDER/pages.parquet`.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from crawler.regular import regular

_SUFFIX: Final = ".parquet"


def table_path(folder: Path, name: str) -> Path:
    """Return where a table is: its directory if that has files, else its one file."""
    directory = folder / name
    return directory if _files_in(directory) else folder / f"{name}{_SUFFIX}"


def table_files(path: Path) -> list[Path]:
    """Return the files of the table at a path, in the order of its rows.

    Raises OSError if one of them is no regular file.
    """
    return [regular(file) for file in _files_in(path) or [path]]


def _files_in(path: Path) -> list[Path]:
    return sorted(path.glob(f"[!._]*{_SUFFIX}")) if path.is_dir() else []


def read_table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Return a table, or some of its columns. Columns that it lacks are left out."""
    wanted = None if columns is None else list(columns)
    pieces = []
    for file in table_files(path):
        with pq.ParquetFile(file) as opened:
            pieces.append(opened.read(wanted))
    return pa.concat_tables(pieces)


def read_batches(path: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield some columns of a table, in batches. Columns that it lacks are left out."""
    for file in table_files(path):
        with pq.ParquetFile(file) as opened:
            yield from opened.iter_batches(columns=list(columns))
