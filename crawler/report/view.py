"""What the page and the terminal show of metrics, in the same words."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from crawler.pages.words import duration, number, percent, size
from crawler.report.against import per_page
from crawler.report.findings import BALANCE, what_limited
from crawler.report.overview import TOP

_MOST_ALONE = 32  # ranks that a matrix shows one by one


class Fact(NamedTuple):
    """One of the figures that are seen first."""

    name: str
    value: str
    about: str
    kind: str = ""  # good, bad or nothing


def state(metrics: Mapping[str, Any]) -> tuple[str, str]:
    """How the crawl ended: good, warning or bad, and the words for it."""
    if metrics["complete"]:
        return "good", "complete"
    reason = metrics["reason"]
    if reason == "nothing fetched":
        return "bad", reason
    return "warning", f"ended early: {reason}"


def lead(metrics: Mapping[str, Any]) -> str:
    """The session in one sentence."""
    sites = metrics["overview"]["sites"]
    ranks = len(metrics["ranks"])
    took = "" if metrics["seconds"] is None else f" in {duration(metrics['seconds'])}"
    return (
        f"{count(metrics['pages'], 'page')} of {count(sites, 'site')}{took} on"
        f" {count(ranks, 'rank')}, {metrics['mode']} by {metrics['scheme']}."
    )


def count(value: int, noun: str) -> str:
    """A number with its noun, such as `1 page` or `2 pages`."""
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"


def facts(metrics: Mapping[str, Any]) -> list[Fact]:
    """The figures that are seen first."""
    view = metrics["overview"]
    limit = f"of {metrics['max_pages']:,} allowed" if metrics["max_pages"] else "no limit"
    failed = view["urls"] - view["good"]
    limit_word = what_limited(metrics).partition(",")[0]
    kinds = [f"{one['error']} {one['urls']:,}" for one in view["errors"]]
    return [
        Fact("Pages", number(metrics["pages"]), limit),
        *_requisites(metrics),
        Fact("Went well", percent(view["good_share"]), f"of {count(view['urls'], 'URL')}"),
        Fact("Not fetched", number(failed), ", ".join(kinds[:2]) or "no errors"),
        Fact("Waiting", number(metrics["waiting"]), "known, not asked for"),
        Fact(
            "Speed",
            "unknown"
            if metrics["pages_per_second"] is None
            else f"{metrics['pages_per_second']:,.1f}/s",
            f"limited by {limit_word}" if limit_word else "of wall time",
        ),
        Fact("Data", size(metrics["bytes"]), "as received"),
        _politeness(metrics["politeness"]),
    ]


def _requisites(metrics: Mapping[str, Any]) -> list[Fact]:
    """The files that pages need to be shown, if any was asked for."""
    came, failed = metrics["requisites"], metrics["failed_requisites"]
    about = f"{number(failed)} failed, {size(metrics['requisite_bytes'])}"
    return [Fact("Requisites", number(came), about)] if came or failed else []


def _politeness(kept: Mapping[str, Any] | None) -> Fact:
    if kept is None:
        return Fact("Politeness", "unknown", "no request log")
    gap = "no site was asked twice"
    if kept["site"] is not None:
        gap = f"smallest pause {kept['smallest_gap']:.3f} s, {kept['promised_gap']:g} s promised"
    return (
        Fact("Politeness", "kept", gap, "good")
        if kept["kept"]
        else Fact("Politeness", "broken", gap, "bad")
    )


def politeness_text(kept: Mapping[str, Any]) -> str:
    """Whether promises to sites were kept, in a sentence."""
    checked = f"{count(kept['requests'], 'request')} of all ranks were compared"
    if kept["kept"]:
        return f"Kept: {checked}, and each came at its time."
    return (
        f"Broken: {checked}, and {kept['impolite']:,} came too early, at"
        f" {count(kept['impolite_sites'], 'site')}."
    )


class Load(NamedTuple):
    """The load of the ranks by one measure. Those furthest from the average come first if cut."""

    name: str
    over: str  # by how much the fullest rank exceeds the average
    average: float  # in percent of the length of a bar
    bound: float
    rows: list[dict[str, Any]]


def loads(metrics: Mapping[str, Any]) -> list[Load]:
    """The load of ranks, without seed servers. At most ten rows for each measure."""
    ranks = [one for one in metrics["ranks"] if not one["server"]]
    found = []
    for name, unit, form, over in (
        ("Pages", "pages", number, metrics["imbalance_requests"]),
        ("Bytes", "bytes", size, metrics["imbalance_bytes"]),
    ):
        values = {one["rank"]: one[unit] for one in ranks}
        total = sum(values.values())
        if not total:
            continue
        average = total / len(values)
        widest = max(*values.values(), average * (1 + BALANCE)) * 1.05
        shown = sorted(values, key=lambda rank: (-abs(values[rank] - average), rank))[:TOP]
        rows = [
            {
                "rank": rank,
                "value": form(values[rank]),
                "share": values[rank] / widest,
                "width": 100 * values[rank] / widest,
                "difference": f"{values[rank] / average - 1:+.0%}",
                "is_over": values[rank] > average * (1 + BALANCE),
            }
            for rank in sorted(shown)
        ]
        words = f"at most {percent(over)} over the average"
        found.append(
            Load(name, words, 100 * average / widest, 100 * average * (1 + BALANCE) / widest, rows)
        )
    return found


def servers(metrics: Mapping[str, Any]) -> str:
    """The ranks that were seed servers and have fetched nothing; empty if there are none."""
    return ", ".join(str(one["rank"]) for one in metrics["ranks"] if one["server"])


_CHANGES = {
    "unchanged": "304, or the same bytes or answer as before",
    "changed": "another payload or status than before",
    "new": "gave no response in the earlier session",
    "gone": "a page then, status 404 or 410 now",
    "no answer now": "a response then, none now",
}


class Changed(NamedTuple):
    """How many URLs have changed in one way since the earlier session."""

    name: str
    urls: int
    meaning: str
    color: int  # as of an outcome


def changes(against: Mapping[str, Any]) -> list[Changed]:
    """What became of URLs since the earlier session, with words."""
    left = (
        "no page links to them any more, or they are out of scope"
        if against["complete"]
        else "the crawl ended before; they may still be there"
    )
    meanings = {**_CHANGES, "not asked for": left}
    colors = dict(zip(meanings, (1, 2, 0, 5, 6, 7), strict=True))
    return [
        Changed(name, urls, meanings[name], colors[name])
        for name, urls in against["changes"].items()
    ]


class Saving(NamedTuple):
    """What a page cost before and now."""

    name: str
    before: str
    now: str
    saved: str


def savings(metrics: Mapping[str, Any]) -> list[Saving]:
    """What a page cost in the earlier session and in this one."""
    before, now = metrics["against"]["per_page"], per_page(metrics)
    return [
        Saving(
            name,
            _cost(name, before[name]),
            _cost(name, now[name]),
            percent(1 - now[name] / before[name]) if before[name] else "",
        )
        for name in now
        if name in before
    ]


def _cost(name: str, value: float) -> str:
    return size(value) if name.startswith("bytes") else f"{value:,.3f}"


class Matrix(NamedTuple):
    """The URLs between ranks, or between groups of ranks."""

    names: list[str]
    counts: list[list[int]]  # from row to column
    alone: bool  # whether each row is one rank


def matrix(metrics: Mapping[str, Any]) -> Matrix | None:
    """The URLs that each rank has sent to each other rank, or None if there are none.

    More than 32 ranks are put together by node, or else into blocks of ranks.
    """
    ranks = metrics["ranks"]
    if len(ranks) < 2 or any(one.get("urls_to") is None for one in ranks):
        return None
    alone = len(ranks) <= _MOST_ALONE
    groups = [str(one["rank"]) for one in ranks] if alone else _groups(ranks)
    names = list(dict.fromkeys(groups))
    place = [names.index(group) for group in groups]
    counts = [[0] * len(names) for _ in names]
    for one in ranks:
        for to, urls in one["urls_to"].items():
            if int(to) < len(place):
                counts[place[one["rank"]]][place[int(to)]] += urls
    return Matrix(names, counts, alone)


def _groups(ranks: Sequence[Mapping[str, Any]]) -> list[str]:
    hosts = [one["host"] or "?" for one in ranks]
    if 1 < len(set(hosts)) <= _MOST_ALONE:
        return hosts
    block = -(-len(ranks) // _MOST_ALONE)
    starts = (rank // block * block for rank in range(len(ranks)))
    return [f"{start}-{min(start + block, len(ranks)) - 1}" for start in starts]


def name_of(metrics: Mapping[str, Any]) -> str:
    """The name of the session: that of its directory."""
    return Path(metrics["session"]).resolve().name
