"""URL-seen: which keys a rank has met. One test serves the frontier, another what was sent."""

from typing import Protocol

from crawler import config


class UrlSeen(Protocol):
    def add(self, key: int) -> bool:
        """Whether the key is new; from now on it isn't."""
        ...


class MemorySeen:
    """Every key ever met, in a set: exact, about 95 bytes a key."""

    def __init__(self) -> None:
        self._keys: set[int] = set()

    def add(self, key: int) -> bool:
        before = len(self._keys)
        self._keys.add(key)
        return len(self._keys) != before


class CacheSeen:
    """The latest keys only: an old key may look new again."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._keys: dict[int, None] = {}  # oldest first

    def add(self, key: int) -> bool:
        if key in self._keys:
            del self._keys[key]
            self._keys[key] = None
            return False
        self._keys[key] = None
        if len(self._keys) > self._capacity:
            del self._keys[next(iter(self._keys))]
        return True


class NothingSeen:
    """Every key is new (`exchange.remember = "batch"`: only the outbox knows what it holds)."""

    def add(self, key: int) -> bool:
        return True


def sent_memory(exchange: config.Exchange, own: UrlSeen) -> UrlSeen:
    """What a rank remembers of the URLs it sent. With `all` it is the URL-seen test itself."""
    if exchange.remember == "all":
        return own
    return CacheSeen(exchange.cache_urls) if exchange.remember == "cache" else NothingSeen()
