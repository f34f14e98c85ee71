"""The scope of a session as it has become, and the links in its logs by that scope."""

from pathlib import Path

from crawler import session
from crawler.reading import Reader, make_scope
from crawler.scope import Scope


def scope_of(directory: Path, info: session.SessionInfo) -> Scope:
    """The scope of a session, with the sites that have joined it."""
    scope = make_scope(
        info.config,
        session.seeds(directory),
        info.last.started.year,
        by_scheme=info.last.site_names is None,
    )
    scope.recall_joined(one.site for one in session.joined(directory))
    return scope


def correction_of(directory: Path) -> session.Correction:
    """What gives the links in the logs of a session the flags that they have by its scope."""
    info = session.load(directory)
    scope = scope_of(directory, info)
    return session.Correction(scope.joined, Reader(info.config, scope).brings_in)
