"""Imports graphs as two Parquet tables, of pages and of links."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from crawler import url
from partition import UserError, graph
from partition.arrays import find
from partition.importers.pages import Imported


def read(pages: Path, links: Path, site_column: str) -> Imported:
    """Read tables like those of a graph folder.

    The sites may be in any column. Without such a column, they are the sites of the URLs.
    Raises UserError.
    """
    optional = list(dict.fromkeys(("url", "bytes", site_column)))
    batches = list(graph.batches(pages, "id", optional=optional))
    if not batches:
        raise UserError(f"{pages}: has no pages; a graph needs at least one")
    table = pa.Table.from_batches(batches)
    if site_column in table.column_names:
        names = table[site_column].cast(pa.string()).combine_chunks().dictionary_encode()
        renamed = pa.array(map(url.renamed_site, names.dictionary.to_pylist()), pa.string())
        site = renamed.take(names.indices)
    elif site_column == "site" and "url" in table.column_names:
        try:
            site = pa.array(map(url.site, table["url"].to_pylist()), pa.string())
        except ValueError:
            needed = "normalised http or https URLs, or a column of sites"
            raise UserError(f"{pages}: url: needed: {needed}") from None
    else:
        raise UserError(f"{pages}: no column {site_column}; needed: id, {site_column} or url")
    kept = [name for name in ("id", "url", "bytes") if name in table.column_names]
    ids = np.sort(table["id"].to_numpy())
    ends = {name: [np.empty(0, np.int64)] for name in ("src", "dst")}
    for batch in graph.batches(links, *ends):
        for name, arrays in ends.items():
            arrays.append(batch[name].to_numpy().astype(np.int64))
            if not find(ids, arrays[-1])[1].all():
                raise UserError(f"{links}: {name}: an id that isn't in {pages}")
    src, dst = map(np.concatenate, ends.values())
    return table.select(kept).append_column("site", site), src, dst
