"""The log and the counts of each rank while a crawl runs, and what rank 0 shows to the user.

Each line of the log is a JSON object, so nothing that the web sends can forge a line. Warnings of
all ranks also reach the user, through notes to rank 0.
"""

import contextlib
import json
import logging
import os
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from crawler.messages import Note
from crawler.ports import PageRow

_LINE_INTERVAL_S = 10.0  # between two lines of progress, if a line can't be overwritten
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


class Board:
    """Rank 0's view of all ranks, shown on standard error.

    On a terminal, one line is overwritten again and again. Elsewhere (under mpirun, in the output
    of a job), a new line is printed every ten seconds.
    """

    def __init__(self, max_pages: int) -> None:
        self._earlier = 0  # pages fetched before this run, or before ranks were lost
        self._before = 0  # those of them that were there when the clock started
        self._max_pages = max_pages
        self._latest: dict[int, Note] = {}
        self._said: Counter[str] = Counter()
        self._terminal = sys.stderr.isatty()
        self._started = self._shown = time.monotonic()

    def begin_after(self, pages: int, *, lost: bool) -> None:
        """Note how many pages the session has had so far.

        `lost`: whether ranks are lost, and the others begin a new run. The notes of the last run
        don't count any more, because its pages are among `pages`.
        """
        self._earlier = pages
        if lost:
            self._latest.clear()
        else:
            self._before = pages

    def update(self, rank: int, note: Note) -> None:
        """Note how far a rank is, and show its warnings."""
        self._latest[rank] = note
        self._said.update(note.warnings)
        self.say(note.warnings)

    def say_rest(self, warnings: Iterable[str]) -> None:
        """Show those of the latest warnings of a rank that no note has brought.

        The last notes of a crawl may not arrive.
        """
        for warning, count in Counter(warnings).items():
            self.say([warning] * (count - self._said[warning]))

    def show(self) -> None:
        """Show how far the crawl is. To be called about every second."""
        now = time.monotonic()
        if not self._terminal and now - self._shown < _LINE_INTERVAL_S:
            return
        self._shown = now
        notes = self._latest.values()
        pages = self._earlier + sum(note.pages for note in notes)
        seconds = now - self._started
        limit = f" of {self._max_pages:,}" if self._max_pages else ""
        line = (
            f"{_clock(seconds)}  {pages:,}{limit} pages"
            f"  {(pages - self._before) / max(seconds, 0.1):,.0f}/s"
            f"  {sum(note.bytes for note in notes) / 1e6:,.1f} MB"
            f"  {sum(note.waiting for note in notes):,} waiting"
            f"  {sum(note.errors for note in notes):,} errors"
        )
        if self._terminal:
            sys.stderr.write(f"\r\x1b[K{line}")
            sys.stderr.flush()
        else:
            self.say([line])

    def close(self) -> None:
        """Clear the line of progress."""
        if self._terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def say(self, lines: Iterable[str]) -> None:
        """Show lines to the user, above the line of progress."""
        for line in lines:
            text = "".join(c if c.isprintable() else "?" for c in line)  # no control characters
            sys.stderr.write(("\r\x1b[K" if self._terminal else "") + text + "\n")
        sys.stderr.flush()


def _clock(seconds: float) -> str:
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}"


@dataclass(slots=True)
class Tally:
    """Counts what this rank fetches."""

    pages: int = 0  # responses
    bytes: int = 0
    requests: int = 0  # for pages and for robots.txt files
    errors: int = 0
    by_error: Counter[str] = field(default_factory=Counter)

    def add(self, row: PageRow) -> None:
        """Count a row that has been stored."""
        if row.status is not None:
            self.pages += 1
            self.requests += 1
            self.bytes += row.bytes
        if row.error is not None:
            self.errors += 1
            self.by_error[row.error] += 1
