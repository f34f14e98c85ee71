"""Checks that the files of a session are files, before a command opens any of them."""

from pathlib import Path
from typing import Final

from crawler.ports import UserError
from crawler.regular import regular
from crawler.session.log import rank_directories

_FOLDERS: Final = ("questions", "report", "tables")
_FILES: Final = (  # patterns; a file that ends in .new will replace another file
    "session.toml",
    "seeds.txt",
    "replicated.txt",
    "shared-keys.txt",
    "clients",
    "added-seeds.txt",
    "status.json*",
    "questions/*",
    "report/*.json",
    "report/*.np?",
    "report/*.new",
    "tables/*.parquet",
    "tables/*.jsonl",
    "tables/*/*.parquet",
    "tables/*/*.jsonl",
    "tables/*/.*.new",
)
_RANK_FOLDERS: Final = ("log", "requests")
_RANK_FILES: Final = (
    "agent.log",
    "crawl.log",
    "snapshot",
    "snapshot.next",
    "*.warc.gz",
    "*.cdxj",
    "log/[0-9]*.log",
    "log/[0-9]*.joined",
    "requests/*.log",
)


def check_layout(session: Path) -> None:
    """Check that the files of a session are regular files, and its directories directories.

    Any of them may be missing. Raises UserError for example for a FIFO, which would block the
    command that opens it.
    """
    ranks = rank_directories(session)
    folders = [session / name for name in _FOLDERS]
    folders += [rank / name for rank in ranks for name in _RANK_FOLDERS]
    for path in folders:
        if not path.is_dir() and (path.exists() or path.is_symlink()):
            raise UserError(f"{path}: must be a directory; move the file away")
    files = [path for pattern in _FILES for path in session.glob(pattern)]
    files += [path for rank in ranks for pattern in _RANK_FILES for path in rank.glob(pattern)]
    for path in files:
        try:
            regular(path)
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}; move it away") from None
