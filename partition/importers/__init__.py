"""Graphs from elsewhere, made into graph folders (docs/graph.md): pages.parquet and links.parquet.

Each importer returns the pages and the links, as page ids. What it must leave out it counts and
says. Graphs whose pages have no URL have one site, `web`, which only page models and the hybrid
model can divide.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from partition import UserError
from partition.importers import tables, text, warc
from partition.importers.pages import Imported, Say, write

_READERS: Final = {
    "snap": text.snap,
    "webgraph": text.webgraph,
    "edges": text.edges,
    "warc": warc.read,
}
KINDS: Final = (*_READERS, "parquet")

__all__ = ["KINDS", "Imported", "run", "write"]


def run(
    kind: str,
    files: Sequence[Path],
    out: Path,
    *,
    pages: Path | None = None,
    links: Path | None = None,
    site_column: str = "site",
    say: Say,
) -> None:
    """Make the graph folder `out`, which must not exist, from files of a kind of KINDS.

    `say` tells what was left out. Raises UserError.
    """
    if kind == "parquet":
        if pages is None or links is None or files:
            raise UserError("import parquet: needs --pages FILE and --links FILE, nothing else")
        imported = tables.read(pages, links, site_column)
    else:
        if not files or pages or links:
            raise UserError(f"import {kind}: needs the files, and no --pages or --links")
        for path in files:
            if not path.is_file():
                raise UserError(f"{path}: no such file")
        if kind == "webgraph" and len(files) > 1:
            raise UserError("import webgraph: one file is one graph")
        imported = _READERS[kind](files, say)
    write(out, *imported)
