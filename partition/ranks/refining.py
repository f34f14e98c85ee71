"""Refinement of a partition on all ranks together, in rounds that all take at the same time.

The rule is that of `multilevel.refine`: a vertex moves to the part where it gains most, and
imbalance has a price that rises with each pass of a round. One process takes one vertex after the
other. Ranks take a piece of the random order at a time:

1. Each rank finds, in its own nets, what the vertices of the piece would gain in each part.
2. It sends this to the ranks that choose for these vertices. Such a rank adds up the gains, and
   chooses a part for each of its vertices.
3. Rank 0 takes the choices with the largest gains first, and leaves out those that no longer pay
   after the moves before. All ranks do the moves.

Gains are whole numbers, and every choice is made at one rank. So the result doesn't depend on the
number of ranks. It is never worse than the partition at the beginning, because each round goes back
to the best partition so far.
"""

from typing import Final

import numpy as np

from crawler.compiled import compiled, in_thread
from crawler.ports import Peers
from partition.arrays import Ids, Ints, sums
from partition.hypergraph import Hypergraph, connectivity_minus_one, part_loads
from partition.multilevel import presets
from partition.multilevel.balance import squares
from partition.multilevel.refine import PROHIBITIVE_PRICE
from partition.multilevel.state import Quality, excess
from partition.ranks.coarsening import Shares, pieces
from partition.ranks.counts import Flags, boundary, count, counts_of, do_moves, gains
from partition.ranks.exchange import everywhere, joined, reduced, split

_PIECES: Final = 32  # pieces that a pass is taken in, at least
_ROUNDS: Final = 3  # the most rounds
_PASSES: Final = 10  # passes of a round, as the price of imbalance rises
_SETTLING: Final = 4  # the most passes after them, which leave the balance alone
_LEAST: Final = 1e-9  # a smaller gain is a rounding error
_LEAST_GAIN: Final = 1e-3  # after a round that gains a smaller share of the cost, none follows


async def refined(h: Hypergraph, part: Ids, limits: Ints, *, seed: int, peers: Peers) -> Ids:
    """Return a partition that is no worse in excess over the limits, and then in cost.

    `h` has the nets of this rank, and the weights of all vertices. `limits` (parts x 2): what each
    part may weigh. All ranks give equal parts, and get equal parts.
    """
    refiner = _Refiner(h, part, limits, peers)
    return await refiner.run(np.random.default_rng(seed))


class _Refiner:
    """One refinement. All ranks have the same `part` and `loads`."""

    def __init__(self, h: Hypergraph, part: Ids, caps: Ints, peers: Peers) -> None:
        self._peers = peers
        self._weights = h.weights
        self._caps = caps
        self._part = part.copy()
        self._loads = part_loads(h.weights, part, len(caps))
        self._counts = counts_of(h, self._part, len(caps))

    async def run(self, rng: np.random.Generator) -> Ids:
        preset = presets.DEFAULT
        costs = sum(await everywhere(self._peers, int(self._counts.costs.sum())))
        unit = 10 * costs / len(self._caps)  # as in multilevel.refine.bargain
        best, part = await self._quality(), self._part.copy()
        prices = np.log([preset.min_start_price, preset.max_start_price])
        for number in range(_ROUNDS):
            before = best
            if number:  # the first round only takes what gains within the limits
                low = float(np.exp(rng.uniform(*prices)))
                for price in np.geomspace(low, preset.end_price, _PASSES).tolist():
                    await self._pass(price * unit, preset.aim, rng)
            await self._settle(rng)
            if (new := await self._quality()) < best:
                best, part = new, self._part.copy()
            else:
                self._go_back(part)
            if number and not gains_enough(before, best):
                break
        return part

    async def _settle(self, rng: np.random.Generator) -> None:
        """Take what gains, without more excess over the limits."""
        for _ in range(_SETTLING):
            before = await self._quality()
            await self._pass(PROHIBITIVE_PRICE, 1.0, rng)
            if not gains_enough(before, await self._quality()):
                break

    async def _pass(self, price: float, aim: float, rng: np.random.Generator) -> None:
        """Let vertices move that may gain, piece by piece of a random order."""
        may_gain = await reduced(
            self._peers, boundary(self._counts, len(self._part)), np.logical_or
        )
        over: Flags = np.any(self._loads > aim * self._caps, axis=1)
        order = np.flatnonzero(may_gain | over[self._part]).astype(np.int32)
        rng.shuffle(order)
        for piece in pieces(order, _PIECES):
            await self._move(piece, price, aim)

    async def _move(self, vertex: Ids, price: float, aim: float) -> None:
        """Let the vertices of a piece move to the parts where they gain most."""
        peers, parts = self._peers, len(self._caps)
        of, to, cost = gains(self._counts, self._part, vertex, parts)
        rows = split((of.astype(np.int64) * parts + to, cost), of % peers.size, peers.size)
        pair, cost = sums(*joined(await peers.alltoall(rows)))
        choices = _choices(
            vertex[peers.rank :: peers.size],
            peers.rank,
            peers.size,
            pair,
            cost,
            self._part,
            self._weights,
            self._loads,
            self._caps,
            price,
            aim,
        )
        of_ranks = await peers.gather(choices)
        none = (vertex[:0], vertex[:0])
        vertex, to = await peers.bcast(self._accepted(of_ranks, price, aim) if of_ranks else none)
        np.subtract.at(self._loads, self._part[vertex], self._weights[vertex])
        np.add.at(self._loads, to, self._weights[vertex])
        do_moves(self._counts, self._part, vertex, to)

    def _accepted(
        self, of_ranks: list[tuple[Ids, Ids, Ints]], price: float, aim: float
    ) -> tuple[Ids, Ids]:
        vertex, to, gain = joined(of_ranks)
        order = np.lexsort((vertex, -gain))
        vertex, to = vertex[order], to[order]
        pays = _paying(
            vertex,
            to,
            gain[order],
            self._part,
            self._weights,
            self._loads.copy(),
            self._caps,
            price,
            aim,
        )
        return vertex[pays], to[pays]

    async def _quality(self) -> Quality:
        own = int(((self._counts.spread.astype(np.int64) - 1) * self._counts.costs).sum())
        return await _judged(own, self._loads, self._caps, self._peers)

    def _go_back(self, part: Ids) -> None:
        self._part = part.copy()
        self._loads = part_loads(self._weights, part, len(self._caps))
        count(self._counts, self._part)


async def quality(h: Hypergraph, part: Ids, limits: Ints, peers: Peers) -> Quality:
    """Return the quality of a partition. `h` has the nets of this rank."""
    loads = part_loads(h.weights, part, len(limits))
    return await _judged(connectivity_minus_one(h, part), loads, limits, peers)


async def _judged(own: int, loads: Ints, limits: Ints, peers: Peers) -> Quality:
    """Return the quality of a partition that costs `own` in the nets of this rank."""
    return Quality(excess(loads, limits), sum(await everywhere(peers, own)))


def gains_enough(before: Quality, after: Quality, least: float = _LEAST_GAIN) -> bool:
    """Return whether the excess is less, or the cost is less by a share of more than `least`."""
    return after.excess < before.excess or after.cost < before.cost * (1 - least)


@compiled
def _pressures(loads: Ints, caps: Ints, aim: float) -> Shares:  # pragma: no cover - compiled
    pressures = np.empty(len(caps), np.float64)
    for b in range(len(caps)):
        pressures[b] = _pressure(loads, caps, aim, b, 0, 0)
    return pressures


@compiled
def _pressure(
    loads: Ints, caps: Ints, aim: float, b: int, first: int, second: int
) -> float:  # pragma: no cover - compiled
    """Return the pressure of part b with these amounts added (`multilevel.balance`)."""
    return squares(
        (loads[b, 0] + first) / caps[b, 0] - aim, (loads[b, 1] + second) / caps[b, 1] - aim
    )


@compiled
def _emptiest(loads: Ints, caps: Ints) -> int:  # pragma: no cover - compiled
    best = 0
    least = np.inf
    for b in range(len(caps)):
        fill = max(loads[b, 0] / caps[b, 0], loads[b, 1] / caps[b, 1])
        if fill < least:
            least = fill
            best = b
    return best


@in_thread
def _choices(
    vertex: Ids,
    rank: int,
    size: int,
    pair: Ints,
    cost: Ints,
    part: Ids,
    weights: Ints,
    loads: Ints,
    caps: Ints,
    price: float,
    aim: float,
) -> tuple[Ids, Ids, Ints]:  # pragma: no cover - compiled
    """Return the vertices that gain by a move, the parts where they gain most, and the gains.

    `pair` is the place of a vertex in the whole piece times the number of parts, plus a part. Place
    i of `vertex` is place rank + i * size of the piece. The gains leave out the price of imbalance.
    """
    parts = len(caps)
    pressures = _pressures(loads, caps, aim)
    empty = _emptiest(loads, caps)
    moved, to = np.empty(len(vertex), np.int32), np.empty(len(vertex), np.int32)
    gains = np.empty(len(vertex), np.int64)
    used = 0
    at = 0
    for i in range(len(vertex)):
        v = vertex[i]
        a = part[v]
        first, second = weights[v]
        row = rank + i * size
        begin = at
        stay = 0
        to_empty = 0
        while at < len(pair) and pair[at] // parts == row:
            b = pair[at] % parts
            if b == a:
                stay = cost[at]
            elif b == empty:
                to_empty = cost[at]
            at += 1
        relief = price * (pressures[a] - _pressure(loads, caps, aim, a, -first, -second))
        best = -1
        most = _LEAST
        gain = 0
        if pressures[a] > 0 and empty != a:
            more = _pressure(loads, caps, aim, empty, first, second) - pressures[empty]
            total = to_empty - stay + relief - price * more
            if total > most:
                most = total
                best = empty
                gain = to_empty - stay
        for j in range(begin, at):
            b = pair[j] % parts
            if b != a and cost[j] - stay + relief > most:
                more = _pressure(loads, caps, aim, b, first, second) - pressures[b]
                total = cost[j] - stay + relief - price * more
                if total > most:
                    most = total
                    best = b
                    gain = cost[j] - stay
        if best >= 0:
            moved[used] = v
            to[used] = best
            gains[used] = gain
            used += 1
    return moved[:used].copy(), to[:used].copy(), gains[:used].copy()


@in_thread
def _paying(
    vertex: Ids,
    to: Ids,
    gain: Ints,
    part: Ids,
    weights: Ints,
    loads: Ints,
    caps: Ints,
    price: float,
    aim: float,
) -> Flags:  # pragma: no cover - compiled
    """Return which moves pay if those before them that pay are done. Changes `loads`."""
    pays = np.zeros(len(vertex), np.bool_)
    for i in range(len(vertex)):
        v = vertex[i]
        a = part[v]
        b = to[i]
        first, second = weights[v]
        less = _pressure(loads, caps, aim, a, 0, 0) - _pressure(
            loads, caps, aim, a, -first, -second
        )
        more = _pressure(loads, caps, aim, b, first, second) - _pressure(loads, caps, aim, b, 0, 0)
        if gain[i] + price * (less - more) > _LEAST:
            pays[i] = True
            loads[a, 0] -= first
            loads[a, 1] -= second
            loads[b, 0] += first
            loads[b, 1] += second
    return pays
