"""What the plots share: SVG with text as text, colours, axes by powers of two, one legend."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

mpl.use("svg")
# With a fixed salt, the same data make the same file.
mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "abc", "font.size": 8}

import matplotlib.pyplot as plt  # noqa: E402 - the backend comes first

COLOURS: Final = {  # that most colour-blind people tell apart (Okabe and Ito)
    "url-hash": "#999999",
    "site-hash": "#000000",
    "page-graph": "#56b4e9",
    "page-hypergraph": "#0072b2",
    "site-graph": "#e69f00",
    "site-hypergraph": "#d55e00",
    "site-messages": "#cc79a7",
    "hybrid": "#009e73",
}


def panels(rows: int, columns: int) -> tuple[Any, Any]:
    """A figure, and its panels as an array of rows."""
    size = (2.9 * max(2, columns), 2.2 * rows + 0.7)
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    for panel in axes.flat:
        panel.grid(alpha=0.3, lw=0.5)
    return figure, axes


def by_two(panel: Any) -> None:
    panel.set_xscale("log", base=2)
    panel.xaxis.set_major_formatter("{x:.0f}")
    panel.minorticks_off()


def save(figure: Any, lines: Mapping[str, Any], path: Path) -> None:
    """Write a figure with a legend of its lines, by label."""
    columns = max(1, int(figure.get_figwidth() / 2.5))
    figure.legend(
        lines.values(), lines.keys(), loc="outside upper center", ncols=columns, frameon=False
    )
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
