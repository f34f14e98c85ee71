"""Pages that failed in a run, and that a later run was told to try again.

Such a page has a row for each try. The last one counts: readers of the tables see no other. The
log keeps all of them, and session.toml names the failures that each run has tried again.
"""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from crawler.modes import mode_of
from crawler.ports import PASSING, Failure, PageRow, UserError
from crawler.session.info import is_described, load
from crawler.session.log import Entry, LoggedPage, log_files, read_log

# What is tried again unless the user names failures: all that may pass.
MAY_PASS: Final = (
    *sorted(PASSING),
    Failure.SITE_GIVEN_UP,
    *(f"status {status}" for status in (408, 429, 500, 502, 503, 504)),
)


def failures_named(name: str) -> list[str]:
    """Return the failures that a user means: an error class, a status, or all that may pass.

    Raises UserError if there is no such failure.
    """
    if not name:
        return [str(failure) for failure in MAY_PASS]
    if name in set(Failure):
        return [name]
    if name.isdigit() and 400 <= int(name) < 600:
        return [f"status {name}"]
    classes = ", ".join(sorted(Failure))
    raise UserError(f"--retry-failed {name}: not a status from 400 to 599, and none of {classes}")


def has_failed(row: PageRow, failures: Collection[str]) -> bool:
    """Whether a row is one of these failures, which are error classes or `status 503`."""
    if row.error is not None:
        return row.error in failures
    return row.status is not None and row.status >= 400 and f"status {row.status}" in failures


class Superseded:
    """Says which rows of a session are superseded by a later try."""

    def __init__(self, session: Path) -> None:
        """Read the logs, if any run has tried pages again; twice, for the keys of these pages."""
        described = load(session).runs if is_described(session) else ()
        runs = [one.retried for one in described if one.retried]
        self.runs = len(runs)  # that have tried pages again
        self._failures = frozenset(failure for one in runs for failure in one)
        self._latest: dict[tuple[int, int], float] = {}
        if runs:
            self._alone = mode_of(load(session).config).overlaps  # each rank has its own rows
            failed = {self._place(row) for row in _rows(session) if has_failed(row, self._failures)}
            for row in _rows(session):
                place = self._place(row)
                if place in failed:
                    self._latest[place] = max(row.time, self._latest.get(place, row.time))

    def __call__(self, row: PageRow) -> bool:
        """Whether another row of this URL is later, and the row failed as one to be tried again."""
        if not self._latest:
            return False
        return row.time < self._latest.get(self._place(row), row.time) and has_failed(
            row, self._failures
        )

    def _place(self, row: PageRow) -> tuple[int, int]:
        return row.key, row.rank if self._alone else 0


def read_latest(session: Path, *, renamed: bool = True) -> Iterator[tuple[Path, Entry]]:
    """Yield the entries of all logs, each with its file: by rank, then in the order of storing.

    Rows that a later try has superseded are left out. `renamed`: see `read_log`.
    """
    is_superseded = Superseded(session)
    for path in log_files(session):
        for entry in read_log(path, renamed=renamed):
            if not (isinstance(entry, LoggedPage) and is_superseded(entry.row)):
                yield path, entry


def _rows(session: Path) -> Iterator[PageRow]:
    for path in log_files(session):
        for entry in read_log(path):
            if isinstance(entry, LoggedPage):
                yield entry.row
