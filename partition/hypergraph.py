"""Hypergraphs whose vertices have two weights, and the cost of their partitions.

A net connects any number of vertices, its pins. The connectivity of a net is the number of parts
that its pins touch. The sum of cost * (connectivity - 1) over all nets is the number of messages in
the crawl (see `partition.evaluate`). All functions here take time linear in the number of pins.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crawler.compiled import in_thread
from partition.arrays import Ids, Ints, total


@dataclass(frozen=True, slots=True, eq=False)
class Hypergraph:
    """A hypergraph. Net e has the pins `pins[xpins[e]:xpins[e + 1]]`.

    A net may contain a pin more than once, and nets may be equal; `simplify` removes such
    repetitions. Raises ValueError for arrays that don't fit together.
    """

    xpins: Ints  # (nets + 1,)
    pins: Ids
    costs: Ints  # cost of each net, 0 or more
    weights: Ints  # vertices x 2: bytes, requests; 0 or more

    def __post_init__(self) -> None:
        if self.weights.ndim != 2 or self.weights.shape[1] != 2:
            raise ValueError(f"weights: shape {self.weights.shape}, must be (vertices, 2)")
        if len(self.xpins) != self.nets + 1 or self.xpins[0] or self.xpins[-1] != len(self.pins):
            raise ValueError("xpins: must have nets + 1 entries, from 0 to the number of pins")
        if (np.diff(self.xpins) < 0).any():
            raise ValueError("xpins: must be ascending")
        if len(self.pins) and not 0 <= self.pins.min() <= self.pins.max() < self.vertices:
            raise ValueError(f"pins: must be from 0 to {self.vertices - 1}")
        for name, numbers in (("costs", self.costs), ("weights", self.weights)):
            if numbers.size and numbers.min() < 0:
                raise ValueError(f"{name}: must not be negative")

    @property
    def vertices(self) -> int:
        """The number of vertices."""
        return len(self.weights)

    @property
    def nets(self) -> int:
        """The number of nets."""
        return len(self.costs)

    def nets_of_vertices(self) -> tuple[Ints, Ids]:
        """The transpose: vertex v is a pin of the nets `nets[xnets[v]:xnets[v + 1]]`, ascending."""
        xnets, nets = _transposed(self.xpins, self.pins, self.vertices)
        return xnets, nets


def connectivity_minus_one(h: Hypergraph, part: Ids) -> int:
    """Return the sum of cost * (parts touched - 1) over the nets. Parts are numbered from 0."""
    spread = _connectivities(h.xpins, h.pins, part, _parts(part))
    beyond = np.maximum(spread - 1, 0)
    if total(h.costs) * int(beyond.max(initial=0)) < 1 << 63:
        return int((beyond * h.costs).sum())
    return sum(more * cost for more, cost in zip(beyond.tolist(), h.costs.tolist(), strict=True))


def cut_net(h: Hypergraph, part: Ids) -> int:
    """Return the sum of the costs of the nets that touch more than one part."""
    spread = _connectivities(h.xpins, h.pins, part, _parts(part))
    return int(h.costs[spread > 1].sum())


def imbalances(h: Hypergraph, part: Ids, parts: int) -> tuple[float, float]:
    """Return W_max / W_avg - 1 of both weights, with the exact mean; 0 for a total of 0."""
    loads = part_loads(h.weights, part, parts)
    heaviest, whole = loads.max(axis=0), loads.sum(axis=0)
    first, second = (
        (int(most) * parts - int(all_)) / int(all_) if all_ else 0.0
        for most, all_ in zip(heaviest, whole, strict=True)
    )
    return first, second


def part_loads(weights: Ints, part: Ids, parts: int) -> Ints:
    """Return the two weights of each part; parts x 2."""
    loads = np.zeros((parts, 2), np.int64)
    np.add.at(loads, part, weights)
    return loads


def simplify(h: Hypergraph) -> Hypergraph:
    """Return a hypergraph of the same cost without repeated pins, one-pin nets and equal nets."""
    return contract(h, np.arange(h.vertices, dtype=np.int32), h.vertices)


def contract(h: Hypergraph, unit: Ids, units: int) -> Hypergraph:
    """Return the simplified hypergraph of groups of vertices; `unit` is the group of each vertex.

    Vertices whose unit is -1 are left out, with their pins and weights. A partition of the
    result costs as much as its projection on `h`, except for what the left-out vertices add.
    """
    return merged(h, unit, units)[0]


def merged(h: Hypergraph, unit: Ids, units: int) -> tuple[Hypergraph, Ints]:
    """Return `contract(h, unit, units)`, and the first net of `h` that each net comes from."""
    xpins, pins, costs, weights, first = _contracted(
        h.xpins, h.pins, h.costs, h.weights, unit, units
    )
    return Hypergraph(xpins, pins, costs, weights), first


def ascending(h: Hypergraph) -> Hypergraph:
    """Return the hypergraph with the pins of each net in ascending order."""
    order = np.lexsort((h.pins, np.repeat(np.arange(h.nets), np.diff(h.xpins))))
    return Hypergraph(h.xpins, h.pins[order], h.costs, h.weights)


def _parts(part: Ids) -> int:
    return int(part.max(initial=-1)) + 1


@in_thread
def _connectivities(
    xpins: Ints, pins: Ids, part: Ids, parts: int
) -> npt.NDArray[np.int64]:  # pragma: no cover - compiled
    spread = np.zeros(len(xpins) - 1, np.int64)
    mark = np.full(parts, -1, np.int64)  # by part: the last net that touched it
    for e in range(len(spread)):
        for i in range(xpins[e], xpins[e + 1]):
            b = part[pins[i]]
            if mark[b] != e:
                mark[b] = e
                spread[e] += 1
    return spread


@in_thread
def _transposed(
    xpins: Ints, pins: Ids, vertices: int
) -> tuple[Ints, Ids]:  # pragma: no cover - compiled
    xnets = np.zeros(vertices + 2, np.int64)  # shifted by two, so that filling moves it into place
    for v in pins:
        xnets[v + 2] += 1
    for v in range(vertices):
        xnets[v + 2] += xnets[v + 1]
    nets = np.empty(len(pins), np.int32)
    for e in range(len(xpins) - 1):
        for i in range(xpins[e], xpins[e + 1]):
            v = pins[i] + 1
            nets[xnets[v]] = e
            xnets[v] += 1
    return xnets[:-1].copy(), nets


@in_thread
def _contracted(
    xpins: Ints, pins: Ids, costs: Ints, weights: Ints, unit: Ids, units: int
) -> tuple[Ints, Ids, Ints, Ints, Ints]:  # pragma: no cover - compiled
    # One pass writes each net behind the last one kept, and removes it again if it has fewer than
    # two pins or equals a kept net. A hash table over the sets of pins finds candidates. The marks,
    # which show the pins of this net, then tell whether a candidate is equal.
    nets = len(costs)
    new_xpins = np.zeros(nets + 1, np.int64)
    new_pins = np.empty(len(pins), np.int32)
    new_costs = np.empty(nets, np.int64)
    first_nets = np.empty(nets, np.int64)
    hashes = np.empty(nets, np.uint64)
    size = 4
    while size < 2 * nets:
        size *= 2
    table = np.full(size, -1, np.int32)
    mark = np.full(units, -1, np.int64)
    kept = 0
    for e in range(nets):
        start = new_xpins[kept]
        end = start
        digest = np.uint64(0)
        for i in range(xpins[e], xpins[e + 1]):
            u = unit[pins[i]]
            if u >= 0 and mark[u] != e:
                mark[u] = e
                new_pins[end] = u
                end += 1
                x = np.uint64(u + 1) * np.uint64(0x9E3779B97F4A7C15)
                x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                digest += x ^ (x >> np.uint64(31))
        if end - start < 2 or costs[e] == 0:
            continue
        at = np.int64(digest & np.uint64(size - 1))
        while True:
            other = table[at]
            if other < 0:
                table[at] = kept
                hashes[kept] = digest
                new_costs[kept] = costs[e]
                first_nets[kept] = e
                kept += 1
                new_xpins[kept] = end
                break
            first, last = new_xpins[other], new_xpins[other + 1]
            if hashes[other] == digest and last - first == end - start:
                alike = True
                for i in range(first, last):
                    if mark[new_pins[i]] != e:
                        alike = False
                        break
                if alike:
                    new_costs[other] += costs[e]
                    break
            at = (at + 1) & (size - 1)
    new_weights = np.zeros((units, 2), np.int64)
    for v in range(len(unit)):
        u = unit[v]
        if u >= 0:
            new_weights[u, 0] += weights[v, 0]
            new_weights[u, 1] += weights[v, 1]
    used = new_xpins[kept]
    new_xpins = new_xpins[: kept + 1].copy()
    return (
        new_xpins,
        new_pins[:used].copy(),
        new_costs[:kept].copy(),
        new_weights,
        first_nets[:kept].copy(),
    )
