"""Turns rows of the logs into columns of the tables `pages`, `links` and `sites`."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from crawler import arrow
from crawler.ports import REQUISITE, PageRow
from crawler.session.judged import Judged
from crawler.session.log import LoggedPage

_LINK_ROWS: Final = 256 << 10  # links that fill a row group
_LINK_TEXT: Final = 32 << 20  # bytes of target URLs that fill a row group
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
        ("title", pa.string()),
        ("language", pa.string()),
        ("role", pa.string()),
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
ANCHORS: Final = pa.schema(
    [
        ("source_key", pa.uint64()),
        ("target_key", pa.uint64()),
        ("element", pa.string()),
        ("text", pa.string()),
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
        ("requisites", pa.int64()),
    ]
)

SCHEMAS: Final = {"pages": PAGES, "links": LINKS, "anchors": ANCHORS, "sites": SITES}


def _times(epoch_s: Sequence[float]) -> pa.Array:
    microseconds = np.rint(np.array(epoch_s, np.float64) * 1e6).astype(np.int64)
    return arrow.column(microseconds, _TIME)


def page_table(rows: list[PageRow]) -> pa.Table:
    """Return rows of pages as a piece of the table `pages`."""
    columns = list(zip(*map(msgspec.structs.astuple, rows), strict=True))
    return pa.Table.from_arrays(
        [
            _times(values) if field.type == _TIME else pa.array(values, field.type)
            for field, values in zip(PAGES, columns, strict=True)
        ],
        schema=PAGES,
    )


class LinkRows:
    """Collects the links of one row group, page by page, because a loop over links is slow."""

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
        """Whether the links fill a row group."""
        return len(self._flags) >= _LINK_ROWS or len(self._text) >= _LINK_TEXT

    def add(self, page: LoggedPage) -> None:
        """Add the links of a page."""
        if page.lastmods:
            first = len(self._flags)
            self._lastmods |= {first + number: text for number, text in page.lastmods.items()}
        self._sources.append(page.row.key)
        self._counts.append(len(page.flags))
        self._keys += page.packed_keys
        self._flags += page.flags
        self._text += page.url_text

    def table(self) -> pa.Table:
        """Return the links as a piece of the table `links`."""
        count = len(self._flags)
        # Arrow needs the texts without newlines, the offset of each, and the end of the last one.
        newlines = np.flatnonzero(np.frombuffer(self._text, np.uint8) == ord("\n"))
        offsets = np.zeros(count + 1, np.int32)
        offsets[1:] = newlines - np.arange(count)
        text = self._text.replace(b"\n", b"")
        urls = pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text))
        sources = np.repeat(
            np.frombuffer(self._sources, np.uint64), np.frombuffer(self._counts, np.int64)
        )
        return pa.Table.from_arrays(
            [
                arrow.column(sources),
                arrow.column(np.frombuffer(self._keys, "<u8")),
                urls,
                arrow.column(np.frombuffer(self._flags, np.uint8)),
                self._lastmod_column(),
            ],
            schema=LINKS,
        )

    def _lastmod_column(self) -> pa.Array:
        count = len(self._flags)
        if not self._lastmods:
            return pa.nulls(count, pa.string())
        return pa.array([self._lastmods.get(number) for number in range(count)], pa.string())


class AnchorRows:
    """Collects the anchors of one row group, page by page."""

    def __init__(self) -> None:
        self._sources = array("Q")
        self._targets = array("Q")
        self._elements: list[str] = []
        self._texts: list[str] = []

    def __len__(self) -> int:
        return len(self._texts)

    @property
    def full(self) -> bool:
        """Whether the anchors fill a row group."""
        return len(self) >= _LINK_ROWS

    def add(self, page: LoggedPage) -> None:
        """Add the anchors of a page."""
        anchors = page.anchors
        if anchors:
            numbers, elements, texts = zip(*anchors, strict=True)
            self._sources.extend([page.row.key] * len(anchors))
            self._targets.extend(page.keys[list(numbers)].tolist())
            self._elements += elements
            self._texts += texts

    def table(self) -> pa.Table:
        """Return the anchors as a piece of the table `anchors`."""
        columns = (self._sources, self._targets, self._elements, self._texts)
        return pa.Table.from_arrays(
            [pa.array(one, field.type) for one, field in zip(columns, ANCHORS, strict=True)],
            schema=ANCHORS,
        )


class SiteRow(msgspec.Struct):
    """A row of the table `sites`. It is computed from the rows of the site's pages and requests."""

    part: int | None  # None if the site has several parts
    first_time: float
    last_time: float
    pages: int = 0
    errors: int = 0
    bytes: int = 0
    requisites: int = 0
    address: str | None = None
    address_time: float = 0.0
    # By the request log, if there is one.
    requests: int | None = None
    smallest_gap: float | None = None  # the gap that is smallest against what was promised
    promised_gap: float | None = None
    impolite: int | None = None
    crawl_delay: float | None = None  # seconds


def count_site(sites: dict[str, SiteRow], row: PageRow) -> None:
    """Count a page at its site. `sites` are the rows by site; a new site gets one."""
    site = sites.get(row.site)
    if site is None:
        site = sites[row.site] = SiteRow(row.part, row.time, row.time)
    if site.part != row.part:
        site.part = None
    if row.address is not None:
        _set_address(site, row.address, row.time)
    site.first_time = min(site.first_time, row.time)
    site.last_time = max(site.last_time, row.time)
    if row.role == REQUISITE:
        site.requisites += row.status is not None
        return
    site.pages += row.status is not None
    site.errors += row.error is not None
    site.bytes += row.bytes


def merge_sites(sites: dict[str, SiteRow], others: Iterable[tuple[str, SiteRow]]) -> None:
    """Put what several ranks have counted at the same sites together. Their order doesn't matter.

    `sites`: what was merged before. It gets the others.
    """
    for name, other in others:
        site = sites.setdefault(name, other)
        if site is other:
            continue
        if site.part != other.part:
            site.part = None
        if other.address is not None:
            _set_address(site, other.address, other.address_time)
        site.first_time = min(site.first_time, other.first_time)
        site.last_time = max(site.last_time, other.last_time)
        site.pages += other.pages
        site.errors += other.errors
        site.bytes += other.bytes
        site.requisites += other.requisites


def _set_address(site: SiteRow, address: str, time: float) -> None:
    if (time, address) >= (site.address_time, site.address or ""):
        site.address, site.address_time = address, time


def add_judged(sites: dict[str, SiteRow], judged: Judged) -> None:
    """Add the findings of the request log, also for sites that have no page with a row yet."""
    for name, clock in judged.clocks:
        site = sites.get(name)
        if site is None:
            site = sites[name] = SiteRow(None, clock.first_time, clock.last_time)
        site.requests, site.impolite = clock.requests, clock.impolite
        if clock.smallest is not None:
            site.smallest_gap = clock.smallest.seconds
            site.promised_gap = clock.smallest.promised_s
        site.crawl_delay = judged.crawl_delays.get(name)


def site_table(by_name: Mapping[str, SiteRow]) -> pa.Table:
    """Return rows of sites as a piece of the table `sites`."""
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
            pa.array([site.requisites for site in sites], pa.int64()),
        ],
        schema=SITES,
    )
