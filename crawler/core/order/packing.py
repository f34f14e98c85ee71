"""Packs waiting URLs into few bytes, and moves the far ends of queues to disk."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from struct import Struct
from typing import Any, Final

import msgspec

from crawler.core.order.heads import Priority
from crawler.ports import CrawlUrl, NoRoomError

# URLs of a queue that stay in memory when the others go to disk. Not Final, because mypyc writes
# Final values into its code, and tests make this one smaller.
KEEP = 4


class Queue(ABC):
    """The queue of one site. `size` counts all of its URLs."""

    __slots__ = ("listed", "site", "size")

    def __init__(self, site: str) -> None:
        self.site = site
        self.size = 0
        self.listed = False  # among the queues that can be cut

    @abstractmethod
    def is_long(self) -> bool:
        """Whether some URLs in memory can go to disk, and make a chunk that is no crumb."""


class Queues(ABC):
    """Keeps the URLs of a rank's queues. `on_disk` counts the URLs on disk.

    The long queues are listed. `spill` cuts those that were listed first. Meanwhile the others
    grow, so the more URLs memory may hold, the more go to disk together. No call examines all
    queues, because there may be millions.
    """

    def __init__(self) -> None:
        self.on_disk = 0
        self._listed: deque[Any] = deque()

    @abstractmethod
    def queue(self, site: str) -> Queue:
        """Make an empty queue for a site."""

    @abstractmethod
    def add(self, queue: Any, found: CrawlUrl, links: int, low: bool) -> bool:
        """Put in a URL to which `links` known links lead.

        `low`: the URL comes after all URLs that aren't low. Returns whether the queue has a new
        first URL, in orders whose callers need this.
        """

    @abstractmethod
    def pop(self, queue: Any) -> CrawlUrl:
        """Take out the URL that comes first. The queue must not be empty."""

    @abstractmethod
    def put_back(self, queue: Any, found: CrawlUrl, priority: Priority) -> None:
        """Put a URL back before all others, with the priority `priority` that it had before."""

    @abstractmethod
    def drain(self, queues: Iterable[Any]) -> Iterable[tuple[CrawlUrl, float]]:
        """Take out all URLs of these queues, each with its score.

        Calling `restore` for all of them in the same order makes the same queues. The queues are
        empty when the last URL has come.
        """

    @abstractmethod
    def restore(self, queue: Any, found: CrawlUrl, score: float) -> bool:
        """Put in a drained URL with the score that it had. Returns what `add` does."""

    def spill(self, excess: int) -> None:
        """Move the far ends of queues to disk, about `excess` URLs if there are so many.

        A full or broken disk is no reason to lose a URL: then the URL stays in memory. The writer
        of the files tells the user.
        """
        enough = self.on_disk + excess
        with suppress(NoRoomError, OSError):
            while self._listed and self.on_disk < enough:
                queue = self._listed.popleft()
                queue.listed = False
                try:
                    if queue.is_long():
                        self._cut(queue)
                finally:
                    self._consider(queue)

    def _consider(self, queue: Any) -> None:
        """List a queue, if it can be cut and isn't listed."""
        if queue.listed or not queue.is_long():
            return
        queue.listed = True
        self._listed.append(queue)
        # Queues that have become short, or whose sites are forgotten, must leave the list.
        oldest = self._listed.popleft()
        oldest.listed = oldest.is_long()
        if oldest.listed:
            self._listed.append(oldest)

    @abstractmethod
    def _cut(self, queue: Any) -> None:
        """Move all but KEEP URLs of a queue to disk. After an error it still has all its URLs."""

    @abstractmethod
    def nbytes(self, urls: int, path_bytes: float) -> int:
        """About how many bytes of memory the queues take, if so many URLs are in memory.

        `path_bytes`: the mean length of their URLs without the sites.
        """


# Before the text of a packed URL: its key, its hops, the length of the text, and the length of the
# chain of redirects, which stands between this and the text.
_HEAD: Final = Struct("<QiIH")
_HEAD_BYTES: Final = _HEAD.size
_CHAIN: Final = msgspec.msgpack.Decoder(tuple[int, ...])


def short(url: str, site: str) -> str:
    """The URL without the name of its site, if its authority is `http://site` or `https://site`."""
    scheme, _, rest = url.partition(site)
    if rest[:1] == "/":
        if scheme == "http://":
            return rest
        if scheme == "https://":
            return "s" + rest
    return "=" + url


def whole(text: str, site: str) -> str:
    """The URL that `short` has shortened to `text`."""
    if text[0] == "/":
        return f"http://{site}{text}"
    return text[1:] if text[0] == "=" else f"https://{site}{text[1:]}"


def pack(found: CrawlUrl) -> bytes:
    """Pack a URL into bytes, which take about a third of the memory. They don't name the site."""
    key, url, site, hops, chain = found
    text = short(url, site).encode()
    if not chain:
        return _HEAD.pack(key, hops, len(text), 0) + text
    redirects = msgspec.msgpack.encode(chain)
    return _HEAD.pack(key, hops, len(text), len(redirects)) + redirects + text


def unpack(records: bytes, at: int, site: str) -> tuple[CrawlUrl, int]:
    """Unpack the URL of `site` that begins at `at`. Returns it, and the place behind it."""
    key, hops, length, redirects = _HEAD.unpack_from(records, at)
    start = at + _HEAD_BYTES + redirects
    end = start + length
    chain = _CHAIN.decode(records[at + _HEAD_BYTES : start]) if redirects else ()
    url = whole(records[start:end].decode(), site)
    # The same as CrawlUrl(...), in half the time.
    return tuple.__new__(CrawlUrl, (key, url, site, hops, chain)), end


def split(records: bytes, at: int = 0) -> list[bytes]:
    """The records from the place `at` on, one by one."""
    parted = []
    while at < len(records):
        _, _, length, redirects = _HEAD.unpack_from(records, at)
        end = at + _HEAD_BYTES + redirects + length
        parted.append(records[at:end])
        at = end
    return parted
