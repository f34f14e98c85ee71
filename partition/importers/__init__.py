"""Makes graph folders (docs/graph.md) from graphs in other formats.

A graph folder has pages.parquet and links.parquet. Each importer returns the pages, and the links
as page ids. It counts and reports what it must leave out. A graph whose pages have no URLs has one
site, `web`, which only page models and the hybrid model can divide.
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

    `say` gets a line about what was left out. Raises UserError.
    """
    if kind == "parquet":
        if pages is None or links is None or files:
            raise UserError("import parquet: give --pages FILE and --links FILE, nothing else")
        imported = tables.read(pages, links, site_column)
    else:
        if not files or pages or links:
            raise UserError(f"import {kind}: give the files, without --pages and --links")
        for path in files:
            if not path.is_file():
                what = "is no file" if path.exists() else "no such file"
                raise UserError(f"{path}: {what}; name a file that can be read")
        if kind == "webgraph" and len(files) > 1:
            raise UserError("import webgraph: give one file, because each is a graph")
        imported = _READERS[kind](files, say)
    write(out, *imported)
