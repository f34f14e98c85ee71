"""WARC files read back record by record, each held against its own sums. `verify` walks them."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from isal import isal_zlib

from crawler.session.warc import digest

_GZIP = 31  # zlib's code for: with a gzip header and trailer
_PIECE = 256 << 10
_END = b"\r\n\r\n"  # of a record, and of a head


class Record(NamedTuple):
    """A record that is whole: its sums and lengths are right."""

    offset: int
    kind: str
    fields: dict[str, str]  # by lower-case name
    block: bytes

    @property
    def http_head(self) -> bytes:
        return self.block.partition(_END)[0]

    @property
    def payload(self) -> bytes:
        """Of the HTTP response in the block."""
        return self.block.partition(_END)[2]


class Damage(NamedTuple):
    """Something that is no whole record."""

    offset: int
    what: str
    torn: bool  # the file just ends there


class MalformedError(Exception):
    """What is wrong with a record."""


def read_records(path: Path, offset: int = 0) -> Iterator[Record | Damage]:
    """The records from an offset on. After a Damage what follows can be read only if it is a record
    that is whole as far as gzip goes; else the Damage is the last."""
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
                yield Damage(offset, "its gzip member is damaged", torn=False)
                return
            if not member.eof:
                yield Damage(offset, f"the file ends in it, after {size:,} bytes", torn=True)
                return
            try:
                yield _parse(offset, bytes(data))
            except MalformedError as error:
                yield Damage(offset, str(error), torn=False)
            offset += size - len(rest)
            rest = rest or file.read(_PIECE)


def _parse(offset: int, data: bytes) -> Record:
    head, _, tail = data.partition(_END)
    version, *lines = head.decode("utf-8", "replace").split("\r\n")
    if version not in {"WARC/1.0", "WARC/1.1"}:
        raise MalformedError("it isn't a WARC record")
    fields = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    if not tail.endswith(_END):
        raise MalformedError("it doesn't end as a WARC record does")
    record = Record(offset, fields.get("warc-type", ""), fields, tail[: -len(_END)])
    if fields.get("content-length") != str(len(record.block)):
        raise MalformedError(f"Content-Length isn't that of its block, {len(record.block):,}")
    block_digest = fields.get("warc-block-digest")  # earlier versions wrote one
    if block_digest is not None and block_digest != digest(record.block):
        raise MalformedError("WARC-Block-Digest isn't that of its block")
    if record.kind == "response" and fields.get("warc-payload-digest") != digest(record.payload):
        raise MalformedError("WARC-Payload-Digest isn't that of its payload")
    return record
