"""Reads the web graph from the tables of sessions, or from a folder with a graph.

A web graph holds no URL texts: tables are read in batches, and of a text only its length and its
site are kept. Whoever needs the texts of some pages has them read again, by `WebGraph.texts`.
"""

from collections.abc import Sequence
from pathlib import Path

from partition import UserError
from partition.graph.batches import batches
from partition.graph.folder import from_directory
from partition.graph.sessions import addresses, from_sessions
from partition.webgraph import WebGraph

__all__ = ["addresses", "batches", "from_directory", "from_sessions", "read"]


def read(paths: Sequence[Path], site_column: str = "site") -> WebGraph:
    """The graph of sessions (later ones win), or of one folder with a graph.

    Raises UserError if the paths hold neither, or if there are no pages.
    """
    tables = [path / "tables" for path in paths]
    if len(paths) == 1 and (paths[0] / "pages.parquet").is_file():
        web = from_directory(paths[0], site_column)
    else:
        for path, folder in zip(paths, tables, strict=True):
            if not folder.is_dir():
                allowed = "a session that has ended, with tables/"
                if len(paths) == 1:
                    allowed += ", or a graph, with pages.parquet and links.parquet"
                raise UserError(f"{path}: must be {allowed}")
        web = from_sessions(tables)
    if not web.pages:
        raise UserError(f"{paths[0]}: the graph is empty; at least one page is needed")
    return web
