"""WARC 1.1 files: the records of a fetch, written; and the little reading that revisits need.

Written by hand because it is the most expensive thing done to a page after parsing: a response
costs the SHA-1 sum of its payload, a compression by ISA-L, and little else. There is no digest of
blocks, which would cost as much as the former: it adds nothing to gzip's checksum of each record.
https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/
"""

import base64
import hashlib
import os
import re
import socket
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from isal import isal_zlib

from crawler import __version__
from crawler.config import Storage
from crawler.ports import Original, Response
from crawler.session.files import AppendFile

_FILE_NAME = re.compile(r"abc-\d+-\d+-\d+\.warc\.gz")  # others in the directory aren't ours
_GZIP = 31  # zlib's code for: with a gzip header and trailer
_PROFILES = "http://netpreserve.org/warc/1.1/revisit/"
# Bytes that would end a header line become spaces, whatever a server sent.
_ONE_LINE = bytes(32 if byte in b"\r\n\0" else byte for byte in range(256))
_FRAMING = frozenset((b"content-length", b"transfer-encoding"))
_PIECE = 64 << 10
_CHECKED_PIECES = 128
_HEAD_BYTES = 16 << 10  # compressed; the WARC headers of our records are far shorter


class Place(NamedTuple):
    """Where a record begins; the file is named relative to the rank's directory."""

    file: str
    offset: int


def digest(payload: bytes) -> str:
    """The WARC digest: "sha1:" and base 32."""
    sha1 = hashlib.sha1(payload, usedforsecurity=False)
    return "sha1:" + base64.b32encode(sha1.digest()).decode()


class WarcWriter:
    """Writes the WARC files of one rank, one after the other, each closed once past its size."""

    def __init__(
        self, directory: Path, rank: int, storage: Storage, about: Mapping[str, str]
    ) -> None:
        """`about` holds further fields of the warcinfo record that begins each file."""
        self._directory = directory
        self._rank = rank
        self._storage = storage
        self._about = about
        self._file: AppendFile | None = None
        files = warc_files(directory)
        self._serial = _serial(files[-1]) + 1 if files else 0

    def write(
        self, url: str, response: Response, payload_digest: str, original: Original | None
    ) -> Place:
        """Append a response (with `original`, a revisit) and its request, by a single write.

        `payload_digest`: of what was sent or, by a revisit after status 304, of the original.
        """
        head = _http_head(response)
        date = warc_date(response.started)
        response_id = _record_id()
        common = f"WARC-Target-URI: {url}\r\nWARC-Date: {date}\r\n"
        if response.address is not None:
            common += f"WARC-IP-Address: {response.address}\r\n"
        fields = (
            f"{common}WARC-Record-ID: {response_id}\r\nWARC-Payload-Digest: {payload_digest}\r\n"
        )
        media = "Content-Type: application/http;msgtype=response\r\n"
        # Where only what the payload decodes to is cut, the block isn't, unless it is decoded.
        if response.truncated and not (response.payload_whole and response.readable):
            fields += f"WARC-Truncated: {response.truncated}\r\n"
        if original is None:
            answer = self._record("response", fields + media, head, response.stored)
        else:
            unchanged = response.status == 304
            profile = "server-not-modified" if unchanged else "identical-payload-digest"
            fields += (
                f"WARC-Profile: {_PROFILES}{profile}\r\n"
                f"WARC-Refers-To: {original.record_id}\r\n"
                f"WARC-Refers-To-Target-URI: {original.url}\r\n"
                f"WARC-Refers-To-Date: {original.date}\r\n"
            )
            # Without a block, the page is replayed with the headers that it had. With those of the
            # 304, pywb would tell browsers to look into their caches.
            answer = self._record("revisit", *((fields,) if unchanged else (fields + media, head)))
        fields = (
            f"{common}WARC-Record-ID: {_record_id()}\r\n"
            f"WARC-Concurrent-To: {response_id}\r\n"
            "Content-Type: application/http;msgtype=request\r\n"
        )
        request = self._record("request", fields, response.request_head)

        file = self._file or self._open()
        name = file.path.name
        info = b"" if file.size else self._warcinfo(name)
        offset = file.append(info + answer + request) + len(info)
        if file.size >= self._storage.warc_size:
            self.close()
        return Place(name, offset)

    def sync(self) -> None:
        if self._file:
            self._file.sync()

    def close(self) -> None:
        if self._file:
            file, self._file = self._file, None
            file.close()
            if not file.size:  # its first write failed
                file.path.unlink()

    def _open(self) -> AppendFile:
        now = time.strftime("%Y%m%d%H%M%S", time.gmtime())
        name = f"abc-{now}-{self._rank:05}-{self._serial:05}.warc.gz"
        self._file = AppendFile(self._directory / name)
        self._serial += 1
        return self._file

    def _warcinfo(self, name: str) -> bytes:
        content = {
            "software": f"abc-crawler/{__version__}",
            "format": "WARC File Format 1.1",
            "conformsTo": "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
            "hostname": socket.gethostname(),
            **self._about,
        }
        block = b"".join(
            f"{key}: {value}".encode().translate(_ONE_LINE) + b"\r\n"
            for key, value in content.items()
        )
        fields = (
            f"WARC-Date: {warc_date(time.time())}\r\nWARC-Filename: {name}\r\n"
            f"WARC-Record-ID: {_record_id()}\r\nContent-Type: application/warc-fields\r\n"
        )
        return self._record("warcinfo", fields, block)

    def _record(self, kind: str, fields: str, *block: bytes) -> bytes:
        """A record as a gzip member of its own."""
        head = (
            f"WARC/1.1\r\nWARC-Type: {kind}\r\n{fields}"
            f"Content-Length: {sum(map(len, block))}\r\n\r\n"
        )
        record = b"".join((head.encode(), *block, b"\r\n\r\n"))
        member: bytes = isal_zlib.compress(record, self._storage.compression, _GZIP)
        return member


def warc_files(directory: Path) -> list[Path]:
    """The WARC files of a rank, oldest first."""
    files = directory.glob("abc-*.warc.gz")
    return sorted((path for path in files if _FILE_NAME.fullmatch(path.name)), key=_serial)


def _serial(path: Path) -> int:
    return int(path.name.removesuffix(".warc.gz").rpartition("-")[2])


def warc_date(epoch_s: float) -> str:
    return (
        datetime.fromtimestamp(epoch_s, UTC).replace(tzinfo=None).isoformat(timespec="microseconds")
        + "Z"
    )


def _record_id() -> str:
    """A random (version 4) UUID; as uuid.uuid4, which takes four times as long."""
    digits = os.urandom(16).hex()
    return f"<urn:uuid:{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}>"


def _http_head(response: Response) -> bytes:
    """Status line and headers that are true of the payload as it is stored.

    The stored payload has no transfer coding, and no content coding that some reader can't undo. If
    a header isn't true of it, its value is kept under a name that begins with X-Crawler-.
    """
    reason = response.reason.encode("latin-1", "replace").translate(_ONE_LINE)
    lines = [b"HTTP/%b %d %b" % (response.version.encode(), response.status, reason)]
    true_length = b"%d" % len(response.stored)
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
    return b"\r\n".join(lines) + b"\r\n\r\n"


def read_original(path: Path, offset: int, payload_digest: str) -> Original | None:
    """The record at a place, as a revisit names it; None if it isn't of this payload.

    Where there is a revisit, it names the same original.
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
    """Whether the record at a place can be read to its end, or for its first 8 MB."""
    member = isal_zlib.decompressobj(_GZIP)
    with path.open("rb") as file:
        file.seek(offset)
        for _ in range(_CHECKED_PIECES):
            piece = file.read(_PIECE)
            try:
                member.decompress(piece)  # which holds the text against its checksum
            except isal_zlib.error:  # type: ignore[misc]
                return False
            if member.eof:
                return True
            if not piece:
                return False
    return True


def cut_torn_tail(path: Path) -> None:
    """Cut off the record that a killed process was writing, so that readers accept the file.

    No row points there: it would have been written afterwards. A file that is damaged rather than
    torn is left alone, as what follows the damage may be good. So is a symbolic link:
    whoever put it there may have put it on any file.
    """
    if path.is_symlink():
        return
    with path.open("rb") as file:
        whole = position = 0
        member = isal_zlib.decompressobj(_GZIP)
        while piece := file.read(64 << 10):
            position += len(piece)
            while piece:
                try:
                    member.decompress(piece)
                except isal_zlib.error:  # type: ignore[misc]  # its stub takes it for an instance
                    return
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
