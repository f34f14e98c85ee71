"""The logs of all ranks as three Parquet tables, streamed: a session is larger than memory.

What grows with the session is 8 bytes a page and one small object a site. Columns and their meaning
are in docs/session.md.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from crawler.ports import PageRow
from crawler.session.files import no_room_told
from crawler.session.log import LoggedPage, Torn, log_files, rank_directories, read_log
from crawler.session.requests import read_all_requests

_PAGE_ROWS: Final = 64 << 10  # of a row group of pages, or of sites
_LINK_ROWS: Final = 256 << 10  # of a row group of links
_LINK_TEXT: Final = 32 << 20  # bytes of target URLs that also fill a row group of links

_TIME = pa.timestamp("us", "UTC")
PAGES: Final = pa.schema(
    [
        ("url", pa.string()),
        ("key", pa.uint64()),
        ("site", pa.string()),
        ("part", pa.int32()),
        ("rank", pa.int32()),
        ("hops", pa.int32()),
        ("time", _TIME),
        ("seconds", pa.float64()),
        ("address", pa.string()),
        ("status", pa.int16()),
        ("error", pa.string()),
        ("truncated", pa.string()),
        ("bytes", pa.int64()),
        ("content_type", pa.string()),
        ("digest", pa.string()),
        ("duplicate", pa.bool_()),
        ("warc_file", pa.string()),
        ("warc_offset", pa.int64()),
        ("retries", pa.int32()),
        ("etag", pa.string()),
        ("last_modified", pa.string()),
        ("noindex", pa.bool_()),
        ("alike", pa.bool_()),
        ("media_type", pa.string()),
    ]
)
LINKS: Final = pa.schema(
    [
        ("source_key", pa.uint64()),
        ("target_key", pa.uint64()),
        ("target_url", pa.string()),
        ("flags", pa.uint8()),
        ("lastmod", pa.string()),
    ]
)
SITES: Final = pa.schema(
    [
        ("site", pa.string()),
        ("part", pa.int32()),
        ("pages", pa.int64()),
        ("errors", pa.int64()),
        ("bytes", pa.int64()),
        ("address", pa.string()),
        ("first_time", _TIME),
        ("last_time", _TIME),
        ("requests", pa.int64()),
        ("smallest_gap", pa.float64()),
        ("promised_gap", pa.float64()),
        ("impolite", pa.int64()),
        ("crawl_delay", pa.float64()),
    ]
)
# In the metadata of each file. Files of earlier versions have no such entry; their sites are named
# with the scheme, `http://host`, and have fewer columns.
_FORMAT: Final = {b"abc_tables": b"2"}
_NEW_COLUMNS: Final = frozenset(
    ("requests", "smallest_gap", "promised_gap", "impolite", "alike", "media_type", "crawl_delay")
)
_LATEST_COLUMNS: Final = frozenset(("crawl_delay",))  # that tables of this format may lack
_SCHEMAS: Final = {"pages": PAGES, "links": LINKS, "sites": SITES}
# Columns whose values recur; in the others a dictionary is made only to be thrown away.
_RECURRING: Final = [
    "site", "part", "rank", "hops", "address", "status", "error", "truncated", "content_type",
    "duplicate", "warc_file", "retries", "noindex", "alike", "media_type", "source_key",
    "flags", "lastmod",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the table `pages`, or over the rows of one rank."""

    pages: int  # fetches that gave a response
    unique_pages: int  # distinct URLs among them
    stored_pages: int  # response records
    duplicate_content: int  # revisit records
    bytes: int  # of payloads, as received
    by_status: dict[int, int]
    by_error: dict[str, int]
    torn: tuple[Torn, ...]  # log files that ended in a cut tail


Correct = Callable[[LoggedPage], LoggedPage]


def _as_logged(page: LoggedPage) -> LoggedPage:
    return page


def write_tables(session: Path, correct: Correct = _as_logged) -> tuple[Totals, list[Totals]]:
    """Write tables/*.parquet from the logs. Old tables go once all three new ones are whole.

    Returns the totals of the session, and those of each rank. `correct` gives the flags that the
    links of a page have today (`joined.Correction`), and sees every page once.
    """
    directory = session / "tables"
    directory.mkdir(exist_ok=True)
    news = {name: directory / f"{name}.new" for name in _SCHEMAS}
    ranks = {path: _Counts() for path in rank_directories(session)}
    try:
        with ExitStack() as stack:
            stack.enter_context(no_room_told(directory / "tables"))
            for new in news.values():
                new.unlink(missing_ok=True)  # it might be a symbolic link
            writers = {
                name: stack.enter_context(_writer(path, _SCHEMAS[name]))
                for name, path in news.items()
            }
            for name, rows in _made(session, ranks, correct):
                writers[name].write_table(rows, row_group_size=len(rows))
        for name, new in news.items():
            new.replace(directory / f"{name}.parquet")
    finally:
        for new in news.values():
            new.unlink(missing_ok=True)
    return _totals(ranks.values()), [_totals([counts]) for counts in ranks.values()]


def check_tables(session: Path, correct: Correct = _as_logged) -> Iterator[str]:
    """The differences between the tables and the logs, in words; at most one line a row group.

    `correct`: as in `write_tables`.
    """
    ranks = {path: _Counts() for path in rank_directories(session)}
    with ExitStack() as stack:
        files: dict[str, pq.ParquetFile] = {}
        for name in _SCHEMAS:
            path = session / "tables" / f"{name}.parquet"
            try:
                files[name] = stack.enter_context(pq.ParquetFile(path))
            except (OSError, pa.ArrowException) as error:
                yield f"{name}.parquet: {str(error).splitlines()[0]}"
        groups = Counter[str]()
        rows_before = Counter[str]()
        old = any(
            _FORMAT.items() - (file.schema_arrow.metadata or {}).items() for file in files.values()
        )
        for name, rows in _made(session, ranks, correct, renamed=not old):
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


def _difference(file: pq.ParquetFile, group: int, rows: pa.Table, *, old: bool) -> str | None:
    """How a row group isn't what was made of the logs, if it isn't."""
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
    """The tables by name, in pieces that become row groups. All pages are counted on the way.

    `renamed`: see `read_log`.
    """
    sites: dict[str, _Site] = {}
    rows: list[PageRow] = []
    links = _Links()
    for page in map(correct, _pages(session, ranks, renamed=renamed)):
        _count_site(sites, page.row)
        rows.append(page.row)
        links.add(page)
        if len(rows) == _PAGE_ROWS:
            yield "pages", _page_table(rows)
            rows = []
        if links.full:
            yield "links", links.table()
            links = _Links()
    if rows:
        yield "pages", _page_table(rows)
    if len(links):
        yield "links", links.table()
    names = sorted(sites)
    if renamed:  # else the tables are of a version that had no request log
        _count_requests(sites, session)
    for start in range(0, len(names), _PAGE_ROWS):
        yield "sites", _site_table({name: sites[name] for name in names[start:][:_PAGE_ROWS]})


def _pages(
    session: Path, ranks: Mapping[Path, "_Counts"], *, renamed: bool
) -> Iterator[LoggedPage]:
    """All pages, by rank and then in the order of storing, counted on the way."""
    for path in log_files(session):
        counts = ranks[path.parent.parent]
        for entry in read_log(path, renamed=renamed):
            if isinstance(entry, LoggedPage):
                counts.add(entry.row)
                yield entry
            elif isinstance(entry, Torn):
                counts.torn.append(entry)


def _writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    recurring = [name for name in schema.names if name in _RECURRING]
    schema = schema.with_metadata(_FORMAT)
    return pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=recurring)


def _times(epoch_s: Sequence[float]) -> pa.Array:
    microseconds = np.rint(np.array(epoch_s, np.float64) * 1e6).astype(np.int64)
    return pa.array(microseconds.view("datetime64[us]"), _TIME)


def _page_table(rows: list[PageRow]) -> pa.Table:
    columns = list(zip(*map(msgspec.structs.astuple, rows), strict=True))
    return pa.Table.from_arrays(
        [
            _times(values) if field.type == _TIME else pa.array(values, field.type)
            for field, values in zip(PAGES, columns, strict=True)
        ],
        schema=PAGES,
    )


class _Links:
    """Links on their way into one row group; nothing here costs Python a step per link."""

    def __init__(self) -> None:
        self._sources = array("Q")
        self._counts = array("q")
        self._keys = bytearray()
        self._flags = bytearray()
        self._text = bytearray()
        self._lastmods: dict[int, str] = {}  # by number of the link

    def __len__(self) -> int:
        return len(self._flags)

    @property
    def full(self) -> bool:
        return len(self._flags) >= _LINK_ROWS or len(self._text) >= _LINK_TEXT

    def add(self, page: LoggedPage) -> None:
        if page.lastmods:
            first = len(self._flags)
            self._lastmods |= {first + number: text for number, text in page.lastmods.items()}
        self._sources.append(page.row.key)
        self._counts.append(len(page.flags))
        self._keys += page.packed_keys
        self._flags += page.flags
        self._text += page.url_text

    def table(self) -> pa.Table:
        count = len(self._flags)
        text = np.frombuffer(self._text, np.uint8)
        newline = text == ord("\n")
        # The texts without their newlines, and where each begins and the last one ends.
        offsets = np.zeros(count + 1, np.int32)
        offsets[1:] = np.flatnonzero(newline) - np.arange(count)
        urls = pa.StringArray.from_buffers(
            count, pa.py_buffer(offsets), pa.py_buffer(text[~newline])
        )
        sources = np.repeat(
            np.frombuffer(self._sources, np.uint64), np.frombuffer(self._counts, np.int64)
        )
        return pa.Table.from_arrays(
            [
                pa.array(sources),
                pa.array(np.frombuffer(self._keys, "<u8")),
                urls,
                pa.array(np.frombuffer(self._flags, np.uint8)),
                self._lastmod_column(),
            ],
            schema=LINKS,
        )

    def _lastmod_column(self) -> pa.Array:
        count = len(self._flags)
        if not self._lastmods:
            return pa.nulls(count, pa.string())
        return pa.array([self._lastmods.get(number) for number in range(count)], pa.string())


@dataclass(slots=True)
class _Site:
    part: int | None  # None: of several
    first_time: float
    last_time: float
    pages: int = 0
    errors: int = 0
    bytes: int = 0
    address: str | None = None
    address_time: float = 0.0
    # By the request log, if there is one.
    requests: int | None = None
    smallest_gap: float | None = None  # against what was promised
    promised_gap: float | None = None
    impolite: int | None = None
    crawl_delay: float | None = None  # seconds


def _count_site(sites: dict[str, _Site], row: PageRow) -> None:
    site = sites.get(row.site)
    if site is None:
        site = sites[row.site] = _Site(row.part, row.time, row.time)
    if site.part != row.part:
        site.part = None
    if row.address is not None and row.time >= site.address_time:
        site.address, site.address_time = row.address, row.time
    site.first_time = min(site.first_time, row.time)
    site.last_time = max(site.last_time, row.time)
    site.pages += row.status is not None
    site.errors += row.error is not None
    site.bytes += row.bytes


def _count_requests(sites: dict[str, _Site], session: Path) -> None:
    """Add the findings of the request log, also for sites that have no page with a row yet."""
    requests = read_all_requests(session)
    crawl_delays = requests.crawl_delays()
    for name, clock in requests.judge():
        site = sites.get(name)
        if site is None:
            site = sites[name] = _Site(None, clock.first_time, clock.last_time)
        site.requests, site.impolite = clock.requests, clock.impolite
        if clock.smallest is not None:
            site.smallest_gap = clock.smallest.seconds
            site.promised_gap = clock.smallest.promised_s
        site.crawl_delay = crawl_delays.get(name)


def _site_table(by_name: Mapping[str, _Site]) -> pa.Table:
    names, sites = list(by_name), list(by_name.values())
    return pa.Table.from_arrays(
        [
            pa.array(names, pa.string()),
            pa.array([site.part for site in sites], pa.int32()),
            pa.array([site.pages for site in sites], pa.int64()),
            pa.array([site.errors for site in sites], pa.int64()),
            pa.array([site.bytes for site in sites], pa.int64()),
            pa.array([site.address for site in sites], pa.string()),
            _times([site.first_time for site in sites]),
            _times([site.last_time for site in sites]),
            pa.array([site.requests for site in sites], pa.int64()),
            pa.array([site.smallest_gap for site in sites], pa.float64()),
            pa.array([site.promised_gap for site in sites], pa.float64()),
            pa.array([site.impolite for site in sites], pa.int64()),
            pa.array([site.crawl_delay for site in sites], pa.float64()),
        ],
        schema=SITES,
    )


@dataclass(slots=True)
class _Counts:
    """What is counted over the page rows of a rank."""

    keys: "array[int]" = field(default_factory=lambda: array("Q"))  # of pages with a response
    stored: int = 0
    duplicates: int = 0
    bytes: int = 0
    by_status: Counter[int] = field(default_factory=Counter)
    by_error: Counter[str] = field(default_factory=Counter)
    torn: list[Torn] = field(default_factory=list)

    def add(self, row: PageRow) -> None:
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
        torn=tuple(torn for counts in ranks for torn in counts.torn),
    )
