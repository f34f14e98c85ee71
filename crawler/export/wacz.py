"""A WACZ file: a ZIP of WARC files with their index and a list of pages, to replay and to pass on.

WARC files are stored as they are, so that a player reads single records by their offsets. All is
written in one pass and in little memory, with ZIP64 where a file needs it.
https://specs.webrecorder.net/wacz/1.1.1/
"""

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Final
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from crawler import session
from crawler.export.indexes import indexed_warcs
from crawler.ports import PAGE, PageRow, has_page
from crawler.version import __version__

_HTML: Final = frozenset(("text/html", "application/xhtml+xml"))
_BLOCK_LINES: Final = 1024  # of the index that are compressed together
_PIECE: Final = 1 << 20
_GZIP: Final = 31  # zlib's code for data with a gzip header and trailer
_INDEX: Final = "index.cdx.gz"


def write_wacz(directory: Path, target: Path) -> list[str]:
    """Write a WACZ file of a session. Returns what was written, and where WARC files are damaged.

    Pages that `session.previous` stored aren't in the file, only revisits that refer to them.
    """
    warcs, told = indexed_warcs(directory)
    pages = _Pages(directory)
    index = _CompressedIndex(session.merged_indexes(warcs))
    with session.replacing(target) as file, ZipFile(file, "w", ZIP_STORED) as archive:
        package = _Package(archive)
        package.add(f"indexes/{_INDEX}", index.blocks())
        package.add("indexes/index.idx", index.directory())
        package.add("pages/pages.jsonl", pages.lines())
        for warc in warcs:
            package.add(f"archive/{warc.name}", _pieces(warc), warc.stat().st_size)
        package.close(_about(directory, pages))
    counts = f"{len(warcs):,} WARC files, {index.lines:,} records, {pages.count:,} pages"
    told.append(f"{target}: {counts}, {target.stat().st_size / 1e6:,.1f} MB")
    previous = session.load(directory).config.session.previous
    if previous:
        told.append(f"{target}: it refers to pages in {previous}; export that session, too")
    return told


class _Package:
    """Writes the files of a WACZ, and remembers their hashes for datapackage.json."""

    def __init__(self, archive: ZipFile) -> None:
        self._archive = archive
        self._resources: list[dict[str, object]] = []
        self._now = datetime.now(UTC)

    def add(self, path: str, pieces: Iterable[bytes], size: int | None = None) -> None:
        """Write a file. `size`: of the whole file, if it is known."""
        entry = ZipInfo(path, self._now.timetuple()[:6])
        entry.external_attr = 0o644 << 16
        entry.file_size = size or 0
        sha256, length = hashlib.sha256(), 0
        with self._archive.open(entry, "w", force_zip64=size is None) as file:
            for piece in pieces:
                file.write(piece)
                sha256.update(piece)
                length += len(piece)
        self._resources.append(
            {
                "name": path.rpartition("/")[2].lower(),  # as Data Packages demand
                "path": path,
                "hash": f"sha256:{sha256.hexdigest()}",
                "bytes": length,
            }
        )

    def close(self, about: Mapping[str, str]) -> None:
        """Write datapackage.json with these facts about the session, and its hash."""
        package = {
            "profile": "data-package",
            "wacz_version": "1.1.1",
            "software": f"abc-crawler {__version__}",
            "created": self._now.strftime("%Y-%m-%dT%H:%M:%SZ"),
            **about,
            "resources": self._resources,
        }
        self.add("datapackage.json", [json.dumps(package, indent=2).encode()])
        digest = {"path": "datapackage.json", "hash": self._resources[-1]["hash"]}
        self.add("datapackage-digest.json", [json.dumps(digest, indent=2).encode()])


class _CompressedIndex:
    """An index in the ZipNum format: gzip members of 1,024 lines each, and a directory of these."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self.lines = 0
        self._lines = lines
        self._directory: list[bytes] = []

    def blocks(self) -> Iterator[bytes]:
        """Yield the gzip members, in the order of their lines."""
        offset = 0
        while block := list(islice(self._lines, _BLOCK_LINES)):
            self.lines += len(block)
            packer = zlib.compressobj(wbits=_GZIP)
            member = packer.compress(b"".join(block)) + packer.flush()
            place = {
                "offset": offset,
                "length": len(member),
                "digest": f"sha256:{hashlib.sha256(member).hexdigest()}",
                "filename": _INDEX,
            }
            prefix = block[0].partition(b" {")[0]
            self._directory.append(b"%b %b\n" % (prefix, json.dumps(place).encode()))
            offset += len(member)
            yield member

    def directory(self) -> Iterator[bytes]:
        """Yield the lines that say where each member begins. Call this after `blocks`."""
        about = {"format": "cdxj-gzip-1.0", "filename": _INDEX}
        yield b"!meta 0 %b\n" % json.dumps(about).encode()
        yield from self._directory


class _Pages:
    """The stored HTML pages of a session."""

    def __init__(self, directory: Path) -> None:
        self.count = 0
        self.main: PageRow | None = None  # a seed, or a page that redirects of a seed lead to
        self._directory = directory

    def lines(self) -> Iterator[bytes]:
        """Yield pages.jsonl: a line about the list, then a line for each page."""
        about = {"format": "json-pages-1.0", "id": "pages", "title": "All pages"}
        yield json.dumps(about).encode() + b"\n"
        for row in _stored_pages(self._directory):
            self.count += 1
            if self.main is None and row.hops <= 0:
                self.main = row
            page = {"id": f"{self.count}", "url": row.url, "ts": session.warc_date(row.time)}
            if row.title:
                page["title"] = row.title
            yield json.dumps(page).encode() + b"\n"


def _stored_pages(directory: Path) -> Iterator[PageRow]:
    for path in session.log_files(directory):
        for entry in session.read_log(path):
            if isinstance(entry, session.LoggedPage) and _is_page(entry.row):
                yield entry.row


def _is_page(row: PageRow) -> bool:
    """Whether the archive shows a page for a row. A requisite is shown as a part of pages."""
    stored = (
        row.role == PAGE
        and row.warc_file is not None
        and (has_page(row.status) or row.status == 304)
    )
    return stored and row.role == PAGE and (row.media_type or row.content_type) in _HTML


def _about(directory: Path, pages: _Pages) -> dict[str, str]:
    storage = session.load(directory).config.storage
    about = {"title": directory.resolve().name}
    if storage.description:
        about["description"] = storage.description
    if pages.main is not None:
        about |= {"mainPageUrl": pages.main.url, "mainPageDate": session.warc_date(pages.main.time)}
    return about


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece
