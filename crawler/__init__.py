"""ABC: a parallel web crawler. Each MPI rank is an agent; see ARCHITECTURE.md for the rooms.

A script uses `crawler.run` and `crawler.Session` (docs/scripts.md).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from crawler.version import __version__

if TYPE_CHECKING:
    from crawler.api import Session, Stored, run

__all__ = ["Session", "Stored", "__version__", "run"]


def __getattr__(name: str) -> Any:
    # Every module of the crawler imports this one, so this one can't import them at once.
    if name in __all__:
        return getattr(import_module("crawler.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
