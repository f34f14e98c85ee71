"""The measures of a session: metrics.json, and the summary that a person reads.

Pages, bytes and errors are counted in the log. What only the ranks know while they run (messages,
requests) they leave in `report/counters.json` at the end of each run. The measures are sums over
all runs; if one of them was killed, those that only its ranks knew are null.
"""

import contextlib
import json
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from crawler import session
from crawler.ports import Failure, UserError
from crawler.report.correcting import correction_of
from crawler.report.endings import SeedTrail, seed_lines, seed_metrics
from crawler.report.measures import Point, Reference, overlap, read_reference, series


@dataclass(frozen=True, slots=True)
class Counters:
    """What one rank counted while it ran."""

    rank: int
    seconds: float
    cpu_seconds: float
    peak_bytes: int  # of memory
    progress: Sequence[tuple[float, int]]  # seconds since the epoch, inter_part_urls until then
    waiting: int  # URLs that it knew and hadn't fetched
    requests: int  # pages and robots.txt files
    retries: int  # URLs put back after a failure
    internal_errors: int  # of code that reads what the web sent, see crawler.faults
    by_trap: dict[str, int]  # links and URLs kept out, by the rule of [traps]
    inter_part_links: int
    dropped_links: int
    inter_part_pages: int
    inter_part_urls: int
    messages_page_part: int
    site_part: Collection[tuple[str, int]]  # (source site, other rank)
    transmissions_target_part: int | None
    claims: int
    mpi_messages: int
    mpi_bytes: int


_AGAINST_A_WEB = ("coverage", "quality", "quality_pagerank")
_REACHABLE = "reachable.npy"  # u64 URL keys
_COUNTERS = "counters.json"  # of each run, of each rank
_SITE_PART = "site_part.npz"  # by rank: u64 hashes of its (source site, other rank) pairs
_SUMMED = (
    "requests",
    "retries",
    "internal_errors",
    "inter_part_links",
    "dropped_links",
    "inter_part_pages",
    "inter_part_urls",
    "messages_page_part",
    "transmissions_target_part",
    "claims",
    "mpi_messages",
    "mpi_bytes",
    "waiting",
)


def write_counters(
    directory: Path, run: int, ranks: Sequence[Counters], reachable: Collection[int] | None = None
) -> None:
    """Keep what the ranks counted in a run of the session, for this and later reports.

    `reachable`: URL keys of all pages that the crawl should have fetched with status 200, where
    they are known.
    """
    (directory / "report").mkdir(exist_ok=True)
    if reachable is not None:
        with session.replacing(directory / "report" / _REACHABLE) as file:
            np.save(file, np.array(sorted(reachable), np.uint64))
    pairs = _read_site_part(directory)
    for one in ranks:
        new = [xxh3_64_intdigest(site.encode(), other) for site, other in one.site_part]
        before = pairs.get(one.rank, np.zeros(0, np.uint64))
        pairs[one.rank] = np.union1d(before, np.array(new, np.uint64))
    arrays: dict[str, Any] = {str(rank): hashes for rank, hashes in pairs.items()}
    # A kill may come at any moment. The counters come last: without them nothing of the run counts.
    with session.replacing(directory / "report" / _SITE_PART) as file:
        np.savez(file, **arrays)
    counted = [_without(asdict(one), "site_part") for one in ranks]
    runs = [*_read_runs(directory), {"run": run, "ranks": counted}]
    with session.replacing(directory / "report" / _COUNTERS) as file:
        file.write(json.dumps({"runs": runs}, indent=1).encode())


def write_metrics(directory: Path, graph: Path | None = None) -> dict[str, Any]:
    """Rebuild the tables from the log, compute the measures, write report/metrics.json.

    Coverage and quality are asked against the web in `graph`, a session or a graph directory; else
    against the previous session, if there is one. docs/measures.md explains all the measures.
    Raises UserError for a graph that can't be used.
    """
    info = session.load(directory)
    web = graph or (Path(info.config.session.previous) if info.config.session.previous else None)
    reference = read_reference(web) if web else None
    seeds = session.seeds(directory)
    trail = SeedTrail(seeds, {one.site for one in session.joined(directory)})
    correct = correction_of(directory)

    rows, again = 0, []  # the rows of URLs that were asked again with a cookie

    def see(page: session.LoggedPage) -> session.LoggedPage:
        nonlocal rows
        if page.is_again and page.row.status is not None:
            again.append(rows)
        rows += 1
        trail.add(page)
        return correct(page)

    totals, by_rank = session.write_tables(directory, see)
    runs = _read_runs(directory)
    if [run["run"] for run in runs] != list(range(len(info.runs))):
        runs = []  # one was killed, and what it counted is lost
    # Hashes of sites that were named in two ways can't be counted together.
    named_alike = len({run.site_names for run in info.runs}) == 1
    site_part = _read_site_part(directory) if runs and named_alike else None
    counted = [one for run in runs for one in run["ranks"]]
    for run in runs[:-1]:
        for one in run["ranks"]:
            one["waiting"] = 0  # what waited then has been taken up again
    ranks = [
        {
            "rank": rank,
            **_pages(one),
            "messages_site_part": None if site_part is None else _distinct(site_part, rank),
            **_traffic([its for its in counted if its["rank"] == rank]),
        }
        for rank, one in enumerate(by_rank)
    ]
    traffic = _traffic(counted)
    points = _series(directory, reference, counted, again)
    urls = traffic["inter_part_urls"]
    seconds = sum(max(one["seconds"] for one in run["ranks"]) for run in runs) or None
    metrics: dict[str, Any] = {
        "mode": info.config.session.mode,
        "scheme": info.config.assignment.scheme,
        "runs": len(info.runs),
        "lost_ranks": sum(run.lost or 0 for run in info.runs),
        "complete": info.last.complete is True,
        "reason": info.last.reason or "interrupted",
        "seconds": seconds,
        "pages_per_second": totals.pages / seconds if seconds else None,
        **_pages(totals),
        **seed_metrics(len(seeds), trail.ends()),
        "overlap": overlap(totals.pages - len(again), totals.unique_pages),
        "asked_again": len(again),
        **{name: getattr(points[-1], name) if points else None for name in _AGAINST_A_WEB},
        "communication_overhead": None if urls is None else _ratio(urls, totals.pages),
        "imbalance_bytes": imbalance([one.bytes for one in by_rank]),
        "imbalance_requests": imbalance([one.pages for one in by_rank]),
        "messages_site_part": None if site_part is None else _distinct(site_part, *site_part),
        **traffic,
        # A rank that was killed has left no count, but its rows are there.
        "internal_errors": max(
            traffic["internal_errors"] or 0, totals.by_error.get(Failure.INTERNAL, 0)
        ),
        "politeness": _politeness(directory),
        "torn_logs": [str(torn.path) for torn in totals.torn],
        "ranks": ranks,
        "series": [point._asdict() for point in points],
    }
    (directory / "report").mkdir(exist_ok=True)
    with session.replacing(directory / "report" / "metrics.json") as file:
        file.write(json.dumps(metrics, indent=1).encode() + b"\n")
    return metrics


def imbalance(loads: Sequence[int]) -> float | None:
    """W_max/W_avg - 1 with the exact mean; None if there is no load."""
    return max(loads) * len(loads) / sum(loads) - 1 if sum(loads) else None


def _pages(totals: session.Totals) -> dict[str, Any]:
    return _without(asdict(totals), "torn")


def _without(fields: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key != name}


def _traffic(ranks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The sums of what the given ranks counted; null for what one of them doesn't know."""
    sums: dict[str, Any] = {}
    for name in _SUMMED:
        values = [one.get(name) for one in ranks]  # an older session lacks the newer counts
        sums[name] = None if not values or None in values else sum(values)
    by_trap = sum((Counter(one["by_trap"]) for one in ranks), Counter[str]())
    sums["by_trap"] = dict(sorted(by_trap.items())) if ranks else None
    return sums


class _RankCounts(TypedDict):
    """The counts of a rank that counters.json must have; others may be missing."""

    rank: int
    seconds: float
    by_trap: dict[str, int]
    progress: NotRequired[list[tuple[float, int]]]


class _RunCounts(TypedDict):
    run: int
    ranks: list[_RankCounts]


class _AllCounts(TypedDict):
    runs: list[_RunCounts]


def check_counters(directory: Path) -> None:
    """Check that this and later reports can be written. Raises UserError if a file is damaged."""
    _read_runs(directory)
    _read_site_part(directory)
    _reachable(directory)


def _read_runs(directory: Path) -> list[dict[str, Any]]:
    path = directory / "report" / _COUNTERS
    with _damage_told(path):
        content = json.loads(path.read_bytes())
        msgspec.convert(content, _AllCounts)
        runs: list[dict[str, Any]] = content["runs"]
        for name in _SUMMED:
            for run in runs:
                msgspec.convert([one.get(name) for one in run["ranks"]], list[int | None])
        return runs
    return []


def _read_site_part(directory: Path) -> dict[int, NDArray[np.uint64]]:
    path = directory / "report" / _SITE_PART
    with _damage_told(path), np.load(path) as file:
        return {int(rank): _keys(file[rank]) for rank in file}
    return {}


def _keys(array: NDArray[Any]) -> NDArray[np.uint64]:
    if array.dtype != np.uint64 or array.ndim != 1:
        raise ValueError(f"{array.dtype}, {array.ndim} dimensions: not a list of u64")
    return array


@contextlib.contextmanager
def _damage_told(path: Path) -> Iterator[None]:
    """Turn errors of reading a file into a UserError; a missing file is no error."""
    try:
        yield
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(
            f"{path}: can't be read: {str(error).splitlines()[0]}; move the file away, and the"
            " measures that only it holds become null"
        ) from None


def _distinct(site_part: dict[int, NDArray[np.uint64]], *ranks: int) -> int:
    """The pairs of these ranks; one counts once however many of them hold pages of the site."""
    known = [site_part[rank] for rank in ranks if rank in site_part]
    return len(np.unique(np.concatenate(known))) if known else 0


def _series(
    directory: Path,
    reference: Reference | None,
    ranks: Sequence[dict[str, Any]],
    again: Sequence[int],
) -> list[Point]:
    """The measures over time. `ranks`: what was counted, in each run, by each. `again`: the numbers
    of the rows whose URLs were asked again with a cookie."""
    table = pq.read_table(directory / "tables" / "pages.parquet", columns=["key", "status", "time"])
    asked_again = np.zeros(len(table), bool)
    asked_again[list(again)] = True
    table = table.append_column("again", pa.array(asked_again))
    table = table.filter(pc.is_valid(table["status"])).sort_by("time")
    times = pc.cast(table["time"], pa.int64()).to_numpy() / 1e6
    sent = None
    if ranks and all("progress" in one for one in ranks):
        sent = np.zeros(len(times), np.int64)
        for one in ranks:
            when, urls = np.array([(0.0, 0), *one["progress"]]).T
            sent += urls[np.searchsorted(when, times, side="right") - 1].astype(np.int64)
    return series(
        table["key"].to_numpy(),
        pc.equal(table["status"], 200).to_numpy(),
        times,
        sent,
        reference,
        _reachable(directory),
        table["again"].to_numpy(),
    )


def _reachable(directory: Path) -> NDArray[np.uint64] | None:
    path = directory / "report" / _REACHABLE
    with _damage_told(path):
        return _keys(np.load(path))
    return None


def _politeness(directory: Path) -> dict[str, Any] | None:
    """The field `politeness` of the metrics; None if the session has no request log.

    `smallest_gap` is, of all sites, the gap that is shortest against its promise.
    """
    names = ["site", "requests", "smallest_gap", "promised_gap", "impolite"]
    table = pq.read_table(directory / "tables" / "sites.parquet", columns=names)
    table = table.filter(pc.is_valid(table["requests"]))
    if not len(table):
        return None
    impolite = pc.sum(table["impolite"]).as_py()
    kept: dict[str, Any] = {
        "kept": not impolite,
        "requests": pc.sum(table["requests"]).as_py(),
        "impolite": impolite,
        "impolite_sites": pc.sum(pc.greater(table["impolite"], 0)).as_py(),
        **dict.fromkeys(("smallest_gap", "promised_gap", "site")),
    }
    gaps = table.filter(pc.is_valid(table["smallest_gap"]))
    if len(gaps):
        margins = pc.subtract(gaps["smallest_gap"], gaps["promised_gap"])
        row = gaps.slice(int(np.argmin(margins.to_numpy())), 1).to_pylist()[0]
        kept |= {name: row[name] for name in ("smallest_gap", "promised_gap", "site")}
    return kept


def _politeness_line(kept: dict[str, Any] | None) -> str:
    if kept is None:
        return "politeness unknown: there is no request log"
    gap = "no site was asked twice"
    if kept["site"] is not None:
        gap = (
            f"smallest gap {_number(kept['smallest_gap'])} s at {kept['site']},"
            f" delay {_number(kept['promised_gap'])} s"
        )
    if kept["kept"]:
        return f"politeness kept: {gap}"
    return (
        f"politeness BROKEN: {_number(kept['impolite'])} times at"
        f" {_number(kept['impolite_sites'])} sites; {gap}"
    )


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def summary(directory: Path, metrics: dict[str, Any]) -> str:
    """The measures for a person to read."""
    lines = [
        f"session   {directory}",
        f"ended     {metrics['reason']}"
        + ("" if metrics["complete"] else f", {_number(metrics['waiting'])} URLs waiting"),
        f"mode      {metrics['mode']}, {metrics['scheme']}, {len(metrics['ranks'])} ranks",
        *seed_lines(metrics),
        f"pages     {_number(metrics['pages'])} ({_number(metrics['unique_pages'])} different,"
        f" {_number(metrics['duplicate_content'])} of known content)",
        f"bytes     {_number(metrics['bytes'])}",
        f"time      {_number(metrics['seconds'])} s,"
        f" {_number(metrics['pages_per_second'])} pages/s",
        "status    " + (_listing(metrics["by_status"]) or "none"),
        "errors    " + (_listing(metrics["by_error"]) or "none"),
        "traps     " + (_listing(metrics["by_trap"] or {}) or "none"),
        f"overlap   {_number(metrics['overlap'])}, coverage {_number(metrics['coverage'])}",
        f"quality   {_number(metrics['quality'])} by back-links,"
        f" {_number(metrics['quality_pagerank'])} by PageRank",
        f"exchange  {_number(metrics['inter_part_urls'])} URLs between ranks"
        f" ({_number(metrics['communication_overhead'])} a page) in"
        f" {_number(metrics['mpi_messages'])} MPI messages, {_number(metrics['mpi_bytes'])} bytes",
        f"links     {_number(metrics['inter_part_links'])} between ranks,"
        f" {_number(metrics['dropped_links'])} of them dropped;"
        f" {_number(metrics['inter_part_pages'])} pages of other ranks fetched",
        f"messages  {_number(metrics['messages_page_part'])} (page, part),"
        f" {_number(metrics['messages_site_part'])} (site, part),"
        f" {_number(metrics['transmissions_target_part'])} (target, part)",
        f"imbalance {_percent(metrics['imbalance_bytes'])} of bytes,"
        f" {_percent(metrics['imbalance_requests'])} of requests",
        _politeness_line(metrics["politeness"]),
    ]
    if metrics.get("internal_errors"):
        lines.append(
            f"internal  {_number(metrics['internal_errors'])} errors of this program;"
            " their tracebacks are in rank-*/agent.log: please report them"
        )
    if metrics["torn_logs"]:
        lines.append("torn      " + ", ".join(metrics["torn_logs"]))
    lines += ["", "rank      pages        bytes    requests   URLs sent   MPI messages"]
    lines += [
        f"{one['rank']:4} {one['pages']:10,} {one['bytes']:12,} {_number(one['requests']):>11}"
        f" {_number(one['inter_part_urls']):>11} {_number(one['mpi_messages']):>14}"
        for one in metrics["ranks"]
    ]
    return "\n".join(lines)


_COMPARED: Sequence[tuple[str, str, str]] = (
    ("pages", "pages", "{:,}"),
    ("overlap", "overlap", "{:.3f}"),
    ("coverage", "coverage", "{:.3f}"),
    ("quality by back-links", "quality", "{:.3f}"),
    ("quality by PageRank", "quality_pagerank", "{:.3f}"),
    ("inter-part URLs a page", "communication_overhead", "{:.3f}"),
    ("messages (page, part)", "messages_page_part", "{:,}"),
    ("messages (site, part)", "messages_site_part", "{:,}"),
    ("transmissions (target, part)", "transmissions_target_part", "{:,}"),
    ("imbalance of bytes", "imbalance_bytes", "{:.1%}"),
    ("imbalance of requests", "imbalance_requests", "{:.1%}"),
    ("pages/s", "pages_per_second", "{:,.0f}"),
)


def comparison(columns: Mapping[str, Mapping[str, Any]]) -> str:
    """The measures of several crawls, or of a prediction, side by side; what nobody knows is left
    out. `columns`: metrics by heading."""
    width = max(12, *map(len, columns))
    lines = [f"{'':28}" + "".join(f"  {heading:>{width}}" for heading in columns)]
    for name, key, form in _COMPARED:
        values = [metrics.get(key) for metrics in columns.values()]
        if any(value is not None for value in values):
            cells = ["-" if value is None else form.format(value) for value in values]
            lines.append(f"{name:28}" + "".join(f"  {cell:>{width}}" for cell in cells))
    return "\n".join(lines)


def _number(value: float | None) -> str:
    if value is None:
        return "unknown"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}".rstrip("0").rstrip(".")


def _percent(value: float | None) -> str:
    return "unknown" if value is None else f"{100 * value:.1f} %"


def _listing(counts: dict[Any, int]) -> str:
    return ", ".join(f"{name}: {count:,}" for name, count in counts.items())
