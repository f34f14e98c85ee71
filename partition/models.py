"""Models: which units are assigned to parts, and what an assignment costs.

A model maps pages to units, which are its vertices: pages, sites, or pieces of sites (hybrid). It
has a graph or a hypergraph of the units. In a graph, the cost of the cut edges is the volume. In a
hypergraph, connectivity - 1 is the number of messages. Links inside a unit cost nothing and aren't
in the model. Türk's thesis has the four combinations of pages or sites with a graph or a
hypergraph.

A message is a pair of a page and another part that the page has links to. In the model
`site-messages`, as in the site paper, it is a pair of a site and another part.
"""

import math
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from partition.arrays import Ids, Ints
from partition.evaluate import Evaluation
from partition.hypergraph import Hypergraph, simplify
from partition.webgraph import WebGraph

SHARE: Final = 0.25  # of the average part; the hybrid model splits heavier sites
_RANGES: Final = 16  # without URLs: a unit has at most this fraction (1/16) of that share
_MAX_COSTS: Final = 1 << 30  # the sum of a hypergraph's costs, because engines use 32 bits


class Graph(NamedTuple):
    """An undirected graph with two weights a vertex. Each edge is in the rows of both ends."""

    xadj: Ints  # vertices + 1
    adj: Ids
    costs: Ints  # cost of each edge in `adj`, at least 1
    weights: Ints  # vertices x 2: bytes, requests


@dataclass(frozen=True, slots=True)
class Objective:
    """The objective: t_start * messages + t_byte * bytes. Less is better.

    Messages are pairs of a page and another part. With `by_site` they are pairs of a site and
    another part; then no site may be split. The bytes are those of the URLs of all inter-part
    links. If senders remember what they have sent, each URL counts once for each sending part.
    """

    t_start: float = 1.0
    t_byte: float = 0.0
    remember: bool = False
    by_site: bool = False

    def value(self, counts: Evaluation) -> float:
        """Return the objective of a partition with these counts."""
        messages = counts.messages_site_part if self.by_site else counts.messages_page_part
        sent = counts.transmission_bytes if self.remember else counts.volume_bytes
        return self.t_start * messages + self.t_byte * sent


MESSAGES: Final = Objective()
SITE_MESSAGES: Final = Objective(by_site=True)
VOLUME: Final = Objective(t_start=0, t_byte=1)


class Units(Enum):
    """The kinds of units: pages, sites, or (hybrid) sites and pieces of heavy sites."""

    PAGES = "pages"
    SITES = "sites"
    HYBRID = "hybrid"


class Model(NamedTuple):
    """The units, whether they form a hypergraph or a graph, and the objective."""

    units: Units
    hyper: bool
    objective: Objective


MODELS: Final[Mapping[str, Model]] = {
    "page-graph": Model(Units.PAGES, hyper=False, objective=VOLUME),
    "site-graph": Model(Units.SITES, hyper=False, objective=VOLUME),
    "page-hypergraph": Model(Units.PAGES, hyper=True, objective=MESSAGES),
    "site-hypergraph": Model(Units.SITES, hyper=True, objective=MESSAGES),
    "site-messages": Model(Units.SITES, hyper=True, objective=SITE_MESSAGES),
    "hybrid": Model(Units.HYBRID, hyper=True, objective=MESSAGES),
}


# --- Units -----------------------------------------------------------------------------------


def units(
    web: WebGraph,
    kind: Units,
    parts: int,
    together: Mapping[str, str],
    whole: Container[str] = (),
) -> Ids:
    """Return the unit of each page, numbered from 0 without gaps.

    `together` maps sites to a group, the address of their server. If sites are the units, a
    whole group is one unit.

    The hybrid model splits a group that is heavier than SHARE of the average part, unless it
    has a site in `whole`. First, the group becomes its sites. A site that is still too heavy
    becomes the largest directories that fit. Pages that lie directly in a directory that
    doesn't fit become single units. In a graph without URLs, a site is split into ranges of
    page numbers instead, because in most such graphs these follow the order of the URLs.
    """
    if kind is Units.PAGES:
        return np.arange(web.pages, dtype=np.int32)
    names = [together.get(site, f"\0{site}") for site in web.sites]  # NUL: no address has it
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    group = np.array([numbers[name] for name in names], np.int32)[web.site]
    unit = group.astype(np.int64)
    if kind is Units.HYBRID:
        share = SHARE * np.array([web.bytes.sum(), web.pages]) / parts
        kept = np.array([site in whole for site in web.sites], bool)
        unit = _split(web, group, share, np.isin(group, np.unique(group[kept[web.site]])))
    return np.unique(unit, return_inverse=True)[1].astype(np.int32)


def _split(
    web: WebGraph, group: Ids, share: npt.NDArray[np.float64], kept: npt.NDArray[np.bool_]
) -> Ints:
    """Split the groups that are too heavy, except those of pages to be kept together."""

    def heavy(unit: Ids) -> npt.NDArray[np.bool_]:
        over = weights(web, unit) > share
        return (over[:, 0] | over[:, 1])[unit]

    split_group = heavy(group) & ~kept
    pages = np.flatnonzero(split_group & heavy(web.site)).astype(np.int32)
    unit = group.astype(np.int64)
    free = int(unit.max(initial=0)) + 1
    unit[split_group] = free + web.site[split_group]
    free += len(web.sites)
    pages = pages[np.argsort(web.site[pages], kind="stable")]
    texts = web.texts(pages) if web.texts else None
    ends = np.flatnonzero(np.append(np.diff(web.site[pages]) != 0, True)[: len(pages)]) + 1
    for low, high in zip([0, *ends.tolist()], ends.tolist(), strict=False):
        of_site = pages[low:high]
        load = np.stack([web.bytes[of_site], np.ones(high - low, np.int64)], axis=1)
        if texts is None:
            fractions = (load / np.maximum(share, 1)).max(axis=1)
            piece = (np.cumsum(fractions) * _RANGES).astype(np.int64)
        else:
            piece = split_tree(directories(texts[low:high]), load, share)
        unit[of_site] = free + piece
        free += int(piece.max()) + 1
    return unit


def directories(texts: Sequence[str]) -> list[str]:
    """Return the directory of each URL, with a slash at the end. The topmost is the host."""
    found = []
    for text in texts:
        path = text.partition("?")[0]
        slash = path.rfind("/", path.find("://") + 3)
        found.append(path[: slash + 1] if slash >= 0 else path + "/")
    return found


def split_tree(folders: Sequence[str], load: Ints, share: npt.NDArray[np.float64]) -> Ints:
    """Return units from 0 on for pages in a tree of folders: the largest subtrees within `share`.

    `load` is pages x 2. If a folder is too heavy as a whole, the pages directly in it are one
    unit if they fit; otherwise each of them is a unit.
    """
    numbers = {folder: number for number, folder in enumerate(dict.fromkeys(folders))}
    paths = [tuple(folder[:-1].split("/")) for folder in numbers]
    order = sorted(range(len(paths)), key=paths.__getitem__)
    paths = [paths[at] for at in order]
    place = np.empty(len(paths), np.int64)
    place[order] = np.arange(len(paths))
    folder_of = place[[numbers[folder] for folder in folders]]
    summed = np.zeros((len(paths) + 1, 2), np.int64)
    np.add.at(summed, folder_of + 1, load)
    summed = summed.cumsum(axis=0)

    def fits(low: int, high: int) -> bool:
        return bool((summed[high] - summed[low] <= share).all())

    unit = np.full(len(paths), -1, np.int64)  # unit of each folder; -1: its pages are units
    free = 0
    stack = [(0, len(paths), 0)]  # subtrees: first path, last path, number of common steps
    while stack:
        low, high, depth = stack.pop()
        if fits(low, high):
            unit[low:high] = free
            free += 1
            continue
        start = low
        if len(paths[low]) == depth:  # the folder's own pages
            start += 1
            if fits(low, start):
                unit[low] = free
                free += 1
        while start < high:
            end = start + 1
            while end < high and paths[end][depth] == paths[start][depth]:
                end += 1
            stack.append((start, end, depth + 1))
            start = end
    result: Ints = unit[folder_of]
    alone = np.flatnonzero(result < 0)
    result[alone] = free + np.arange(len(alone))
    return result


def directory_parts(
    folders: Sequence[str], part: Sequence[int], above: Sequence[int]
) -> dict[str, int]:
    """Return the part of each directory: the part that most pages in and below it are in.

    A directory is left out if its part is that of the nearest listed directory above it, or
    else that of its site, given by `above` for each page. In a tie, the lowest part wins.
    """
    inside: dict[str, Counter[int]] = {}
    site_part: dict[str, int] = {}
    for folder, number, site in zip(folders, part, above, strict=True):
        inside.setdefault(folder, Counter())[number] += 1
        site_part[folder] = site
    for folder in sorted(inside, key=len, reverse=True):
        below = folder
        while (parent := _parent(below)) and parent not in inside:
            inside[parent] = Counter()  # has no pages of its own
            below = parent
    deepest_first = sorted(inside, key=len, reverse=True)
    for folder in deepest_first:
        if parent := _parent(folder):
            inside[parent].update(inside[folder])
            site_part.setdefault(parent, site_part[folder])
    chosen: dict[str, int] = {}
    listed = {}
    for folder in reversed(deepest_first):
        chosen[folder] = min(inside[folder].items(), key=lambda item: (-item[1], item[0]))[0]
        parent = _parent(folder)
        if chosen[folder] != (chosen[parent] if parent else site_part[folder]):
            listed[folder] = chosen[folder]
    return listed


def _parent(folder: str) -> str | None:
    """Return the directory above, or None for a host."""
    slash = folder.rfind("/", 0, -1)
    return folder[: slash + 1] if slash > folder.find("://") + 2 else None


# --- Graph and hypergraph --------------------------------------------------------------------


def graph(web: WebGraph, unit: Ids) -> Graph:
    """Return the graph of the units, with an edge between two units that link to each other.

    The cost of an edge is the sum of the lengths of the URLs of all links between the two
    units, in both directions. So the cost of the cut edges is the volume.
    """
    n = int(unit.max(initial=-1)) + 1
    low, high, costs = _edges(web, unit)
    rows, columns = np.append(low, high), np.append(high, low)
    order = np.argsort(rows * n + columns)
    return Graph(
        xadj=np.searchsorted(rows[order], np.arange(n + 1)),
        adj=columns[order].astype(np.int32),
        costs=np.maximum(np.append(costs, costs)[order], 1),
        weights=weights(web, unit),
    )


def hypergraph(web: WebGraph, unit: Ids, objective: Objective = MESSAGES) -> Hypergraph:
    """Return a hypergraph whose connectivity - 1, times the costs of the nets, is the objective.

    For t_start, there is a net for each page (or site) with its own unit and those that it
    links to. For t_byte, there is a net for each two units that link to each other. If senders
    remember, there is instead a net for each page with its own unit and those that link to it.
    Costs are scaled to whole numbers. Equal nets are merged.
    """
    pieces: list[tuple[Ints, Ids, npt.NDArray[np.floating[Any]]]] = []
    source = web.sources()
    if objective.t_start:
        sender = web.site[source] if objective.by_site else source
        xpins, pins, senders = _nets(unit, sender, source, web.adj)
        pieces.append((xpins, pins, np.full(len(senders), objective.t_start)))
    if objective.t_byte and objective.remember:
        xpins, pins, pages = _nets(unit, web.adj, web.adj, source)
        pieces.append((xpins, pins, objective.t_byte * web.url_bytes[pages]))
    elif objective.t_byte:
        low, high, lengths = _edges(web, unit)
        pins = np.stack([low, high], axis=1).astype(np.int32).ravel()
        pieces.append((np.arange(len(low) + 1) * 2, pins, objective.t_byte * lengths))
    sizes = np.concatenate([np.diff(xpins) for xpins, _, _ in pieces])
    costs = np.concatenate([costs for _, _, costs in pieces])
    mixed = objective.t_start and objective.t_byte
    scale = math.inf if mixed else 1 / (objective.t_start or objective.t_byte)
    costs = costs * min(scale, _MAX_COSTS / max(float(costs.sum()), 1e-300))
    return simplify(
        Hypergraph(
            xpins=np.append(0, np.cumsum(sizes)),
            pins=np.concatenate([pins for _, pins, _ in pieces]),
            costs=np.maximum(np.rint(costs), 1).astype(np.int64),
            weights=weights(web, unit),
        )
    )


def as_hypergraph(graph: Graph) -> Hypergraph:
    """Return a net with two pins for each edge, so that connectivity - 1 is the edge cut."""
    rows = np.repeat(np.arange(len(graph.weights), dtype=np.int32), np.diff(graph.xadj))
    once = np.flatnonzero(rows < graph.adj)
    return Hypergraph(
        xpins=np.arange(len(once) + 1) * 2,
        pins=np.stack([rows[once], graph.adj[once]], axis=1).ravel(),
        costs=graph.costs[once],
        weights=graph.weights,
    )


def weights(web: WebGraph, unit: Ids) -> Ints:
    """Return the bytes and requests of each unit."""
    return web.loads(unit, int(unit.max(initial=-1)) + 1)


def _edges(web: WebGraph, unit: Ids) -> tuple[Ints, Ints, Ints]:
    """Return the pairs of linked units, and the lengths of the URLs of their links."""
    n = np.int64(max(int(unit.max(initial=-1)) + 1, 1))
    source, target = unit[web.sources()], unit[web.adj]
    outside = np.flatnonzero(source != target)
    source, target = source[outside], target[outside]
    pair = np.minimum(source, target) * n + np.maximum(source, target)
    order = np.argsort(pair)
    pair = pair[order]
    first = np.flatnonzero(np.append(True, pair[1:] != pair[:-1])[: len(pair)])
    lengths = web.url_bytes[web.adj[outside[order]]].astype(np.int64)
    costs = np.add.reduceat(lengths, first) if len(first) else lengths
    return pair[first] // n, pair[first] % n, costs


def _nets(unit: Ids, owner: Ids, page: Ids, other: Ids) -> tuple[Ints, Ids, Ids]:
    """Return, for each owner of links across units, the net of the units at both ends.

    Links are between `page` and `other`, and belong to `owner`. Returns the starts of the nets,
    their pins, and their owners.
    """
    n = np.int64(max(int(unit.max(initial=-1)) + 1, 1))
    across = np.flatnonzero(unit[page] != unit[other])
    owners = owner[across].astype(np.int64)
    pins = np.concatenate([owners * n + unit[page[across]], owners * n + unit[other[across]]])
    pins.sort()
    pins = pins[np.append(True, pins[1:] != pins[:-1])[: len(pins)]]
    owners = pins // n
    starts = np.flatnonzero(np.append(True, owners[1:] != owners[:-1])[: len(pins)])
    return (
        np.append(starts, len(pins)),
        (pins % n).astype(np.int32),
        owners[starts].astype(np.int32),
    )
