"""Declared sitemaps: which authorities' robots.txt names a sitemap, itself or through an index.

Such a sitemap may speak of all URLs of these authorities, and may be larger than a page.
"""

from collections.abc import Mapping

from crawler.ports import Names, joined_names


class DeclaredSitemaps:
    """The sitemaps that one rank knows to be declared, by the keys of their URLs.

    The agent makes it. The reader declares what it reads in robots.txt, in indexes and in
    redirects, and the core what other ranks tell. An authority stays with a sitemap once declared.
    """

    def __init__(self) -> None:
        self.empty = True
        self._names: dict[int, Names] = {}

    def declare(self, key: int, names: Names) -> None:
        """Add these authorities to those of a sitemap."""
        self.empty = False
        self._names[key] = joined_names(self._names.get(key), names)

    def update(self, names: Mapping[int, Names]) -> None:
        """`declare` each of these sitemaps."""
        for key, its in names.items():
            self.declare(key, its)

    def __contains__(self, key: int) -> bool:
        return key in self._names

    def authorities(self, key: int) -> Names | None:
        """The authorities that declare a sitemap; None if it isn't declared."""
        return self._names.get(key)

    def as_dict(self) -> dict[int, Names]:
        """A copy of all, by key, as messages and snapshots hold it."""
        return dict(self._names)
