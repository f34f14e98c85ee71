"""The measures of a parallel crawl (Cho and Garcia-Molina, Parallel Crawlers, 2002, section 4).

How much of a known web was fetched, and how much of what matters in it, is asked against a
`Reference`: the graph of an earlier session, or any other. Live sessions and simulated ones are
measured here by the same lines.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from crawler import url
from crawler.core.order import pagerank
from crawler.ports import OUT_OF_SCOPE, UserError
from crawler.regular import regular

POINTS: Final = 100  # of a series
_NO_PAGE: Final = -1
_Key = TypeVar("_Key", bound=np.integer)


@dataclass(frozen=True, slots=True)
class Reference:
    """A web of n pages to measure against."""

    keys: NDArray[np.uint64]  # (n,), ascending: of the URLs
    back_links: NDArray[np.int64]  # (n,): pages that link there
    pagerank: NDArray[np.float64]  # (n,): 1 on average

    @classmethod
    def of(
        cls,
        keys: NDArray[np.uint64],
        sources: NDArray[np.uint64],
        targets: NDArray[np.uint64],
    ) -> "Reference":
        """`keys` of the pages; `sources` and `targets` of the links, shape (m,). A link counts once
        however often it stands there, if both its ends are pages and not the same."""
        keys = np.unique(keys)
        start, end = position(keys, sources), position(keys, targets)
        real = (start >= 0) & (end >= 0) & (start != end)
        both = np.unique(start[real] * len(keys) + end[real])
        start, end = np.divmod(both, max(1, len(keys)))
        back_links = np.bincount(end, minlength=len(keys))
        return cls(keys, back_links, pagerank(len(keys), start, end)[0])


def read_reference(path: Path) -> Reference:
    """The pages of a session that were fetched with status 200, and their links; or all of a graph
    directory of the partitioning job that has URLs.

    Raises UserError for anything else.
    """
    tables = path / "tables" if (path / "tables").is_dir() else path
    try:
        pages = pq.read_table(regular(tables / "pages.parquet"))
        links = pq.read_table(regular(tables / "links.parquet"))
        if "key" in pages.column_names:
            pages = pages.filter(pc.equal(pages["status"], 200))
            links = links.filter((links["flags"].to_numpy() & OUT_OF_SCOPE) == 0)
            columns = pages["key"], links["source_key"], links["target_key"]
            return Reference.of(*(column.to_numpy() for column in columns))
        urls = pages["url"].to_pylist()
        keys = np.array([url.key(url.normalise(address)) for address in urls], np.uint64)
        ids = pages["id"].to_numpy()
        order = np.argsort(ids)
        start, end = (position(ids[order], links[name].to_numpy()) for name in ("src", "dst"))
        known = (start >= 0) & (end >= 0)
        return Reference.of(keys, keys[order[start[known]]], keys[order[end[known]]])
    except (OSError, pa.ArrowInvalid, KeyError, IndexError, ValueError) as error:
        what = "no such file" if isinstance(error, FileNotFoundError) else "unusable"
        raise UserError(
            f"{path}: {what}: {str(error).splitlines()[0]}; a session with its tables is needed, or"
            " a graph with pages.parquet (id, url) and links.parquet (src, dst)"
        ) from None


def position(keys: NDArray[_Key], sought: NDArray[_Key]) -> NDArray[np.int64]:
    """Where each of the keys sought stands in `keys` (ascending); -1 where it doesn't."""
    if not len(keys):
        return np.full(len(sought), _NO_PAGE)
    at = np.minimum(np.searchsorted(keys, sought), len(keys) - 1)
    return np.where(keys[at] == sought, at, _NO_PAGE)


def overlap(pages: int, unique: int) -> float | None:
    """(N - I) / I of N pages fetched, I different ones (section 4.1)."""
    return (pages - unique) / unique if unique else None


def coverage(fetched: int, reachable: int) -> float | None:
    """I / U of U pages that the crawl could have reached (section 4.2)."""
    return fetched / reachable if reachable else None


def quality(
    fetched: NDArray[np.int64], importance: NDArray[np.floating | np.integer], after: Sequence[int]
) -> list[float | None]:
    """|A_N and P_N| / |P_N| (section 4.3) for some N: how many of the N most important pages of the
    web are among the first N different ones fetched.

    `fetched`: the different pages in the order of their first fetch, by position in `importance`;
    -1 for one that isn't in the web and matters nothing. Among equals the lower position counts
    first. With N beyond the web's pages, P_N is the whole of it.
    """
    ranks = np.empty(len(importance), np.int64)
    ranks[np.argsort(-importance, kind="stable")] = np.arange(len(importance))
    real = np.flatnonzero(fetched >= 0)
    # From this N on a page is among both: the first N fetched and the N most important.
    both = np.sort(np.maximum(real, ranks[fetched[real]]))
    among = np.searchsorted(both, after).tolist()
    wanted = [min(number, len(importance)) for number in after]
    return [a / b if b else None for a, b in zip(among, wanted, strict=True)]


class Point(NamedTuple):
    """The measures after so many pages. What can't be known is None."""

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
    """The measures over time: at most POINTS of them, the last after all pages.

    Arrays of shape (n,), one element a page in the order of fetching: its URL's key, whether it had
    status 200, when it was fetched (seconds), and how many URLs all ranks together had exchanged
    until then. `reachable`: the keys that coverage is about, if they aren't the reference's.
    `again`: whether it was asked again with a cookie; such a page is no overlap.
    """
    if reachable is None and reference is not None:
        reachable = reference.keys
    first = np.sort(np.unique(keys, return_index=True)[1])
    wanted = np.flatnonzero(good if reachable is None else good & np.isin(keys, reachable))
    met = np.sort(wanted[np.unique(keys[wanted], return_index=True)[1]])
    after = sorted({len(keys) * step // POINTS for step in range(1, POINTS + 1)} - {0})
    unique = np.searchsorted(first, after).tolist()
    covered = np.searchsorted(met, after).tolist()
    asked_again = np.searchsorted(np.flatnonzero(np.zeros(0) if again is None else again), after)
    qualities: list[list[float | None]] = [[None] * len(after)] * 2
    if reference is not None:
        pages = position(reference.keys, keys[first])
        scores = reference.back_links, reference.pagerank
        qualities = [quality(pages, importance, unique) for importance in scores]
    return [
        Point(
            number,
            float(times[number - 1] - times[0]),
            overlap(number - int(asked_again[n]), unique[n]),
            None if reachable is None else coverage(covered[n], len(reachable)),
            qualities[0][n],
            qualities[1][n],
            None if sent is None else float(sent[number - 1]) / number,
        )
        for n, number in enumerate(after)
    ]
