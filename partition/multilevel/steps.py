"""The steps of the walk: coarsen, partition, uncoarsen and refine; then cycles.

`walk` says when each method of `Walk` is called, and with which limits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from partition.arrays import Ids, Ints
from partition.hypergraph import Hypergraph, contract, part_loads
from partition.multilevel.balance import pack, rebalance
from partition.multilevel.coarsen import cluster
from partition.multilevel.initial import bisected
from partition.multilevel.presets import Preset
from partition.multilevel.refine import refine
from partition.multilevel.state import Homes, Quality, State, new_state, quality

_LIGHT_SHARE: Final = 0.01  # of a part; lighter vertices without nets are packed last


def only(h: Hypergraph, wanted: np.typing.NDArray[np.bool_]) -> Hypergraph:
    """Return the hypergraph of the wanted vertices, in their order, and of their pins."""
    unit = np.where(wanted, np.cumsum(wanted) - 1, -1).astype(np.int32)
    return contract(h, unit, int(wanted.sum()))


class _Level(NamedTuple):
    h: Hypergraph
    unit: Ids  # by vertex of the level above: its vertex here
    homes: Homes | None

    def state(self, part: Ids, limits: Ints) -> State:
        return new_state(self.h, part, limits, self.homes)


@dataclass(frozen=True, slots=True)
class Walk:
    """The steps of a walk from a hypergraph to a partition of it."""

    preset: Preset
    rng: np.random.Generator
    progress: Callable[[str], None]
    check: bool

    def cold(self, h: Hypergraph, limits: Ints, starts: Sequence[Ids]) -> Ids:
        """Make a partition without a previous one.

        Light vertices without nets are packed last, to even out the loads.
        """
        light = (np.bincount(h.pins, minlength=h.vertices) == 0) & (
            h.weights <= limits.min(axis=0) * _LIGHT_SHARE
        ).all(axis=1)
        part = np.zeros(h.vertices, np.int32)
        if not light.all():
            part[~light] = self._multilevel(
                only(h, ~light), limits, [start[~light] for start in starts]
            )
        if light.any():
            loads = part_loads(h.weights[~light], part[~light], len(limits))
            part[light] = self._packed(h.weights[light], loads, limits)
        return self._balanced(h, part, limits)

    def packed(self, weights: Ints, home: Ids, limits: Ints) -> Ids:
        """Return a previous partition, with new vertices (at -1) packed to even out the loads."""
        part = home.copy()
        new = home < 0
        loads = part_loads(weights[~new], home[~new], len(limits))
        part[new] = self._packed(weights[new], loads, limits)
        return part

    def warm(self, h: Hypergraph, limits: Ints, part: Ids, homes: Homes | None = None) -> Ids:
        """Refine a partition in cycles."""
        top = _top(h)._replace(homes=homes)
        return self._cycles(top, *self._refined(top, part, limits), limits)

    def combined(self, h: Hypergraph, limits: Ints, part: Ids, others: Sequence[Ids]) -> Ids:
        """Refine the best partition, `part`, in a cycle with each of the next few."""
        top = _top(h)
        mates = [other for other in others if not np.array_equal(other, part)]
        for mate in mates[: self.preset.mates]:
            part, best = self._cycle(top, part, limits, mate)
            self._say("combined with another division", best)
        return part

    def _multilevel(self, h: Hypergraph, limits: Ints, starts: Sequence[Ids]) -> Ids:
        top = _top(h)
        levels = self._coarsened(top, limits, np.zeros(h.vertices, np.int32))
        tried = []
        affordable = self.preset.initial_pins // max(len(levels[-1].h.pins), 1)
        for _ in range(max(1, min(self.preset.initial_tries, affordable))):
            first = bisected(levels[-1].h, limits, self.preset, self.rng)
            tried.append(self._refined(levels[-1], first, limits))
        part, best = min(tried, key=lambda result: result[1])
        self._say(f"the best of {len(tried)} first divisions", best)
        found = [self._descended(levels, part, best, limits)]
        for start in starts:
            found.append(self._cycle(top, start, limits))
            self._say("another start, refined", found[-1][1])
        return self._cycles(top, *min(found, key=lambda result: result[1]), limits)

    def _cycles(self, top: _Level, part: Ids, best: Quality, limits: Ints) -> Ids:
        for number in range(self.preset.cycles):
            before = best
            part, best = self._cycle(top, part, limits)
            self._say(f"round {number + 1}", best)
            if best.excess == before.excess and best.cost > before.cost * (
                1 - self.preset.min_cycle_gain
            ):
                break
        return part

    def _cycle(
        self, top: _Level, part: Ids, limits: Ints, mate: Ids | None = None
    ) -> tuple[Ids, Quality]:
        """Refine a partition by coarsening and uncoarsening once more. Returns it and its quality.

        Only vertices are merged that are in the same part (also of `mate`) and have the
        same home.
        """
        label = part
        if mate is not None:
            label = label * np.int32(len(limits)) + mate
        if top.homes is not None:
            label = label * np.int32(len(limits) + 1) + top.homes.home
        levels = self._coarsened(top, limits, label)
        coarse = part
        for level in levels[1:]:
            coarse = lowered(coarse, level.unit)
        return self._descended(levels, *self._refined(levels[-1], coarse, limits), limits)

    def _coarsened(self, top: _Level, limits: Ints, label: Ids) -> list[_Level]:
        preset = self.preset
        levels = [top]
        few = max(preset.coarsest_per_part * len(limits), preset.coarsest_vertices)
        bounds = np.maximum((limits.min(axis=0) * preset.cluster_share).astype(np.int64), 1)
        while (h := levels[-1].h).vertices > few or (
            len(h.pins) > preset.coarsest_pins and h.vertices > few // 3
        ):
            unit, units = cluster(
                h,
                label,
                bounds=bounds,
                target=max(
                    int(h.vertices / preset.max_shrink), few // (1 if h.vertices > few else 3)
                ),
                widest=preset.max_tie_pins,
                hub_exponent=preset.hub_exponent,
                rng=self.rng,
            )
            if units > h.vertices * preset.stall_ratio:
                break
            level = _Level(contract(h, unit, units), unit, None)
            label = lowered(label, unit)
            if (homes := levels[-1].homes) is not None:
                held = part_loads(homes.held, unit, units)
                level = level._replace(homes=Homes(lowered(homes.home, unit), held, homes.most))
            levels.append(level)
        return levels

    def _descended(
        self, levels: list[_Level], part: Ids, best: Quality, limits: Ints
    ) -> tuple[Ids, Quality]:
        """Refine the partition of the coarsest level on each level down to the first."""
        for lower, level in zip(levels[:0:-1], levels[-2::-1], strict=True):
            part, best = self._refined(level, part[lower.unit], limits)
        self._say(f"refined with {len(part):,} pieces", best)
        return part, best

    def _refined(self, level: _Level, part: Ids, limits: Ints) -> tuple[Ids, Quality]:
        state = level.state(part, limits)
        refine(state, self.preset, self.rng, check=self.check)
        return state.part, quality(state)

    def _packed(self, weights: Ints, loads: Ints, limits: Ints) -> Ids:
        """Pack the heaviest vertices first, so that the light ones even out the loads."""
        order = np.argsort(-(weights / limits.min(axis=0)).max(axis=1), kind="stable")
        return pack(weights, order.astype(np.int32), loads, limits)

    def _balanced(self, h: Hypergraph, part: Ids, limits: Ints) -> Ids:
        """Return the partition if it is feasible; or else one packed for balance, if better."""
        state = new_state(h, part, limits)
        if rebalance(state, self.rng, 1.0):
            return state.part
        packed = new_state(h, self._packed(h.weights, np.zeros_like(limits), limits), limits)
        refine(packed, self.preset, self.rng, check=self.check)
        self._say("packed for balance", quality(packed))
        return min(state, packed, key=quality).part

    def _say(self, step: str, so_far: Quality) -> None:
        over = f", over by {so_far.excess:.2%}" if so_far.excess else ""
        self.progress(f"{step}: cost {so_far.cost:,}{over}")


def _top(h: Hypergraph) -> _Level:
    return _Level(h, np.arange(h.vertices, dtype=np.int32), None)


def lowered(values: Ids, unit: Ids) -> Ids:
    """Return, for each unit, the value that its vertices have in common."""
    lower = np.empty(int(unit.max(initial=-1)) + 1, np.int32)
    lower[unit] = values
    return lower
