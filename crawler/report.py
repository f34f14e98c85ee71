"""The measures of a session: metrics.json, and the summary that a person reads.

Pages, bytes and errors are counted in the log. What only the ranks know while they run (messages,
requests) they leave in `report/counters.json`; without it, after a kill, those measures are null.
"""

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crawler import session


@dataclass(frozen=True, slots=True)
class Counters:
    """What one rank counted while it ran."""

    rank: int
    seconds: float
    cpu_seconds: float
    peak_bytes: int  # of memory
    waiting: int  # URLs that it knew and hadn't fetched
    requests: int  # pages and robots.txt files
    retries: int  # URLs put back after a failure
    by_trap: dict[str, int]  # links and URLs kept out, by the rule of [traps]
    inter_part_links: int
    inter_part_urls: int
    messages_page_part: int
    site_part: Collection[tuple[str, int]]  # (source site, other rank)
    transmissions_target_part: int | None
    claims: int
    mpi_messages: int
    mpi_bytes: int


_REACHABLE = "reachable.npy"  # u64 URL keys
_SUMMED = (
    "requests",
    "retries",
    "inter_part_links",
    "inter_part_urls",
    "messages_page_part",
    "transmissions_target_part",
    "claims",
    "mpi_messages",
    "mpi_bytes",
    "waiting",
)


def write_counters(
    directory: Path, ranks: Sequence[Counters], reachable: Collection[int] | None = None
) -> None:
    """Keep what the ranks counted, for this and later reports.

    `reachable`: URL keys of all pages that the crawl should have fetched with status 200, where
    they are known.
    """
    (directory / "report").mkdir(exist_ok=True)
    if reachable is not None:
        np.save(directory / "report" / _REACHABLE, np.array(sorted(reachable), np.uint64))
    content = {
        # A pair counts once however many ranks hold pages of the site.
        "messages_site_part": len(set().union(*(one.site_part for one in ranks))),
        "ranks": [
            {"messages_site_part": len(one.site_part), **_without(asdict(one), "site_part")}
            for one in ranks
        ],
    }
    (directory / "report" / "counters.json").write_text(json.dumps(content, indent=1))


def write_metrics(directory: Path) -> dict[str, Any]:
    """Rebuild the tables from the log, compute the measures, write report/metrics.json.

    Overlap is (N-I)/I and coverage I/U, with N pages fetched, I different ones, U reachable (where
    that is known); communication overhead is URLs exchanged per page fetched (Cho and Garcia-Molina
    2002, section 4). Imbalance is W_max/W_avg - 1 over the ranks. docs/measures.md has them all.
    """
    info = session.load(directory)
    totals, by_rank = session.write_tables(directory)
    counted = _read_counters(directory)
    ranks = [
        {
            "rank": rank,
            **_pages(one),
            "messages_site_part": counted["ranks"][rank]["messages_site_part"] if counted else None,
            **_traffic([counted["ranks"][rank]] if counted else []),
        }
        for rank, one in enumerate(by_rank)
    ]
    traffic = _traffic(counted["ranks"] if counted else [])
    urls = traffic["inter_part_urls"]
    seconds = max((one["seconds"] for one in counted["ranks"]), default=None) if counted else None
    metrics: dict[str, Any] = {
        "mode": info.config.session.mode,
        "scheme": info.config.assignment.scheme,
        "complete": info.program.complete is True,
        "reason": info.program.reason or "interrupted",
        "seconds": seconds,
        "pages_per_second": totals.pages / seconds if seconds else None,
        **_pages(totals),
        "overlap": _ratio(totals.pages - totals.unique_pages, totals.unique_pages),
        "coverage": _coverage(directory),
        "communication_overhead": None if urls is None else _ratio(urls, totals.pages),
        "imbalance_bytes": imbalance([one.bytes for one in by_rank]),
        "imbalance_requests": imbalance([one.pages for one in by_rank]),
        "messages_site_part": counted["messages_site_part"] if counted else None,
        **traffic,
        "torn_logs": [str(torn.path) for torn in totals.torn],
        "ranks": ranks,
    }
    (directory / "report").mkdir(exist_ok=True)
    (directory / "report" / "metrics.json").write_text(json.dumps(metrics, indent=1) + "\n")
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
        values = [one[name] for one in ranks]
        sums[name] = None if not values or None in values else sum(values)
    by_trap = sum((Counter(one["by_trap"]) for one in ranks), Counter[str]())
    sums["by_trap"] = dict(sorted(by_trap.items())) if ranks else None
    return sums


def _read_counters(directory: Path) -> dict[str, Any] | None:
    try:
        content: dict[str, Any] = json.loads((directory / "report" / "counters.json").read_text())
    except FileNotFoundError:
        return None
    return content


def _coverage(directory: Path) -> float | None:
    try:
        reachable = np.load(directory / "report" / _REACHABLE)
    except FileNotFoundError:
        return None
    table = pq.read_table(directory / "tables" / "pages.parquet", columns=["key", "status"])
    fetched = table["key"].filter(pc.equal(table["status"], 200)).to_numpy()
    return _ratio(int(np.isin(reachable, fetched).sum()), len(reachable))


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def summary(directory: Path, metrics: dict[str, Any]) -> str:
    """The measures for a person to read."""
    lines = [
        f"session   {directory}",
        f"ended     {metrics['reason']}"
        + ("" if metrics["complete"] else f", {_number(metrics['waiting'])} URLs waiting"),
        f"scheme    {metrics['scheme']}, {len(metrics['ranks'])} ranks",
        f"pages     {_number(metrics['pages'])} ({_number(metrics['unique_pages'])} different,"
        f" {_number(metrics['duplicate_content'])} of known content)",
        f"bytes     {_number(metrics['bytes'])}",
        f"time      {_number(metrics['seconds'])} s,"
        f" {_number(metrics['pages_per_second'])} pages/s",
        "status    " + (_listing(metrics["by_status"]) or "none"),
        "errors    " + (_listing(metrics["by_error"]) or "none"),
        "traps     " + (_listing(metrics["by_trap"] or {}) or "none"),
        f"overlap   {_number(metrics['overlap'])}, coverage {_number(metrics['coverage'])}",
        f"exchange  {_number(metrics['inter_part_urls'])} URLs between ranks"
        f" ({_number(metrics['communication_overhead'])} a page) in"
        f" {_number(metrics['mpi_messages'])} MPI messages, {_number(metrics['mpi_bytes'])} bytes",
        f"messages  {_number(metrics['messages_page_part'])} (page, part),"
        f" {_number(metrics['messages_site_part'])} (site, part),"
        f" {_number(metrics['transmissions_target_part'])} (target, part)",
        f"imbalance {_percent(metrics['imbalance_bytes'])} of bytes,"
        f" {_percent(metrics['imbalance_requests'])} of requests",
    ]
    if metrics["torn_logs"]:
        lines.append("torn      " + ", ".join(metrics["torn_logs"]))
    lines += ["", "rank      pages        bytes    requests   URLs sent   MPI messages"]
    lines += [
        f"{one['rank']:4} {one['pages']:10,} {one['bytes']:12,} {_number(one['requests']):>11}"
        f" {_number(one['inter_part_urls']):>11} {_number(one['mpi_messages']):>14}"
        for one in metrics["ranks"]
    ]
    return "\n".join(lines)


def _number(value: float | None) -> str:
    if value is None:
        return "unknown"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}".rstrip("0").rstrip(".")


def _percent(value: float | None) -> str:
    return "unknown" if value is None else f"{100 * value:.1f} %"


def _listing(counts: dict[Any, int]) -> str:
    return ", ".join(f"{name}: {count:,}" for name, count in counts.items())
