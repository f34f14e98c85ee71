"""The measures of a parallel crawl (Cho and Garcia-Molina, Parallel Crawlers, 2002, section 4).

Coverage and quality compare the fetched pages with a `Reference`, a web that is known: the graph
of an earlier session, or any other graph. Live and simulated sessions are measured by the same
functions.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

POINTS: Final = 100  # points of a series at most
_NO_PAGE: Final = -1
_Key = TypeVar("_Key", bound=np.integer)


class Reference(msgspec.Struct, frozen=True):
    """A known web of n pages, which a crawl is compared with."""

    keys: NDArray[np.uint64]  # (n,): the keys of the URLs, ascending
    back_links: NDArray[np.int64]  # (n,): how many pages link to each page
    pagerank: NDArray[np.float64]  # (n,): 1 on average


def position(keys: NDArray[_Key], sought: NDArray[_Key]) -> NDArray[np.int64]:
    """The index in `keys` (ascending) of each key sought, or -1 if `keys` lacks the key."""
    if not len(keys):
        return np.full(len(sought), _NO_PAGE)
    at = np.minimum(np.searchsorted(keys, sought), len(keys) - 1)
    return np.where(keys[at] == sought, at, _NO_PAGE)


def overlap(pages: int, unique: int) -> float | None:
    """(N - I) / I, for N fetched pages of which I are different (section 4.1)."""
    return (pages - unique) / unique if unique else None


def coverage(fetched: int, reachable: int) -> float | None:
    """I / U, for I fetched ones of the U pages that the crawl could have reached (section 4.2)."""
    return fetched / reachable if reachable else None


def quality(
    fetched: NDArray[np.int64], importance: NDArray[np.floating | np.integer], after: Sequence[int]
) -> list[float | None]:
    """|A_N and P_N| / |P_N| (section 4.3), for each N in `after`.

    A_N are the first N different pages that were fetched, P_N the N most important pages of the
    web. If N is larger than the web, P_N is the whole web.

    `fetched`: the different pages in the order of their first fetch, by position in `importance`,
    or -1 for a page that isn't in the web. Of equally important pages, the one with the lower
    position comes first.
    """
    real = np.flatnonzero(fetched >= 0)
    # For each page, the smallest N for which it is in both A_N and P_N.
    both = np.sort(np.maximum(real, importance_ranks(importance)[fetched[real]]))
    return shares_of_best(np.searchsorted(both, after).tolist(), after, len(importance))


def importance_ranks(importance: NDArray[np.floating | np.integer]) -> NDArray[np.int64]:
    """The place of each page in the order of importance, from 0."""
    ranks = np.empty(len(importance), np.int64)
    ranks[np.argsort(-importance, kind="stable")] = np.arange(len(importance))
    return ranks


def shares_of_best(both: Sequence[int], after: Sequence[int], pages: int) -> list[float | None]:
    """|A_N and P_N| / |P_N| for each N in `after`, in a web of so many pages.

    `both`: |A_N and P_N|, for each N.
    """
    wanted = [min(number, pages) for number in after]
    return [a / b if b else None for a, b in zip(both, wanted, strict=True)]


class Point(NamedTuple):
    """The measures after the first `pages` pages. A measure that can't be known is None."""

    pages: int
    seconds: float  # since the first page
    overlap: float | None
    coverage: float | None
    quality: float | None  # by back-links
    quality_pagerank: float | None
    communication_overhead: float | None  # URLs exchanged per page (section 4.4)


def series(
    keys: NDArray[np.uint64],
    good: NDArray[np.bool_],
    times: NDArray[np.float64],
    sent: NDArray[np.int64] | None,
    reference: Reference | None,
    reachable: NDArray[np.uint64] | None = None,
    again: NDArray[np.bool_] | None = None,
) -> list[Point]:
    """The measures over time, at no more than POINTS points. The last point is after all pages.

    The arrays have the shape (n,), with one element for each page in the order of fetching.

    `keys`: the key of the page's URL. `good`: whether the page had status 200. `times`: when it was
    fetched, in seconds. `sent`: how many URLs all ranks together had exchanged until then.
    `again`: whether the page was requested again with a cookie; such a page is no overlap.
    `reachable`: the keys that coverage is computed for, if they aren't the keys of the reference.
    """
    if reachable is None and reference is not None:
        reachable = reference.keys
    first = np.sort(np.unique(keys, return_index=True)[1])
    wanted = np.flatnonzero(good if reachable is None else good & np.isin(keys, reachable))
    met = np.sort(wanted[np.unique(keys[wanted], return_index=True)[1]])
    after = numbers_of_points(len(keys))
    unique = np.searchsorted(first, after).tolist()
    qualities: list[list[float | None]] = []
    if reference is not None:
        pages = position(reference.keys, keys[first])
        scores = reference.back_links, reference.pagerank
        qualities = [quality(pages, importance, unique) for importance in scores]
    asked_again = np.flatnonzero(np.zeros(0) if again is None else again)
    return make_points(
        after,
        times=[float(times[number - 1]) for number in after],
        again=np.searchsorted(asked_again, after).tolist(),
        unique=unique,
        covered=np.searchsorted(met, after).tolist(),
        reachable=None if reachable is None else len(reachable),
        qualities=qualities,
        sent=None if sent is None else [float(sent[number - 1]) for number in after],
        start=float(times[0]) if len(times) else 0.0,
    )


def numbers_of_points(pages: int) -> list[int]:
    """After how many pages the series of so many pages has its points."""
    return sorted({pages * step // POINTS for step in range(1, POINTS + 1)} - {0})


def make_points(
    after: Sequence[int],
    *,
    start: float,
    times: Sequence[float],
    again: Sequence[int],
    unique: Sequence[int],
    covered: Sequence[int],
    reachable: int | None,
    qualities: Sequence[Sequence[float | None]],
    sent: Sequence[float] | None,
) -> list[Point]:
    """Make the points of a series from counts of its first pages.

    `after`: the numbers of pages. All but `start`, `reachable` and `qualities` have a value for
    each of them. `start`: the time of the first page. `times`: that of the last one. `again`: how
    many were requested again with a cookie. `unique`: how many are different. `covered`: how many
    of these were to be fetched, of `reachable` ones. `qualities`: by back-links and by PageRank, or
    empty. `sent`: how many URLs were exchanged until then.
    """
    unknown: list[float | None] = [None] * len(after)
    back_links, ranks = qualities or (unknown, unknown)
    return [
        Point(
            number,
            times[n] - start,
            overlap(number - again[n], unique[n]),
            None if reachable is None else coverage(covered[n], reachable),
            back_links[n],
            ranks[n],
            None if sent is None else sent[n] / number,
        )
        for n, number in enumerate(after)
    ]
