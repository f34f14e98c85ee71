"""The largest sites of a web and the links between them, laid out in a plane.

The rule is that of Fruchterman and Reingold (Graph drawing by force-directed placement, 1991):
linked sites attract each other, all sites repel each other, and each step moves them less. So sites
that link to each other much stand together. At the end, circles that overlap are moved apart. Equal
webs give equal places.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from partition.arrays import Ids, Ints
from partition.webgraph import WebGraph

SITES: Final = 60  # the most sites in a picture
WIDTH: Final = 160.0
HEIGHT: Final = 100.0
_LINES_A_SITE: Final = 2  # lines to the sites that it has most links with
_STEPS: Final = 300
_LARGEST: Final = 11.0  # radius of the largest site
_SMALLEST: Final = 1.2
_GAP: Final = 0.8  # between two circles

Places = npt.NDArray[np.float64]


class Line(NamedTuple):
    """A line between two circles, for the links in both directions."""

    start: int
    end: int
    links: int


class Picture(NamedTuple):
    """Circles for sites, the largest first, and lines for the links between them."""

    sites: Ids
    pages: Ints  # of each site
    places: Places  # sites x 2, within WIDTH and HEIGHT
    radius: Places  # so that the area follows the number of pages
    lines: list[Line]


def draw(web: WebGraph) -> Picture:
    """Lay out the sites of a web that have most pages, `SITES` at most."""
    pages = np.bincount(web.site, minlength=len(web.sites))
    sites = np.argsort(-pages, kind="stable")[:SITES].astype(np.int32)
    sites = sites[pages[sites] > 0]
    links = _links(web, sites)
    radius = np.maximum(_LARGEST * np.sqrt(pages[sites] / max(pages.max(initial=1), 1)), _SMALLEST)
    return Picture(sites, pages[sites], _placed(links, radius), radius, _lines(links))


def _links(web: WebGraph, sites: Ids) -> Ints:
    """Return the numbers of links between each two of the sites, in both directions."""
    number = len(sites)
    place = np.full(len(web.sites), -1, np.int64)
    place[sites] = np.arange(number)
    source, target = place[web.site[web.sources()]], place[web.site[web.adj]]
    shown = (source >= 0) & (target >= 0) & (source != target)
    pairs = source[shown] * number + target[shown]
    counts = np.bincount(pairs, minlength=number * number).reshape(number, number)
    return counts + counts.T


def _lines(links: Ints) -> list[Line]:
    found = {}
    for site, row in enumerate(links):
        for other in np.argsort(-row, kind="stable")[:_LINES_A_SITE].tolist():
            if row[other]:
                pair = min(site, other), max(site, other)
                found[pair] = Line(*pair, int(row[other]))
    return sorted(found.values(), key=lambda line: line.links)


def _placed(links: Ints, radius: Places) -> Places:
    number = len(radius)
    turn = np.arange(number) * np.pi * (3 - np.sqrt(5))  # the seeds of a sunflower
    away = np.sqrt((np.arange(number) + 0.5) / max(number, 1))
    places = np.stack([np.cos(turn) * away * WIDTH, np.sin(turn) * away * HEIGHT], axis=1) / 2
    wanted = np.sqrt(WIDTH * HEIGHT / max(number, 1))  # distance of two linked sites
    ties = np.sqrt(links / max(int(links.max(initial=0)), 1))
    for step in range(_STEPS):
        apart, distance = _differences(places)
        repelled = wanted**2 / distance
        attracted = ties * distance**2 / wanted
        pushed = (apart * ((repelled - attracted) / distance)[:, :, np.newaxis]).sum(axis=1)
        pushed -= places * 0.3  # keeps sites without links from drifting away
        length = np.maximum(np.hypot(pushed[:, 0], pushed[:, 1]), 1e-9)
        most = WIDTH / 10 * (1 - step / _STEPS)
        places = places + pushed * (np.minimum(length, most) / length)[:, np.newaxis]
    for _ in range(_STEPS):
        places = _fitted(places, radius)
        apart, distance = _differences(places)
        overlap = np.maximum(radius[:, np.newaxis] + radius + _GAP - distance, 0)
        np.fill_diagonal(overlap, 0)
        places = places + (apart * (overlap / 2 / distance)[:, :, np.newaxis]).sum(axis=1)
    return _fitted(places, radius)


def _differences(places: Places) -> tuple[Places, Places]:
    """Return the vectors between each two places, and their lengths (1 on the diagonal)."""
    apart = places[:, np.newaxis] - places[np.newaxis]
    distance = np.maximum(np.hypot(apart[:, :, 0], apart[:, :, 1]), 1e-3)
    np.fill_diagonal(distance, 1)
    return apart, distance


def _fitted(places: Places, radius: Places) -> Places:
    """Return the places shrunk and shifted so that all circles are within the picture."""
    if not len(places):
        return places
    low = (places - radius[:, np.newaxis]).min(axis=0)
    high = (places + radius[:, np.newaxis]).max(axis=0)
    room = np.array([WIDTH, HEIGHT]) - 1
    scale = np.minimum(room / np.maximum(high - low, 1e-9), 1)
    middle = (low + high) / 2
    fitted: Places = (places - middle) * scale + np.array([WIDTH, HEIGHT]) / 2
    edge = radius[:, np.newaxis] + 0.5
    return np.clip(fitted, edge, np.array([WIDTH, HEIGHT]) - edge)
