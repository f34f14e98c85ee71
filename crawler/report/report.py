"""Computes the measures of a session and writes them to metrics.json.

Pages, bytes and errors are counted in the log. Counts that only a running rank knows are read from
`counters`. The measures are sums over all runs. If a run was killed, its counters are lost, and the
measures that need them are null.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec.structs import asdict
from numpy.typing import NDArray

from crawler import arrow, session, url
from crawler.arrays import distinct
from crawler.dataset import read_table
from crawler.ports import PAGE, Failure, Peers
from crawler.report.correcting import correction_of
from crawler.report.counters import SUMMED, read_reachable, read_runs, read_site_part, without
from crawler.report.course import Responses, Sent, series_together
from crawler.report.dynamic import dynamic_metrics, idle_servers, sent_to
from crawler.report.endings import SeedTrail, seed_metrics
from crawler.report.measures import Point, overlap
from crawler.report.memory import memory_of
from crawler.report.overview import make_overview
from crawler.report.reference import Web
from crawler.report.unfetched import write_lists
from crawler.session.columns import SCHEMAS
from crawler.session.tables import Totals, write_tables
from crawler.session.together import done_by_all, mine
from crawler.session.units import units

_AGAINST_A_WEB = ("coverage", "quality", "quality_pagerank")


async def write_metrics(
    directory: Path, peers: Peers, graph: Path | None = None
) -> dict[str, Any] | None:
    """Rebuild the tables from the log, compute the measures, write report/metrics.json.

    All processes call this together. Returns the measures on the first, and None on the others.

    Coverage and quality compare the session with the web in `graph`, which is a session or a graph
    directory. Without `graph` they use the previous session, if there is one. docs/measures.md
    explains all measures. Raises UserError for a graph that can't be used.
    """
    info = await peers.bcast(session.load(directory) if peers.rank == 0 else None)
    assert info is not None
    url.tell_apart(session.given_up(directory))
    known = graph or (Path(info.config.session.previous) if info.config.session.previous else None)
    web = await Web.read(known, peers) if known else None
    seeds = session.seeds(directory)
    trail = SeedTrail(seeds, {one.site for one in session.joined(directory)})
    correct = correction_of(directory, info)
    rows, again = 0, list[int]()  # `again`: the rows of URLs requested again with a cookie

    def see(page: session.LoggedPage) -> session.LoggedPage:
        nonlocal rows
        if page.is_again and page.row.status is not None:
            again.append(rows)
        rows += 1
        trail.add(page)
        return correct(page)

    totals, by_rank = await write_tables(directory, peers, see)
    for stops in await peers.gather(trail.stops):
        trail.stops |= stops
    asked_again = sum(await peers.gather(len(again)))

    every = await peers.bcast(units(directory))
    own = [unit.name for unit in mine(every, peers)]
    starts = [run.started.timestamp() for run in info.runs]
    runs = _runs(directory, info) if peers.rank == 0 else []
    seen = {
        "overview": {
            **await make_overview(directory / "tables", own, peers, starts, runs),
            **await write_lists(directory, info, own, peers),
        },
        "politeness": await _politeness(directory / "tables", own, peers),
        "asked_again": asked_again,
        "against": None,
    }
    if info.config.session.previous:
        from crawler.report.against import compare  # noqa: PLC0415  few sessions need it

        previous = Path(info.config.session.previous)
        complete = info.last.complete is True
        seen["against"] = await compare(directory, previous, peers, complete=complete)
    points = await _series(directory, own, again, runs, web, peers)

    def measure() -> dict[str, Any] | None:
        if peers.rank > 0:
            return None
        parts = {**seen, **seed_metrics(len(seeds), trail.ends())}
        return _write(directory, info, totals, by_rank, runs, parts, points)

    return await done_by_all(peers, measure)


def _write(
    directory: Path,
    info: session.SessionInfo,
    totals: Totals,
    by_rank: Sequence[Totals],
    runs: list[dict[str, Any]],
    parts: dict[str, Any],
    points: Sequence[Point],
) -> dict[str, Any]:
    """Compute the other measures from the totals, the tables and the counters, and write all.

    `runs`: the counts of each run. `parts`: measures by name that the processes have computed
    together. `points`: the measures over time.
    """
    from crawler.report.findings import find, imbalance  # noqa: PLC0415  only rank 0 needs them
    from crawler.report.page import page  # noqa: PLC0415  only rank 0 needs templates

    # Versions that name sites differently hash them differently: such hashes can't be compared.
    named_alike = len({run.site_names for run in info.runs}) == 1
    are_all_counted = runs and not any(run.lost for run in info.runs)
    site_part = read_site_part(directory) if are_all_counted and named_alike else None
    counted = [one for run in runs for one in run["ranks"]]
    for run in runs[:-1]:
        for one in run["ranks"]:
            one["waiting"] = 0  # the next run has taken up these URLs
    servers = idle_servers(info.config, [one.pages for one in by_rank])
    loads = [one for rank, one in enumerate(by_rank) if rank not in servers]
    ranks = [
        {
            "rank": rank,
            "server": rank in servers,
            **_pages(one),
            "messages_site_part": None if site_part is None else _distinct(site_part, rank),
            **_traffic(of_rank := [its for its in counted if its["rank"] == rank]),
            "mpi_messages_to": sent_to(of_rank, "mpi_messages_to"),
            "urls_to": sent_to(of_rank, "urls_to"),
            "host": next((its["host"] for its in reversed(of_rank) if its.get("host")), None),
            "cpu_share": _cpu_share(of_rank),
            "memory": memory_of(of_rank),
            "longest_break": _longest_break(of_rank),
        }
        for rank, one in enumerate(by_rank)
    ]
    traffic = _traffic(counted)
    urls = traffic["inter_part_urls"]
    seconds = sum(max(one["seconds"] for one in run["ranks"]) for run in runs) or None
    metrics: dict[str, Any] = {
        "session": str(directory),
        "max_pages": info.config.session.max_pages,
        "spares": info.config.dynamic.spares,
        "mode": info.config.session.mode,
        "scheme": info.config.assignment.scheme,
        "runs": len(info.runs),
        "memory_budget": info.config.seen.memory,
        "lost_ranks": sum(run.lost or 0 for run in info.runs),
        "complete": info.last.complete is True,
        "reason": info.last.reason or "interrupted",
        "seconds": seconds,
        "pages_per_second": totals.pages / seconds if seconds else None,
        **_pages(totals),
        **parts,
        "overlap": overlap(totals.pages - parts["asked_again"], totals.unique_pages),
        **{name: getattr(points[-1], name) if points else None for name in _AGAINST_A_WEB},
        "communication_overhead": None if urls is None else _ratio(urls, totals.pages),
        "imbalance_bytes": imbalance([one.bytes for one in loads]),
        "imbalance_requests": imbalance([one.pages for one in loads]),
        "messages_site_part": None if site_part is None else _distinct(site_part, *site_part),
        **traffic,
        # A killed rank leaves no count, but its log rows tell of the errors.
        "internal_errors": max(
            traffic["internal_errors"] or 0, totals.by_error.get(Failure.INTERNAL, 0)
        ),
        "plugin_errors": dict(
            sum((Counter(one.get("plugin_errors", {})) for one in counted), Counter[str]())
        ),
        "dynamic": dynamic_metrics(info.config, info.last.ranks, counted),
        "torn_logs": [str(torn.path) for torn in totals.torn],
        "ranks": ranks,
        "series": [point._asdict() for point in points],
    }
    metrics["overview"]["limited_by"] = _limits(counted)
    metrics["findings"] = [asdict(finding) for finding in find(metrics)]
    (directory / "report").mkdir(exist_ok=True)
    for name, content in {
        "metrics.json": json.dumps(metrics, indent=1) + "\n",
        "index.html": page(metrics),
    }.items():
        with session.replacing(directory / "report" / name) as file:
            file.write(content.encode())
    return metrics


def _runs(directory: Path, info: session.SessionInfo) -> list[dict[str, Any]]:
    """Read the counts of each run; none if those of a run are lost, because it was killed."""
    runs = read_runs(directory)
    return runs if [run["run"] for run in runs] == list(range(len(info.runs))) else []


def _pages(totals: Totals) -> dict[str, Any]:
    return without(asdict(totals), "torn")


def _traffic(ranks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The sums of the ranks' counts. A sum is None if one of the ranks lacks this count."""
    sums: dict[str, Any] = {}
    for name in SUMMED:
        values = [one.get(name) for one in ranks]  # sessions of older versions lack newer counts
        sums[name] = None if not values or None in values else sum(values)
    by_trap = sum((Counter(one["by_trap"]) for one in ranks), Counter[str]())
    sums["by_trap"] = dict(sorted(by_trap.items())) if ranks else None
    return sums


def _limits(counted: Sequence[dict[str, Any]]) -> dict[str, int]:
    """The seconds in which each bound limited the crawl, the longest first; empty if unknown."""
    seconds = sum((Counter(one.get("limited", {})) for one in counted), Counter[str]())
    return dict(seconds.most_common())


def _cpu_share(counted: Sequence[dict[str, Any]]) -> float | None:
    """The share of one core that a rank has used. `counted`: its counts in each run."""
    seconds = sum(one["seconds"] for one in counted)
    if not seconds or any("cpu_seconds" not in one for one in counted):
        return None
    return float(sum(one["cpu_seconds"] for one in counted) / seconds)


def _longest_break(counted: Sequence[dict[str, Any]]) -> float | None:
    """The longest break of a rank's event loop, in seconds. Older versions didn't measure it."""
    breaks = [one["longest_break_s"] for one in counted if "longest_break_s" in one]
    return max(breaks, default=None)


def _distinct(site_part: dict[int, NDArray[np.uint64]], *ranks: int) -> int:
    """The number of different (site, other rank) pairs of these ranks.

    A pair counts once, even if several of the ranks hold pages of the site.
    """
    known = [site_part[rank] for rank in ranks if rank in site_part]
    return len(distinct(np.concatenate(known))) if known else 0


async def _series(
    directory: Path,
    units: Sequence[str],
    again: Sequence[int],
    runs: Sequence[Mapping[str, Any]],
    web: Web | None,
    peers: Peers,
) -> list[Point]:
    """The measures over time.

    `units`: the names of the files of this process. `again`: the numbers of their rows whose URLs
    were requested again with a cookie. `runs`: on the first process, the counts of each run.
    `web`: the web that the session is compared with, as far as this process holds its pages.
    """
    columns = ["key", "status", "time", "role"]
    files = [directory / "tables" / "pages" / f"{unit}.parquet" for unit in units]
    none = SCHEMAS["pages"].empty_table().select(columns)
    table = pa.concat_tables([none, *(read_table(file, columns) for file in files)])
    asked_again = np.zeros(len(table), bool)
    asked_again[list(again)] = True
    # `again` counts all rows.
    which = arrow.and_(arrow.equal(table["role"], PAGE), arrow.is_valid(table["status"])).to_numpy()
    responses = Responses(
        table["key"].to_numpy()[which],
        arrow.cast(table["time"], pa.int64()).to_numpy()[which],
        arrow.equal(table["status"], 200).to_numpy()[which],
        asked_again[which],
    )
    ranks = [one for run in runs for one in run["ranks"]]
    sent = None
    if ranks and all("progress" in one for one in ranks):
        sent = [Sent(*np.array([(0.0, 0), *one["progress"]]).T) for one in ranks]
    return await series_together(responses, sent, web, read_reachable(directory), peers)


async def _politeness(tables: Path, own: Sequence[str], peers: Peers) -> dict[str, Any] | None:
    """The field `politeness` of the metrics, or None if the session has no request log.

    `smallest_gap` is the gap of the site whose gap exceeds the promised gap by the least. `own`:
    the names of the files of the table that this process reads.
    """
    names = ["site", "requests", "smallest_gap", "promised_gap", "impolite"]
    read = [read_table(tables / "sites" / f"{unit}.parquet", names) for unit in own]
    found = await peers.gather(_kept(pa.concat_tables(read)) if read else None)
    counted = [one for one in found if one is not None]
    if not counted:
        return None
    sums = ("requests", "impolite", "impolite_sites")
    gaps = [one for one in counted if one["smallest_gap"] is not None]
    closest = min(
        gaps, key=lambda one: one["smallest_gap"] - one["promised_gap"], default=counted[0]
    )
    kept = {name: sum(one[name] for one in counted) for name in sums}
    return {
        "kept": not kept["impolite"],
        **kept,
        **{name: closest[name] for name in ("smallest_gap", "promised_gap", "site")},
    }


def _kept(table: pa.Table) -> dict[str, Any] | None:
    """The same for some sites, without `kept`."""
    table = arrow.filter_(table, arrow.is_valid(table["requests"]))
    if not len(table):
        return None
    kept: dict[str, Any] = {
        "requests": arrow.sum_(table["requests"]).as_py(),
        "impolite": arrow.sum_(table["impolite"]).as_py(),
        "impolite_sites": arrow.sum_(arrow.greater(table["impolite"], 0)).as_py(),
        **dict.fromkeys(("smallest_gap", "promised_gap", "site")),
    }
    gaps = arrow.filter_(table, arrow.is_valid(table["smallest_gap"]))
    if len(gaps):
        margins = arrow.subtract(gaps["smallest_gap"], gaps["promised_gap"])
        row = gaps.slice(int(np.argmin(margins.to_numpy())), 1).to_pylist()[0]
        kept |= {name: row[name] for name in ("smallest_gap", "promised_gap", "site")}
    return kept


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
