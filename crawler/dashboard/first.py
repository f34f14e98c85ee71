"""What to look at first in a running crawl, by the rules of the report (`report.findings`).

A finding of the report that needs the tables, such as broken links, isn't known before the end.
"""

import shlex
from collections.abc import Iterator, Mapping
from typing import Final

from crawler.ports import Failure
from crawler.report.findings import (
    BALANCE,
    Finding,
    Severity,
    explanation,
    imbalance,
    is_worth_telling,
)
from crawler.session import Bound, RankStatus, State, Status

_SHOWN: Final = 5
_SETTLED_S: Final = 60.0  # before, the ranks may just have begun
_SILENT_S: Final = 10.0
_HELP: Final[Mapping[Bound, str]] = {
    Bound.DISK: "The crawl goes on by itself once there is free space.",
    Bound.OUTBOX: "Look at the CPU of the other ranks, which take its messages too slowly.",
    Bound.CPU: "More ranks help.",
    Bound.CONCURRENCY: "A larger fetch.concurrency helps.",
    Bound.DELAYS: "The delays are a promise to sites. Only more sites make the crawl faster.",
    Bound.ANSWERS: "Each site that has URLs is being asked. More sites make the crawl faster.",
    Bound.QUOTA: "The last pages that max_pages allows are under way.",
    Bound.NOTHING: "Most ranks have no URL to fetch.",
}


def look_first(status: Status) -> list[Finding]:
    """Return at most five findings about a crawl, the worst first."""
    if status.state not in {State.CRAWLING, State.PAUSED}:
        return []
    crawling = [row for row in status.rows if row.connections]
    found = [*_bad(status), *_failing(status), *_uneven(status, crawling), *_limit(status)]
    return found[:_SHOWN]


def _bad(status: Status) -> Iterator[Finding]:
    for row in status.rows:
        if row.silent_s >= _SILENT_S:
            title = f"Rank {row.rank} has told nothing for {row.silent_s:.0f} s"
            cause = "It may be busy or hang, or its node is gone."
            yield Finding(Severity.BAD, title, cause, "", "ranks-title")
        elif row.bound is Bound.DISK:
            title = f"Rank {row.rank} waits for room on its disk"
            yield Finding(Severity.BAD, title, _HELP[Bound.DISK], "", "ranks-title")
    if status.early:
        title = f"Sites were asked too early {status.early:,} times"
        cause = "After the crawl, verify names the requests."
        command = shlex.join(["python", "-m", "crawler", "verify", status.session])
        yield Finding(Severity.BAD, title, cause, command, "head")
    failed = status.by_failure.get(Failure.INTERNAL, 0)
    if failed:
        title = f"This program failed on {failed:,} pages"
        cause = "The pages are lost, and the crawl goes on. Please report the tracebacks."
        command = f"grep traceback {shlex.quote(status.session)}/rank-*/agent.log"
        yield Finding(Severity.BAD, title, cause, command, "failures-title")


def _failing(status: Status) -> Iterator[Finding]:
    total = status.good + status.failed
    for what, urls in sorted(status.by_failure.items(), key=lambda one: -one[1]):
        if what != Failure.INTERNAL and is_worth_telling(what, urls, total):
            title = f"{urls:,} of {total:,} URLs were not fetched: {what}"
            yield Finding(Severity.WARNING, title, explanation(what), "", "failures-title")


def _uneven(status: Status, crawling: list[RankStatus]) -> Iterator[Finding]:
    if len(crawling) < 2 or status.seconds < _SETTLED_S:
        return
    idle = [row.rank for row in crawling if not row.pages]
    if idle:
        named = ", ".join(map(str, idle[:_SHOWN])) + (", ..." if idle[_SHOWN:] else "")
        title = f"{len(idle):,} of {len(crawling):,} ranks have fetched nothing: rank {named}"
        cause = "No URL that was found belongs to them so far."
        yield Finding(Severity.WARNING, title, cause, "", "ranks-title")
        return
    over = imbalance([row.pages for row in crawling])
    if over is not None and over > BALANCE:
        rank = max(crawling, key=lambda row: row.pages).rank
        title = f"Rank {rank} has {over:.0%} more pages than the average; {BALANCE:.0%} are allowed"
        cause = "A part vector balances the next session."
        yield Finding(Severity.WARNING, title, cause, "", "ranks-title")


def _limit(status: Status) -> Iterator[Finding]:
    if status.state is State.CRAWLING and status.bound in _HELP:
        title = f"The crawl is limited by {status.bound.value}"
        yield Finding(Severity.NOTE, title, _HELP[status.bound], "", "ranks-title")
