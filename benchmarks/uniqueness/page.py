"""The tables and the plot of the page on URL uniqueness, made from the recorded runs."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from harness import Row, markdown, read_rows

from . import model

LOG: Final = "uniqueness.jsonl"
MODEL_LOG: Final = "uniqueness-model.jsonl"
_HEAD: Final = """\
# URL uniqueness: all numbers

Made by `python benchmarks uniqueness --plots` from [uniqueness.jsonl](uniqueness.jsonl) and
[uniqueness-model.jsonl](uniqueness-model.jsonl). [uniqueness.md](uniqueness.md) explains them.
"""
# Table 3 of the paper, in seconds, by millions of URLs.
PAPER: Final = {
    1: (16.28, 1.38),
    50: (26.39, 2.78),
    100: (35.62, 3.62),
    150: (44.70, 4.50),
    200: (53.99, 5.47),
    250: (64.46, 7.20),
    300: (73.18, 7.44),
    350: (82.85, 9.26),
}


def write(out: Path) -> None:
    """Write the tables and the plot."""
    rows = read_rows(out / LOG)
    lines = [_HEAD, "## Table 2 of the paper, by equations 2 and 3", "", *_table_2(), ""]
    lines += ["## Bytes counted beside the equations", "", *_against_model(out), ""]
    lines += ["## A cycle of 1 million URLs", "", *_cycles(rows), ""]
    lines += ["## Table 3 of the paper", "", *_paper(), ""]
    (out / "uniqueness-tables.md").write_text("\n".join(lines).rstrip() + "\n")
    if rows:
        _plot(rows, out / "uniqueness.svg")


def _table_2() -> list[str]:
    heads = ["URLs to check", "N at 2 GiB"]
    heads += [f"{gib} GiB: {name}" for gib in (2, 4, 8, 16) for name in ("DRUM", "VEUNIQ")]
    cells = list(model.table_2())
    rows = []
    for first in range(0, len(cells), 4):
        row = cells[first : first + 4]
        overheads = [word for cell in row for word in (cell.drum, cell.veuniq)]
        rows.append([f"{row[0].links / 1e9:g} billion", f"{row[0].repositories:,}", *overheads])
    return markdown(heads, rows)


def _against_model(out: Path) -> list[str]:
    heads = ["store", "cycles", "b", "p", "beta", "predicted MB", "counted MB", "difference"]
    rows = [
        [
            row["store"],
            row["cycles"],
            f"{row['b']:.1f}",
            f"{row['p']:.3f}",
            f"{row['cross']:.3f}",
            f"{row['predicted_mb']:,.0f}",
            f"{row['counted_mb']:,.0f}",
            f"{row['difference']:+.1%}",
        ]
        for row in read_rows(out / MODEL_LOG)
    ]
    return markdown(heads, rows)


def _cycles(rows: Sequence[Row]) -> list[str]:
    heads = ["store", "million URLs held", "wall s", "CPU s", "MB read", "MB written"]
    heads += ["MiB added", "beta"]
    ordered = sorted(rows, key=lambda row: row["millions"])
    return markdown(
        heads,
        (
            [
                row["store"],
                f"{row['millions']:g}",
                f"{row['wall_s']:.2f}",
                f"{row['cpu_s']:.2f}",
                f"{row['read_mb']:,.0f}",
                f"{row['written_mb']:,.0f}",
                f"{row['added_mib']:,.0f}",
                f"{row['cross']:.2f}" if row["cross"] else "",
            ]
            for row in ordered
        ),
    )


def _paper() -> list[str]:
    heads = ["million URLs", "DRUM s", "VEUNIQ s", "ratio"]
    return markdown(
        heads,
        ([number, drum, ours, f"{drum / ours:.1f}"] for number, (drum, ours) in PAPER.items()),
    )


def _lines(rows: Sequence[Row], field: str) -> Iterator[tuple[str, list[float], list[float]]]:
    """Give each store with the numbers of URLs and the values of a field."""
    for store in dict.fromkeys(row["store"] for row in rows):
        own = sorted((row["millions"], row[field]) for row in rows if row["store"] == store)
        if len(own) > 1:
            yield store, [x for x, _ in own], [y for _, y in own]


def _plot(rows: Sequence[Row], path: Path) -> None:
    from plotting import panels, save  # noqa: PLC0415 (only plots need matplotlib)

    figure, ((seconds, volume),) = panels(1, 2)
    found = {}
    summed = [row | {"mb": row["read_mb"] + row["written_mb"]} for row in rows]
    for panel, field, title in (
        (seconds, "cpu_s", "CPU seconds a cycle"),
        (volume, "mb", "MB read and written a cycle"),
    ):
        for number, (store, xs, ys) in enumerate(_lines(summed, field)):
            style = "-" if "texts" not in store else ":"
            (found[store],) = panel.plot(xs, ys, style, marker="o", ms=3, color=f"C{number % 10}")
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xlabel("million URLs held")
        panel.set_title(title)
    save(figure, found, path)
