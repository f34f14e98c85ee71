"""A sorted run of keys: a file that never changes, with its filter and index in memory."""

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np

from crawler.stores.files import CONTENT_STARTS, DamagedStoreError, Kind, reading, writing
from crawler.stores.filter import (
    KEY_BYTES,
    LEAST_BITS,
    Flags,
    Index,
    Keys,
    filter_bytes,
    index_bytes,
    new_filter,
    new_index,
    pack,
    search,
    shift_of,
    unpack,
)

STEP: Final = 1 << 17  # keys of a merge that are handled in one step
_RUN: Final = Kind(b"RUN ", 2)
_PIECE_BYTES: Final = 1 << 20
_PLACES: Final = 1 << LEAST_BITS


class Run:
    """A run: a file that never changes, and what memory holds of it."""

    def __init__(self, path: Path, keys: int, index: Index, bloom: Keys) -> None:
        self.path = path
        self.keys = keys  # their number
        self._index = index
        self._bloom = bloom
        self._shift = shift_of(index)
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    @property
    def nbytes(self) -> int:
        """The bytes of memory in use."""
        return self._index.nbytes + self._bloom.nbytes

    def search(self, keys: Keys, hit: Flags, cache: Keys) -> None:
        """Mark the mixed keys that the run has. Raises DamagedStoreError."""
        buffer = np.empty(3 * 64, np.uint16)
        file = self._file, CONTENT_STARTS
        if search(keys, hit, self._index, self._shift, self._bloom, *file, buffer, cache) >= 0:
            raise DamagedStoreError(self.path, "keys can't be read")

    def between(self, start: int, stop: int) -> Keys:
        """Return the mixed keys whose upper 16 bits are from `start` to before `stop`."""
        scale = (len(self._index) - 1) // _PLACES
        start, stop = scale * start, scale * stop
        first, last = int(self._index[start]), int(self._index[stop])
        wanted = KEY_BYTES * (last - first)
        content = os.pread(self._file, wanted, CONTENT_STARTS + KEY_BYTES * first)
        if len(content) != wanted:
            raise DamagedStoreError(self.path, "keys can't be read")
        packed = np.frombuffer(content, np.uint16)
        return unpack(packed, self._index, self._shift, start, stop)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def run_bytes(keys: int) -> int:
    """Return the bytes of memory that a run of so many keys takes."""
    return filter_bytes(keys) + index_bytes(keys)


def open_run(path: Path, keys: int) -> Run:
    """Open a run that holds so many keys, and check all of it. Raises DamagedStoreError."""
    rest, tail = KEY_BYTES * keys, bytearray()
    for piece in reading(path, _RUN):
        tail += piece[rest:]
        rest -= min(rest, len(piece))
    index = np.empty_like(new_index(keys))
    if len(tail) <= index.nbytes or (len(tail) - index.nbytes) % 64:
        raise DamagedStoreError(path, "it has another length than its manifest says")
    index = np.frombuffer(tail, np.uint32, len(index))
    return Run(path, keys, index, np.frombuffer(tail, np.uint64, offset=index.nbytes))


def write_run(path: Path, most: int, parts: Iterable[Keys]) -> Iterator[Run | None]:
    """Write a run in steps. `parts`: mixed keys, sorted as a whole; `most`: at least their number.

    Yields None, and the run in the end. Raises OSError or NoRoomError; then there is no file.
    """
    index, bloom, keys = new_index(most), new_filter(most), 0
    with writing(path, _RUN) as file:
        for part in parts:
            file.write(pack(part, shift_of(index), index, bloom).tobytes())
            keys += len(part)
            yield None
        if len(new_index(keys)) != len(index):  # a merge found keys in several runs
            index = index[1:].reshape(len(new_index(keys)) - 1, -1).sum(1, np.uint32)
            index = np.concatenate([np.zeros(1, np.uint32), index])
        np.cumsum(index, out=index)
        for piece in chain(_pieces(index), _pieces(bloom)):
            file.write(piece)
            yield None
    yield Run(path, keys, index, bloom)


def _pieces(array: Index | Keys) -> Iterator[memoryview]:
    """Yield the bytes of an array, in pieces that are written in a few milliseconds."""
    content = array.view(np.uint8).data
    for start in range(0, len(content), _PIECE_BYTES):
        yield content[start : start + _PIECE_BYTES]


def merged(runs: Sequence[Run]) -> Iterator[Keys]:
    """Yield the mixed keys of all runs, sorted, each once, in parts of a step each."""
    steps = min(_PLACES, 1 + sum(run.keys for run in runs) // STEP)
    for step in range(steps):
        start, stop = step * _PLACES // steps, (step + 1) * _PLACES // steps
        keys = np.concatenate([run.between(start, stop) for run in runs])
        keys.sort()
        yield keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys
