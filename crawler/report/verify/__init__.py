"""Verification: the promises of a session, compared with its files.

1. `walk`: the log of each rank beside its WARC files, in one pass.
2. No URL twice, where the mode promises it. `closure`: every link that is followed leads to a row
   (of a page or of a failure), or is pending while the crawl isn't over; every row was led to.
3. The tables against the logs, by making them again.
4. `courtesy`: the gaps between requests to a site, against what was promised.

What grows with the session is 8 bytes a page, 16 a record, 50 a request, and what `session.Share`
takes to hold all links against all pages. A tail torn off by a kill is no damage, and only noted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from crawler import session
from crawler.modes import mode_of
from crawler.ports import UserError
from crawler.report.verify.closure import Closure
from crawler.report.verify.courtesy import check_politeness
from crawler.report.verify.findings import Findings
from crawler.report.verify.walk import RankWalk
from crawler.session import LoggedPage, SessionInfo

__all__ = ["Verdict", "verify"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was read, and what is wrong with it."""

    session: str
    complete: bool
    pages: int  # rows
    links: int
    warc_records: int
    pending: int  # URLs that a resume would fetch
    kept_out: int  # URLs without a row, for a trap, a limit or the mode
    problems: Mapping[str, int]  # by kind
    lines: Sequence[str]  # the first problems of each kind
    notes: Sequence[str]  # what looks odd and isn't wrong

    @property
    def sound(self) -> bool:
        return not self.problems

    @property
    def summary(self) -> str:
        what = f"{self.pages:,} rows, {self.links:,} links, {self.warc_records:,} WARC records"
        state = "complete" if self.complete else f"unfinished, {self.pending:,} URLs pending"
        wrong = ", ".join(f"{count:,} {kind}" for kind, count in self.problems.items())
        return f"{self.session}: {what}; {state}; {'problems: ' + wrong if wrong else 'sound'}"


def verify(directory: Path) -> Verdict:
    """Check a session that isn't being crawled. Raises UserError if it is, or is none."""
    info = session.load(directory)
    session.check_layout(directory)
    logs = session.log_files(directory)
    _refuse_if_written(directory, logs)
    findings = Findings()
    walks = []
    for _, files in groupby(logs, session.rank_of):
        walks.append(RankWalk(list(files), info, findings))
        walks[-1].run()
    unknown = sum(walk.unknown_originals() for walk in walks)
    if unknown and not info.config.session.previous:
        findings.add("warc", directory, f"{unknown:,} revisits are of records that aren't there")
    _check_once(walks, info, logs, findings)
    closure = Closure(directory, info, logs, findings)
    closure.check()
    check_politeness(directory, info, findings)
    if info.last.ended is None:
        findings.note(directory, "the last run was killed: the tables may be of an earlier one")
    else:
        for difference in session.check_tables(directory, closure.correct):
            findings.add("table", directory / "tables", difference)
    _refuse_if_written(directory, logs)
    if session.load(directory) != info:
        raise UserError(f"{directory}: has been crawled meanwhile; verify it again")
    return Verdict(
        session=str(directory),
        complete=info.last.complete is True,
        pages=sum(walk.rows for walk in walks),
        links=sum(walk.links for walk in walks),
        warc_records=sum(walk.records for walk in walks),
        pending=closure.pending,
        kept_out=closure.kept_out,
        problems=dict(findings.counts),
        lines=[*findings.lines, *findings.unsaid],
        notes=findings.notes,
    )


def _refuse_if_written(directory: Path, logs: Sequence[Path]) -> None:
    """Raise UserError if another process writes to the session.

    Nothing is locked here: a job must not be refused because somebody verifies its session.
    """
    writer = session.who_writes(directory)
    if writer is None and any(map(session.is_open, logs)):  # of a rank that is about to die
        writer = "is being crawled"
    if writer is not None:
        raise UserError(f"{directory}: {writer}; verify it when that has ended")


def _check_once(
    walks: Sequence[RankWalk], info: SessionInfo, logs: Sequence[Path], findings: Findings
) -> None:
    """No rank fetches a URL twice; nor do two, where a URL has one owner."""
    settings = info.config
    shared = mode_of(settings).overlaps or (
        settings.assignment.scheme == "part-vector" and settings.assignment.unlisted == "discoverer"
    )
    keys = [np.frombuffer(walk.keys, np.uint64) for walk in walks]
    for group in keys if shared else [np.concatenate([np.zeros(0, np.uint64), *keys])]:
        different, rows = np.unique(group, return_counts=True)
        twice = set(different[rows > 1].tolist())
        for path in logs if twice else ():
            for entry in session.read_log(path):
                if isinstance(entry, LoggedPage) and entry.row.key in twice and not entry.is_again:
                    findings.add("twice", entry.row.url, f"has more than one row, one in {path}")
