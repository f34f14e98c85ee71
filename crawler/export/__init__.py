"""Writes sessions in the formats of other programs: the command `export`.

Each function in `FORMATS` writes one file. It is called while this process holds the lock of the
session, and returns lines that say what was written. docs/archives.md and docs/corpus.md describe
the formats.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from crawler import session
from crawler.export.graph import write_edges, write_webgraph
from crawler.export.indexes import write_cdxj
from crawler.export.wacz import write_wacz
from crawler.ports import UserError

# By the name of the option: writes a session to a file, and returns what was written.
FORMATS: Final[Mapping[str, Callable[[Path, Path], list[str]]]] = {
    "wacz": write_wacz,
    "cdxj": write_cdxj,
    "edges": write_edges,
    "webgraph": write_webgraph,
}


def export(directory: Path, files: Mapping[str, Path | None]) -> list[str]:
    """Write a session to files, given by format. Returns what was written, in lines.

    Raises UserError if the directory holds no session, if a process writes to the session, if no
    file is named, or if a file can't be written.
    """
    chosen = {name: path for name, path in files.items() if path is not None}
    if not chosen:
        options = " or ".join(f"--{name} FILE" for name in FORMATS)
        raise UserError(f"{directory}: export writes nothing; add {options}")
    for path in chosen.values():  # before the work, which may take hours
        if path.is_dir():
            raise UserError(f"{path}: is a directory; name a file that export is to write")
        if not path.parent.is_dir():
            raise UserError(f"{path.parent}: no such directory; make it, or name another file")
    session.load(directory)
    with session.mistakes_told(str(directory)):
        session.lock_session(directory, session.EXPORTED)
        try:
            session.check_layout(directory)
            return [
                line for name, path in chosen.items() for line in FORMATS[name](directory, path)
            ]
        finally:
            session.unlock_session(directory)
