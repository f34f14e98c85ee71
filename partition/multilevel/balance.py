"""Balance: turns any partition into one within the caps of both weights, at little cost.

The pressure of a part is the sum of the squares of its two excesses, each as a share of its cap. So
one large excess weighs more than two small ones. A move may overfill a part in one weight if the
total pressure falls. (Greedy moves from the worst part alone get stuck.) If no single move lowers
the pressure, two vertices change places.
"""

import numpy as np

from crawler.compiled import compiled, in_thread
from partition.arrays import Ids, Ints
from partition.multilevel.state import State, feasible, may_leave, move

_ROUNDS = 30
_SWAPS = 200
_SAMPLES = 1000  # pairs that are compared for a swap


def rebalance(s: State, rng: np.random.Generator, aim: float = 0.99) -> bool:
    """Bring all loads within the caps. Returns whether that succeeded.

    The loads are brought down to `aim` of the caps, which leaves room for the refinement after
    it.
    """
    if feasible(s):
        return True
    _relieve(s, aim, _ROUNDS)
    if not feasible(s):
        _swap(s, aim, _SWAPS, _SAMPLES, int(rng.integers(1 << 31)))
    return feasible(s)


@compiled
def _over(s: State, b: int) -> bool:  # pragma: no cover - compiled
    return bool((s.loads[b, 0] > s.caps[b, 0]) | (s.loads[b, 1] > s.caps[b, 1]))


@compiled
def _any_over(s: State) -> bool:  # pragma: no cover - compiled
    return bool((s.loads > s.caps).any())


@compiled
def pressure(
    s: State, b: int, first: int, second: int, aim: float
) -> float:  # pragma: no cover - compiled
    """Return the pressure of part b with these amounts added to its two weights."""
    x = (s.loads[b, 0] + first) / s.caps[b, 0] - aim
    y = (s.loads[b, 1] + second) / s.caps[b, 1] - aim
    return squares(x, y)


@compiled
def squares(x: float, y: float) -> float:  # pragma: no cover - compiled
    """Return the pressure of a part with these excesses, given as shares of its caps."""
    x, y = max(x, 0.0), max(y, 0.0)
    return x * x + y * y


@compiled
def _cheapest(s: State, v: int, aim: float) -> tuple[int, float]:  # pragma: no cover - compiled
    """Return the part where v lowers the pressure at the least cost per relief, and this rate.

    The part is -1 if no move lowers the pressure. If a move gains, the rate is negative, and
    more relief makes it more negative.
    """
    a = s.part[v]
    first, second = s.weights[v]
    relief_a = pressure(s, a, 0, 0, aim) - pressure(s, a, -first, -second, aim)
    best = -1
    lowest = np.inf
    if relief_a > 0 and _over(s, a) and may_leave(s, v):
        for b in range(len(s.caps)):
            if b == a:
                continue
            relief = relief_a + pressure(s, b, 0, 0, aim) - pressure(s, b, first, second, aim)
            if relief > 1e-12:
                loss = float(s.stay[v] - s.conn[v, b])
                rate = (loss + 0.01) / relief if loss >= 0 else loss * relief
                if rate < lowest:
                    lowest = rate
                    best = b
    return best, lowest


@in_thread
def _relieve(s: State, aim: float, rounds: int) -> None:  # pragma: no cover - compiled
    vertices = len(s.part)
    seen = np.zeros(vertices, np.int64)
    touched = np.empty(vertices, np.int32)
    rate = np.empty(vertices, np.float64)
    clock = 0
    for _ in range(rounds):
        for v in range(vertices):
            rate[v] = _cheapest(s, v, aim)[1] if _over(s, s.part[v]) else np.inf
        moved = False
        candidates = np.flatnonzero(rate < np.inf)
        for v in candidates[np.argsort(rate[candidates])]:
            b, now = _cheapest(s, v, aim)
            # Loads and gains change on the way. Moves that have become expensive wait for the next
            # round.
            if b < 0 or (rate[v] > 0 and now > 4 * rate[v]):
                continue
            clock += 1
            move(s, v, b, seen, clock, touched, 0)
            moved = True
            if not _any_over(s):
                return
        if not moved:
            return


@in_thread
def _swap(
    s: State, aim: float, swaps: int, samples: int, seed: int
) -> None:  # pragma: no cover - compiled
    """Swap vertices of the part under most pressure with others; take the best of a sample."""
    np.random.seed(seed)
    vertices = len(s.part)
    seen = np.zeros(vertices, np.int64)
    touched = np.empty(vertices, np.int32)
    clock = 0
    stuck = np.zeros(len(s.caps), np.bool_)
    for _ in range(swaps):
        if not _any_over(s):
            return
        a = -1
        highest = 0.0
        for b in range(len(s.caps)):
            p = pressure(s, b, 0, 0, aim)
            if not stuck[b] and p > highest:
                highest = p
                a = b
        if a < 0:
            return
        inside = np.flatnonzero(s.part == a)
        outside = np.flatnonzero(s.part != a)
        pairs = len(inside) * len(outside)
        best_v = -1
        best_u = -1
        lowest = np.inf
        for i in range(min(samples, pairs)):
            if pairs <= samples:
                v = inside[i // len(outside)]
                u = outside[i % len(outside)]
            else:
                v = inside[np.random.randint(len(inside))]
                u = outside[np.random.randint(len(outside))]
            b = s.part[u]
            leaves_v = np.int64(s.home[v] == a)
            leaves_u = np.int64(s.home[u] == b)
            if leaves_v + leaves_u > 0 and (
                s.away[0, 0] + leaves_v * s.held[v, 0] + leaves_u * s.held[u, 0] > s.away[1, 0]
                or s.away[0, 1] + leaves_v * s.held[v, 1] + leaves_u * s.held[u, 1] > s.away[1, 1]
            ):
                continue
            first = s.weights[u, 0] - s.weights[v, 0]
            second = s.weights[u, 1] - s.weights[v, 1]
            relief = (
                highest
                + pressure(s, b, 0, 0, aim)
                - pressure(s, a, first, second, aim)
                - pressure(s, b, -first, -second, aim)
            )
            if relief > 1e-9:
                loss = s.stay[v] - s.conn[v, b] + s.stay[u] - s.conn[u, a]
                rate = (loss + 1.0) / relief if loss >= 0 else loss * relief
                if rate < lowest:
                    lowest = rate
                    best_v = v
                    best_u = u
        if best_v < 0:
            stuck[a] = True
            continue
        b = s.part[best_u]
        clock += 1
        move(s, best_v, b, seen, clock, touched, 0)
        clock += 1
        move(s, best_u, a, seen, clock, touched, 0)
        stuck[:] = False


@in_thread
def pack(weights: Ints, order: Ids, loads: Ints, caps: Ints) -> Ids:  # pragma: no cover - compiled
    """Put each vertex, in this order, into the part that it leaves least full. Returns the parts.

    `loads` are the weights that the parts have already. They are changed in place.
    """
    part = np.empty(len(order), np.int32)
    for v in order:
        best = 0
        lowest = np.inf
        for b in range(len(caps)):
            x = (loads[b, 0] + weights[v, 0]) / caps[b, 0]
            y = (loads[b, 1] + weights[v, 1]) / caps[b, 1]
            # The fuller weight decides. Of two equal parts, the other weight decides.
            fill = max(x, y) + 1e-3 * min(x, y)
            if fill < lowest:
                lowest = fill
                best = b
        part[v] = best
        loads[best, 0] += weights[v, 0]
        loads[best, 1] += weights[v, 1]
    return part
