"""What an operator looks at: outcomes, errors with examples, time, load, sites.

`make_overview` reads the tables of a session. It returns plain values for metrics.json, from which
the page and the terminal are made. Lists have at most TOP entries; the tables have the rest.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crawler.dataset import read_table, table_path
from crawler.report.explanations import advice, meaning
from crawler.report.outcomes import GOOD, Outcome, failure_of, outcome_of
from crawler.session.roles import page_batches, page_rows

TOP: Final = 10  # entries of a list
_EXAMPLES: Final = 3  # URLs of an error
_BINS: Final = 60  # of the curves over time
_LARGEST: Final = 5

_Rows = list[dict[str, Any]]


def make_overview(
    directory: Path, starts: Sequence[float], runs: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The overview of a session, from its tables.

    `starts`: when each run of the session began, in seconds since the epoch. `runs`: the counts of
    each run, from counters.json; empty if they aren't all known.
    """
    pages = table_path(directory / "tables", "pages")
    outcomes, errors = _outcomes(pages)
    total = sum(outcomes.values())
    good = sum(outcomes[one] for one in GOOD)
    return {
        "urls": total,
        "good": good,
        "good_share": good / total if total else None,
        "outcomes": {one.value: outcomes[one] for one in Outcome if outcomes[one]},
        "errors": errors,
        "timeline": _timeline(pages, starts, runs),
        **_sites(table_path(directory / "tables", "sites"), _ranks_of_sites(pages)),
        **_content(pages),
    }


def _outcomes(pages: Path) -> tuple[Counter[Outcome], _Rows]:
    """How many URLs came to each end; and the errors, the most common first."""
    outcomes, counts = Counter[Outcome](), Counter[str]()
    sites: defaultdict[str, set[str]] = defaultdict(set)
    examples: defaultdict[str, list[str]] = defaultdict(list)
    for batch in page_batches(pages, "url", "site", "status", "error"):
        table = pa.Table.from_batches([batch])
        groups = table.group_by(["status", "error"]).aggregate([([], "count_all")]).to_pylist()
        for group in groups:
            status, error = group["status"], group["error"]
            outcomes[outcome_of(status, error)] += group["count_all"]
            what = failure_of(status, error)
            if what is None:
                continue
            counts[what] += group["count_all"]
            its = table.filter(
                pc.and_(_equals(table, "status", status), _equals(table, "error", error))
            )
            sites[what].update(pc.unique(its["site"]).to_pylist())
            missing = _EXAMPLES - len(examples[what])
            examples[what] += its["url"].slice(0, missing).to_pylist() if missing else []
    errors = [
        {
            "error": what,
            "urls": count,
            "sites": len(sites[what]),
            "meaning": meaning(what),
            "advice": advice(what),
            "examples": examples[what],
        }
        for what, count in sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    ]
    return outcomes, errors


def _equals(table: pa.Table, name: str, value: object) -> pa.ChunkedArray:
    """Whether the values of a column are this one. A null is equal to None."""
    column = table[name]
    return pc.is_null(column) if value is None else pc.fill_null(pc.equal(column, value), False)


def _timeline(
    pages: Path, starts: Sequence[float], runs: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """URLs per second, failed ones per second, and waiting URLs, in bins of equal length.

    The time between two runs is left out. `waiting` is None if a run has left no counts.
    """
    table = page_rows(pages, "time", "status", "error")
    if not len(table):
        return None
    times = pc.cast(table["time"], pa.int64()).to_numpy() / 1e6
    lost = pc.fill_null(
        pc.or_(pc.greater_equal(table["status"], 400), pc.is_valid(table["error"])), True
    )
    clock = _Elapsed(times, starts)
    elapsed = clock.elapsed(times)
    bins = max(1, min(_BINS, int(clock.total)))
    edges = np.linspace(0, max(clock.total, 1.0), bins + 1)
    width = float(edges[1])
    all_urls = np.histogram(elapsed, edges)[0]
    failed = np.histogram(elapsed[lost.to_numpy()], edges)[0]
    return {
        "bin_seconds": width,
        "seconds": clock.total,
        "pages_per_second": [round(float(value), 3) for value in (all_urls - failed) / width],
        "failed_per_second": [round(float(value), 3) for value in failed / width],
        "waiting": _waiting(clock, edges[1:], runs),
    }


class _Elapsed:
    """Turns times into seconds of crawling. It counts each run from its first page to its last."""

    def __init__(self, times: NDArray[np.float64], starts: Sequence[float]) -> None:
        self._starts = np.array(starts, np.float64)
        runs = self._run(times)
        here = np.unique(runs)
        self._runs = here
        self._first = np.array([times[runs == run].min() for run in here])
        lengths = np.array([times[runs == run].max() for run in here]) - self._first
        self._before = np.concatenate([[0.0], np.cumsum(lengths)])
        self.total = float(self._before[-1])

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


def _ranks_of_sites(pages: Path) -> dict[str, list[int]]:
    """The ranks that have fetched pages of each site."""
    table = page_rows(pages, "site", "rank")
    groups = table.group_by("site").aggregate([("rank", "distinct")])
    names, ranks = groups["site"].to_pylist(), groups["rank_distinct"].to_pylist()
    return {name: sorted(its) for name, its in zip(names, ranks, strict=True)}


def _sites(path: Path, ranks: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """The largest sites, and those that came closest to a broken promise, or broke it."""
    names = [
        "site", "pages", "errors", "bytes", "requests",
        "smallest_gap", "promised_gap", "impolite", "crawl_delay", "requisites",
    ]  # fmt: skip
    table = read_table(path, names)
    largest = table.sort_by([("pages", "descending"), ("site", "ascending")]).slice(0, TOP)
    gaps = table.filter(pc.is_valid(table["smallest_gap"]))
    margins = pc.subtract(gaps["smallest_gap"], gaps["promised_gap"])
    gaps = gaps.append_column("margin", margins)
    closest = gaps.sort_by([("margin", "ascending"), ("site", "ascending")]).slice(0, TOP)

    def rows(some: pa.Table) -> _Rows:
        return [{**row, "ranks": ranks.get(row["site"], [])} for row in some.to_pylist()]

    return {
        "sites": len(table) - _only_requisites(table),
        "largest_sites": rows(largest),
        "closest_gaps": rows(closest),
        "slowest_site": _slowest(gaps),
    }


def _only_requisites(table: pa.Table) -> int:
    """The number of sites of which only requisites were fetched."""
    columns = (table[name].to_numpy() for name in ("pages", "errors", "requisites"))
    pages, errors, requisites = columns
    return int(((requisites > 0) & (pages + errors == 0)).sum())


def _slowest(gaps: pa.Table) -> dict[str, Any] | None:
    """The site whose requests take the longest, if each keeps the promised gap."""
    if not len(gaps):
        return None
    seconds = pc.multiply(gaps["promised_gap"], pc.subtract(gaps["requests"], 1))
    at = int(np.argmax(seconds.to_numpy()))
    return {"site": gaps["site"][at].as_py(), "seconds": seconds[at].as_py()}


def _content(pages: Path) -> dict[str, Any]:
    """The types of the pages, and the slowest and the largest pages."""
    counts, sizes = Counter[str](), Counter[str]()
    slowest: _Rows = []
    largest: _Rows = []
    columns = "url", "status", "seconds", "bytes", "content_type"
    for batch in page_batches(pages, *columns):
        table = pa.Table.from_batches([batch])
        table = table.filter(pc.is_valid(table["status"]))
        kinds = table.filter(pc.equal(table["status"], 200))
        groups = kinds.group_by("content_type").aggregate([("bytes", "sum"), ([], "count_all")])
        for group in groups.to_pylist():
            name = group["content_type"] or "none"
            counts[name] += group["count_all"]
            sizes[name] += group["bytes_sum"]
        slowest = _most(slowest, table, "seconds")
        largest = _most(largest, table, "bytes")
    types = [
        {"type": name, "pages": count, "bytes": sizes[name]}
        for name, count in sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    ]
    return {"types": types[:TOP], "slowest": slowest, "largest": largest}


def _most(rows: _Rows, table: pa.Table, name: str) -> _Rows:
    """The rows with the largest values of a column, among `rows` and those of the table."""
    best = table.select(["url", name]).sort_by([(name, "descending")]).slice(0, _LARGEST)
    return sorted([*rows, *best.to_pylist()], key=lambda row: -row[name])[:_LARGEST]
