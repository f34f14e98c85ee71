"""What plug-ins get and what they return: all of the crawler that a plug-in imports.

A plug-in is a function of one of these types, or a class whose objects can be called like it. Its
package names it as an entry point, in the group that stands with the type. docs/extend.md says how.
This module changes only together with the number of the program's version.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser


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


@dataclass(frozen=True)
class Page:
    """An HTML page that was fetched."""

    url: str  # normalised
    fetched_at: datetime  # in UTC
    status: int  # from 200 to 299
    headers: tuple[tuple[str, str], ...]
    text: str  # the body, decoded as browsers do

    @cached_property
    def tree(self) -> "LexborHTMLParser":
        """The page as selectolax parses it, with `css`, `css_first` and others."""
        from selectolax.lexbor import LexborHTMLParser  # noqa: PLC0415  only handlers need it

        return LexborHTMLParser(self.text)


# `crawler.filters`: whether a normalised URL belongs to the crawl. The answer must depend on
# nothing but the URL and the options, because each rank judges by itself.
Filter = Callable[[str], bool]

# `crawler.orderings`: the score of a URL. The URL with the greatest score is fetched first.
Ordering = Callable[[Found], float]

# `crawler.schemes`: the part, from 0, of a site, given the site and the number of parts. The answer
# must depend on nothing but these and the options, because all ranks must know the same owner.
Scheme = Callable[[str, int], int]

# `crawler.handlers`: the rows of a page for the table of the handler. Each maps names of columns to
# values that JSON has. Dates and times are written as text.
Handler = Callable[[Page], Iterable[Mapping[str, object]]]
