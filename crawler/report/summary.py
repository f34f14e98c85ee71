"""The measures of a session as text, for a person to read."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crawler.report.dynamic import dynamic_lines
from crawler.report.endings import seed_lines
from crawler.report.memory import memory_lines


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


def summary(directory: Path, metrics: dict[str, Any]) -> str:
    """The measures of one session as lines of text."""
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
        *dynamic_lines(metrics),
        *memory_lines(metrics),
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
        + ("  server" if one["server"] else "")
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
    """The measures of several crawls, or of a prediction, as a table with a column for each.

    `columns`: metrics by heading. A measure that no column has is left out.
    """
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
