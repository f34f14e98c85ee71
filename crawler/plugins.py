"""What plug-ins get and what they return: all of the crawler that a plug-in imports.

A plug-in is a function of one of these types, or a class whose objects can be called like it. Its
package names it as an entry point, in the group that stands with the type. docs/extend.md says how.
This module changes only together with the number of the program's version.
"""

from collections.abc import Callable
from typing import Protocol


class Found(Protocol):
    """A URL that the crawl has found."""

    @property
    def url(self) -> str:
        """The normalised URL."""
        ...

    @property
    def site(self) -> str:
        """The site: the host, with its port if that isn't the usual one."""
        ...

    @property
    def hops(self) -> int:
        """The number of links from a seed to this URL, by the way on which it was found first."""
        ...

    @property
    def key(self) -> int:
        """The 64-bit hash of the URL, as in the column `key` of the tables."""
        ...


# `crawler.filters`: whether a normalised URL belongs to the crawl. The answer must depend on
# nothing but the URL and the options, because each rank judges by itself.
Filter = Callable[[str], bool]

# `crawler.orderings`: the score of a URL. The URL with the greatest score is fetched first.
Ordering = Callable[[Found], float]

# `crawler.schemes`: the part, from 0, of a site, given the site and the number of parts. The answer
# must depend on nothing but these and the options, because all ranks must know the same owner.
Scheme = Callable[[str, int], int]
