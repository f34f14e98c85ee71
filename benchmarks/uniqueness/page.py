"""The tables and the plot of the page on URL uniqueness, made from the recorded runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from harness import Row, markdown, read_rows

from . import model
from .stores import STORES

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


# The lines of the plots: a colour for each kind of store, and a style for each variant.
_DRAWN: Final = {
    "drum": ("#d55e00", "-"),
    "drum-native": ("#e69f00", "-"),
    "veuniq-16": ("#56b4e9", "-"),
    "veuniq-64": ("#0072b2", "-"),
    "veuniq-1024": ("#000000", "-"),
    "veuniq-64-any": ("#0072b2", "--"),
    "veuniq-64-texts": ("#0072b2", ":"),
    "memory": ("#009e73", "-"),
    "runs": ("#009e73", "--"),
    "rocksdb": ("#cc79a7", "-"),
    "lmdb": ("#999999", "-"),
}


def write(out: Path) -> None:
    """Write the tables and the plot."""
    rows = [row | {"mb": row["read_mb"] + row["written_mb"]} for row in read_rows(out / LOG)]
    rows = [row | {"mib": row["held_mib"] + row["added_mib"]} for row in rows]
    lines = [_HEAD, "## Table 2 of the paper, by equations 2 and 3", "", *_table_2(), ""]
    lines += ["## Bytes counted beside the equations", "", *_against_model(out), ""]
    lines += [
        "## CPU seconds of a cycle of 1 million URLs",
        "",
        *_by_size(rows, "cpu_s", ".2f"),
        "",
    ]
    lines += ["## MB read and written in a cycle", "", *_by_size(rows, "mb", ",.0f"), ""]
    lines += ["## MiB of memory in a cycle", "", *_by_size(rows, "mib", ",.0f"), ""]
    lines += ["## Growth by a million URLs held", "", *_growths(rows), ""]
    lines += ["## Table 3 of the paper, and ours", "", *_paper(rows), ""]
    lines += ["## All runs", "", *_cycles(rows), "", *_origins(rows), ""]
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


def _stores(rows: Sequence[Row]) -> list[str]:
    """Return the stores that have rows, in the order of the table of stores."""
    had = {row["store"] for row in rows}
    return [store for store in STORES if store in had]


def _values(rows: Sequence[Row], store: str, field: str) -> dict[float, float]:
    """Return a field of a store by the millions of URLs held, in ascending order."""
    own = {row["millions"]: row[field] for row in rows if row["store"] == store}
    return dict(sorted(own.items()))


def _by_size(rows: Sequence[Row], field: str, form: str) -> list[str]:
    sizes = sorted({row["millions"] for row in rows})
    table = []
    for store in _stores(rows):
        found = _values(rows, store, field)
        table.append([store, *(format(found[n], form) if n in found else "" for n in sizes)])
    return markdown(["store", *(f"{size:g} million held" for size in sizes)], table)


def growth(rows: Sequence[Row], store: str, field: str) -> float:
    """Return by how much a field grows with each million URLs held (least squares)."""
    found = _values(rows, store, field)
    return float(np.polyfit(list(found), list(found.values()), 1)[0])


def _growths(rows: Sequence[Row]) -> list[str]:
    heads = ["store", "CPU ms", "times less than DRUM", "MB", "times less than DRUM"]
    table = []
    for store in _stores(rows):
        if min(len(_values(rows, name, "mb")) for name in (store, "drum")) < 3:
            continue  # two runs on a busy machine say little about growth
        line = [store]
        for field, factor, form in (("cpu_s", 1000, ".2f"), ("mb", 1, ".3f")):
            own, drum = (growth(rows, name, field) * factor for name in (store, "drum"))
            line += [format(own, form), f"{drum / own:.1f}" if own > 0 else ""]
        table.append(line)
    return markdown(heads, table)


def _cycles(rows: Sequence[Row]) -> list[str]:
    heads = ["store", "million URLs held", "cycles", "wall s", "CPU s", "longest step s"]
    heads += ["MB read", "MB written", "MiB held", "MiB added", "beta", "new", "run"]
    origins = _runs(rows)
    ordered = sorted(rows, key=lambda row: (row["millions"], list(STORES).index(row["store"])))
    return markdown(
        heads,
        (
            [
                row["store"],
                f"{row['millions']:g}",
                row["cycles"],
                f"{row['wall_s']:.2f}",
                f"{row['cpu_s']:.2f}",
                f"{row['longest_step_s']:.3f}",
                f"{row['read_mb']:,.0f}",
                f"{row['written_mb']:,.0f}",
                f"{row['held_mib']:,.0f}",
                f"{row['added_mib']:,.0f}",
                f"{row['cross']:.2f}" if row["cross"] else "",
                f"{row['new']:.2f}",
                origins.index(_origin(row)) + 1,
            ]
            for row in ordered
        ),
    )


def _origin(row: Row) -> tuple[str, str, str]:
    return row["commit"], row["date"], row["machine"]


def _runs(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    return list(dict.fromkeys(map(_origin, rows)))


def _origins(rows: Sequence[Row]) -> list[str]:
    return [
        f"Run {number}: commit {commit}, {date}, {machine}."
        for number, (commit, date, machine) in enumerate(_runs(rows), 1)
    ]


def _paper(rows: Sequence[Row]) -> list[str]:
    """Table 3, with our CPU seconds beside it."""
    heads = ["million URLs", "paper: DRUM s", "paper: VEUNIQ s", "ratio"]
    heads += ["ours: DRUM", "ours: VEUNIQ, N = 64", "ratio", "ratio of bytes"]
    ours = {
        field: [_values(rows, store, field) for store in ("drum", "veuniq-64")]
        for field in ("cpu_s", "mb")
    }
    table = []
    for number in sorted({*PAPER, *ours["cpu_s"][0]}):
        line: list[object] = [f"{number:g}", *[""] * 7]
        if number in PAPER:
            drum, veuniq = PAPER[int(number)]
            line[1:4] = [f"{drum:.2f}", f"{veuniq:.2f}", f"{drum / veuniq:.1f}"]
        if all(number in found for found in ours["cpu_s"]):
            drum, veuniq = (found[number] for found in ours["cpu_s"])
            line[4:7] = [f"{drum:.2f}", f"{veuniq:.2f}", f"{drum / veuniq:.1f}"]
            drum, veuniq = (found[number] for found in ours["mb"])
            line[7] = f"{drum / veuniq:.1f}"
        table.append(line)
    return markdown(heads, table)


def _plot(rows: Sequence[Row], path: Path) -> None:
    from plotting import panels, save  # noqa: PLC0415 (only plots need matplotlib)

    figure, ((theirs, ours), (volume, memory)) = panels(2, 2)
    for number, store in enumerate(("drum", "veuniq-64")):
        seconds = [pair[number] for pair in PAPER.values()]
        theirs.plot(list(PAPER), seconds, marker="o", ms=3, color=_DRAWN[store][0])
    theirs.set_title("the paper: seconds a cycle")
    found = {}
    for panel, field, title in (
        (ours, "cpu_s", "CPU seconds a cycle"),
        (volume, "mb", "MB read and written a cycle"),
        (memory, "mib", "MiB of memory in a cycle"),
    ):
        for store, (color, style) in _DRAWN.items():
            values = _values(rows, store, field)
            if values and not (field == "mb" and max(values.values()) < 1):
                (found[store],) = panel.plot(
                    list(values), list(values.values()), style, marker="o", ms=3, color=color
                )
        panel.set_title(title)
    for panel in (volume, memory):
        panel.set_yscale("log")
    memory.set_ylim(bottom=10)
    for panel in (theirs, ours, volume, memory):
        panel.set_xlim(left=0)
    for panel in (theirs, ours):
        panel.set_ylim(bottom=0)
    for panel in (volume, memory):
        panel.set_xlabel("million URLs held")
    save(figure, found, path)
