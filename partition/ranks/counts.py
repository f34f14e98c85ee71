"""How many pins the nets of a rank have in each part, for refinement on all ranks.

`count` counts them, and `do_moves` keeps them up to date.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from crawler.compiled import in_thread
from partition.arrays import Ids, Ints
from partition.hypergraph import Hypergraph
from partition.ranks.coarsening import grown

Flags = npt.NDArray[np.bool_]


class Counts(NamedTuple):
    """The nets of this rank, and how many pins each has in each part: 12 bytes a pin at most.

    A net has a slot for each part that it touches, in no order (see `multilevel.state`).
    """

    xpins: Ints
    pins: Ids
    xnets: Ints
    nets: Ids
    costs: Ints
    xslots: Ints
    slot_part: Ids
    slot_count: Ids
    spread: Ids  # number of slots in use of each net


def counts_of(h: Hypergraph, part: Ids, parts: int) -> Counts:
    """Return the counts of a partition."""
    room = np.zeros(h.nets + 1, np.int64)
    np.cumsum(np.minimum(np.diff(h.xpins), parts), out=room[1:])
    slots = int(room[-1])
    counts = Counts(
        h.xpins,
        h.pins,
        *h.nets_of_vertices(),
        h.costs,
        room,
        np.empty(slots, np.int32),
        np.empty(slots, np.int32),
        np.empty(h.nets, np.int32),
    )
    count(counts, part)
    return counts


@in_thread
def count(c: Counts, part: Ids) -> None:  # pragma: no cover - compiled
    """Count the pins of a partition anew."""
    for e in range(len(c.costs)):
        first = c.xslots[e]
        used = first
        for i in range(c.xpins[e], c.xpins[e + 1]):
            b = part[c.pins[i]]
            q = first
            while q < used and c.slot_part[q] != b:
                q += 1
            if q == used:
                c.slot_part[q] = b
                c.slot_count[q] = 0
                used += 1
            c.slot_count[q] += 1
        c.spread[e] = used - first


@in_thread
def boundary(c: Counts, vertices: int) -> Flags:  # pragma: no cover - compiled
    """Return whether each vertex has a net of this rank that touches several parts."""
    found = np.zeros(vertices, np.bool_)
    for e in range(len(c.costs)):
        if c.spread[e] > 1:
            for i in range(c.xpins[e], c.xpins[e + 1]):
                found[c.pins[i]] = True
    return found


@in_thread
def gains(
    c: Counts, part: Ids, vertex: Ids, parts: int
) -> tuple[Ids, Ids, Ints]:  # pragma: no cover - compiled
    """Return the place of each vertex in `vertex`, a part that its nets touch, and a cost.

    This is the cost of those nets that have another pin in the part (`multilevel.state`: `conn`;
    `stay` for the vertex's own part).
    """
    room = 4 * len(vertex) + 16
    of, to, costs = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int64)
    cost = np.zeros(parts, np.int64)
    used = 0
    for row in range(len(vertex)):
        v = vertex[row]
        begin = used
        for j in range(c.xnets[v], c.xnets[v + 1]):
            e = c.nets[j]
            for q in range(c.xslots[e], c.xslots[e] + c.spread[e]):
                b = c.slot_part[q]
                if b == part[v] and c.slot_count[q] == 1:
                    continue
                if cost[b] == 0:
                    if used == room:
                        room *= 2
                        of, to, costs = grown(of, room), grown(to, room), grown(costs, room)
                    of[used] = row
                    to[used] = b
                    used += 1
                cost[b] += c.costs[e]
        for i in range(begin, used):
            costs[i] = cost[to[i]]
            cost[to[i]] = 0
    return of[:used].copy(), to[:used].copy(), costs[:used].copy()


@in_thread
def do_moves(c: Counts, part: Ids, vertex: Ids, to: Ids) -> None:  # pragma: no cover - compiled
    """Move vertices to other parts. Changes `part` and the counts."""
    for i in range(len(vertex)):
        v = vertex[i]
        a = part[v]
        b = to[i]
        part[v] = b
        for j in range(c.xnets[v], c.xnets[v + 1]):
            e = c.nets[j]
            first = c.xslots[e]
            last = first + c.spread[e] - 1
            at_a = first
            while c.slot_part[at_a] != a:
                at_a += 1
            at_b = first
            while at_b <= last and c.slot_part[at_b] != b:
                at_b += 1
            c.slot_count[at_a] -= 1
            if c.slot_count[at_a] == 0 and at_b > last:
                at_b = at_a
                c.slot_part[at_b] = b
            elif c.slot_count[at_a] == 0:
                c.slot_count[at_b] += 1
                c.slot_part[at_a] = c.slot_part[last]
                c.slot_count[at_a] = c.slot_count[last]
                c.spread[e] -= 1
                continue
            elif at_b > last:
                c.slot_part[at_b] = b
                c.slot_count[at_b] = 0
                c.spread[e] += 1
            c.slot_count[at_b] += 1
