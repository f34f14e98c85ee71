"""The log and the counts of each rank while a crawl runs.

Each line of the log is a JSON object, so nothing that the web sends can forge a line. Warnings of
all ranks also reach the user, through notes to rank 0 (`agent.board`).
"""

import contextlib
import json
import logging
import os
from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from crawler.agent.site_tally import SiteTally
from crawler.messages import Trouble
from crawler.ports import MEANINGS, REQUISITE, Failure, PageRow
from crawler.report.outcomes import failure_of

LOGGERS = ("crawler", "asyncio")
_KEPT = 1000  # the latest warnings of a rank that it keeps
_TROUBLES = 5  # the latest URLs that gave no page, of those that no note has told


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


@dataclass(slots=True)
class Tally:
    """Counts what this rank fetches."""

    pages: int = 0  # responses
    requisites: int = 0  # responses for requisites; all counts below but two leave them out
    bytes: int = 0
    requests: int = 0  # for pages and for robots.txt files
    errors: int = 0
    good: int = 0  # responses of success, and redirects
    statuses: list[int] = field(default_factory=lambda: [0] * 5)  # responses by class, from 1xx
    by_failure: Counter[str] = field(default_factory=Counter)  # rows that aren't good
    sites: SiteTally = field(default_factory=SiteTally)
    troubles: deque[Trouble] = field(default_factory=lambda: deque(maxlen=_TROUBLES))

    def add(self, row: PageRow, detail: str = "") -> None:
        """Count a row that has been stored. `detail`: more about its failure."""
        status = row.status
        if row.role == REQUISITE:
            self.requisites += status is not None
            self.requests += status is not None
            self.bytes += row.bytes
            return
        if status is not None:
            self.pages += 1
            self.requests += 1
            self.bytes += row.bytes
            self.sites.add(row.site, row.bytes, row.seconds)
            if 100 <= status < 600:
                self.statuses[status // 100 - 1] += 1
        if row.error is not None:
            self.errors += 1
        what = failure_of(status, row.error)
        if what is None:
            self.good += 1
            return
        why = detail or ("" if row.error is None else MEANINGS[Failure(row.error)])
        self.by_failure[what] += 1
        self.troubles.append(Trouble(row.time, row.url, what, why))

    def take_troubles(self) -> list[Trouble]:
        """Return the latest URLs that gave no page, since the last call."""
        troubles = list(self.troubles)
        self.troubles.clear()
        return troubles
