"""Counts the cost of an assignment of pages to parts, from the links alone.

The connectivity of a net is the number of parts that its pins touch. Summed over all nets,
connectivity - 1 is `messages_page_part` if there is a net for every source page (its pins are the
page and the pages that it links to). It is `transmissions_target_part` if there is a net for every
target page (its pins are the page and the pages that link to it).
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64_intdigest

from crawler import url
from crawler.compiled import in_thread
from partition.arrays import Ids, Ints, distinct
from partition.partvector import jump_hashes
from partition.webgraph import WebGraph


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """The counts of one assignment."""

    messages_page_part: int  # (source page, other part) pairs
    messages_site_part: int  # (source site, receiving part) pairs over inter-part links
    transmissions_target_part: int  # (target URL, sending part) pairs
    transmission_bytes: int  # sum of the lengths of these target URLs
    volume_bytes: int  # sum of the lengths of the target URLs of all inter-part links
    inter_part_links: int
    imbalance_bytes: float
    imbalance_requests: float
    loads: Ints  # parts x 2: bytes, requests

    def row(self) -> dict[str, object]:
        """The counts as fields of the JSON object that the command line prints."""
        return {
            "imbalance_bytes": self.imbalance_bytes,
            "imbalance_requests": self.imbalance_requests,
            "messages_page_part": self.messages_page_part,
            "messages_site_part": self.messages_site_part,
            "transmissions_target_part": self.transmissions_target_part,
            "transmission_bytes": self.transmission_bytes,
            "volume_bytes": self.volume_bytes,
            "inter_part_links": self.inter_part_links,
            "loads_bytes": self.loads[:, 0].tolist(),
            "loads_requests": self.loads[:, 1].tolist(),
        }

    @property
    def imbalances(self) -> tuple[float, float]:
        """The imbalances of bytes and of requests: the largest part / the average part - 1."""
        return self.imbalance_bytes, self.imbalance_requests


def evaluate(web: WebGraph, part: Ids, parts: int) -> Evaluation:
    """Count the cost of the links if page i belongs to `part[i]`, from 0 to `parts` - 1."""
    assert len(part) == web.pages
    assert not len(part) or (part.min() >= 0 and part.max() < parts)
    source = web.sources()
    crossing = np.flatnonzero(part[source] != part[web.adj])
    source, target = source[crossing], web.adj[crossing]
    senders = _other_parts(target, part[source], web.pages, parts)
    loads = web.loads(part, parts)
    imbalance_bytes, imbalance_requests = imbalance(loads)
    return Evaluation(
        messages_page_part=int(_other_parts(source, part[target], web.pages, parts).sum()),
        messages_site_part=int(
            _other_parts(web.site[source], part[target], len(web.sites), parts).sum()
        ),
        transmissions_target_part=int(senders.sum()),
        transmission_bytes=int((senders * web.url_bytes).sum()),
        volume_bytes=int(web.url_bytes[target].sum(dtype=np.int64)),
        inter_part_links=len(crossing),
        imbalance_bytes=imbalance_bytes,
        imbalance_requests=imbalance_requests,
        loads=loads,
    )


def traffic(web: WebGraph, part: Ids, parts: int) -> Ints:
    """Return the messages (source page, other part) from each part to each other; parts x parts."""
    source = web.sources()
    crossing = np.flatnonzero(part[source] != part[web.adj])
    messages = distinct(source[crossing].astype(np.int64) * parts + part[web.adj[crossing]])
    ends = part[messages // parts].astype(np.int64) * parts + messages % parts
    return np.bincount(ends, minlength=parts * parts).reshape(parts, parts)


@in_thread
def _other_parts(
    end: Ids, other: Ids, ends: int, parts: int
) -> Ints:  # pragma: no cover - compiled
    """Return the number of distinct parts that each end of links occurs with; (ends,).

    `end`, `other`: of each link, an end and the part of the other end. Links may have any order.
    """
    starts = np.zeros(ends + 1, np.int64)
    for e in end:
        starts[e + 1] += 1
    for e in range(ends):
        starts[e + 1] += starts[e]
    by_end = np.empty(len(end), np.int32)
    free = starts[:-1].copy()
    for i in range(len(end)):
        by_end[free[end[i]]] = other[i]
        free[end[i]] += 1
    number = np.zeros(ends, np.int64)
    last = np.full(parts, -1, np.int64)  # by part: the last end that it occurred with
    for e in range(ends):
        for i in range(starts[e], starts[e + 1]):
            if last[by_end[i]] != e:
                last[by_end[i]] = e
                number[e] += 1
    return number


def imbalance(loads: npt.NDArray[np.int64]) -> list[float]:
    """Return W_max / W_avg - 1 of each column, with the exact mean; 0 if a column sums to 0."""
    heaviest, total = loads.max(axis=0), loads.sum(axis=0)
    return [
        (int(most) * len(loads) - int(whole)) / int(whole) if whole else 0.0
        for most, whole in zip(heaviest, total, strict=True)
    ]


def url_hash(web: WebGraph, parts: int) -> Ids:
    """Return the part of each page under `url-hash`: its URL key modulo the number of parts."""
    return (web.key % np.uint64(parts)).astype(np.int32)


def site_hash(web: WebGraph, parts: int) -> Ids:
    """Return the part of each page under `site-hash`: the jump hash of its site's name (XXH3)."""
    return site_hashes(web.sites, parts)[web.site]


def site_hashes(sites: Iterable[str], parts: int) -> Ids:
    """Return the part of each site under `site-hash`."""
    keys = np.fromiter((xxh3_64_intdigest(site.encode()) for site in sites), np.uint64)
    return jump_hashes(keys, parts)


def hierarchical(web: WebGraph, parts: int) -> Ids:
    """Return the part of each page under `hierarchical`: the jump hash of its top-level domain."""
    return site_hashes(map(_top_level, web.sites), parts)[web.site]


def _top_level(site: str) -> str:
    host = host_of(site)
    last = host.rpartition(".")[2]
    return host if last.isdigit() or ":" in last else last


def host_of(site: str) -> str:
    """Return the host of a site. In imported graphs the name of a site may be any word."""
    return url.host_of_site(url.renamed_site(site).partition("/")[0])
