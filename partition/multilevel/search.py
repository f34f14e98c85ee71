"""Local search with k parts, after Fiduccia and Mattheyses: losing moves are tried and taken back.

A vertex only moves to a part where it fits (`state.fits`), so a feasible partition stays feasible.
Both functions here keep the vertices that may move next in a heap, ordered by gain.
"""

import numpy as np

from crawler.compiled import compiled, in_thread
from partition.arrays import Ids, Ints
from partition.multilevel.state import ONE, WORD, Shares, State, fits, lowest, move, others


@in_thread
def search(
    s: State, order: Ids, seeds: int, patience: int, wide: int
) -> int:  # pragma: no cover - compiled
    """Search from each vertex of `order`, `seeds` vertices at a time. Returns the gain.

    A search repeatedly moves the vertex that gains most or loses least. Each vertex moves at
    most once. Vertices whose gains change by a move become candidates. The search ends after
    `patience` moves without a new best, and takes back the moves after the best. Later searches
    leave alone what it has moved.
    """
    vertices = len(s.part)
    seen = np.zeros(vertices, np.int64)
    touched = np.empty(vertices, np.int32)
    heap = np.empty(vertices, np.int32)
    place = np.full(vertices, -1, np.int32)  # place of a vertex in the heap
    key = np.empty(vertices, np.int64)
    target = np.empty(vertices, np.int32)
    locked = np.zeros(vertices, np.bool_)
    trail = np.empty(vertices, np.int32)
    came_from = np.empty(vertices, np.int32)
    fill = np.empty(len(s.caps), np.float64)
    for b in range(len(fill)):
        fill[b] = _fill(s, b)
    clock = 0
    total = 0
    at = 0
    while at < len(order):
        size = 0
        while at < len(order) and size < seeds:
            v = order[at]
            at += 1
            if not locked[v]:
                b, gain = _best(s, v, fill)
                if b >= 0:
                    target[v] = b
                    size = _push(heap, place, key, size, v, gain)
        moves = 0
        kept = 0
        gained = 0
        most = 0
        while size > 0 and moves - kept < patience:
            v = heap[0]
            b = target[v]
            if not fits(s, v, b) or s.conn[v, b] - s.stay[v] != key[v]:
                b, gain = _best(s, v, fill)
                if b < 0:
                    size = _remove(heap, place, key, size, v)
                    continue
                target[v] = b
                if gain < key[v]:
                    _change(heap, place, key, size, v, gain)
                    continue
                key[v] = gain
            size = _remove(heap, place, key, size, v)
            locked[v] = True
            gained += key[v]
            trail[moves] = v
            came_from[moves] = s.part[v]
            moves += 1
            clock += 1
            changed = move(s, v, b, seen, clock, touched, wide)
            fill[came_from[moves - 1]] = _fill(s, came_from[moves - 1])
            fill[b] = _fill(s, b)
            if gained > most:
                most = gained
                kept = moves
            for i in range(changed):
                u = touched[i]
                if locked[u]:
                    continue
                b, gain = _best(s, u, fill)
                if b < 0:
                    if place[u] >= 0:
                        size = _remove(heap, place, key, size, u)
                    continue
                target[u] = b
                if place[u] >= 0:
                    _change(heap, place, key, size, u, gain)
                else:
                    size = _push(heap, place, key, size, u, gain)
        for i in range(moves - 1, kept - 1, -1):
            v = trail[i]
            clock += 1
            b = s.part[v]
            move(s, v, came_from[i], seen, clock, touched, 0)
            fill[b] = _fill(s, b)
            fill[came_from[i]] = _fill(s, came_from[i])
            locked[v] = False
        for i in range(size):
            place[heap[i]] = -1
        total += most
    return total


@compiled
def _push(
    heap: Ids, place: Ids, key: Ints, size: int, v: int, k: int
) -> int:  # pragma: no cover - compiled
    heap[size] = v
    place[v] = size
    key[v] = k
    _up(heap, place, key, size)
    return size + 1


@compiled
def _remove(
    heap: Ids, place: Ids, key: Ints, size: int, v: int
) -> int:  # pragma: no cover - compiled
    i = place[v]
    place[v] = -1
    size -= 1
    if i < size:
        heap[i] = heap[size]
        place[heap[i]] = i
        _up(heap, place, key, i)
        _down(heap, place, key, size, i)
    return size


@compiled
def _change(
    heap: Ids, place: Ids, key: Ints, size: int, v: int, k: int
) -> None:  # pragma: no cover - compiled
    key[v] = k
    _up(heap, place, key, place[v])
    _down(heap, place, key, size, place[v])


@compiled
def _up(heap: Ids, place: Ids, key: Ints, i: int) -> None:  # pragma: no cover - compiled
    v = heap[i]
    while i > 0:
        above = (i - 1) >> 1
        if key[heap[above]] >= key[v]:
            break
        heap[i] = heap[above]
        place[heap[i]] = i
        i = above
    heap[i] = v
    place[v] = i


@compiled
def _down(
    heap: Ids, place: Ids, key: Ints, size: int, i: int
) -> None:  # pragma: no cover - compiled
    v = heap[i]
    while True:
        below = 2 * i + 1
        if below >= size:
            break
        if below + 1 < size and key[heap[below + 1]] > key[heap[below]]:
            below += 1
        if key[heap[below]] <= key[v]:
            break
        heap[i] = heap[below]
        place[heap[i]] = i
        i = below
    heap[i] = v
    place[v] = i


@in_thread
def grow(s: State, order: Ids, goal: Ints) -> None:  # pragma: no cover - compiled
    """Let part 0 grow around the first vertex until it has one goal weight; all start in part 1.

    The next vertex is always the one that gains most, or the next of `order` if no neighbour is
    left. A vertex that would overfill part 0 is skipped.
    """
    vertices = len(s.part)
    seen = np.zeros(vertices, np.int64)
    touched = np.empty(vertices, np.int32)
    heap = np.empty(vertices, np.int32)
    place = np.full(vertices, -1, np.int32)
    key = np.empty(vertices, np.int64)
    passed = np.zeros(vertices, np.bool_)
    size = 0
    at = 0
    clock = 0
    while s.loads[0, 0] < goal[0] and s.loads[0, 1] < goal[1]:
        if size > 0:
            v = heap[0]
            size = _remove(heap, place, key, size, v)
        elif at < vertices:
            v = order[at]
            at += 1
        else:
            break
        if s.part[v] == 0 or passed[v]:
            continue
        if not fits(s, v, 0):
            passed[v] = True
            continue
        clock += 1
        changed = move(s, v, 0, seen, clock, touched, vertices)
        for i in range(changed):
            u = touched[i]
            if s.part[u] == 1 and not passed[u]:
                gain = int(s.conn[u, 0]) - int(s.stay[u])
                if place[u] >= 0:
                    _change(heap, place, key, size, u, gain)
                else:
                    size = _push(heap, place, key, size, u, gain)


@compiled
def _fill(s: State, b: int) -> float:  # pragma: no cover - compiled
    fill: float = max(s.loads[b, 0] / s.caps[b, 0], s.loads[b, 1] / s.caps[b, 1])
    return fill


@compiled
def _best(s: State, v: int, fill: Shares) -> tuple[int, int]:  # pragma: no cover - compiled
    """Return the part where v fits and gains most (or -1), and the gain. Ties: the emptiest."""
    best = -1
    most = np.int32(1)
    for word in range(s.reach.shape[1]):
        bits = others(s, v, word)
        while bits != 0:
            b = word * WORD + lowest(bits)
            bits &= bits - ONE
            c = s.conn[v, b]
            better = c > most or (c == most and (best < 0 or fill[b] < fill[best]))
            if better and fits(s, v, b):
                best = b
                most = c
    return best, int(most) - int(s.stay[v])
