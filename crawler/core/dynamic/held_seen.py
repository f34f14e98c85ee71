"""URL-seen at a client that holds sites, and may have to give some away."""

from array import array
from collections.abc import Iterable, Iterator
from typing import Final

from crawler.core.seen import Unmet, UrlSeen

_GIVEN_BYTES: Final = 72  # of a key in a set


class HeldSeen:
    """The URLs that a client has met, without those that it has given away unfetched.

    A store of URL-seen forgets nothing. But a URL that was given away may come back with its site,
    and then it must be taken in. See `core.seen.UrlSeen`.
    """

    def __init__(self, store: UrlSeen) -> None:
        self.earlier = array("Q")  # keys of URLs that were met before, of sites that nobody named
        self._store = store
        self._given: set[int] = set()

    def nbytes(self) -> int:
        """About how many bytes of memory this takes, beside the store."""
        return 8 * len(self.earlier) + _GIVEN_BYTES * len(self._given)

    def unmet(self, keys: Iterable[int]) -> Unmet:
        """See UrlSeen."""
        if not self._given:
            return self._store.unmet(keys)
        keys = list(keys)
        return _Unmet(self._store.unmet(keys), self._given.intersection(keys), self._given)

    def __contains__(self, key: object) -> bool:
        return key in self._store and key not in self._given

    def __iter__(self) -> Iterator[int]:
        """All keys, in any order."""
        return (key for key in self._store if key not in self._given)

    def add(self, key: int) -> None:
        """Note that the key has been met, for the first time or again."""
        self._given.discard(key)
        self._store.add(key)

    def update(self, keys: Iterable[int]) -> None:
        """Note that keys have been met, here or at another rank. Their sites aren't known."""
        keys = array("Q", keys)
        self.earlier.extend(keys)
        self.take(keys)

    def take(self, keys: Iterable[int]) -> None:
        """Note that keys have been met at the rank that had their site before."""
        self._given.difference_update(keys)
        self._store.update(keys)

    def give(self, keys: Iterable[int]) -> None:
        """Note that another rank gets these URLs, which have been met here and not fetched."""
        self._given.update(keys)


class _Unmet:
    """The keys of a page that a store doesn't know, and those that were given away."""

    def __init__(self, new: Unmet, back: set[int], given: set[int]) -> None:
        self._new = new
        self._back = back
        self._given = given

    def __contains__(self, key: object) -> bool:
        return key in self._new or key in self._back

    def discard(self, key: int) -> None:
        """Note that one of the keys has been met, here and in the store."""
        self._new.discard(key)
        self._back.discard(key)
        self._given.discard(key)
