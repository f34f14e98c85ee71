"""What a session knows and hasn't fetched, and why; and links that lead to nothing.

Three files beside metrics.json, with a JSON object a line (docs/report.md):

    skipped.jsonl   each URL that is known and wasn't fetched, with the reason
    outside.jsonl   the hosts out of scope, by the number of links to them
    broken.jsonl    the pages that others link to and that don't exist, with where they are linked

They are made from the tables, which are read twice. Memory grows by about 9 bytes for each URL that
wasn't fetched, 12 for each page, and by the rows of broken pages.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crawler import session, url
from crawler.dataset import read_batches, read_table, table_path
from crawler.ports import NOFOLLOW, OUT_OF_SCOPE, REDIRECT, REQUISITE, Failure
from crawler.reading.scope import Scope
from crawler.report.correcting import scope_of
from crawler.report.overview import TOP

_Keys = npt.NDArray[np.uint64]
_Codes = npt.NDArray[np.uint8]

_WAITING, _TOO_FAR, _KEPT_OUT = range(3)  # why a link's target has no row; the first one counts
_SOURCES: Final = 3  # pages that link to a broken one, at most
_BROKEN_STATUSES: Final = (404, 410)
_BROKEN_ERRORS: Final = (
    *(Failure.BAD_URL, Failure.DNS_NOT_FOUND, Failure.UNREACHABLE, Failure.REFUSED),
    *(Failure.CONNECT_TIMEOUT, Failure.DISCONNECTED, Failure.TIMEOUT, Failure.TLS),
    *(Failure.BAD_HTTP, Failure.BAD_REDIRECT, Failure.REDIRECT_LOOP, Failure.TOO_MANY_REDIRECTS),
)


def write_lists(directory: Path, info: session.SessionInfo) -> dict[str, Any]:
    """Write the three files. Returns what the report shows of them."""
    scope = scope_of(directory, info)
    report, tables = directory / "report", directory / "tables"
    report.mkdir(exist_ok=True)
    with session.replacing(report / "skipped.jsonl") as file:
        skipped = _Skipped(directory, info, scope, file).write()
    outside = _outside(table_path(tables, "links"), scope)
    hosts = [{"host": host, "links": links} for host, links in outside.most_common()]
    broken = _broken(tables)
    for name, rows in {"outside": hosts, "broken": broken}.items():
        with session.replacing(report / f"{name}.jsonl") as file:
            file.writelines(map(_line, rows))
    return {
        "skipped": dict(skipped.most_common()),
        "outside_hosts": len(hosts),
        "outside": hosts[:TOP],
        "broken": len(broken),
        "broken_links": sum(row["links"] for row in broken),
        **_by_directory(broken),
    }


def _line(row: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(row) + b"\n"


class _Skipped:
    """Finds the URLs that weren't fetched, and writes them with their reasons."""

    def __init__(
        self, directory: Path, info: session.SessionInfo, scope: Scope, file: BinaryIO
    ) -> None:
        self._directory = directory
        self._settings = info.config
        self._scope = scope
        self._file = file
        self._pages = table_path(directory / "tables", "pages")
        self._links = table_path(directory / "tables", "links")
        self._counts = Counter[str]()
        ended = info.last.reason or "a kill"
        self._reasons = {
            _WAITING: f"waiting: {ended} ended the crawl",
            _TOO_FAR: "too many hops from a seed (scope.max_hops, traps.max_depth)",
        }
        if info.last.complete:
            mode = self._settings.session.mode
            self._reasons[_WAITING] = f"kept out by [traps] or by the mode {mode}"

    def write(self) -> Counter[str]:
        """Write all lines. Returns how many URLs have each reason."""
        fetched = self._write_rows()
        keys, codes = self._find(fetched)
        self._write_links(keys, codes)
        seeds = session.seeds(self._directory)
        seed_keys = np.fromiter(map(url.own_key, seeds), np.uint64)
        known = session.among(seed_keys, keys) | session.among(seed_keys, fetched)
        for seed, is_known in zip(seeds, known.tolist(), strict=True):
            if not is_known:
                self._tell(seed, self._reasons[_WAITING])
        return self._counts

    def _tell(self, address: str, reason: str) -> None:
        self._counts[reason] += 1
        self._file.write(_line({"url": address, "reason": reason}))

    def _write_rows(self) -> _Keys:
        """Write the rows without a response. Returns the sorted keys of all rows."""
        keys = []
        for batch in read_batches(self._pages, ["url", "key", "status", "error", "role"]):
            keys.append(batch["key"].to_numpy())
            for row in batch.filter(pc.is_null(batch["status"])).to_pylist():
                which = "requisite: " if row["role"] == REQUISITE else ""
                self._tell(row["url"], which + row["error"])
        return np.unique(np.concatenate([np.zeros(0, np.uint64), *keys]))

    def _find(self, fetched: _Keys) -> tuple[_Keys, _Codes]:
        """The keys that links lead to and that have no row, sorted; and why each has none."""
        table = read_table(self._pages, ["key", "hops"])
        order = np.argsort(table["key"].to_numpy(), kind="stable")
        sources, hops = table["key"].to_numpy()[order], table["hops"].to_numpy()[order]
        most = min(self._settings.scope.most_hops, self._settings.traps.max_depth or inf)
        found = [(np.zeros(0, np.uint64), np.zeros(0, np.uint8))]
        for batch in read_batches(self._links, ["source_key", "target_key", "flags"]):
            targets, flags = batch["target_key"].to_numpy(), batch["flags"].to_numpy()
            missing = ~session.among(targets, fetched)
            targets, flags = targets[missing], flags[missing]
            codes = np.zeros(len(targets), np.uint8)
            if most < inf:
                places = np.searchsorted(sources, batch["source_key"].to_numpy()[missing])
                codes[(hops[places] >= most) & (flags & REDIRECT == 0)] = _TOO_FAR
            codes[flags & OUT_OF_SCOPE != 0] = _KEPT_OUT
            found.append(_least(targets, codes))
            while len(found) > 1 and len(found[-2][0]) < 2 * len(found[-1][0]):
                found[-2:] = [_merged(*found[-2:])]
        while len(found) > 1:
            found[-2:] = [_merged(*found[-2:])]
        return found[0]

    def _write_links(self, keys: _Keys, codes: _Codes) -> None:
        """Write each of these targets of links once."""
        told = np.zeros(len(keys), np.bool_)
        for batch in read_batches(self._links, ["target_key", "target_url", "flags"]):
            targets = batch["target_key"].to_numpy()
            new, first = np.unique(targets, return_index=True)
            here = session.among(new, keys)
            new, first = new[here], first[here]
            places = np.searchsorted(keys, new)
            fresh = ~told[places]
            told[places] = True
            flags = batch["flags"].to_numpy()
            addresses = batch["target_url"].take(pa.array(first[fresh])).to_pylist()
            rows = zip(addresses, codes[places[fresh]], flags[first[fresh]], strict=True)
            for address, code, flag in rows:
                self._tell(address, self._reason(address, int(code), int(flag)))

    def _reason(self, address: str, code: int, flags: int) -> str:
        if code != _KEPT_OUT:
            return self._reasons[code]
        verdict = self._scope.judge(address)
        if not verdict.allowed:
            return f"out of scope: {verdict.rule}"
        if flags & NOFOLLOW and self._settings.robots.obey_nofollow:
            return "nofollow: the page asks not to follow the link"
        return "its page is the same as too many others (traps.max_same_content)"


def _least(keys: _Keys, codes: _Codes) -> tuple[_Keys, _Codes]:
    """The different keys, sorted, each with the least of its codes."""
    order = np.lexsort((codes, keys))
    keys, codes = keys[order], codes[order]
    new = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    return keys[new], codes[new]


def _merged(one: tuple[_Keys, _Codes], other: tuple[_Keys, _Codes]) -> tuple[_Keys, _Codes]:
    return _least(np.concatenate([one[0], other[0]]), np.concatenate([one[1], other[1]]))


def _outside(links: Path, scope: Scope) -> Counter[str]:
    """How many links lead to each host that is out of scope."""
    counts = Counter[str]()
    for batch in read_batches(links, ["target_url", "flags"]):
        out = pc.not_equal(pc.bit_wise_and(batch["flags"], OUT_OF_SCOPE), 0)
        found = pc.extract_regex(batch.filter(out)["target_url"], r"^(?P<authority>https?://[^/]+)")
        for group in pc.value_counts(pc.struct_field(found, "authority")).to_pylist():
            counts[group["values"]] += group["counts"]
    hosts = Counter[str]()
    for authority, count in counts.items():
        if not scope.holds(authority):
            hosts[url.host(authority)] += count
    return hosts


def _broken(tables: Path) -> list[dict[str, Any]]:
    """The broken pages that links lead to, the most linked-to first."""
    rows: dict[int, dict[str, Any]] = {}
    pages = table_path(tables, "pages")
    for batch in read_batches(pages, ["url", "key", "status", "error"]):
        gone = pc.is_in(batch["status"], pa.array(_BROKEN_STATUSES, pa.int16()))
        failed = pc.and_(
            pc.is_null(batch["status"]), pc.is_in(batch["error"], pa.array(_BROKEN_ERRORS))
        )
        for row in batch.filter(pc.or_(gone, failed)).to_pylist():
            key = row.pop("key")
            rows[key] = {**row, "links": 0}
    keys = np.array(sorted(rows), np.uint64)
    counts = np.zeros(len(keys), np.int64)
    sources: defaultdict[int, list[int]] = defaultdict(list)
    for batch in read_batches(table_path(tables, "links"), ["source_key", "target_key"]):
        targets = batch["target_key"].to_numpy()
        here = session.among(targets, keys)
        places = np.searchsorted(keys, targets[here])
        np.add.at(counts, places, 1)
        linking = batch["source_key"].to_numpy()[here]
        for place, source in zip(places.tolist(), linking.tolist(), strict=True):
            if len(sources[place]) < _SOURCES:
                sources[place].append(source)
    wanted = np.unique(np.array([key for its in sources.values() for key in its], np.uint64))
    texts = dict[int, str]()
    for batch in read_batches(pages, ["url", "key"]):
        its = batch.filter(pa.array(session.among(batch["key"].to_numpy(), wanted)))
        texts.update(zip(its["key"].to_pylist(), its["url"].to_pylist(), strict=True))
    for place, key in enumerate(keys.tolist()):
        rows[key]["links"] = int(counts[place])
        rows[key]["linked_from"] = [texts[source] for source in sources[place]]
    linked = (row for row in rows.values() if row["links"])
    return sorted(linked, key=lambda row: (-row["links"], row["url"]))


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
