"""A session against the earlier one that it names (`session.previous`), page by page."""

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from xxhash import xxh3_64_intdigest

from crawler import arrow, session
from crawler.dataset import table_files, table_path
from crawler.ports import Peers
from crawler.regular import regular
from crawler.session.columns import PAGES
from crawler.session.roles import page_rows
from crawler.session.together import by_holder, mine

_GONE: Final = (404, 410)


class Change(StrEnum):
    """What became of a URL since the earlier session."""

    UNCHANGED = "unchanged"
    CHANGED = "changed"
    NEW = "new"
    GONE = "gone"
    FAILED = "no answer now"
    NOT_ASKED = "not asked for"


async def compare(
    directory: Path, earlier: Path, peers: Peers, *, complete: bool
) -> dict[str, Any] | None:
    """The URLs of two sessions by what became of them; None if the earlier one has no tables.

    All processes call this together. The first one returns the result, and the others None. Each
    compares the URLs that it holds, by the key modulo the number of processes.

    `complete`: whether the crawl has ended by itself. Only URLs that gave a response in one of the
    sessions count. Memory grows by about 100 bytes for each page that a process holds.
    """
    if not await peers.bcast(table_path(earlier / "tables", "pages").exists()):
        return None
    now, before = await _Pages.held(directory, peers), await _Pages.held(earlier, peers)
    found = await peers.gather(_changes(now, before))
    if peers.rank > 0:
        return None
    changes = {change.value: sum(counts[change] for counts, _ in found) for change in Change}
    return {
        "session": str(earlier),
        "changes": changes,
        "complete": complete,
        "bytes_not_sent": sum(size for _, size in found),
        "per_page": _costs(earlier),
    }


def _changes(now: "_Pages", before: "_Pages") -> tuple[dict[Change, int], int]:
    """The numbers of URLs by what became of them, and the bytes that weren't sent again."""
    counts = dict.fromkeys(Change, 0)
    place = np.minimum(np.searchsorted(before.keys, now.keys), max(0, len(before.keys) - 1))
    here = session.among(now.keys, before.keys)
    old_status = np.zeros(len(now.keys), np.int16)
    old_digest = np.zeros(len(now.keys), np.uint64)
    if len(before.keys):
        old_status[here] = before.statuses[place[here]]
        old_digest[here] = before.digests[place[here]]
    asked, known = now.statuses > 0, old_status > 0
    gone = asked & known & np.isin(now.statuses, _GONE) & _came(old_status)
    same_kind = (now.statuses == old_status) | (_came(now.statuses) & _came(old_status))
    same_bytes = (now.digests != 0) & (now.digests == old_digest) & same_kind
    same_answer = (now.statuses == old_status) & (
        (now.statuses >= 400) | ((now.digests == 0) & (old_digest == 0))
    )
    unchanged = asked & known & ((now.statuses == 304) | same_bytes | same_answer)
    counts[Change.NEW] = int((asked & ~known).sum())
    counts[Change.GONE] = int(gone.sum())
    counts[Change.UNCHANGED] = int((unchanged & ~gone).sum())
    counts[Change.CHANGED] = int((asked & known & ~gone & ~unchanged).sum())
    counts[Change.FAILED] = int((~asked & known).sum())
    responses = before.keys[before.statuses > 0]
    counts[Change.NOT_ASKED] = int((~session.among(responses, now.keys)).sum())
    not_modified = np.flatnonzero(here & (now.statuses == 304))
    return counts, int(before.sizes[place[not_modified]].sum())


def _came(statuses: npt.NDArray[np.int16]) -> npt.NDArray[np.bool_]:
    """Whether the page came, or was as before."""
    success: npt.NDArray[np.bool_] = ((statuses >= 200) & (statuses < 300)) | (statuses == 304)
    return success


class _Pages(NamedTuple):
    """The pages that a process holds, of one session. Status 0 is none."""

    keys: npt.NDArray[np.uint64]  # ascending, each once
    statuses: npt.NDArray[np.int16]
    sizes: npt.NDArray[np.int64]
    digests: npt.NDArray[np.uint64]

    @classmethod
    async def held(cls, directory: Path, peers: Peers) -> Self:
        """Read the tables of a session together. The latest row of each page counts."""
        files = await peers.bcast(table_files(table_path(directory / "tables", "pages")))
        columns = _read(mine(files, peers))
        given = [[column[its] for column in columns] for its in by_holder(columns[0], peers)]
        received = zip(*await peers.alltoall(given), strict=True)
        keys, times, statuses, sizes, digests = map(np.concatenate, received)
        order = np.lexsort((times, keys))
        last = np.ones(len(order), np.bool_)
        np.not_equal(keys[order][1:], keys[order][:-1], out=last[:-1])
        order = order[last]
        return cls(keys[order], statuses[order], sizes[order], digests[order])


def _read(files: Sequence[Path]) -> list[npt.NDArray[Any]]:
    """Read the keys, times, statuses, sizes and digests of pages."""
    names = ("key", "time", "status", "bytes", "digest")
    tables = [page_rows(file, *names) for file in files]
    table = pa.concat_tables(tables) if tables else PAGES.empty_table()
    return [
        table["key"].to_numpy(),
        arrow.cast(table["time"], pa.int64()).to_numpy(),
        arrow.fill_null(table["status"], 0).to_numpy(),
        table["bytes"].to_numpy(),
        _numbers(table["digest"]),
    ]


def _numbers(digests: pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    """Digests as numbers, the hash of each; 0 for none."""
    known = (
        0 if text is None else xxh3_64_intdigest(text.encode()) for text in digests.to_pylist()
    )
    return np.fromiter(known, np.uint64, len(digests))


def _costs(earlier: Path) -> dict[str, float]:
    """What a page cost in the earlier session; empty if its report is missing or damaged."""
    try:
        metrics = json.loads(regular(earlier / "report" / "metrics.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return per_page(metrics) if isinstance(metrics, dict) else {}


def per_page(metrics: Mapping[str, Any]) -> dict[str, float]:
    """What a page cost in a session, so that sessions of different sizes can be compared."""
    pages = metrics.get("pages")
    costs = {
        "bytes received": metrics.get("bytes"),
        "requests": metrics.get("requests"),
        "URLs between ranks": metrics.get("inter_part_urls"),
        "messages (page, part)": metrics.get("messages_page_part"),
        "seconds": metrics.get("seconds"),
    }
    return {name: cost / pages for name, cost in costs.items() if cost is not None and pages}
