"""The scores of waiting URLs. The URL with the greater score comes first.

Of URLs with equal scores, the URL that was found first comes first. An order only computes
scores. It doesn't know the queues, or when a site may be asked.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from crawler.ports import CrawlUrl, UserError


class BreadthFirst:
    """The URLs of a site come in the order in which they were found, and the sites take turns.

    This order has no scores. `counts`: the order wants to know of further back-links of a URL.
    `wants_links`: the order wants to know the links of each fetched page.
    """

    counts: ClassVar[bool] = False
    wants_links: ClassVar[bool] = False

    def state(self) -> list[float] | None:
        """The values that another run needs besides the scores of waiting URLs.

        Returns None if only the logs hold what another run needs.
        """
        return []

    def restore(self, state: list[float]) -> None:
        """Go on with the `state` of another run."""


class Scored(BreadthFirst):
    """An order by scores. Derive a class from it for an order of your own whose scores change.

    `more` is called only if `counts` is true, and `spread` only if `wants_links` is true.
    """

    def first(self, found: CrawlUrl, links: int) -> tuple[float, bool]:
        """The score of a new URL with `links` known back-links, and whether this score is final."""
        raise NotImplementedError

    def more(self, links: int) -> float:
        """What `links` further back-links add to a score."""
        raise NotImplementedError

    def spread(self, key: int, score: float | None, targets: Sequence[int]) -> float:
        """What each link of a fetched page adds to the score of its target.

        `first` or `more` has counted each of these links before. `key`: the key of the page.
        `score`: the page's score when its visit began, or None if that isn't known.
        """
        raise NotImplementedError

    def is_stale(self) -> bool:
        """Whether all scores that aren't final should be computed again."""
        return False

    def scores(self, keys: NDArray[np.uint64], links: NDArray[np.uint32]) -> NDArray[np.float64]:
        """New scores of the waiting URLs `keys`, which aren't final.

        `links`: the number of known back-links of each.
        """
        raise NotImplementedError

    def state(self) -> list[float] | None:
        """Returns None. An order that a snapshot can hold returns its values instead."""
        return None


class Given(Scored):
    """Each URL comes with its score, which a seed server has given it (`Workbench.restore`)."""

    def first(self, found: CrawlUrl, links: int) -> tuple[float, bool]:
        """Raise an error: a client of a seed server takes in no URL without a score."""
        raise AssertionError(f"{found.url} came without a score")


class DepthFirst(Scored):
    """The URL that was found last comes first."""

    def __init__(self) -> None:
        self._urls = 0

    def first(self, found: CrawlUrl, links: int) -> tuple[float, bool]:
        """The number of URLs found so far."""
        self._urls += 1
        return self._urls, True

    def state(self) -> list[float]:
        """The number of URLs found so far."""
        return [self._urls]

    def restore(self, state: list[float]) -> None:
        """Go on counting from the `state` of another run."""
        self._urls = int(state[0])


class Random(Scored):
    """The URLs come in a random order, by a hash of the key and the seed.

    The order is the same in every run, whatever the timing.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def first(self, found: CrawlUrl, links: int) -> tuple[float, bool]:
        """A hash of the key, from 0 to 1."""
        return xxh3_64_intdigest(found.key.to_bytes(8, "little"), self._seed) / 2**64, True

    def state(self) -> list[float]:
        """No values, because a score depends on the URL alone."""
        return []


class Backlinks(Scored):
    """The URL with the most known back-links comes first.

    This is IB'(P) of Cho, Garcia-Molina and Page, 1998.
    """

    counts = True

    def first(self, found: CrawlUrl, links: int) -> tuple[float, bool]:
        """The number of back-links, which isn't final."""
        return links, False

    def more(self, links: int) -> float:
        """The number of further back-links."""
        return links

    def state(self) -> list[float]:
        """No values, because the scores of the waiting URLs are all that counts."""
        return []


class Opic(Scored):
    """The URL with the most cash comes first (OPIC: Abiteboul, Preda, Cobena 2003).

    A fetched page splits its cash evenly among its links. No page is fetched twice, so cash that
    reaches a fetched page is lost, as in Baeza-Yates et al. 2005. A link on a page of another rank
    brings what a link on this rank's pages has brought on average. A seed starts with the same
    amount, which is 1 at first.
    """

    counts = True
    wants_links = True

    def __init__(self) -> None:
        self.mean = 1.0  # cash that a link brings on average
        self._cash = 0.0  # cash that fetched pages have split so far
        self._links = 0  # links among which they have split it

    def first(self, found: CrawlUrl, links: int) -> tuple[float, bool]:
        """The cash that this many links bring on average, which isn't final."""
        return links * self.mean, False

    def more(self, links: int) -> float:
        """The cash that this many links bring on average."""
        return links * self.mean

    def spread(self, key: int, score: float | None, targets: Sequence[int]) -> float:
        """The cash of each link, less the average that `first` or `more` has counted for it."""
        if score is None or not targets:
            return 0.0
        added = score / len(targets) - self.mean
        self._cash += score
        self._links += len(targets)
        self.mean = self._cash / self._links
        return added

    def state(self) -> list[float] | None:
        """What the average cash of a link is computed from."""
        return [self.mean, self._cash, self._links]

    def restore(self, state: list[float]) -> None:
        """Go on with the average of another run."""
        self.mean, self._cash, links = state
        self._links = int(links)


class Custom(Scored):
    """A function of the user scores each URL when it is found."""

    def __init__(self, function: Callable[[CrawlUrl], float]) -> None:
        self._function = function

    def first(self, found: CrawlUrl, links: int) -> tuple[float, bool]:
        """What the function returns for the URL. Raises ValueError if that is not a number."""
        score = float(self._function(found))
        if score != score:  # noqa: PLR0124
            raise ValueError(
                f"frontier.order: {self._function} returned nan for {found.url}; a number is needed"
            )
        return score, True

    def state(self) -> list[float]:
        """No values, because a score depends on the URL alone."""
        return []


def load(name: str) -> Scored:
    """Load the order `module:name`, a function of a CrawlUrl or a class derived from Scored.

    Raises UserError if the module can't be imported, or has no such function or class.
    """
    where = f"frontier.order = {name!r}"
    module_name, _, attribute = name.partition(":")
    try:
        module = import_module(module_name)
    except ImportError as error:
        raise UserError(f"{where}: {error}; the module must be on PYTHONPATH") from None
    except Exception as error:
        words = f"{type(error).__name__}: {error}".splitlines()[0]
        raise UserError(f"{where}: the module can't be imported: {words}") from error
    function: Any = getattr(module, attribute, None)
    if isinstance(function, type) and issubclass(function, Scored):
        return function()
    if not callable(function):
        raise UserError(
            f"{where}: {module_name} has no function {attribute}; name a function that takes a"
            " crawler.ports.CrawlUrl and returns a number"
        )
    return Custom(function)
