"""What an operator looks at: outcomes, errors with examples, time, load, sites.

`make_overview` reads the tables of a session. It returns plain values for metrics.json, from which
the page and the terminal are made. Lists have at most TOP entries; the tables have the rest.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crawler import arrow
from crawler.arrays import distinct
from crawler.dataset import read_table
from crawler.ports import Peers
from crawler.report.explanations import advice, meaning
from crawler.report.outcomes import GOOD, Outcome, failure_of, outcome_of
from crawler.session.roles import page_batches
from crawler.session.together import everywhere

TOP: Final = 10  # entries of a list
_EXAMPLES: Final = 3  # URLs of an error
_BINS: Final = 60  # of the curves over time
_LARGEST: Final = 5

_Rows = list[dict[str, Any]]


async def make_overview(
    tables: Path,
    units: Sequence[str],
    peers: Peers,
    starts: Sequence[float],
    runs: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """The overview of a session, from its tables, which the processes read together.

    `units`: the names of the files of each table that this process reads. `starts`: when each run
    of the session began, in seconds since the epoch. `runs`: the counts of each run, from
    counters.json; empty if they aren't all known. Memory grows by 9 bytes for each page of the
    process, and by the names of sites with an error. Only the first process returns all of it.
    """
    pages = [tables / "pages" / f"{unit}.parquet" for unit in units]
    outcomes, errors = _merge_outcomes(await peers.gather(_outcomes(pages)))
    total = sum(outcomes.values())
    good = sum(outcomes[one] for one in GOOD)
    return {
        "urls": total,
        "good": good,
        "good_share": good / total if total else None,
        "outcomes": {one.value: outcomes[one] for one in Outcome if outcomes[one]},
        "errors": errors,
        "timeline": await _timeline(pages, peers, starts, runs),
        **await _sites([tables / "sites" / f"{unit}.parquet" for unit in units], pages, peers),
        **_merge_content(await peers.gather(_content(pages))),
    }


class _Errors(NamedTuple):
    """What was found of each error, by its name."""

    counts: Counter[str]
    sites: dict[str, set[str]]
    examples: dict[str, list[str]]


def _outcomes(pages: Sequence[Path]) -> tuple[Counter[Outcome], _Errors]:
    """How many URLs came to each end, and the errors."""
    outcomes, counts = Counter[Outcome](), Counter[str]()
    sites: defaultdict[str, set[str]] = defaultdict(set)
    examples: defaultdict[str, list[str]] = defaultdict(list)
    for batch in _batches(pages, "url", "site", "status", "error"):
        table = pa.Table.from_batches([batch])
        for status, error, count in _groups(table):
            outcomes[outcome_of(status, error)] += count
            what = failure_of(status, error)
            if what is None:
                continue
            counts[what] += count
            which = arrow.and_(_equals(table, "status", status), _equals(table, "error", error))
            its = arrow.filter_(table, which)
            sites[what].update(arrow.unique(its["site"]).to_pylist())
            missing = _EXAMPLES - len(examples[what])
            examples[what] += its["url"].slice(0, missing).to_pylist() if missing else []
    return outcomes, _Errors(counts, sites, examples)


def _merge_outcomes(
    found: Sequence[tuple[Counter[Outcome], _Errors]],
) -> tuple[Counter[Outcome], _Rows]:
    """Put what the processes have found together. The most common error comes first."""
    outcomes = sum((outcomes for outcomes, _ in found), Counter[Outcome]())
    counts = sum((errors.counts for _, errors in found), Counter[str]())
    rows = []
    for what, count in sorted(counts.items(), key=lambda one: (-one[1], one[0])):
        sites = set[str]().union(*(errors.sites.get(what, ()) for _, errors in found))
        examples = chain(*(errors.examples.get(what, ()) for _, errors in found))
        rows.append(
            {
                "error": what,
                "urls": count,
                "sites": len(sites),
                "meaning": meaning(what),
                "advice": advice(what),
                "examples": list(islice(examples, _EXAMPLES)),
            }
        )
    return outcomes, rows


def _batches(pages: Sequence[Path], *columns: str) -> Iterator[pa.RecordBatch]:
    for path in pages:
        yield from page_batches(path, *columns)


def _groups(table: pa.Table) -> Iterator[tuple[int | None, str | None, int]]:
    """Yield each status and error that rows have together, and the number of these rows.

    `group_by` would do the same, but with its first call each rank imports modules for 8 ms.
    """
    for error in arrow.unique(table["error"]).to_pylist():
        its = arrow.filter_(table["status"], _equals(table, "error", error))
        for found in arrow.value_counts(its):
            yield found["values"].as_py(), error, found["counts"].as_py()


def _equals(table: pa.Table, name: str, value: object) -> pa.ChunkedArray:
    """Whether the values of a column are this one. A null is equal to None."""
    column = table[name]
    return (
        arrow.is_null(column)
        if value is None
        else arrow.fill_null(arrow.equal(column, value), False)
    )


async def _timeline(
    pages: Sequence[Path],
    peers: Peers,
    starts: Sequence[float],
    runs: Sequence[Mapping[str, Any]],
) -> dict[str, Any] | None:
    """URLs per second, failed ones per second, and waiting URLs, in bins of equal length.

    The time between two runs is left out. `waiting` is None if a run has left no counts.
    """
    all_times, all_lost = [np.zeros(0)], [np.zeros(0, np.bool_)]
    for batch in _batches(pages, "time", "status", "error"):
        all_times.append(arrow.cast(batch["time"], pa.int64()).to_numpy() / 1e6)
        failed = arrow.or_(
            arrow.greater_equal(batch["status"], 400), arrow.is_valid(batch["error"])
        )
        all_lost.append(arrow.fill_null(failed, True).to_numpy(zero_copy_only=False))
    times, lost = np.concatenate(all_times), np.concatenate(all_lost)
    clock = await _Elapsed.together(times, starts, peers)
    if clock is None:
        return None
    elapsed = clock.elapsed(times)
    bins = max(1, min(_BINS, int(clock.total)))
    edges = np.linspace(0, max(clock.total, 1.0), bins + 1)
    width = float(edges[1])
    counted = np.stack([np.histogram(some, edges)[0] for some in (elapsed, elapsed[lost])])
    all_urls, failed_urls = sum(await peers.gather(counted), np.zeros_like(counted))
    return {
        "bin_seconds": width,
        "seconds": clock.total,
        "pages_per_second": [round(float(value), 3) for value in (all_urls - failed_urls) / width],
        "failed_per_second": [round(float(value), 3) for value in failed_urls / width],
        "waiting": _waiting(clock, edges[1:], runs),
    }


class _Elapsed:
    """Turns times into seconds of crawling. It counts each run from its first page to its last."""

    def __init__(self, bounds: Mapping[int, tuple[float, float]], starts: Sequence[float]) -> None:
        """`bounds`: by the number of a run with pages, the times of its first and last page."""
        self._starts = np.array(starts, np.float64)
        self._runs = np.array(sorted(bounds))
        self._first = np.array([bounds[run][0] for run in sorted(bounds)])
        lengths = np.array([bounds[run][1] for run in sorted(bounds)]) - self._first
        self._before = np.concatenate([[0.0], np.cumsum(lengths)])
        self.total = float(self._before[-1])

    @classmethod
    async def together(
        cls, times: NDArray[np.float64], starts: Sequence[float], peers: Peers
    ) -> Self | None:
        """Make one from the times of pages that each process has; None if there are none."""
        own = cls({}, starts)
        runs = own._run(times)
        its = {
            int(run): (float(times[runs == run].min()), float(times[runs == run].max()))
            for run in distinct(runs)
        }
        bounds: dict[int, tuple[float, float]] = {}
        for some in await everywhere(peers, its):
            for run, (first, last) in some.items():
                before = bounds.get(run, (first, last))
                bounds[run] = min(first, before[0]), max(last, before[1])
        return cls(bounds, starts) if bounds else None

    def _run(self, times: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.maximum(np.searchsorted(self._starts, times, side="right") - 1, 0)

    def elapsed(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """The seconds of crawling before each time."""
        place = np.searchsorted(self._runs, self._run(times))
        passed: NDArray[np.float64] = self._before[place] + times - self._first[place]
        return passed

    def moment(self, elapsed: float) -> tuple[int, float]:
        """The run, and the time, after so many seconds of crawling."""
        place = int(np.searchsorted(self._before[1:-1], elapsed, side="left"))
        return int(self._runs[place]), float(self._first[place] + elapsed - self._before[place])


def _waiting(
    clock: _Elapsed, moments: NDArray[np.float64], runs: Sequence[Mapping[str, Any]]
) -> list[int] | None:
    """How many URLs waited on all ranks, at some moments."""
    if not runs or any("queue" not in one for run in runs for one in run["ranks"]):
        return None
    by_run = {
        run["run"]: [np.array([(0.0, 0), *one["queue"]]).T for one in run["ranks"]] for run in runs
    }
    waiting = []
    for elapsed in moments.tolist():
        run, time = clock.moment(elapsed)
        curves = by_run.get(run, [])
        places = (np.searchsorted(when, time, side="right") - 1 for when, _ in curves)
        waiting.append(sum(int(curve[1][at]) for curve, at in zip(curves, places, strict=True)))
    return waiting


async def _sites(files: Sequence[Path], pages: Sequence[Path], peers: Peers) -> dict[str, Any]:
    """The largest sites, and those that came closest to a broken promise, or broke it.

    `files`: those of the table `sites` that this process reads.
    """
    names = [
        "site", "pages", "errors", "bytes", "requests",
        "smallest_gap", "promised_gap", "impolite", "crawl_delay", "requisites",
    ]  # fmt: skip
    own = [read_table(path, names) for path in files]
    table = pa.concat_tables(own) if own else pa.table({})
    found = await peers.gather(_first_sites(table) if own else None)
    some = [one for one in found if one is not None]
    largest = closest = pa.table({"site": pa.array([], pa.string())})
    if some:
        largest = _first(pa.concat_tables([one.largest for one in some]), _BY_PAGES)
        closest = _first(pa.concat_tables([one.closest for one in some]), _BY_MARGIN)
    named = await peers.bcast({*largest["site"].to_pylist(), *closest["site"].to_pylist()})
    ranks: defaultdict[str, set[int]] = defaultdict(set)
    for its in await peers.gather(_ranks_of(named, pages)):
        for name, numbers in its.items():
            ranks[name] |= numbers

    def rows(some: pa.Table) -> _Rows:
        return [{**row, "ranks": sorted(ranks[row["site"]])} for row in some.to_pylist()]

    slowest = [one.slowest for one in some if one.slowest is not None]
    return {
        "sites": sum(one.sites for one in some),
        "largest_sites": rows(largest),
        "closest_gaps": rows(closest),
        "slowest_site": max(slowest, key=lambda one: one["seconds"], default=None),
    }


_BY_PAGES: Final = [("pages", "descending"), ("site", "ascending")]
_BY_MARGIN: Final = [("margin", "ascending"), ("site", "ascending")]


class _FirstSites(NamedTuple):
    """What the report shows of some sites."""

    sites: int
    largest: pa.Table
    closest: pa.Table
    slowest: dict[str, Any] | None


def _first(table: pa.Table, order: list[tuple[str, str]]) -> pa.Table:
    return arrow.sort_by(table, order).slice(0, TOP)


def _first_sites(table: pa.Table) -> _FirstSites:
    gaps = arrow.filter_(table, arrow.is_valid(table["smallest_gap"]))
    margins = arrow.subtract(gaps["smallest_gap"], gaps["promised_gap"])
    gaps = gaps.append_column("margin", margins)
    count = len(table) - _only_requisites(table)
    return _FirstSites(count, _first(table, _BY_PAGES), _first(gaps, _BY_MARGIN), _slowest(gaps))


def _ranks_of(names: Collection[str], pages: Sequence[Path]) -> dict[str, set[int]]:
    """The ranks that have fetched pages of these sites."""
    ranks: defaultdict[str, set[int]] = defaultdict(set)
    wanted = pa.array(sorted(names), pa.string())
    for batch in _batches(pages, "site", "rank"):
        its = arrow.filter_(batch, arrow.is_in(batch["site"], wanted))
        for name, rank in zip(its["site"].to_pylist(), its["rank"].to_pylist(), strict=True):
            ranks[name].add(rank)
    return dict(ranks)


def _only_requisites(table: pa.Table) -> int:
    """The number of sites of which only requisites were fetched."""
    columns = (table[name].to_numpy() for name in ("pages", "errors", "requisites"))
    pages, errors, requisites = columns
    return int(((requisites > 0) & (pages + errors == 0)).sum())


def _slowest(gaps: pa.Table) -> dict[str, Any] | None:
    """The site whose requests take the longest, if each keeps the promised gap."""
    if not len(gaps):
        return None
    seconds = arrow.multiply(gaps["promised_gap"], arrow.subtract(gaps["requests"], 1))
    at = int(np.argmax(seconds.to_numpy()))
    return {"site": gaps["site"][at].as_py(), "seconds": seconds[at].as_py()}


_Content = tuple[Counter[str], Counter[str], _Rows, _Rows]


def _content(pages: Sequence[Path]) -> _Content:
    """The number and bytes of pages by type, and the slowest and the largest pages."""
    counts, sizes = Counter[str](), Counter[str]()
    slowest: _Rows = []
    largest: _Rows = []
    columns = "url", "status", "seconds", "bytes", "content_type"
    for batch in _batches(pages, *columns):
        table = pa.Table.from_batches([batch])
        table = arrow.filter_(table, arrow.is_valid(table["status"]))
        kinds = arrow.filter_(
            table.select(["content_type", "bytes"]), arrow.equal(table["status"], 200)
        )
        types = arrow.dictionary_encode(kinds["content_type"].combine_chunks())
        names, numbers = types.dictionary.to_pylist(), types.indices.to_numpy()
        pages_of = np.bincount(numbers, minlength=len(names))
        bytes_of = np.zeros(len(names), np.int64)
        np.add.at(bytes_of, numbers, kinds["bytes"].to_numpy())
        for name, count, size in zip(names, pages_of.tolist(), bytes_of.tolist(), strict=True):
            counts[name or "none"] += count
            sizes[name or "none"] += size
        slowest = _most(slowest, table, "seconds")
        largest = _most(largest, table, "bytes")
    return counts, sizes, slowest, largest


def _merge_content(found: Sequence[_Content]) -> dict[str, Any]:
    counts = sum((counts for counts, _, _, _ in found), Counter[str]())
    sizes = sum((sizes for _, sizes, _, _ in found), Counter[str]())
    types = [
        {"type": name, "pages": count, "bytes": sizes[name]}
        for name, count in sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    ]
    slowest = [row for _, _, rows, _ in found for row in rows]
    largest = [row for _, _, _, rows in found for row in rows]
    return {
        "types": types[:TOP],
        "slowest": sorted(slowest, key=lambda row: -row["seconds"])[:_LARGEST],
        "largest": sorted(largest, key=lambda row: -row["bytes"])[:_LARGEST],
    }


def _most(rows: _Rows, table: pa.Table, name: str) -> _Rows:
    """The rows with the largest values of a column, among `rows` and those of the table."""
    best = arrow.sort_by(table.select(["url", name]), [(name, "descending")]).slice(0, _LARGEST)
    return sorted([*rows, *best.to_pylist()], key=lambda row: -row[name])[:_LARGEST]
