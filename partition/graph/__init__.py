"""Reads the web graph from the tables of sessions, or from a graph folder.

A web graph holds no URL texts. The tables are read in batches, and only the length and the site of
each URL are kept. `WebGraph.texts` reads the URLs of some pages again.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from partition import UserError
from partition.arrays import Ids
from partition.graph.batches import batches
from partition.graph.folder import from_directory
from partition.graph.sessions import addresses, from_sessions
from partition.graph.sessions import seeds as _seeds
from partition.webgraph import WebGraph

__all__ = ["addresses", "batches", "from_directory", "from_sessions", "read", "seeds"]


def read(paths: Sequence[Path], site_column: str = "site") -> WebGraph:
    """Return the graph of sessions (later ones win), or of one graph folder.

    Raises UserError if the paths hold neither, or if there are no pages.
    """
    tables = [path / "tables" for path in paths]
    if _is_folder(paths):
        web = from_directory(paths[0], site_column)
    else:
        for path, folder in zip(paths, tables, strict=True):
            if not folder.is_dir():
                allowed = "a session that has ended (a folder with tables/)"
                if len(paths) == 1:
                    allowed += ", or a graph folder (with pages.parquet and links.parquet)"
                raise UserError(f"{path}: must be {allowed}")
        web = from_sessions(tables)
    if not web.pages:
        raise UserError(f"{paths[0]}: the graph is empty; at least one page is needed")
    return web


def seeds(paths: Sequence[Path], web: WebGraph) -> Ids:
    """Return the pages with which the last session began; none if the path is a graph folder."""
    if _is_folder(paths):
        return np.zeros(0, np.int32)
    return _seeds(paths[-1] / "tables", web)


def _is_folder(paths: Sequence[Path]) -> bool:
    return len(paths) == 1 and (paths[0] / "pages.parquet").is_file()
