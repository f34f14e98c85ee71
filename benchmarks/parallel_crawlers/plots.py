"""Plots of the crawls of `parallel-crawlers`: a column of panels for each graph.

A plot shows means where the tables do. Figure 6 shows the first repetition.
"""

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any, Final

from harness import Row
from plotting import COLOURS, by_two, panels, save

from .paper import STATED
from .tables import CAPTIONS, FIGURES, by, curve, head, word

_DASHES: Final = {2: "-", 4: "--", 8: (0, (5, 1, 1, 1)), 16: "-.", 32: (0, (3, 1)), 64: ":"}
_MARKS: Final = {  # of the paper's values
    "": ("*", "the paper"),
    "~": ("*", "the paper"),
    "<": ("v", "the paper: less than"),
    "≥": ("^", "the paper: at least"),
}
_TICKS: Final = {0: 0.0, 1: 1.0, 10: 2.0, 100: 3.0, None: 3.9}  # of numbers of exchanges


def write_plots(crawls: Sequence[Row], out: Path) -> None:
    """Write parallel-crawlers-N.svg for each figure N."""
    for (number,), some in by(crawls, "figure"):
        _plot(some, number, out / f"parallel-crawlers-{number}.svg")


def _plot(crawls: Sequence[Row], number: int, path: Path) -> None:
    figure, graphs, lines = FIGURES[number], by(crawls, "graph"), {}
    measures = [measure for measure in figure.measures if measure != "imbalance"]
    whole, axes = panels(len(measures), len(graphs))
    whole.supxlabel({"procs": "processes"}.get(figure.x, figure.x), fontsize=8)
    for measure, row in zip(measures, axes, strict=True):
        row[0].set_ylabel(fill(CAPTIONS.get(measure, measure), 30))
        for panel, ((graph,), some) in zip(row, graphs, strict=True):
            panel.set_title(graph, fontsize=8)
            for names, mine in by(some, *figure.lines):
                line = dict(zip(figure.lines, names, strict=True))
                dashes = ":" if line.get("half") else _DASHES.get(line.get("procs"), "-")
                if number == 6:
                    points = curve(mine[0])
                else:
                    points = [
                        (_place(x, figure.x), statistics.fmean(crawl[measure] for crawl in group))
                        for (x,), group in by(mine, figure.x)
                    ]
                style = {"color": COLOURS[line["scheme"]], "lw": 1.2, "ls": dashes}
                style |= {"ms": 2.5, "marker": "" if number == 6 else "o"}
                (lines[head(names, figure)],) = panel.plot(*zip(*points, strict=True), **style)
            _scale(panel, figure.x)
            lines |= _mark(panel, number, measure)
            if measure.startswith("coverage"):
                panel.set_ylim(0, 1.03)
            elif number == 7:
                panel.set_yscale("log")
            elif number > 7:
                panel.set_ylim(bottom=0)
    lines = dict(sorted(lines.items(), key=lambda line: "paper" in line[0]))  # the paper's last
    save(whole, lines, path)


def _mark(panel: Any, number: int, measure: str) -> dict[str, Any]:
    """Mark the paper's values in a panel. Returns the marks by their labels."""
    marks = {}
    for one in STATED.get(number, ()):
        if one.measure != measure:
            continue
        shape, text = _MARKS[one.how]
        x = one.x if number == 6 else _place(one.x, FIGURES[number].x)
        (marks[text],) = panel.plot(
            [x], [one.value], shape, ms=8, mfc=COLOURS[one.line["scheme"]], mec="#cc0000", zorder=9
        )
        if "procs" in one.line:
            panel.annotate(one.line["procs"], (x, one.value), (5, 3), textcoords="offset points")
    return marks


def _place(x: Any, field: str) -> float:
    """Return the position of a value on the axis; 0, 1, 10, 100 exchanges are equally spaced."""
    if field != "exchanges" or not x:
        return _TICKS[None] if x is None else float(x)
    return 1 + math.log10(x)


def _scale(panel: Any, field: str) -> None:
    if field == "procs":
        by_two(panel)
    elif field == "seeds":
        panel.set_xscale("log")
    elif field == "replicated":
        panel.set_xscale("symlog", linthresh=10)
    elif field == "exchanges":
        panel.set_xticks(list(_TICKS.values()), [word(x) for x in _TICKS])
    else:
        panel.set_xlim(0, 1)
