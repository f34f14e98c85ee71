"""Plots of the runs of `papers`."""

from pathlib import Path
from typing import Any, Final

from harness import Row
from plotting import COLOURS, by_two, panels, save

from .tables import TOLERANCE, Summary, ratio, summarise

_DASHES: Final = dict.fromkeys(COLOURS, "-") | {
    "url-hash": ":",
    "site-hash": ":",
    "page-graph": "--",
    "site-graph": "--",
}
_OVERVIEW_K: Final = 16


def write_plots(runs: list[Row], out: Path) -> None:
    """Write overview.svg, and messages, site-messages, volume, imbalance and ratio as .svg.

    The latter have a panel for each graph. Hollow marks are partitions over the tolerance.
    """
    summaries = summarise(runs)

    def measure(name: str) -> Any:
        return lambda at, one: one.mean[name]

    pictures: dict[str, tuple[str, Any]] = {
        "messages": ("messages: (page, part) pairs", measure("messages_page_part")),
        "site-messages": ("messages: (site, part) pairs", measure("messages_site_part")),
        "volume": ("volume, bytes", measure("volume_bytes")),
        "imbalance": ("the larger imbalance, %", lambda at, one: _imbalance(one)),
        "ratio": (
            "times fewer (page, part) messages than hashing",
            lambda at, one: ratio(summaries, at, "messages_page_part"),
        ),
    }
    for name, (label, value) in pictures.items():
        _picture(summaries, label, value, out / f"{name}.svg")
    _overview(summaries, out / "overview.svg")


def _picture(summaries: dict[Any, Summary], label: str, value: Any, path: Path) -> None:
    graphs = list(dict.fromkeys(at[0] for at in summaries if at[1] in _DASHES))
    if not graphs:
        return
    columns = min(3, len(graphs))
    figure, axes = panels(-(-len(graphs) // columns), columns)
    for panel in axes.flat[len(graphs) :]:
        panel.axis("off")
    lines = {}
    for graph, panel in zip(graphs, axes.flat, strict=False):
        for model, dash in _DASHES.items():
            colour = COLOURS[model]
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
        by_two(panel)
        panel.set_yscale("log")
        panel.minorticks_off()
        if "imbalance" in label:
            panel.axhline(100 * TOLERANCE, color="red", lw=0.6)
    figure.supylabel(label, fontsize=8)
    figure.supxlabel("K", fontsize=8)
    save(figure, lines, path)


def _overview(summaries: dict[Any, Summary], path: Path) -> None:
    """Plot messages against imbalance, a mark for each web and model; the lower left is best."""
    figure, axes = panels(1, 1)
    panel, lines = axes[0, 0], {}
    for model in ("url-hash", "site-hash", "site-graph", "site-hypergraph", "hybrid"):
        points = []
        for (graph, contestant, parts), one in sorted(summaries.items()):
            hashed = summaries.get((graph, "url-hash", parts))
            if contestant == model and parts == _OVERVIEW_K and one.mean and hashed:
                share = one.mean["messages_page_part"] / hashed.mean["messages_page_part"]
                points.append((_imbalance(one), 100 * share))
        if points:
            style = {"color": COLOURS[model], "ms": 4, "alpha": 0.8}
            (lines[model],) = panel.plot(*zip(*points, strict=True), "o", **style)
    panel.axvline(100 * TOLERANCE, color="red", lw=0.6)
    panel.set(xscale="log", yscale="log")
    panel.xaxis.set_major_formatter("{x:g}")
    panel.yaxis.set_major_formatter("{x:g}")
    panel.set_xlabel("the larger imbalance, % (red: what is allowed)")
    panel.set_ylabel("messages, % of url-hash's")
    save(figure, lines, path)


def _imbalance(one: Summary) -> float:
    return 100 * max(one.most["imbalance_bytes"], one.most["imbalance_requests"])
