"""What a session knows and hasn't fetched, and why; and links that lead to nothing.

Three files beside metrics.json, with a JSON object a line (docs/report.md):

    skipped.jsonl   each URL that is known and wasn't fetched, with the reason
    outside.jsonl   the hosts out of scope, by the number of links to them
    broken.jsonl    the pages that others link to and that don't exist, with where they are linked

All processes make them together from the tables of their units (`targets`). The lines of
skipped.jsonl stand by unit: pages without a response, then targets by the first link to them. Seeds
without either come last.
"""

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
import numpy as np
import pyarrow as pa

from crawler import arrow, session, url
from crawler.dataset import read_batches
from crawler.ports import REQUISITE, Peers
from crawler.reading.scope import Scope
from crawler.report.correcting import scope_of
from crawler.report.overview import TOP
from crawler.report.targets import (
    FETCHED,
    KEPT_OUT,
    TOO_FAR,
    UNFOLLOWED,
    WAITING,
    Told,
    UnitTables,
    find_targets,
)
from crawler.session.files import no_room_told
from crawler.session.together import done_by_all


async def write_lists(
    directory: Path, info: session.SessionInfo, units: Sequence[str], peers: Peers
) -> dict[str, Any]:
    """Write the three files. All processes call this together.

    `units`: the names of the units of this process. Returns what the report shows of the files on
    the first process, and nothing on the others.
    """
    report, tables = directory / "report", directory / "tables"
    own = [
        UnitTables(*(tables / table / f"{unit}.parquet" for table in UnitTables._fields))
        for unit in units
    ]
    seeds = session.seeds(directory)
    keys = np.fromiter(map(url.own_key, seeds), np.uint64, len(seeds))
    found = await find_targets(own, info.config, keys, peers)
    skipped = _Skipped(info, scope_of(directory, info))
    pieces = [report / f".skipped.jsonl.{rank}.new" for rank in range(peers.size)]
    with _removing(pieces[peers.rank]) as piece:
        await done_by_all(peers, lambda: skipped.write_piece(piece, own, found.told))
        counted = await peers.gather((skipped.reasons, skipped.hosts_outside()))
        unknown = [seeds[number] for number in found.unknown_seeds]

        def write() -> dict[str, Any]:
            if peers.rank > 0:
                return {}
            reasons, hosts = (sum(one, Counter[str]()) for one in zip(*counted, strict=True))
            reasons += skipped.join(pieces, unknown, report / "skipped.jsonl")
            outside = [{"host": host, "links": links} for host, links in _most_first(hosts)]
            for name, rows in {"outside": outside, "broken": found.broken}.items():
                with session.replacing(report / f"{name}.jsonl") as file:
                    file.write(_lines(rows))
            return {
                "skipped": dict(_most_first(reasons)),
                "outside_hosts": len(outside),
                "outside": outside[:TOP],
                "broken": len(found.broken),
                "broken_links": sum(row["links"] for row in found.broken),
                **_by_directory(found.broken),
            }

        return await done_by_all(peers, write)


_OUT: Final = (UNFOLLOWED, KEPT_OUT)  # codes of targets that no link leads to in scope
_lines: Final = msgspec.json.Encoder().encode_lines


def _most_first(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))


@contextmanager
def _removing(path: Path) -> Iterator[Path]:
    """Remove a file before, because a kill may have left it, and after its use."""
    path.unlink(missing_ok=True)
    try:
        yield path
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)


class _Line(msgspec.Struct):
    """A line of skipped.jsonl."""

    url: str
    reason: str


class _Skipped:
    """Writes the URLs that weren't fetched, with their reasons."""

    def __init__(self, info: session.SessionInfo, scope: Scope) -> None:
        self.reasons = Counter[str]()  # of the URLs that were written
        self._scope = scope
        self._links_outside = Counter[str]()  # by authority
        self._hosts = _Hosts(scope)
        ended = info.last.reason or "a kill"
        self._reasons = {
            WAITING: f"waiting: {ended} ended the crawl",
            TOO_FAR: "too many hops from a seed (scope.max_hops, traps.max_depth)",
            UNFOLLOWED: "nofollow: the page asks not to follow the link",
            KEPT_OUT: "its page is the same as too many others (traps.max_same_content)",
        }
        if info.last.complete:
            mode = info.config.session.mode
            self._reasons[WAITING] = f"kept out by [traps] or by the mode {mode}"

    def write_piece(self, path: Path, units: Sequence[UnitTables], told: Told) -> None:
        """Write the URLs of some units, of which a process tells."""
        path.parent.mkdir(exist_ok=True)
        with no_room_told(path), path.open("xb") as file:
            number = done = 0  # of the first link of a batch, and of the targets in `told`
            for unit in units:
                for batch in read_batches(unit.pages, ["url", "status", "error", "role"]):
                    self._write(file, _without_response(batch))
                for batch in read_batches(unit.links, ["target_url"]):
                    end = int(np.searchsorted(told.links, number + len(batch)))
                    some = told.some(slice(done, end))
                    self._write(file, self._targets(batch["target_url"], number, some))
                    number, done = number + len(batch), end

    def join(self, pieces: Sequence[Path], seeds: Sequence[str], path: Path) -> Counter[str]:
        """Write the file from its pieces and from seeds that no page or link has.

        Returns the reasons of the seeds.
        """
        reason = self._reasons[WAITING]
        with session.replacing(path) as file:
            for piece in pieces:
                with piece.open("rb") as opened:
                    shutil.copyfileobj(opened, file)
            file.write(_lines([_Line(seed, reason) for seed in seeds]))
        return Counter({reason: len(seeds)} if seeds else {})

    def hosts_outside(self) -> Counter[str]:
        """Return how many links lead to each host that is out of scope, of the links met."""
        hosts = Counter[str]()
        for authority, links in self._links_outside.items():
            if self._hosts[authority]:
                hosts[url.host(authority)] += links
        return hosts

    def _write(self, file: BinaryIO, lines: list[_Line]) -> None:
        self.reasons.update([line.reason for line in lines])
        file.write(_lines(lines))

    def _targets(self, urls: pa.Array, number: int, told: Told) -> list[_Line]:
        """Return the lines of targets. `urls`: of the links from this number on."""
        lines = []
        addresses = arrow.take(urls, arrow.column(told.links - number)).to_pylist()
        codes, outside = told.codes.tolist(), told.outside.tolist()
        for address, code, links in zip(addresses, codes, outside, strict=True):
            authority = address[: address.index("/", 8)]
            if links:
                self._links_outside[authority] += links
            if code == FETCHED:
                continue
            reason = self._hosts[authority] if code in _OUT else self._reasons[code]
            lines.append(_Line(address, reason or self._why(address, code)))
        return lines

    def _why(self, address: str, code: int) -> str:
        """Return why a URL of a host in scope isn't followed."""
        allowed, rule = self._scope.judge(address)
        return self._reasons[code] if allowed else f"out of scope: {rule}"


class _Hosts(dict[str, str]):
    """By authority, why its host is out of scope; empty if it isn't. Each host is judged once."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def __missing__(self, authority: str) -> str:
        allowed, rule = self._scope.judge_host(authority)
        self[authority] = "" if allowed else f"out of scope: {rule}"
        return self[authority]


def _without_response(rows: pa.RecordBatch) -> list[_Line]:
    """Return the lines of pages and requisites without a response, of some rows."""
    failed = arrow.filter_(rows, arrow.is_null(rows["status"]))
    columns = (failed[name].to_pylist() for name in ("url", "error", "role"))
    return [
        _Line(address, f"requisite: {error}" if role == REQUISITE else error)
        for address, error, role in zip(*columns, strict=True)
    ]


def _by_directory(broken: list[dict[str, Any]]) -> dict[str, Any]:
    """The directories with the most links to broken pages, each with its most linked-to page."""
    groups: dict[str, dict[str, Any]] = {}
    for row in broken:
        place = row["url"].partition("?")[0].rstrip("/").rpartition("/")[0] + "/"
        group = groups.setdefault(
            place, {"directory": place, "urls": 0, "links": 0, "example": row}
        )
        group["urls"] += 1
        group["links"] += row["links"]
    largest = sorted(groups.values(), key=lambda one: (-one["links"], one["directory"]))
    return {"broken_directories": len(groups), "broken_by_directory": largest[:TOP]}
