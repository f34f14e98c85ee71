"""Refinement makes a partition of one level cheaper, and keeps or brings it within its caps.

What works best was not to hold the caps at every move. A round of bargaining first lets balance be
cheap, so that vertices go where their nets are, and then raises its price sweep by sweep until all
loads are within the caps: those vertices give way that lose least by it. Rounds start from the best
partition so far, each from another price; their results are kept if better, else taken back.
"""

import numpy as np

from crawler.compiled import compiled
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
from partition.webgraph import Ids

_CELLS = 4  # of `conn` that count as much as a pin in the size of a level
LAW = 1e36  # a price that nothing gained is worth, be the excess one byte of many


def refine(s: State, preset: Preset, rng: np.random.Generator, *, check: bool = False) -> None:
    """Make the partition better, or leave it as it is. A larger hypergraph gets fewer rounds."""
    rebalance(s, rng)
    polish(s, preset, rng)
    best, part = quality(s), s.part.copy()
    size = len(s.pins) + s.conn.size // _CELLS
    for _ in range(max(1, min(preset.rounds, preset.effort // max(size, 1)))):
        low = float(np.exp(rng.uniform(np.log(preset.cheap), np.log(preset.dear))))
        bargain(s, low, preset, rng)
        best, part = _better(s, best, part)
        if check:
            verify(s)
    polish(s, preset, rng)
    if check:
        verify(s)


def _better(s: State, best: Quality, part: Ids) -> tuple[Quality, Ids]:
    """The better of the state's partition and another, which the state then has."""
    new = quality(s)
    if new < best:
        return new, s.part.copy()
    _go_back(s, part)
    return best, part


def bargain(s: State, low: float, preset: Preset, rng: np.random.Generator) -> None:
    """One round of moves, while the price of imbalance rises from `low` to `preset.prohibitive`.

    At price 1, a part that exceeds `preset.aim` of its caps by a tenth in one weight costs a tenth
    of an even share of the costs of all nets.
    """
    unit = 10 * float(s.costs.sum(dtype=np.int64)) / len(s.caps)
    for price in np.geomspace(low, preset.prohibitive, preset.sweeps):
        improve(s, _order(s, rng), price * unit, preset.aim)
    rebalance(s, rng)
    _settle(s, preset, rng)


def polish(s: State, preset: Preset, rng: np.random.Generator) -> None:
    """Make the partition cheaper within the caps: by single moves, then by local search."""
    _settle(s, preset, rng)
    for _ in range(preset.passes):
        least = preset.worth * quality(s).cost
        if search(s, _order(s, rng), len(s.part), preset.patience, preset.widest_touch) <= least:
            break


def _settle(s: State, preset: Preset, rng: np.random.Generator) -> None:
    for _ in range(preset.passes):
        if improve(s, _order(s, rng), LAW, 1.0) <= 0:
            break


def _order(s: State, rng: np.random.Generator) -> Ids:
    """The vertices that may gain by a move, in any order."""
    order = boundary(s)
    rng.shuffle(order)
    return order


@compiled
def improve(s: State, order: Ids, price: float, aim: float) -> float:  # pragma: no cover - compiled
    """One pass over the vertices in this order; returns what it gained.

    Balance has a price here and is no law: the pressure of a move (`balance.pressure`) costs
    `price`. A vertex goes to the part, among those that its nets touch, where it gains most. From a
    part that has a price, it may also go to the emptiest: parts that no net touches any more, as
    others have drawn all from them at a low price, would stay empty.
    """
    seen = np.zeros(len(s.part), np.int64)
    touched = np.empty(len(s.part), np.int32)
    # What each part has beyond the aim, in shares of its caps, and its pressure.
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
    """Move all vertices to where `part` has them."""
    seen = np.zeros(len(part), np.int64)
    touched = np.empty(len(part), np.int32)
    for v in range(len(part)):
        if s.part[v] != part[v]:
            move(s, v, part[v], seen, v + 1, touched, 0)
