"""SESSION/status.json: how far a crawl is, and what holds it up. Rank 0 replaces it each second.

Anybody may read the file at any time, because it is replaced as a whole. It is derived from what
the ranks tell rank 0, and no command but `watch` and `status` depends on it (docs/watching.md).
"""

import time
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from crawler.messages import Trouble
from crawler.ports import UserError
from crawler.regular import regular
from crawler.session.files import replacing
from crawler.session.lock import who_writes

_NAME: Final = "status.json"
_SILENT_S: Final = 10.0  # without a new file for so long, and without a lock, a crawl is lost


class State(StrEnum):
    """What a crawl does."""

    STARTING = "starting"
    RESUMING = "resuming"  # it reads the logs of earlier runs
    CRAWLING = "crawling"
    PAUSED = "paused"
    STOPPING = "stopping"
    REPORTING = "reporting"  # it writes the tables and measures
    ENDED = "ended"
    LOST = "lost"  # it has ended without a word; a resume continues it


class Bound(StrEnum):
    """What keeps a rank from fetching more now."""

    DISK = "full disk"
    OUTBOX = "outbox"  # messages wait for another rank
    CPU = "CPU"
    CONCURRENCY = "concurrency"  # all connections are in use
    DELAYS = "site delays"
    ANSWERS = "slow answers"  # every site that has URLs has a request under way
    QUOTA = "max_pages"  # the pages that are left are with other ranks
    NOTHING = "no URLs"
    NO_CRAWLER = "-"  # the rank fetches nothing: a seed server, or a spare


class RankStatus(msgspec.Struct, frozen=True):
    """One rank, as its latest note tells. Counts are those of the run."""

    rank: int
    pages: int
    pages_per_second: float  # in the last minute
    errors: int
    bytes: int
    waiting: int
    sites_ready: int
    sites_resting: int
    hosts_failing: int
    fetching: int
    connections: int
    cpu: float  # share of a core in the last second
    lag_s: float
    memory: int  # bytes
    backlog: int  # bytes
    urls_to: dict[int, int]  # URLs sent, by receiving rank
    bound: Bound
    silent_s: float = 0.0  # since its latest note
    longest_break_s: float = 0.0  # of the event loop in this run


class SiteStatus(msgspec.Struct, frozen=True):
    """A site, as far as the latest notes tell. If many ranks fetch it, the counts may be low."""

    site: str
    pages: int
    bytes: int
    seconds: float  # for a page, on average
    ranks: list[int]


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The content of status.json. Times are in seconds; `time` and `started` since 1970.

    Counts are those of this run, on all ranks, but `pages` counts those of earlier runs as well.
    """

    version: int = 1
    session: str
    state: State
    reason: str = ""  # why the crawl ended, as in session.toml
    time: float
    started: float
    seconds: float  # of this run
    ranks: int
    pages: int
    max_pages: int  # 0: no limit
    pages_per_second: float = 0.0  # in the last minute
    failed_per_second: float = 0.0  # in the last minute
    messages_per_second: float = 0.0  # between ranks, in the last minute
    left_s: float | None = None  # at the pace of the last minute; None: unknown
    left_until: str = ""  # what ends the crawl then: max_pages, max_time or no URLs
    requests: int = 0
    good: int = 0  # responses of success (2xx, 304), and redirects
    failed: int = 0  # URLs that gave no such response, after their last try
    by_failure: dict[str, int] = {}  # these, by error class or status, such as "status 404"
    statuses: dict[str, int] = {}  # responses by class: 2xx, 4xx, ...
    bytes: int = 0
    waiting: int = 0
    messages: int = 0  # between ranks
    requisites: int = 0  # responses for requisites, which `pages` leaves out
    early: int = 0  # requests that came earlier than promised; 0: politeness was kept
    plugin_errors: dict[str, int] = {}  # by name of the plug-in
    bound: Bound = Bound.NOTHING
    rows: list[RankStatus] = []
    largest_sites: list[SiteStatus] = []  # the five with the most pages
    slowest_sites: list[SiteStatus] = []  # the five that took the longest for a page
    troubles: list[Trouble] = []  # the latest five, the newest last


_encode = msgspec.json.Encoder().encode


def write_status(directory: Path, status: Status) -> None:
    """Replace status.json. Raises OSError, or NoRoomError; the old file stays then."""
    with replacing(directory / _NAME, durable=False) as file:
        file.write(_encode(status) + b"\n")


def read_status(directory: Path) -> Status:
    """Return what status.json says, with the state LOST if the ranks are gone.

    Raises UserError if there is no such file, or if another version has written it.
    """
    path = directory / _NAME
    try:
        status = msgspec.json.decode(regular(path).read_bytes(), type=Status)
    except OSError as error:
        raise UserError(
            f"{path}: {error.strerror}; name the directory of a session that a crawl has begun"
        ) from None
    except msgspec.MsgspecError as error:
        raise UserError(f"{path}: {error}; another version of this program wrote it") from None
    if status.state is State.ENDED or who_writes(directory) is not None:
        return status
    if time.time() - status.time < _SILENT_S:  # some file systems have no locks
        return status
    return msgspec.structs.replace(status, state=State.LOST)
