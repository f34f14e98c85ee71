"""Refinement: a partition of one level made cheaper, and kept, or brought, within its caps.

What works best was not to hold the caps at every move. A round of bargaining first lets balance be
cheap, so that vertices go where their nets are, and then raises its price sweep by sweep until all
loads are within the caps: those vertices give way that lose least by it. Rounds start from the best
partition so far, each from another price; their results are kept if better, else taken back.
"""

import numpy as np
from numba import njit

from partition.multilevel.balance import pressure, rebalance
from partition.multilevel.presets import Preset
from partition.multilevel.search import search
from partition.multilevel.state import Quality, State, may_leave, move, quality, verify
from partition.webgraph import Ids

_CELLS = 4  # of `conn` that a sweep passes in the time of a pin
LAW = 1e36  # a price that nothing gained is worth, be the excess one byte of many


def refine(s: State, preset: Preset, rng: np.random.Generator, *, check: bool = False) -> None:
    """Make the partition better, or leave it as it is; rounds are as many as the size allows."""
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
    """One round, from the price `low`. In units of price 1, a part that exceeds `preset.aim` of its
    caps by a tenth in one weight costs a tenth of an even share of the costs of all nets."""
    unit = 10 * float(s.costs.sum(dtype=np.int64)) / len(s.caps)
    for price in np.geomspace(low, preset.prohibitive, preset.sweeps):
        improve(s, _order(s, rng), price * unit, preset.aim)
    rebalance(s, rng)
    _settle(s, preset, rng)


def polish(s: State, preset: Preset, rng: np.random.Generator) -> None:
    """What can be gained within the caps: by single moves, then by local search."""
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
    return rng.permutation(len(s.part)).astype(np.int32)


@njit(cache=True)
def improve(s: State, order: Ids, price: float, aim: float) -> float:  # pragma: no cover - compiled
    """One pass over the vertices in this order; returns what it gained.

    Balance has a price here and is no law: the pressure of a move (`balance.pressure`) costs
    `price`. A vertex goes to the part, among those that its nets touch, where it gains most.
    """
    seen = np.zeros(len(s.part), np.int64)
    touched = np.empty(len(s.part), np.int32)
    gained = 0.0
    clock = 0
    for v in order:
        a = s.part[v]
        first, second = s.weights[v]
        relief = price * (pressure(s, a, 0, 0, aim) - pressure(s, a, -first, -second, aim))
        floor = s.stay[v] - relief
        best = -1
        most = 1e-9
        for b in range(len(s.caps)):
            c = s.conn[v, b]
            if c - floor > most and c > 0 and b != a and may_leave(s, v, b):
                gain = c - floor
                gain -= price * (pressure(s, b, first, second, aim) - pressure(s, b, 0, 0, aim))
                if gain > most:
                    most = gain
                    best = b
        if best >= 0:
            clock += 1
            move(s, v, best, seen, clock, touched, 0)
            gained += most
    return gained


@njit(cache=True)
def _go_back(s: State, part: Ids) -> None:  # pragma: no cover - compiled
    """Move all vertices to where `part` has them."""
    seen = np.zeros(len(part), np.int64)
    touched = np.empty(len(part), np.int32)
    for v in range(len(part)):
        if s.part[v] != part[v]:
            move(s, v, part[v], seen, v + 1, touched, 0)
