"""The order in which a crawl of a known web finds its pages, and the placing of new sites by it."""

import numpy as np

from crawler.compiled import compiled
from partition import evaluate
from partition.arrays import Ids, Ints
from partition.partvector import grant
from partition.webgraph import LinkGraph, WebGraph


def discovered(web: LinkGraph, seeds: Ids) -> tuple[Ids, Ids]:
    """Return all pages in the order of a breadth-first search, and the finder of each page.

    The finder is the page whose link led to the page first. It is -1 for the pages with which the
    search begins. These are the seeds, and each further page that can't be reached from the pages
    before.
    """
    return _search(web.xadj, web.adj, seeds)


def claimed(web: WebGraph, part: Ids, parts: int, seeds: Ids) -> Ids:
    """Return the part of each page, with the sites that the part vector lacks placed by claims.

    `part`: the part of each page, or -1 if the part vector lacks its site. `seeds`: the pages with
    which the crawl begins; without seeds, it begins with the listed pages. The part that finds a
    site first claims it, and `partvector.grant` decides, as in a crawl with a rank for each part. A
    site of a page that nothing has found is claimed by its registrar, the part by the hash of the
    site. The order of a real crawl differs, so a real crawl places some sites elsewhere.
    """
    if not len(seeds):
        seeds = np.flatnonzero(part >= 0).astype(np.int32)
    order, finder = discovered(web, seeds)
    registrars = evaluate.site_hashes(web.sites, parts).tolist()
    of_site: dict[int, int] = {}
    loads = [0] * parts
    placed, sites, finders = part.tolist(), web.site.tolist(), finder.tolist()
    for page in order.tolist():
        if placed[page] < 0:
            site = sites[page]
            if site not in of_site:
                by = finders[page]
                of_site[site] = grant(loads, registrars[site] if by < 0 else placed[by])
            placed[page] = of_site[site]
        loads[placed[page]] += 1
    return np.array(placed, np.int32)


@compiled
def _search(xadj: Ints, adj: Ids, seeds: Ids) -> tuple[Ids, Ids]:
    pages = len(xadj) - 1
    order = np.empty(pages, np.int32)
    finder = np.full(pages, -1, np.int32)
    reached = np.zeros(pages, np.bool_)
    begin = end = 0
    for candidate in range(-len(seeds), pages):
        page = seeds[candidate] if candidate < 0 else candidate
        if not reached[page]:
            reached[page] = True
            order[end] = page
            end += 1
        if candidate < -1:  # all seeds begin together
            continue
        while begin < end:
            source = order[begin]
            begin += 1
            for target in adj[xadj[source] : xadj[source + 1]]:
                if not reached[target]:
                    reached[target] = True
                    finder[target] = source
                    order[end] = target
                    end += 1
    return order, finder
