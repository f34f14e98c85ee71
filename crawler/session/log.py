r"""The log of a rank: the rows of its pages with their links. All other data is derived from it.

A file is a header and then frames, each with a checksum:

    header   8 bytes "ABC-LOG\n", u32 format version
    frame    u32 length of the body, u32 CRC-32 of the body, body
    body     a byte for its kind, "P" for a LoggedPage, "S" for LoggedSitemaps; then the object as
             a MessagePack array

Version 2 can be read, too. Its rows name a site with the scheme, as `http://host`. Readers get the
present name of the site, unless they ask for the row as it was written.

If URLs have shared a key, the log may have that key for each of them. Readers get the key that a
URL has now (`url.tell_apart`), but the keys in `chain` stay as they were written.

All integers are little-endian. A file ends at the first frame that is incomplete or fails its
checksum.
"""

import os
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import zstandard
from isal import isal_zlib
from xxhash import xxh3_64_intdigest

from crawler import url
from crawler.ports import (
    ANEW,
    REDIRECT,
    Anchor,
    Failure,
    Link,
    Names,
    PageRow,
    UserError,
    without_mark,
)
from crawler.session.files import AppendFile

_RANK_NAME: Final = re.compile(r"rank-\d{5,}")  # other names in the directory are ignored
_LOG_NAME: Final = re.compile(r"\d{5,}\.log")
MAGIC: Final = b"ABC-LOG\n"
_VERSION: Final = 3
READABLE: Final = (2, 3)
HEADER = struct.Struct("<8sI")
FRAME = struct.Struct("<II")
PAGE: Final = b"P"
_SITEMAPS: Final = b"S"
_WORTH_COMPRESSING = 256  # bytes of URL text; compressing fewer bytes gains nothing

_unzip = zstandard.ZstdDecompressor().decompress  # not safe for threads; an agent has only one


class LoggedPage(msgspec.Struct, array_like=True, frozen=True):
    """The row of a page with its n links. Links stay packed: most readers need few of the URLs."""

    row: PageRow
    packed_keys: bytes  # the keys of the targets, as n little-endian u64
    flags: bytes  # n bytes, bits as in crawler.ports
    packed_urls: bytes  # the URLs of the targets, each followed by a newline (no URL has one)
    compressed: bool  # whether packed_urls is a zstd frame
    chain: tuple[int, ...] = ()  # the redirects that led to the page, as in CrawlUrl
    sitemaps_of: Names | None = None  # set if the links are sitemaps: whose robots.txt names them
    lastmods: dict[int, str] = {}  # by number of the link: the change date in a sitemap
    judged_with: int = 0  # how many lines of the file `.joined` the links were judged with, or -1
    gives_cookies: bool = False  # as in Fetched; the cookies aren't stored
    packed_anchors: bytes = b""  # a zstd frame of an array of anchors; empty if there are none
    packed_rows: dict[str, bytes] = {}  # by handler: the lines of JSON, as a zstd frame
    packed_requisites: bytes = b""  # what it needs to be shown: URLs as in packed_urls, compressed

    @property
    def requisites(self) -> list[str]:
        """Return the URLs of what the page, or a style sheet, needs to be shown."""
        if not self.packed_requisites:
            return []
        return _unzip(self.packed_requisites).decode().split("\n")[:-1]

    @property
    def keys(self) -> npt.NDArray[np.uint64]:
        """Return the keys of the links' targets."""
        return np.frombuffer(self.packed_keys, "<u8")

    @property
    def url_text(self) -> bytes:
        """Return the URLs of the links' targets, each followed by a newline."""
        if not self.compressed:
            return self.packed_urls
        return _unzip(self.packed_urls)

    @property
    def urls(self) -> list[str]:
        """Return the URLs of the links' targets."""
        return self.url_text.decode().split("\n")[:-1]

    @property
    def anchors(self) -> Sequence[Anchor]:
        """Return what the page says of its links, if that is known."""
        return _decode_anchors(_unzip(self.packed_anchors)) if self.packed_anchors else ()

    @property
    def rows(self) -> dict[str, bytes]:
        """Return the rows of page handlers, by handler, as lines of JSON."""
        return {name: _unzip(packed) for name, packed in self.packed_rows.items()}

    @property
    def is_again(self) -> bool:
        """Whether the URL was requested once more, with a cookie, and this is that request."""
        return self.row.key in self.chain

    @property
    def is_loop(self) -> bool:
        """Whether the page redirects to a URL of its chain, which isn't requested again."""
        return self.row.error == Failure.REDIRECT_LOOP

    @property
    def request_key(self) -> int:
        """Return the key of the request: that of the URL, or another one for a second request."""
        row = self.row
        return request_key(row.key, self.chain)

    @property
    def return_key(self) -> int | None:
        """Return the `request_key` of the next row, if this page redirects back to its chain."""
        if not (self.flags and self.flags[0] & REDIRECT) or self.is_loop:
            return None
        target, chain = int.from_bytes(self.packed_keys[:8], "little"), (*self.chain, self.row.key)
        return _again_key(target, chain) if target in chain else None


def request_key(key: int, chain: tuple[int, ...]) -> int:
    """Return `LoggedPage.request_key` of the page of a URL, to which this chain leads."""
    return _again_key(key, chain) if key in chain else key


def _again_key(key: int, chain: tuple[int, ...]) -> int:
    """Return the key of a request for a URL that its chain leads back to.

    ANEW at the end of the chain is ignored.
    """
    if chain[-1] == ANEW:
        chain = chain[:-1]
    return xxh3_64_intdigest(msgspec.msgpack.encode((key, *chain)))


class LoggedSitemaps(msgspec.Struct, array_like=True, frozen=True):
    """The sitemaps that the robots.txt of an authority names. No page links to them."""

    authority: str
    urls: list[str]


class Torn(NamedTuple):
    """The unusable tail of a file, which readers give as the last entry."""

    path: Path
    offset: int  # where the tail begins
    lost_bytes: int


Entry = LoggedPage | LoggedSitemaps | Torn

_SEARCHED = 16 << 20  # bytes of an unusable tail that are searched for whole entries
_TAIL = 4 << 20
_decode = msgspec.msgpack.Decoder(LoggedPage).decode
_decode_anchors = msgspec.msgpack.Decoder(list[Anchor]).decode
_decode_sitemaps = msgspec.msgpack.Decoder(LoggedSitemaps).decode


def log_files(session: Path) -> list[Path]:
    """Return the log files of all ranks, by rank, then oldest first."""
    return [path for directory in rank_directories(session) for path in logs_of(directory)]


def logs_of(directory: Path) -> list[Path]:
    """Return the log files in the directory of a rank, oldest first."""
    found = sorted((directory / "log").glob("*.log"))
    return [path for path in found if _LOG_NAME.fullmatch(path.name)]


def rank_directories(session: Path) -> list[Path]:
    """Return the directories of all ranks that the session has had, by rank."""
    found = (path for path in session.glob("rank-*") if _RANK_NAME.fullmatch(path.name))
    return sorted(path for path in found if path.is_dir())


def rank_of(path: Path) -> int:
    """Return the rank that wrote a log file."""
    return int(path.parent.parent.name.removeprefix("rank-"))


class LogWriter:
    """Writes one new log file. Earlier log files of the rank stay as they are."""

    def __init__(self, directory: Path) -> None:
        names = (path.name for path in directory.glob("*.log"))
        numbers = [int(name[:-4]) for name in names if _LOG_NAME.fullmatch(name)]
        number = max(numbers, default=-1) + 1
        self.path = directory / f"{number:05}.log"
        self._file = AppendFile(self.path)
        self._file.append(HEADER.pack(MAGIC, _VERSION))
        self._encode = msgspec.msgpack.Encoder().encode
        self._compress = zstandard.ZstdCompressor(level=1, write_checksum=False).compress

    def write(self, frames: Iterable[bytes]) -> None:
        """Append frames by a single write. Raises NoRoomError; then none of them is appended."""
        self._file.append(b"".join(frames))

    def frame(
        self,
        row: PageRow,
        links: Sequence[Link],
        chain: tuple[int, ...] = (),
        sitemaps_of: Names | None = None,
        lastmods: Mapping[int, str] = MappingProxyType({}),
        judged_with: int = 0,
        *,
        gives_cookies: bool = False,
        anchors: Sequence[Anchor] = (),
        rows: Mapping[str, bytes] = MappingProxyType({}),
        requisites: Sequence[Link] = (),
    ) -> bytes:
        """Return the frame of a page with its links. See LoggedPage for the arguments."""
        keys, urls, _, flags = zip(*links, strict=True) if links else ((), (), (), ())
        packed_urls = "\n".join((*urls, "")).encode()
        compressed = len(packed_urls) >= _WORTH_COMPRESSING
        if compressed:
            packed_urls = self._compress(packed_urls)
        page = LoggedPage(
            row,
            struct.pack(f"<{len(keys)}Q", *keys),
            bytes(flags),
            packed_urls,
            compressed,
            chain,
            sitemaps_of,
            dict(lastmods),
            judged_with,
            gives_cookies,
            self._compress(self._encode(anchors)) if anchors else b"",
            {name: self._compress(lines) for name, lines in rows.items()} if rows else {},
            self._pack(requisites) if requisites else b"",
        )
        return _frame(PAGE + self._encode(page))

    def _pack(self, requisites: Sequence[Link]) -> bytes:
        text = "".join([f"{without_mark(link.url)}\n" for link in requisites])
        return self._compress(text.encode())

    def sitemaps(self, authority: str, urls: list[str]) -> None:
        """Append the sitemaps that the robots.txt of an authority names. Raises NoRoomError."""
        self.write([_frame(_SITEMAPS + self._encode(LoggedSitemaps(authority, urls)))])

    def sync(self) -> None:
        """Force the file to disk."""
        self._file.sync()

    def close(self) -> None:
        """Sync and close the file."""
        self._file.close()


def _frame(body: bytes) -> bytes:
    return FRAME.pack(len(body), isal_zlib.crc32(body)) + body


def _page(body: memoryview, *, renamed: bool = True) -> LoggedPage:
    """Return the page in the body of a frame. `renamed`: its site has its present name."""
    page = _decode(body)
    if renamed and "//" in page.row.site:
        row = msgspec.structs.replace(page.row, site=url.renamed_site(page.row.site))
        page = msgspec.structs.replace(page, row=row)
    return _with_own_keys(page) if url.SHARED_KEYS else page


def _with_own_keys(page: LoggedPage) -> LoggedPage:
    """Return the page with the keys that its URLs have now, where a shared key was logged.

    If the page was taken for the end of a loop only because of a shared key, it isn't one now.
    """
    row, keys = page.row, page.keys.tolist()
    if row.key in url.SHARED_KEYS:
        row = msgspec.structs.replace(row, key=url.key_now(row.key, row.name))
    if not url.SHARED_KEYS.isdisjoint(keys):
        keys = list(map(url.key_now, keys, page.urls))
    elif row is page.row:
        return page
    if page.is_loop and keys and keys[0] not in {row.key, *page.chain}:
        row = msgspec.structs.replace(row, error=None)
    packed = struct.pack(f"<{len(keys)}Q", *keys)
    return msgspec.structs.replace(page, row=row, packed_keys=packed)


def holds_rows(path: Path) -> bool:
    """Whether a log file holds more than its header."""
    return path.stat().st_size > HEADER.size


def read_log(path: Path, *, renamed: bool = True) -> Iterator[Entry]:
    """Yield the entries of a log file, in the order of writing.

    If the file has a torn or damaged tail, the last entry is a Torn. `renamed`: sites of version 2
    get their present names. Raises UserError for an unknown format version.
    """
    return (entry for _, entry in read_placed(path, renamed=renamed))


def holds(session: Path, wanted: Callable[[PageRow], bool]) -> bool:
    """Whether the logs hold a row that is wanted. They are read up to the first such row."""
    entries = chain.from_iterable(map(read_log, log_files(session)))
    return any(isinstance(entry, LoggedPage) and wanted(entry.row) for entry in entries)


def read_page(file: BinaryIO, offset: int) -> LoggedPage:
    """Return the page whose frame begins at an offset that `read_placed` gave."""
    file.seek(offset)
    length, _ = FRAME.unpack(file.read(FRAME.size))
    return _page(memoryview(file.read(length))[1:])


def last_pages(path: Path) -> list[LoggedPage]:
    """Return the pages whose frames lie in the last 4 MB of a log file."""
    with path.open("rb") as file:
        start = max(0, file.seek(0, os.SEEK_END) - _TAIL)
        file.seek(start)
        first = _whole_frame(file.read()) if start else HEADER.size
    if first is None:
        return []
    return [entry for _, entry in read_placed(path, start + first) if isinstance(entry, LoggedPage)]


def read_placed(
    path: Path, first: int = HEADER.size, *, renamed: bool = True
) -> Iterator[tuple[int, Entry]]:
    """Yield the entries of a log file as `read_log` gives them, each with its offset.

    `first`: the offset of the first of them.
    """
    with path.open("rb", buffering=1 << 20) as file:
        size = os.fstat(file.fileno()).st_size
        header = file.read(HEADER.size)
        if len(header) < HEADER.size or not header.startswith(MAGIC):
            if size:
                yield 0, Torn(path, 0, size)
            return
        _, version = HEADER.unpack(header)
        if version not in READABLE:
            known = " and ".join(map(str, READABLE))
            raise UserError(f"{path}: log format {version}; this program reads {known}")
        offset = first
        file.seek(first)
        while offset < size:
            head = file.read(FRAME.size)
            body = b""
            if len(head) == FRAME.size:
                length, checksum = FRAME.unpack(head)
                if 0 < length <= size - offset - FRAME.size:  # a crash may leave zeros behind
                    body = file.read(length)
            if not body or isal_zlib.crc32(body) != checksum:
                yield offset, Torn(path, offset, size - offset)
                return
            kind = body[:1]
            if kind == PAGE:
                yield offset, _page(memoryview(body)[1:], renamed=renamed)
            elif kind == _SITEMAPS:
                yield offset, _decode_sitemaps(memoryview(body)[1:])
            else:
                raise ValueError(f"{path}: frame of unknown kind {kind!r} at {offset}")
            offset += FRAME.size + len(body)


def is_damage(torn: Torn) -> bool:
    """Whether the tail is damaged, and not just torn by a kill: whole entries follow in it."""
    with torn.path.open("rb") as file:
        file.seek(torn.offset)
        rest = file.read(_SEARCHED)
    return _whole_frame(rest) is not None


def _whole_frame(data: bytes) -> int | None:
    """Return where the first whole frame in a piece of a log begins, or None."""
    for kind in re.finditer(b"[%b%b]" % (PAGE, _SITEMAPS), data):
        start = kind.start() - FRAME.size
        if start >= 0:
            length, checksum = FRAME.unpack_from(data, start)
            body = data[kind.start() : kind.start() + length]
            if 0 < length == len(body) and isal_zlib.crc32(body) == checksum:
                return start
    return None
