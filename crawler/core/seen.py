"""URL-seen: which keys a rank has met, of URLs that it takes care of."""

from collections.abc import Iterable, Iterator
from typing import Protocol


class UrlSeen(Protocol):
    """A set of keys. Every link of every page is held against it."""

    def __contains__(self, key: object, /) -> bool: ...

    def __iter__(self) -> Iterator[int]:
        """All keys, in any order."""
        ...

    def add(self, key: int, /) -> None:
        """Note that the key has been met, for the first time or again."""
        ...

    def update(self, keys: Iterable[int], /) -> None:
        """`add` each of the keys."""
        ...


# Every key ever met: exact, about 95 bytes a key. No class of its own, where `in` would go through
# a look-up of its method, for each link of each page.
MemorySeen = set[int]
