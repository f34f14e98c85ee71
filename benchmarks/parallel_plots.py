"""Plots of the crawls of parallel_crawlers.py, a column of panels for each graph.

    python benchmarks/parallel_plots.py DIR

DIR is its --out; parallel-crawlers-N.svg is written there for each figure N, with four webs, and
parallel-crawlers-N-others.svg with the rest. Of what a table has as means, the plots have the
means; of figure 6 the first repetition.
"""

import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from parallel_tables import LOG, Crawl, by, curve, read_crawls, word

mpl.use("svg")
mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "parallel-crawlers", "font.size": 8}

import matplotlib.pyplot as plt  # noqa: E402 - the backend comes first

_FIRST: Final = ("cnr-g3", "debdocs", "google-like", "ics-user")  # webs; more aren't readable
_COLOURS: Final = {  # that most colour-blind people tell apart (Okabe and Ito)
    "url-hash": "#999999",
    "site-hash": "#000000",
    "site-hypergraph": "#d55e00",
    "hybrid": "#009e73",
}
_DASHES: Final = {2: "-", 4: "--", 8: (0, (5, 1, 1, 1)), 16: "-.", 32: (0, (3, 1)), 64: ":"}


def main() -> None:
    out = Path(sys.argv[1])
    for figure, crawls in by(read_crawls(out / LOG), "figure"):
        plot = _PLOTS.get(figure, _plot_exchanges)
        first, others = (
            [crawl for crawl in crawls if (crawl["graph"] in _FIRST) is chosen]
            for chosen in (True, False)
        )
        for some, name in ((first, ""), (others, "-others")):
            if some:
                plot(some, out / f"parallel-crawlers-{figure}{name}.svg")


class _Panels:
    """A column of panels for each graph, with one legend."""

    def __init__(self, crawls: Sequence[Crawl], rows: Sequence[str], x: str) -> None:
        self.graphs = by(crawls, "graph")
        size = (2.9 * max(2, len(self.graphs)), 2.2 * len(rows) + 0.7)
        self.figure, self.axes = plt.subplots(
            len(rows), len(self.graphs), figsize=size, squeeze=False, layout="constrained"
        )
        for row, name in zip(self.axes, rows, strict=True):
            row[0].set_ylabel(name)
            for panel in row:
                panel.grid(alpha=0.3, lw=0.5)
        for panel, (graph, _) in zip(self.axes[0], self.graphs, strict=True):
            panel.set_title(graph, fontsize=8)
        self.figure.supxlabel(x, fontsize=8)
        self.lines: dict[str, Any] = {}

    def plot(self, panel: Any, points: Sequence[tuple[Any, ...]], scheme: str, **how: Any) -> None:
        label = how.pop("label", scheme)
        style = {"color": _COLOURS[scheme], "lw": 1.2, "ms": 2.5} | how
        (self.lines[label],) = panel.plot(*zip(*points, strict=True), **style)

    def save(self, path: Path) -> None:
        self.figure.legend(
            self.lines.values(),
            self.lines.keys(),
            loc="outside upper center",
            ncols=4,
            frameon=False,
        )
        self.figure.savefig(path, metadata={"Date": None})
        plt.close(self.figure)


def _mean(crawls: Sequence[Crawl], name: str) -> float:
    return statistics.fmean(crawl[name] for crawl in crawls)


def _plot_processes(crawls: Sequence[Crawl], path: Path) -> None:
    panels = _Panels(crawls, ["coverage"], "processes")
    for panel, (_, some) in zip(panels.axes[0], panels.graphs, strict=True):
        for scheme, mine in by(some, "scheme"):
            points = [(n, _mean(group, "coverage")) for n, group in by(mine, "procs")]
            panels.plot(panel, points, scheme, marker="o")
        _by_two(panel)
        panel.set_ylim(0, 1.03)
    panels.save(path)


def _by_two(panel: Any) -> None:
    panel.set_xscale("log", base=2)
    panel.xaxis.set_major_formatter("{x:.0f}")
    panel.minorticks_off()


def _plot_seeds(crawls: Sequence[Crawl], path: Path) -> None:
    panels = _Panels(crawls, ["coverage"], "seeds")
    for panel, (_, some) in zip(panels.axes[0], panels.graphs, strict=True):
        for (scheme, procs), mine in by(some, "scheme", "procs"):
            points = [(n, _mean(group, "coverage")) for n, group in by(mine, "seeds")]
            label = f"{scheme} {procs}"
            panels.plot(panel, points, scheme, ls=_DASHES[procs], marker="o", label=label)
        panel.set_xscale("log")
        panel.set_ylim(0, 1.03)
    panels.save(path)


def _plot_overlaps(crawls: Sequence[Crawl], path: Path) -> None:
    panels = _Panels(crawls, ["overlap"], "coverage")
    for panel, (_, some) in zip(panels.axes[0], panels.graphs, strict=True):
        for (scheme, procs), mine in by(some, "scheme", "procs"):
            label = f"{scheme} {procs}"
            panels.plot(panel, curve(mine[0]), scheme, ls=_DASHES[procs], label=label)
        panel.set_xlim(0, 1)
    panels.save(path)


def _plot_communication(crawls: Sequence[Crawl], path: Path) -> None:
    by_procs = crawls[0]["figure"] == 7
    field, label = ("procs", "processes") if by_procs else ("replicated", "replicated URLs")
    panels = _Panels(crawls, ["each URL once", "every link"], label)
    for measure, row in zip(("exchanged", "inter_part_links"), panels.axes, strict=True):
        for panel, (_, some) in zip(row, panels.graphs, strict=True):
            for scheme, mine in by(some, "scheme"):
                points = [(n, _mean(group, measure)) for n, group in by(mine, field)]
                panels.plot(panel, points, scheme, marker="o")
            if by_procs:
                _by_two(panel)
                panel.set_yscale("log")
            else:
                panel.set_xscale("symlog", linthresh=10)
                panel.set_ylim(bottom=0)
    panels.save(path)


def _plot_exchanges(crawls: Sequence[Crawl], path: Path) -> None:
    panels = _Panels(crawls, ["quality", "URLs a page"], "exchanges")
    ticks = {0: 0.0, 1: 1.0, 10: 2.0, 100: 3.0, None: 3.9}
    for measure, row in zip(("quality", "exchanged"), panels.axes, strict=True):
        for panel, (_, some) in zip(row, panels.graphs, strict=True):
            for (scheme, procs), mine in by(some, "scheme", "procs"):
                groups = by(mine, "exchanges")
                points = [(_place(x, ticks[None]), _mean(group, measure)) for x, group in groups]
                label = f"{scheme} {procs}"
                panels.plot(panel, points, scheme, ls=_DASHES[procs], marker="o", label=label)
            panel.set_xticks(list(ticks.values()), [word(x) for x in ticks])
            panel.set_ylim(bottom=0)
    panels.save(path)


def _place(exchanges: int | None, last: float) -> float:
    """Where a number of exchanges stands: 0, 1, 10 and 100 in equal steps."""
    if exchanges is None:
        return last
    return 1 + math.log10(exchanges) if exchanges else 0.0


_PLOTS: Final = {
    4: _plot_processes,
    5: _plot_seeds,
    6: _plot_overlaps,
    7: _plot_communication,
    8: _plot_communication,
}


if __name__ == "__main__":
    main()
