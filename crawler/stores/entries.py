"""URLs on their way into a store that answers late, as columns of arrays.

A *value* is what a store knows of a URL: whether it was crawled, a number that its crawler gave it
then (`meta`, 32 bits, such as a row of a log), and the number of links to it. It is one number of
64 bits. An entry has such a number as well, with the operation in two more bits.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crawler.compiled import compiled
from crawler.stores.folder import Bytes

Keys = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]
Order = npt.NDArray[np.int64]

_ENTRIES_A_STEP: Final = 1 << 12
_PARTS_A_STEP: Final = 32
_GATHERED: Final = 1 << 16  # entries that are copied at a time, so that no second copy is large
COPIES: Final = 2  # of the entries of a cycle that memory holds at a time, about
MAX_LINKS: Final = (1 << 29) - 1  # more links count as so many
CRAWLED: Final = 1 << 29
CHECK: Final = 1 << 30  # the operations of the paper's section 4; both together: check+update
UPDATE: Final = 1 << 31


class Value(NamedTuple):
    """What a store knows of a URL."""

    crawled: bool = False
    meta: int = 0
    links: int = 0

    def packed(self, operation: int = 0) -> int:
        """Return the value as one number, for an entry with this operation."""
        return self.meta << 32 | operation | CRAWLED * self.crawled | min(self.links, MAX_LINKS)

    @classmethod
    def of(cls, number: int) -> Self:
        """Return the value that is packed in a number."""
        return cls(bool(number & CRAWLED), number >> 32, number & MAX_LINKS)


class Entries(NamedTuple):
    """URLs that a store is asked about, or about which it has answered.

    `data` holds the bytes of all entries, one after the other. Those of an entry are the text of
    its URL, and then what its sender wants back (aux).
    """

    keys: Keys
    values: Keys
    text_bytes: npt.NDArray[np.uint16]
    all_bytes: npt.NDArray[np.uint32]
    data: Bytes

    @property
    def nbytes(self) -> int:
        """The bytes of memory that all columns take."""
        return sum(column.nbytes for column in self)

    @classmethod
    def none(cls) -> Self:
        """Return no entries."""
        return cls.of([], [], [], [])

    @classmethod
    def of(
        cls,
        keys: Sequence[int],
        values: Sequence[int],
        texts: Sequence[bytes],
        aux: Sequence[bytes],
    ) -> Self:
        """Return entries with these columns."""
        both = [piece for pair in zip(texts, aux, strict=True) for piece in pair]
        text_bytes = np.array([len(text) for text in texts], np.uint16)
        aux_bytes = np.array([len(piece) for piece in aux], np.uint32)
        return cls(
            np.array(keys, np.uint64),
            np.array(values, np.uint64),
            text_bytes,
            aux_bytes + text_bytes,
            np.frombuffer(bytearray().join(both), np.uint8),
        )

    @property
    def starts(self) -> Order:
        """Where the data of each entry begins, and where those of the last one end."""
        starts = np.zeros(len(self.keys) + 1, np.int64)
        np.cumsum(self.all_bytes, out=starts[1:])
        return starts

    def take(self, order: Order, starts: Order | None = None) -> Self:
        """Return the entries with these numbers, in this order.

        `starts`: those of these entries, from a caller that takes several times.
        """
        all_bytes = self.all_bytes[order]
        data = np.empty(int(all_bytes.sum(dtype=np.int64)), np.uint8)
        _gather(self.data, self.starts if starts is None else starts, order, data)
        return type(self)(
            self.keys[order], self.values[order], self.text_bytes[order], all_bytes, data
        )

    def followed_by(self, others: Self, order: Order) -> Self:
        """Return these entries, and then those of others with these numbers, copied once."""
        all_bytes = np.concatenate([self.all_bytes, others.all_bytes[order]])
        data = np.empty(int(all_bytes.sum(dtype=np.int64)), np.uint8)
        data[: len(self.data)] = self.data
        _gather(others.data, others.starts, order, data[len(self.data) :])
        return type(self)(
            np.concatenate([self.keys, others.keys[order]]),
            np.concatenate([self.values, others.values[order]]),
            np.concatenate([self.text_bytes, others.text_bytes[order]]),
            all_bytes,
            data,
        )

    def divided(self, starts: Order) -> Iterator[Self]:
        """Give the entries from each start to the next."""
        ends = self.starts
        for first, last in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            yield type(self)(
                self.keys[first:last],
                self.values[first:last],
                self.text_bytes[first:last],
                self.all_bytes[first:last],
                self.data[ends[first] : ends[last]],
            )

    @classmethod
    def joined(cls, several: Sequence[Self]) -> Self:
        """Return the entries of several, one after the other."""
        if len(several) == 1:
            return several[0]
        if not several:
            return cls.none()
        return cls._make(np.concatenate(columns) for columns in zip(*several, strict=True))

    def text(self, number: int) -> bytes:
        """Return the text of one entry. Use `pieces` for many."""
        start = int(self.starts[number])
        return self.data[start : start + int(self.text_bytes[number])].tobytes()

    def pieces(self) -> Iterator[tuple[bytes, bytes]]:
        """Give the text and the aux of each entry."""
        data, text_bytes = self.data.tobytes(), self.text_bytes.tolist()
        ends = accumulate(self.all_bytes.tolist())
        start = 0
        for length, end in zip(text_bytes, ends, strict=True):
            yield data[start : start + length], data[start + length : end]
            start = end


class Answers(NamedTuple):
    """What a store answers: for each entry that was to be checked, whether it is new.

    The value of an entry is what the store knows of the URL after the operation of the entry.
    """

    entries: Entries
    new: Flags


def answered(entries: Entries, values: Keys, new: Flags) -> Answers:
    """Return the answers about the entries that were to be checked."""
    checked = entries.values & np.uint64(CHECK) != 0
    entries = entries._replace(values=values)
    if checked.all():
        return Answers(entries, new)
    order = np.flatnonzero(checked)
    return Answers(entries.take(order), new[order])


def partition(parts: npt.NDArray[np.int64], number: int) -> tuple[Order, Order]:
    """Return an order of the entries by part, and where each part begins in it.

    Within a part the entries keep their order.
    """
    starts = np.zeros(number + 1, np.int64)
    order = np.empty(len(parts), np.int64)
    _partition(parts, starts, order)
    return order, starts


def parted(
    entries: Entries, parts: npt.NDArray[np.int64], number: int
) -> Iterator[list[tuple[int, Entries]]]:
    """Give the entries of each part that has some, in steps of a few parts and milliseconds.

    `parts`: the part of each entry. Entries of part `number` are left out.
    """
    order, starts = partition(parts, number + 1)
    places = entries.starts
    first = 0
    while first < number:
        last = int(np.searchsorted(starts, starts[first] + _ENTRIES_A_STEP, "right")) - 1
        last = min(max(last, first + 1), first + _PARTS_A_STEP, number)
        some = entries.take(order[starts[first] : starts[last]], places)
        divided = enumerate(some.divided(starts[first : last + 1] - starts[first]), first)
        yield [(part, its) for part, its in divided if len(its.keys)]
        first = last


@compiled
def _partition(parts: npt.NDArray[np.int64], starts: Order, order: Order) -> None:
    for part in parts:
        starts[part + 1] += 1
    for part in range(len(starts) - 1):
        starts[part + 1] += starts[part]
    at = starts.copy()
    for number in range(len(parts)):
        order[at[parts[number]]] = number
        at[parts[number]] += 1


def _gather(data: Bytes, starts: Order, order: Order, out: Bytes) -> None:
    """Put the bytes of the entries with these numbers into `out`, in this order."""
    all_bytes = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(starts) - 1, [None, pa.py_buffer(starts), pa.py_buffer(data)]
    )
    at = 0
    for first in range(0, len(order), _GATHERED):
        taken = all_bytes.take(pa.array(order[first : first + _GATHERED]))
        piece = np.frombuffer(taken.buffers()[2], np.uint8)
        out[at : at + len(piece)] = piece
        at += len(piece)
