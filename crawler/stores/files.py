"""Files of stores: written as a whole, with a checksum, and checked when they are read.

    8 bytes "ABC-SEEN", 4 bytes kind, u32 format version of the kind; the content;
    u64 length of the content, u32 CRC-32 of all bytes before the CRC

The length comes last, so that a file can be written before its length is known. A file gets its
name only when all of it is on disk. So a kill or a crash of the machine leaves either the whole
file or none under that name.
"""

import errno
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import msgspec
from isal import isal_zlib

from crawler.session import no_room_told, replacing, told_with

_MAGIC: Final = b"ABC-SEEN"
_HEAD: Final = struct.Struct("<8s4sI")
_LENGTH: Final = struct.Struct("<Q")
_CHECKSUM: Final = struct.Struct("<I")
CONTENT_STARTS: Final = _HEAD.size  # in bytes from the start of a file
RUNS: Final = "runs"  # the kind of a store of sorted runs
_PIECE: Final = 1 << 20  # bytes that are read and checked in one step, in some milliseconds


class Kind(NamedTuple):
    """A kind of file."""

    name: bytes  # four bytes
    version: int  # of the format of the content


class Generation(msgspec.Struct, array_like=True, frozen=True):
    """The files of a store at some moment, so that a later run can go on with them."""

    kind: str  # of the store, with all on which its files depend
    files: dict[str, tuple[int, int]]  # by name: bytes, and the checksum at the end


class DamagedStoreError(OSError):
    """A file of a store is torn, damaged, missing or foreign. The store must be rebuilt.

    For a crawl this is an error of the disk.
    """

    def __init__(self, path: Path, problem: str) -> None:
        words = f"{problem}; the store must be rebuilt from the logs"
        super().__init__(errno.EBADMSG, words, str(path))

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


class ContentWriter:
    """Writes the content of a new file, piece by piece."""

    def __init__(self, file: BinaryIO, kind: Kind) -> None:
        self.length = 0  # of the content so far, in bytes
        self._file = file
        self._checksum = 0
        self._put(_HEAD.pack(_MAGIC, *kind))

    def write(self, piece: bytes | memoryview) -> None:
        """Write the next piece. Raises OSError."""
        self._put(piece)
        self.length += len(piece)

    def sync(self) -> None:
        """Force the pieces so far to disk, so that the sync at the end takes less time."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def end(self) -> None:
        """Write what comes after the content."""
        self._put(_LENGTH.pack(self.length))
        self._file.write(_CHECKSUM.pack(self._checksum))

    def _put(self, piece: bytes | memoryview) -> None:
        self._file.write(piece)
        self._checksum = isal_zlib.crc32(piece, self._checksum)


@contextmanager
def writing(path: Path, kind: Kind) -> Iterator[ContentWriter]:
    """Write a file of a store. It replaces `path` at the end of the context, and is on disk then.

    The directory of `path` must exist. Raises NoRoomError or OSError; the old file stays then.
    """
    with replacing(path) as file:
        writer = ContentWriter(file, kind)
        yield writer
        writer.end()
    sync_directory(path.parent)


def reading(path: Path, kind: Kind) -> Iterator[bytes]:
    """Yield the content of a file of a store, in pieces of a megabyte.

    Raises DamagedStoreError, if need be only after the last piece. So use nothing before all pieces
    have come.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise DamagedStoreError(path, str(error.strerror)) from error
    with file, told_with(path):
        rest = os.fstat(file.fileno()).st_size - _HEAD.size - _LENGTH.size - _CHECKSUM.size
        head = file.read(_HEAD.size)
        if rest < 0 or head != _HEAD.pack(_MAGIC, *kind):
            raise DamagedStoreError(path, f"not a whole file of the kind {kind.name.decode()}")
        checksum, length = isal_zlib.crc32(head), rest
        while rest:
            piece = file.read(min(rest, _PIECE))
            if not piece:
                raise DamagedStoreError(path, "it was cut off while it was read")
            rest -= len(piece)
            checksum = isal_zlib.crc32(piece, checksum)
            yield piece
        told = file.read(_LENGTH.size)
        checksum = isal_zlib.crc32(told, checksum)
        if told != _LENGTH.pack(length) or file.read() != _CHECKSUM.pack(checksum):
            raise DamagedStoreError(path, "its checksum is wrong")


def sync_directory(directory: Path) -> None:
    """Force the names of a directory's files to disk. Raises NoRoomError or OSError."""
    with told_with(directory), no_room_told(directory):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def generation_of(kind: str, directory: Path) -> Generation:
    """Return the generation of a store, all of whose files must be whole and on disk."""
    return Generation(kind, {path.name: _size_and_end(path) for path in directory.iterdir()})


def check_generation(directory: Path, generation: Generation) -> None:
    """Check that a directory holds the files of a generation, byte for byte, and remove others.

    Raises DamagedStoreError or another OSError. Symbolic links aren't followed.
    """
    for name, told in generation.files.items():
        path = directory / name
        if directory.is_symlink() or path.parent != directory or path.is_symlink():
            raise DamagedStoreError(path, "not a file of the store")
        with _missing_told(path):
            if not path.is_file() or _size_and_end(path) != told:
                raise DamagedStoreError(path, "not the file that the snapshot names")
            with path.open("rb") as file:
                rest, checksum = told[0] - _CHECKSUM.size, 0
                while rest > 0 and (piece := file.read(min(rest, _PIECE))):
                    checksum = isal_zlib.crc32(piece, checksum)
                    rest -= len(piece)
        if rest or checksum != told[1]:
            raise DamagedStoreError(path, "its checksum is wrong")
    for path in directory.iterdir():
        if path.name not in generation.files:
            path.unlink()


def _size_and_end(path: Path) -> tuple[int, int]:
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - _CHECKSUM.size))
        end = file.read()
    if len(end) != _CHECKSUM.size:
        raise DamagedStoreError(path, "it is too short")
    (checksum,) = _CHECKSUM.unpack(end)
    return size, checksum


@contextmanager
def _missing_told(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise DamagedStoreError(path, "it is missing") from error
