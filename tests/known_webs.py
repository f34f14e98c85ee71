"""Known webs to compare a crawl with, for tests, by the plain definition."""

import numpy as np

from crawler.core.order import pagerank
from crawler.ports import Peers
from crawler.report.measures import Reference, importance_ranks, position
from crawler.report.reference import Web
from crawler.session.together import by_holder


def keys(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.uint64)


def known_web(pages: np.ndarray, sources: np.ndarray, targets: np.ndarray) -> Reference:
    """The web of these pages and links. A link counts once, and only between two of the pages."""
    pages = np.unique(pages)
    start, end = position(pages, sources), position(pages, targets)
    real = (start >= 0) & (end >= 0) & (start != end)
    both = np.unique(start[real] * len(pages) + end[real])
    start, end = np.divmod(both, max(1, len(pages)))
    back_links = np.bincount(end, minlength=len(pages))
    return Reference(pages, back_links, pagerank(len(pages), start, end)[0])


def part_of(web: Reference, peers: Peers) -> Web:
    """What a process holds of the web."""
    its = by_holder(web.keys, peers)[peers.rank]
    orders = [importance_ranks(one)[its] for one in (web.back_links, web.pagerank)]
    return Web(web.keys[its], orders, len(web.keys))
