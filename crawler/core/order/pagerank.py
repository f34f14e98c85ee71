"""PageRank (Page, Brin, Motwani, Winograd 1998) as an order, and of a whole graph."""

from array import array
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from crawler.core.order.scores import Opic
from crawler.ports import Found

DAMPING: Final = 0.85
_ROUNDS: Final = 50
_CLOSE: Final = 1e-4  # change of a page in a round, on average, that ends the rounds
_FIRST: Final = 100  # pages
_GROWTH: Final = 1.25  # of the pages, from one computation to the next


def pagerank(
    pages: int,
    sources: NDArray[np.integer],
    targets: NDArray[np.integer],
    outside: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.float64], float]:
    """The score of each page, 1 on average, and what of it a page without back-links has.

    `sources`, `targets`: the links, shape (n,), pages numbered from 0. What a page without links
    has is shared by all pages. `outside`: so many back-links of each page are from pages that
    aren't known; each brings what a link brings on average.
    """
    degrees = np.bincount(sources, minlength=pages)
    leaves = degrees == 0
    scores = np.ones(pages)
    base = 1.0
    for _ in range(_ROUNDS if pages else 0):
        shares = scores / np.maximum(degrees, 1)
        new = np.bincount(targets, shares[sources], pages)
        if outside is not None and len(sources):
            new += outside * (scores[~leaves].sum() / len(sources))
        base = 1 - DAMPING + DAMPING * scores[leaves].sum() / pages
        new = base + DAMPING * new
        scale = pages / new.sum()
        base *= scale
        new *= scale
        change = np.abs(new - scores).sum()
        scores = new
        if change < _CLOSE * pages:
            break
    return scores, base


def pagerank_by_key(
    sources: NDArray[np.uint64], targets: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
    """The keys of all pages of a graph, ascending, with their scores. A link is a pair of keys."""
    keys = np.unique(np.concatenate((sources, targets)))
    scores, _ = pagerank(len(keys), np.searchsorted(keys, sources), np.searchsorted(keys, targets))
    return keys, scores


class PageRank(Opic):
    """The URL with the highest PageRank, as far as this rank knows the graph.

    The graph is what this rank has fetched; a link of another rank's page is known only as a
    back-link, and brings what a link brings on average. All scores are computed when the pages
    have become a quarter more; until then a new link adds what it would add in the first round.
    What an earlier session says is final.

    The graph takes 8 bytes a link and 16 a page, and five times as much while scores are computed.
    """

    def __init__(self, earlier: Callable[[int], float | None] = lambda key: None) -> None:
        """`earlier`: the score of a key in an earlier session, if that knew it."""
        super().__init__()
        self._earlier = earlier
        self._base = 1 - DAMPING  # the score of a page without back-links
        self._sources = array("Q")
        self._ends = array("q")  # in `targets`, of each source's links
        self._targets = array("Q")
        self._next = _FIRST  # pages

    def first(self, found: Found, links: int) -> tuple[float, bool]:
        score = self._earlier(found.key)
        if score is not None:
            return score, True
        return self._base + self.more(links), False

    def more(self, links: int) -> float:
        return DAMPING * super().more(links)

    def spread(self, key: int, score: float | None, targets: Sequence[int]) -> float:
        self._sources.append(key)
        self._targets.extend(targets)
        self._ends.append(len(self._targets))
        return DAMPING * super().spread(key, score, targets)

    def state(self) -> None:
        return None  # the graph is as much as the logs

    def is_stale(self) -> bool:
        return len(self._sources) >= self._next

    def scores(self, keys: NDArray[np.uint64], links: NDArray[np.uint32]) -> NDArray[np.float64]:
        self._next = int(_GROWTH * len(self._sources)) + 1
        sources = np.frombuffer(self._sources, np.uint64)
        targets = np.frombuffer(self._targets, np.uint64)
        ends = np.frombuffer(self._ends, np.int64)
        degrees = np.diff(ends, prepend=ends.dtype.type(0))
        nodes = np.unique(np.concatenate((sources, targets, keys)))
        from_ = np.repeat(np.searchsorted(nodes, sources), degrees)
        to = np.searchsorted(nodes, targets)
        waiting = np.searchsorted(nodes, keys)
        known = np.bincount(to, minlength=len(nodes))[waiting]
        outside = np.zeros(len(nodes))
        outside[waiting] = np.maximum(links.astype(np.int64) - known, 0)
        scores, self._base = pagerank(len(nodes), from_, to, outside)
        if len(to):
            self._links = len(to)
            self._cash = float(scores[np.unique(from_)].sum())
            self.mean = self._cash / self._links
        return scores[waiting]
