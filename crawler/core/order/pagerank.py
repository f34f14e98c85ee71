"""PageRank (Page, Brin, Motwani, Winograd 1998), of a whole graph and as an order."""

from array import array
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from crawler.arrays import distinct
from crawler.core.order.scores import Opic
from crawler.ports import CrawlUrl

DAMPING: Final = 0.85
ROUNDS: Final = 50
CLOSE: Final = 1e-4  # the rounds end when the scores change by less than this on average
_FIRST: Final = 100  # fetched pages before the first computation
_GROWTH: Final = 1.25  # factor of the fetched pages from one computation to the next


def pagerank(
    pages: int,
    sources: NDArray[np.integer],
    targets: NDArray[np.integer],
    outside: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.float64], float]:
    """The scores of all pages, which are 1 on average, and the score of a page without back-links.

    `sources`, `targets`: the links, shape (n,); pages are numbered from 0. The score of a page
    without links is distributed over all pages. `outside`: for each page, how many back-links it
    has from unknown pages. Such a link brings as much as a link brings on average.
    """
    degrees = np.bincount(sources, minlength=pages)
    leaves = degrees == 0
    scores = np.ones(pages)
    base = 1.0
    for _ in range(ROUNDS if pages else 0):
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
        if change < CLOSE * pages:
            break
    return scores, base


class PageRank(Opic):
    """The URL with the highest PageRank comes first, as far as this rank knows the graph.

    The graph consists of the pages that this rank has fetched. Links on pages of other ranks are
    known only as numbers of back-links; such a link brings as much as a link brings on average.

    All scores are computed again when the number of fetched pages has grown by a quarter. Until
    then, a new link adds what it would add in the first round of a computation. A score from an
    earlier session is final.

    The graph takes 8 bytes for each link and 16 for each page. A computation takes five times as
    much.
    """

    def __init__(self, earlier: Callable[[int], float | None] = lambda key: None) -> None:
        """`earlier(key)` returns the score of a page in an earlier session, or None."""
        super().__init__()
        self._earlier = earlier
        self._base = 1 - DAMPING  # the score of a page without back-links
        self._sources = array("Q")
        self._ends = array("q")  # where the links of each source end in `_targets`
        self._targets = array("Q")
        self._next = _FIRST  # number of fetched pages at which scores are computed again

    def first(self, found: CrawlUrl, links: int) -> tuple[float, bool]:
        """The score in the earlier session, which is final; or else an estimate."""
        score = self._earlier(found.key)
        if score is not None:
            return score, True
        return self._base + self.more(links), False

    def more(self, links: int) -> float:
        """What this many links add on average."""
        return DAMPING * super().more(links)

    def spread(self, key: int, score: float | None, targets: Sequence[int]) -> float:
        """Add the page and its links to the graph. Returns what each link adds until then."""
        self._sources.append(key)
        self._targets.extend(targets)
        self._ends.append(len(self._targets))
        return DAMPING * super().spread(key, score, targets)

    def state(self) -> None:
        """Returns None: the graph is as large as the logs, and is read from the logs."""

    def is_stale(self) -> bool:
        """Whether the number of fetched pages has grown by a quarter since the last computation."""
        return len(self._sources) >= self._next

    def scores(self, keys: NDArray[np.uint64], links: NDArray[np.uint32]) -> NDArray[np.float64]:
        """Compute the PageRank of the graph. Returns the scores of the waiting URLs `keys`."""
        self._next = int(_GROWTH * len(self._sources)) + 1
        sources = np.frombuffer(self._sources, np.uint64)
        targets = np.frombuffer(self._targets, np.uint64)
        ends = np.frombuffer(self._ends, np.int64)
        degrees = np.diff(ends, prepend=ends.dtype.type(0))
        nodes = distinct(np.concatenate((sources, targets, keys)))
        from_ = np.repeat(np.searchsorted(nodes, sources), degrees)
        to = np.searchsorted(nodes, targets)
        waiting = np.searchsorted(nodes, keys)
        known = np.bincount(to, minlength=len(nodes))[waiting]
        outside = np.zeros(len(nodes))
        outside[waiting] = np.maximum(links.astype(np.int64) - known, 0)
        scores, self._base = pagerank(len(nodes), from_, to, outside)
        if len(to):
            self._links = len(to)
            self._cash = float(scores[distinct(from_)].sum())
            self.mean = self._cash / self._links
        return scores[waiting]
