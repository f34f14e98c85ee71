"""The memory of the URLs that a rank has sent to their owners, so that it doesn't send them again.

`exchange.remember` chooses the kind of memory. Only `foreign.Exchange` uses it. The memory is
separate from URL-seen, which holds the URLs that this rank takes care of itself.
"""

from collections.abc import Iterable
from typing import Protocol, cast

from crawler import config
from crawler.core.seen import Unmet, UrlSeen


class SentMemory(Protocol):
    """A set of keys, which may forget some. It is asked about every link to another rank."""

    def unmet(self, keys: Iterable[int], /) -> Unmet:
        """See UrlSeen.unmet."""
        ...

    def __contains__(self, key: object, /) -> bool: ...

    def add(self, key: int, /) -> None:
        """Note that a URL is sent, for the first time or again."""
        ...

    def update(self, keys: Iterable[int], /) -> None:
        """Call `add` for each of the keys."""
        ...


class _Unknown:
    """All keys that a memory doesn't know at the moment."""

    def __init__(self, memory: SentMemory) -> None:
        self._memory = memory

    def __contains__(self, key: object) -> bool:
        return key not in self._memory

    def discard(self, key: int) -> None:
        """Note that a URL is sent, for the first time or again."""
        self._memory.add(key)


class LatestSent:
    """Remembers only the latest keys, so an old key may look new again."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._keys: dict[object, None] = {}  # oldest first

    def unmet(self, keys: Iterable[int]) -> Unmet:
        """All keys that this memory doesn't know, without a look at these."""
        return _Unknown(self)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def add(self, key: int) -> None:
        """Make a key the latest one."""
        self._keys.pop(key, None)
        self._keys[key] = None
        if len(self._keys) > self._capacity:
            del self._keys[next(iter(self._keys))]

    def update(self, keys: Iterable[int]) -> None:
        """Call `add` for each of the keys."""
        for key in keys:
            self.add(key)


class NothingSent:
    """Remembers nothing, so every key is new.

    This is `exchange.remember = "batch"`: only the outbox recognises URLs, those that wait in it.
    """

    def unmet(self, keys: Iterable[int]) -> Unmet:
        """All keys that this memory doesn't know, without a look at these."""
        return _Unknown(self)

    def __contains__(self, key: object) -> bool:
        return False

    def add(self, key: int) -> None:
        """Do nothing."""

    def update(self, keys: Iterable[int]) -> None:
        """Do nothing."""


def make_memory(exchange: config.Exchange, store: UrlSeen) -> SentMemory:
    """Return the memory that the configuration names. `store` remembers everything."""
    if exchange.remember == "all":
        return store
    return LatestSent(exchange.cache_urls) if exchange.remember == "cache" else NothingSent()


def keys_to_keep(memory: SentMemory | UrlSeen) -> Iterable[int] | None:
    """Return the keys that a snapshot must hold, or None if it can't hold this memory.

    A resume can read the keys of a cache from the logs, which say which keys are the latest.
    """
    if isinstance(memory, LatestSent):
        return None
    return () if isinstance(memory, NothingSent) else cast("UrlSeen", memory)
