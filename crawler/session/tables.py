"""Writes the Parquet tables from the logs of all ranks, and checks them; also those of handlers.

The logs are streamed, because a session may be larger than memory. Memory grows by 8 bytes for each
page and one small object for each site. docs/session.md explains the columns.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from crawler.ports import REQUISITE, PageRow
from crawler.session.columns import (
    SCHEMAS,
    AnchorRows,
    LinkRows,
    SiteRow,
    count_requests,
    count_site,
    page_table,
    site_table,
)
from crawler.session.files import no_room_told
from crawler.session.handled import RowChecks, RowTables
from crawler.session.log import LoggedPage, Torn, rank_directories
from crawler.session.retried import read_latest

_PAGE_ROWS: Final = 64 << 10  # rows in a row group of pages or sites
# An entry in the metadata of each file. Files of earlier versions don't have it. They have fewer
# columns, and name sites with the scheme, as `http://host`.
_FORMAT: Final = {b"abc_tables": b"2"}
_LATEST_COLUMNS: Final = frozenset(  # tables of this format may lack these
    ("crawl_delay", "title", "language", "requisites", "role")
)
_NEW_COLUMNS: Final = _LATEST_COLUMNS.union(
    ("requests", "smallest_gap", "promised_gap", "impolite", "alike", "media_type")
)
_OPTIONAL: Final = frozenset(("anchors",))  # tables that aren't there if they have no rows
# Columns whose values recur, which a dictionary makes smaller.
_RECURRING: Final = [
    "site", "part", "rank", "hops", "address", "status", "error", "truncated", "content_type",
    "duplicate", "warc_file", "retries", "noindex", "alike", "media_type", "language",
    "source_key", "element", "flags", "lastmod",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Totals:
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


Correct = Callable[[LoggedPage], LoggedPage]


def _as_logged(page: LoggedPage) -> LoggedPage:
    return page


def write_tables(session: Path, correct: Correct = _as_logged) -> tuple[Totals, list[Totals]]:
    """Write tables/ from the logs. The new tables replace old ones when all are complete.

    Returns the totals of the session, and those of each rank. `correct` is called once for each
    page, and corrects the flags of its links (`joined.Correction`).
    """
    directory = session / "tables"
    directory.mkdir(exist_ok=True)
    news = {name: directory / f"{name}.new" for name in SCHEMAS}
    ranks = {path: _Counts() for path in rank_directories(session)}
    try:
        with ExitStack() as stack:
            stack.enter_context(no_room_told(directory / "tables"))
            handled = stack.enter_context(RowTables(directory))

            def see(page: LoggedPage) -> LoggedPage:
                handled.add(page)
                return correct(page)

            for new in news.values():
                new.unlink(missing_ok=True)  # an old file there may be a symbolic link
            writers = {
                name: stack.enter_context(_writer(path, SCHEMAS[name]))
                for name, path in news.items()
            }
            made = set()
            for name, rows in _made(session, ranks, see):
                writers[name].write_table(rows, row_group_size=len(rows))
                made.add(name)
            handled.replace()
        for name, new in news.items():
            if name in made or name not in _OPTIONAL:
                new.replace(directory / f"{name}.parquet")
            else:
                (directory / f"{name}.parquet").unlink(missing_ok=True)
    finally:
        for new in news.values():
            new.unlink(missing_ok=True)
    return _totals(ranks.values()), [_totals([counts]) for counts in ranks.values()]


def check_tables(session: Path, correct: Correct = _as_logged) -> Iterator[str]:
    """Yield the differences between the tables and the logs, as text.

    At most one difference is given for each row group. `correct`: as in `write_tables`.
    """
    ranks = {path: _Counts() for path in rank_directories(session)}
    handled = RowChecks(session / "tables")

    def see(page: LoggedPage) -> LoggedPage:
        handled.add(page)
        return correct(page)

    with ExitStack() as stack:
        files: dict[str, pq.ParquetFile] = {}
        for name in SCHEMAS:
            path = session / "tables" / f"{name}.parquet"
            if name in _OPTIONAL and not path.exists():
                continue
            try:
                files[name] = stack.enter_context(pq.ParquetFile(path))
            except (OSError, pa.ArrowException) as error:
                yield f"{name}.parquet: {str(error).splitlines()[0]}"
        groups = Counter[str]()
        rows_before = Counter[str]()
        old = any(
            _FORMAT.items() - (file.schema_arrow.metadata or {}).items() for file in files.values()
        )
        for name, rows in _made(session, ranks, see, renamed=not old):
            if name in _OPTIONAL and name not in files and not groups[name]:
                yield f"{name}.parquet: is missing"
            if name in files:
                difference = _difference(files[name], groups[name], rows, old=old)
                if difference is not None:
                    yield f"{name}.parquet, from row {rows_before[name]:,}: {difference}"
            groups[name] += 1
            rows_before[name] += len(rows)
        for name, file in files.items():
            if file.metadata.num_rows > rows_before[name]:
                more = file.metadata.num_rows - rows_before[name]
                yield f"{name}.parquet: {more:,} rows more than the logs give"
        yield from handled.differences()


def _difference(file: pq.ParquetFile, group: int, rows: pa.Table, *, old: bool) -> str | None:
    """Return how a row group differs from the rows made from the logs, or None if it doesn't."""
    if group >= file.num_row_groups:
        return f"{len(rows):,} rows are missing"
    try:
        there = file.read_row_group(group)
    except (OSError, pa.ArrowException) as error:
        return str(error).splitlines()[0]
    if old:
        rows = rows.select([name for name in rows.schema.names if name not in _NEW_COLUMNS])
    missing = _LATEST_COLUMNS.difference(there.schema.names)
    rows = rows.select([name for name in rows.schema.names if name not in missing])
    if there.equals(rows):
        return None
    if there.schema.names != rows.schema.names:
        return f"columns {there.schema.names}, not {rows.schema.names}"
    for column in rows.schema.names:
        pairs = zip(there[column].to_pylist(), rows[column].to_pylist(), strict=False)
        for row, (its, logged) in enumerate(pairs):
            if its != logged:
                return f"{column} of row +{row:,} is {its!r}, by the logs {logged!r}"
    return f"{len(there):,} rows, by the logs {len(rows):,}"


def _made(
    session: Path, ranks: Mapping[Path, "_Counts"], correct: Correct, *, renamed: bool = True
) -> Iterator[tuple[str, pa.Table]]:
    """Make the tables from the logs. Yields pieces (name, row group), and counts all pages.

    `renamed`: see `read_log`.
    """
    sites: dict[str, SiteRow] = {}
    rows: list[PageRow] = []
    links, anchors = LinkRows(), AnchorRows()
    for page in map(correct, _pages(session, ranks, renamed=renamed)):
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
    names = sorted(sites)
    if renamed:  # otherwise the tables are of a version without request logs
        count_requests(sites, session)
    for start in range(0, len(names), _PAGE_ROWS):
        yield "sites", site_table({name: sites[name] for name in names[start:][:_PAGE_ROWS]})


def _pages(
    session: Path, ranks: Mapping[Path, "_Counts"], *, renamed: bool
) -> Iterator[LoggedPage]:
    """Yield all pages, as `read_latest` does. Counts them in `ranks`, too."""
    for path, entry in read_latest(session, renamed=renamed):
        counts = ranks[path.parent.parent]
        if isinstance(entry, LoggedPage):
            counts.add(entry.row)
            yield entry
        elif isinstance(entry, Torn):
            counts.torn.append(entry)


def _writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    recurring = [name for name in schema.names if name in _RECURRING]
    schema = schema.with_metadata(_FORMAT)
    return pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=recurring)


@dataclass(slots=True)
class _Counts:
    """The counts over the page rows of a rank."""

    keys: "array[int]" = field(default_factory=lambda: array("Q"))  # of pages with a response
    stored: int = 0
    duplicates: int = 0
    bytes: int = 0
    by_status: Counter[int] = field(default_factory=Counter)
    by_error: Counter[str] = field(default_factory=Counter)
    requisites: int = 0
    failed_requisites: int = 0
    requisite_bytes: int = 0
    torn: list[Torn] = field(default_factory=list)

    def add(self, row: PageRow) -> None:
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


def _totals(ranks: Collection[_Counts]) -> Totals:
    keys = [np.frombuffer(counts.keys, np.uint64) for counts in ranks]
    pages = sum(map(len, keys))
    by_status: Counter[int] = sum((counts.by_status for counts in ranks), Counter())
    by_error: Counter[str] = sum((counts.by_error for counts in ranks), Counter())
    return Totals(
        pages=pages,
        unique_pages=np.unique(np.concatenate(keys)).size if keys else 0,
        stored_pages=sum(counts.stored for counts in ranks),
        duplicate_content=sum(counts.duplicates for counts in ranks),
        bytes=sum(counts.bytes for counts in ranks),
        by_status=dict(sorted(by_status.items())),
        by_error=dict(sorted(by_error.items())),
        requisites=sum(counts.requisites for counts in ranks),
        failed_requisites=sum(counts.failed_requisites for counts in ranks),
        requisite_bytes=sum(counts.requisite_bytes for counts in ranks),
        torn=tuple(torn for counts in ranks for torn in counts.torn),
    )
