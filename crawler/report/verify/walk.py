"""Compares the log of a rank with its WARC files.

A rank first appends the records of a page to the WARC file, then the page's row to the log. So
rows and responses have the same order, and one pass through both compares them. A kill, or a stop
because of a full disk, may leave one response without a row in each run. A row without its response
is damage.
"""

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64_intdigest

from crawler import session, url
from crawler.ports import PageRow, has_page
from crawler.reading.scope import Sites
from crawler.report.verify.findings import Findings
from crawler.report.verify.indexes import IndexCheck
from crawler.session import Damage, LoggedPage, Record, SessionInfo, Torn

Keys = npt.NDArray[np.uint64]


class RankWalk:
    """Checks the files of one rank.

    `keys` are the keys of the rank's rows, without the rows of URLs that were requested again.
    `links` counts the links in the rows.
    """

    def __init__(self, logs: Sequence[Path], info: SessionInfo, findings: Findings) -> None:
        """`logs`: the log files of the rank, oldest first."""
        directory = logs[0].parent.parent
        self.keys = array("Q")
        self.hashes = session.SecondHashes()  # of all URLs in the rows and links
        self.rows = self.links = 0
        self._rank = session.rank_of(logs[0])
        self._logs = logs
        self._findings = findings
        self._sites = Sites(info.config.assignment.site)
        self._parts = max(run.parts for run in info.runs)
        self._stores_all = info.config.storage.types == ("*/*",)
        self._killed = any(run.ended is None or run.lost for run in info.runs)
        self._unfinished = sum(not run.complete or bool(run.lost) for run in info.runs)
        self._responses = _Responses(directory, findings, ends_torn=info.last.ended is None)

    @property
    def records(self) -> int:
        """The number of WARC records that were read."""
        return self._responses.records

    def run(self) -> None:
        """Go through the rank's log files and its WARC files."""
        for path in self._logs:
            for entry in session.read_log(path):
                self.hashes.add(entry)
                if isinstance(entry, LoggedPage):
                    self._page(path, entry)
                elif isinstance(entry, Torn):
                    self._torn(entry)
        self._responses.finish(self._unfinished)

    def unknown_originals(self) -> int:
        """The number of revisits that refer to payloads which this rank hasn't stored."""
        return self._responses.unknown_originals()

    def _page(self, path: Path, page: LoggedPage) -> None:
        row = page.row
        self.rows += 1
        if not page.is_again:
            self.keys.append(row.key)
        self.links += len(page.flags)
        faults = [*self._row_faults(row), *_link_faults(page)]
        if row.warc_file is not None:
            record = self._responses.find(row)
            if record is not None:
                faults += _record_faults(row, record)
        for fault in faults:
            self._findings.add("log", f"{path}: {row.url}", fault)

    def _row_faults(self, row: PageRow) -> Iterator[str]:
        if url.own_key(row.name) != row.key:
            yield "the row's key isn't the key of its URL"
        elif self._sites.of(row.url) != row.site:
            yield f"the site of the URL isn't {row.site}"
        if row.rank != self._rank:
            yield f"the row is of rank {row.rank}"
        if not 0 <= row.part < self._parts:
            yield f"the row is of part {row.part}, but there are {self._parts} parts"
        if row.status is None and row.error is None:
            yield "the row has neither a status nor an error"
        elif row.status is None and row.warc_file is not None:
            yield "the row names a WARC record, but no response came"
        must_be_stored = self._stores_all or not has_page(row.status)
        if row.status is not None and row.warc_file is None and must_be_stored:
            yield "the response wasn't stored"

    def _torn(self, torn: Torn) -> None:
        if session.is_damage(torn):
            what = f"damaged at {torn.offset:,}: whole entries follow, but can't be used"
            self._findings.add("log", torn.path, what)
        elif not self._killed:
            what = f"ends in {torn.lost_bytes:,} bytes that are no entry, but no run was killed"
            self._findings.add("log", torn.path, what)
        else:
            what = f"a torn tail of {torn.lost_bytes:,} bytes, left by a kill"
            self._findings.note(torn.path, what)


def _link_faults(page: LoggedPage) -> Iterator[str]:
    urls = page.urls
    if not len(page.packed_keys) == 8 * len(page.flags) == 8 * len(urls):
        yield f"{len(urls)} links with {len(page.flags)} flags, {len(page.packed_keys) / 8:g} keys"
    elif list(map(url.own_key, urls)) != page.keys.tolist():
        yield "the keys of its links aren't those of their URLs"


def _record_faults(row: PageRow, record: Record) -> Iterator[str]:
    fields = record.fields
    if fields.get("warc-target-uri") != row.url:
        yield f"its record is of the URL {fields.get('warc-target-uri')}"
    if fields.get("warc-payload-digest") != row.digest:
        digest = fields.get("warc-payload-digest")
        yield f"its record has the digest {digest}, the row {row.digest}"
    if (record.kind == "revisit") != row.duplicate:
        duplicate = "" if row.duplicate else " no"
        yield f"its record is a {record.kind}, but the row is{duplicate} duplicate"
    if fields.get("warc-date") != session.warc_date(row.time):
        date = session.warc_date(row.time)
        yield f"its record has the date {fields.get('warc-date')}, the row {date}"
    as_sent = b"\r\nX-Crawler-Content-Encoding:" not in record.http_head
    if record.kind == "response" and as_sent and len(record.payload) != row.bytes:
        yield f"its record has {len(record.payload):,} bytes, the row {row.bytes:,}"
    if record.block and record.http_head.split(b" ", 2)[1:2] != [str(row.status).encode()]:
        yield f"the status in its record isn't {row.status}"


class _Responses:
    """A cursor over the responses and revisits in the WARC files of a rank."""

    def __init__(self, directory: Path, findings: Findings, *, ends_torn: bool) -> None:
        """`ends_torn`: the last file may end in a torn record, as nobody has mended it yet."""
        self.records = 0
        self._findings = findings
        self._ends_torn = ends_torn
        self._files = session.warc_files(directory)
        self._directory = directory
        self._numbers = {path.name: number for number, path in enumerate(self._files)}
        self._missing: Counter[str] = Counter()  # rows that name a missing file, by the file
        self._number = -1
        self._records: Iterator[Record | Damage] = iter(())
        self._here: Record | Damage | None = None  # the record at the cursor
        self._index: IndexCheck | None = None  # of the present file, unless that is damaged
        self._response_id = ""
        self._orphans: list[str] = []
        self._stored = array("Q")  # hashes of the ids of records with payloads
        self._referred = array("Q")

    def find(self, row: PageRow) -> Record | None:
        """The record of a row, or None if no whole record stands where the row says.

        Must be called in the order of the rows. A record that the cursor passes over has no row.
        """
        assert row.warc_file is not None
        assert row.warc_offset is not None
        number = self._numbers.get(row.warc_file)
        if number is None:
            self._missing[row.warc_file] += 1
            return None
        while self._number < number:
            self._finish_file()
            self._open(self._number + 1)
        offset = row.warc_offset
        while number == self._number and self._here is not None and self._here.offset < offset:
            if isinstance(self._here, Damage):
                if self._here.torn:
                    self._report(self._here)
                self._read_from(offset)
            else:
                self._pass_over(self._here)
        here = self._here
        if number == self._number and here is not None and here.offset == offset:
            if isinstance(here, Damage):
                return None
            self._advance()
            return here
        where = f"{self._directory / row.warc_file} at {offset:,}"
        self._findings.add(
            "warc", where, f"no record begins here, or the record of another row: {row.url}"
        )
        return None

    def finish(self, unfinished: int) -> None:
        """Check what follows the record of the last row.

        `unfinished`: the number of runs that may have left a response without a row.
        """
        while self._number < len(self._files):
            self._finish_file()
            self._open(self._number + 1)
        for name, rows in self._missing.items():
            self._findings.add(
                "warc", self._directory / name, f"is missing, but {rows:,} rows refer to this file"
            )
        if len(self._orphans) > unfinished:
            what = f"{len(self._orphans):,} responses have no row; this is the first of them"
            self._findings.add("warc", self._orphans[0], what)
        elif self._orphans:
            what = "a response without a row: the run ended before it wrote the row"
            self._findings.note(self._orphans[0], what)

    def unknown_originals(self) -> int:
        """The number of revisits that refer to records which aren't stored here."""
        stored, referred = (np.frombuffer(ids, np.uint64) for ids in (self._stored, self._referred))
        return int((~np.isin(referred, stored)).sum())

    def _open(self, number: int) -> None:
        self._number = number
        if number < len(self._files):
            self._index = IndexCheck(self._files[number], self._findings)
            self._read_from(0)

    def _read_from(self, offset: int) -> None:
        self._records = session.read_records(self._files[self._number], offset)
        self._response_id = ""
        self._advance()

    def _advance(self) -> None:
        """Move the cursor to the next response, or to damage, or to the end of the file."""
        self._here = None
        for record in self._records:
            if isinstance(record, Damage):
                if not record.torn:
                    self._report(record)
                self._here, self._index = record, None
                return
            self.records += 1
            if self._index:
                self._index.add(record)
            fields = record.fields
            if record.kind in {"response", "revisit"}:
                self._response_id = fields.get("warc-record-id", "")
                if record.kind == "response":
                    self._stored.append(_hash(self._response_id))
                else:
                    self._referred.append(_hash(fields.get("warc-refers-to", "")))
                self._here = record
                return
            if record.kind == "request":
                if self._response_id and fields.get("warc-concurrent-to") != self._response_id:
                    what = "a request that doesn't belong to the response before it"
                    self._findings.add("warc", self._where(record), what)
            elif record.kind != "metadata" and (record.kind != "warcinfo" or record.offset):
                what = f"a {record.kind} record doesn't belong here"
                self._findings.add("warc", self._where(record), what)

    def _finish_file(self) -> None:
        while isinstance(self._here, Record):
            self._pass_over(self._here)
        if self._here is not None and self._here.torn:
            last = self._number == len(self._files) - 1
            if last and self._ends_torn:
                self._findings.note(self._where(self._here), "a torn tail, left by a kill")
            else:
                self._report(self._here)
        if self._index:
            self._index.finish()
        self._here = self._index = None

    def _pass_over(self, record: Record) -> None:
        """Pass over a response without a row. Only one for a robots.txt may have none.

        Earlier versions didn't mark such responses.
        """
        fields = record.fields
        marked = fields.get("x-crawler-for") == "robots.txt"
        if not marked and not fields.get("warc-target-uri", "").endswith("/robots.txt"):
            self._orphans.append(self._where(record))
        self._advance()

    def _report(self, damage: Damage) -> None:
        self._findings.add("warc", self._where(damage), damage.what)

    def _where(self, thing: Record | Damage) -> str:
        return f"{self._files[self._number]} at {thing.offset:,}"


def _hash(record_id: str) -> int:
    return xxh3_64_intdigest(record_id.encode())
