"""A web graph of millions of pages in memory, as flat arrays."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crawler import url
from crawler.arrays import distinct
from crawler.core.order import pagerank
from crawler.dataset import read_table, table_path
from crawler.ports import OUT_OF_SCOPE, Link, UserError
from crawler.report.measures import Reference

Pages = NDArray[np.int64]


class Web:
    """Pages 0 to n - 1. The out-links of page i are `targets[offsets[i]:offsets[i + 1]]`.

    Links of a page to itself are dropped. A repeated link is kept once.
    """

    left_out = 0  # pages of the file that no crawl could fetch, because their URLs are refused

    def __init__(self, urls: Iterable[str], links: NDArray[np.integer]) -> None:
        """Make a web from normalised URLs, each given once, and from links between them.

        `links`: shape (n, 2), the numbers of source and target.
        """
        texts = list(urls)
        # The URLs are one long text, which is small and goes to other processes fast.
        self._ends = np.cumsum([0, *map(len, texts)])
        self._text = "".join(texts).encode("ascii")
        links = links[links[:, 0] != links[:, 1]].astype(np.int64)
        pairs = np.sort(links[:, 0] * len(texts) + links[:, 1])
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]  # as np.unique, but faster
        sources, targets = np.divmod(pairs, max(1, len(texts)))
        self.targets = targets.astype(np.int32)
        self.offsets = np.searchsorted(sources, np.arange(len(texts) + 1))

    def __getstate__(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in ("_ends", "_text", "targets", "offsets")}

    def __len__(self) -> int:
        return len(self._ends) - 1

    def url(self, page: int) -> str:
        """The URL of a page, given by its number."""
        return self._text[self._ends[page] : self._ends[page + 1]].decode("ascii")

    @cached_property
    def links(self) -> list[Link]:
        """A link to each page, by its number.

        All links are made at once, so that the links of neighbouring pages lie together in memory.
        The crawl of a large web mostly waits for memory. `pages` and `out_links` are made at once
        for the same reason.
        """
        text, sites = self._text.decode("ascii"), dict[str, str]()
        links = []
        for start, end in pairwise(self._ends.tolist()):
            address = text[start:end]
            site = url.site(address)
            # All pages of a site share one string with its name.
            links.append(Link(url.key(address), address, sites.setdefault(site, site), 0))
        return links

    @cached_property
    def pages(self) -> dict[int, int]:
        """The number of each page, by its URL key."""
        return {link.key: page for page, link in enumerate(self.links)}

    @cached_property
    def out_links(self) -> list[tuple[Link, ...]]:
        """The links that stand on each page."""
        link, targets = self.links.__getitem__, self.targets.data
        return [
            tuple(map(link, targets[start:end])) for start, end in pairwise(self.offsets.tolist())
        ]

    def reachable(self, seeds: Iterable[int]) -> Pages:
        """The pages that can be reached from the seeds, in ascending order."""
        reached = np.zeros(len(self), bool)
        front = distinct(np.fromiter(seeds, np.int64))
        while len(front):
            reached[front] = True
            front = self._targets_of(front)
            front = distinct(front[~reached[front]])
        return np.flatnonzero(reached).astype(np.int64)

    def _targets_of(self, pages: Pages) -> Pages:
        starts, lengths = self.offsets[pages], self.offsets[pages + 1] - self.offsets[pages]
        total = np.cumsum(lengths)
        places = np.repeat(starts - total + lengths, lengths) + np.arange(total[-1])
        targets: Pages = self.targets[places].astype(np.int64)
        return targets

    @cached_property
    def reference(self) -> Reference:
        """The reference for the measures of crawls of this web. A page's key is its number."""
        sources = np.repeat(np.arange(len(self)), np.diff(self.offsets))
        return Reference(
            np.arange(len(self), dtype=np.uint64),
            np.bincount(self.targets, minlength=len(self)),
            pagerank(len(self), sources, self.targets)[0],
        )

    @cached_property
    def most_linked(self) -> Pages:
        """All pages by decreasing number of back-links. In a tie, the lower number comes first."""
        back_links = np.bincount(self.targets, minlength=len(self))
        return np.argsort(-back_links, kind="stable").astype(np.int64)


def load_web(path: Path) -> Web:
    """Load a web from a session, its tables, or a graph folder of the partitioning job.

    A page without a URL gets one on its site. Pages whose URLs no crawl could fetch are left out,
    with their links. Raises UserError for anything else, and if no page is left.
    """
    tables = path / "tables" if (path / "tables").is_dir() else path
    files = [table_path(tables, name) for name in ("pages", "links")]
    try:
        pages, links = map(read_table, files)
        web = _from_session(pages, links) if "key" in pages.column_names else _graph(pages, links)
    except (OSError, pa.ArrowInvalid, KeyError, ValueError) as error:
        missing = [file for file in files if not file.exists()]
        what = f"no such file: {missing[0]}" if missing else f"unusable: {error}".splitlines()[0]
        raise UserError(
            f"{path}: {what}; name a session, or a graph with"
            " pages.parquet (id, url or site) and links.parquet (src, dst)"
        ) from None
    if not len(web):
        raise UserError(
            f"{path}: has no page with an http or https URL that a crawl could fetch; check the"
            " column url of pages.parquet"
        )
    return web


def _graph(pages: pa.Table, links: pa.Table) -> Web:
    ids = pages["id"].to_numpy()
    number: dict[str, int] = {}  # pages with the same URL become one page
    numbers = np.full(len(ids), -1)
    for position, text in enumerate(_texts(pages)):
        with suppress(url.BadUrlError):
            numbers[position] = number.setdefault(url.normalise(text or ""), len(number))
    ends = [numbers[_places(links[end].to_numpy(), ids, "page")] for end in ("src", "dst")]
    both = np.stack(ends, axis=1)
    web = Web(number, both[(both >= 0).all(axis=1)])
    web.left_out = int((numbers < 0).sum())
    return web


def _texts(pages: pa.Table) -> Iterator[str | None]:
    """The URLs, one at a time. All of them together would take more memory than the whole web."""
    if "url" in pages.column_names:
        for chunk in pages["url"].chunks:
            yield from chunk.to_pylist()
        return
    sites = pages["site"].to_pylist() if "site" in pages.column_names else ["0"] * len(pages)
    for site, page in zip(sites, pages["id"].to_pylist(), strict=True):
        yield f"{site if '//' in site else 'http://' + site}/{page}"


def _from_session(pages: pa.Table, links: pa.Table) -> Web:
    links = links.filter((links["flags"].to_numpy() & OUT_OF_SCOPE) == 0)
    keys = np.concatenate([pages["key"].to_numpy(), links["target_key"].to_numpy()])
    texts = pa.chunked_array([*pages["url"].chunks, *links["target_url"].chunks], pa.string())
    first = np.sort(np.unique(keys, return_index=True)[1])
    names = ("source_key", "target_key")
    ends = [_places(links[name].to_numpy(), keys[first], "key") for name in names]
    return Web(texts.take(first).to_pylist(), np.stack(ends, axis=1))


def _places(wanted: NDArray[Any], names: NDArray[Any], what: str) -> Pages:
    """The index of each wanted name in `names`. Raises ValueError if a name is missing."""
    order = np.argsort(names, kind="stable").astype(np.int64)
    at: Pages = order[np.searchsorted(names, wanted, sorter=order).clip(max=len(names) - 1)]
    strange = wanted[names[at] != wanted]
    if len(strange):
        raise ValueError(f"a link has {what} {strange[0]}, which isn't among the pages")
    return at
