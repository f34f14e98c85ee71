"""The log of each rank while a crawl runs.

Each line is a JSON object, so nothing that the web sends can forge a line. Warnings of
all ranks also reach the user, through notes to rank 0 (`agent.board`).
"""

import contextlib
import json
import logging
import os
from collections import deque
from datetime import UTC, datetime
from pathlib import Path

LOGGERS = ("crawler", "asyncio")
_KEPT = 1000  # the latest warnings of a rank that it keeps


class RankLog(logging.Handler):
    """Writes what the program logs on this rank to `agent.log`, and keeps warnings for notes."""

    def __init__(self, path: Path, rank: int) -> None:
        file = _open_to_append(path)  # may raise; a handler that exists is closed at exit
        super().__init__(logging.INFO)
        self._file = os.fdopen(file, "a", encoding="utf-8", buffering=1)
        self._rank = rank
        self._warnings: list[str] = []
        self.latest: deque[str] = deque(maxlen=_KEPT)  # warnings, also those already taken
        for name in LOGGERS:
            logger = logging.getLogger(name)
            logger.addHandler(self)
            logger.setLevel(logging.INFO)
            logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line for a record, and keep it if it is a warning."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "rank": self._rank,
            "event": record.getMessage(),
        }
        line.update(getattr(record, "about", {}))
        if record.exc_info:
            line["traceback"] = logging.Formatter().formatException(record.exc_info)
        with contextlib.suppress(OSError):  # the disk may be full; the board warns the user
            self._file.write(json.dumps(line) + "\n")
        if record.levelno >= logging.WARNING:
            warning = f"rank {self._rank}: {record.getMessage()}"
            self._warnings.append(warning)
            self.latest.append(warning)

    def take_warnings(self) -> list[str]:
        """Return the warnings since the last call."""
        warnings, self._warnings = self._warnings, []
        return warnings

    def close(self) -> None:
        """Stop logging, and close the file."""
        for name in LOGGERS:
            logging.getLogger(name).removeHandler(self)
        with contextlib.suppress(OSError):
            self._file.close()
        super().close()


def _open_to_append(path: Path) -> int:
    """Open a file to append to it. A symbolic link isn't followed: it may lead to any file."""
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o666)
