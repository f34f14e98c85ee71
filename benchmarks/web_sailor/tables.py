"""The tables of `web-sailor`, from its rows."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from harness import Row, markdown

from .comparison import KINDS, SHARES, UNLOCKED
from .saturation import CLIENT_PAGES_PER_S
from .steady import CONNECTIONS

LOG: Final = "web-sailor.jsonl"
_HEADS: Final = (
    "assignment",
    *(f"quality at {share:.1%}".replace(".0%", "%") for share in SHARES),
    "messages a page",
    "URLs up",
    "down",
    "imbalance",
    "pages/s",
    "clients a site",
)


def write_tables(rows: Sequence[Row], out: Path) -> None:
    """Write web-sailor-tables.md."""
    lines = [
        "# WEB-SAILOR: the tables",
        "",
        "`python benchmarks web-sailor` writes this page from web-sailor.jsonl.",
        "[web-sailor.md](web-sailor.md) explains the figures.",
    ]
    compared = [row for row in rows if row["part"] == "comparison"]
    for graph in sorted({row["graph"] for row in compared}):
        for delay_s in sorted({row["site_delay_s"] for row in compared}):
            lines += _comparison(
                [
                    row
                    for row in compared
                    if (row["graph"], row["site_delay_s"]) == (graph, delay_s)
                ],
                f"{graph}, {delay_s:g} s between two requests to a site",
            )
    lines += _crowds([row for row in compared if row["kind"] == UNLOCKED])
    lines += _steady([row for row in rows if row["part"] == "steady"])
    lines += _saturation([row for row in rows if row["part"] == "saturation"])
    (out / "web-sailor-tables.md").write_text("\n".join(lines) + "\n")


def mean(rows: Iterable[Row], value: Callable[[Row], Any]) -> float | None:
    """The mean of a value over repetitions; None if a repetition has none."""
    values = list(map(value, rows))
    return None if None in values or not values else statistics.fmean(values)


def _cell(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def _comparison(rows: Sequence[Row], title: str) -> list[str]:
    lines: list[str] = []
    for clients in sorted({row["clients"] for row in rows}):
        body = []
        for kind in KINDS:
            some = [row for row in rows if (row["kind"], row["clients"]) == (kind, clients)]
            if not some or kind == UNLOCKED:
                continue
            cells = [_cell(mean(some, lambda r, i=i: r["quality"][i]), 3) for i in range(3)]
            for name, digits in (("messages", 2), ("up", 2), ("down", 2), ("imbalance", 2)):
                cells.append(_cell(mean(some, lambda r, n=name: r[n]), digits))
            cells.append(_cell(mean(some, lambda r: r["pages_per_s"]), 0))
            cells.append(_cell(mean(some, lambda r: r["clients_a_site"]), 2))
            body.append([kind, *cells])
        if body:
            lines += ["", f"## {title}, {clients} clients", "", *markdown(_HEADS, body)]
    return lines


def _crowds(rows: Sequence[Row]) -> list[str]:
    counts = sorted({row["clients"] for row in rows})
    body = []
    for graph in sorted({row["graph"] for row in rows}):
        cells = [graph]
        for count in counts:
            some = [row for row in rows if (row["graph"], row["clients"]) == (graph, count)]
            cells.append(f"{mean(some, _crowded) or 0:.0%}")
        body.append(cells)
    heads = ["graph", *(f"{count} clients" for count in counts)]
    title = "## Fetches that would meet another client at their site"
    return ["", title, "", *markdown(heads, body)]


def _crowded(row: Row) -> float:
    share: float = row["crowded"]
    return share


def _steady(rows: Sequence[Row]) -> list[str]:
    heads = ["granularity", "client", "pages/s before", "after", "change"]
    heads += ["coefficient of variation before", "after"]
    body = []
    for row in rows:
        for number, (before, after) in enumerate(row["means"]):
            varied = [_cell(one, 3) for one in row["variations"][number]]
            change = f"{after / before - 1:+.1%}" if before else "joins"
            name = f"{number + 1}, {CONNECTIONS[number]} connections"
            body.append(
                [row["granularity"], name, _cell(before, 1), _cell(after, 1), change, *varied]
            )
    return ["", "## Figure 6: rates of clients when one joins", "", *markdown(heads, body, 2)]


def _saturation(rows: Sequence[Row]) -> list[str]:
    heads = ["servers", "URLs known", "pages/s", "microseconds a page"]
    heads += [f"clients of {CLIENT_PAGES_PER_S:,} pages/s", "microseconds a page of the root"]
    body = []
    for row in sorted(rows, key=lambda row: (row["servers"], row["urls"])):
        rate = row["pages_per_s"]
        alone = row["servers"] == 1
        root = "" if alone else f"{row['used_s'][0] / row['pages'] * 1e6:.0f}"
        body.append(
            [
                "1" if alone else f"{row['servers'] - 1} below a root",
                f"{row['urls']:,}",
                f"{rate:,.0f}",
                f"{1e6 / rate:.0f}",
                f"{rate / CLIENT_PAGES_PER_S:.0f}",
                root,
            ]
        )
    return ["", "## Saturation of servers", "", *markdown(heads, body)]
