"""The units of a session: what one process reads at its end, and has a file of each table for."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from crawler.session.log import logs_of, rank_directories
from crawler.session.requests import requests_of


class Unit(NamedTuple):
    """Logs that have a file of their own in each table."""

    name: str  # of the files, without the suffix
    directories: Sequence[Path]  # of the ranks that wrote the logs

    @property
    def logs(self) -> list[Path]:
        """Return the log files, by rank, then oldest first."""
        return [path for directory in self.directories for path in logs_of(directory)]

    @property
    def requests(self) -> list[Path]:
        """Return the request logs, in the same order."""
        return [path for directory in self.directories for path in requests_of(directory)]


def units(session: Path) -> list[Unit]:
    """Return the units of a session: the directory of each rank."""
    directories = rank_directories(session) or [session / "rank-00000"]
    return [Unit(one.name.removeprefix("rank-"), [one]) for one in directories]
