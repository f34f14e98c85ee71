"""URLs of any site that are set aside, first in first out. Those in the middle may be on disk."""

from array import array
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import msgspec

from crawler.ports import CrawlUrl, NoRoomError, Spill

_CHUNK: Final = 256  # URLs that are written to disk and read back together
_MOST: Final = 16  # chunks that are written at a time, in a few milliseconds
_URL_BYTES: Final = 350  # of a URL in memory
_DECODER: Final = msgspec.msgpack.Decoder(list[CrawlUrl])


class Aside:
    """A queue of URLs. They come in the order `head`, `disk`, `tail`.

    `size` is its length. The core reads it at each event, where a call of `len` would be slow.
    """

    def __init__(self, spill: Spill | None = None) -> None:
        """`spill`: for the URLs that memory has no room for; None to keep all in memory."""
        self.size = 0
        self._spill = spill
        self._head: deque[CrawlUrl] = deque()
        self._disk = array("Q")  # numbers of chunks
        self._tail: deque[CrawlUrl] = deque()

    def __len__(self) -> int:
        return self.size

    def append(self, found: CrawlUrl) -> None:
        """Put in a URL."""
        self._tail.append(found)
        self.size += 1

    def popleft(self) -> CrawlUrl:
        """Take out the first URL. Raises IndexError if there is none."""
        if not self._head:
            if self._disk:
                assert self._spill is not None
                self._head.extend(_DECODER.decode(self._spill.take(self._disk.pop(0))))
            else:
                self._head, self._tail = self._tail, self._head
        found = self._head.popleft()
        self.size -= 1
        return found

    def drain(self) -> Iterator[CrawlUrl]:
        """Take out all URLs."""
        while self.size:
            yield self.popleft()

    def nbytes(self) -> int:
        """About how many bytes of memory the URLs take."""
        return _URL_BYTES * (len(self._head) + len(self._tail)) + 8 * len(self._disk)

    def give(self, excess: int) -> bool:
        """Move the latest URLs to disk. See `core.budget.Table`.

        A full or broken disk is no reason to lose a URL: then the URL stays in memory.
        """
        chunks = min(excess // (_URL_BYTES * _CHUNK) + 1, len(self._tail) // _CHUNK, _MOST)
        if self._spill is None or not chunks:
            return False
        before = len(self._disk)
        with suppress(NoRoomError, OSError):
            for _ in range(chunks):
                chunk = [self._tail[place] for place in range(_CHUNK)]
                self._disk.append(self._spill.put(msgspec.msgpack.encode(chunk)))
                for _ in chunk:
                    self._tail.popleft()
        return len(self._disk) > before
