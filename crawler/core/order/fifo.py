"""The queues of the sites when the order is breadth-first."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Final

from crawler.core.order.heads import Priority
from crawler.core.order.packing import KEEP, Queue, Queues, pack, split, unpack
from crawler.ports import CrawlUrl, Spill

# URLs that are written to disk and read back together, at most. A queue on disk has at most so many
# read back in memory, and there may be a million queues. (Not Final: see KEEP.)
CHUNK = 16
# Bytes of a block, unless a single URL is longer. Python keeps objects of up to 512 bytes in pages
# of their own. Larger blocks would lie between the arrays of other tables: then the memory that an
# array gives back is in pieces, too small for the next array. (Not Final: see KEEP.)
_BLOCK_BYTES = 512 - b"".__sizeof__()
# Of a packed URL, without its path: its head and a share of the block are about 24. The rest is
# reserve, because memory that a block gives back isn't used again at once.
_PACKED_BYTES: Final = 34
_BACK_BYTES: Final = 48  # that a URL takes more if it was put back
_NUMBER_BYTES: Final = 16  # of the number of a chunk; some chunks aren't full


class Fifo(Queue):
    """The queue of one site: first in, first out.

    Its URLs come in the order `back`, `head`, `disk`, `turned`, `blocks`, `tail`, and then those of
    `low`. All but those of `back` are packed one behind the other, so that no URL is an object of
    its own.
    """

    __slots__ = ("at", "back", "blocks", "disk", "head", "low", "tail", "tail_urls", "turned")

    def __init__(self, site: str) -> None:
        super().__init__(site)
        self.back: list[bytes] = []  # packed URLs that were put back, the next one last
        self.head = b""
        self.at = 0  # where the next URL of `head` begins
        self.disk: array[int] | None = None  # numbers of chunks on disk
        self.turned: list[bytes] | None = None  # reversed: the next block is the last element
        self.blocks: list[bytes] | None = None
        self.tail = bytearray()
        self.tail_urls = 0
        self.low: Fifo | None = None  # URLs of low priority, which come after all others

    def append(self, record: bytes) -> None:
        """Put a packed URL at the end of the tail."""
        if self.tail and len(self.tail) + len(record) > _BLOCK_BYTES:
            block = self._cut_tail()
            if self.blocks is None:
                self.blocks = [block]
            else:
                self.blocks.append(block)
        self.tail += record
        self.tail_urls += 1

    def advance(self) -> bool:
        """Make the first block or the tail the head. Returns False if there is none."""
        if not self.turned and self.blocks:
            self.blocks.reverse()
            self.turned, self.blocks = self.blocks, None
        if self.turned:
            self.head = self.turned.pop()
        elif self.tail:
            self.head = self._cut_tail()
        else:
            return False
        self.at = 0
        return True

    def _cut_tail(self) -> bytes:
        """Take out the tail."""
        block = bytes(self.tail)
        self.tail.clear()
        self.tail_urls = 0
        return block

    def is_long(self) -> bool:
        """See Queue."""
        if self.turned or self.blocks or self.tail_urls >= 2 * KEEP:
            return True
        return len(self.back) > CHUNK

    def near(self) -> list[bytes]:
        """The packed URLs before those on disk."""
        return self.back[::-1] + split(self.head, self.at)

    def far(self) -> list[bytes]:
        """The packed URLs after those on disk."""
        blocks = (*reversed(self.turned or ()), *(self.blocks or ()), self.tail)
        return split(b"".join(blocks))

    def set_near(self, records: Sequence[bytes]) -> None:
        """Make these the URLs before those on disk."""
        self.back, self.head, self.at = [], b"".join(records), 0

    def set_far(self, records: Sequence[bytes]) -> None:
        """Make these the URLs after those on disk."""
        self.turned = self.blocks = None
        self._cut_tail()
        for record in records:
            self.append(record)


class Fifos(Queues):
    """Keeps the queues of a rank in the order first in, first out."""

    def __init__(self, spill: Spill | None = None) -> None:
        super().__init__()
        self._spill = spill
        self._back = 0  # URLs in memory that were put back

    def nbytes(self, urls: int, path_bytes: float) -> int:
        """See Queues."""
        index = self.on_disk * _NUMBER_BYTES // CHUNK
        return int(urls * (_PACKED_BYTES + path_bytes)) + self._back * _BACK_BYTES + index

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
        queue.append(pack(found))
        if not queue.listed and queue.is_long():
            self._consider(queue)
        return False

    def pop(self, queue: Fifo) -> CrawlUrl:
        """Take out the next URL. The queue must not be empty."""
        queue.size -= 1
        if queue.back:
            self._back -= 1
            return unpack(queue.back.pop(), 0, queue.site)[0]
        if queue.at == len(queue.head):
            if queue.disk:
                self._load(queue)
            elif not queue.advance():
                assert queue.low is not None, queue.site
                return self.pop(queue.low)
        found, queue.at = unpack(queue.head, queue.at, queue.site)
        return found

    def put_back(self, queue: Fifo, found: CrawlUrl, priority: Priority) -> None:
        """Put a URL back before all others."""
        queue.size += 1
        queue.back.append(pack(found))
        self._back += 1
        if not queue.listed and queue.is_long():
            self._consider(queue)

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

    def _cut(self, queue: Fifo) -> None:
        self._back -= len(queue.back)
        near, far = queue.near(), queue.far()
        if not queue.disk:
            near, far, queue.disk = (near + far)[:KEEP], (near + far)[KEEP:], array("Q")
        written = 0
        try:
            while len(near) > KEEP + CHUNK:
                queue.disk.insert(0, self._write(near[-CHUNK:]))
                del near[-CHUNK:]
            for start in range(0, len(far), CHUNK):
                queue.disk.append(self._write(far[start : start + CHUNK]))
                written = start + CHUNK
        finally:
            queue.set_near(near)
            queue.set_far(far[written:])

    def _write(self, records: Sequence[bytes]) -> int:
        """Write a chunk to disk. Returns its number."""
        assert self._spill is not None
        number = self._spill.put(b"".join(records))
        self.on_disk += len(records)
        return number

    def _load(self, queue: Fifo) -> None:
        assert self._spill is not None
        assert queue.disk is not None
        queue.head, queue.at = self._spill.take(queue.disk.pop(0)), 0
        self.on_disk -= len(split(queue.head))
