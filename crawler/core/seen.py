"""URL-seen: the memory of the URLs that a rank has met and takes care of.

There are two kinds of stores, and the door of the core (`core.door`) works with both. A `UrlSeen`
says at once whether a URL is new. A `LateSeen` takes candidates, and answers later about many at a
time, as a store on disk must.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

from crawler.ports import CrawlUrl
from crawler.reading.cookies import NO_COOKIES, Jar


class Unmet(Protocol):
    """Those of the keys of a page or of a batch that a store doesn't know."""

    def __contains__(self, key: object, /) -> bool: ...

    def discard(self, key: int, /) -> None:
        """Note that one of the keys of the page has been met, here and in the store."""
        ...


class NewKeys(set[int]):
    """Those of some keys that a store doesn't know. Keys that are discarded are added to it."""

    __slots__ = ("_note",)

    def __init__(self, new: Iterable[int], note: Callable[[int], None]) -> None:
        """`note` adds a key to the store."""
        super().__init__(new)
        self._note = note

    def discard(self, key: int) -> None:  # type: ignore[override]  # only keys are in the set
        """Note a key that has been met."""
        if key in self:
            self.remove(key)
            self._note(key)


class UrlSeen(Protocol):
    """A set of keys that answers at once. It is asked about every link of every page."""

    def unmet(self, keys: Iterable[int], /) -> Unmet:
        """Those of the keys that haven't been met. A store looks up many keys faster than each.

        The answer holds until somebody else adds one of these keys.
        """
        ...

    def __contains__(self, key: object, /) -> bool: ...

    def __iter__(self) -> Iterator[int]:
        """All keys, in any order."""
        ...

    def add(self, key: int, /) -> None:
        """Note that the key has been met, for the first time or again."""
        ...

    def update(self, keys: Iterable[int], /) -> None:
        """Call `add` for each of the keys."""
        ...


class MemorySeen(set[int]):
    """Holds every key ever met, in about 70 bytes for each.

    `in` and `add` are the set's own methods. Methods in Python would take longer for each link.
    """

    __slots__ = ()

    def unmet(self, keys: Iterable[int]) -> Unmet:
        """See UrlSeen.unmet."""
        return NewKeys(set(keys).difference(self), self.add)


class Candidate(NamedTuple):
    """A URL that may have been met before, with all that the door needs once that is known."""

    found: CrawlUrl
    source: CrawlUrl | None  # the page with the link, if this rank has read it
    jar: Jar = NO_COOKIES  # of the chain of redirects that leads to the URL
    links: int = 1  # to the URL
    is_foreign: bool = False  # another rank owns the URL (cross-over)


class SiteGroups(Protocol):
    """Sites in groups, of which a store that answers late works with one at a time.

    Links lead mostly to the site of their page. So a store has less to do if the rank fetches pages
    of the group with which the store works.
    """

    def at_hand(self) -> int:
        """Return the number of the group with which the store works next."""
        ...

    def group_of(self, site: str) -> int:
        """Return the number of the group of a site, which never changes."""
        ...


class LateSeen(ABC):
    """A set of keys that answers late.

    A candidate is pending from `submit` on, until `take_answers` returns it. Meanwhile its rank
    isn't passive, so every candidate must be answered in the end. Of the candidates of one key, the
    first that was submitted is answered first. It alone can be new. `groups`: if sites of the group
    at hand are to be visited before others.
    """

    groups: SiteGroups | None = None

    @property
    @abstractmethod
    def pending(self) -> int:
        """The number of candidates that aren't answered."""

    @property
    def is_stuck(self) -> bool:
        """Whether the store can't answer for now, because its disk has no room."""
        return False

    @abstractmethod
    def submit(self, candidate: Candidate, now: float) -> None:
        """Ask whether the key of a candidate is new, and note that it has been met.

        The answer may stand for several candidates: known ones of one key may be put together, with
        the sum of their links. A candidate whose key is in its own chain must stay by itself.
        """

    @abstractmethod
    def take_answers(self, now: float, *, hurry: bool) -> Iterable[tuple[Candidate, bool]]:
        """The candidates answered since the last call, each with whether its key is new.

        This is called after each event, so it must be cheap while there is nothing to return.
        `hurry`: the rank has nothing else to do, so the store should not wait for more candidates.
        """

    @abstractmethod
    def next_time(self) -> float | None:
        """When `take_answers` should be called again at the latest; None for no such time.

        After answers, a store that gives them in portions should name a time: the shells ask for
        visits and for messages in turn, and both calls may take answers.
        """

    @abstractmethod
    def update(self, keys: Iterable[int]) -> None:
        """Note that these keys have been met. None of them may be pending."""

    @abstractmethod
    def __iter__(self) -> Iterator[int]:
        """All keys, in any order. Nothing may be pending."""

    def close(self) -> None:  # noqa: B027 (most stores in tests have nothing to close)
        """Remove what the store has on disk. The store is useless afterwards."""


def known_at_once(seen: UrlSeen | LateSeen) -> UrlSeen:
    """The keys that are known at once to have been met. A store that answers late gives none."""
    return MemorySeen() if isinstance(seen, LateSeen) else seen
