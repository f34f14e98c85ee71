"""What the runs of papers.py add up to: summaries, tables, and what must hold."""

import csv
import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

Run = dict[str, Any]  # a line of runs.jsonl
Key = tuple[str, str, int]  # graph, contestant, parts

MEASURES: Final = (
    "imbalance_bytes",
    "imbalance_requests",
    "messages_page_part",
    "messages_site_part",
    "transmissions_target_part",
    "volume_bytes",
    "cpu_s",
    "peak_bytes",
)
# Whose baseline is which: page models could place any page anywhere, site models keep sites whole.
HASH_OF: Final = {
    "page-graph": "url-hash",
    "page-hypergraph": "url-hash",
    "site-graph": "site-hash",
    "site-hypergraph": "site-hash",
    "hybrid": "site-hash",
}
PAPER: Final = {"google": 4.9, "in-2004": 4.9, "de-fr": 7.3, "indochina": 8.7}  # site hypergraph
TOLERANCE: Final = 0.05
TIE: Final = 0.05  # seeds move messages by 3-7 %: what differs by less is a tie


class Summary(NamedTuple):
    """All seeds of one contestant, K and graph."""

    runs: int
    failed: str | None  # why runs gave no result, if one did
    mean: dict[str, float]
    least: dict[str, float]
    most: dict[str, float]
    deviation: dict[str, float]  # standard
    reasons: list[str]  # why a run is out of balance, one for each such run

    @property
    def balanced(self) -> bool:
        return not self.reasons and bool(self.mean)


def key(run: Run) -> tuple[str, str, int, int]:
    return run["graph"], run["contestant"], run["k"], run["seed"]


def read_runs(path: Path) -> list[Run]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def summarise(runs: Iterable[Run]) -> dict[Key, Summary]:
    groups: dict[Key, list[Run]] = {}
    for run in runs:
        groups.setdefault((run["graph"], run["contestant"], run["k"]), []).append(run)
    return {at: _summary(group) for at, group in groups.items()}


def _summary(group: Sequence[Run]) -> Summary:
    good = [run for run in group if "failed" not in run]
    columns = {name: [run[name] for run in good] for name in MEASURES} if good else {}
    return Summary(
        runs=len(good),
        failed=next((run["failed"] for run in group if "failed" in run), None),
        mean={name: statistics.fmean(column) for name, column in columns.items()},
        least={name: min(column) for name, column in columns.items()},
        most={name: max(column) for name, column in columns.items()},
        deviation={name: statistics.pstdev(column) for name, column in columns.items()},
        reasons=[run["reason"] for run in good if run["reason"]],
    )


def ratio(summaries: dict[Key, Summary], at: Key, measure: str) -> float | None:
    """How many times less than its hash baseline; None without either."""
    graph, contestant, parts = at
    own = summaries.get(at)
    hashed = summaries.get((graph, HASH_OF.get(contestant.partition("-v")[0], ""), parts))
    if not own or not hashed or not own.mean.get(measure) or not hashed.mean:
        return None
    return hashed.mean[measure] / own.mean[measure]


def _graphs(summaries: dict[Key, Summary]) -> list[str]:
    return list(dict.fromkeys(at[0] for at in summaries))


# --- Tables ----------------------------------------------------------------------------------


def write_tables(runs: Sequence[Run], out: Path) -> None:
    """tables.md, for people, and summary.csv."""
    summaries = summarise(run for run in runs if not run["contestant"].startswith("build "))
    with (out / "summary.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        spreads = [f"{name}{s}" for name in MEASURES for s in ("", "_min", "_max")]
        writer.writerow(["graph", "model", "k", "runs", "balanced", *spreads, "failed", "reason"])
        for at, one in sorted(summaries.items()):
            numbers = [
                f"{values[name]:.6g}" if values else ""
                for name in MEASURES
                for values in (one.mean, one.least, one.most)
            ]
            reason = one.reasons[0] if one.reasons else ""
            writer.writerow([*at, one.runs, one.balanced, *numbers, one.failed or "", reason])
    text = [
        "# The tables",
        "",
        "Made by `benchmarks/papers.py`; summary.csv has minima and maxima too. Mean over the",
        "seeds ± standard deviation in percent. ÷: times less than url-hash (page models) or",
        "site-hash (others). An imbalance in **bold** is over 5 %. Messages are (page, part)",
        "and (site, part) pairs, transmissions (target, part) pairs; volume in KB, CPU in seconds,",
        "memory in MB.",
    ]
    text += [*_beside(summaries), *_glance(summaries)]
    order = list(dict.fromkeys(run["contestant"] for run in runs))
    for graph in _graphs(summaries):
        size = next(run for run in runs if run["graph"] == graph and "pages" in run)
        counts = f"{size['pages']:,} pages, {size['sites']:,} sites, {size['links']:,} links"
        text += ["", f"## {graph}: {counts}", ""]
        text += [
            "| K | model | runs | bytes | requests | (page, part) | ÷ | (site, part) | ÷ |"
            " transmissions | volume | ÷ | CPU | memory |",
            "|--:|---|" + "--:|" * 12,
        ]
        mine = [at for at in summaries if at[0] == graph]
        for at in sorted(mine, key=lambda at: (at[2], order.index(at[1]))):
            text.append(_row(summaries, at))
    (out / "tables.md").write_text("\n".join(text) + "\n")


def _beside(summaries: dict[Key, Summary]) -> list[str]:
    """The papers' own two summaries, and ours."""
    text = [
        "",
        "## Beside the papers",
        "",
        "The site hypergraph's (site, part) messages, times fewer than site-hash: mean over K from",
        "4 to 64; in brackets over those K where it is balanced. The page graph's volume, times",
        "less than url-hash: least and most over K up to 64.",
        "",
        "| graph | site hypergraph | page graph |",
        "|---|--:|--:|",
        *(f"| {name} (paper) | {times} | |" for name, times in PAPER.items()),
        "| all (thesis) | | 40 to 100 |",
    ]
    for graph in _graphs(summaries):
        site = {
            at[2]: times
            for at in summaries
            if at[:2] == (graph, "site-hypergraph") and 4 <= at[2] <= 64
            if (times := ratio(summaries, at, "messages_site_part"))
        }
        balanced = [
            times for k, times in site.items() if summaries[graph, "site-hypergraph", k].balanced
        ]
        page = [
            times
            for at in summaries
            if at[:2] == (graph, "page-graph") and at[2] <= 64
            if (times := ratio(summaries, at, "volume_bytes"))
        ]
        left = f"{statistics.fmean(site.values()):.1f}" if site else ""
        if site:
            left += f" ({statistics.fmean(balanced):.1f})" if balanced else " (none)"
        right = f"{min(page):.0f} to {max(page):.0f}" if page else ""
        text.append(f"| {graph} | {left} | {right} |")
    return text


def _glance(summaries: dict[Key, Summary]) -> list[str]:
    """Messages and volume of all models side by side."""
    models = ["url-hash", "site-hash", *HASH_OF]
    text = [
        "",
        "## At a glance",
        "",
        "(page, part) messages; below, volume in KB. †: over 5 %.",
        "",
    ]
    for measure, unit in (("messages_page_part", 1), ("volume_bytes", 1000)):
        text += [f"| graph | K | {' | '.join(models)} |", "|---|--:|" + "--:|" * len(models)]
        for graph in _graphs(summaries):
            for parts in (4, 16, 64):
                cells = []
                for model in models:
                    one = summaries.get((graph, model, parts))
                    mean = f"{one.mean[measure] / unit:,.0f}" if one and one.mean else ""
                    cells.append(mean + ("" if not mean or (one and one.balanced) else " †"))
                text.append(f"| {graph} | {parts} | {' | '.join(cells)} |")
        text.append("")
    return text


def _row(summaries: dict[Key, Summary], at: Key) -> str:
    one = summaries[at]
    if not one.mean:
        return f"| {at[2]} | {at[1]} | 0 | {one.failed} " + "| " * 10 + "|"

    def spread(measure: str, unit: float = 1) -> str:
        mean, deviation = one.mean[measure], one.deviation[measure]
        percent = f" ±{deviation / mean:.1%}" if one.runs > 1 and mean else ""
        return f"{mean / unit:,.0f}{percent}"

    def imbalance(measure: str) -> str:
        worst = f"{one.most[measure]:.1%}"
        return f"**{worst}**" if one.most[measure] > TOLERANCE else worst

    def times(measure: str) -> str:
        found = ratio(summaries, at, measure)
        return "" if found is None else f"{found:.2g}" if found < 10 else f"{found:.0f}"

    cells = [
        str(at[2]),
        at[1],
        str(one.runs),
        imbalance("imbalance_bytes"),
        imbalance("imbalance_requests"),
        spread("messages_page_part"),
        times("messages_page_part"),
        spread("messages_site_part"),
        times("messages_site_part"),
        spread("transmissions_target_part"),
        spread("volume_bytes", 1000),
        times("volume_bytes"),
        f"{one.mean['cpu_s']:.1f}",
        f"{one.most['peak_bytes'] / 1e6:.0f}",
    ]
    return "| " + " | ".join(cells) + " |"


# --- What must hold --------------------------------------------------------------------------


def check(runs: Sequence[Run]) -> str:
    """Each thing that must hold, with the figures, as Markdown."""
    summaries = summarise(runs)
    lines = ["| what must hold | graph, K | measured | holds |", "|---|---|---|---|"]
    for rows in (_balance, _others, _messages, _volume, _constraint, _times):
        lines += [f"| {' | '.join(row)} |" for row in rows(summaries)]
    return "\n".join(lines)


Rows = list[tuple[str, str, str, str]]


def _balance(summaries: dict[Key, Summary]) -> Rows:
    rows = []
    for graph in _graphs(summaries):
        mine = {at[2]: s for at, s in summaries.items() if at[:2] == (graph, "hybrid") and s.mean}
        if not mine:
            continue
        worst = {
            parts: max(s.most["imbalance_bytes"], s.most["imbalance_requests"])
            for parts, s in mine.items()
        }
        over = {parts: mine[parts].reasons[0] for parts in sorted(mine) if mine[parts].reasons}
        measured = f"worst {max(worst.values()):.2%}"
        if over:
            measured += "; " + "; ".join(f"K = {parts}: {why}" for parts, why in over.items())
        where = f"{graph}, K = {', '.join(map(str, sorted(mine)))}"
        rows.append(("hybrid within 5 %", where, measured, "no" if over else "yes"))
    return rows


def _others(summaries: dict[Key, Summary]) -> Rows:
    """Out of balance with a site or page too heavy is right; without, the model has failed."""
    rows = []
    for model in ("page-graph", "page-hypergraph", "site-graph", "site-hypergraph"):
        for graph in _graphs(summaries):
            mine = {at[2]: s for at, s in summaries.items() if at[:2] == (graph, model) and s.mean}
            if not mine:
                continue
            heavy = [k for k in sorted(mine) if any("alone has" in r for r in mine[k].reasons)]
            missed = [k for k in sorted(mine) if any("alone has" not in r for r in mine[k].reasons)]
            said = []
            if heavy:
                names = mine[heavy[0]].reasons[0].partition("%): ")[2].partition(";")[0]
                said.append(f"flagged at K = {', '.join(map(str, heavy))} ({names})")
            if missed:
                worst = max(
                    max(mine[k].most["imbalance_bytes"], mine[k].most["imbalance_requests"])
                    for k in missed
                )
                said.append(f"over at K = {', '.join(map(str, missed))}, worst {worst:.1%}")
            measured = "; ".join(said) or "within 5 % at every K"
            rows.append((f"{model} within 5 % or flagged", graph, measured, _verdict(not missed)))
    return rows


def _verdict(holds: bool) -> str:
    return "yes" if holds else "no"


def _compared(
    summaries: dict[Key, Summary],
    what: str,
    ours: str,
    other: str,
    measure: str,
    bound: float,
    parts: Sequence[int] = (),
    *,
    balanced: bool = True,
) -> Rows:
    rows = []
    for graph in _graphs(summaries):
        said, worst = [], 0.0
        for at in sorted(at for at in summaries if at[:2] == (graph, ours)):
            mine, theirs = summaries[at], summaries.get((graph, other, at[2]))
            if not theirs or not mine.balanced or not theirs.mean or (parts and at[2] not in parts):
                continue
            if (balanced and not theirs.balanced) or not theirs.mean[measure]:
                continue
            times = mine.mean[measure] / theirs.mean[measure]
            worst = max(worst, times)
            said.append(f"{at[2]}: {times - 1:+.1%}")
        if said:
            tie = bound == 1 and 1 < worst <= 1 + TIE
            verdict = "a tie" if tie else _verdict(worst <= bound)
            rows.append((what, graph, "; ".join(said), verdict))
    return rows


def _messages(summaries: dict[Key, Summary]) -> Rows:
    what = "hybrid's messages no more than the site hypergraph's at equal balance"
    args = "hybrid", "site-hypergraph", "messages_page_part"
    return _compared(summaries, what, *args, bound=1)


def _volume(summaries: dict[Key, Summary]) -> Rows:
    rows = []
    for ours in ("hybrid", "hybrid-volume", "hybrid-both"):
        what = f"{ours}'s volume at most 5 % over the site graph's at equal balance"
        rows += _compared(summaries, what, ours, "site-graph", "volume_bytes", bound=1.05)
    return rows


def _constraint(summaries: dict[Key, Summary]) -> Rows:
    rows = []
    for model in ("site-hypergraph", "hybrid", "page-hypergraph"):
        for ours, bound in ((model, 1.08), (f"{model}/one-weight", 1.0)):
            what = f"{ours}: messages over Mt-KaHyPar's DEFAULT with one weight"
            what += ", at most 8 %" if ours == model else " (for comparison)"
            rows += _compared(
                summaries,
                what,
                ours,
                f"{model}/mt-kahypar",
                "messages_page_part",
                bound,
                (4, 16, 64),
                balanced=False,
            )
    return rows


def _times(summaries: dict[Key, Summary]) -> Rows:
    """Whole commands; the bounds are for webs of 1 and of 5 million pages."""
    bounds = {
        ("build site-hypergraph", 16): ("in under 30 s and 2 GB at 1 M pages", 30, 2e9),
        ("build hybrid", 64): ("in under 60 s at 1 M pages", 60, float("inf")),
        ("build page-hypergraph", 16): ("in under 5 min at 1 M pages", 300, float("inf")),
    }
    rows = []
    for (graph, contestant, parts), one in summaries.items():
        if not contestant.startswith("build "):
            continue
        said, seconds, memory = bounds.get((contestant, parts), ("", float("inf"), float("inf")))
        measured, verdict = one.failed or "", "no"
        if one.mean:
            used, peak = one.mean["cpu_s"], one.mean["peak_bytes"]
            measured = f"{used:.1f} CPU s, {peak / 1e6:,.0f} MB"
            verdict = _verdict(used < seconds and peak < memory) if said else ""
        rows.append((f"{contestant} {said}", f"{graph}, K = {parts}", measured, verdict))
    return rows
