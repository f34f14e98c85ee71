"""What a user should look at first: the worst of a session, each with its cause and a command.

These functions read metrics and return values, without I/O.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from crawler.pages.words import sentence, short_url
from crawler.report.explanations import advice, meaning
from crawler.session import MAY_PASS, Bound

_SHOWN: Final = 5
BALANCE: Final = 0.05  # by how much a rank may exceed the average load
_FEW: Final = 0.02  # a smaller share of failed URLs isn't worth a finding
_MOST: Final = 0.8  # delays of one site that take such a share of the time are named
_BUILD: Final = ("python", "-m", "partition", "build")
_NAMED: Final = 3  # seeds or ranks that a finding names


class Severity(StrEnum):
    """How serious a finding is."""

    BAD = "bad"
    WARNING = "warning"
    NOTE = "note"


class Finding(msgspec.Struct, frozen=True):
    """Something to look at."""

    severity: Severity
    title: str
    cause: str
    command: str  # what to type, or empty
    section: str  # of the page: what to look at


def find(metrics: Mapping[str, Any]) -> list[Finding]:
    """The findings about a session: at most five, the worst first."""
    found = [*_bad(metrics), *_warnings(metrics), *_notes(metrics)]
    return found[:_SHOWN]


def is_worth_telling(what: str, urls: int, total: int) -> bool:
    """Whether so many URLs of `total` that weren't fetched for one reason are a finding."""
    return not what.startswith("status 4") and urls >= max(2, _FEW * total)


def imbalance(loads: Sequence[int]) -> float | None:
    """W_max/W_avg - 1 with the exact mean, or None if all loads are zero."""
    return max(loads) * len(loads) / sum(loads) - 1 if sum(loads) else None


def what_limited(metrics: Mapping[str, Any]) -> str:
    """What kept the crawl from being faster for most of the time; empty if that isn't known.

    Rank 0 has judged this each second, as `watch` and the dashboard show it (`agent.board`).
    """
    limits: Mapping[str, int] = metrics["overview"]["limited_by"]
    bound = max(limits, key=lambda one: limits[one], default=None)
    if bound is None:
        return ""
    said = f"{bound}, for {limits[bound] / sum(limits.values()):.0%} of the time"
    slowest, seconds = metrics["overview"]["slowest_site"], metrics["seconds"]
    if bound == Bound.DELAYS and slowest and slowest["seconds"] >= _MOST * (seconds or 0):
        said += f"; those of {slowest['site']} alone take {slowest['seconds']:,.0f} s"
    if bound == Bound.CPU:
        shares = [(one["cpu_share"] or 0.0, one["rank"]) for one in metrics["ranks"]]
        share, rank = max(shares, default=(0.0, 0))
        said += f"; rank {rank} used {share:.0%} of a core"
    return said


def idle_ranks(metrics: Mapping[str, Any]) -> list[int]:
    """The ranks that have fetched nothing, without seed servers and spares."""
    ranks = metrics["ranks"]
    first_spare = len(ranks) - (metrics["spares"] if metrics["dynamic"] else 0)
    return [
        one["rank"]
        for one in ranks[:first_spare]
        if not one["pages"] and not one["server"] and len(ranks) > 1
    ]


def _command(metrics: Mapping[str, Any], command: str, *more: str) -> str:
    words = ["python", "-m", "crawler", command, metrics["session"], *more]
    return shlex.join(words)


def _crawl_command(metrics: Mapping[str, Any], *more: str) -> str:
    ranks = len(metrics["ranks"])
    start = f"mpirun -n {ranks} " if ranks > 1 else ""
    return start + _command(metrics, "resume", *more)


def _bad(metrics: Mapping[str, Any]) -> Iterator[Finding]:
    failed = metrics["failed_seeds"]
    if failed:
        first = failed[0]
        named = ", ".join(f"{one['seed']} ({one['what']})" for one in failed[:_NAMED])
        more = len(failed) - _NAMED
        yield Finding(
            Severity.BAD,
            f"{metrics['seeds_failed']:,} of {metrics['seeds']:,} seeds failed",
            named + (f" and {more:,} more" if more > 0 else "") + f". {explanation(first['what'])}",
            shlex.join(["python", "-m", "crawler", "fetch", first["seed"]]),
            "errors",
        )
    polite = metrics["politeness"]
    if polite is not None and not polite["kept"]:
        yield Finding(
            Severity.BAD,
            f"Sites were asked too early {polite['impolite']:,} times",
            f"{polite['impolite_sites']:,} sites; the worst gap was {polite['smallest_gap']:.3f} s"
            f" at {polite['site']}, and {polite['promised_gap']:g} s were promised.",
            _command(metrics, "verify"),
            "politeness",
        )
    if metrics["internal_errors"]:
        yield Finding(
            Severity.BAD,
            f"This program failed on {metrics['internal_errors']:,} pages",
            "The pages are lost, and the crawl went on. Please report the tracebacks.",
            f"grep traceback {shlex.quote(metrics['session'])}/rank-*/agent.log",
            "errors",
        )
    if metrics["plugin_errors"]:
        counts = ", ".join(f"{name} {n:,}" for name, n in sorted(metrics["plugin_errors"].items()))
        yield Finding(
            Severity.BAD,
            f"Plug-ins failed: {counts}",
            "The crawl went on without their answers. The logs of the ranks have the tracebacks.",
            f"grep plug-in {shlex.quote(metrics['session'])}/rank-*/agent.log",
            "errors",
        )
    if metrics["torn_logs"]:
        yield Finding(
            Severity.WARNING,
            f"{len(metrics['torn_logs']):,} log files end in a cut row",
            "A kill or a full disk cut them. Pages that stood there are fetched again.",
            _command(metrics, "verify"),
            "measures",
        )


def _warnings(metrics: Mapping[str, Any]) -> Iterator[Finding]:
    if metrics["lost_ranks"]:
        yield Finding(
            Severity.WARNING,
            f"{metrics['lost_ranks']:,} ranks died during the crawl",
            "The others went on. The output of the job may say why they died.",
            "",
            "ranks",
        )
    view = metrics["overview"]
    for error in view["errors"]:
        what, urls = error["error"], error["urls"]
        if not is_worth_telling(what, urls, view["urls"]):
            continue
        yield Finding(
            Severity.WARNING,
            f"{urls:,} URLs of {error['sites']:,} sites were not fetched: {what}",
            explanation(what),
            _crawl_command(metrics, "--retry-failed", what.removeprefix("status "))
            if what in MAY_PASS
            else shlex.join(["python", "-m", "crawler", "fetch", error["examples"][0]]),
            "errors",
        )
    yield from _load(metrics)
    if view["broken"]:
        worst = view["broken_by_directory"][0]["example"]
        yield Finding(
            Severity.WARNING,
            f"{view['broken_links']:,} links lead to {view['broken']:,} pages that don't exist",
            f"The most linked-to of them is {short_url(worst['url'], 100)}, with"
            f" {worst['links']:,} {'link' if worst['links'] == 1 else 'links'}.",
            f"head {shlex.quote(metrics['session'])}/report/broken.jsonl",
            "broken",
        )


def _load(metrics: Mapping[str, Any]) -> Iterator[Finding]:
    ranks = metrics["ranks"]
    idle = idle_ranks(metrics)
    if idle:
        named = ", ".join(map(str, idle[:_NAMED])) + (", ..." if len(idle) > _NAMED else "")
        sites = metrics["overview"]["sites"]
        few = sites < len(ranks)
        yield Finding(
            Severity.WARNING,
            f"{len(idle):,} of {len(ranks):,} ranks fetched nothing: rank {named}",
            f"There are only {sites:,} sites, and a rank gets whole sites. Use fewer ranks."
            if few
            else f"By {metrics['scheme']} no URL that was found belongs to them.",
            f"mpirun -n {sites or 1} python -m crawler crawl ..." if few else "",
            "ranks",
        )
        return
    for what, unit in (("requests", "pages"), ("bytes", "bytes")):
        over = metrics[f"imbalance_{what}"]
        if over is None or over <= BALANCE or len(ranks) < 2:
            continue
        rank = max(ranks, key=lambda one: one[unit])["rank"]
        yield Finding(
            Severity.WARNING,
            f"Rank {rank} has {over:.0%} more {unit} than the average; {BALANCE:.0%} are allowed",
            f"The assignment was {metrics['scheme']}. A part vector balances the next session.",
            shlex.join([*_BUILD, metrics["session"], "-k", str(len(ranks)), "--out", "web.parts"]),
            "ranks",
        )
        return


def _notes(metrics: Mapping[str, Any]) -> Iterator[Finding]:
    if metrics["complete"]:
        return
    waiting = metrics["waiting"]
    left = "URLs are left" if waiting is None else f"{waiting:,} URLs wait"
    reason = metrics["reason"]
    if reason == "max_pages":
        yield Finding(
            Severity.NOTE,
            f"max_pages ended the crawl; {left}",
            "A resume with a larger limit goes on where it ended.",
            _crawl_command(metrics, "--max-pages", str(2 * metrics["max_pages"])),
            "outcomes",
        )
    elif waiting != 0:
        yield Finding(
            Severity.NOTE,
            f"The crawl ended early ({reason}); {left}",
            "A resume goes on where it ended.",
            _crawl_command(metrics),
            "outcomes",
        )


def explanation(what: str) -> str:
    """What an error means, and what to do, as sentences."""
    return f"{sentence(meaning(what))} {sentence(advice(what))}".strip()
