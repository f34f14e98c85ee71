"""A waiting URL as few bytes, and which queues go to disk when memory is full."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Any, Final

import numpy as np

from crawler.core.order.heads import Rank
from crawler.ports import Found


class Queue:
    """The queue of one site. `size` counts all of its URLs."""

    __slots__ = ("site", "size")

    def __init__(self, site: str) -> None:
        self.site = site
        self.size = 0


class Queues(ABC):
    """Keeps the URLs of a rank's queues; `on_disk` counts those that are there."""

    def __init__(self, *, packs: bool) -> None:
        self.packs = packs  # keep what comes from now on in few bytes
        self.on_disk = 0

    @abstractmethod
    def queue(self, site: str) -> Queue:
        """A new one."""

    @abstractmethod
    def add(self, queue: Any, found: Found, links: int, low: bool) -> bool:
        """Put in a URL; whether the head has changed, if that matters to anybody."""

    @abstractmethod
    def pop(self, queue: Any) -> Found:
        """Take out the URL that comes first; there must be one."""

    @abstractmethod
    def put_back(self, queue: Any, found: Found, rank: Rank) -> None:
        """Before all others, with the rank that it had when it was taken out."""

    @abstractmethod
    def drain(self, queues: Iterable[Any]) -> Iterable[tuple[Found, float]]:
        """Take out all that waits there, each with its score, such that `restore` of all, one after
        the other, makes the same queues. Nothing else may be asked of these queues afterwards."""

    @abstractmethod
    def restore(self, queue: Any, found: Found, score: float) -> bool:
        """Put in a URL of another run, as `add` does, with the score that it had."""

    @abstractmethod
    def spill(self, queues: Iterable[Any], excess: int) -> None:
        """Bring the far ends of the longest queues to disk, `excess` URLs if there are so many."""


CHUNK: Final = 4096  # URLs that are read back from disk at a time, at most
KEEP: Final = 64  # URLs of each site that stay in memory, at least
_RECORD: Final = Struct("<QI")
_TEXT: Final = _RECORD.size


def short(found: Found) -> str:
    """Its URL, or only what follows the site in it: then a slash comes first."""
    rest = found.url.removeprefix(found.site)
    return rest if rest[:1] == "/" else found.url


def whole(text: str, site: str) -> str:
    """The URL of a site again."""
    return site + text if text[0] == "/" else text


def pack(found: Found) -> bytes | Found:
    """About a third of the memory; itself if redirects led there, which is rare."""
    key, url, site, hops, chain = found
    if chain:
        return found
    rest = url.removeprefix(site)
    return _RECORD.pack(key, hops) + (rest if rest[:1] == "/" else url).encode()


def unpack(record: bytes, site: str) -> Found:
    key, hops = _RECORD.unpack_from(record)
    text = record[_TEXT:].decode()
    return Found(key, site + text if text[0] == "/" else text, site, hops)


def cut(lengths: Sequence[int], excess: int) -> int:
    """How many URLs a queue may keep, so that `excess` of them leave memory if possible.

    Only queues of at least twice the length are cut to it, so that chunks are no crumbs.
    """
    sizes = np.array(lengths, np.int64)
    keep = KEEP
    while True:
        longer = sizes[sizes >= 4 * keep]
        if (longer - 2 * keep).sum() < excess:
            return keep
        keep *= 2
