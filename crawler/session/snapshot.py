"""A rank's snapshot: what it knew when the session was stopped, so that no log has to be read.

It is never needed. Whatever is wrong with it, the logs say all of it, too; they are the truth. So
it counts only if every rank has one, if all were made on the same basis (settings, ranks, part
vector), and if together they name all log files of the session with the lengths that these have.

    8 bytes "ABC-SNAP", u32 format version; then two blocks, each a u64 length, a u32 CRC-32 and
    that many bytes: MessagePack of [basis, log files with their lengths]; zstd of the content
"""

import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
import zstandard
from isal import isal_zlib

from crawler.session.replay import LogFile

_NAME: Final = "snapshot"
_START: Final = struct.Struct("<8sI")
_MAGIC: Final = b"ABC-SNAP"
_VERSION: Final = 3  # the first whose sites are named without a scheme
_BLOCK: Final = struct.Struct("<QI")


class _Head(msgspec.Struct, array_like=True):
    basis: str
    logs: dict[str, int]  # bytes by path


_decode_head = msgspec.msgpack.Decoder(_Head).decode


def write_snapshot(
    session: Path, rank: int, basis: str, logs: Iterable[Path], content: bytes
) -> None:
    """`logs`: those whose pages are in the content. If there is no room, there is no snapshot."""
    sizes = {str(path.relative_to(session)): path.stat().st_size for path in logs}
    path = _path(session, rank)
    new = path.with_suffix(".new")
    try:
        with new.open("wb") as file:
            file.write(_START.pack(_MAGIC, _VERSION))
            for block in (
                msgspec.msgpack.encode(_Head(basis, sizes)),
                zstandard.ZstdCompressor(level=1).compress(content),
            ):
                file.write(_BLOCK.pack(len(block), isal_zlib.crc32(block)) + block)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError:
        for useless in (new, path):
            with suppress(OSError):
                useless.unlink()


def snapshots_fit(session: Path, ranks: int, basis: str, logs: Iterable[LogFile]) -> bool:
    """Whether the ranks may begin with their snapshots."""
    covered: dict[str, int] = {}
    for rank in range(ranks):
        block = next(_blocks(_path(session, rank)), None)
        head = None if block is None else _decode_head(block)
        if head is None or head.basis != basis:
            return False
        covered |= head.logs
    return covered == {str(log.path.relative_to(session)): log.bytes for log in logs}


def read_snapshot(session: Path, rank: int) -> bytes | None:
    """The content of a snapshot that fits, unless it is damaged."""
    blocks = list(_blocks(_path(session, rank)))
    return zstandard.ZstdDecompressor().decompress(blocks[1]) if len(blocks) == 2 else None


def remove_snapshots(session: Path) -> None:
    """Of all ranks, also of those that aren't there any more: the session is complete."""
    for path in session.glob(f"rank-*/{_NAME}"):
        path.unlink()


def _blocks(path: Path) -> Iterator[bytes]:
    """Up to the first that isn't whole."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        if file.read(_START.size) == _START.pack(_MAGIC, _VERSION):
            while (block := _block(file)) is not None:
                yield block


def _block(file: BinaryIO) -> bytes | None:
    """The next block, if it is whole."""
    start = file.read(_BLOCK.size)
    if len(start) < _BLOCK.size:
        return None
    length, checksum = _BLOCK.unpack(start)
    if length > os.fstat(file.fileno()).st_size:
        return None
    block = file.read(length)
    return block if len(block) == length and isal_zlib.crc32(block) == checksum else None


def _path(session: Path, rank: int) -> Path:
    return session / f"rank-{rank:05}" / _NAME
