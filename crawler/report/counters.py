"""Counts that only a running rank knows, such as messages, requests and memory.

At the end of each run, rank 0 writes the counts of all ranks to `report/counters.json`. It writes
the hashes of the pairs (source site, other rank) to `report/site_part.npz`.
"""

import contextlib
import json
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import msgspec
import numpy as np
from msgspec.structs import asdict
from numpy.typing import NDArray

from crawler import session
from crawler.arrays import distinct
from crawler.ports import UserError


class DynamicCounts(msgspec.Struct, frozen=True):
    """What one rank counted under dynamic assignment."""

    handed: int  # URLs that this server handed to its clients
    returned: int  # those of them that a client gave back
    urls_up: int  # URLs sent to the server above, with their text or as a key
    urls_down: int  # URLs sent to ranks below
    # By client: seconds since the epoch, connections, pages of this run until then, waiting seeds.
    clients: Mapping[str, Sequence[tuple[float, ...]]]


class Counters(msgspec.Struct, frozen=True):
    """What one rank counted while it ran."""

    rank: int
    seconds: float
    cpu_seconds: float
    peak_bytes: int  # the most memory that the process held
    host: str
    progress: Sequence[tuple[float, int]]  # seconds since the epoch, inter_part_urls until then
    queue: Sequence[tuple[float, int]]  # seconds since the epoch, `waiting` at that moment
    waiting: int  # URLs that the rank knew and hadn't fetched
    requests: int  # pages and robots.txt files
    retries: int  # URLs put back after a failure
    internal_errors: int  # errors raised by code that reads the web's data, see crawler.faults
    by_trap: dict[str, int]  # links and URLs that each rule of [traps] kept out
    plugin_errors: dict[str, int]  # by name of the plug-in
    inter_part_links: int
    dropped_links: int
    inter_part_pages: int
    inter_part_urls: int
    urls_to: Mapping[str, int]  # inter_part_urls by receiving rank
    messages_page_part: int
    site_part: Collection[int]  # hashes of the pairs (source site, other rank)
    transmissions_target_part: int | None
    inter_part_requisites: int  # requisites sent to their owners; they count nowhere else
    claims: int
    mpi_messages: int
    mpi_messages_to: Mapping[str, int]  # by receiving rank
    mpi_bytes: int
    dynamic: DynamicCounts | None
    limited: Mapping[str, int]  # rank 0: seconds in which each session.Bound limited the crawl
    memory: Mapping[str, tuple[int, int]]  # bytes at most and at the end, by table (core.budget)
    longest_break_s: float  # of the event loop (agent.timing.LoopWatch)


_REACHABLE = "reachable.npy"  # u64 URL keys
_COUNTERS = "counters.json"  # of each run, of each rank
_SITE_PART = "site_part.npz"  # by rank: u64 hashes of its (source site, other rank) pairs
SUMMED = (
    "requests",
    "retries",
    "internal_errors",
    "inter_part_links",
    "dropped_links",
    "inter_part_pages",
    "inter_part_urls",
    "messages_page_part",
    "transmissions_target_part",
    "inter_part_requisites",
    "claims",
    "mpi_messages",
    "mpi_bytes",
    "waiting",
)


def write_counters(
    directory: Path,
    run: int,
    ranks: Sequence[Counters],
    lost: Collection[int] = (),
    reachable: Collection[int] | None = None,
) -> None:
    """Keep what the ranks counted in a run of the session, for this and later reports.

    `lost`: ranks that were lost in the run. Their counts are missing, so most sums are null.
    `reachable`: the URL keys of all pages that the crawl should have fetched with status 200, if
    they are known.
    """
    (directory / "report").mkdir(exist_ok=True)
    if reachable is not None:
        with session.replacing(directory / "report" / _REACHABLE) as file:
            np.save(file, np.array(sorted(reachable), np.uint64))
    pairs = read_site_part(directory)
    for one in ranks:
        before = pairs.get(one.rank, np.zeros(0, np.uint64))
        pairs[one.rank] = distinct(np.append(before, np.array(list(one.site_part), np.uint64)))
    arrays: dict[str, Any] = {str(rank): hashes for rank, hashes in pairs.items()}
    # A kill may come at any moment. The counters are written last, because a report ignores a run
    # whose counters are missing.
    with session.replacing(directory / "report" / _SITE_PART) as file:
        np.savez(file, **arrays)
    fields = (without(asdict(one), "site_part") for one in ranks)
    counted = [msgspec.to_builtins(one) for one in fields]
    counted += [{"rank": rank, "seconds": 0.0, "by_trap": {}} for rank in sorted(lost)]
    runs = [*read_runs(directory), {"run": run, "ranks": counted}]
    with session.replacing(directory / "report" / _COUNTERS) as file:
        file.write(json.dumps({"runs": runs}, indent=1).encode())


def without(fields: dict[str, Any], name: str) -> dict[str, Any]:
    """Copy a dict, leaving out one key."""
    return {key: value for key, value in fields.items() if key != name}


class _RankCounts(TypedDict):
    """The counts that counters.json must have for each rank. Other counts may be missing."""

    rank: int
    seconds: float
    by_trap: dict[str, int]
    plugin_errors: NotRequired[dict[str, int]]
    host: NotRequired[str]
    progress: NotRequired[list[tuple[float, int]]]
    queue: NotRequired[list[tuple[float, int]]]
    urls_to: NotRequired[dict[str, int]]
    mpi_messages_to: NotRequired[dict[str, int]]
    dynamic: NotRequired[DynamicCounts | None]
    limited: NotRequired[dict[str, int]]
    memory: NotRequired[dict[str, tuple[int, int]]]


class _RunCounts(TypedDict):
    run: int
    ranks: list[_RankCounts]


class _AllCounts(TypedDict):
    runs: list[_RunCounts]


def check_counters(directory: Path) -> None:
    """Check that this and later reports can be written. Raises UserError if a file is damaged."""
    read_runs(directory)
    read_site_part(directory)
    read_reachable(directory)


def read_runs(directory: Path) -> list[dict[str, Any]]:
    """Read the counts of each run, with a list `ranks`; empty if there is no file.

    Raises UserError if the file is damaged.
    """
    path = directory / "report" / _COUNTERS
    with _damage_as_user_error(path):
        content = json.loads(path.read_bytes())
        msgspec.convert(content, _AllCounts)
        runs: list[dict[str, Any]] = content["runs"]
        for name in SUMMED:
            for run in runs:
                msgspec.convert([one.get(name) for one in run["ranks"]], list[int | None])
        return runs
    return []


def read_site_part(directory: Path) -> dict[int, NDArray[np.uint64]]:
    """Read, by rank, the hashes of its pairs (source site, other rank); empty without a file.

    Raises UserError if the file is damaged.
    """
    path = directory / "report" / _SITE_PART
    with _damage_as_user_error(path), np.load(path) as file:
        return {int(rank): _keys(file[rank]) for rank in file}
    return {}


def _keys(array: NDArray[Any]) -> NDArray[np.uint64]:
    if array.dtype != np.uint64 or array.ndim != 1:
        raise ValueError(f"{array.dtype}, {array.ndim} dimensions: not a list of u64")
    return array


@contextlib.contextmanager
def _damage_as_user_error(path: Path) -> Iterator[None]:
    """Turn the errors of reading a file into a UserError. A missing file is no error."""
    import zipfile  # noqa: PLC0415  only rank 0 reads such files

    try:
        yield
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(
            f"{path}: can't be read: {str(error).splitlines()[0]}; move the file away: then the"
            " report shows null for the measures that need this file"
        ) from None


def read_reachable(directory: Path) -> NDArray[np.uint64] | None:
    """Read the URL keys of all pages that the crawl should have fetched; None without a file.

    Raises UserError if the file is damaged.
    """
    path = directory / "report" / _REACHABLE
    with _damage_as_user_error(path):
        return _keys(np.load(path))
    return None
