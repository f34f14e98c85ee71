"""Tables of the crawls of parallel_crawlers.py, beside what the paper says."""

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

Crawl = dict[str, Any]  # a line of the log

LOG: Final = "parallel-crawlers.jsonl"
SHARES: Final = {9: 0.012, 10: 0.05, 11: 0.2}  # of the web that is fetched
_AT_ONCE: Final = "at once"

# The paper's conclusions, as they are generally cited.
_EXCHANGES: Final = "Fewer than 100 exchanges in a crawl give the quality of exchanging at once."
PAPER: Final = {
    4: "Good coverage with 4 processes or fewer; it falls as their number grows.",
    5: "The more processes, the more seeds it takes to cover much.",
    6: "Crossing over reaches what a firewall misses, at the price of much overlap.",
    7: "Site-hash exchanges far fewer URLs than URL-hash, and they take less than 1 % of the"
    " network bandwidth.",
    8: "10,000 to 100,000 replicated URLs, of 40 million pages, save roughly 40 % of the"
    " communication; more save little more.",
    **dict.fromkeys(SHARES, _EXCHANGES),
}
_TITLES: Final = {
    4: "coverage by number of processes (firewall)",
    5: "coverage by number of seeds (firewall)",
    6: "overlap against coverage (cross-over)",
    7: "URLs exchanged for each page, by number of processes",
    8: "URLs exchanged for each page, by number of replicated URLs",
    **{
        number: f"quality and URLs exchanged for each page, by number of exchanges;"
        f" {share:.1%} of the web"
        for number, share in SHARES.items()
    },
}
SCHEMES: Final = ("url-hash", "site-hash", "site-hypergraph", "hybrid")


def read_crawls(path: Path) -> list[Crawl]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def write_tables(crawls: Sequence[Crawl], out: Path) -> None:
    """parallel-crawlers.md, figure by figure."""
    text = [
        "# Parallel crawlers: the tables",
        "",
        "Of the paper there are its conclusions, as they are generally cited; its full text wasn't",
        "at hand, and the points of its plots aren't here.",
        "",
        "Made by `benchmarks/parallel_crawlers.py`. Means over the repetitions ± standard",
        "deviation; `repeat` is their largest number, and what has no ± is of one crawl.",
        "Imbalance: how much more than the average the busiest process fetched.",
    ]
    for figure, some in by(crawls, "figure"):
        text += ["", f"## Figure {figure}: {_TITLES[figure]}", "", f"*The paper:* {PAPER[figure]}"]
        for graph, mine in by(some, "graph"):
            size = ", ".join(
                f"{mine[0]['web'][name]:,} {name}" for name in ("pages", "sites", "links")
            )
            text += [
                "",
                f"**{graph}**: {size}",
                "",
                *_TABLES.get(figure, _exchanges)(mine),
            ]
    (out / "parallel-crawlers.md").write_text("\n".join(text) + "\n")


def by(crawls: Iterable[Crawl], *names: str) -> list[tuple[Any, list[Crawl]]]:
    """Groups of crawls, in order; `exchanges` of None come last."""

    def key(crawl: Crawl) -> tuple[Any, ...]:
        return tuple(_rank(name, crawl[name]) for name in names)

    groups = []
    for _, members in groupby(sorted(crawls, key=key), key):
        group = list(members)
        values = tuple(group[0][name] for name in names)
        groups.append((values if len(names) > 1 else values[0], group))
    return groups


def _rank(name: str, value: Any) -> Any:
    if name == "scheme":
        return SCHEMES.index(value)
    return float("inf") if value is None else value


# --- tables -----------------------------------------------------------------------------------


def _cell(crawls: Sequence[Crawl], value: Callable[[Crawl], float | None], digits: int = 3) -> str:
    found = [v for crawl in crawls if (v := value(crawl)) is not None]
    if not found:
        return ""
    text = f"{statistics.fmean(found):.{digits}f}"
    return text + (f" ±{statistics.pstdev(found):.{digits}f}" if len(found) > 1 else "")


def _table(
    crawls: Sequence[Crawl],
    row: Sequence[str],
    column: Sequence[str],
    value: Callable[[Crawl], float | None],
    digits: int = 3,
) -> list[str]:
    """A line for each value of the fields of `row`, a column for each of those of `column`."""
    columns = [names for names, _ in by(crawls, *column)]
    heads = [" ".join(map(word, names if len(column) > 1 else [names])) for names in columns]
    most = max(len(group) for _, group in by(crawls, *row, *column))
    lines = [
        f"| {' '.join(row)} (repeat {most}) | {' | '.join(heads)} |",
        "|---|" + "--:|" * len(columns),
    ]
    for names, group in by(crawls, *row):
        cells = dict(by(group, *column))
        head = " ".join(map(word, names if len(row) > 1 else [names]))
        values = [_cell(cells.get(at, ()), value, digits) for at in columns]
        lines.append(f"| {head} | {' | '.join(values)} |")
    return lines


def word(value: Any) -> str:
    if value is None:
        return _AT_ONCE
    return f"{value:,}" if isinstance(value, int) else str(value)


def _processes(crawls: Sequence[Crawl]) -> list[str]:
    balance = _table(crawls, ["procs"], ["scheme"], lambda crawl: crawl["imbalance"], 1)
    return [
        *_table(crawls, ["procs"], ["scheme"], lambda crawl: crawl["coverage"]),
        "",
        "Imbalance:",
        "",
        *balance,
    ]


def _seeds(crawls: Sequence[Crawl]) -> list[str]:
    return _table(crawls, ["seeds"], ["scheme", "procs"], lambda crawl: crawl["coverage"])


class _Crossing(NamedTuple):
    """Where a cross-over crawl got."""

    free: float  # coverage before the overlap reaches 0.01
    half: float | None  # overlap at a coverage of 0.5
    most: float | None  # at 0.9
    end: float  # the coverage at the end


def _crossing(crawl: Crawl) -> _Crossing:
    points = curve(crawl)

    def overlap_at(coverage: float) -> float | None:
        return next((over for cover, over in points if cover >= coverage), None)

    free = max(cover for cover, over in points if over < 0.01)
    return _Crossing(free, overlap_at(0.5), overlap_at(0.9), points[-1][0])


def curve(crawl: Crawl) -> list[tuple[float, float]]:
    """(coverage, overlap) as the crawl went on."""
    last = crawl["points"][-1][1]
    return [
        (crawl["coverage"] * unique / last, (pages - unique) / max(unique, 1))
        for pages, unique in crawl["points"]
    ]


def _overlaps(crawls: Sequence[Crawl]) -> list[str]:
    lines = [
        "| procs scheme | coverage while the overlap is below 0.01 | overlap at coverage 0.5"
        " | at 0.9 | coverage at the end | overlap at the end |",
        "|---|" + "--:|" * 5,
    ]
    for (procs, scheme), group in by(crawls, "procs", "scheme"):
        where = [_crossing(crawl) for crawl in group]
        cells = []
        for index in range(4):
            known = [one[index] for one in where if one[index] is not None]
            cells.append(f"{statistics.fmean(known):.2f}" if known else "not reached")
        cells.append(_cell(group, lambda crawl: crawl["overlap"], 2))
        lines.append(f"| {procs} {scheme} | {' | '.join(cells)} |")
    return lines


def _communication(crawls: Sequence[Crawl]) -> list[str]:
    row = ["procs" if crawls[0]["figure"] == 7 else "replicated"]
    return [
        "Each URL once from each process:",
        "",
        *_table(crawls, row, ["scheme"], lambda crawl: crawl["exchanged"]),
        "",
        "Every link:",
        "",
        *_table(crawls, row, ["scheme"], lambda crawl: crawl["inter_part_links"]),
    ]


def _exchanges(crawls: Sequence[Crawl]) -> list[str]:
    columns = ["procs", "scheme"]
    return [
        "Quality:",
        "",
        *_table(crawls, ["exchanges"], columns, lambda crawl: crawl["quality"]),
        "",
        "URLs exchanged for each page:",
        "",
        *_table(crawls, ["exchanges"], columns, lambda crawl: crawl["exchanged"]),
    ]


_TABLES: Final = {
    4: _processes,
    5: _seeds,
    6: _overlaps,
    7: _communication,
    8: _communication,
}
