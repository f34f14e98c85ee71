"""Refinement makes a partition cheaper on one level, and brings it within its caps.

Imbalance has a price, instead of being forbidden at every move, because that worked best. A round
starts with a low price, so that vertices go where their nets are. Then the price rises with each
pass, until all loads are within the caps. The vertices that give way are those that lose least.
Each round starts from the best partition so far, and from another price. Its result is kept if it
is better.
"""

import numpy as np

from crawler.compiled import compiled, in_thread
from partition.arrays import Ids
from partition.multilevel.balance import rebalance, squares
from partition.multilevel.presets import Preset
from partition.multilevel.search import search
from partition.multilevel.state import (
    ONE,
    WORD,
    Quality,
    Shares,
    State,
    boundary,
    lowest,
    may_leave,
    move,
    others,
    quality,
    verify,
)

_CELLS_PER_PIN = 4  # cells of `conn` that take as much time as a pin
PROHIBITIVE_PRICE = 1e36  # no gain is worth this price, even for an excess of one byte


def refine(s: State, preset: Preset, rng: np.random.Generator, *, check: bool = False) -> None:
    """Make the partition better, or leave it as it is. A larger hypergraph gets fewer rounds."""
    rebalance(s, rng)
    polish(s, preset, rng)
    best, part = quality(s), s.part.copy()
    size = len(s.pins) + s.conn.size // _CELLS_PER_PIN
    for _ in range(max(1, min(preset.rounds, preset.round_pins // max(size, 1)))):
        prices = np.log([preset.min_start_price, preset.max_start_price])
        low = float(np.exp(rng.uniform(*prices)))
        bargain(s, low, preset, rng)
        best, part = _better(s, best, part)
        if check:
            verify(s)
    polish(s, preset, rng)
    if check:
        verify(s)


def _better(s: State, best: Quality, part: Ids) -> tuple[Quality, Ids]:
    """Return the better of the state's partition and `part`; the state then has it, too."""
    new = quality(s)
    if new < best:
        return new, s.part.copy()
    _go_back(s, part)
    return best, part


def bargain(s: State, low: float, preset: Preset, rng: np.random.Generator) -> None:
    """Do one round of moves while the price of imbalance rises from `low` to `preset.end_price`.

    At price 1, a part whose load in one weight is a tenth of its cap above `preset.aim` costs a
    tenth of the average cost of nets per part.
    """
    unit = 10 * float(s.costs.sum(dtype=np.int64)) / len(s.caps)
    for price in np.geomspace(low, preset.end_price, preset.round_passes):
        improve(s, _order(s, rng), price * unit, preset.aim)
    rebalance(s, rng)
    _settle(s, preset, rng)


def polish(s: State, preset: Preset, rng: np.random.Generator) -> None:
    """Make the partition cheaper within the caps: by single moves, then by local search."""
    _settle(s, preset, rng)
    for _ in range(preset.passes):
        least = preset.min_pass_gain * quality(s).cost
        if search(s, _order(s, rng), len(s.part), preset.patience, preset.max_search_pins) <= least:
            break


def _settle(s: State, preset: Preset, rng: np.random.Generator) -> None:
    for _ in range(preset.passes):
        if improve(s, _order(s, rng), PROHIBITIVE_PRICE, 1.0) <= 0:
            break


def _order(s: State, rng: np.random.Generator) -> Ids:
    """Return the vertices that may gain by a move, in random order."""
    order = boundary(s)
    rng.shuffle(order)
    return order


@in_thread
def improve(s: State, order: Ids, price: float, aim: float) -> float:  # pragma: no cover - compiled
    """Make one pass over the vertices in this order. Returns the gain.

    Imbalance isn't forbidden but has a price: a move pays `price` for each unit of pressure
    (`balance.pressure`) that it adds. A vertex moves to the part that its nets touch and where
    it gains most. If its own part has pressure, it may also move to the emptiest part. Without
    this, a part that has lost all its vertices at a low price would stay empty, because no net
    touches it.
    """
    seen = np.zeros(len(s.part), np.int64)
    touched = np.empty(len(s.part), np.int32)
    # For each part: its excess over `aim`, as shares of its caps, and its pressure.
    share = 1 / s.caps
    over = np.empty(s.caps.shape, np.float64)
    pressures = np.empty(len(s.caps), np.float64)
    for b in range(len(s.caps)):
        _weigh(s, b, aim, share, over, pressures)
    empty = _emptiest(over)
    gained = 0.0
    clock = 0
    for v in order:
        a = s.part[v]
        first, second = s.weights[v]
        less = squares(over[a, 0] - first * share[a, 0], over[a, 1] - second * share[a, 1])
        floor = s.stay[v] - price * (pressures[a] - less)
        best = -1
        most = 1e-9
        if pressures[a] > 0 and empty != a and may_leave(s, v):
            x = over[empty, 0] + first * share[empty, 0]
            y = over[empty, 1] + second * share[empty, 1]
            gain = s.conn[v, empty] - floor - price * (squares(x, y) - pressures[empty])
            if gain > most:
                most = gain
                best = empty
        for word in range(s.reach.shape[1]):
            bits = others(s, v, word)
            while bits != 0:
                b = word * WORD + lowest(bits)
                bits &= bits - ONE
                gain = s.conn[v, b] - floor
                if gain > most and may_leave(s, v):
                    x = over[b, 0] + first * share[b, 0]
                    y = over[b, 1] + second * share[b, 1]
                    gain -= price * (squares(x, y) - pressures[b])
                    if gain > most:
                        most = gain
                        best = b
        if best >= 0:
            clock += 1
            move(s, v, best, seen, clock, touched, 0)
            gained += most
            _weigh(s, a, aim, share, over, pressures)
            _weigh(s, best, aim, share, over, pressures)
            empty = _emptiest(over)
    return gained


@compiled
def _weigh(
    s: State, b: int, aim: float, share: Shares, over: Shares, pressures: Shares
) -> None:  # pragma: no cover - compiled
    over[b, 0] = s.loads[b, 0] * share[b, 0] - aim
    over[b, 1] = s.loads[b, 1] * share[b, 1] - aim
    pressures[b] = squares(over[b, 0], over[b, 1])


@compiled
def _emptiest(over: Shares) -> int:  # pragma: no cover - compiled
    best = 0
    for b in range(1, len(over)):
        if max(over[b, 0], over[b, 1]) < max(over[best, 0], over[best, 1]):
            best = b
    return best


@compiled
def _go_back(s: State, part: Ids) -> None:  # pragma: no cover - compiled
    """Move all vertices back to their parts in `part`."""
    seen = np.zeros(len(part), np.int64)
    touched = np.empty(len(part), np.int32)
    for v in range(len(part)):
        if s.part[v] != part[v]:
            move(s, v, part[v], seen, v + 1, touched, 0)
