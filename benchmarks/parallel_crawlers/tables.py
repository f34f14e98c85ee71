"""Tables of the crawls of `parallel-crawlers`, next to what the paper says."""

import statistics
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

from harness import Row, markdown

from .paper import STATED

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


_COUNTS: Final = ("inter_part_links", "exchanged")
FIGURES: Final = {
    4: Figure(
        "coverage by number of processes (firewall)",
        *("procs", ("scheme", "half"), ("coverage", "coverage_reachable", "imbalance")),
        "The text adds: less than 0.5 with 14 processes. With half of the sites, half as many"
        " processes cover roughly as much.",
    ),
    5: Figure(
        "coverage by number of seeds (firewall)",
        *("seeds", ("scheme", "procs"), ("coverage", "coverage_reachable")),
        "The text adds: with 2 or 8 processes, more seeds hardly help.",
    ),
    6: Figure(
        "overlap against coverage (cross-over)",
        *("coverage", ("scheme", "procs"), ("overlap",)),
        "In most cases no overlap until the coverage is large.",
    ),
    7: Figure(
        "URLs exchanged for each page, by number of processes",
        *("procs", ("scheme",), _COUNTS),
        "A process sends a URL at once, and doesn't remember what it has sent. So each link counts."
        " At most 1 by site-hash, which is 0.4 % of the bandwidth.",
    ),
    8: Figure(
        "URLs exchanged for each page, by number of replicated URLs",
        *("replicated", ("scheme",), _COUNTS),
        "With 64 processes 40, 51 and 53 % less with 10,000, 100,000 and 200,000 replicated URLs of"
        " 40 million pages. Every link counts.",
    ),
    **{
        number: Figure(
            f"quality and URLs exchanged for each page, by number of exchanges;"
            f" {share:.1%} of the web",
            *("exchanges", ("procs", "scheme"), ("quality", "exchanged")),
            "Fewer than 100 exchanges in a crawl give the highest quality."
            + (" The text has no value of this figure." if number == 10 else ""),
        )
        for number, share in SHARES.items()
    },
}
CAPTIONS: Final = {
    "coverage": "Coverage of the web",
    "coverage_reachable": "Coverage of what the seeds reach",
    "exchanged": "URLs exchanged for each page, each once in a batch",
    "inter_part_links": "URLs exchanged for each page, every link",
}
SCHEMES: Final = ("url-hash", "site-hash", "site-hypergraph", "hybrid")


def write_tables(crawls: Sequence[Row], out: Path) -> None:
    """Write parallel-crawlers-tables.md, figure by figure."""
    text = [
        "# Parallel crawlers: the tables",
        "",
        "`python benchmarks parallel-crawlers` writes this page from parallel-crawlers.jsonl.",
        "The page *Parallel Crawlers* explains the figures.",
        "",
        f"- All crawls are of commit {crawls[0]['commit']}, on {crawls[0]['machine']}, made from"
        f" {min(one['date'] for one in crawls)} to {max(one['date'] for one in crawls)}.",
        "- Columns of *the paper* have the values that its text states, not those of its plots.",
        "  < is less than, ≥ at least, ~ about. Its scheme is site-hash.",
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
                text += [f"{CAPTIONS.get(measure, measure.capitalize())}:", ""]
                text += [*_table(mine, number, measure), ""]
            text += _seeds(mine)
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


def _seeds(crawls: Sequence[Row]) -> list[str]:
    """Return a line that says how many seeds there were, and which share of the web they are."""
    drawn = sorted({crawl["drawn"] for crawl in crawls if not crawl["half"]})
    pages = crawls[0]["web"]["pages"]
    share = ", ".join(f"{number:,} ({number / pages:.2g})" for number in drawn)
    return [f"Seeds of a crawl, and their share of the web: {share}."]


def _cell(crawls: Sequence[Row], measure: str, digits: int = 3) -> str:
    found = [crawl[measure] for crawl in crawls if crawl[measure] is not None]
    if not found:
        return ""
    text = f"{statistics.fmean(found):.{digits}f}"
    return text + (f" ±{statistics.pstdev(found):.{digits}f}" if len(found) > 1 else "")


def _table(crawls: Sequence[Row], number: int, measure: str) -> list[str]:
    """Return a table with a row for each x and a column for each line of the figure.

    The paper's lines come last. They have a row of their own where there is no crawl.
    """
    figure = FIGURES[number]
    stated = [one for one in STATED.get(number, ()) if one.measure == measure]
    lines = list(dict.fromkeys(tuple(one.line[name] for name in figure.lines) for one in stated))
    columns = [names for names, _ in by(crawls, *figure.lines)]
    most = max(len(group) for _, group in by(crawls, figure.x, *figure.lines))
    groups: dict[Any, Sequence[Row]] = {one.x: () for one in stated}
    groups |= {x: group for (x,), group in by(crawls, figure.x)}
    rows = []
    for x in sorted(groups, key=lambda x: _rank(figure.x, x)):
        cells = dict(by(groups[x], *figure.lines))
        digits = 1 if measure == "imbalance" else 3
        texts = {
            tuple(one.line[name] for name in figure.lines): one.text for one in stated if one.x == x
        }
        theirs = [texts.get(line, "") for line in lines]
        rows.append(
            [word(x), *(_cell(cells.get(at, ()), measure, digits) for at in columns), *theirs]
        )
    heads = [head(names, figure) for names in columns]
    heads += [f"*the paper*, {head(names, figure)}" for names in lines]
    return markdown([f"{figure.x} (repeat {most})", *heads], rows)


def head(names: Sequence[Any], figure: Figure) -> str:
    """Return the words for a line of a figure, which these values of its fields tell apart."""
    words = zip(figure.lines, names, strict=True)
    return " ".join(
        ("half of the sites" if value else "") if name == "half" else word(value)
        for name, value in words
    ).strip()


def word(value: Any) -> str:
    if value is None:
        return _AT_ONCE
    return f"{value:,}" if isinstance(value, int) else str(value)


def _crossing(crawl: Row) -> list[float | None]:
    """Return four figures of a crawl, None for each that it didn't reach.

    They are the coverage before the overlap reaches 0.01, the overlap at coverages of 0.5 and
    0.9, and the coverage at the end, all of the whole web.
    """
    points = curve(crawl)
    free = max(cover for cover, over in points if over < 0.01)
    at = [next((over for cover, over in points if cover >= least), None) for least in (0.5, 0.9)]
    return [free, *at, points[-1][0]]


def curve(crawl: Row) -> list[tuple[float, float]]:
    """Return (coverage of the web, overlap) in the course of the crawl."""
    last = crawl["points"][-1][1]
    return [
        (crawl["coverage"] * unique / last, (pages - unique) / max(unique, 1))
        for pages, unique in crawl["points"]
    ]


def _overlaps(crawls: Sequence[Row]) -> list[str]:
    heads = ["procs scheme", "coverage while the overlap is below 0.01", "overlap at coverage 0.5"]
    heads += ["at 0.9", "coverage at the end", "of what the seeds reach", "overlap at the end"]
    rows = []
    for (procs, scheme), group in by(crawls, "procs", "scheme"):
        where = [_crossing(crawl) for crawl in group]
        cells = []
        for index in range(4):
            known = [one[index] for one in where if one[index] is not None]
            cells.append(f"{statistics.fmean(known):.2f}" if known else "not reached")
        cells += [_cell(group, measure, 2) for measure in ("coverage_reachable", "overlap")]
        rows.append([f"{procs} {scheme}", *cells])
    rows.append(["*the paper*, 16 site-hash", "0.5", "0", "", "", "", ""])
    rows.append(["*the paper*, 4 site-hash", "", "", "", "~1", "", "~2.5"])
    return [*markdown(heads, rows), "", *_seeds(crawls)]
