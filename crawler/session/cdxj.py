"""Indexes of WARC files in the format CDXJ: a sorted line for each record that can be replayed.

The index of `NAME.warc.gz` is `NAME.cdxj`, beside it. A rank collects the lines while it writes a
WARC file, and writes the index when it closes the file. So a WARC file that has an index never
changes again. `archive` makes the index of a file that a kill left without one.

The lines are those of cdxj-indexer 1.5: the key of the URL, the time, and a JSON object.
https://specs.webrecorder.net/cdxj/latest/
"""

import heapq
import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from json.encoder import encode_basestring_ascii as _quoted  # a fifth of the time of dumps
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from crawler.session.files import replacing
from crawler.session.surt import surt

_RUN: Final = 10_000  # so many lines are sorted in memory
# So many records become lines together. A single line takes three times as long, because the other
# work on a page has driven the code and its data out of the processor's caches.
_BATCH: Final = 64
_PIECE: Final = 16 << 10
_CONTENT_TYPE: Final = re.compile(rb"\r\nContent-Type:([^\r\n]*)", re.IGNORECASE)
_ENDS_MEDIA_TYPE: Final = re.compile(r"[;\s]")


def index_path(warc: Path) -> Path:
    """Return the path of the index of a WARC file."""
    return warc.with_name(warc.name.removesuffix(".warc.gz") + ".cdxj")


class Replayable(NamedTuple):
    """A record that can be replayed."""

    kind: str  # response or revisit
    url: str
    date: str  # WARC-Date
    http_head: bytes  # of its block; empty if the record has no block
    payload_digest: str
    offset: int
    length: int  # of its gzip member


def index_line(record: Replayable, warc_name: str) -> bytes:
    """Return the line of a record, with its newline."""
    date = record.date
    time = date[:4] + date[5:7] + date[8:10] + date[11:13] + date[14:16] + date[17:19]
    mime = "warc/revisit" if record.kind == "revisit" else _media_type(record.http_head)
    line = f'{surt(record.url)} {time} {{"url": {_quoted(record.url)}'
    if mime is not None:
        line += f', "mime": {_quoted(mime)}'
    if record.http_head:
        line += f', "status": {_quoted(record.http_head.split(b" ", 2)[1].decode("latin-1"))}'
    line += (
        f', "digest": {_quoted(record.payload_digest)}, "length": "{record.length}",'
        f' "offset": "{record.offset}", "filename": {_quoted(warc_name)}}}\n'
    )
    return line.encode()


def _media_type(http_head: bytes) -> str | None:
    found = _CONTENT_TYPE.search(http_head)
    if found is None:
        return None
    try:
        value = found[1].decode()
    except UnicodeDecodeError:
        value = found[1].decode("latin-1")
    return _ENDS_MEDIA_TYPE.split(value.strip(), 1)[0]


class IndexWriter:
    """Collects the index of one WARC file. About 10,000 lines are in memory, others on disk."""

    def __init__(self, warc: Path) -> None:
        self._warc = warc
        self._records: list[Replayable] = []  # have no lines yet
        self._lines: list[bytes] = []
        self._runs: BinaryIO | None = None  # sorted runs of lines, one after the other
        self._ends = [0]  # where the runs begin and end

    def add(self, record: Replayable) -> None:
        """Add a record. Raises OSError."""
        self._records.append(record)
        if len(self._records) >= _BATCH:
            self._make_lines()
        if len(self._lines) >= _RUN:
            self._end_run()

    def write(self) -> None:
        """Write the index. Raises NoRoomError or OSError, and then there is no index."""
        self._make_lines()
        self._lines.sort()
        with replacing(index_path(self._warc)) as file:
            file.writelines(heapq.merge(self._lines, *map(self._run, pairwise(self._ends))))
        if self._runs is not None:
            self._runs.close()

    def _make_lines(self) -> None:
        records, self._records = self._records, []
        self._lines += [index_line(record, self._warc.name) for record in records]

    def _end_run(self) -> None:
        if self._runs is None:
            from tempfile import TemporaryFile  # noqa: PLC0415  most crawls need none

            self._runs = TemporaryFile(dir=self._warc.parent)  # noqa: SIM115  stays open
        self._lines.sort()
        self._runs.writelines(self._lines)
        self._runs.flush()
        self._lines.clear()
        self._ends.append(self._runs.tell())

    def _run(self, place: tuple[int, int]) -> Iterator[bytes]:
        assert self._runs is not None
        return read_lines(partial(os.pread, self._runs.fileno()), *place)


def read_lines(read: Callable[[int, int], bytes], start: int, end: int) -> Iterator[bytes]:
    """Yield the lines between two offsets. `read(size, offset)` is called for each piece."""
    rest = b""
    while start < end:
        piece = read(min(_PIECE, end - start), start)
        assert piece, "an index shrinks while it is read"
        start += len(piece)
        *lines, rest = (rest + piece).split(b"\n")
        yield from (line + b"\n" for line in lines)
