"""URL-seen: which keys a rank has met. One test serves the frontier, another what was sent."""

from collections.abc import Iterable
from typing import Protocol

from crawler import config


class UrlSeen(Protocol):
    """A set of keys, as far as it goes. Every link of every page is held against it."""

    def __contains__(self, key: object, /) -> bool: ...

    def add(self, key: int, /) -> None:
        """Note that the key has been met, for the first time or again."""
        ...

    def update(self, keys: Iterable[int], /) -> None:
        """`add` each of the keys."""
        ...


# Every key ever met: exact, about 95 bytes a key. No class of its own, where `in` would go through
# a look-up of its method, for each link of each page.
MemorySeen = set[int]


class CacheSeen:
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


class NothingSeen:
    """Every key is new (`exchange.remember = "batch"`: only the outbox knows what it holds)."""

    def __contains__(self, key: object) -> bool:
        return False

    def add(self, key: int) -> None:
        pass

    def update(self, keys: Iterable[int]) -> None:
        pass


def sent_memory(exchange: config.Exchange, own: UrlSeen) -> UrlSeen:
    """What a rank remembers of the URLs it sent. With `all` it is the URL-seen test itself."""
    if exchange.remember == "all":
        return own
    return CacheSeen(exchange.cache_urls) if exchange.remember == "cache" else NothingSeen()
