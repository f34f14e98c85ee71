"""Verification checks whether the files of a session keep what the crawler promises.

1. `walk` compares the log of each rank with its WARC files, in one pass, and these with their
   indexes.
2. No URL has two rows, where the mode promises that, and a seed server has no row. `closure` checks
   the links: every followed link leads to a row (of a page or of a failure), or is pending while
   the crawl isn't over. And some link, seed or sitemap leads to every row.
3. The tables are made again from the logs, and compared.
4. `politeness` compares the gaps between requests to a site with the promised gaps.

Several processes do this together: each reads the files of some ranks, and answers for a share of
the keys, of the sites and of the requests. On each, memory grows by 8 bytes for each page, 16 for
each record and 50 for each request, and by what `session.LogShard` needs to compare its links with
all pages. A kill may leave an incomplete last
entry in a file. Such a torn tail is noted, but is no problem.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np

from crawler import session, url
from crawler.modes import mode_of
from crawler.ports import Peers, UserError
from crawler.report.verify.asked import split
from crawler.report.verify.closure import Closure
from crawler.report.verify.findings import Findings
from crawler.report.verify.politeness import check_politeness
from crawler.report.verify.same_keys import check_keys
from crawler.report.verify.walk import RankWalk
from crawler.session import LoggedPage, SessionInfo
from crawler.session.checked import check_tables
from crawler.session.units import units

__all__ = ["Verdict", "verify", "verify_together"]


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
    """Check the files of a session alone. See `verify_together`."""
    verdict = session.alone(verify_together(directory, session.Alone()))
    if isinstance(verdict, UserError):
        raise verdict
    assert verdict is not None
    return verdict


async def verify_together(directory: Path, peers: Peers) -> Verdict | UserError | None:
    """Check the files of a session by several processes.

    Returns the verdict on the first process, and None on the others. If a process is crawling the
    session, or if the directory holds no session, all return the error.
    """
    mistake = await peers.bcast(_mistake(directory) if peers.rank == 0 else None)
    if mistake is not None:
        return mistake
    info = session.load(directory)
    url.tell_apart(session.given_up(directory))
    every = await peers.bcast(units(directory))
    logs = [path for unit in session.mine(every, peers) for path in unit.logs]
    findings, found = Findings(), Findings()
    walks = []
    for _, files in groupby(logs, session.rank_of):
        walks.append(RankWalk(list(files), info, found))
        walks[-1].run()
    await findings.add_all(peers, found)
    unknown = sum(await peers.gather(sum(walk.unknown_originals() for walk in walks)))
    if unknown and not info.config.session.previous:
        findings.add("warc", directory, f"{unknown:,} revisits refer to records that don't exist")
    await _check_once(directory, walks, info, logs, peers, findings)
    await check_keys([walk.hashes for walk in walks], logs, info, peers, findings)
    if peers.rank == 0:
        _check_servers(info, session.log_files(directory), findings)
    closure = Closure(directory, info, logs, peers, findings)
    await closure.check()
    await check_politeness(directory, info, every, peers, findings)
    if info.last.ended is None:
        what = "the last run didn't end: the tables may be older; report makes them of all logs"
        findings.note(directory, what)
    else:
        for difference in await check_tables(directory, peers, closure.correct):
            findings.add("table", directory / "tables", difference)
    counts = [
        sum(walk.rows for walk in walks),
        sum(walk.links for walk in walks),
        sum(walk.records for walk in walks),
        closure.pending,
        closure.kept_out,
    ]
    everybody = await peers.gather(counts)
    if peers.rank > 0:
        return None
    if session.load(directory) != info:
        raise UserError(f"{directory}: was crawled during the verification; verify it again")
    _refuse_if_written(directory, session.log_files(directory))
    rows, links, records, pending, kept_out = map(sum, zip(*everybody, strict=True))
    return Verdict(
        session=str(directory),
        complete=info.last.complete is True,
        pages=rows,
        links=links,
        warc_records=records,
        pending=pending,
        kept_out=kept_out,
        problems=dict(findings.counts),
        lines=[*findings.lines, *findings.omitted],
        notes=findings.notes,
    )


def _mistake(directory: Path) -> UserError | None:
    """Return what keeps the session from being verified, if anything does."""
    try:
        with session.mistakes_told(str(directory)):
            session.load(directory)
            session.check_layout(directory)
            _refuse_if_written(directory, session.log_files(directory))
    except UserError as error:
        return error
    return None


def _refuse_if_written(directory: Path, logs: Sequence[Path]) -> None:
    """Raise UserError if another process writes to the session.

    The session isn't locked here: a crawl must be able to start while somebody verifies.
    """
    writer = session.who_writes(directory)
    if writer is None and any(map(session.is_open, logs)):  # by a rank that is about to die
        writer = "is being crawled"
    if writer is not None:
        raise UserError(f"{directory}: {writer}; verify the session when that has ended")


async def _check_once(
    directory: Path,
    walks: Sequence[RankWalk],
    info: SessionInfo,
    logs: Sequence[Path],
    peers: Peers,
    findings: Findings,
) -> None:
    """Check that no rank has fetched a URL twice, and no two ranks a URL that has one owner.

    A run that tries failed URLs again may have superseded one row of each. `walks` and `logs`:
    those of this process.
    """
    superseded = await session.Superseded.together(directory, logs, peers)
    settings = info.config
    shared = mode_of(settings).overlaps or (
        settings.assignment.scheme == "part-vector" and settings.assignment.unlisted == "discoverer"
    )
    keys = [np.frombuffer(walk.keys, np.uint64) for walk in walks]
    found = Findings()
    if shared:  # each rank has rows of its own
        for its, (_, files) in zip(keys, groupby(logs, session.rank_of), strict=True):
            _tell_twice(_rows_of(_twice(its), list(files), superseded), superseded.runs, found)
        await findings.add_all(peers, found)
        return
    together = np.concatenate([np.zeros(0, np.uint64), *keys])
    given = await peers.alltoall([together[its] for its in split(together, peers)])
    twice = await session.everywhere(peers, _twice(np.concatenate(given)))
    rows = await peers.gather(list(_rows_of(set().union(*twice), logs, superseded)))
    _tell_twice(chain(*rows), superseded.runs, findings)


def _twice(keys: session.Keys) -> set[int]:
    different, rows = np.unique(keys, return_counts=True)
    return set(different[rows > 1].tolist())


class _Row(NamedTuple):
    """A row of a key that has several."""

    key: int
    url: str
    log: Path
    is_superseded: bool


def _rows_of(
    keys: set[int], logs: Sequence[Path], superseded: session.Superseded
) -> Iterator[_Row]:
    for path in logs if keys else ():
        for entry in session.read_log(path):
            if isinstance(entry, LoggedPage) and entry.row.key in keys and not entry.is_again:
                yield _Row(entry.row.key, entry.row.url, path, superseded(entry.row))


def _tell_twice(rows: Iterable[_Row], most_tries: int, findings: Findings) -> None:
    tries, kept = Counter[int](), defaultdict[int, list[_Row]](list)
    for row in rows:
        if row.is_superseded and tries[row.key] < most_tries:
            tries[row.key] += 1
        else:
            kept[row.key].append(row)
    for rows_of_one in kept.values():
        for row in rows_of_one if len(rows_of_one) > 1 else ():
            findings.add("twice", row.url, f"has more than one row, one in {row.log}")


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
