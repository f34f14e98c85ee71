"""The state of a partition that is being changed: loads, pin counts and gains.

Only `move` changes a partition and keeps the rest up to date. `verify` recomputes everything. The
gain of moving vertex v from its part to part b is

    conn[v, b] - stay[v]

conn[v, b] is the cost of those nets of v that touch b. stay[v] is the cost of those nets of v that
have another pin in v's part. Reason: a move adds a part to the nets of v that don't touch b, and
removes v's part from the nets that have only v there. The cost of all nets of v cancels out.

The pins of a net are counted by part, in slots: one slot for each part that the net touches, in no
order. A slot also holds the exclusive or of its pins. If only one pin is left, this is its number.

`reach[v]` has a bit for each part b with conn[v, b] > 0. Most vertices touch few parts, or only
their own. So a search for a better part visits only these bits (`lowest`) instead of all parts, and
only the `boundary` instead of all vertices.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from crawler.compiled import compiled, in_thread
from partition.arrays import Ids, Ints
from partition.hypergraph import Hypergraph, connectivity_minus_one, part_loads

Bits = npt.NDArray[np.uint64]
Shares = npt.NDArray[np.float64]

WORD: Final = 64  # number of parts in a word of `reach`
ONE: Final = np.uint64(1)  # because numba turns unsigned - signed into a float
# A De Bruijn sequence: its product with 1 << i has different upper six bits for each i.
_DE_BRUIJN: Final = np.uint64(0x03F79D71B4CB0A89)
_BIT: Final = np.zeros(WORD, np.int64)
_BIT[[(0x03F79D71B4CB0A89 << at & 0xFFFFFFFFFFFFFFFF) >> 58 for at in range(WORD)]] = range(WORD)


class State(NamedTuple):
    """The arrays that the compiled functions work on. They are changed in place."""

    xpins: Ints
    pins: Ids
    xnets: Ints
    nets: Ids
    costs: Ids
    weights: Ints  # vertices x 2
    caps: Ints  # parts x 2: what a part may weigh, at least 1
    home: Ids  # previous part of each vertex, -1 if it had none
    held: Ints  # vertices x 2: the weights that count as away if a vertex isn't at home
    away: Ints  # 2 x 2: sums of `held` over vertices that aren't at home; bounds on these sums
    part: Ids
    loads: Ints  # parts x 2
    xslots: Ints  # nets + 1: a net has room for min(pins, parts) slots
    slot_part: Ids
    slot_count: Ids
    slot_pins: Ids  # exclusive or of the pins
    spread: Ids  # number of slots in use of each net, which is its connectivity
    conn: Ids  # vertices x parts
    reach: Bits  # vertices x parts / WORD, rounded up
    stay: Ids


class Homes(NamedTuple):
    """The previous parts of vertices, and how much weight may leave them."""

    home: Ids  # previous part of each vertex, -1 if it had none
    held: Ints  # vertices x 2: the weights that move if a vertex leaves its home
    most: Ints  # amounts of both weights that may move


def new_state(h: Hypergraph, part: Ids, caps: Ints, homes: Homes | None = None) -> State:
    """Return the state of a partition of a simplified hypergraph.

    The costs must sum to less than 2^31. `part` is copied.
    """
    if homes is None:
        nowhere = np.full(h.vertices, -1, np.int32)
        homes = Homes(nowhere, np.zeros((h.vertices, 2), np.int64), np.zeros(2, np.int64))
    parts = len(caps)
    room = np.zeros(h.nets + 1, np.int64)
    np.cumsum(np.minimum(np.diff(h.xpins), parts), out=room[1:])
    slots = int(room[-1])
    gone = (homes.home >= 0) & (homes.home != part)
    state = State(
        h.xpins,
        h.pins,
        *h.nets_of_vertices(),
        h.costs.astype(np.int32),
        h.weights,
        caps,
        homes.home,
        homes.held,
        np.stack([homes.held[gone].sum(axis=0), homes.most]).astype(np.int64),
        np.array(part, np.int32),
        part_loads(h.weights, part, parts),
        room,
        np.empty(slots, np.int32),
        np.empty(slots, np.int32),
        np.empty(slots, np.int32),
        np.zeros(h.nets, np.int32),
        np.zeros((h.vertices, parts), np.int32),
        np.zeros((h.vertices, -(-parts // WORD)), np.uint64),
        np.zeros(h.vertices, np.int32),
    )
    _count(state)
    return state


class Quality(NamedTuple):
    """The quality of a partition. Less is better: balance counts first, then cost."""

    excess: float  # by which loads exceed their caps, as shares of these; 0 if feasible
    cost: int  # connectivity - 1


def quality(s: State) -> Quality:
    """Return the quality of the partition that a state holds."""
    cost = int(((s.spread.astype(np.int64) - 1) * s.costs).sum())
    return Quality(excess(s.loads, s.caps), cost)


def judged(h: Hypergraph, part: Ids, caps: Ints) -> Quality:
    """Return the quality of any partition of a hypergraph."""
    loads = part_loads(h.weights, part, len(caps))
    return Quality(excess(loads, caps), connectivity_minus_one(h, part))


def excess(loads: Ints, caps: Ints) -> float:
    """Return by how much loads exceed their caps, as shares of these."""
    return round(float(np.maximum(loads / caps - 1, 0).sum()), 9)


def feasible(s: State) -> bool:
    """Return whether no part exceeds its caps."""
    return bool((s.loads <= s.caps).all())


def verify(s: State) -> None:
    """Compare the data that `move` keeps up to date with a recount. Raises AssertionError."""
    h = Hypergraph(s.xpins, s.pins, s.costs.astype(np.int64), s.weights)
    fresh = new_state(h, s.part, s.caps, Homes(s.home, s.held, s.away[1]))
    for name in ("loads", "spread", "conn", "reach", "stay", "away"):
        assert np.array_equal(getattr(s, name), getattr(fresh, name)), name
    for e in range(h.nets):
        mine, new = (_slots(state, e) for state in (s, fresh))
        assert mine == new, f"net {e}: {mine}, not {new}"
    assert quality(s).cost == connectivity_minus_one(h, s.part)


def _slots(s: State, e: int) -> list[tuple[int, int, int]]:
    used = slice(s.xslots[e], s.xslots[e] + s.spread[e])
    columns = (s.slot_part[used], s.slot_count[used], s.slot_pins[used])
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


@in_thread
def _count(s: State) -> None:  # pragma: no cover - compiled
    for e in range(len(s.costs)):
        first = s.xslots[e]
        c = s.costs[e]
        used = first
        for i in range(s.xpins[e], s.xpins[e + 1]):
            v = s.pins[i]
            b = s.part[v]
            q = first
            while q < used and s.slot_part[q] != b:
                q += 1
            if q == used:
                s.slot_part[q] = b
                s.slot_count[q] = 0
                s.slot_pins[q] = 0
                used += 1
            s.slot_count[q] += 1
            s.slot_pins[q] ^= v
        s.spread[e] = used - first
        for i in range(s.xpins[e], s.xpins[e + 1]):
            v = s.pins[i]
            for q in range(first, used):
                b = s.slot_part[q]
                s.conn[v, b] += c
                s.reach[v, b // WORD] |= ONE << np.uint64(b % WORD)
                if b == s.part[v] and s.slot_count[q] > 1:
                    s.stay[v] += c


@compiled
def move(
    s: State, v: int, b: int, seen: Ints, clock: int, touched: Ids, wide: int
) -> int:  # pragma: no cover - compiled
    """Move v to another part b. List in `touched` the vertices whose gains changed.

    Returns the number of listed vertices. `seen[u] == clock` marks a listed vertex. Pins of
    nets larger than `wide` may be missing from the list, because they are many and their gains
    change little.
    """
    a = s.part[v]
    s.part[v] = b
    for c in range(2):
        s.loads[a, c] -= s.weights[v, c]
        s.loads[b, c] += s.weights[v, c]
    home = s.home[v]
    if home == a:
        for c in range(2):
            s.away[0, c] += s.held[v, c]
    elif home == b:
        for c in range(2):
            s.away[0, c] -= s.held[v, c]
    listed = 0
    stay = np.int32(0)
    for j in range(s.xnets[v], s.xnets[v + 1]):
        e = s.nets[j]
        c = s.costs[e]
        first = s.xslots[e]
        last = first + s.spread[e] - 1
        at_a = -1
        at_b = -1
        for q in range(first, last + 1):
            if s.slot_part[q] == a:
                at_a = q
            elif s.slot_part[q] == b:
                at_b = q
        left = s.slot_count[at_a] == 1  # the net leaves a
        entered = at_b < 0  # the net is new in b
        if not left:
            s.slot_count[at_a] -= 1
            s.slot_pins[at_a] ^= v
            if s.slot_count[at_a] == 1:
                u = s.slot_pins[at_a]
                s.stay[u] -= c
                if seen[u] != clock:
                    seen[u] = clock
                    touched[listed] = u
                    listed += 1
        if not entered:
            if s.slot_count[at_b] == 1:
                u = s.slot_pins[at_b]
                s.stay[u] += c
                if seen[u] != clock:
                    seen[u] = clock
                    touched[listed] = u
                    listed += 1
            s.slot_count[at_b] += 1
            s.slot_pins[at_b] ^= v
            stay += c
        if left and entered:
            s.slot_part[at_a] = b
        elif left:
            s.slot_part[at_a] = s.slot_part[last]
            s.slot_count[at_a] = s.slot_count[last]
            s.slot_pins[at_a] = s.slot_pins[last]
            s.spread[e] -= 1
        elif entered:
            s.slot_part[last + 1] = b
            s.slot_count[last + 1] = 1
            s.slot_pins[last + 1] = v
            s.spread[e] += 1
        if left or entered:
            narrow = s.xpins[e + 1] - s.xpins[e] <= wide
            for i in range(s.xpins[e], s.xpins[e + 1]):
                u = s.pins[i]
                if left:
                    s.conn[u, a] -= c
                    if s.conn[u, a] == 0:
                        s.reach[u, a // WORD] &= ~(ONE << np.uint64(a % WORD))
                if entered:
                    if s.conn[u, b] == 0:
                        s.reach[u, b // WORD] |= ONE << np.uint64(b % WORD)
                    s.conn[u, b] += c
                if narrow and seen[u] != clock:
                    seen[u] = clock
                    touched[listed] = u
                    listed += 1
    s.stay[v] = stay
    return listed


# The next functions are called for each vertex and part. They have no branches, so the compiler can
# omit the reference counting for all arrays of the state, which would take 100 ns a call.


@compiled
def fits(s: State, v: int, b: int) -> bool:  # pragma: no cover - compiled
    """Return whether v may move to b: both loads stay within their caps, and `may_leave` holds."""
    first = s.loads[b, 0] + s.weights[v, 0] <= s.caps[b, 0]
    second = s.loads[b, 1] + s.weights[v, 1] <= s.caps[b, 1]
    return bool(first & second & may_leave(s, v))


@compiled
def may_leave(s: State, v: int) -> bool:  # pragma: no cover - compiled
    """Return whether v may leave its part, by the bound on weights away from home."""
    first = s.away[0, 0] + s.held[v, 0] <= s.away[1, 0]
    second = s.away[0, 1] + s.held[v, 1] <= s.away[1, 1]
    return bool((s.home[v] != s.part[v]) | (first & second))


@compiled
def lowest(bits: np.uint64) -> int:  # pragma: no cover - compiled
    """Return the position of the lowest bit that is set."""
    return int(_BIT[((bits & (~bits + ONE)) * _DE_BRUIJN) >> np.uint64(58)])


@compiled
def others(s: State, v: int, word: int) -> np.uint64:  # pragma: no cover - compiled
    """Return the bits of the parts in this word of `reach` that v's nets touch, without its own."""
    own = np.uint64(s.part[v] // WORD == word) << np.uint64(s.part[v] % WORD)
    return np.uint64(s.reach[v, word] & ~own)


@in_thread
def boundary(s: State) -> Ids:  # pragma: no cover - compiled
    """Return the vertices whose nets touch another part than their own, in ascending order."""
    found = np.empty(len(s.part), np.int32)
    size = 0
    for v in range(len(s.part)):
        for word in range(s.reach.shape[1]):
            if others(s, v, word) != 0:
                found[size] = v
                size += 1
                break
    return found[:size].copy()
