"""The queues of the sites when the order is by scores."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from math import inf
from operator import itemgetter
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from crawler.compact import KeyIndex
from crawler.core.order.heads import Priority
from crawler.core.order.packing import KEEP, Queue, Queues, short, whole
from crawler.core.order.scores import Scored
from crawler.ports import CrawlUrl, Spill

_VISITED: Final = 10_000  # visited pages whose scores are remembered until their links are known
_LATE: Final = 1_000_000  # URLs, perhaps on disk, for which additions to the score are remembered
CHUNK = 64  # URLs that are written to disk and read back together, at most (not Final: see KEEP)
_SLOT_BYTES: Final = 110  # of a URL in memory without its path, index included
_CHUNK_BYTES: Final = 200  # of what memory holds of a chunk
_SHORT = 64  # queues up to this length are sorted without numpy


class Heap(Queue):
    """The URLs of a site, as slots of the rank's `Heaps`."""

    __slots__ = ("back", "disk", "slots")

    def __init__(self, site: str) -> None:
        super().__init__(site)
        # URLs that were put back. They come before all others, the last one first.
        self.back: list[tuple[CrawlUrl, Priority]] = []
        self.slots = array("I")  # a binary heap, the best URL first
        self.disk: list[tuple[float, int, int]] = []  # a heap of chunks: best priority, number

    def is_long(self) -> bool:
        """See Queue."""
        return len(self.slots) >= 2 * KEEP


class _Row(NamedTuple):
    """A URL on disk."""

    key: int
    text: bytes
    hops: int
    score: float
    arrival: int
    links: int
    chain: tuple[int, ...]
    final: bool


_DECODER: Final = msgspec.msgpack.Decoder(list[_Row])


class Heaps(Queues):
    """Binary heaps of URLs, whose scores may change while they wait.

    `on_disk` counts the URLs on disk. Each URL in memory has a slot, and its values stand in arrays
    at this slot. They take about 65 bytes and the text of the URL. The best URL of a queue is
    always in memory. A URL on disk keeps the score that it had when it was written. Later additions
    to this score are remembered for the last `_LATE` URLs, and count when the URL is read back.
    """

    def __init__(self, order: Scored, spill: Spill | None = None) -> None:
        super().__init__()
        self._order = order
        self._spill = spill
        self._arrived = 0
        # Values by slot. Slot 0 is never used.
        self._keys = array("Q", [0])
        self._texts = [b""]
        self._hops = array("I", [0])
        self._scores = array("d", [0])
        self._arrivals = array("Q", [0])
        self._links = array("I", [0])
        self._places = array("I", [0])  # the place of the slot in the heap of its queue
        self._queues = [Heap("")]
        self._chains: dict[int, tuple[int, ...]] = {}
        self._free = array("I")
        self._index = KeyIndex(self._keys)  # the slots whose scores aren't final
        self._visited: dict[int, float] = {}  # oldest first
        self._late: dict[int, float] = {}  # oldest first

    def queue(self, site: str) -> Heap:
        """Make an empty queue for a site."""
        return Heap(site)

    def priority(self, queue: Any) -> Priority:
        """The priority of the queue's first URL. The queue must not be empty."""
        assert isinstance(queue, Heap)
        if queue.back:
            return queue.back[-1][1]
        head = queue.slots[0]
        return -self._scores[head], self._arrivals[head]

    def add(self, queue: Heap, found: CrawlUrl, links: int, low: bool) -> bool:
        """Put in a URL. Returns whether it comes first now."""
        self._arrived += 1
        queue.size += 1
        score, final = (-inf, True) if low else self._order.first(found, links)
        slot = self._insert(
            queue,
            found.key,
            short(found.url, found.site).encode(),
            found.hops,
            score,
            self._arrived,
            links,
            found.chain,
            final,
        )
        return queue.slots[0] == slot and not queue.back

    def pop(self, queue: Heap) -> CrawlUrl:
        """Take out the URL that comes first. The queue must not be empty."""
        queue.size -= 1
        if queue.back:
            return queue.back.pop()[0]
        slot = queue.slots[0]
        key, url = self._keys[slot], whole(self._texts[slot].decode(), queue.site)
        found = CrawlUrl(key, url, queue.site, self._hops[slot], self._chains.get(slot, ()))
        if self._order.wants_links and self._scores[slot] > -inf:
            self._visited[key] = self._scores[slot]
            if len(self._visited) > _VISITED:
                del self._visited[next(iter(self._visited))]
        last = queue.slots.pop()
        if queue.slots:
            self._down(queue.slots, 0, last)
        self._release(slot)
        if queue.disk:
            self._fill(queue)
        return found

    def put_back(self, queue: Heap, found: CrawlUrl, priority: Priority) -> None:
        """Put a URL back before all others, with the priority `priority` that it had before."""
        queue.size += 1
        queue.back.append((found, priority))

    def drain(self, queues: Iterable[Heap]) -> Iterator[tuple[CrawlUrl, float]]:
        """See `Queues`. The URLs come in the order in which they were found."""
        waiting: list[tuple[int, CrawlUrl, float]] = []
        for queue in queues:
            waiting += [(arrival, found, -score) for found, (score, arrival) in queue.back]
            rows = [self._row(slot) for slot in queue.slots]
            for slot in queue.slots:
                self._release(slot)
            for chunk in queue.disk:
                rows += self._take(chunk)
            queue.size, queue.back, queue.slots, queue.disk = 0, [], array("I"), []
            for row in rows:
                address = whole(row.text.decode(), queue.site)
                found = CrawlUrl(row.key, address, queue.site, row.hops, row.chain)
                waiting.append((row.arrival, found, row.score))
        waiting.sort(key=itemgetter(0))
        for _, found, score in waiting:
            yield found, score

    def restore(self, queue: Heap, found: CrawlUrl, score: float) -> bool:
        """See `Queues`."""
        self._arrived += 1
        queue.size += 1
        final = score == -inf or not self._order.counts
        text = short(found.url, found.site).encode()
        slot = self._insert(
            queue, found.key, text, found.hops, score, self._arrived, 1, found.chain, final
        )
        return queue.slots[0] == slot and not queue.back

    def linked(self, key: int, links: int) -> Heap | None:
        """Count further back-links of a URL. Returns the queue whose first URL changed, or None."""
        added = self._order.more(links)
        slot = self._index.find(key)
        if not slot:
            self._keep_late(key, added)
            return None
        self._links[slot] += links
        return self._raise(slot, added)

    def fetched(self, key: int, targets: Sequence[int]) -> list[Heap]:
        """Count the links of a fetched page. Returns the queues whose first URLs have changed."""
        added = self._order.spread(key, self._visited.pop(key, None), targets)
        changed = []
        for target in targets if added else ():
            slot = self._index.find(target)
            if not slot:
                self._keep_late(target, added)
            elif (queue := self._raise(slot, added)) is not None:
                changed.append(queue)
        return changed

    def rescore(self, queues: Iterable[Any]) -> None:
        """Ask the order for new scores. Afterwards each queue may have another first URL."""
        slots = self._index.slots()
        keys = np.frombuffer(self._keys, np.uint64)[slots]
        links = np.frombuffer(self._links, np.uint32)[slots]
        np.frombuffer(self._scores)[slots] = self._order.scores(keys, links)
        for queue in queues:
            self._heapify(queue, self._sorted(queue))
            self._fill(queue)

    # --- slots --------------------------------------------------------------------------------

    def _insert(
        self,
        queue: Heap,
        key: int,
        text: bytes,
        hops: int,
        score: float,
        arrival: int,
        links: int,
        chain: tuple[int, ...],
        final: bool,
    ) -> int:
        """Put a URL into the queue. Returns its slot."""
        if self._free:
            slot = self._free.pop()
            self._keys[slot] = key
            self._texts[slot] = text
            self._hops[slot] = hops
            self._scores[slot] = score
            self._arrivals[slot] = arrival
            self._links[slot] = links
            self._queues[slot] = queue
        else:
            slot = len(self._keys)
            self._keys.append(key)
            self._texts.append(text)
            self._hops.append(hops)
            self._scores.append(score)
            self._arrivals.append(arrival)
            self._links.append(links)
            self._places.append(0)
            self._queues.append(queue)
        if chain:
            self._chains[slot] = chain
        if not (final or self._index.find(key)):  # `veuniq` may let two URLs with one key in
            self._index.add(slot)
        queue.slots.append(slot)
        self._up(queue.slots, len(queue.slots) - 1, slot)
        if not queue.listed and queue.is_long():
            self._consider(queue)
        return slot

    def _row(self, slot: int) -> _Row:
        key = self._keys[slot]
        return _Row(
            key,
            self._texts[slot],
            self._hops[slot],
            self._scores[slot],
            self._arrivals[slot],
            self._links[slot],
            self._chains.get(slot, ()),
            final=not self._index.find(key),
        )

    def _release(self, slot: int) -> None:
        """Free a slot that is in no heap any more."""
        if self._order.counts:
            self._index.discard(self._keys[slot])
        if self._chains:
            self._chains.pop(slot, None)
        self._texts[slot] = b""
        self._queues[slot] = self._queues[0]
        self._free.append(slot)

    def _raise(self, slot: int, added: float) -> Heap | None:
        """Change a score. Returns the queue if the priority of its first URL may have changed."""
        queue = self._queues[slot]
        place = self._places[slot]
        self._scores[slot] += added
        if added > 0:
            self._up(queue.slots, place, slot)
            return queue if queue.slots[0] == slot and not queue.back else None
        self._down(queue.slots, place, slot)
        if place:
            return None
        self._fill(queue)
        return queue if not queue.back else None

    # --- heaps --------------------------------------------------------------------------------

    def _up(self, heap: "array[int]", place: int, slot: int) -> None:
        """Put a slot into the heap, at the free place `place` or above it."""
        scores, arrivals, places = self._scores, self._arrivals, self._places
        score, arrival = scores[slot], arrivals[slot]
        while place:
            parent = (place - 1) >> 1
            other = heap[parent]
            its = scores[other]
            if its > score or (its == score and arrivals[other] < arrival):
                break
            heap[place] = other
            places[other] = place
            place = parent
        heap[place] = slot
        places[slot] = place

    def _down(self, heap: "array[int]", place: int, slot: int) -> None:
        """Put a slot into the heap, at the free place `place` or below it.

        The free place moves down to a leaf. Then `_up` moves the slot up from there.
        """
        scores, arrivals, places = self._scores, self._arrivals, self._places
        child, end = 2 * place + 1, len(heap)
        while child < end:
            best, right = heap[child], child + 1
            if right < end:
                other = heap[right]
                ours, its = scores[best], scores[other]
                if its > ours or (its == ours and arrivals[other] < arrivals[best]):
                    best, child = other, right
            heap[place] = best
            places[best] = place
            place, child = child, 2 * child + 1
        self._up(heap, place, slot)

    def _sorted(self, queue: Heap) -> list[int]:
        """The slots of a queue, the best first."""
        if len(queue.slots) <= _SHORT:
            scores, arrivals = self._scores, self._arrivals
            return sorted(queue.slots, key=lambda slot: (-scores[slot], arrivals[slot]))
        slots = np.frombuffer(queue.slots, np.uint32)
        scores_, arrivals_ = np.frombuffer(self._scores), np.frombuffer(self._arrivals, np.uint64)
        best_first: list[int] = slots[np.lexsort((arrivals_[slots], -scores_[slots]))].tolist()
        return best_first

    def _heapify(self, queue: Heap, best_first: list[int]) -> None:
        """Make the sorted slots the heap of a queue. A sorted array is a heap."""
        queue.slots = array("I", best_first)
        places = self._places
        for place, slot in enumerate(best_first):
            places[slot] = place

    # --- disk ---------------------------------------------------------------------------------

    def nbytes(self, urls: int, path_bytes: float) -> int:
        """See Queues."""
        return int(urls * (_SLOT_BYTES + path_bytes)) + self.on_disk * _CHUNK_BYTES // CHUNK

    def _cut(self, queue: Heap) -> None:
        """Move the worst URLs to disk."""
        assert self._spill is not None
        best_first = self._sorted(queue)
        try:
            while len(best_first) > KEEP:
                start = KEEP + (len(best_first) - KEEP - 1) // CHUNK * CHUNK
                rows = [self._row(slot) for slot in best_first[start:]]
                number = self._spill.put(msgspec.msgpack.encode(rows))
                heappush(queue.disk, (-rows[0].score, rows[0].arrival, number))
                self.on_disk += len(rows)
                for slot in best_first[start:]:
                    self._release(slot)
                del best_first[start:]
        finally:  # after an error, the other URLs stay in memory
            self._heapify(queue, best_first)

    def _fill(self, queue: Heap) -> None:
        """Read back all chunks with URLs that may be better than the first URL in memory."""
        while queue.disk:
            if queue.slots:
                head = queue.slots[0]
                if (-self._scores[head], self._arrivals[head]) < queue.disk[0][:2]:
                    return
            for row in self._take(heappop(queue.disk)):
                self._insert(queue, *row)

    def _take(self, chunk: tuple[float, int, int]) -> Iterator[_Row]:
        """Read back a chunk. Later additions to the scores are counted."""
        assert self._spill is not None
        rows = _DECODER.decode(self._spill.take(chunk[2]))
        self.on_disk -= len(rows)
        for row in rows:
            late = 0.0 if row.final else self._late.pop(row.key, 0.0)
            yield row._replace(score=row.score + late) if late else row

    def _keep_late(self, key: int, added: float) -> None:
        if self.on_disk:
            self._late[key] = self._late.get(key, 0.0) + added
            if len(self._late) > _LATE:
                del self._late[next(iter(self._late))]
        elif self._late:
            self._late.clear()
