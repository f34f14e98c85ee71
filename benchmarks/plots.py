"""Pictures of the runs of papers.py: a panel for each graph, a line for each model."""

from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from paper_tables import TOLERANCE, Run, Summary, ratio, summarise

mpl.use("svg")
mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "papers", "font.size": 8}

import matplotlib.pyplot as plt  # noqa: E402 - the backend comes first

_STYLE: Final = {  # colours that most colour-blind people tell apart (Okabe and Ito)
    "url-hash": ("#999999", ":"),
    "site-hash": ("#000000", ":"),
    "page-graph": ("#56b4e9", "--"),
    "page-hypergraph": ("#0072b2", "-"),
    "site-graph": ("#e69f00", "--"),
    "site-hypergraph": ("#d55e00", "-"),
    "site-messages": ("#cc79a7", "-"),
    "hybrid": ("#009e73", "-"),
}


def write_plots(runs: list[Run], out: Path) -> None:
    """messages.svg, site-messages.svg, volume.svg, imbalance.svg, ratio.svg; hollow marks are
    partitions over the tolerance."""
    summaries = summarise(runs)

    def measure(name: str) -> Any:
        return lambda at, one: one.mean[name]

    def imbalance(at: Any, one: Summary) -> float:
        return 100 * max(one.most["imbalance_bytes"], one.most["imbalance_requests"])

    pictures: dict[str, tuple[str, Any]] = {
        "messages": ("messages: (page, part) pairs", measure("messages_page_part")),
        "site-messages": ("messages: (site, part) pairs", measure("messages_site_part")),
        "volume": ("volume, bytes", measure("volume_bytes")),
        "imbalance": ("the larger imbalance, %", imbalance),
        "ratio": (
            "times fewer (page, part) messages than hashing",
            lambda at, one: ratio(summaries, at, "messages_page_part"),
        ),
    }
    for name, (label, value) in pictures.items():
        _picture(summaries, label, value, out / f"{name}.svg")


def _picture(summaries: dict[Any, Summary], label: str, value: Any, path: Path) -> None:
    graphs = list(dict.fromkeys(at[0] for at in summaries if at[1] in _STYLE))
    if not graphs:
        return
    columns = min(3, len(graphs))
    rows = -(-len(graphs) // columns)
    size = (2.9 * columns, 2.2 * rows + 0.7)
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    for panel in axes.flat[len(graphs) :]:
        panel.axis("off")
    lines = {}
    for graph, panel in zip(graphs, axes.flat, strict=False):
        for model, (colour, dash) in _STYLE.items():
            points = [
                (at[2], value(at, one), one.balanced)
                for at, one in sorted(summaries.items())
                if at[:2] == (graph, model) and one.mean and value(at, one)
            ]
            if not points:
                continue
            parts, values, _ = zip(*points, strict=True)
            (lines[model],) = panel.plot(parts, values, dash, color=colour, lw=1.2)
            for good, face in ((True, colour), (False, "white")):
                marked = [point[:2] for point in points if point[2] == good]
                if marked:
                    panel.plot(*zip(*marked, strict=True), "o", ms=3, mfc=face, mec=colour, mew=0.8)
        panel.set_title(graph, fontsize=8)
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.xaxis.set_major_formatter("{x:.0f}")
        panel.minorticks_off()
        panel.grid(alpha=0.3, lw=0.5)
        if "imbalance" in label:
            panel.axhline(100 * TOLERANCE, color="red", lw=0.6)
    figure.supylabel(label, fontsize=8)
    figure.supxlabel("K", fontsize=8)
    figure.legend(lines.values(), lines.keys(), loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
