"""report/index.html: a session as a page, made from its metrics."""

from collections.abc import Mapping, Sequence
from typing import Any

from crawler.pages.rendering import render
from crawler.pages.words import duration, number
from crawler.report import view
from crawler.report.findings import idle_ranks, what_limited
from crawler.report.outcomes import MEANING, Outcome
from crawler.report.overview import TOP
from crawler.report.summary import measures
from crawler.version import __version__

_HEATS = 8  # shades of the matrix, see style.css


def page(metrics: Mapping[str, Any]) -> str:
    """The page about a session, as HTML. `metrics`: the content of metrics.json."""
    seen = metrics["overview"]
    seeds = [*metrics["failed_seeds"], *metrics["redirected_seeds"]]
    polite = metrics["politeness"]
    return render(
        "report.html",
        name=view.name_of(metrics),
        session=metrics["session"],
        version=__version__,
        state=view.state(metrics),
        lead=view.lead(metrics),
        facts=view.facts(metrics),
        findings=metrics["findings"],
        outcomes=_outcomes(seen["outcomes"]),
        waiting=metrics["waiting"],
        errors=seen["errors"][:TOP],
        all_errors=len(seen["errors"]),
        seeds=seeds[:TOP],
        all_seeds=metrics["seeds_failed"] + metrics["seeds_redirected"],
        chart=_chart(seen["timeline"]),
        limited=what_limited(metrics),
        against=_against(metrics),
        loads=view.loads(metrics),
        ranks=len(metrics["ranks"]),
        idle=", ".join(map(str, idle_ranks(metrics)[:TOP])),
        servers=view.servers(metrics),
        matrix=_matrix(metrics),
        sites=seen["largest_sites"],
        all_sites=seen["sites"],
        skipped=list(seen["skipped"].items())[:TOP],
        all_skipped=sum(seen["skipped"].values()),
        reasons=len(seen["skipped"]),
        outside=seen["outside"],
        all_outside=seen["outside_hosts"],
        broken=seen["broken_by_directory"],
        all_broken=seen["broken_directories"],
        polite=polite,
        polite_text=polite and view.politeness_text(polite),
        gaps=seen["closest_gaps"],
        types=seen["types"],
        slowest=seen["slowest"],
        largest=seen["largest"],
        measures=measures(metrics),
    )


def _outcomes(counts: Mapping[str, int]) -> list[dict[str, Any]]:
    total, start, rows = sum(counts.values()), 0.0, []
    for color, outcome in enumerate(Outcome):
        here = counts.get(outcome, 0)
        if here:
            width = 100 * here / total
            rows.append(
                {
                    "name": outcome.value,
                    "count": here,
                    "share": here / total,
                    "meaning": MEANING[outcome],
                    "color": color,
                    "start": start,
                    "width": width,
                }
            )
            start += width
    return rows


def _against(metrics: Mapping[str, Any]) -> dict[str, Any] | None:
    against = metrics["against"]
    if against is None:
        return None
    changes = view.changes(against)
    asked, start, parts = sum(one.urls for one in changes) or 1, 0.0, []
    for one in changes:
        width = 100 * one.urls / asked
        parts.append({"color": one.color, "start": start, "width": width})
        start += width
    return {
        "session": against["session"],
        "bytes_not_sent": against["bytes_not_sent"],
        "changes": changes,
        "parts": parts,
        "savings": view.savings(metrics),
    }


def _chart(timeline: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The curves over time as points of SVG, and the same in words."""
    if timeline is None:
        return None
    pages, failed, waiting = (
        timeline[name] for name in ("pages_per_second", "failed_per_second", "waiting")
    )
    most = max(*pages, *failed, 1e-9)
    curve = _points(pages, most)
    left, right = curve.split(" ", 1)[0].split(",")[0], curve.rsplit(" ", 1)[-1].split(",")[0]
    mean = sum(pages) / len(pages)
    chart: dict[str, Any] = {
        "pages": curve,
        "area": f"{left},100 {curve} {right},100",
        "failed": _points(failed, most),
        "most": number(round(most, 1)),
        "half": number(round(most / 2, 1)),
        "middle": duration(timeline["seconds"] / 2),
        "end": duration(timeline["seconds"]),
        "text": f"{mean:,.1f} a second on average, {max(pages):,.1f} at most;"
        f" {max(failed):,.1f} failed ones at most.",
        "waiting": "",
    }
    if waiting is not None:
        highest = max(waiting)
        chart |= {
            "waiting": _points(waiting, max(highest, 1)),
            "most_waiting": number(highest),
            "waiting_text": f"{highest:,} at most.",
        }
    return chart


def _points(values: Sequence[float], most: float) -> str:
    """The points of a curve in a square of 100 by 100, each in the middle of its bin."""
    width = 100 / len(values)
    places = (
        f"{(at + 0.5) * width:.2f},{100 - 100 * value / most:.2f}"
        for at, value in enumerate(values)
    )
    points = " ".join(places)
    return points if len(values) > 1 else f"0,{points.split(',')[1]} 100,{points.split(',')[1]}"


def _matrix(metrics: Mapping[str, Any]) -> dict[str, Any] | None:
    found = view.matrix(metrics)
    if found is None:
        return None
    most = max(map(max, found.counts)) or 1
    rows = []
    for at, counts in enumerate(found.counts):
        cells = [
            {"text": "·", "heat": 0}
            if found.alone and at == column
            else {"text": number(urls), "heat": -(-_HEATS * urls // most)}
            for column, urls in enumerate(counts)
        ]
        rows.append({"name": found.names[at], "cells": cells, "total": sum(counts)})
    total = sum(map(sum, found.counts))
    return {
        "names": found.names,
        "about": "" if found.alone else ", ranks put together",
        "rows": rows,
        "total": total,
        "per_page": total / metrics["pages"] if metrics["pages"] else 0,
    }
