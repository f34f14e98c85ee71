"""Checks in the request logs whether the crawl waited between requests to a site as promised."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from crawler import session
from crawler.ports import Peers
from crawler.report.verify.findings import KEPT, Findings
from crawler.session import SessionInfo, Torn
from crawler.session.gaps import Crowd, Gap
from crawler.session.judged import judge_together
from crawler.session.timeline import Event
from crawler.session.units import Unit


async def check_politeness(
    directory: Path, info: SessionInfo, every: Sequence[Unit], peers: Peers, findings: Findings
) -> None:
    """Add a finding for each gap that is too short, and for too many requests at a time.

    The processes read the request logs together. `every`: the units of the session.
    """
    if peers.rank == 0:
        _look_for_files(directory, info, findings)
    tears = Findings()
    broken = _Broken()
    await judge_together(
        [path for unit in session.mine(every, peers) for path in unit.requests],
        peers,
        lambda name: session.holder(session.bucket(name, len(every)), len(every), peers.size),
        broken.add,
        lambda torn: _look_at_tear(torn, tears),
    )
    await findings.add_all(peers, tears)
    told = await peers.gather((broken.count, broken.lines))
    first = sorted(line for _, some in told for line in some)[:KEPT]
    count = sum(count for count, _ in told)
    findings.add_counted("politeness", count, [(clock, words) for clock, _, words in first])


class _Broken:
    """The first broken promises by the name of the clock, and the number of all of them."""

    def __init__(self) -> None:
        self.count = 0
        self.lines: list[tuple[str, int, str]] = []  # clock, number at the clock, words
        self._by_clock = Counter[str]()

    def add(self, what: Gap | Crowd) -> None:
        self.count += 1
        self._by_clock[what.clock] += 1
        line = _words_for_gap(what) if isinstance(what, Gap) else _words_for_crowd(what)
        self.lines.append((what.clock, self._by_clock[what.clock], line))
        if len(self.lines) > 2 * KEPT:
            self.lines = sorted(self.lines)[:KEPT]


def _look_for_files(directory: Path, info: SessionInfo, findings: Findings) -> None:
    """Check that each log with pages has a request log, unless an older version wrote the log."""
    there = set(session.request_files(directory))
    missing = [
        path
        for path in session.log_files(directory)
        if path.parent.parent / "requests" / path.name not in there and session.holds_rows(path)
    ]
    if not missing:
        return
    if any(run.site_names is None for run in info.runs):
        what = (
            f"{len(missing):,} page logs of an earlier version have no request log: nobody can"
            " check how long the crawl waited between these requests"
        )
        findings.note(directory, what)
        return
    for path in missing:
        findings.add("politeness", path, "its request log is missing")


def _look_at_tear(torn: Torn, findings: Findings) -> None:
    where = f"{torn.path} at {torn.offset:,}"
    if session.is_cut(torn):
        findings.note(where, "a torn tail, left by a kill")
    else:
        findings.add(
            "politeness", where, f"{torn.lost_bytes:,} bytes are damaged, or follow damaged bytes"
        )


def _words_for_gap(gap: Gap) -> str:
    from_start = max(gap.before.promise.connections, gap.after.promise.connections) > 1
    counted = "from start to start" if from_start else "from end to start"
    clocks = "" if gap.one_host else ", by the wall clocks of two hosts"
    return (
        f"the next request came after {gap.seconds:.3f} s, {counted}{clocks}; promised were"
        f" {gap.promised_s:g} s ({gap.why}): {_words_for_event(gap.before)}, then"
        f" {_words_for_event(gap.after)}"
    )


def _words_for_crowd(crowd: Crowd) -> str:
    others = "; ".join(map(_words_for_event, crowd.under_way))
    return (
        f"{len(crowd.under_way) + 1} requests at a time, allowed were {crowd.allowed}"
        f" ({crowd.at.promise.connections_key}): {_words_for_event(crowd.at)},"
        f" while these were under way: {others}"
    )


def _words_for_event(event: Event) -> str:
    asked = event.asked
    came = asked.status or asked.error
    return (
        f"{asked.kind} {asked.key:016x} of {asked.authority} by rank {event.promise.rank} from"
        f" {_time(event.start)} to {_time(event.end)} ({came})"
    )


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
