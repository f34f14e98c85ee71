"""Reads the rows of pages in the table `pages`, without those of requisites.

`path` is where `dataset.table_path` finds the table.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from crawler import arrow
from crawler.dataset import read_batches, table_files
from crawler.ports import PAGE


def page_batches(path: Path, *columns: str) -> Iterator[pa.RecordBatch]:
    """Yield these columns of the rows of pages, in batches. Old tables hold nothing else."""
    for batch in read_batches(path, [*columns, "role"]):
        has_roles = "role" in batch.schema.names
        rows = arrow.filter_(batch, arrow.equal(batch["role"], PAGE)) if has_roles else batch
        yield rows.select(list(columns))


def page_rows(path: Path, *columns: str) -> pa.Table:
    """Return these columns of the rows of pages."""
    schema_of = pq.read_schema(table_files(path)[0])
    schema = pa.schema([schema_of.field(name) for name in columns])
    return pa.Table.from_batches(page_batches(path, *columns), schema)
