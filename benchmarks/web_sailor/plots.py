"""Plots of `web-sailor`: rates when a client joins, and dynamic beside static assignment."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from harness import Row
from plotting import COLOURS, by_two, panels, save

from .comparison import DYNAMIC, SINGLE, STATIC
from .steady import WINDOW_S
from .tables import mean

_COLOURS: Final = {
    SINGLE: COLOURS["url-hash"],
    "site-hash": COLOURS["site-hash"],
    "site-hypergraph": COLOURS["site-hypergraph"],
    "page server": COLOURS["page-hypergraph"],
    "site server": COLOURS["page-graph"],
    "dset server": COLOURS["hybrid"],
    "site own": COLOURS["site-graph"],
    "dset own": COLOURS["site-messages"],
}
_MEASURES: Final[dict[str, Callable[[Row], Any]]] = {
    "quality at 5 %": lambda row: row["quality"][1],
    "imbalance": lambda row: row["imbalance"],
    "messages a page": lambda row: row["messages"],
    "pages/s of a client": lambda row: row["pages_per_s"] / row["clients"],
}


def write_plots(rows: Sequence[Row], out: Path) -> None:
    """Write web-sailor-rates.svg and web-sailor-comparison.svg."""
    _plot_rates([row for row in rows if row["part"] == "steady"], out / "web-sailor-rates.svg")
    compared = [row for row in rows if row["part"] == "comparison"]
    _plot_comparison(compared, out / "web-sailor-comparison.svg")


def _plot_rates(rows: Sequence[Row], path: Path) -> None:
    figure, axes = panels(1, len(rows))
    lines = {}
    for panel, row in zip(axes[0], rows, strict=True):
        rates = np.array(row["rates"])
        times = (np.arange(rates.shape[1]) + 0.5) * WINDOW_S
        names = [f"client {number + 1}" for number in range(len(rates))]
        every = [*rates, rates.sum(axis=0)]
        for name, one, kind in zip(
            [*names, "all"], every, ("page server", "site own", "dset server", SINGLE), strict=True
        ):
            (lines[name],) = panel.plot(times, one, color=_COLOURS[kind], lw=1.2)
        panel.axvline(row["join_s"], color="black", lw=0.6, ls=":")
        panel.set_title(f"granularity {row['granularity']}", fontsize=8)
        panel.set_ylim(bottom=0)
    axes[0][0].set_ylabel("pages/s")
    figure.supxlabel(
        "seconds of virtual time; the third client joins at the dotted line", fontsize=8
    )
    save(figure, lines, path)


def _plot_comparison(rows: Sequence[Row], path: Path) -> None:
    webs = sorted({(row["graph"], row["site_delay_s"]) for row in rows})
    figure, axes = panels(len(_MEASURES), len(webs))
    lines = {}
    for (label, value), line in zip(_MEASURES.items(), axes, strict=True):
        line[0].set_ylabel(label)
        for panel, (graph, delay_s) in zip(line, webs, strict=True):
            mine = [row for row in rows if (row["graph"], row["site_delay_s"]) == (graph, delay_s)]
            panel.set_title(f"{graph}, {delay_s:g} s", fontsize=8)
            for kind in (SINGLE, *STATIC, *DYNAMIC):
                some = [row for row in mine if row["kind"] == kind]
                if (kind == SINGLE and label in {"imbalance", "messages a page"}) or not some:
                    continue
                counts = sorted({row["clients"] for row in some})
                heights = [
                    mean([row for row in some if row["clients"] == count], value)
                    for count in counts
                ]
                (lines[kind],) = panel.plot(
                    counts, heights, color=_COLOURS[kind], lw=1.2, marker="o", ms=2.5
                )
            by_two(panel)
            if label != "quality at 5 %":
                panel.set_ylim(0, 1.05 * panel.get_ylim()[1])
    figure.supxlabel("clients", fontsize=8)
    save(figure, lines, path)
