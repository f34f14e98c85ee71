"""Packs waiting URLs into few bytes, and decides which queues go to disk if memory is full."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Any, Final

import numpy as np

from crawler.core.order.heads import Priority
from crawler.ports import CrawlUrl


class Queue:
    """The queue of one site. `size` counts all of its URLs."""

    __slots__ = ("site", "size")

    def __init__(self, site: str) -> None:
        self.site = site
        self.size = 0


class Queues(ABC):
    """Keeps the URLs of a rank's queues. `on_disk` counts the URLs on disk."""

    def __init__(self, *, packs: bool) -> None:
        self.packs = packs  # whether URLs that come from now on are packed
        self.on_disk = 0

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

        Calling `restore` for all of them in the same order makes the same queues. The drained
        queues must not be used afterwards.
        """

    @abstractmethod
    def restore(self, queue: Any, found: CrawlUrl, score: float) -> bool:
        """Put in a drained URL with the score that it had. Returns what `add` does."""

    @abstractmethod
    def spill(self, queues: Iterable[Any], excess: int) -> None:
        """Move the far ends of the longest queues to disk, `excess` URLs if there are so many."""


CHUNK: Final = 4096  # URLs that are written to disk and read back together, at most
KEEP: Final = 64  # URLs of each site that stay in memory, at least
_RECORD: Final = Struct("<QI")
_TEXT: Final = _RECORD.size


def short(found: CrawlUrl) -> str:
    """The part of the URL that follows the site, if it begins with a slash; else the whole URL."""
    rest = found.url.removeprefix(found.site)
    return rest if rest[:1] == "/" else found.url


def whole(text: str, site: str) -> str:
    """The URL that `short` has shortened to `text`."""
    return site + text if text[0] == "/" else text


def pack(found: CrawlUrl) -> bytes | CrawlUrl:
    """Pack a URL into bytes, which take about a third of the memory.

    A URL that redirects led to is returned as it is. Such URLs are rare.
    """
    key, url, site, hops, chain = found
    if chain:
        return found
    rest = url.removeprefix(site)
    return _RECORD.pack(key, hops) + (rest if rest[:1] == "/" else url).encode()


def unpack(record: bytes, site: str) -> CrawlUrl:
    """The URL that `pack` has packed, of the given site."""
    key, hops = _RECORD.unpack_from(record)
    text = record[_TEXT:].decode()
    return CrawlUrl(key, site + text if text[0] == "/" else text, site, hops)


def cut(lengths: Sequence[int], excess: int) -> int:
    """How many URLs each queue may keep in memory, so that `excess` URLs go to disk if possible.

    The caller shortens only queues that are at least twice as long, so that no tiny chunks are
    written.
    """
    sizes = np.array(lengths, np.int64)
    keep = KEEP
    while True:
        longer = sizes[sizes >= 4 * keep]
        if (longer - 2 * keep).sum() < excess:
            return keep
        keep *= 2
