"""What a rank remembers of the URLs that it has sent to their owners, so as not to send them again.

`exchange.remember` chooses the kind of memory. `foreign.Exchange` owns it, and nobody else sees it.
It is no part of URL-seen: that holds what this rank takes care of, and this what others do.
"""

from collections.abc import Iterable
from typing import Protocol

from crawler import config


class SentMemory(Protocol):
    """A set of keys, as far as it goes. Every link to another rank is held against it."""

    def __contains__(self, key: object, /) -> bool: ...

    def add(self, key: int, /) -> None:
        """Note that a URL is sent, for the first time or again."""
        ...

    def update(self, keys: Iterable[int], /) -> None:
        """`add` each of the keys."""
        ...

    def keys_to_keep(self) -> Iterable[int] | None:
        """The keys that a snapshot must hold; None if a snapshot can't hold what is remembered."""
        ...


class AllSent(set[int]):
    """Every key ever sent: exact, about 95 bytes a key.

    `in` and `add` are those of the set, because methods in Python would take longer, for each link.
    """

    __slots__ = ()

    def keys_to_keep(self) -> Iterable[int]:
        return self


class LatestSent:
    """The latest keys only: an old key may look new again."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._keys: dict[object, None] = {}  # oldest first

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def add(self, key: int) -> None:
        self._keys.pop(key, None)
        self._keys[key] = None
        if len(self._keys) > self._capacity:
            del self._keys[next(iter(self._keys))]

    def update(self, keys: Iterable[int]) -> None:
        for key in keys:
            self.add(key)

    def keys_to_keep(self) -> None:
        """The logs have the keys, too."""


class NothingSent:
    """Every key is new (`exchange.remember = "batch"`: only the outbox knows what it holds)."""

    def __contains__(self, key: object) -> bool:
        return False

    def add(self, key: int) -> None:
        pass

    def update(self, keys: Iterable[int]) -> None:
        pass

    def keys_to_keep(self) -> Iterable[int]:
        return ()


def make_memory(exchange: config.Exchange) -> SentMemory:
    """The memory that the configuration names."""
    if exchange.remember == "all":
        return AllSent()
    return LatestSent(exchange.cache_urls) if exchange.remember == "cache" else NothingSent()
