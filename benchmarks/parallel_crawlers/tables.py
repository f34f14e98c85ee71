"""Tables of the crawls of `parallel-crawlers`, next to what the paper says."""

import statistics
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

from harness import Row, markdown

LOG: Final = "parallel-crawlers.jsonl"
SHARES: Final = {9: 0.012, 10: 0.05, 11: 0.2}  # of the web that is fetched
_AT_ONCE: Final = "at once"


class Figure(NamedTuple):
    """What a figure shows."""

    title: str
    x: str  # the field on the x axis; a table has a row for each value
    lines: tuple[str, ...]  # the fields that distinguish lines, and columns of a table
    measures: tuple[str, ...]  # the measures; each has a table
    paper: str  # what the text of the paper states


_COUNTS: Final = ("exchanged", "inter_part_links")
FIGURES: Final = {
    4: Figure(
        "coverage by number of processes (firewall)",
        *("procs", ("scheme",), ("coverage", "imbalance")),
        "0.9 with one process, at least 0.8 with 4, less than 0.1 with 64.",
    ),
    5: Figure(
        "coverage by number of seeds (firewall)",
        *("seeds", ("scheme", "procs"), ("coverage",)),
        "With 64 processes 0.004 by 64 seeds and 0.1 by 1,024; with few it hardly matters.",
    ),
    6: Figure(
        "overlap against coverage (cross-over)",
        *("coverage", ("scheme", "procs"), ("overlap",)),
        "With 16 processes no overlap up to a coverage of 0.5; with 4 almost 2.5 near 1.",
    ),
    7: Figure(
        "URLs exchanged for each page, by number of processes",
        *("procs", ("scheme",), _COUNTS),
        "By site-hash 0.4 with 2 processes, 0.8 with 16, 0.86 with 64: 0.4 % of the bandwidth at"
        " most. By URL-hash far more.",
    ),
    8: Figure(
        "URLs exchanged for each page, by number of replicated URLs",
        *("replicated", ("scheme",), _COUNTS),
        "With 64 processes 0.86; with 10,000 replicated URLs of 40 million pages 40 % less, with"
        " 100,000 51 % less, with 200,000 53 % less.",
    ),
    **{
        number: Figure(
            f"quality and URLs exchanged for each page, by number of exchanges;"
            f" {share:.1%} of the web",
            *("exchanges", ("procs", "scheme"), ("quality", "exchanged")),
            "Fewer than 100 exchanges in a crawl give the highest quality.",
        )
        for number, share in SHARES.items()
    },
}
CAPTIONS: Final = {
    "exchanged": "URLs exchanged for each page",
    "inter_part_links": "URLs exchanged for each page if every link is sent",
}
SCHEMES: Final = ("url-hash", "site-hash", "site-hypergraph", "hybrid")


def write_tables(crawls: Sequence[Row], out: Path) -> None:
    """Write parallel-crawlers-tables.md, figure by figure."""
    text = [
        "# Parallel crawlers: the tables",
        "",
        "`python benchmarks parallel-crawlers` writes this page from parallel-crawlers.jsonl.",
        "[parallel-crawlers.md](parallel-crawlers.md) explains the figures.",
        "",
        "- The lines on the paper have the values that its text states, not those of its plots.",
        "- A cell is the mean over the repetitions ± the standard deviation. A cell without ± is",
        "  of one crawl. `repeat` is the largest number of repetitions.",
        "- Imbalance says how much more than the average the busiest process fetched.",
    ]
    for (number,), some in by(crawls, "figure"):
        figure = FIGURES[number]
        text += ["", f"## Figure {number}: {figure.title}", "", f"*The paper:* {figure.paper}"]
        for (graph,), mine in by(some, "graph"):
            size = ", ".join(
                f"{mine[0]['web'][name]:,} {name}" for name in ("pages", "sites", "links")
            )
            text += ["", f"**{graph}**: {size}", ""]
            if number == 6:
                text += _overlaps(mine)
                continue
            for measure in figure.measures:
                if measure != figure.measures[0] or number > 5:
                    text += [f"{CAPTIONS.get(measure, measure.capitalize())}:", ""]
                text += [*_table(mine, figure, measure), ""]
            text.pop()
    (out / "parallel-crawlers-tables.md").write_text("\n".join(text) + "\n")


def by(crawls: Iterable[Row], *names: str) -> list[tuple[tuple[Any, ...], list[Row]]]:
    """Group crawls by the values of fields, in order; None as `exchanges` comes last."""

    def key(crawl: Row) -> tuple[Any, ...]:
        return tuple(_rank(name, crawl[name]) for name in names)

    groups = [list(members) for _, members in groupby(sorted(crawls, key=key), key)]
    return [(tuple(group[0][name] for name in names), group) for group in groups]


def _rank(name: str, value: Any) -> Any:
    if name == "scheme":
        return SCHEMES.index(value)
    return float("inf") if value is None else value


# --- tables -----------------------------------------------------------------------------------


def _cell(crawls: Sequence[Row], measure: str, digits: int = 3) -> str:
    found = [crawl[measure] for crawl in crawls if crawl[measure] is not None]
    if not found:
        return ""
    text = f"{statistics.fmean(found):.{digits}f}"
    return text + (f" ±{statistics.pstdev(found):.{digits}f}" if len(found) > 1 else "")


def _table(crawls: Sequence[Row], figure: Figure, measure: str) -> list[str]:
    """Return a table with a row for each x and a column for each line of the figure."""
    columns = [names for names, _ in by(crawls, *figure.lines)]
    most = max(len(group) for _, group in by(crawls, figure.x, *figure.lines))
    rows = []
    for (x,), group in by(crawls, figure.x):
        cells = dict(by(group, *figure.lines))
        digits = 1 if measure == "imbalance" else 3
        rows.append([word(x), *(_cell(cells.get(at, ()), measure, digits) for at in columns)])
    heads = [" ".join(map(word, names)) for names in columns]
    return markdown([f"{figure.x} (repeat {most})", *heads], rows)


def word(value: Any) -> str:
    if value is None:
        return _AT_ONCE
    return f"{value:,}" if isinstance(value, int) else str(value)


def _crossing(crawl: Row) -> list[float | None]:
    """Return four figures of a crawl, None for each that it didn't reach.

    They are the coverage before the overlap reaches 0.01, the overlap at coverages of 0.5 and
    0.9, and the coverage at the end.
    """
    points = curve(crawl)
    free = max(cover for cover, over in points if over < 0.01)
    at = [next((over for cover, over in points if cover >= least), None) for least in (0.5, 0.9)]
    return [free, *at, points[-1][0]]


def curve(crawl: Row) -> list[tuple[float, float]]:
    """Return (coverage, overlap) in the course of the crawl."""
    last = crawl["points"][-1][1]
    return [
        (crawl["coverage"] * unique / last, (pages - unique) / max(unique, 1))
        for pages, unique in crawl["points"]
    ]


def _overlaps(crawls: Sequence[Row]) -> list[str]:
    heads = ["procs scheme", "coverage while the overlap is below 0.01", "overlap at coverage 0.5"]
    heads += ["at 0.9", "coverage at the end", "overlap at the end"]
    rows = []
    for (procs, scheme), group in by(crawls, "procs", "scheme"):
        where = [_crossing(crawl) for crawl in group]
        cells = []
        for index in range(4):
            known = [one[index] for one in where if one[index] is not None]
            cells.append(f"{statistics.fmean(known):.2f}" if known else "not reached")
        cells.append(_cell(group, "overlap", 2))
        rows.append([f"{procs} {scheme}", *cells])
    return markdown(heads, rows)
