"""The queues of the sites when the order is breadth-first."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Final

import msgspec

from crawler.core.order.heads import Priority
from crawler.core.order.packing import KEEP, Queue, Queues, pack, unpack
from crawler.ports import CrawlUrl, Spill

# URLs that are written to disk and read back together, at most. A queue on disk has at most so many
# read back in memory, and there may be a million queues. (Not Final: see KEEP.)
CHUNK = 16
_PACKED_BYTES: Final = 64  # of a packed URL, without its path: the object, and a place in a list
_LOOSE_BYTES: Final = 190  # that a URL takes more if it isn't packed
_NUMBER_BYTES: Final = 16  # of the number of a chunk; some chunks aren't full
_DECODER: Final = msgspec.msgpack.Decoder(list[bytes | CrawlUrl])


class Fifo(Queue):
    """The queue of one site: first in, first out.

    Its URLs come in the order `head`, `disk`, `tail`, and then those of `low`.
    """

    __slots__ = ("disk", "head", "low", "tail")

    def __init__(self, site: str) -> None:
        super().__init__(site)
        self.head: list[bytes | CrawlUrl] = []  # reversed: the next URL is the last element
        self.disk: array[int] | None = None  # numbers of chunks on disk
        self.tail: list[bytes | CrawlUrl] = []
        self.low: Fifo | None = None  # URLs of low priority, which come after all others


class Fifos(Queues):
    """Keeps the queues of a rank in the order first in, first out.

    URLs are kept as bytes, which takes a third of the memory and about a microsecond for each URL.
    """

    def __init__(self, spill: Spill | None = None) -> None:
        super().__init__()
        self._spill = spill
        self._loose = 0  # URLs in memory that aren't packed

    def nbytes(self, urls: int, path_bytes: float) -> int:
        """See Queues."""
        index = self.on_disk * _NUMBER_BYTES // CHUNK
        return int(urls * (_PACKED_BYTES + path_bytes)) + self._loose * _LOOSE_BYTES + index

    def queue(self, site: str) -> Fifo:
        """Make an empty queue for a site."""
        return Fifo(site)

    def add(self, queue: Fifo, found: CrawlUrl, links: int, low: bool) -> bool:
        """Put in a URL. Returns False, because no caller needs to know of a new head here."""
        queue.size += 1
        if low:
            if queue.low is None:
                queue.low = Fifo(queue.site)
            queue = queue.low
            queue.size += 1
        record = pack(found)
        queue.tail.append(record)
        self._loose += record is found  # a chain of redirects leads to it
        if len(queue.tail) >= 2 * KEEP and not queue.listed:
            self._consider(queue)
        return False

    def pop(self, queue: Fifo) -> CrawlUrl:
        """Take out the next URL. The queue must not be empty."""
        queue.size -= 1
        head = queue.head
        if not head:
            if queue.disk:
                self._load(queue)
            elif queue.tail:
                queue.tail.reverse()
                queue.head, queue.tail = queue.tail, queue.head
            else:
                assert queue.low is not None, queue.site
                return self.pop(queue.low)
            head = queue.head
        record = head.pop()
        if isinstance(record, CrawlUrl):
            self._loose -= 1
            return record
        return unpack(record, queue.site)

    def put_back(self, queue: Fifo, found: CrawlUrl, priority: Priority) -> None:
        """Put a URL back before all others."""
        queue.size += 1
        queue.head.append(found)
        self._loose += 1

    def drain(self, queues: Iterable[Fifo]) -> Iterator[tuple[CrawlUrl, float]]:
        """See `Queues`. The score is minus infinity for URLs of low priority, and 0 for others."""
        for queue in queues:
            low = 0 if queue.low is None else queue.low.size
            while queue.size:
                score = 0.0 if queue.size > low else -inf
                yield self.pop(queue), score

    def restore(self, queue: Fifo, found: CrawlUrl, score: float) -> bool:
        """See `Queues`."""
        return self.add(queue, found, 1, score == -inf)

    def _is_long(self, queue: Fifo) -> bool:
        if queue.disk and len(queue.head) <= CHUNK:  # the head was read back, and stays
            return len(queue.tail) >= 2 * KEEP
        return len(queue.head) + len(queue.tail) >= 2 * KEEP

    def _cut(self, queue: Fifo) -> None:
        if not queue.disk:
            urls = queue.head[::-1] + queue.tail
            queue.head, queue.disk, queue.tail = urls[:KEEP][::-1], array("Q"), urls[KEEP:]
        while len(queue.head) > CHUNK:
            far = queue.head[: min(CHUNK, len(queue.head) - KEEP)]
            queue.disk.insert(0, self._write(far[::-1]))
            del queue.head[: len(far)]
        written = 0
        try:
            while written < len(queue.tail):
                queue.disk.append(self._write(queue.tail[written : written + CHUNK]))
                written = min(written + CHUNK, len(queue.tail))
        finally:
            del queue.tail[:written]

    def _write(self, urls: Sequence[bytes | CrawlUrl]) -> int:
        """Write a chunk to disk. Returns its number."""
        assert self._spill is not None
        records = [pack(url) if isinstance(url, CrawlUrl) else url for url in urls]
        number = self._spill.put(msgspec.msgpack.encode(records))
        self.on_disk += len(urls)
        self._loose -= sum(isinstance(url, CrawlUrl) for url in urls)
        return number

    def _load(self, queue: Fifo) -> None:
        assert self._spill is not None
        assert queue.disk is not None
        queue.head = _DECODER.decode(self._spill.take(queue.disk.pop(0)))[::-1]
        self.on_disk -= len(queue.head)
        self._loose += sum(isinstance(record, CrawlUrl) for record in queue.head)
