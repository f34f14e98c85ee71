"""Writes the Parquet tables from the logs of all ranks, and those of page handlers.

Each process takes the logs of some ranks, and writes a file of each table for each of these ranks:
`tables/pages/00000.parquet` has the pages of rank 0. A site may have pages at several ranks. So the
rows of `sites` are routed: each file has the sites of one bucket, by the hash of the name. The
files depend on the logs alone, and not on the number of processes.

The logs are streamed, because a session may be larger than memory. Memory grows by 8 bytes for each
page of a process, one small object for each of its sites, and by what `judged` needs.
docs/session.md explains the columns.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from crawler.arrays import distinct
from crawler.ports import REQUISITE, PageRow, Peers
from crawler.session.columns import (
    SCHEMAS,
    AnchorRows,
    LinkRows,
    SiteRow,
    add_judged,
    count_site,
    merge_sites,
    page_table,
    site_table,
)
from crawler.session.files import finish_file, no_room_told, sync_file, unfinished
from crawler.session.handled import RowTables
from crawler.session.judged import judge_together
from crawler.session.log import LoggedPage, Torn, rank_directories
from crawler.session.retried import Superseded, read_latest
from crawler.session.together import bucket, done_by_all, everywhere, holder, mine, routed
from crawler.session.units import Unit, units

_PAGE_ROWS: Final = 64 << 10  # rows in a row group of pages or sites
_PLACED: Final = 1 << 16  # sites and addresses whose process is remembered
_SENT_SITES: Final = 20_000  # rows of sites that are routed at a time
# An entry in the metadata of each file. Files of earlier versions don't have it. They have fewer
# columns, and name sites with the scheme, as `http://host`.
FORMAT: Final = {b"abc_tables": b"2"}
OPTIONAL: Final = frozenset(("anchors",))  # tables that aren't there if they have no rows
# Columns whose values recur, which a dictionary makes smaller.
_RECURRING: Final = [
    "site", "part", "rank", "hops", "address", "status", "error", "truncated", "content_type",
    "duplicate", "warc_file", "retries", "noindex", "alike", "media_type", "language",
    "source_key", "element", "flags", "lastmod",
]  # fmt: skip

Correct = Callable[[LoggedPage], LoggedPage]


class Totals(msgspec.Struct, frozen=True):
    """Sums over the table `pages`, or over the rows of one rank. Requisites are counted apart."""

    pages: int  # fetches that gave a response
    unique_pages: int  # distinct URLs among them
    stored_pages: int  # response records
    duplicate_content: int  # revisit records
    bytes: int  # of payloads, as received
    by_status: dict[int, int]
    by_error: dict[str, int]
    requisites: int  # fetches of requisites that gave a response
    failed_requisites: int  # rows of requisites with an error, or with status 400 or more
    requisite_bytes: int  # of payloads, as received
    torn: tuple[Torn, ...]  # log files that ended in a cut tail


def as_logged(page: LoggedPage) -> LoggedPage:
    """Return the page as it is."""
    return page


async def write_tables(
    session: Path, peers: Peers, correct: Correct = as_logged
) -> tuple[Totals, list[Totals]]:
    """Write tables/ from the logs, together. New files replace old ones when all are complete.

    Returns, on each process, the totals of the session, and those of each rank. `correct` is called
    once for each page that this process reads, and corrects the flags of its links
    (`joined.Correction`). Raises NoRoomError on all processes if the disk is full for one of them.
    """
    every = await peers.bcast(units(session))
    own = mine(every, peers)
    tables = session / "tables"
    is_superseded = await Superseded.together(session, _logs(own), peers)
    written: list[Path] = []
    counts: list[Counts] = []
    sites: dict[str, SiteRow] = {}

    def write_units() -> None:
        tables.mkdir(exist_ok=True)
        for unit in own:
            counts.append(Counts())
            with no_room_told(tables / "tables"), RowTables(tables, unit.name) as handled:

                def see(page: LoggedPage, handled: RowTables = handled) -> LoggedPage:
                    handled.add(page)
                    return correct(page)

                rows = made_rows(unit, is_superseded, see, counts[-1], sites)
                written.extend(_write(tables, unit.name, ("pages", "links", "anchors"), rows))
                written.extend(handled.finish())

    def write_sites() -> None:
        with no_room_told(tables / "tables"):
            for unit, rows in zip(own, by_unit, strict=True):
                written.extend(_write(tables, unit.name, ("sites",), made_sites(rows)))

    def replace_old() -> None:
        for path in written:
            finish_file(path)
        if peers.rank == 0:
            _remove_old(tables)

    try:
        await done_by_all(peers, write_units)
        by_unit = await route_sites(every, peers, sites)
        await done_by_all(peers, write_sites)
        await done_by_all(peers, replace_old)
        if peers.rank == 0:
            _look_anew(tables)
    finally:
        with suppress(OSError):
            for left in tables.glob("*/.*.new"):
                if any(left.name.startswith(f".{unit.name}.") for unit in own):
                    left.unlink()
    there = len(rank_directories(session))
    return await _totals(counts, peers, there)


def _logs(own: Sequence[Unit]) -> list[Path]:
    return [path for unit in own for path in unit.logs]


def _write(
    tables: Path, name: str, names: Sequence[str], rows: Iterable[tuple[str, pa.Table]]
) -> list[Path]:
    """Write a file of each of the named tables, and return those that are to be finished."""
    paths = {table: tables / table / f"{name}.parquet" for table in names}
    with ExitStack() as stack:
        writers = {
            table: stack.enter_context(_writer(unfinished(path), SCHEMAS[table]))
            for table, path in paths.items()
            if table not in OPTIONAL
        }
        for table, some in rows:
            if table not in writers:
                new = unfinished(paths[table])
                writers[table] = stack.enter_context(_writer(new, SCHEMAS[table]))
            writers[table].write_table(some, row_group_size=len(some))
    for table, path in paths.items():
        if table in writers:
            sync_file(path.with_name(f".{path.name}.new"))
        else:
            path.unlink(missing_ok=True)
    return [paths[table] for table in writers]


def _writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    recurring = [name for name in schema.names if name in _RECURRING]
    schema = schema.with_metadata(FORMAT)
    return pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=recurring)


def _remove_old(tables: Path) -> None:
    """Remove the tables of an earlier version, which had one file each, and empty directories."""
    for name in SCHEMAS:
        (tables / f"{name}.parquet").unlink(missing_ok=True)
    for directory in [path for path in tables.iterdir() if path.is_dir()]:
        (tables / f"{directory.name}.jsonl").unlink(missing_ok=True)
    for name in OPTIONAL:
        with suppress(OSError):  # it has files, or it isn't there
            (tables / name).rmdir()


def _look_anew(tables: Path) -> None:
    """Make this host see the files that other hosts have just put into these directories.

    Over NFS, a host keeps what is in a directory for up to a minute, unless it changes it itself.
    """
    for name in SCHEMAS:
        with suppress(OSError):  # the directory isn't there
            look = tables / name / ".look"
            look.touch()
            look.unlink()


def made_rows(
    unit: Unit,
    is_superseded: Superseded,
    correct: Correct,
    counts: "Counts",
    sites: dict[str, SiteRow],
    *,
    renamed: bool = True,
) -> Iterator[tuple[str, pa.Table]]:
    """Make the tables of a unit without `sites`. Yields pieces (name, row group).

    All pages are counted in `counts` and `sites`. `renamed`: see `read_log`.
    """
    rows: list[PageRow] = []
    links, anchors = LinkRows(), AnchorRows()
    for entry in read_latest(unit.logs, is_superseded, renamed=renamed):
        if isinstance(entry, Torn):
            counts.torn.append(entry)
        if not isinstance(entry, LoggedPage):
            continue
        counts.add(entry.row)
        page = correct(entry)
        count_site(sites, page.row)
        rows.append(page.row)
        links.add(page)
        anchors.add(page)
        if len(rows) == _PAGE_ROWS:
            yield "pages", page_table(rows)
            rows = []
        if links.full:
            yield "links", links.table()
            links = LinkRows()
        if anchors.full:
            yield "anchors", anchors.table()
            anchors = AnchorRows()
    if rows:
        yield "pages", page_table(rows)
    if len(links):
        yield "links", links.table()
    if len(anchors):
        yield "anchors", anchors.table()


def made_sites(sites: dict[str, SiteRow]) -> Iterator[tuple[str, pa.Table]]:
    """Make the table `sites` of a unit, as `made_rows` makes the others."""
    names = sorted(sites)
    for start in range(0, len(names), _PAGE_ROWS):
        yield "sites", site_table({name: sites[name] for name in names[start:][:_PAGE_ROWS]})


async def route_sites(
    every: Sequence[Unit], peers: Peers, counted: dict[str, SiteRow], *, judged: bool = True
) -> list[dict[str, SiteRow]]:
    """Return the sites in the bucket of each unit that this process holds.

    `counted`: what this process has counted; it is emptied. `judged`: whether to add the findings
    of the request log.
    """
    count = len(every)

    @lru_cache(_PLACED)  # because requests to a site come one after the other
    def place(name: str) -> int:
        return holder(bucket(name, count), count, peers.size)

    def rounds() -> Iterator[list[list[tuple[str, SiteRow]]]]:
        while counted:
            given: list[list[tuple[str, SiteRow]]] = [[] for _ in range(peers.size)]
            for _ in range(min(len(counted), _SENT_SITES)):
                name, row = counted.popitem()
                given[place(name)].append((name, row))
            yield given

    merged: dict[str, SiteRow] = {}
    async for received in routed(peers, rounds()):
        for some in received:
            merge_sites(merged, some)
    if judged:
        files = [path for unit in mine(every, peers) for path in unit.requests]
        add_judged(merged, await judge_together(files, peers, place))
    numbers = mine(range(count), peers)
    buckets: dict[int, dict[str, SiteRow]] = {number: {} for number in numbers}
    for name, row in merged.items():
        buckets[bucket(name, count)][name] = row
    return [buckets[number] for number in numbers]


class Counts(msgspec.Struct):
    """The counts over the page rows of a rank."""

    # Of pages with a response.
    keys: "array[int]" = msgspec.field(default_factory=lambda: array("Q"))
    stored: int = 0
    duplicates: int = 0
    bytes: int = 0
    by_status: Counter[int] = msgspec.field(default_factory=Counter)
    by_error: Counter[str] = msgspec.field(default_factory=Counter)
    requisites: int = 0
    failed_requisites: int = 0
    requisite_bytes: int = 0
    torn: list[Torn] = []

    def add(self, row: PageRow) -> None:
        """Count a row."""
        if row.role == REQUISITE:
            self.requisites += row.status is not None
            self.failed_requisites += row.error is not None or (row.status or 0) >= 400
            self.requisite_bytes += row.bytes
            return
        self.bytes += row.bytes
        if row.status is not None:
            self.keys.append(row.key)
            self.duplicates += row.duplicate
            self.stored += row.warc_file is not None and not row.duplicate
            self.by_status[row.status] += 1
        if row.error is not None:
            self.by_error[row.error] += 1


async def _totals(
    counts: Sequence[Counts], peers: Peers, ranks: int
) -> tuple[Totals, list[Totals]]:
    """Return the totals of the session and of each of its ranks, which the processes have counted.

    The keys of pages are routed to find how many are different: that of a page goes to the process
    that its value chooses.
    """
    arrays = [np.frombuffer(one.keys, np.uint64) for one in counts]
    keys = np.concatenate([np.zeros(0, np.uint64), *arrays])
    places = keys % np.uint64(peers.size)
    received = await peers.alltoall([keys[places == rank] for rank in range(peers.size)])
    unique = sum(await everywhere(peers, int(distinct(np.concatenate(received)).size)))
    own = [_of_rank(one) for one in counts]
    by_rank = list(chain(*await everywhere(peers, own)))
    return _sum(by_rank, unique), by_rank[:ranks]


def _of_rank(counts: Counts) -> Totals:
    keys: npt.NDArray[np.uint64] = np.frombuffer(counts.keys, np.uint64)
    return Totals(
        pages=len(keys),
        unique_pages=distinct(keys).size,
        stored_pages=counts.stored,
        duplicate_content=counts.duplicates,
        bytes=counts.bytes,
        by_status=dict(sorted(counts.by_status.items())),
        by_error=dict(sorted(counts.by_error.items())),
        requisites=counts.requisites,
        failed_requisites=counts.failed_requisites,
        requisite_bytes=counts.requisite_bytes,
        torn=tuple(counts.torn),
    )


def _sum(ranks: Collection[Totals], unique: int) -> Totals:
    by_status: Counter[int] = sum((Counter(one.by_status) for one in ranks), Counter())
    by_error: Counter[str] = sum((Counter(one.by_error) for one in ranks), Counter())
    return Totals(
        pages=sum(one.pages for one in ranks),
        unique_pages=unique,
        stored_pages=sum(one.stored_pages for one in ranks),
        duplicate_content=sum(one.duplicate_content for one in ranks),
        bytes=sum(one.bytes for one in ranks),
        by_status=dict(sorted(by_status.items())),
        by_error=dict(sorted(by_error.items())),
        requisites=sum(one.requisites for one in ranks),
        failed_requisites=sum(one.failed_requisites for one in ranks),
        requisite_bytes=sum(one.requisite_bytes for one in ranks),
        torn=tuple(torn for one in ranks for torn in one.torn),
    )
