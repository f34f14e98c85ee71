"""Files for the ends of queues that don't fit in a rank's memory (see `ports.Spill`)."""

import logging
import os
import shutil
from pathlib import Path
from typing import Final, Self

from crawler.ports import NoRoomError

_LOG = logging.getLogger("crawler")
_FILE_BYTES: Final = 64 << 20
_OFFSETS: Final = 1 << 40  # more than a file has bytes
_LENGTH_BYTES: Final = 4


class SpillFiles:
    """Stores chunks of bytes in files. Use it as a context manager.

    A file is deleted when all its chunks have been taken. Files of an earlier run are removed at
    the start, and all files at the end, because they hold only derived state. The length of each
    chunk comes before it.
    """

    def __init__(self, directory: Path) -> None:
        """`directory` must hold no other files."""
        self._directory = directory
        self._remove()
        self._full = False  # whether there was no room for the last chunk
        self._files: dict[int, int] = {}  # descriptors by number
        self._chunks: dict[int, int] = {}  # number of chunks not taken yet, by file
        self._latest = -1  # the file that is written to
        self._end = _FILE_BYTES  # where the latest file ends

    def put(self, chunk: bytes) -> int:
        """Write a chunk behind the last one. Returns the number with which `take` finds the chunk.

        Raises NoRoomError for any error of the disk. Then the caller can keep the chunk.
        """
        try:
            number = self._put(chunk)
        except OSError as error:
            words = f"{self._directory}: {error.strerror}"
            if not self._full:
                _LOG.warning("no room: %s; waiting URLs stay in memory meanwhile", words)
            self._full = True
            raise NoRoomError(words) from error
        if self._full:
            _LOG.warning("there is room again for waiting URLs")
        self._full = False
        return number

    def _put(self, chunk: bytes) -> int:
        if self._end >= _FILE_BYTES:
            self._begin()
        place = end = self._end
        data = len(chunk).to_bytes(_LENGTH_BYTES, "little") + chunk
        file = self._files[self._latest]
        while data:
            written = os.pwrite(file, data, end)
            end += written
            data = data[written:]
        self._end = end  # after an error the next chunk overwrites this one
        self._chunks[self._latest] += 1
        return self._latest * _OFFSETS + place

    def read(self, number: int) -> bytes:
        """Read a chunk, which stays."""
        file_number, place = divmod(number, _OFFSETS)
        file = self._files[file_number]
        length = int.from_bytes(os.pread(file, _LENGTH_BYTES, place), "little")
        chunk = os.pread(file, length, place + _LENGTH_BYTES)
        assert len(chunk) == length, (file_number, place)
        return chunk

    def take(self, number: int) -> bytes:
        """Read a chunk, and forget it. A chunk can be taken once."""
        chunk = self.read(number)
        file_number = number // _OFFSETS
        self._chunks[file_number] -= 1
        if file_number != self._latest:
            self._end_if_empty(file_number)
        return chunk

    def close(self) -> None:
        """Remove all files."""
        for file in self._files.values():
            os.close(file)
        self._files.clear()
        self._remove()

    def _remove(self) -> None:
        if self._directory.is_symlink() or not self._directory.is_dir():
            self._directory.unlink(missing_ok=True)
        shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self) -> None:
        before = self._latest
        self._directory.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._files[before + 1] = os.open(self._path(before + 1), flags, 0o644)
        self._latest = before + 1
        self._chunks[self._latest] = 0
        self._end = 0
        if before >= 0:
            self._end_if_empty(before)

    def _end_if_empty(self, number: int) -> None:
        if not self._chunks[number]:
            os.close(self._files.pop(number))
            self._path(number).unlink()
            del self._chunks[number]

    def _path(self, number: int) -> Path:
        return self._directory / f"{number:06}"
