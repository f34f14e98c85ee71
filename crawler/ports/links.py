"""Links, and URLs on their way into a frontier."""

from typing import Any, Final, NamedTuple

# Flags of a link, as stored in the column `flags` of the table `links`.
NOFOLLOW: Final = 1
REDIRECT: Final = 2  # the target of a Location header
CANONICAL: Final = 4
NEXT: Final = 8
PREV: Final = 16
ALTERNATE: Final = 32
FRAME: Final = 64
OUT_OF_SCOPE: Final = 128  # recorded, never followed

COOKIES_LOST: Final = 256  # never stored: the target needs cookies that a resume no longer has

# A value of `Fetched.judged_with`: no link of the page is followed, as too many pages are the same.
NEVER_FOLLOWED: Final = -1


# Who names a sitemap: authorities, by their robots.txt, or the user. Mostly there is one name;
# several are sorted.
Names = str | tuple[str, ...]
BY_USER: Final = "*"  # a seed is the sitemap, or an index that lists it


def names_of(names: Names | None) -> tuple[str, ...]:
    """Return the names one by one."""
    if names is None:
        return ()
    return (names,) if isinstance(names, str) else tuple(names)


def joined_names(names: Names | None, more: Names) -> Names:
    """Return the names of both, each once."""
    both = sorted({*names_of(names), *names_of(more)})
    return both[0] if len(both) == 1 else tuple(both)


class Link(NamedTuple):
    """A link that is normalised and has its key; its flags say whether it is out of scope."""

    key: int  # URL key of the target
    url: str
    site: str
    flags: int


class Anchor(NamedTuple):
    """What a page says of a link."""

    number: int  # of the link in the page, from 0
    element: str  # its name, such as `a` or `img`
    text: str


# A mark in a chain of redirects. A resume has lost the chain's cookies, so the redirects behind the
# mark are followed once more. No key is negative.
ANEW: Final = -1


def walked(chain: tuple[int, ...]) -> tuple[int, ...]:
    """Return the redirects of a chain since it was last begun: those behind the last ANEW."""
    if ANEW not in chain:
        return chain
    return chain[len(chain) - chain[::-1].index(ANEW) :]


def begun_anew(chain: tuple[int, ...]) -> tuple[int, ...]:
    """Return the chain with the mark ANEW at its end: all its redirects may be followed again."""
    return chain if chain[-1] == ANEW else (*chain, ANEW)


class CrawlUrl(NamedTuple):
    """A URL on its way into a frontier: that of its own rank, or that of its owner by a batch."""

    key: int
    url: str
    site: str
    # Links followed from a seed; a redirect isn't one. What a sitemap lists counts as a seed if the
    # user names the sitemap. So such a sitemap has -1, once it is known to be one. A requisite has
    # 1 if a page needs it, 2 if a style sheet of a page does, and so on.
    hops: int
    chain: tuple[int, ...] = ()  # keys of the redirects that led here, oldest first; and ANEW

    @property
    def is_errand(self) -> bool:
        """Whether this is no page, but a file that another site needs: see `errand`."""
        return _ERRAND in self.url

    @property
    def is_requisite(self) -> bool:
        """Whether this is no page, but a file that is needed to show one: see `requisite`."""
        return is_requisite(self.url)

    @property
    def steps_on(self) -> int:
        """The `hops` of the requisites of this page or requisite."""
        return self.hops + 1 if self.is_requisite else 1

    @property
    def address(self) -> str:
        """The URL to ask for: that of the page, or of the requisite."""
        return without_mark(self.url)


_ERRAND: Final = "#"  # no normalised URL contains this


def errand(url: str, number: int) -> str:
    """Return the name under which an errand waits in a frontier.

    An errand is a file that another site needs: the target to which its robots.txt redirects. It
    has a name of its own, because the same URL may also wait as a page, or as an earlier errand.
    """
    return f"{url}{_ERRAND}{number}"


def without_errand(name: str) -> str:
    """Return the URL of an errand."""
    return name.partition(_ERRAND)[0]


_REQUISITE: Final = ">"  # no normalised URL contains this


def requisite(url: str) -> str:
    """Return the name under which a requisite waits in a frontier, and from which its key is made.

    A requisite is a file that is needed to show a page. It has a name of its own, because a link
    may lead to the same URL. Then the URL is a page as well, whichever was found first.
    """
    return url + _REQUISITE


def is_requisite(name: str) -> bool:
    """Whether this is the name of a requisite."""
    return name.endswith(_REQUISITE)


def without_mark(name: str) -> str:
    """Return the URL of a requisite. Another URL is returned as it is."""
    return name.removesuffix(_REQUISITE)


# A Link or a CrawlUrl in code that only looks up its key, which it takes by index. With the named
# field, a compiled module would convert the int to a machine number and back, once for each link.
Fields = tuple[Any, ...]
