"""The scores of waiting URLs. The URL with the greater score comes first.

Of URLs with equal scores, the URL that was found first comes first. An order only computes
scores. It doesn't know the queues, or when a site may be asked.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from crawler.extensions import ORDERING, Plugin, make
from crawler.ports import CrawlUrl

_LAST: Final = -sys.float_info.max  # -inf marks URLs of poor branches


class BreadthFirst:
    """The URLs of a site come in the order in which they were found, and the sites take turns.

    This order has no scores. `counts`: the order wants to know of further back-links of a URL.
    `wants_links`: the order wants to know the links of each fetched page.
    """

    counts: ClassVar[bool] = False
    wants_links: ClassVar[bool] = False
    plugins: Sequence[Plugin[float]] = ()  # that score the URLs

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
    """A plug-in scores each URL when it is found. If it fails, the URL comes last."""

    def __init__(self, plugin: Plugin[float]) -> None:
        self.plugins = (plugin,)

    def first(self, found: CrawlUrl, links: int) -> tuple[float, bool]:
        """What the plug-in returns for the URL."""
        score = self.plugins[0].ask(found.url, found)
        return _LAST if score is None else score, True

    def state(self) -> list[float]:
        """No values, because a score depends on the URL alone."""
        return []


def load(name: str, options: Mapping[str, object]) -> Scored:
    """Load the order of a plug-in, or `module:name`: a function, or a class derived from Scored.

    Raises UserError if there is no such thing, or if it can't be used.
    """
    made = make(ORDERING, name, options)
    return made if isinstance(made, Scored) else Custom(Plugin(ORDERING, name, made))
