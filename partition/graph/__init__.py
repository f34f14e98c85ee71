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

__all__ = [
    "addresses",
    "batches",
    "empty",
    "from_directory",
    "from_sessions",
    "is_folder",
    "read",
    "seeds",
    "tables",
]


def read(paths: Sequence[Path], site_column: str = "site") -> WebGraph:
    """Return the graph of sessions (later ones win), or of one graph folder.

    Raises UserError if the paths hold neither, or if there are no pages.
    """
    web = (
        from_directory(paths[0], site_column) if is_folder(paths) else from_sessions(tables(paths))
    )
    if not web.pages:
        raise empty(paths)
    return web


def tables(paths: Sequence[Path]) -> list[Path]:
    """Return the folder with the tables of each session. Raises UserError if one has none."""
    for path in paths:
        if not (path / "tables").is_dir():
            allowed = "a session that has ended (a folder with tables/)"
            if len(paths) == 1:
                allowed += ", or a graph folder (with pages.parquet and links.parquet)"
            raise UserError(f"{path}: must be {allowed}")
    return [path / "tables" for path in paths]


def empty(paths: Sequence[Path]) -> UserError:
    """Return the error of a graph without pages."""
    return UserError(f"{paths[0]}: the graph is empty; at least one page is needed")


def seeds(paths: Sequence[Path], web: WebGraph) -> Ids:
    """Return the pages with which the last session began; none if the path is a graph folder."""
    if is_folder(paths):
        return np.zeros(0, np.int32)
    return _seeds(paths[-1] / "tables", web)


def is_folder(paths: Sequence[Path]) -> bool:
    """Return whether a graph folder is to be read, and not sessions."""
    return len(paths) == 1 and (paths[0] / "pages.parquet").is_file()
