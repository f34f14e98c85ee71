"""The scope of a session, with the sites that joined it during the crawl.

A link to such a site may have been logged as out of scope before the site joined. The correction
clears this flag when the log is read.
"""

from pathlib import Path

from crawler import session
from crawler.reading.judge import Judge
from crawler.reading.reader import make_scope
from crawler.reading.scope import Scope


def scope_of(directory: Path, info: session.SessionInfo) -> Scope:
    """The scope of a session, with the sites that have joined it."""
    scope = make_scope(
        info.config,
        session.seeds(directory),
        info.last.started.year,
        by_scheme=info.last.site_names is None,
    )
    scope.restore_joined(one.site for one in session.joined(directory))
    return scope


def correction_of(directory: Path, info: session.SessionInfo) -> session.Correction:
    """The correction for the flags of logged links, for the scope with all sites that joined."""
    scope = scope_of(directory, info)
    return session.Correction(scope.joined, Judge(info.config, scope).brings_in)
