"""The queues of the sites when the order is breadth-first."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Final

import msgspec

from crawler.core.order.heads import Priority
from crawler.core.order.packing import CHUNK, Queue, Queues, cut, pack, unpack
from crawler.ports import CrawlUrl, Spill

_DECODER: Final = msgspec.msgpack.Decoder(list[bytes | CrawlUrl])


class Fifo(Queue):
    """The queue of one site: first in, first out.

    Its URLs come in the order `head`, `disk`, `tail`, and then those of `low`.
    """

    __slots__ = ("disk", "head", "low", "tail")

    def __init__(self, site: str) -> None:
        super().__init__(site)
        self.head: list[bytes | CrawlUrl] = []  # reversed: the next URL is the last element
        self.disk: deque[int] | None = None  # numbers of chunks on disk
        self.tail: list[bytes | CrawlUrl] = []
        self.low: Fifo | None = None  # URLs of low priority, which come after all others


class Fifos(Queues):
    """Keeps the queues of a rank in the order first in, first out.

    `on_disk` counts the URLs on disk. Once `packs` is set, a queue keeps new URLs as bytes, which
    takes a third of the memory and about a microsecond for each URL.
    """

    def __init__(self, spill: Spill | None = None) -> None:
        super().__init__(packs=False)
        self._spill = spill

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
        queue.tail.append(pack(found) if self.packs else found)
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
        return record if isinstance(record, CrawlUrl) else unpack(record, queue.site)

    def put_back(self, queue: Fifo, found: CrawlUrl, priority: Priority) -> None:
        """Put a URL back before all others."""
        queue.size += 1
        queue.head.append(found)

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

    def spill(self, queues: Iterable[Fifo], excess: int) -> None:
        """Move the far ends of the longest queues to disk, `excess` URLs if there are so many."""
        lines = [line for queue in queues for line in (queue, queue.low) if line is not None]
        keep = cut([len(line.head) + len(line.tail) for line in lines], excess)
        for line in lines:
            if len(line.head) + len(line.tail) >= 2 * keep:
                self._unload(line, keep)

    def _unload(self, queue: Fifo, keep: int) -> None:
        """Move the far end of a queue to disk. After an error it has all its URLs, in order."""
        if not queue.disk:
            urls = queue.head[::-1] + queue.tail
            queue.head, queue.disk, queue.tail = urls[:keep][::-1], deque(), urls[keep:]
        while len(queue.head) >= 2 * keep:
            far = queue.head[: min(CHUNK, len(queue.head) - keep)]
            queue.disk.appendleft(self._write(far[::-1]))
            del queue.head[: len(far)]
        if len(queue.tail) >= keep:
            self._write_tail(queue, queue.disk)

    def _write_tail(self, queue: Fifo, disk: deque[int]) -> None:
        written = 0
        try:
            while written < len(queue.tail):
                disk.append(self._write(queue.tail[written : written + CHUNK]))
                written = min(written + CHUNK, len(queue.tail))
        finally:
            del queue.tail[:written]

    def _write(self, urls: Sequence[bytes | CrawlUrl]) -> int:
        """Write a chunk to disk. Returns its number."""
        assert self._spill is not None
        records = [pack(url) if isinstance(url, CrawlUrl) else url for url in urls]
        number = self._spill.put(msgspec.msgpack.encode(records))
        self.on_disk += len(urls)
        return number

    def _load(self, queue: Fifo) -> None:
        assert self._spill is not None
        assert queue.disk is not None
        queue.head = _DECODER.decode(self._spill.take(queue.disk.popleft()))[::-1]
        self.on_disk -= len(queue.head)
