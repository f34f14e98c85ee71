"""The web graph in memory: pages, their sites, and the links between pages."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from partition.arrays import Ids, Ints, Keys


@dataclass(frozen=True, slots=True, eq=False)
class LinkGraph:
    """n pages and m links, in compressed rows: page i links to `adj[xadj[i]:xadj[i + 1]]`.

    The targets in a row are ascending, without repetitions and without i itself. Every page is
    one request of the next session, also a page in scope that was linked to but never fetched.
    """

    site: Ids  # index of the page's site in `sites`
    sites: tuple[str, ...]
    xadj: Ints  # (n + 1,)
    adj: Ids  # (m,)

    @property
    def pages(self) -> int:
        """The number of pages."""
        return len(self.site)

    @property
    def links(self) -> int:
        """The number of links."""
        return len(self.adj)

    def sources(self) -> Ids:
        """The source page of each link, in the order of `adj`."""
        return np.repeat(np.arange(self.pages, dtype=np.int32), np.diff(self.xadj))


@dataclass(frozen=True, slots=True, eq=False)
class WebGraph(LinkGraph):
    """Pages and links, with all that a model asks of a page."""

    key: Keys  # URL key of each page
    bytes: Ints  # size of the payload; 0 if never fetched
    url_bytes: Ids  # length of the URL
    texts: Callable[[Ids], list[str]] | None = None  # reads the URLs of pages; None without URLs

    def loads(self, group: Ids, groups: int) -> Ints:
        """Return the exact bytes and requests of each group of pages; groups x 2."""
        loads = np.zeros((groups, 2), np.int64)
        np.add.at(loads[:, 0], group, self.bytes)
        loads[:, 1] = np.bincount(group, minlength=groups)
        return loads


def popular(web: WebGraph, number: int) -> Ids:
    """Return the most linked-to pages, most linked first. In a tie, the lower key is first."""
    linked = np.bincount(web.adj, minlength=web.pages)
    return np.lexsort((web.key, -linked))[:number].astype(np.int32)


def without_links_to(web: WebGraph, pages: Ids) -> WebGraph:
    """Return the web without links to pages that all ranks know from the start."""
    known = np.zeros(web.pages, bool)
    known[pages] = True
    kept = ~known[web.adj]
    before = np.append(0, np.cumsum(kept))
    return replace(web, xadj=before[web.xadj], adj=web.adj[kept])


def from_arrays(
    src: npt.ArrayLike,
    dst: npt.ArrayLike,
    *,
    site: npt.ArrayLike,
    sites: Sequence[str] | None = None,
    bytes: npt.ArrayLike | None = None,  # noqa: A002 - the name of the column
    url_bytes: npt.ArrayLike | None = None,
    key: npt.ArrayLike | None = None,
    texts: Callable[[Ids], list[str]] | None = None,
) -> WebGraph:
    """Make a web graph from links (page numbers) and columns of the pages.

    Repeated links and links of a page to itself are dropped. Defaults: each page has 1 byte;
    each URL has 1 byte, so that the volume counts links; keys are made from the page numbers; a
    site is named by its number.
    """
    site_ids = np.asarray(site, np.int32)
    n = len(site_ids)
    if sites is None:
        sites = [str(number) for number in range(int(site_ids.max(initial=-1)) + 1)]
    rows = np.int64(max(n, 1))
    # One number a link, changed in place, because links take most of the memory.
    links = np.array(src, np.int64)
    links *= rows
    links += np.asarray(dst, np.int64)
    links.sort()
    keep = links % (rows + 1) != 0  # a link from i to i has the number i * (rows + 1)
    keep[1:] &= links[1:] != links[:-1]
    links = links[keep]
    return WebGraph(
        key=_mixed(np.arange(n, dtype=np.uint64)) if key is None else np.asarray(key, np.uint64),
        site=site_ids,
        bytes=np.ones(n, np.int64) if bytes is None else np.asarray(bytes, np.int64),
        url_bytes=np.ones(n, np.int32) if url_bytes is None else np.asarray(url_bytes, np.int32),
        sites=tuple(sites),
        xadj=np.searchsorted(links, np.arange(n + 1, dtype=np.int64) * rows),
        adj=(links % rows).astype(np.int32),
        texts=texts,
    )


def _mixed(x: Keys) -> Keys:
    """Map numbers one to one onto all 64-bit numbers (the finaliser of splitmix64)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
