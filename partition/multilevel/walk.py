"""The walk: coarsen, partition, uncoarsen and refine; then cycles that keep the partition.

Read `partition` from the top: it takes aside what needs no engine, or that none can help, and hands
the rest to `_Walk`, whose methods are the steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from partition.hypergraph import Hypergraph, contract, part_loads, simplify
from partition.multilevel import presets
from partition.multilevel.balance import pack, rebalance
from partition.multilevel.coarsen import cluster
from partition.multilevel.initial import bisected
from partition.multilevel.presets import Preset
from partition.multilevel.refine import polish, refine
from partition.multilevel.state import Quality, State, judged, new_state, quality
from partition.webgraph import Ids, Ints

_COSTS_MAX: Final = 1 << 30  # of all nets together: gains have 32 bits
_CRUMB: Final = 0.01  # of a part: lighter vertices without nets are packed last


def partition(
    h: Hypergraph,
    parts: int,
    *,
    tolerances: Sequence[float] = (0.05, 0.05),
    seed: int = 0,
    starts: Sequence[Ids] = (),
    previous: Ids | None = None,
    max_migration: float | None = None,
    progress: Callable[[str], None] | None = None,
    preset: Preset = presets.DEFAULT,
    check: bool = False,
) -> Ids:
    """The part of each vertex, int32 from 0 to `parts` - 1, for a low connectivity - 1.

    Each weight of a part is within its tolerance of the mean, where the engine finds a way (or at
    most the mean rounded up, where weights are that few); a caller judges by `imbalances`. A vertex
    that is heavier than a part may be gets a part of its own, and the others share the remaining
    parts in balance. No more vertices than parts get a part each. Equal arguments give equal parts.

    The engine makes first partitions of its own and refines the best. `starts` are partitions that
    others have found, to be refined beside it: the result is no worse than any of them. `previous`
    instead gives the only partition to start from, with -1 for new vertices; of the first weight,
    at most the share `max_migration` of the total then ends in another part than before, which
    comes before balance. Raises ValueError for arguments that don't fit.

    `progress` is told of each step in a line; `check` recounts all that is kept up to date after
    each step, for tests.
    """
    if parts < 1 or min(tolerances) < 0:
        raise ValueError("parts must be 1 or more, tolerances 0 or more")
    for name, given in [("previous", previous), *(("starts", start) for start in starts)]:
        if given is not None:
            _must_fit(name, given, h, parts)
    if previous is not None and len(starts):
        raise ValueError("previous and starts: must not both be given")
    h = _scaled(simplify(h))
    walk = _Walk(preset, np.random.default_rng(seed), progress or _silent, check)
    if parts == 1 or h.vertices == 0:
        return np.zeros(h.vertices, np.int32)
    limits = caps(h.weights, parts, tolerances)
    if previous is not None:
        return walk.warm(h, limits, previous.astype(np.int32), max_migration)
    if h.vertices <= parts:
        part = np.arange(h.vertices, dtype=np.int32)
    else:
        part = _beside_giants(h, parts, tolerances, walk, limits, starts)
    return min([part, *starts], key=lambda part: judged(h, part, limits))


def combined(
    h: Hypergraph,
    found: Sequence[Ids],
    parts: int,
    *,
    tolerances: Sequence[float] = (0.05, 0.05),
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
    preset: Preset = presets.DEFAULT,
    check: bool = False,
) -> Ids:
    """A partition no worse than any of those found, made of what they agree on.

    The best goes through a cycle with each of the next few, its mates, that contracts only what
    lies in one part of both: what two searches have put together stays together, what only one has
    is put to the test (Andre, Schlag and Schulz, Memetic multilevel hypergraph partitioning, 2018).
    Raises ValueError if there are none, or they don't fit.
    """
    if not len(found):
        raise ValueError("found: must have a partition")
    for part in found:
        _must_fit("found", part, h, parts)
    h = _scaled(simplify(h))
    limits = caps(h.weights, parts, tolerances)
    walk = _Walk(preset, np.random.default_rng(seed), progress or _silent, check)
    return walk.combined(h, limits, found)


def rebalanced(
    h: Hypergraph, part: Ids, parts: int, *, tolerances: Sequence[float], seed: int = 0
) -> Ids:
    """A partition brought within the tolerances by few, cheap moves, or as close as they get.

    What can be gained within them without leaving it is gained, too. A partition that is within the
    tolerances comes back as it is.
    """
    h = _scaled(simplify(h))
    limits = caps(h.weights, parts, tolerances)
    if (part_loads(h.weights, part, parts) <= limits).all():
        return part
    rng = np.random.default_rng(seed)
    state = new_state(h, part, limits)
    rebalance(state, rng)
    polish(state, presets.DEFAULT, rng)
    return min([state.part, part], key=lambda part: judged(h, part, limits))


def caps(weights: Ints, parts: int, tolerances: Sequence[float]) -> Ints:
    """What parts may weigh, parts x 2: within the tolerances, or at most the mean rounded up."""
    both = [
        # The exact comparison is of integers: load * parts <= total * (1 + tolerance).
        max(int((total + total * tolerance) / parts), -(-total // parts), 1)
        for total, tolerance in zip(weights.sum(axis=0).tolist(), tolerances, strict=True)
    ]
    return np.tile(np.array(both, np.int64), (parts, 1))


def _must_fit(name: str, part: Ids, h: Hypergraph, parts: int) -> None:
    if len(part) != h.vertices or max(part, default=0) >= parts or parts > 1 << 15:
        raise ValueError(f"{name}: must have {h.vertices} entries below {parts}")


def _silent(_: str) -> None:
    pass


def _scaled(h: Hypergraph) -> Hypergraph:
    """Costs in about the same proportions, none 0, whose sums fit into the gains."""
    total = int(h.costs.sum())
    if total <= _COSTS_MAX:
        return h
    costs = np.maximum(np.rint(h.costs * (_COSTS_MAX / total)), 1).astype(np.int64)
    return Hypergraph(h.xpins, h.pins, costs, h.weights)


def _beside_giants(
    h: Hypergraph,
    parts: int,
    tolerances: Sequence[float],
    walk: "_Walk",
    most: Ints,
    starts: Sequence[Ids] = (),
) -> Ids:
    """Give each vertex that alone overfills a part the part to itself, and partition the rest.

    Fewer parts may make giants of further vertices, so this goes on until there are none. If giants
    are light in one weight, the others' mean of it is higher than that of all. So their parts weigh
    no more than those of all may (`most`), as long as that leaves them half of the tolerance.
    """
    half = caps(h.weights, parts, [tolerance / 2 for tolerance in tolerances])
    limits = np.maximum(np.minimum(caps(h.weights, parts, tolerances), most[:parts]), half)
    giant = (h.weights > limits[0]).any(axis=1)
    giants = int(giant.sum())
    if giants == 0 or giants >= parts:
        return walk.cold(h, limits, starts)
    part = np.zeros(h.vertices, np.int32)
    part[giant] = np.arange(parts - giants, parts, dtype=np.int32)
    if parts - giants > 1:
        part[~giant] = _beside_giants(_only(h, ~giant), parts - giants, tolerances, walk, most)
    return part


def _only(h: Hypergraph, wanted: np.typing.NDArray[np.bool_]) -> Hypergraph:
    unit = np.where(wanted, np.cumsum(wanted) - 1, -1).astype(np.int32)
    return contract(h, unit, int(wanted.sum()))


class _Level(NamedTuple):
    h: Hypergraph
    unit: Ids  # the vertex here of each vertex of the level above; of the first level, itself
    home: Ids | None  # see State
    away_max: int

    def state(self, part: Ids, limits: Ints) -> State:
        return new_state(self.h, part, limits, self.home, self.away_max)


@dataclass(frozen=True, slots=True)
class _Walk:
    preset: Preset
    rng: np.random.Generator
    progress: Callable[[str], None]
    check: bool

    def cold(self, h: Hypergraph, limits: Ints, starts: Sequence[Ids]) -> Ids:
        """A partition from nothing; crumbs of balance, which no net holds anywhere, come last."""
        crumb = (np.bincount(h.pins, minlength=h.vertices) == 0) & (
            h.weights <= limits[0] * _CRUMB
        ).all(axis=1)
        part = np.zeros(h.vertices, np.int32)
        if not crumb.all():
            part[~crumb] = self._multilevel(
                _only(h, ~crumb), limits, [start[~crumb] for start in starts]
            )
        if crumb.any():
            loads = part_loads(h.weights[~crumb], part[~crumb], len(limits))
            part[crumb] = self._packed(h.weights[crumb], loads, limits)
        return self._balanced(h, part, limits)

    def warm(self, h: Hypergraph, limits: Ints, home: Ids, max_migration: float | None) -> Ids:
        """A partition from a previous one: new vertices packed, then refined in cycles."""
        part = home.copy()
        new = home < 0
        loads = part_loads(h.weights[~new], home[~new], len(limits))
        part[new] = self._packed(h.weights[new], loads, limits)
        top = _top(h)
        if max_migration is not None:
            away_max = int(max_migration * int(h.weights[:, 0].sum()))
            top = top._replace(home=home, away_max=away_max)
        return self._cycles(top, *self._refined(top, part, limits), limits)

    def combined(self, h: Hypergraph, limits: Ints, found: Sequence[Ids]) -> Ids:
        """The best, in a cycle with each of the next few."""
        ranked = sorted((judged(h, part, limits), at) for at, part in enumerate(found))
        part = found[ranked[0][1]]
        top = _top(h)
        others = [found[at] for _, at in ranked if not np.array_equal(found[at], part)]
        for mate in others[: self.preset.mates]:
            part, best = self._cycle(top, part, limits, mate)
            self._say("with a mate", best)
        return part

    def _multilevel(self, h: Hypergraph, limits: Ints, starts: Sequence[Ids]) -> Ids:
        top = _top(h)
        levels = self._coarsened(top, limits, np.zeros(h.vertices, np.int32))
        tried = []
        affordable = self.preset.first_effort // max(len(levels[-1].h.pins), 1)
        for _ in range(max(1, min(self.preset.firsts, affordable))):
            first = bisected(levels[-1].h, limits, self.preset, self.rng)
            tried.append(self._refined(levels[-1], first, limits))
        part, best = min(tried, key=lambda result: result[1])
        self._say(f"best of {len(tried)} first partitions", best)
        found = [self._descended(levels, part, best, limits)]
        for start in starts:
            found.append(self._cycle(top, start, limits))
            self._say("a start, after a cycle", found[-1][1])
        return self._cycles(top, *min(found, key=lambda result: result[1]), limits)

    def _cycles(self, top: _Level, part: Ids, best: Quality, limits: Ints) -> Ids:
        for number in range(self.preset.cycles):
            before = best
            part, best = self._cycle(top, part, limits)
            self._say(f"cycle {number + 1}", best)
            if best.excess == before.excess and best.cost > before.cost * (
                1 - self.preset.worth_cycle
            ):
                break
        return part

    def _cycle(
        self, top: _Level, part: Ids, limits: Ints, mate: Ids | None = None
    ) -> tuple[Ids, Quality]:
        """Down and up again, contracting only what lies in one part, of the mate too, and had one
        home."""
        label = part
        if mate is not None:
            label = label * np.int32(len(limits)) + mate
        if top.home is not None:
            label = label * np.int32(len(limits) + 1) + top.home
        levels = self._coarsened(top, limits, label)
        coarse = part
        for level in levels[1:]:
            coarse = _lowered(coarse, level)
        return self._descended(levels, *self._refined(levels[-1], coarse, limits), limits)

    def _coarsened(self, top: _Level, limits: Ints, label: Ids) -> list[_Level]:
        preset = self.preset
        levels = [top]
        few = max(preset.coarsest_per_part * len(limits), preset.coarsest_vertices)
        bounds = np.maximum((limits[0] * preset.cluster_share).astype(np.int64), 1)
        while (h := levels[-1].h).vertices > few or (
            len(h.pins) > preset.coarsest_pins and h.vertices > few // 3
        ):
            unit, units = cluster(
                h,
                label,
                bounds=bounds,
                target=max(int(h.vertices / preset.shrink), few // (1 if h.vertices > few else 3)),
                widest=preset.widest_tie,
                modesty=preset.modesty,
                rng=self.rng,
            )
            if units > h.vertices * preset.stalled:
                break
            level = _Level(contract(h, unit, units), unit, levels[-1].home, levels[-1].away_max)
            label = _lowered(label, level)
            if level.home is not None:
                level = level._replace(home=_lowered(level.home, level))
            levels.append(level)
        return levels

    def _descended(
        self, levels: list[_Level], part: Ids, best: Quality, limits: Ints
    ) -> tuple[Ids, Quality]:
        """From the coarsest level, which is refined, to the first."""
        for lower, level in zip(levels[:0:-1], levels[-2::-1], strict=True):
            part, best = self._refined(level, part[lower.unit], limits)
        self._say(f"up to {len(part)} vertices", best)
        return part, best

    def _refined(self, level: _Level, part: Ids, limits: Ints) -> tuple[Ids, Quality]:
        state = level.state(part, limits)
        refine(state, self.preset, self.rng, check=self.check)
        return state.part, quality(state)

    def _packed(self, weights: Ints, loads: Ints, limits: Ints) -> Ids:
        """The heaviest first; that leaves the small ones to even out."""
        order = np.argsort(-(weights / limits[0]).max(axis=1), kind="stable")
        return pack(weights, order.astype(np.int32), loads, limits)

    def _balanced(self, h: Hypergraph, part: Ids, limits: Ints) -> Ids:
        """The partition if it is feasible; or else one that is packed for balance, if better."""
        state = new_state(h, part, limits)
        if rebalance(state, self.rng, 1.0):
            return state.part
        packed = new_state(h, self._packed(h.weights, np.zeros_like(limits), limits), limits)
        refine(packed, self.preset, self.rng, check=self.check)
        self._say("packed for balance", quality(packed))
        return min(state, packed, key=quality).part

    def _say(self, step: str, so_far: Quality) -> None:
        over = f", over by {so_far.excess:.2%}" if so_far.excess else ""
        self.progress(f"{step}: connectivity - 1 {so_far.cost}{over}")


def _top(h: Hypergraph) -> _Level:
    return _Level(h, np.arange(h.vertices, dtype=np.int32), None, 0)


def _lowered(values: Ids, level: _Level) -> Ids:
    """Values of the level above that are alike within each vertex of this level."""
    lower = np.empty(level.h.vertices, np.int32)
    lower[level.unit] = values
    return lower
