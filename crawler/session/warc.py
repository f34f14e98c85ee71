"""Writes WARC 1.1 files, and reads what revisits need.

No library is used, to save time: writing is the dearest work on a page after parsing. A response
costs the SHA-1 hash of its payload, a compression by ISA-L, and little else. Blocks have no digest
by default, which would cost another SHA-1 hash. gzip has a checksum of each record anyway.
https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/
"""

import hashlib
import logging
import os
import re
import socket
import time
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from isal import isal_zlib

from crawler.config import Storage
from crawler.ports import FetchError, NoRoomError, Original, Response
from crawler.session.cdxj import IndexWriter, Replayable
from crawler.session.files import AppendFile
from crawler.version import __version__

_LOG = logging.getLogger("crawler")
# Other names in the directory are ignored.
_FILE_NAME = re.compile(r"[A-Za-z0-9][\w.-]*-\d{14}-\d{5,}-\d{5,}\.warc\.gz")
_GZIP = 31  # zlib's code for data with a gzip header and trailer
# A header of responses that have no row in the log, and of no other.
FOR_ROBOTS: Final = "X-Crawler-For: robots.txt\r\n"
_PROFILES = "http://netpreserve.org/warc/1.1/revisit/"
# Turns bytes that would end a header line into spaces.
_ONE_LINE = bytes(32 if byte in b"\r\n\0" else byte for byte in range(256))
_FRAMING = frozenset((b"content-length", b"transfer-encoding"))
# Header lines that `_http_head` leaves as they are, as almost all are.
_CLEAN_LINES = re.compile(rb"(?:[\w-]++: (?! )[^\0-\x1f]*+(?<! )\r\n)*+")
_SHA1 = hashlib.sha1(usedforsecurity=False)  # a copy takes half the time of a new hash
# For each halving in `_base32`: a mask of the upper halves, and a factor that moves them away.
_HALVES = [
    (
        sum((2**half - 1) << (at + half) for at in range(0, 256, 16 * half // 5)),
        2 ** (3 * half // 5) - 1,
    )
    for half in (80, 40, 20, 10, 5)  # bits of a half
]
_BASE32 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".ljust(256)
_PIECE = 64 << 10
_CHECKED_PIECES = 128
_HEAD_BYTES = 16 << 10  # compressed bytes; the WARC headers of our records are far shorter
_IDS = 64  # so many record IDs are made together


class Place(NamedTuple):
    """Where a record begins. The file is named relative to the rank's directory."""

    file: str
    offset: int


def digest(*payload: bytes) -> str:
    """Return the WARC digest of a payload, in pieces: "sha1:" and the SHA-1 hash in base 32."""
    sha1 = _SHA1.copy()
    for piece in payload:
        sha1.update(piece)
    return "sha1:" + _base32(sha1.digest())


def _base32(digest: bytes) -> str:
    """Return 20 bytes in base 32, in a third of the time that base64.b32encode takes.

    The number's 160 bits are halved five times. Each time the upper halves move up. In the end each
    byte of the number holds the 5 bits of one letter.
    """
    number = int.from_bytes(digest)
    for upper, factor in _HALVES:
        number += (number & upper) * factor
    return number.to_bytes(32).translate(_BASE32).decode()


class WarcWriter:
    """Writes the WARC files of one rank, and closes a file that has passed `storage.warc_size`."""

    def __init__(
        self, directory: Path, rank: int, storage: Storage, about: Mapping[str, str]
    ) -> None:
        """`about` holds further fields of the warcinfo record that begins each file."""
        self._directory = directory
        self._rank = rank
        self._storage = storage
        self._about = about
        self._file: AppendFile | None = None
        self._index: IndexWriter | None = None  # of the open file; None after an error of the disk
        self._ids = _record_ids()
        files = warc_files(directory)
        self._serial = _serial(files[-1]) + 1 if files else 0

    def write(
        self,
        url: str,
        response: Response,
        payload_digest: str,
        original: Original | None,
        more: str = "",
    ) -> Place:
        """Add a response and its request, which wait for `flush`. With `original`, add a revisit.

        `payload_digest`: the digest of the received payload; after status 304, that of the
        original. `more`: further header lines of the response. Raises NoRoomError or OSError if a
        new file can't be made; then nothing is added.
        """
        head = _http_head(response)
        date = warc_date(response.started)
        response_id = next(self._ids)
        common = f"WARC-Target-URI: {url}\r\nWARC-Date: {date}\r\n"
        if response.address is not None:
            common += f"WARC-IP-Address: {response.address}\r\n"
        fields = (
            f"{common}WARC-Record-ID: {response_id}\r\n"
            f"WARC-Payload-Digest: {payload_digest}\r\n{more}"
        )
        media = "Content-Type: application/http;msgtype=response\r\n"
        # If only the decoded payload was cut off, the stored block is whole, unless the block holds
        # the decoded payload.
        if response.truncated and not (response.payload_whole and response.readable):
            fields += f"WARC-Truncated: {response.truncated}\r\n"
        if original is None:
            kind = "response"
            answer = self._record(kind, fields + media, head, response.stored)
        else:
            kind = "revisit"
            unchanged = response.status == 304
            profile = "server-not-modified" if unchanged else "identical-payload-digest"
            fields += (
                f"WARC-Profile: {_PROFILES}{profile}\r\n"
                f"WARC-Refers-To: {original.record_id}\r\n"
                f"WARC-Refers-To-Target-URI: {original.url}\r\n"
                f"WARC-Refers-To-Date: {original.date}\r\n"
            )
            # The revisit of a 304 has no block, so that the page is replayed with its original
            # headers. With the headers of the 304, pywb would send browsers to their caches.
            head = b"" if unchanged else head
            answer = self._record(kind, fields if unchanged else fields + media, head)
        fields = (
            f"{common}WARC-Record-ID: {next(self._ids)}\r\n"
            f"WARC-Concurrent-To: {response_id}\r\n"
            "Content-Type: application/http;msgtype=request\r\n"
        )
        request = self._record("request", fields, response.request_head)

        place = self._add(answer + request)
        about = Replayable(kind, url, date, head, payload_digest, place.offset, len(answer))
        self._note(about)
        return place

    def write_failure(self, url: str, started: float, seconds: float, error: FetchError) -> None:
        """Add a metadata record about a request that got no response. It waits for `flush`."""
        fields = (
            f"WARC-Target-URI: {url}\r\nWARC-Date: {warc_date(started)}\r\n"
            f"WARC-Record-ID: {next(self._ids)}\r\nContent-Type: application/warc-fields\r\n"
        )
        if error.address is not None:
            fields += f"WARC-IP-Address: {error.address}\r\n"
        about = {
            "error": error.failure.value,
            "errorDetail": error.detail,
            "fetchTimeMs": f"{seconds * 1000:.0f}",
        }
        self._add(self._record("metadata", fields, _warc_fields(about)))

    def _add(self, records: bytes) -> Place:
        """Let records wait. A new file begins with a warcinfo record."""
        file = self._file or self._open()
        if not file.size:
            file.add(self._warcinfo(file.name))
        return Place(file.name, file.add(records))

    def flush(self) -> None:
        """Write the records that wait, by a single write, and close the file if it is full.

        Raises NoRoomError; then the records still wait.
        """
        if self._file:
            self._file.flush()
            if self._file.size >= self._storage.warc_size:
                self.close()

    def sync(self) -> None:
        """Force the open file to disk."""
        if self._file:
            self._file.sync()

    def close(self) -> None:
        """Close the open file, and write its index. The next record begins a new one.

        Records that still wait are lost.
        """
        if self._file:
            file, self._file = self._file, None
            file.close()
            if not file.written:  # its first write failed
                file.path.unlink()
            elif self._index and file.written == file.size:
                try:
                    self._index.write()
                except (OSError, NoRoomError) as error:
                    self._give_up_index(error)

    def _open(self) -> AppendFile:
        now = time.strftime("%Y%m%d%H%M%S", time.gmtime())
        name = f"{self._storage.warc_prefix}-{now}-{self._rank:05}-{self._serial:05}.warc.gz"
        self._file = AppendFile(self._directory / name)
        self._index = IndexWriter(self._file.path)
        self._serial += 1
        return self._file

    def _note(self, record: Replayable) -> None:
        """Add a record to the index of the open file."""
        if self._index:
            try:
                self._index.add(record)
            except OSError as error:
                self._give_up_index(error)

    def _give_up_index(self, error: Exception) -> None:
        """Go on without the index of the open file, because it can be made again."""
        self._index = None
        _LOG.warning("no index of a WARC file: %s; the command export makes the index", error)

    def _warcinfo(self, name: str) -> bytes:
        content = {
            "software": f"abc-crawler/{__version__}",
            "format": "WARC File Format 1.1",
            "conformsTo": "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
            "hostname": socket.gethostname(),
            "operator": self._storage.operator,
            "description": self._storage.description,
            **self._about,
        }
        fields = (
            f"WARC-Date: {warc_date(time.time())}\r\nWARC-Filename: {name}\r\n"
            f"WARC-Record-ID: {next(self._ids)}\r\nContent-Type: application/warc-fields\r\n"
        )
        return self._record("warcinfo", fields, _warc_fields(content))

    def _record(self, kind: str, fields: str, *block: bytes) -> bytes:
        """Return a record as a gzip member of its own."""
        if self._storage.block_digests:
            fields += f"WARC-Block-Digest: {digest(*block)}\r\n"
        head = (
            f"WARC/1.1\r\nWARC-Type: {kind}\r\n{fields}"
            f"Content-Length: {sum(map(len, block))}\r\n\r\n"
        )
        record = b"".join((head.encode(), *block, b"\r\n\r\n"))
        member: bytes = isal_zlib.compress(record, self._storage.compression, _GZIP)
        return member


def warc_files(directory: Path) -> list[Path]:
    """Return the WARC files of a rank, oldest first."""
    files = directory.glob("*.warc.gz")
    return sorted((path for path in files if _FILE_NAME.fullmatch(path.name)), key=_serial)


def _serial(path: Path) -> int:
    return int(path.name.removesuffix(".warc.gz").rpartition("-")[2])


def warc_date(epoch_s: float) -> str:
    """Return a time in the form of WARC-Date, with microseconds."""
    second = int(epoch_s)
    microseconds = round((epoch_s - second) * 1e6)
    if microseconds == 1_000_000:
        second, microseconds = second + 1, 0
    # Compiled, a format such as {microseconds:06} takes three times as long.
    return f"{_second(second)}.{str(microseconds).zfill(6)}Z"


@lru_cache(256)  # many records have the same second
def _second(epoch_s: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(epoch_s))


def _warc_fields(fields: Mapping[str, str]) -> bytes:
    """Return a block of the type application/warc-fields. Fields without a value are left out."""
    lines = (f"{key}: {value}" for key, value in fields.items() if value)
    return b"".join(line.encode(errors="replace").translate(_ONE_LINE) + b"\r\n" for line in lines)


def _record_ids() -> Iterator[str]:
    """Yield random (version 4) UUIDs. A UUID takes a twentieth of the time of uuid.uuid4."""
    while True:
        text = os.urandom(16 * _IDS).hex()
        made = [text[at : at + 32] for at in range(0, len(text), 32)]
        yield from [f"<urn:uuid:{x[:8]}-{x[8:12]}-4{x[13:16]}-a{x[17:20]}-{x[20:]}>" for x in made]


def _http_head(response: Response) -> bytes:
    """Return the status line, and headers that fit the payload as it is stored.

    The stored payload has no transfer coding, and only content codings that all readers can undo. A
    header that doesn't fit the stored payload gets a name that begins with X-Crawler-.
    """
    status = f"HTTP/{response.version} {response.status} {response.reason}"
    status_line = status.encode("latin-1", "replace").translate(_ONE_LINE)
    true_length = b"%d" % len(response.stored)
    if response.raw_values(b"content-length") == [true_length] and not (
        response.raw_values(b"transfer-encoding")
        or (response.raw_values(b"content-encoding") and not response.readable)
    ):
        lines = b"".join([b"%b: %b\r\n" % header for header in response.headers])
        if _CLEAN_LINES.fullmatch(lines):
            return b"%b\r\n%b\r\n" % (status_line, lines)
    return b"%b\r\n%b\r\n" % (status_line, _fitting_lines(response, true_length))


def _fitting_lines(response: Response, true_length: bytes) -> bytes:
    """Return the header lines of `_http_head`. `true_length`: the length of the stored payload."""
    lines = []
    has_length = False
    for raw_name, raw_value in response.headers:
        name = raw_name.translate(_ONE_LINE).replace(b":", b" ").strip()
        value = raw_value.translate(_ONE_LINE).strip()
        lowered = name.lower()
        if lowered == b"content-length" and value == true_length and not has_length:
            has_length = True
        elif lowered in _FRAMING or (lowered == b"content-encoding" and not response.readable):
            name = b"X-Crawler-" + name
        lines.append(name + b": " + value)
    if not has_length:
        lines.append(b"Content-Length: " + true_length)
    return b"".join([b"%b\r\n" % line for line in lines])


def read_original(path: Path, offset: int, payload_digest: str) -> Original | None:
    """Return the record at a place, as a revisit names it, or None if it has another payload.

    If the record is a revisit itself, its original is returned.
    """
    with path.open("rb") as file:
        file.seek(offset)
        packed = file.read(_HEAD_BYTES)
    try:
        start = isal_zlib.decompressobj(_GZIP).decompress(packed, _HEAD_BYTES)
    except isal_zlib.error:  # type: ignore[misc]  # no record begins there
        return None
    lines = start.partition(b"\r\n\r\n")[0].decode("utf-8", "replace").split("\r\n")
    fields = {name: value for name, _, value in (line.partition(": ") for line in lines)}
    if fields.get("WARC-Payload-Digest") != payload_digest:
        return None
    if fields["WARC-Type"] == "revisit":
        return Original(
            fields["WARC-Refers-To-Target-URI"],
            fields["WARC-Refers-To-Date"],
            fields["WARC-Refers-To"],
        )
    return Original(fields["WARC-Target-URI"], fields["WARC-Date"], fields["WARC-Record-ID"])


def is_whole(path: Path, offset: int) -> bool:
    """Whether the record at a place, or its first 8 MB, can be read without an error."""
    member = isal_zlib.decompressobj(_GZIP)
    with path.open("rb") as file:
        file.seek(offset)
        for _ in range(_CHECKED_PIECES):
            piece = file.read(_PIECE)
            try:
                member.decompress(piece)  # this checks the checksum
            except isal_zlib.error:  # type: ignore[misc]
                return False
            if member.eof:
                return True
            if not piece:
                return False
    return True


def cut_torn_tail(path: Path) -> bool:
    """Cut off the record that a killed process was writing, so that readers accept the file.

    Returns whether the file has changed. A file without a whole record is removed. No row names the
    record, because rows are written after their records. A damaged file is left as it is, because
    good records may follow the damage. A symbolic link is left as it is, too, because it may lead
    to any file.
    """
    if path.is_symlink():
        return False
    with path.open("rb") as file:
        whole = position = 0
        member = isal_zlib.decompressobj(_GZIP)
        while piece := file.read(64 << 10):
            position += len(piece)
            while piece:
                try:
                    member.decompress(piece)
                except isal_zlib.error:  # type: ignore[misc]  # its stub takes it for an instance
                    return False
                piece = member.unused_data
                if member.eof:
                    whole = position - len(piece)
                    member = isal_zlib.decompressobj(_GZIP)
    if not whole:
        path.unlink()
    elif whole < position:
        file_number = os.open(path, os.O_WRONLY | os.O_NOFOLLOW)
        try:
            os.ftruncate(file_number, whole)
        finally:
            os.close(file_number)
    return whole < position
