"""Imports graphs from WARC files: their pages, and the links between them, read as in a crawl."""

import gzip
import zlib
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from warcio.archiveiterator import ArchiveIterator  # type: ignore[import-untyped]
from warcio.bufferedreaders import ChunkedDataReader  # type: ignore[import-untyped]
from warcio.exceptions import ArchiveLoadFailed  # type: ignore[import-untyped]

from crawler import url
from crawler.ports import Response
from crawler.reading.codings import undo
from crawler.reading.media import HTML, HTML_TYPES, types_of
from crawler.reading.parse import finish, form_of, read_headers
from crawler.reading.parse import read as read_html
from partition import UserError
from partition.importers.pages import Imported, Say, with_urls

_MAX_BODY: Final = 100 << 20  # decoded bytes; the rest of a larger body is ignored
# Links are taken from the same elements as in a crawl by default.
ELEMENTS: Final = frozenset({"a", "area", "frame", "iframe", "link", "refresh"})
_ONE_MEMBER: Final = "non-chunked gzip"  # warcio's message for a WARC file gzipped as a whole
_MOST_SAID: Final = 200  # characters of an error message


class _Captures:
    """The pages of WARC files, each with its size and its links."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.links: dict[str, list[str]] = {}
        self.cut: set[str] = set()  # pages whose content coding ends early or isn't known
        self.revisits: dict[str, str] = {}  # by page: the id of the record that has its payload

    def note(self, record: Any) -> None:
        """Note a record. A revisit has no payload; its links are in the record it refers to."""
        for page in _pages_of(record):
            if record.rec_type == "revisit":
                self.revisits[page] = record.rec_headers.get_header("WARC-Refers-To") or ""
            elif record.rec_type == "response" and record.http_headers is not None:
                self.revisits.pop(page, None)
                self._read(record, [page])

    def originals(self) -> Callable[[Any], None]:
        """Return a function that reads the records of payloads under the URLs of their revisits."""
        wanted: dict[str, list[str]] = {}
        for page, record_id in self.revisits.items():
            wanted.setdefault(record_id, []).append(page)

        def note(record: Any) -> None:
            if record.rec_type == "response" and record.http_headers is not None:
                pages = wanted.pop(record.rec_headers.get_header("WARC-Record-ID"), ())
                if pages:
                    self._read(record, pages)
                for page in pages:
                    del self.revisits[page]

        return note

    def _read(self, record: Any, pages: Sequence[str]) -> None:
        body, whole = _body(record)
        for page in pages:
            (self.cut.discard if whole else self.cut.add)(page)
            self.sizes[page], self.links[page] = _read_response(record.http_headers, body, page)


def _walk(files: Sequence[Path], note: Callable[[Any], None]) -> None:
    for path in files:
        try:
            with path.open("rb") as file:
                try:
                    _note_records(file, note)
                except ArchiveLoadFailed as error:
                    if _ONE_MEMBER not in str(error):
                        raise
                    file.seek(0)
                    with gzip.open(file) as unpacked:
                        _note_records(unpacked, note)
        except (ArchiveLoadFailed, EOFError, zlib.error, gzip.BadGzipFile) as error:
            reason = "".join(c if c.isprintable() else " " for c in str(error))
            reason = " ".join(reason.split())[:_MOST_SAID]
            raise UserError(f"{path}: not an intact WARC file: {reason}") from None


def _note_records(file: Any, note: Callable[[Any], None]) -> None:
    for record in ArchiveIterator(file):
        note(record)


def _pages_of(record: Any) -> list[str]:
    """Return the normalised URL of a record.

    Returns nothing for other kinds of URLs, and for a robots.txt in an archive of this crawler.
    """
    if record.rec_headers.get_header("X-Crawler-For") == "robots.txt":
        return []
    return _normal([record.rec_headers.get_header("WARC-Target-URI") or ""], "")


def read(files: Sequence[Path], say: Say) -> Imported:
    """Read the pages in WARC files, and the links between them. The last record of a URL counts.

    A redirect is a page of 0 bytes with a link to its target. A revisit has the payload of the
    record that it refers to, if the files have it. Links to URLs that the files lack are left
    out.
    """
    captures = _Captures()
    _walk(files, captures.note)
    if captures.revisits:
        _walk(files, captures.originals())
    pages, links = sorted(captures.sizes), captures.links
    number = {address: at for at, address in enumerate(pages)}
    src, dst = array("q"), array("q")
    missing = 0
    for source in pages:
        for target in links[source]:
            if target in number:
                src.append(number[source])
                dst.append(number[target])
            else:
                missing += 1
    if missing:
        say(f"left out: {missing:,} links to URLs that aren't in the files")
    if captures.revisits:
        say(f"left out: {len(captures.revisits):,} revisits of records that aren't in the files")
    if cut := len(captures.cut):
        say(f"read in part: {cut:,} pages whose content coding ends early or isn't known")
    table = with_urls(pages, [captures.sizes[address] for address in pages])
    return table, np.array(src, np.int64), np.array(dst, np.int64)


def _read_response(headers: Any, body: bytes, address: str) -> tuple[int, list[str]]:
    """Return the size of the body and the URLs that a response links to, as in a crawl."""
    status = headers.get_statuscode()
    location = headers.get_header("Location")
    if status[:1] == "3" and location:
        return 0, _normal([location], address)
    fields = [(name.encode(), (value or "").encode()) for name, value in headers.headers]
    response = Response(
        url=address,
        started=0.0,
        seconds=0.0,
        address=None,
        request_head=b"",
        version="",
        status=int(status) if status.isdecimal() else 0,
        reason="",
        headers=fields,
        payload=body,
        body=body,
    )
    if not response.has_page:
        return len(body), []
    media, label = types_of(response)
    if media in HTML_TYPES or label == HTML:
        page = finish(read_html(response, ELEMENTS, form=form_of(media, label)))
    else:
        page = read_headers(response, ELEMENTS)
    return len(body), list(page.links)


def _body(record: Any) -> tuple[bytes, bool]:
    """Return the body of a response with its codings undone, and whether it is complete.

    warcio knows fewer codings than servers and the WARC files of other programs use.
    """
    transfer = _codings(record, "transfer-encoding")
    stream = record.raw_stream
    if "chunked" in transfer:
        stream = ChunkedDataReader(stream)
    codings = _codings(record, "content-encoding")
    codings += [coding for coding in transfer if coding != "chunked"]
    body, failure, _ = undo(codings, stream.read(), _MAX_BODY)
    return body, failure is None


def _codings(record: Any, header: str) -> list[str]:
    """Return the codings that all lines of a header name, in lower case."""
    lines = [value for name, value in record.http_headers.headers if name.lower() == header]
    return [coding.strip().lower() for coding in ",".join(lines).split(",") if coding.strip()]


def _normal(references: Sequence[str], base: str) -> list[str]:
    urls: dict[str, None] = {}
    for reference in references:
        try:
            urls[url.normalise(reference, base or None)] = None
        except url.BadUrlError:
            continue  # not a web URL, such as mailto:
    return list(urls)
