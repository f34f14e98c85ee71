"""Merges entries into a sorted repository of keys, each with its value (`entries.Value`).

A repository is a file of pairs of 64-bit numbers, a key and a value, ascending by key. A merge
reads it in chunks, and writes a new one. Each step of a merge takes a few milliseconds.
"""

from collections.abc import Generator, Iterator
from itertools import pairwise
from typing import Final

import numpy as np

from crawler.compiled import compiled
from crawler.stores.entries import CRAWLED, MAX_LINKS, UPDATE, Flags, Keys, Order, partition
from crawler.stores.folder import Folder, NewFile

_NOTHING: Final = np.frombuffer(b"", np.uint64)  # of the type of pairs that were read
_PIECE_BITS: Final = 15  # entries that are sorted in one step, about 2 to this power

_UPDATE: Final = np.uint64(UPDATE)
_CRAWLED: Final = np.uint64(CRAWLED)
_LINKS: Final = np.uint64(MAX_LINKS)
_HIGH: Final = np.uint64(0xFFFF_FFFF_0000_0000)


class PairReader:
    """Reads the pairs of a repository in ascending order."""

    def __init__(self, folder: Folder, name: str) -> None:
        self._pieces = folder.pieces(name)
        self._rest = _NOTHING

    def up_to(self, bound: int | None) -> Iterator[Keys]:
        """Give chunks of the pairs whose keys are below the bound; without one, of all that follow.

        Raises DamagedStoreError.
        """
        while True:
            if not len(self._rest):
                piece = next(self._pieces, None)
                if piece is None:
                    return
                self._rest = np.frombuffer(piece, np.uint64)
            end = len(self._rest)
            if bound is not None:
                end = 2 * int(np.searchsorted(self._rest[::2], np.uint64(bound)))
            chunk, self._rest = self._rest[:end], self._rest[end:]
            if len(chunk):
                yield chunk
            if len(self._rest):
                return


def merge_pairs(
    old: PairReader,
    bound: int | None,
    keys: Keys,
    values: Keys,
    known: Flags,
    new: Flags,
    out: NewFile,
) -> Iterator[None]:
    """Merge entries with the pairs of a repository whose keys are below a bound, in steps.

    All keys of the entries must be below the bound, too. `known`: entries whose key is known from
    elsewhere. Fills `new`, and puts into `values` what the repository then knows of each entry.
    """
    order = yield from sorting(keys)
    ascending = keys[order]
    begin = 0
    for pairs in old.up_to(bound):
        end = int(np.searchsorted(ascending, pairs[-2], "right"))
        _merge(pairs, order[begin:end], keys, values, known, new, out)
        begin = end
        yield
    if begin < len(order):
        _merge(_NOTHING, order[begin:], keys, values, known, new, out)
        yield


def _merge(
    pairs: Keys,
    order: Order,
    keys: Keys,
    values: Keys,
    known: Flags,
    new: Flags,
    out: NewFile,
) -> None:
    if not len(order):
        out.write(pairs, len(pairs) // 2)
        return
    merged = np.empty(len(pairs) + 2 * len(order), np.uint64)
    size = merge_chunk(pairs, order, keys, values, known, new, merged)
    out.write(merged[:size], size // 2)


def sorting(keys: Keys) -> Generator[None, None, Order]:
    """Return the order of keys, in steps. Equal keys keep their order. Keys must be hashes."""
    bits = max(0, len(keys).bit_length() - _PIECE_BITS)
    pieces = (keys >> np.uint64(64 - bits)).astype(np.int64) if bits else np.zeros_like(keys, int)
    order, starts = partition(pieces, 1 << bits)
    for first, last in pairwise(starts.tolist()):
        piece = order[first:last]
        order[first:last] = piece[np.argsort(keys[piece], kind="stable")]
        yield
    return order


@compiled
def after(old: np.uint64, entry: np.uint64) -> np.uint64:
    """Return the value of a URL after an update by an entry."""
    links = min(_LINKS, (old & _LINKS) + (entry & _LINKS))
    crawled = (old | entry) & _CRAWLED
    meta = entry & _HIGH if entry & _CRAWLED else old & _HIGH
    return meta | crawled | links


@compiled
def merge_chunk(
    pairs: Keys,
    order: Order,
    keys: Keys,
    values: Keys,
    known: Flags,
    new: Flags,
    out: Keys,
) -> int:
    """Merge ascending pairs with the entries in this ascending order. Returns the length of `out`.

    The operations on a key are carried out in the order of the entries.
    """
    old = at = size = 0
    while old < len(pairs) or at < len(order):
        if at == len(order) or (old < len(pairs) and pairs[old] < keys[order[at]]):
            out[size], out[size + 1] = pairs[old], pairs[old + 1]
            size, old = size + 2, old + 2
            continue
        key, value, is_known = keys[order[at]], np.uint64(0), known[order[at]]
        if old < len(pairs) and pairs[old] == key:
            value, is_known, old = pairs[old + 1], True, old + 2
        while at < len(order) and keys[order[at]] == key:
            number = order[at]
            entry = values[number]
            new[number] = not is_known
            if entry & _UPDATE:
                is_known = True
                value = after(value, entry)
            values[number] = value
            at += 1
        if is_known:
            out[size], out[size + 1] = key, value
            size += 2
    return size
