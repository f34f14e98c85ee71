"""Summaries and tables of the runs of `papers`."""

import csv
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from harness import Row, markdown

Key = tuple[str, str, int]  # graph, contestant, parts

COUNTS: Final = (
    "imbalance_bytes",
    "imbalance_requests",
    "messages_page_part",
    "messages_site_part",
    "transmissions_target_part",
    "volume_bytes",
)
MEASURES: Final = (*COUNTS, "cpu_s", "peak_bytes")
# The baseline of each model. Site models keep sites whole, as site-hash does.
HASH_OF: Final = {
    "page-graph": "url-hash",
    "page-hypergraph": "url-hash",
    "site-graph": "site-hash",
    "site-hypergraph": "site-hash",
    **dict.fromkeys(("hybrid", "hybrid-messages", "hybrid-volume", "site-messages"), "site-hash"),
}
TOLERANCE: Final = 0.05


class Summary(NamedTuple):
    """All runs of one graph, contestant and K."""

    runs: int
    pages: int
    failed: str | None  # why a run gave no result, if one failed
    mean: dict[str, float]
    least: dict[str, float]
    most: dict[str, float]
    deviation: dict[str, float]  # standard
    reasons: list[str]  # of each run that isn't feasible, why

    @property
    def imbalance(self) -> float:
        """The worst of both weights, as it is shown. A feasible plan may have a giant's."""
        worst = max(self.most["imbalance_bytes"], self.most["imbalance_requests"])
        return round(worst, 3)

    @property
    def balanced(self) -> bool:
        return bool(self.mean) and self.imbalance <= TOLERANCE


def key(run: Row) -> tuple[str, str, int, int]:
    return run["graph"], run["contestant"], run["k"], run["seed"]


def summarise(runs: Iterable[Row]) -> dict[Key, Summary]:
    groups: dict[Key, list[Row]] = {}
    for run in runs:
        groups.setdefault((run["graph"], run["contestant"], run["k"]), []).append(run)
    return {at: _summary(group) for at, group in groups.items()}


def _summary(group: Sequence[Row]) -> Summary:
    good = [run for run in group if "failed" not in run]
    columns = {name: [run[name] for run in good] for name in MEASURES} if good else {}
    return Summary(
        runs=len(good),
        pages=group[0]["pages"],
        failed=next((run["failed"] for run in group if "failed" in run), None),
        mean={name: statistics.fmean(column) for name, column in columns.items()},
        least={name: min(column) for name, column in columns.items()},
        most={name: max(column) for name, column in columns.items()},
        deviation={name: statistics.pstdev(column) for name, column in columns.items()},
        reasons=[run["reason"] for run in good if run["reason"]],
    )


def ratio(summaries: Mapping[Key, Summary], at: Key, measure: str) -> float | None:
    """Return how many times less than its hash baseline it has, or None if one is missing."""
    graph, contestant, parts = at
    own = summaries.get(at)
    hashed = summaries.get((graph, HASH_OF.get(contestant, ""), parts))
    if not own or not hashed or not own.mean.get(measure) or not hashed.mean:
        return None
    return hashed.mean[measure] / own.mean[measure]


def _graphs(summaries: dict[Key, Summary]) -> list[str]:
    return list(dict.fromkeys(at[0] for at in summaries))


# --- Tables ----------------------------------------------------------------------------------


def write_tables(runs: Sequence[Row], beside: Sequence[str], out: Path) -> None:
    """Write summary.csv, and partitioning-tables.md, for people, with the lines of `beside`."""
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
        "# Partitioning: the tables",
        "",
        "`python benchmarks papers` writes this page and summary.csv from runs.jsonl. summary.csv",
        "also has minima and maxima. [partitioning.md](partitioning.md) explains the figures.",
        "",
        "- A cell is the mean over the seeds ± the standard deviation in percent.",
        "- A column ÷ says how many times less the model has than url-hash (page models) or",
        "  site-hash (other models).",
        "- An imbalance in **bold** is over 5 %. Imbalances are the worst over the seeds.",
        "- Messages are (page, part) and (site, part) pairs, transmissions (target, part) pairs.",
        "- Volume is in KB, CPU time in seconds, memory in MB.",
    ]
    text += [*beside, *_glance(summaries)]
    order = list(dict.fromkeys(run["contestant"] for run in runs))
    for graph in _graphs(summaries):
        size = next(run for run in runs if run["graph"] == graph and "pages" in run)
        counts = f"{size['pages']:,} pages, {size['sites']:,} sites, {size['links']:,} links"
        mine = [at for at in summaries if at[0] == graph]
        mine.sort(key=lambda at: (at[2], order.index(at[1])))
        rows = [_row(summaries, at) for at in mine]
        text += ["", f"## {graph}: {counts}", "", *markdown(_HEADS, rows, left=2)]
    (out / "partitioning-tables.md").write_text("\n".join(text) + "\n")


def _glance(summaries: dict[Key, Summary]) -> list[str]:
    """Messages and volume of all models side by side."""
    models = ["url-hash", "site-hash", *list(HASH_OF)[:5]]
    text = [
        "",
        "## At a glance",
        "",
        "The first table has (page, part) messages, the second has the volume in KB. † means that",
        "an imbalance is over 5 %.",
        "",
    ]
    for measure, unit in (("messages_page_part", 1), ("volume_bytes", 1000)):
        rows = []
        for graph in _graphs(summaries):
            for parts in (4, 16, 64):
                cells = []
                for model in models:
                    one = summaries.get((graph, model, parts))
                    mean = f"{one.mean[measure] / unit:,.0f}" if one and one.mean else ""
                    cells.append(mean + ("" if not mean or (one and one.balanced) else " †"))
                rows.append([graph, parts, *cells])
        text += [*markdown(["graph", "K", *models], rows), ""]
    return text


_HEADS: Final = (
    *("K", "model", "runs", "bytes", "requests", "(page, part)", "÷", "(site, part)", "÷"),
    *("transmissions", "volume", "÷", "CPU", "memory"),
)


def _row(summaries: dict[Key, Summary], at: Key) -> list[str]:
    one = summaries[at]
    if not one.mean:
        return [str(at[2]), at[1], "0", one.failed or "", *[""] * 10]

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

    return [
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
