"""Reads the rows of pages in the table `pages`, without those of requisites."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crawler.ports import PAGE


def page_batches(path: Path, *columns: str) -> Iterator[pa.RecordBatch]:
    """Yield these columns of the rows of pages, in batches. Old tables hold nothing else."""
    with pq.ParquetFile(path) as file:
        roles = ["role"] if "role" in file.schema_arrow.names else []
        for batch in file.iter_batches(columns=[*columns, *roles]):
            rows = batch.filter(pc.equal(batch["role"], PAGE)) if roles else batch
            yield rows.select(list(columns))


def page_rows(path: Path, *columns: str) -> pa.Table:
    """Return these columns of the rows of pages."""
    schema = pa.schema([pq.read_schema(path).field(name) for name in columns])
    return pa.Table.from_batches(page_batches(path, *columns), schema)
