"""Buckets: files of a store that grow by blocks of entries, until a cycle reads them whole.

A block begins with a head: a magic number, the number of its entries, the bytes of its data, and a
checksum of its columns. The columns follow, one after the other. A kind of bucket has only some of
the columns: DRUM has the keys and values in one file, and the texts with aux in another.
"""

from pathlib import Path
from typing import Final

import numpy as np
from xxhash import xxh3_64

from crawler.stores.entries import Entries
from crawler.stores.files import DamagedStoreError
from crawler.stores.folder import Array, Bytes, Folder, as_bytes

_HEAD: Final = np.dtype([("magic", "S4"), ("entries", "<u4"), ("bytes", "<u8"), ("sum", "<u8")])
_MAGIC: Final = b"ABCb"
_COLUMNS: Final = tuple(map(np.dtype, ("<u8", "<u8", "<u2", "<u4")))  # as in Entries, before `data`

KEYS_AND_VALUES: Final = (0, 1)
TEXTS: Final = (2, 3)
ALL: Final = (0, 1, 2, 3)


def append(folder: Folder, name: str, entries: Entries, columns: tuple[int, ...]) -> None:
    """Append a block of entries to a bucket, with these columns of theirs."""
    parts: list[Array] = [entries[column] for column in columns]
    if columns != KEYS_AND_VALUES:
        parts.append(entries.data)
    size = 0 if columns == KEYS_AND_VALUES else len(entries.data)
    head = np.array([(_MAGIC, len(entries.keys), size, _checksum(parts))], _HEAD)
    folder.append(name, [head, *parts], len(entries.keys))


def read(folder: Folder, name: str, columns: tuple[int, ...]) -> Entries:
    """Return all entries of a bucket. The columns that it doesn't have are empty.

    Raises DamagedStoreError.
    """
    blocks, at = [], 0
    content = folder.read_bucket(name)
    while at < len(content):
        block, at = _block(folder.path / name, content, at, columns)
        blocks.append(block)
    return Entries.joined(blocks)


def _block(path: Path, content: Bytes, at: int, columns: tuple[int, ...]) -> tuple[Entries, int]:
    """Return the block at a place, and where the next one begins."""
    damaged = DamagedStoreError(path, f"the block at byte {at} is damaged")
    if at + _HEAD.itemsize > len(content):
        raise damaged
    (head,) = content[at : at + _HEAD.itemsize].view(_HEAD)
    at += _HEAD.itemsize
    number, size = int(head["entries"]), int(head["bytes"])
    needed = number * sum(_COLUMNS[column].itemsize for column in columns) + size
    if head["magic"] != _MAGIC or at + needed > len(content):
        raise damaged
    found: list[Array] = [np.zeros(0, kind) for kind in _COLUMNS]
    parts = []
    for column in columns:
        end = at + number * _COLUMNS[column].itemsize
        found[column] = content[at:end].view(_COLUMNS[column]).copy()  # aligned
        parts.append(found[column])
        at = end
    found.append(content[at : at + size])
    if _checksum([*parts, found[-1]]) != head["sum"]:
        raise damaged
    return Entries._make(found), at + size


def _checksum(parts: list[Array]) -> int:
    checksum = xxh3_64()
    for part in parts:
        checksum.update(as_bytes(part))
    return checksum.intdigest()
