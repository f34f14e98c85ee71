"""Properties of a link graph, as in table 6.1 of the thesis and table 1 of the site paper."""

import numpy as np
import numpy.typing as npt
from harness import Row

from partition.arrays import Ints, distinct
from partition.webgraph import WebGraph


def properties(web: WebGraph) -> Row:
    """Return the columns of the site paper's table 1, and under `table` those of table 6.1.

    `within` is a percentage. `table` has two values for each name: of pages, and of sites. A net
    has a pin for its page's vertex and for each vertex that the page links to.
    """
    sites = len(web.sites)
    source, target = web.sources().astype(np.int64), web.adj.astype(np.int64)
    crossing = web.site[source] != web.site[target]
    reached = distinct(source[crossing] * sites + web.site[target[crossing]])  # (page, other site)
    nets = len(distinct(reached // sites))
    length = web.url_bytes[target]
    pair, which = np.unique(
        web.site[source[crossing]].astype(np.int64) * sites + web.site[target[crossing]],
        return_inverse=True,
    )
    volume = np.bincount(which, weights=length[crossing]).astype(np.int64)
    of_pages = _table(web.pages, source, target, length, web.bytes)
    of_sites = _table(sites, pair // sites, pair % sites, volume, web.loads(web.site, sites)[:, 0])
    # The site hypergraph of the thesis has a net for each page, though most have one pin.
    others = np.bincount(reached // sites, minlength=web.pages)
    nets_of_site = np.bincount(web.site, minlength=sites)
    nets_of_site += np.bincount(reached % sites, minlength=sites)
    of_sites |= _nets(others + 1, nets_of_site)
    of_pages |= _nets(np.diff(web.xadj) + 1, np.bincount(target, minlength=web.pages) + 1)
    return {
        "pages": web.pages,
        "sites": sites,
        "links": web.links,
        "within": round(100 * (1 - float(crossing.mean())), 2) if web.links else 100.0,
        "nets": nets,
        "pins": nets + len(reached),
        "table": {name: [of_pages[name], of_sites[name]] for name in of_pages},
    }


def _table(vertices: int, source: Ints, target: Ints, weight: Ints, load: Ints) -> Row:
    """Return the properties of a directed graph, whose edges are distinct."""
    component = np.bincount(_components(vertices, source, target), minlength=vertices)
    return {
        "vertices": vertices,
        "mean degree, in and out": len(source) / vertices,
        "largest in-degree": int(np.bincount(target, minlength=1).max()),
        "largest out-degree": int(np.bincount(source, minlength=1).max()),
        "mean weight of a vertex, KB": float(load.mean()) / 1024,
        "largest weight of a vertex, KB": int(load.max()) / 1024,
        "edges": len(source),
        "mean weight of an edge, bytes": float(weight.mean()) if len(weight) else 0.0,
        "largest weight of an edge, bytes": int(weight.max(initial=0)),
        "connected components": int(np.count_nonzero(component)),
        "vertices of the largest component": int(component.max()),
    }


def _nets(size: Ints, of_vertex: Ints) -> Row:
    return {
        "nets": len(size),
        "mean pins of a net": float(size.mean()),
        "most pins of a net": int(size.max()),
        "pins": int(size.sum()),
        "most nets of a vertex": int(of_vertex.max()),
    }


def _components(vertices: int, source: Ints, target: Ints) -> npt.NDArray[np.int64]:
    """Return for each vertex the least vertex that it is connected with."""
    least = np.arange(vertices)
    while (apart := least[source] != least[target]).any():
        source, target = source[apart], target[apart]
        one, other = least[source], least[target]
        np.minimum.at(least, one, other)
        np.minimum.at(least, other, one)
        while (least != (shorter := least[least])).any():
            least = shorter
    return least
