"""The memory of the URLs that a rank has sent to their owners, so that it doesn't send them again.

`exchange.remember` chooses the kind of memory. Only `foreign.Exchange` uses it. The memory is
separate from URL-seen, which holds the URLs that this rank takes care of itself.
"""

from collections.abc import Iterable
from typing import Protocol

from crawler import config


class SentMemory(Protocol):
    """A set of keys, which may forget some. It is asked about every link to another rank."""

    def __contains__(self, key: object, /) -> bool: ...

    def add(self, key: int, /) -> None:
        """Note that a URL is sent, for the first time or again."""
        ...

    def update(self, keys: Iterable[int], /) -> None:
        """Call `add` for each of the keys."""
        ...

    def keys_to_keep(self) -> Iterable[int] | None:
        """The keys that a snapshot must hold, or None if a snapshot can't hold this memory."""
        ...


class AllSent(set[int]):
    """Remembers every key ever sent, in about 95 bytes for each.

    `in` and `add` are the set's own methods. Methods in Python would take longer for each link.
    """

    __slots__ = ()

    def keys_to_keep(self) -> Iterable[int]:
        """All keys."""
        return self


class LatestSent:
    """Remembers only the latest keys, so an old key may look new again."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._keys: dict[object, None] = {}  # oldest first

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

    def keys_to_keep(self) -> None:
        """Returns None, because a resume reads the keys from the logs."""


class NothingSent:
    """Remembers nothing, so every key is new.

    This is `exchange.remember = "batch"`: only the outbox recognises URLs, those that wait in it.
    """

    def __contains__(self, key: object) -> bool:
        return False

    def add(self, key: int) -> None:
        """Do nothing."""

    def update(self, keys: Iterable[int]) -> None:
        """Do nothing."""

    def keys_to_keep(self) -> Iterable[int]:
        """No keys."""
        return ()


def make_memory(exchange: config.Exchange) -> SentMemory:
    """Make the memory that the configuration names."""
    if exchange.remember == "all":
        return AllSent()
    return LatestSent(exchange.cache_urls) if exchange.remember == "cache" else NothingSent()
