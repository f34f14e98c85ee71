"""Bounds that the runs of `papers` must keep, and where they don't."""

import re
from collections.abc import Sequence
from itertools import product
from typing import Final, NamedTuple

from harness import Row, markdown

from .tables import TOLERANCE, Key, Summary, summarise

_SITE_MODELS: Final = ("site-graph", "site-hypergraph", "site-messages")
# Our contestant with two weights for each model that Mt-KaHyPar divides, too.
_OURS: Final = {
    "site-hypergraph": "site-hypergraph",
    "hybrid": "hybrid-messages",
    "page-hypergraph": "page-hypergraph",
}
# What a reason says if a site or a page is heavier than a part (`partition.judge`).
_HEAVY: Final = re.compile(r"(site|page) \S+,? alone|without site |parts are empty")
_RIVALS: Final = {"mt-kahypar": "requests", "mt-kahypar-bytes": "bytes"}  # what each balances
TIE: Final = 0.05  # a smaller difference is a tie: messages vary by 3 to 7 % between seeds


class Case(NamedTuple):
    """One graph and K for which a bound must hold."""

    graph: str
    parts: int
    value: float  # the excess over the figure compared with, or the imbalance, as a fraction
    holds: bool
    why: str = ""


def check_runs(runs: Sequence[Row]) -> str:
    """Return a table: each bound, in how many cases it holds, and the cases in which it doesn't."""
    summaries = summarise(runs)
    rows = [_row("hybrid within 5 %", _balance(summaries, "hybrid"))]
    for model in ("page-graph", "page-hypergraph", *_SITE_MODELS):
        what = f"{model} within 5 %, or the site or page named that is too heavy"
        rows.append(_row(what, _balance(summaries, model)))
    what = "hybrid's messages no more than the site hypergraph's, at equal balance (ties: 5 %)"
    args = "hybrid", "site-hypergraph", "messages_page_part"
    rows.append(_row(what, _compared(summaries, *args, bound=1 + TIE)))
    what = "hybrid's volume at most 5 % over the site graph's, at equal balance"
    args = "hybrid", "site-graph", "volume_bytes"
    rows.append(_row(what, _compared(summaries, *args, bound=1.05)))
    for (model, ours), (rival, weight) in product(_OURS.items(), _RIVALS.items()):
        what = f"{ours}: messages at most 8 % over Mt-KaHyPar's with {weight} alone, K = 4, 16, 64"
        args = ours, f"{model}/{rival}", "messages_page_part"
        found = _compared(summaries, *args, bound=1.08, balanced=False)
        rows.append(_row(what, [case for case in found if case.parts in (4, 16, 64)]))
    heads = ["what must hold", "holds", "from, to", "where not"]
    return "\n".join([*markdown(heads, filter(None, rows), left=4), "", *_times(summaries)])


def _row(what: str, cases: Sequence[Case]) -> list[str]:
    """Return a row of the table, or nothing if there is no case."""
    if not cases:
        return []
    wrong = [case for case in cases if not case.holds]
    values = [case.value for case in cases]
    said: dict[str, list[str]] = {}
    for case in wrong:
        text = f"{case.parts}: {case.value:+.1%}"
        said.setdefault(case.graph, []).append(text + (f" ({case.why})" if case.why else ""))
    where = "; ".join(f"{graph} {', '.join(texts)}" for graph, texts in said.items())
    span = f"{min(values):+.1%}, {max(values):+.1%}"
    return [what, f"{len(cases) - len(wrong)} of {len(cases)}", span, where]


def _balance(summaries: dict[Key, Summary], model: str) -> list[Case]:
    """Judge the balance. A site or page that is too heavy excuses imbalance, except for hybrid."""
    cases = []
    for at, one in sorted(summaries.items()):
        if at[1] != model or not one.mean or at[2] > 64:
            continue
        missed = one.reasons
        if model != "hybrid":
            missed = [reason for reason in one.reasons if not _HEAVY.search(reason)]
        holds = not missed and (one.balanced or model != "hybrid")
        worst = min(one.imbalance, TOLERANCE) if holds else one.imbalance  # a giant is excused
        cases.append(Case(at[0], at[2], worst, holds, f"{len(missed)} runs" if missed else ""))
    return cases


def _compared(
    summaries: dict[Key, Summary],
    ours: str,
    other: str,
    measure: str,
    bound: float,
    *,
    balanced: bool = True,
) -> list[Case]:
    cases = []
    for at, mine in sorted(summaries.items()):
        theirs = summaries.get((at[0], other, at[2]))
        if at[1] != ours or not theirs or not mine.balanced or not theirs.mean:
            continue
        if (balanced and not theirs.balanced) or not theirs.mean[measure]:
            continue
        times = mine.mean[measure] / theirs.mean[measure]
        cases.append(Case(at[0], at[2], times - 1, times <= bound))
    return cases


_LIMITS: Final = {  # whole commands on webs of 1 and 5 million pages: CPU seconds, bytes
    ("build site-hypergraph", 16, 1): (30, 2e9),
    ("build hybrid", 64, 1): (60, None),
    ("build page-hypergraph", 16, 1): (300, None),
    ("build site-hypergraph", 16, 5): (90, None),
}


def _times(summaries: dict[Key, Summary]) -> list[str]:
    rows = []
    for (graph, contestant, parts), one in summaries.items():
        if not contestant.startswith("build "):
            continue
        limit = _LIMITS.get((contestant, parts, round(one.pages / 1e6)))
        allowed = ""
        if limit:
            seconds, memory = limit
            allowed = f"{seconds} s" + (f", {memory / 1e9:.0f} GB" if memory else "")
        measured = one.failed or ""
        if one.mean:
            measured = f"{one.mean['cpu_s']:.1f} s, {one.mean['peak_bytes'] / 1e9:.2f} GB"
        rows.append([contestant, f"{graph}, {parts}", allowed, measured])
    return markdown(["whole command", "web, K", "limit", "measured"], rows, left=4) if rows else []
