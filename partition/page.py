"""Plans as a self-contained HTML page: a table, and of each plan its loads, traffic and sites."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from crawler.pages.rendering import render
from crawler.version import __version__
from partition import evaluate, picture
from partition.arrays import Ids, Ints
from partition.judge import WEIGHTS
from partition.picture import Picture
from partition.planning import Plan
from partition.table import BARS, COLUMNS, joined, notes
from partition.webgraph import WebGraph

_SHOWN: Final = 12  # parts whose loads are shown, the fullest by their limits
_ALONE: Final = 24  # parts that the matrix shows one by one
_HEATS: Final = 8  # shades of the matrix, see style.css
_SECTORS: Final = 8  # parts of a divided site that its circle shows
_IN_WORDS: Final = 10  # sites that are listed
_LABEL: Final = 2.4  # radius of the smallest circle with its part's number


def page(title: str, about: str, web: WebGraph, plans: Sequence[Plan]) -> str:
    """Return the page about plans of a web. `about` is a line that describes the web."""
    groups = []
    for parts in dict.fromkeys(plan.parts for plan in plans):
        group = [plan for plan in plans if plan.parts == parts]
        most = {name: max(1, *map(value, group)) for name, value in BARS.items()}
        groups.append([{"over": not plan.feasible, "cells": _cells(plan, most)} for plan in group])
    drawn = picture.draw(web)
    best = min(plans, key=lambda plan: (not plan.feasible, plan.counts.messages_page_part))
    return render(
        "plans.html",
        title=title,
        web=about,
        heads=[joined(name) for name in COLUMNS],
        groups=groups,
        notes=notes(plans),
        lines=_lines(drawn),
        size=(picture.WIDTH, picture.HEIGHT),
        sites=len(web.sites),
        circles=len(drawn.sites),
        plans=[{**_plan(web, drawn, plan), "open": plan is best} for plan in plans],
        version=__version__,
    )


def _cells(plan: Plan, most: dict[tuple[str, str], int]) -> list[dict[str, object]]:
    """Return the cells of a row; `width` is the share of a bar in percent, or None."""
    return [
        {
            "name": joined(name),
            "text": cell(plan),
            "width": 100 * BARS[name](plan) / most[name] if name in most else None,
        }
        for name, cell in COLUMNS.items()
    ]


def _plan(web: WebGraph, drawn: Picture, plan: Plan) -> dict[str, Any]:
    inside = _inside(web, drawn.sites, plan)
    return {
        "name": plan.model,
        "parts": plan.parts,
        "messages": plan.counts.messages_page_part,
        "loads": [_loads(plan, column) for column in range(2)],
        "matrix": _matrix(evaluate.traffic(web, plan.part, plan.parts)),
        "dots": [
            _dot(web.sites[site], place, radius, row, plan.parts)
            for site, place, radius, row in zip(
                drawn.sites.tolist(),
                drawn.places.round(1).tolist(),
                drawn.radius.round(1).tolist(),
                inside,
                strict=True,
            )
        ],
        "largest": [
            {"site": web.sites[site], "where": _where(row)}
            for site, row in zip(drawn.sites[:_IN_WORDS].tolist(), inside, strict=False)
        ],
    }


def _inside(web: WebGraph, sites: Ids, plan: Plan) -> list[list[tuple[int, int]]]:
    """Return, for each site, the parts that it lies in with the pages there, most pages first."""
    pairs, pages = np.unique(web.site.astype(np.int64) * plan.parts + plan.part, return_counts=True)
    order = np.lexsort((pairs, -pages, pairs // plan.parts))
    found: dict[int, list[tuple[int, int]]] = {}
    for pair, number in zip(pairs[order].tolist(), pages[order].tolist(), strict=True):
        found.setdefault(pair // plan.parts, []).append((pair % plan.parts, number))
    return [found[site] for site in sites.tolist()]


# --- Loads and traffic -----------------------------------------------------------------------


def _loads(plan: Plan, column: int) -> dict[str, Any]:
    """Return the loads of the fullest parts beside the average and the limit of each."""
    loads = plan.counts.loads[:, column].astype(np.float64)
    limits = np.minimum(plan.limits[:, column], max(loads.sum(), 1))
    full = loads / np.maximum(limits, 1e-300)
    shown = np.argsort(-full, kind="stable")[:_SHOWN]
    average = loads.mean()
    widest = max(loads[shown].max(), limits[shown].max(), 1) * 1.02
    return {
        "name": WEIGHTS[column],
        "average": 100 * average / widest,
        "rest": len(loads) - len(shown),
        "rows": [
            {
                "part": part,
                "color": color(part, plan.parts),
                "value": int(loads[part]),
                "width": 100 * loads[part] / widest,
                "limit": 100 * limits[part] / widest,
                "difference": f"{loads[part] / average - 1:+.0%}" if average else "",
                "is_over": bool(loads[part] > limits[part]),
            }
            for part in sorted(shown.tolist())
        ],
    }


def _matrix(traffic: Ints) -> dict[str, Any] | None:
    """Return the messages from part to part; more than `_ALONE` parts are put into blocks."""
    parts = len(traffic)
    if parts < 2:
        return None
    block = -(-parts // _ALONE)
    starts = list(range(0, parts, block))
    counts = np.add.reduceat(np.add.reduceat(traffic, starts, axis=0), starts, axis=1)
    most = max(int(counts.max()), 1)
    names = [
        str(start) if block == 1 else f"{start}-{min(start + block, parts) - 1}" for start in starts
    ]
    return {
        "names": names,
        "blocks": block > 1,
        "total": int(counts.sum()),
        "rows": [
            {
                "name": name,
                "total": sum(row),
                "cells": [
                    {"messages": None if at == to and block == 1 else messages,
                     "heat": -(-_HEATS * messages // most)}
                    for to, messages in enumerate(row)
                ],
            }
            for at, (name, row) in enumerate(zip(names, counts.tolist(), strict=True))
        ],
    }  # fmt: skip


# --- Sites -----------------------------------------------------------------------------------


def color(part: int, parts: int) -> str:
    """Return the colour of a part: hues all around, of two lightnesses in turn."""
    return f"hsl({360 * part / parts:.0f} 55% {42 + 18 * (part % 2)}%)"


def _lines(drawn: Picture) -> list[dict[str, Any]]:
    most = max((line.links for line in drawn.lines), default=1)
    places = drawn.places.round(1).tolist()
    return [
        {
            "ends": (*places[line.start], *places[line.end]),
            "width": round(0.15 + 1.2 * (line.links / most) ** 0.5, 2),
        }
        for line in drawn.lines
    ]


def _dot(
    name: str, place: list[float], radius: float, inside: list[tuple[int, int]], parts: int
) -> dict[str, Any]:
    """Return a circle, with sectors if the site lies in several parts."""
    label = str(inside[0][0]) if len(inside) == 1 else f"{len(inside)} parts"
    return {
        "x": place[0],
        "y": place[1],
        "radius": radius,
        "color": color(inside[0][0], parts),
        "sectors": _sectors(place, radius, inside, parts) if len(inside) > 1 else [],
        "label": label if radius >= _LABEL + len(label) - 1 else "",
        "title": f"{name}: {_where(inside)}",
    }


def _sectors(
    place: list[float], radius: float, inside: list[tuple[int, int]], parts: int
) -> list[dict[str, str]]:
    """Return the sectors of a circle, clockwise from the top: a part's share of the pages."""
    pages = sum(number for _, number in inside)
    ends = np.cumsum([0, *(number / pages for _, number in inside[:_SECTORS])]) * 2 * np.pi
    points = [
        f"{place[0] + radius * np.sin(end):.2f} {place[1] - radius * np.cos(end):.2f}"
        for end in ends.tolist()
    ]
    return [
        {
            "color": color(part, parts),
            "path": f"M{place[0]} {place[1]}L{points[at]}"
            f"A{radius} {radius} 0 {int(2 * number > pages)} 1 {points[at + 1]}Z",
        }
        for at, (part, number) in enumerate(inside[:_SECTORS])
    ]


def _where(inside: list[tuple[int, int]]) -> str:
    """Return the parts of a site in words."""
    if len(inside) == 1:
        return f"{_counted(inside[0][1], 'page')} in part {inside[0][0]}"
    pages = sum(number for _, number in inside)
    named = ", ".join(f"{number:,} in part {part}" for part, number in inside[:3])
    others = sum(number for _, number in inside[3:])
    more = f", {others:,} in {_counted(len(inside) - 3, 'other part')}" if others else ""
    return f"{_counted(pages, 'page')} in {len(inside)} parts: {named}{more}"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("s" if number > 1 else "")
