"""A session as text, for a person at a terminal of 80 columns."""

import math
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Final

from crawler.commandline import printable
from crawler.pages.words import duration, number, percent, sentence, short_url, size
from crawler.report import view
from crawler.report.dynamic import dynamic_lines
from crawler.report.endings import seed_lines
from crawler.report.findings import what_limited
from crawler.report.memory import memory_lines
from crawler.report.overview import TOP

_COLUMNS: Final = 80
_BRIEF: Final = 40  # lines
_BAR: Final = 30  # characters of a full bar
_CURVE: Final = 44  # characters of a curve at most
_BLOCKS: Final = ".▁▂▃▄▅▆▇█"
_WIDEST_MATRIX: Final = 7  # columns of 9 characters


def summary(metrics: Mapping[str, Any]) -> str:
    """What the page of a session shows (`page`), as text for a terminal of 80 columns."""
    parts = [
        _head(metrics),
        _findings(metrics["findings"]),
        _outcomes(metrics["overview"]["outcomes"]),
        _errors(metrics),
        _time(metrics),
        _against(metrics),
        *_loads(metrics),
        _matrix(metrics),
        _sites(metrics["overview"]),
        _broken(metrics["overview"]),
        _skipped(metrics["overview"]),
        _gaps(metrics["overview"]["closest_gaps"]),
        ["Measures", *_pairs(measures(metrics))],
        ["The same as a page: report/index.html in the directory of the session"],
    ]
    return _joined(parts)


def _joined(parts: Sequence[Sequence[str]]) -> str:
    """The parts as text, with an empty line between two of them."""
    text = "\n\n".join("\n".join(part) for part in parts if part)
    return "\n".join(map(printable, text.split("\n")))


def brief(metrics: Mapping[str, Any]) -> str:
    """What matters most after a crawl, in at most 40 lines; `summary` has all of it."""
    closing = [
        "All of it is in report/index.html of the session, and is printed by",
        f"$ {shlex.join(['python', '-m', 'crawler', 'report', metrics['session']])}",
    ]
    limited = what_limited(metrics)
    head, findings = _head(metrics), metrics["findings"]
    outcomes = _outcomes(metrics["overview"]["outcomes"])
    speed = _wrapped(f"What limited the speed: {limited}") if limited else []
    room = _BRIEF - sum(len(part) + 1 for part in (head, outcomes, speed, closing) if part)
    if room < 1 + 2 * len(findings):
        room, outcomes = room + len(outcomes) + 1, []
    return _joined([head, _findings(findings, room), outcomes, speed, closing])


def _head(metrics: Mapping[str, Any]) -> list[str]:
    _, ended = view.state(metrics)
    facts = view.facts(metrics)
    return [
        f"{metrics['session']}: {ended}",
        *_wrapped(view.lead(metrics)),
        "",
        *_pairs([(fact.name, f"{fact.value}  {fact.about}".rstrip()) for fact in facts]),
    ]


def _findings(findings: Sequence[Mapping[str, Any]], room: int | None = None) -> list[str]:
    """The findings; of those that need more lines than there is room for, only the titles."""
    lines = ["Look at this first"]
    titles = [_wrapped(one["title"], f"{place}. ") for place, one in enumerate(findings, 1)]
    for place, finding in enumerate(findings):
        more = _wrapped(finding["cause"], "   ")
        more += [f"   $ {finding['command']}"] if finding["command"] else []
        left = sum(map(len, titles[place:]))
        lines += titles[place]
        if room is None or len(lines) - len(titles[place]) + left + len(more) <= room:
            lines += more
    return lines if findings else [*lines, "   Nothing stands out."]


def _outcomes(counts: Mapping[str, int]) -> list[str]:
    total = sum(counts.values())
    return ["What became of the URLs"] + [
        f"  {name:18} {count:11,} {percent(count / total):>8}  {_bar(count / total)}"
        for name, count in counts.items()
    ]


def _errors(metrics: Mapping[str, Any]) -> list[str]:
    errors = metrics["overview"]["errors"]
    lines = []
    for error in errors[:TOP]:
        urls, sites = view.count(error["urls"], "URL"), view.count(error["sites"], "site")
        lines += _wrapped(
            f"{error['error']}: {urls} of {sites}; {error['meaning']}. {sentence(error['advice'])}",
            "  ",
        )
        lines += [f"    {short_url(url, _COLUMNS - 4)}" for url in error["examples"]]
    if len(errors) > TOP:
        lines.append(f"  {len(errors) - TOP:,} kinds more are in report/metrics.json")
    lines += [f"  {line}" for line in seed_lines(metrics)]
    return ["Not fetched, and why", *lines] if lines else []


def _time(metrics: Mapping[str, Any]) -> list[str]:
    timeline = metrics["overview"]["timeline"]
    if timeline is None:
        return []
    rows = [("pages/s", timeline["pages_per_second"]), ("failed/s", timeline["failed_per_second"])]
    if timeline["waiting"] is not None:
        rows.append(("waiting", timeline["waiting"]))
    most = max(*timeline["pages_per_second"], *timeline["failed_per_second"], 1e-9)
    lines = [
        f"  {name:9}{_curve(values, max(values) if name == 'waiting' else most)}"
        f" {number(round(max(values), 1))} at most"
        for name, values in rows
    ]
    limited = what_limited(metrics)
    lines += _wrapped(f"What limited the speed: {limited}", "  ") if limited else []
    return [f"Speed and queue over {duration(timeline['seconds'])}", *lines]


def _against(metrics: Mapping[str, Any]) -> list[str]:
    against = metrics["against"]
    if against is None:
        return []
    lines = _wrapped(f"Against {against['session']}")
    for one in view.changes(against):
        lines += textwrap.wrap(
            one.meaning,
            _COLUMNS,
            initial_indent=f"  {one.name:14}{one.urls:11,}  ",
            subsequent_indent=" " * 29,
        )
    if against["bytes_not_sent"]:
        lines.append(f"  {size(against['bytes_not_sent'])} weren't sent again (status 304)")
    if saved := view.savings(metrics):
        lines.append(f"  {'a page':24}{'earlier':>14}{'now':>14}{'saved':>12}")
        lines += [f"  {one.name:24}{one.before:>14}{one.now:>14}{one.saved:>12}" for one in saved]
    return lines


def _loads(metrics: Mapping[str, Any]) -> list[list[str]]:
    """A part for each measure of load."""
    if len(metrics["ranks"]) < 2:
        return []
    parts = []
    for load in view.loads(metrics):
        lines = [f"{load.name} of the ranks: {load.over}"]
        lines += [
            f"  rank {row['rank']:<5} {row['value']:>12} {row['difference']:>6}"
            f"  {_bar(row['share'])}{' over the bound' if row['is_over'] else ''}"
            for row in load.rows
        ]
        if len(metrics["ranks"]) > TOP:
            lines.append("  the others are in report/metrics.json")
        parts.append(lines)
    servers = view.servers(metrics)
    if servers:
        parts.append(_wrapped(f"Seed servers, which fetch nothing: rank {servers}"))
    return parts


def _matrix(metrics: Mapping[str, Any]) -> list[str]:
    found = view.matrix(metrics)
    if found is None:
        return []
    if len(found.names) > _WIDEST_MATRIX:
        return ["URLs between ranks: see report/index.html"]
    names = [name[-9:] for name in found.names]
    lines = [f"{'URLs from / to':14}" + "".join(f"{name:>9}" for name in names)]
    for name, row in zip(names, found.counts, strict=True):
        lines.append(f"  {name:12}" + "".join(f"{urls:>9,}" for urls in row))
    return lines


def _sites(seen: Mapping[str, Any]) -> list[str]:
    lines = [f"{'The largest sites':38}{'pages':>11}{'errors':>9}{'bytes':>12}{'ranks':>7}"]
    lines += [
        f"  {short_url(site['site'], 35):36}{site['pages']:>11,}{site['errors']:>9,}"
        f"{size(site['bytes']):>12}{len(site['ranks']):>7}"
        for site in seen["largest_sites"]
    ]
    if seen["sites"] > TOP:
        lines.append(f"  {seen['sites'] - TOP:,} sites more are in tables/sites")
    return lines


def _broken(seen: Mapping[str, Any]) -> list[str]:
    if not seen["broken"]:
        return []
    lines = [f"{'Broken links, by directory':62}{'pages':>8}{'links':>10}"]
    for group in seen["broken_by_directory"]:
        place, example = short_url(group["directory"], 59), group["example"]
        lines.append(f"  {place:60}{group['urls']:>8,}{group['links']:>10,}")
        lines.append(f"    {short_url(example['url'], _COLUMNS - 4)}")
        lines.append(f"    from {short_url(example['linked_from'][0], _COLUMNS - 9)}")
    if seen["broken_directories"] > TOP:
        more = seen["broken_directories"] - TOP
        lines.append(f"  {more:,} directories more are in report/broken.jsonl")
    return lines


def _skipped(seen: Mapping[str, Any]) -> list[str]:
    if not seen["skipped"]:
        return []
    lines = [f"{'Known and not fetched: report/skipped.jsonl':70}{'URLs':>10}"]
    for reason, urls in list(seen["skipped"].items())[:TOP]:
        *above, last = textwrap.wrap(reason, 66)
        lines += [f"  {line}" for line in above]
        lines.append(f"  {last:68}{urls:>10,}")
    if seen["outside"]:
        lines.append(f"{'Hosts out of scope: report/outside.jsonl':70}{'links':>10}")
        lines += [
            f"  {short_url(one['host'], 66):68}{one['links']:>10,}" for one in seen["outside"]
        ]
    return lines


def _gaps(sites: Sequence[Mapping[str, Any]]) -> list[str]:
    if not sites:
        return []
    lines = [
        f"{'Smallest pauses, over all ranks':38}{'pause':>10}{'promised':>12}{'too early':>11}"
    ]
    return lines + [
        f"  {short_url(site['site'], 35):36}{site['smallest_gap']:>8.3f} s"
        f"{site['promised_gap']:>10.3f} s{site['impolite']:>11,}"
        for site in sites
    ]


def measures(metrics: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The measures of a session, each line as a name and its value."""
    lines = [
        ("reason", f"{metrics['reason']}, {number(metrics['waiting'])} URLs waiting"),
        ("mode", f"{metrics['mode']}, {metrics['scheme']}, {len(metrics['ranks'])} ranks"),
        (
            "pages",
            f"{number(metrics['pages'])} ({number(metrics['unique_pages'])} different,"
            f" {number(metrics['duplicate_content'])} of known content)",
        ),
        ("status", _listing(metrics["by_status"]) or "none"),
        ("errors", _listing(metrics["by_error"]) or "none"),
        ("traps", _listing(metrics["by_trap"] or {}) or "none"),
        ("overlap", f"{number(metrics['overlap'])}, coverage {number(metrics['coverage'])}"),
        (
            "quality",
            f"{number(metrics['quality'])} by back-links,"
            f" {number(metrics['quality_pagerank'])} by PageRank",
        ),
        (
            "exchange",
            f"{number(metrics['inter_part_urls'])} URLs between ranks"
            f" ({number(metrics['communication_overhead'])} a page) in"
            f" {number(metrics['mpi_messages'])} MPI messages,"
            f" {number(metrics['mpi_bytes'])} bytes",
        ),
        (
            "links",
            f"{number(metrics['inter_part_links'])} between ranks,"
            f" {number(metrics['dropped_links'])} of them dropped;"
            f" {number(metrics['inter_part_pages'])} pages of other ranks fetched",
        ),
        (
            "messages",
            f"{number(metrics['messages_page_part'])} (page, part),"
            f" {number(metrics['messages_site_part'])} (site, part),"
            f" {number(metrics['transmissions_target_part'])} (target, part)",
        ),
        *dynamic_lines(metrics),
        *memory_lines(metrics),
        (
            "imbalance",
            f"{percent(metrics['imbalance_bytes'])} of bytes,"
            f" {percent(metrics['imbalance_requests'])} of requests",
        ),
        ("requests", f"{number(metrics['requests'])}, {number(metrics['retries'])} retries"),
        ("politeness", _politeness(metrics["politeness"])),
    ]
    if metrics["internal_errors"]:
        lines.append(
            (
                "internal",
                f"{number(metrics['internal_errors'])} errors of this program; their tracebacks"
                " are in rank-*/agent.log: please report them",
            )
        )
    if metrics["plugin_errors"]:
        text = f"errors by plug-in: {_listing(metrics['plugin_errors'])}"
        lines.append(("plug-ins", f"{text}; their tracebacks are in rank-*/agent.log"))
    if metrics["torn_logs"]:
        lines.append(("torn", ", ".join(metrics["torn_logs"])))
    return lines


def _politeness(kept: Mapping[str, Any] | None) -> str:
    if kept is None:
        return "unknown: there is no request log"
    gap = "no site was asked twice"
    if kept["site"] is not None:
        gap = (
            f"smallest gap {number(kept['smallest_gap'])} s at {kept['site']},"
            f" delay {number(kept['promised_gap'])} s"
        )
    if kept["kept"]:
        return f"kept: {gap}"
    return (
        f"BROKEN: {number(kept['impolite'])} times at {number(kept['impolite_sites'])} sites; {gap}"
    )


def _pairs(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Lines with a name and a value each; a long value goes on below."""
    lines = []
    for name, value in pairs:
        lines += textwrap.wrap(
            value,
            _COLUMNS,
            initial_indent=f"  {name:13}",
            subsequent_indent=" " * 15,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        _COLUMNS,
        initial_indent=indent,
        subsequent_indent=" " * len(indent),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _bar(share: float) -> str:
    return "#" * round(_BAR * share)


def _curve(values: Sequence[float], most: float) -> str:
    """A curve as a line of blocks; a dot is zero."""
    top = len(_BLOCKS) - 1
    heights = (math.ceil(top * value / most) if most else 0 for value in _halved(values))
    return "".join(_BLOCKS[height] for height in heights)


def _halved(values: Sequence[float]) -> list[float]:
    """The values, or the larger of each two neighbours if a line is too short for all."""
    if len(values) <= _CURVE:
        return list(values)
    return [max(values[at : at + 2]) for at in range(0, len(values), 2)]


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


def _listing(counts: dict[Any, int]) -> str:
    return ", ".join(f"{name}: {count:,}" for name, count in counts.items())
