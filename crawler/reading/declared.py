"""Remembers the declared sitemaps: those that a robots.txt names, directly or by an index.

Such a sitemap may list all URLs of the authorities that declare it, and may be larger than a page.
"""

from collections.abc import Mapping
from typing import Final

from crawler.ports import Names, joined_names

_SITEMAP_BYTES: Final = 250  # of a sitemap that one authority declares


class DeclaredSitemaps:
    """The sitemaps that one rank knows to be declared, by the keys of their URLs.

    The agent makes this object. The reader adds sitemaps that it finds in robots.txt, in indexes
    and in redirects. The core adds those that other ranks report. No entry is ever removed.
    """

    def __init__(self) -> None:
        self.empty = True
        self._names: dict[int, Names] = {}

    def declare(self, key: int, names: Names) -> None:
        """Add these authorities to those of a sitemap."""
        self.empty = False
        self._names[key] = joined_names(self._names.get(key), names)

    def update(self, names: Mapping[int, Names]) -> None:
        """Add the authorities of several sitemaps."""
        for key, its in names.items():
            self.declare(key, its)

    def nbytes(self) -> int:
        """About how many bytes of memory the sitemaps take."""
        return _SITEMAP_BYTES * len(self._names)

    def __contains__(self, key: int) -> bool:
        return key in self._names

    def authorities(self, key: int) -> Names | None:
        """Return the authorities that declare a sitemap, or None if it isn't declared."""
        return self._names.get(key)

    def as_dict(self) -> dict[int, Names]:
        """Return a copy of all entries by key, in the form of messages and snapshots."""
        return dict(self._names)
