"""Merges entries into a sorted repository of URL texts, front-coded, each with its value.

A repository is a file of blocks. A block begins with its length in bytes, without these four. Its
records ascend by text. A record is the number of bytes that its text shares with the text before
it in the block (1 byte), the number of its other bytes (2 bytes), these bytes, and the value
(8 bytes).
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from crawler.compiled import compiled
from crawler.stores.entries import UPDATE, Entries, Flags, Keys, Order
from crawler.stores.folder import Bytes, Folder, NewFile
from crawler.stores.merging import after

Number = int | np.int64

_RECORDS: Final = 4096  # of a block
_LENGTH_BYTES: Final = 4
_MAX_SHARED: Final = 255
_MAX_TEXT: Final = 1 << 16
_OVERHEAD: Final = 11  # bytes of a record besides its text

_UPDATE: Final = np.uint64(UPDATE)
_EIGHT: Final = np.uint64(8)


def merge_texts(
    folder: Folder, name: str, entries: Entries, known: Flags, new: Flags, out: NewFile
) -> Iterator[None]:
    """Merge entries with a repository, in steps. See `merging.merge_pairs`.

    Sorting is one step, so a step takes long if there are many entries.
    """
    begins, lengths = entries.starts[:-1], entries.text_bytes.astype(np.int64)
    order = np.arange(len(entries.keys))
    sort_texts(entries.data, begins, lengths, order)
    yield
    done = 0
    blocks = _blocks(folder, name)
    following: Bytes | None = next(blocks, np.frombuffer(b"", np.uint8))
    while following is not None:
        old, following = following, next(blocks, None)
        # Where a block begins, a record of up to 255 bytes more may stand than before.
        most = len(order) - done + len(old) // _OVERHEAD
        room = len(old) + int(lengths[order[done:]].sum()) + _OVERHEAD * (len(order) - done)
        room += (most // _RECORDS + 2) * (_MAX_SHARED + _LENGTH_BYTES)
        merged = np.empty(room, np.uint8)
        done, size, records = merge_blocks(
            old,
            following is None,
            entries.data,
            begins,
            lengths,
            order,
            done,
            entries.values,
            known,
            new,
            merged,
        )
        out.write(merged[:size], int(records))
        yield


def texts_in(folder: Folder, name: str) -> Iterator[tuple[bytes, int]]:
    """Give all texts of a repository with their values, in ascending order."""
    for blocks in _blocks(folder, name):
        content = blocks.tobytes()
        at = 0
        while at < len(content):
            end = at + _LENGTH_BYTES + int.from_bytes(content[at : at + _LENGTH_BYTES], "little")
            at += _LENGTH_BYTES
            text = b""
            while at < end:
                size = int.from_bytes(content[at + 1 : at + 3], "little")
                text = text[: content[at]] + content[at + 3 : at + 3 + size]
                at += _OVERHEAD + size
                yield text, int.from_bytes(content[at - 8 : at], "little")


def _blocks(folder: Folder, name: str) -> Iterator[Bytes]:
    """Give a repository in pieces of whole blocks."""
    rest = b""
    for piece in folder.pieces(name):
        content = rest + piece
        end = int(whole_blocks(np.frombuffer(content, np.uint8)))
        if end:
            yield np.frombuffer(content, np.uint8, end)
        rest = content[end:]


@compiled
def _number(content: Bytes, at: Number, size: int) -> np.int64:
    """Return a number of so many bytes, the lowest first."""
    number = np.int64(0)
    for place in range(size):
        number |= np.int64(content[at + place]) << (8 * place)
    return number


@compiled
def whole_blocks(content: Bytes) -> np.int64:
    """Return where the last whole block ends."""
    end = np.int64(0)
    while end + _LENGTH_BYTES <= len(content):
        following = end + _LENGTH_BYTES + _number(content, end, _LENGTH_BYTES)
        if following > len(content):
            break
        end = following
    return end


@compiled
def _word(data: Bytes, at: int, end: int) -> np.uint64:
    """Return 8 bytes as a number that sorts as they do. Missing bytes are zero."""
    word = np.uint64(0)
    for place in range(at, at + 8):
        word <<= _EIGHT
        if place < end:
            word |= np.uint64(data[place])
    return word


@compiled
def _precedes(data: Bytes, a: int, a_end: int, b: int, b_end: int) -> bool:
    while a < a_end and b < b_end:
        if data[a] != data[b]:
            return bool(data[a] < data[b])
        a, b = a + 1, b + 1
    return a == a_end and b < b_end


@compiled
def sort_texts(data: Bytes, begins: Order, lengths: Order, order: Order) -> None:
    """Sort numbers of texts by text. Equal texts keep their order. A URL has no zero byte.

    Words of 8 bytes are sorted. Where words are equal, their successors are sorted in turn.
    """
    todo = [(0, len(order), 0)]
    words = np.empty(len(order), np.uint64)
    while todo:
        first, last, depth = todo.pop()
        if last - first < 12:
            for following in range(first + 1, last):
                place, number = following, order[following]
                a, a_end = begins[number] + depth, begins[number] + lengths[number]
                while place > first:
                    b = begins[order[place - 1]]
                    if not _precedes(data, a, a_end, b + depth, b + lengths[order[place - 1]]):
                        break
                    order[place] = order[place - 1]
                    place -= 1
                order[place] = number
            continue
        for place in range(first, last):
            begin = begins[order[place]]
            words[place] = _word(data, begin + depth, begin + lengths[order[place]])
        sorting = np.argsort(words[first:last], kind="mergesort")
        order[first:last] = order[first:last][sorting]
        words[first:last] = words[first:last][sorting]
        begin = first
        for place in range(first + 1, last + 1):
            if place == last or words[place] != words[begin]:
                ended = words[begin] & np.uint64(255) == np.uint64(0)  # all these texts are equal
                if place - begin > 1 and not ended:
                    todo.append((begin, place, depth + 8))
                begin = place


@compiled
def _compare(text: Bytes, size: Number, data: Bytes, begin: Number, length: Number) -> int:
    """Return -1, 0 or 1, as the text is less than, equal to or greater than that of an entry."""
    for place in range(min(size, length)):
        if text[place] != data[begin + place]:
            return -1 if text[place] < data[begin + place] else 1
    return int(min(1, max(-1, size - length)))


@compiled
def merge_blocks(
    old: Bytes,
    is_last: bool,
    data: Bytes,
    begins: Order,
    lengths: Order,
    order: Order,
    done: int,
    values: Keys,
    known: Flags,
    new: Flags,
    out: Bytes,
) -> tuple[int, Number, Number]:
    """Merge whole blocks with the entries that aren't done.

    Entries behind the last text of the blocks are merged only if these are the last blocks.
    Returns how many entries are done, the length of `out`, and the number of its records.
    """
    zero = np.int64(0)
    text, size, value = np.empty(_MAX_TEXT, np.uint8), zero, np.uint64(0)  # the next old record
    before, before_size = np.empty(_MAX_TEXT, np.uint8), zero  # the last record written
    at = block_end = size_out = block = records = zero
    has_old = False
    while True:
        if not has_old and at < len(old):
            if at == block_end:
                block_end = at + _LENGTH_BYTES + _number(old, at, _LENGTH_BYTES)
                at += _LENGTH_BYTES
            shared, rest = np.int64(old[at]), _number(old, at + 1, 2)
            text[shared : shared + rest] = old[at + 3 : at + 3 + rest]
            size, at = shared + rest, at + 3 + rest
            value = np.uint64(0)
            for place in range(8):
                value |= np.uint64(old[at + place]) << np.uint64(8 * place)
            at += 8
            has_old = True
        if not has_old and (done == len(order) or not is_last):
            break
        side = -1  # less than 0: the old record comes first; 0: the entries are about it
        if done < len(order):
            number = order[done]
            begin, length = begins[number], lengths[number]
            side = _compare(text, size, data, begin, length) if has_old else 1
        is_known, result = side <= 0, value if side <= 0 else np.uint64(0)
        if side > 0:
            merged, merged_size = data[begin : begin + length], length
        else:
            merged, merged_size, has_old = text, size, False
        if side >= 0:
            is_known |= known[number]
            while done < len(order):
                number = order[done]
                if _compare(merged, merged_size, data, begins[number], lengths[number]):
                    break
                new[number] = not is_known
                if values[number] & _UPDATE:
                    is_known = True
                    result = after(result, values[number])
                values[number] = result
                done += 1
        if not is_known:
            continue
        if records % _RECORDS == 0:
            _close(out, block, size_out)
            block, size_out = size_out, size_out + _LENGTH_BYTES
            before_size = zero
        shared = zero
        while (
            shared < min(before_size, merged_size, _MAX_SHARED) and before[shared] == merged[shared]
        ):
            shared += 1
        rest = merged_size - shared
        out[size_out], out[size_out + 1], out[size_out + 2] = shared, rest & 255, rest >> 8
        size_out += 3
        out[size_out : size_out + rest] = merged[shared:merged_size]
        before[shared:merged_size] = merged[shared:merged_size]
        before_size, size_out = merged_size, size_out + rest
        for place in range(8):
            out[size_out + place] = result >> np.uint64(8 * place) & np.uint64(255)
        size_out += 8
        records += 1
    _close(out, block, size_out)
    return done, size_out, records


@compiled
def _close(out: Bytes, block: Number, end: Number) -> None:
    """Write the length of a block in front of it."""
    if end > block:
        for place in range(_LENGTH_BYTES):
            out[block + place] = end - block - _LENGTH_BYTES >> 8 * place & 255
