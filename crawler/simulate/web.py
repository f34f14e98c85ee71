"""A web graph in memory, for millions of pages: flat arrays, and a Link only for what is met."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from crawler import url
from crawler.core.order import pagerank
from crawler.ports import OUT_OF_SCOPE, Link, UserError
from crawler.regular import regular
from crawler.report.measures import Reference

Pages = NDArray[np.int64]


class Web:
    """Pages 0 to n - 1; the out-links of page i are `targets[offsets[i]:offsets[i + 1]]`.

    Self-links and repeated links count for nothing and are dropped.
    """

    left_out = 0  # pages that a file had and no crawl could fetch, as their URLs are refused

    def __init__(self, urls: Iterable[str], links: NDArray[np.integer]) -> None:
        """`urls`: normalised, each once. `links`: shape (n, 2), source and target as numbers."""
        texts = list(urls)
        # Text and keys as bytes and numbers: they go to other processes, and there are millions.
        self._ends = np.cumsum([0, *map(len, texts)])
        self._text = "".join(texts).encode("ascii")
        links = links[links[:, 0] != links[:, 1]].astype(np.int64)
        pairs = np.sort(links[:, 0] * len(texts) + links[:, 1])
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]  # each once, and faster than np.unique
        sources, targets = np.divmod(pairs, max(1, len(texts)))
        self.targets = targets.astype(np.int32)
        self.offsets = np.searchsorted(sources, np.arange(len(texts) + 1))

    def __getstate__(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in ("_ends", "_text", "targets", "offsets")}

    def __len__(self) -> int:
        return len(self._ends) - 1

    def url(self, page: int) -> str:
        return self._text[self._ends[page] : self._ends[page + 1]].decode("ascii")

    @cached_property
    def links(self) -> list[Link]:
        """The link to each page.

        Made all at once: then neighbours lie together in memory, and memory is what the crawl of a
        large web waits for. So it is with the two tables below.
        """
        text, sites = self._text.decode("ascii"), dict[str, str]()
        links = []
        for start, end in pairwise(self._ends.tolist()):
            address = text[start:end]
            site = url.site(address)
            # A site's name once, however many pages it has.
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
        front = np.unique(np.fromiter(seeds, np.int64))
        while len(front):
            reached[front] = True
            front = self._targets_of(front)
            front = np.unique(front[~reached[front]])
        return np.flatnonzero(reached).astype(np.int64)

    def _targets_of(self, pages: Pages) -> Pages:
        starts, lengths = self.offsets[pages], self.offsets[pages + 1] - self.offsets[pages]
        total = np.cumsum(lengths)
        places = np.repeat(starts - total + lengths, lengths) + np.arange(total[-1])
        targets: Pages = self.targets[places].astype(np.int64)
        return targets

    @cached_property
    def reference(self) -> Reference:
        """What crawls of this web are measured against; the key of a page is its number."""
        sources = np.repeat(np.arange(len(self)), np.diff(self.offsets))
        return Reference(
            np.arange(len(self), dtype=np.uint64),
            np.bincount(self.targets, minlength=len(self)),
            pagerank(len(self), sources, self.targets)[0],
        )

    @cached_property
    def most_linked(self) -> Pages:
        """All pages, those with the most back-links first; the lower number among equals."""
        back_links = np.bincount(self.targets, minlength=len(self))
        return np.argsort(-back_links, kind="stable").astype(np.int64)


def load_web(path: Path) -> Web:
    """A web from a session, its tables, or a graph directory of the partitioning job.

    Pages without a URL are given one on their site. Raises UserError for anything else, and if no
    page has a URL that a crawl could fetch; some that haven't are left out with their links.
    """
    tables = path / "tables" if (path / "tables").is_dir() else path
    try:
        pages = pq.read_table(regular(tables / "pages.parquet"))
        links = pq.read_table(regular(tables / "links.parquet"))
        web = _from_session(pages, links) if "key" in pages.column_names else _graph(pages, links)
    except (OSError, pa.ArrowInvalid, KeyError, ValueError) as error:
        what = "no such file" if isinstance(error, FileNotFoundError) else "unusable"
        raise UserError(
            f"{path}: {what}: {str(error).splitlines()[0]}; a session or a graph is needed, with"
            " pages.parquet (id, url or site) and links.parquet (src, dst)"
        ) from None
    if not len(web):
        raise UserError(f"{path}: has no page with an http or https URL that a crawl could fetch")
    return web


def _graph(pages: pa.Table, links: pa.Table) -> Web:
    ids = pages["id"].to_numpy()
    number: dict[str, int] = {}  # pages of the same URL are one
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
    """The URLs, one at a time, as they would take more memory than all that is made of them."""
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
    """Where each of the wanted names stands. Raises ValueError for one that isn't there."""
    order = np.argsort(names, kind="stable").astype(np.int64)
    at: Pages = order[np.searchsorted(names, wanted, sorter=order).clip(max=len(names) - 1)]
    strange = wanted[names[at] != wanted]
    if len(strange):
        raise ValueError(f"a link has {what} {strange[0]}, which isn't among the pages")
    return at
