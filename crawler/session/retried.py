"""Pages that failed in a run, and that a later run was told to try again.

Such a page has a row for each try. The last one counts: readers of the tables see no other. The
log keeps all of them, and session.toml names the failures that each run has tried again.
"""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final, Self

from crawler.modes import mode_of
from crawler.ports import PASSING, Failure, PageRow, Peers, UserError
from crawler.session.info import is_described, load
from crawler.session.log import Entry, LoggedPage, log_files, read_log
from crawler.session.together import Alone, alone, everywhere

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

    def __init__(self, retried: Sequence[Sequence[str]], overlaps: bool) -> None:
        """Make one that knows of no row yet: see `of` and `together`.

        `retried`: the failures that each run has tried again. `overlaps`: whether each rank has
        rows of its own.
        """
        self.runs = len(retried)  # that have tried pages again
        self._failures = frozenset(failure for run in retried for failure in run)
        self._overlaps = overlaps
        self._latest: dict[tuple[int, int], float] = {}

    @classmethod
    def of(cls, session: Path) -> Self:
        """Read all logs, if any run has tried pages again; twice, for the keys of these pages."""
        return alone(cls.together(session, log_files(session), Alone()))

    @classmethod
    async def together(cls, session: Path, logs: Sequence[Path], peers: Peers) -> Self:
        """Do the same on several processes, each of which reads the logs that it is given.

        Memory grows by about 150 bytes for each URL that has failed, on each process.
        """
        one = cls(*await peers.bcast(_retried(session) if peers.rank == 0 else ([], False)))
        if one.runs:
            failed = {one._place(row) for row in _rows(logs) if has_failed(row, one._failures)}
            failed = set().union(*await everywhere(peers, failed))
            for row in _rows(logs):
                if (place := one._place(row)) in failed:
                    one._note(place, row.time)
            for latest in await everywhere(peers, one._latest):
                for place, time in latest.items():
                    one._note(place, time)
        return one

    def __call__(self, row: PageRow) -> bool:
        """Whether another row of this URL is later, and the row failed as one to be tried again."""
        if not self._latest:
            return False
        return row.time < self._latest.get(self._place(row), row.time) and has_failed(
            row, self._failures
        )

    def _place(self, row: PageRow) -> tuple[int, int]:
        return row.key, row.rank if self._overlaps else 0

    def _note(self, place: tuple[int, int], time: float) -> None:
        self._latest[place] = max(time, self._latest.get(place, time))


def _retried(session: Path) -> tuple[list[list[str]], bool]:
    """Return the arguments of `Superseded` for a session."""
    if not is_described(session):
        return [], False
    info = load(session)
    return [run.retried for run in info.runs if run.retried], mode_of(info.config).overlaps


def read_latest(
    logs: Sequence[Path], is_superseded: Superseded, *, renamed: bool = True
) -> Iterator[Entry]:
    """Yield the entries of logs, without rows that a later try has superseded.

    `renamed`: see `read_log`.
    """
    for path in logs:
        for entry in read_log(path, renamed=renamed):
            if not (isinstance(entry, LoggedPage) and is_superseded(entry.row)):
                yield entry


def _rows(logs: Sequence[Path]) -> Iterator[PageRow]:
    for path in logs:
        for entry in read_log(path):
            if isinstance(entry, LoggedPage):
                yield entry.row
