"""Reads WARC files record by record, and checks lengths and hashes, for the command `verify`."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from isal import isal_zlib

from crawler.session.warc import digest

_GZIP = 31  # zlib's code for data with a gzip header and trailer
_PIECE = 256 << 10
_END = b"\r\n\r\n"  # ends a record, and also its head


class Record(NamedTuple):
    """A whole record: its lengths and hashes are right."""

    offset: int
    length: int  # of its gzip member
    kind: str
    fields: dict[str, str]  # by lower-case name
    block: bytes

    @property
    def http_head(self) -> bytes:
        """Return the head of the HTTP message in the block."""
        return self.block.partition(_END)[0]

    @property
    def payload(self) -> bytes:
        """Return the payload of the HTTP response in the block."""
        return self.block.partition(_END)[2]


class Damage(NamedTuple):
    """Bytes that are no whole record."""

    offset: int
    what: str
    torn: bool  # whether the file ends in the middle of the record


class MalformedError(Exception):
    """A record is wrong; the message says how."""


def read_records(path: Path, offset: int = 0) -> Iterator[Record | Damage]:
    """Yield the records of a file, from an offset on.

    If gzip could read a damaged record to its end, the records behind it follow. Otherwise the
    Damage is the last element.
    """
    with path.open("rb") as file:
        file.seek(offset)
        rest = file.read(_PIECE)
        while rest:
            member, data, size = isal_zlib.decompressobj(_GZIP), bytearray(), 0
            try:
                while rest and not member.eof:
                    data += member.decompress(rest)
                    size += len(rest)
                    rest = member.unused_data if member.eof else file.read(_PIECE)
            except isal_zlib.error:  # type: ignore[misc]  # its stub takes it for an instance
                yield Damage(offset, "the gzip member of the record is damaged", torn=False)
                return
            if not member.eof:
                what = f"the file ends in this record, after {size:,} bytes"
                yield Damage(offset, what, torn=True)
                return
            try:
                yield _parse(offset, size - len(rest), bytes(data))
            except MalformedError as error:
                yield Damage(offset, str(error), torn=False)
            offset += size - len(rest)
            rest = rest or file.read(_PIECE)


def _parse(offset: int, length: int, data: bytes) -> Record:
    head, _, tail = data.partition(_END)
    version, *lines = head.decode("utf-8", "replace").split("\r\n")
    if version not in {"WARC/1.0", "WARC/1.1"}:
        raise MalformedError("it isn't a WARC record")
    fields = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    if not tail.endswith(_END):
        raise MalformedError("it doesn't end as a WARC record does")
    record = Record(offset, length, fields.get("warc-type", ""), fields, tail[: -len(_END)])
    if fields.get("content-length") != str(len(record.block)):
        raise MalformedError(
            f"Content-Length is {fields.get('content-length')}, but the block has"
            f" {len(record.block)} bytes"
        )
    block_digest = fields.get("warc-block-digest")  # earlier versions wrote one
    if block_digest is not None and block_digest != digest(record.block):
        raise MalformedError("WARC-Block-Digest isn't the digest of the block")
    if record.kind == "response" and fields.get("warc-payload-digest") != digest(record.payload):
        raise MalformedError("WARC-Payload-Digest isn't the digest of the payload")
    return record
