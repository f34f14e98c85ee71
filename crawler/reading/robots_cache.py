"""Keeps the rules of robots.txt files: for how long, and in how much memory.

Callers pass the time as a number of seconds.
"""

from collections import OrderedDict
from typing import Final

from crawler.reading.robots import Rules

_ENTRY_SIZE: Final = 300  # bytes of a cache entry without its rules


class RobotsCache:
    """Keeps the rules of authorities, and drops those that were used least recently.

    The cache is bounded in entries and in bytes. Large rules have a bound of their own, so that
    thousands of large files don't displace the others.
    """

    def __init__(
        self,
        max_sites: int = 10_000,
        ttl_s: float = 86_400,
        unreachable_ttl_s: float = 600,
        *,
        max_bytes: int = 48 << 20,
        max_large_bytes: int = 2 << 20,
        keeps_expired: bool = False,
    ) -> None:
        """`max_bytes` bounds the rules that aren't large. `keeps_expired` is for `latest`."""
        self._max_sites = max_sites
        self._ttl_s = ttl_s
        self._unreachable_ttl_s = unreachable_ttl_s
        self._keeps_expired = keeps_expired
        self._shelves = _Shelf(max_bytes), _Shelf(max_large_bytes)

    def __len__(self) -> int:
        return sum(len(shelf.sites) for shelf in self._shelves)

    @property
    def bytes(self) -> int:
        """Return about how many bytes of memory the rules take."""
        return sum(shelf.bytes for shelf in self._shelves)

    def get(self, authority: str, now: float) -> Rules | None:
        """Return the rules of an authority, or None if its robots.txt must be fetched."""
        for shelf in self._shelves:
            entry = shelf.sites.get(authority)
            if entry is None:
                continue
            expires, rules = entry
            if now < expires:
                shelf.sites.move_to_end(authority)
                return rules
            if not self._keeps_expired:
                shelf.drop(authority)
        return None

    def since(self, authority: str) -> float:
        """Return the time when the rules that `get` returns for an authority were put here."""
        return next(
            shelf.sites[authority][0] - self._ttl_s
            for shelf in self._shelves
            if authority in shelf.sites
        )

    def latest(self, authority: str) -> Rules | None:
        """Return the rules of the last robots.txt, even if they have expired.

        Returns None if the cache has dropped them, or if the robots.txt couldn't be reached.
        """
        for shelf in self._shelves:
            if authority in shelf.sites:
                rules = shelf.sites[authority][1]
                return None if rules.unreachable else rules
        return None

    def kept(self) -> dict[str, Rules]:
        """Return all rules that are kept, by authority, also those that have expired."""
        return {name: rules for shelf in self._shelves for name, (_, rules) in shelf.sites.items()}

    def put(self, authority: str, rules: Rules, now: float) -> None:
        """Keep the rules of an authority, and drop others if there are too many."""
        ttl_s = self._unreachable_ttl_s if rules.unreachable else self._ttl_s
        for shelf in self._shelves:
            shelf.drop(authority)
        shelf = self._shelves[rules.are_large()]
        shelf.sites[authority] = (now + ttl_s, rules)
        shelf.bytes += _size(authority, rules)
        while len(shelf.sites) > 1 and (
            shelf.bytes > shelf.max_bytes or len(shelf.sites) > self._max_sites
        ):
            shelf.drop(next(iter(shelf.sites)))


class _Shelf:
    """A part of the cache. The entry that was used least recently comes first."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.sites: OrderedDict[str, tuple[float, Rules]] = OrderedDict()
        self.bytes = 0

    def drop(self, authority: str) -> None:
        """Drop the entry of an authority, if there is one."""
        entry = self.sites.pop(authority, None)
        if entry is not None:
            self.bytes -= _size(authority, entry[1])


def _size(authority: str, rules: Rules) -> int:
    return _ENTRY_SIZE + len(authority) + rules.size
