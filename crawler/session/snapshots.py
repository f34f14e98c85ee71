"""Snapshots: what the ranks knew when a session was stopped, so that no log has to be read.

`Snapshots` is the only code that finds, reads, leaves and removes snapshots. A snapshot is never
needed, because the logs hold all of its content. So a snapshot is used only if every rank has one
of the same run, if all have the fingerprint of today (see `fingerprint`), and if the log files that
they name are there. Logs that were written later are read as well.

The log files that are named must have the lengths and the hashes that the snapshots name: pages
that a damaged log has lost must be fetched again, so a snapshot mustn't know them.

The ranks replace their snapshots together. Each first writes a new one beside the old one
(`leave`). Only when all have written theirs, the new ones take the place of the old ones
(`replace`). In snapshots of different runs, one rank may have sent URLs that another one hasn't
received.

    8 bytes "ABC-SNAP", u32 format version; then blocks, each a u64 length, a u32 CRC-32 and that
    many bytes: MessagePack of [fingerprint, run, {log file: [length, XXH3-64]}]; the blocks of
    the content, in zstd; an empty block
"""

import logging
import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
import zstandard
from isal import isal_zlib
from xxhash import xxh3_64

from crawler.ports import NoRoomError
from crawler.session.files import replacing
from crawler.session.joined import joined_file
from crawler.session.shards import LogFile

_LOG = logging.getLogger("crawler")
_NAME: Final = "snapshot"
_NEXT: Final = "snapshot.next"  # until all ranks have written theirs
_START: Final = struct.Struct("<8sI")
_MAGIC: Final = b"ABC-SNAP"
_VERSION: Final = 7
_PIECE: Final = 16 << 20  # bytes of a log that are hashed in one step, in a few milliseconds
_BLOCK: Final = struct.Struct("<QI")


class _Head(msgspec.Struct, array_like=True):
    fingerprint: str
    run: int  # the number of the run that has left it
    logs: dict[str, tuple[int, int]]  # bytes and hash, by path


_decode_head = msgspec.msgpack.Decoder(_Head).decode


class LogHashes:
    """Lengths and hashes, by path, of log files that don't grow any more.

    A hash also covers the file that names the sites that joined (`joined`).
    """

    def __init__(self) -> None:
        self.of: dict[Path, tuple[int, int]] = {}

    def read(self, paths: Iterable[Path]) -> Iterator[None]:
        """Read files that haven't been read before, in steps of a few milliseconds."""
        for path in paths:
            if path in self.of:
                continue
            content, size = xxh3_64(), 0
            with path.open("rb") as file:
                while piece := file.read(_PIECE):
                    content.update(piece)
                    size += len(piece)
                    yield
            with suppress(FileNotFoundError):
                content.update(joined_file(path).read_bytes())
            self.of[path] = size, content.intdigest()

    def of_all(self, paths: Iterable[Path]) -> dict[Path, tuple[int, int]]:
        """Return lengths and hashes of these files, of which some may have been read before."""
        for _ in self.read(paths):
            pass
        return self.of


class Snapshots(msgspec.Struct, frozen=True):
    """The snapshots of a session, one for each rank of its next run."""

    session: Path
    ranks: int
    fingerprint: str  # of all that the snapshots depend on besides the logs

    def covered(self, logs: Iterable[LogFile]) -> frozenset[Path] | None:
        """Return the logs whose pages are in the snapshots that are there.

        Returns None if the ranks can't begin with these snapshots.
        """
        covered: dict[str, int] = {}
        runs: set[int] = set()
        for rank in range(self.ranks):
            block = next(_blocks(self._path(rank)), None)
            head = None if block is None else _decode_head(block)
            if head is None or head.fingerprint != self.fingerprint:
                return None
            covered |= {path: size for path, (size, _) in head.logs.items()}
            runs.add(head.run)
        there = {str(log.path.relative_to(self.session)): log.bytes for log in logs}
        if len(runs) > 1 or any(there.get(path) != size for path, size in covered.items()):
            return None
        return frozenset(self.session / path for path in covered)

    def read(self, rank: int, hashes: LogHashes) -> Iterator[bytes] | None:
        """Return the blocks of a rank's snapshot; None if it, or a log that it covers, is damaged.

        `hashes` has, or will have, those of the logs.
        """
        blocks = _blocks(self._path(rank))
        first, last = next(blocks, b""), b"-"
        for last in blocks:  # noqa: B007  # reads and checks all
            pass
        if last or not first:
            return None
        logs = {self.session / name: told for name, told in _decode_head(first).logs.items()}
        known = hashes.of_all(logs)
        if any(known[log] != told for log, told in logs.items()):
            return None
        decompress = zstandard.ZstdDecompressor().decompress
        return (decompress(block) for block in islice(_blocks(self._path(rank)), 1, None) if block)

    def leave(
        self,
        rank: int,
        run: int,
        logs: Sequence[Path],
        content: Iterable[bytes],
        hashes: LogHashes,
    ) -> bool:
        """Write a rank's next snapshot, if the disk has room. Returns whether it is written.

        It counts from `replace` on. `content`: its blocks. `run`: the number of the run that leaves
        it. `logs` are the log files whose pages are in the content. `hashes` has, or will have,
        those of the logs.
        """
        path = self._path(rank, _NEXT)
        try:
            known = hashes.of_all(logs)
            told = {str(log.relative_to(self.session)): known[log] for log in logs}
            head = _Head(self.fingerprint, run, told)
            with replacing(path) as file:
                file.write(_START.pack(_MAGIC, _VERSION))
                blocks = map(zstandard.ZstdCompressor(level=1).compress, content)
                for block in chain((msgspec.msgpack.encode(head),), blocks, (b"",)):
                    file.write(_BLOCK.pack(len(block), isal_zlib.crc32(block)) + block)
        except (OSError, NoRoomError) as error:
            _LOG.warning("no snapshot: %s", error)
            return False
        return True

    def replace(self, rank: int) -> None:
        """Let a rank's next snapshot take the place of the last one, once all have left theirs."""
        self._path(rank, _NEXT).replace(self._path(rank))

    def remove(self) -> None:
        """Remove the snapshots of all ranks, also of ranks that the next run won't have."""
        for name in (_NAME, _NEXT):
            for path in self.session.glob(f"rank-*/{name}"):
                path.unlink()

    def _path(self, rank: int, name: str = _NAME) -> Path:
        return self.session / f"rank-{rank:05}" / name


def _blocks(path: Path) -> Iterator[bytes]:
    """Yield the blocks of a snapshot, up to the first one that isn't whole or can't be read."""
    with suppress(OSError), path.open("rb") as file:
        if file.read(_START.size) == _START.pack(_MAGIC, _VERSION):
            while (block := _block(file)) is not None:
                yield block


def _block(file: BinaryIO) -> bytes | None:
    """Return the next block, or None if it isn't whole."""
    start = file.read(_BLOCK.size)
    if len(start) < _BLOCK.size:
        return None
    length, checksum = _BLOCK.unpack(start)
    if length > os.fstat(file.fileno()).st_size:
        return None
    block = file.read(length)
    return block if len(block) == length and isal_zlib.crc32(block) == checksum else None
