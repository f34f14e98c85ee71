"""Verification checks whether the files of a session keep what the crawler promises.

1. `walk` compares the log of each rank with its WARC files, in one pass, and these with their
   indexes.
2. No URL has two rows, where the mode promises that, and a seed server has no row. `closure` checks
   the links: every followed link leads to a row (of a page or of a failure), or is pending while
   the crawl isn't over. And some link, seed or sitemap leads to every row.
3. The tables are made again from the logs, and compared.
4. `politeness` compares the gaps between requests to a site with the promised gaps.

Memory grows by 8 bytes for each page, 16 for each record and 50 for each request, and by what
`session.LogShard` needs to compare all links with all pages. A kill may leave an incomplete last
entry in a file. Such a torn tail is noted, but is no problem.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from crawler import session, url
from crawler.modes import mode_of
from crawler.ports import UserError
from crawler.report.verify.closure import Closure
from crawler.report.verify.findings import Findings
from crawler.report.verify.politeness import check_politeness
from crawler.report.verify.same_keys import check_keys
from crawler.report.verify.walk import RankWalk
from crawler.session import LoggedPage, SessionInfo
from crawler.session.tables import check_tables

__all__ = ["Verdict", "verify"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What verification has read, and the problems that it has found."""

    session: str
    complete: bool
    pages: int  # rows
    links: int
    warc_records: int
    pending: int  # URLs that a resume would fetch
    kept_out: int  # URLs that have no row because of a trap, a limit or the mode
    problems: Mapping[str, int]  # how many, by kind
    lines: Sequence[str]  # the first problems of each kind
    notes: Sequence[str]  # what looks odd but isn't wrong

    @property
    def sound(self) -> bool:
        """Whether no problem was found."""
        return not self.problems

    @property
    def summary(self) -> str:
        """The verdict in one line."""
        what = f"{self.pages:,} rows, {self.links:,} links, {self.warc_records:,} WARC records"
        state = "complete" if self.complete else f"unfinished, {self.pending:,} URLs pending"
        wrong = ", ".join(f"{count:,} {kind}" for kind, count in self.problems.items())
        return f"{self.session}: {what}; {state}; {'problems: ' + wrong if wrong else 'sound'}"


def verify(directory: Path) -> Verdict:
    """Check the files of a session.

    Raises UserError if a process is crawling the session, or if the directory holds no session.
    """
    info = session.load(directory)
    session.check_layout(directory)
    url.tell_apart(session.given_up(directory))
    logs = session.log_files(directory)
    _refuse_if_written(directory, logs)
    findings = Findings()
    walks = []
    for _, files in groupby(logs, session.rank_of):
        walks.append(RankWalk(list(files), info, findings))
        walks[-1].run()
    unknown = sum(walk.unknown_originals() for walk in walks)
    if unknown and not info.config.session.previous:
        findings.add("warc", directory, f"{unknown:,} revisits refer to records that don't exist")
    _check_once(directory, walks, info, logs, findings)
    check_keys([walk.hashes for walk in walks], logs, info, findings)
    _check_servers(info, logs, findings)
    closure = Closure(directory, info, logs, findings)
    closure.check()
    check_politeness(directory, info, findings)
    if info.last.ended is None:
        findings.note(directory, "the last run was killed: the tables may be of an earlier run")
    else:
        for difference in check_tables(directory, closure.correct):
            findings.add("table", directory / "tables", difference)
    _refuse_if_written(directory, logs)
    if session.load(directory) != info:
        raise UserError(f"{directory}: was crawled during the verification; verify it again")
    return Verdict(
        session=str(directory),
        complete=info.last.complete is True,
        pages=sum(walk.rows for walk in walks),
        links=sum(walk.links for walk in walks),
        warc_records=sum(walk.records for walk in walks),
        pending=closure.pending,
        kept_out=closure.kept_out,
        problems=dict(findings.counts),
        lines=[*findings.lines, *findings.omitted],
        notes=findings.notes,
    )


def _refuse_if_written(directory: Path, logs: Sequence[Path]) -> None:
    """Raise UserError if another process writes to the session.

    The session isn't locked here: a crawl must be able to start while somebody verifies.
    """
    writer = session.who_writes(directory)
    if writer is None and any(map(session.is_open, logs)):  # by a rank that is about to die
        writer = "is being crawled"
    if writer is not None:
        raise UserError(f"{directory}: {writer}; verify the session when that has ended")


def _check_once(
    directory: Path,
    walks: Sequence[RankWalk],
    info: SessionInfo,
    logs: Sequence[Path],
    findings: Findings,
) -> None:
    """Check that no rank has fetched a URL twice, and no two ranks a URL that has one owner.

    A run that tries failed URLs again may have superseded one row of each.
    """
    superseded = session.Superseded(directory)
    settings = info.config
    shared = mode_of(settings).overlaps or (
        settings.assignment.scheme == "part-vector" and settings.assignment.unlisted == "discoverer"
    )
    keys = [np.frombuffer(walk.keys, np.uint64) for walk in walks]
    for group in keys if shared else [np.concatenate([np.zeros(0, np.uint64), *keys])]:
        different, rows = np.unique(group, return_counts=True)
        twice = set(different[rows > 1].tolist())
        tries, kept = Counter[int](), defaultdict[int, list[tuple[str, Path]]](list)
        for path in logs if twice else ():
            for entry in session.read_log(path):
                if isinstance(entry, LoggedPage) and entry.row.key in twice and not entry.is_again:
                    key = entry.row.key
                    if superseded(entry.row) and tries[key] < superseded.runs:
                        tries[key] += 1
                    else:
                        kept[key].append((entry.row.url, path))
        for rows_of_one in kept.values():
            for address, path in rows_of_one if len(rows_of_one) > 1 else ():
                findings.add("twice", address, f"has more than one row, one in {path}")


def _check_servers(info: SessionInfo, logs: Sequence[Path], findings: Findings) -> None:
    """Check that the seed servers of the last run have fetched nothing in it.

    The latest log of each rank of the last run is of that run, if the run has come to its end.
    """
    if info.config.assignment.scheme != "dynamic" or info.last.ended is None:
        return
    latest = {session.rank_of(path): path for path in logs}
    for rank in range(len(info.config.dynamic.servers)):
        for entry in session.read_log(latest[rank]) if rank in latest else ():
            if isinstance(entry, LoggedPage):
                what = f"has a row in {latest[rank]}, but rank {rank} is a seed server"
                findings.add("server", entry.row.url, what)
