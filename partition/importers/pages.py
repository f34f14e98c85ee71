"""What importers return, and the writer of graph folders."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from crawler import url
from partition import UserError
from partition.arrays import Ints

Say = Callable[[str], None]
Imported = tuple[pa.Table, Ints, Ints]  # pages; source and target ids of the links

_SITE: Final = "web"  # the site of all pages without URLs


def write(out: Path, pages: pa.Table, src: Ints, dst: Ints) -> None:
    """Write a graph folder, whole or not at all.

    Raises UserError if `out` exists, its parent doesn't, or there are no pages.
    """
    if out.exists() or not out.absolute().parent.is_dir():
        raise UserError(f"--out {out}: must be a new folder, in a folder that exists")
    temporary = out.with_name(f".{out.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        pq.write_table(pages, temporary / "pages.parquet", compression="zstd")
        table = pa.table({"src": src, "dst": dst})
        pq.write_table(table, temporary / "links.parquet", compression="zstd")
        if not len(pages):
            raise UserError(f"--out {out}: the files have no pages; a graph needs at least one")
        temporary.rename(out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def without_urls(ids: Ints) -> pa.Table:
    """Return pages with these ids, all of one site."""
    site = pa.DictionaryArray.from_arrays(np.zeros(len(ids), np.int32), [_SITE])
    return pa.table({"id": ids, "site": site})


def with_urls(urls: Sequence[str], sizes: Sequence[int] | None = None) -> pa.Table:
    """Return pages with these normalised URLs and, if given, sizes. The ids count from 0."""
    columns: dict[str, Any] = {
        "id": np.arange(len(urls)),
        "url": pa.array(urls, pa.string()),
        "site": pa.array(map(url.site, urls), pa.string()),
    }
    if sizes is not None:
        columns["bytes"] = pa.array(sizes, pa.int64())
    return pa.table(columns)
