"""The plot of `sessions`, from its rows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from harness import Row
from plotting import panels, save

from .tables import cases

_COLOURS: Final = ("#999999", "#000000", "#d55e00", "#56b4e9", "#0072b2", "#e69f00", "#009e73")


def draw(rows: Sequence[Row], out: Path) -> None:
    """Draw sessions.svg: imbalance and messages by session, a row for each graph and K."""
    drawn = cases(rows)
    figure, axes = panels(len(drawn), 2)
    lines: dict[str, Any] = {}
    for (name, parts), row in zip(drawn, axes, strict=True):
        here = [one for one in rows if (one["graph"], one["k"]) == (name, parts)]
        strategies = list(dict.fromkeys(one["crawl"] for one in here if "crawl" in one))
        for colour, strategy in zip(_COLOURS, strategies, strict=True):
            own = [one for one in here if one.get("crawl") == strategy]
            x = [one["session"] for one in own]
            for panel, measure in zip(row, ("requests", "messages"), strict=True):
                style = {"color": colour, "marker": "o", "ms": 2.5, "lw": 1.2}
                (lines[strategy],) = panel.plot(x, [one[measure] for one in own], **style)
        for panel, measure in zip(row, ("imbalance of requests", "messages"), strict=True):
            panel.set_title(f"{name}, {parts} parts: {measure}", fontsize=8)
            panel.set_xticks(sorted({one["session"] for one in here if "crawl" in one}))
            panel.set_ylim(bottom=0)
    for panel in axes[-1]:
        panel.set_xlabel("session")
    save(figure, lines, out / "sessions.svg")
