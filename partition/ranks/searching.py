"""Searches for a partition of the units that the ranks hold, and refines it on all ranks.

The ranks divide the seeds among them, and the best result of all seeds is taken. So the parts don't
depend on the number of ranks.
"""

from dataclasses import replace

import numpy as np

from crawler.ports import Peers
from partition import assign, engines, models
from partition.arrays import Ids, Ints
from partition.assign import DEFAULT, Counts, Search
from partition.hypergraph import Hypergraph
from partition.models import Model, Objective
from partition.multilevel import presets
from partition.multilevel.limits import caps, own_limits
from partition.multilevel.state import Quality
from partition.multilevel.steps import lowered
from partition.ranks.atoms import Atoms, atoms_of
from partition.ranks.coarsening import Level, coarsened
from partition.ranks.exchange import agreed, everywhere
from partition.ranks.groups import regrouped
from partition.ranks.refining import gains_enough, quality, refined
from partition.ranks.shares import Share, ends, whole
from partition.settings import Settings


async def best(
    share: Share, site: Ids, links: int, parts: int, model: Model, settings: Settings, peers: Peers
) -> Ids:
    """Return the best partition of the units that the ranks find together, on all of them.

    `site`: of each unit. `links`: the number of links of the web. A model with more than
    `settings.pins_per_rank` pins is coarsened on all ranks. The coarsest level is searched. Its
    partition is refined on each level, on all ranks again. Cycles follow, which coarsen and refine
    once more, and keep the partition.
    """
    most = settings.pins_per_rank
    tolerances = engines.bounds(settings.tolerances, parts)
    weights = share.nets.weights
    levels, coarsest = await coarsened(
        share,
        np.zeros(share.vertices, np.int32),
        caps(weights, parts, tolerances),
        most,
        seed=settings.seed,
        progress=settings.progress,
        peers=peers,
    )
    del share
    if (held := await ends(coarsest, peers)) > most:
        settings.progress(f"rank 0 searches {held:,} pins, because no more units can be merged")
    known = await whole(coarsest, peers)
    atoms = None if known is None else atoms_of(known, site[:0] if levels else site, links, model)
    del coarsest, known
    part, objective = await _search(atoms, parts, model, settings, peers)
    del atoms
    if not levels:
        return part
    of_units = part
    for level in reversed(levels):
        of_units = of_units[level.unit]
    limits = own_limits(weights, of_units, parts, tolerances)
    refinement = _Refinement(limits, model, objective, settings, peers)
    return await refinement.cycles(levels, part)


class _Refinement:
    """The refinement of a partition on all ranks.

    `limits` (parts x 2): what each part may weigh on all levels, in cycles as well.
    """

    def __init__(
        self, limits: Ints, model: Model, objective: Objective, settings: Settings, peers: Peers
    ) -> None:
        self._limits = limits
        self._model = model
        self._objective = objective
        self._settings = settings
        self._rng = np.random.default_rng(settings.seed)  # in the same state on all ranks
        self._peers = peers

    async def cycles(self, levels: list[Level], part: Ids) -> Ids:
        """Refine the partition of the coarsest level, on all levels and again in cycles.

        As in `multilevel.steps`, a cycle coarsens again, and merges only units of the same part.
        Cycles end when one gains too little. `levels` is emptied, which frees memory.
        """
        preset = presets.DEFAULT
        top = levels[0].share
        part = await self._descended(levels, part)
        after = await self._quality(top, part)
        for number in range(preset.cycles):
            levels, coarsest = await coarsened(
                top,
                part,
                self._limits,
                self._settings.pins_per_rank,
                seed=self._seed(),
                progress=self._settings.progress,
                peers=self._peers,
            )
            lower = part
            for level in levels:
                lower = lowered(lower, level.unit)
            part = await self._descended(levels, await self._refined(coarsest, lower))
            before, after = after, await self._quality(top, part)
            self._settings.progress(f"cycle {number + 1}: cost {after.cost:,}")
            if not gains_enough(before, after, preset.min_cycle_gain):
                break
        return part

    async def _descended(self, levels: list[Level], part: Ids) -> Ids:
        """Refine the partition of the coarsest level on each level up to the first."""
        while levels:
            share, unit = levels.pop()
            part = await self._refined(share, part[unit])
        return part

    async def _refined(self, share: Share, part: Ids) -> Ids:
        most, peers = self._settings.pins_per_rank, self._peers
        self._settings.progress(f"refining {len(part):,} units on {peers.size} ranks")
        nets = await self._weighed(share)
        if sum(await everywhere(peers, len(nets.pins))) > most:
            part = await refined(nets, part, self._limits, seed=self._seed(), peers=peers)
        return await regrouped(
            nets, part, self._limits, most_pins=most, seed=self._seed(), peers=peers
        )

    def _seed(self) -> int:
        return int(self._rng.integers(1 << 31))

    async def _quality(self, share: Share, part: Ids) -> Quality:
        return await quality(await self._weighed(share), part, self._limits, self._peers)

    async def _weighed(self, share: Share) -> Hypergraph:
        """Return this rank's nets of a level, and its pairs as nets if their bytes count."""
        nets, objective = share.nets, self._objective
        if not self._model.hyper or not objective.t_byte:
            return nets
        sums = await everywhere(self._peers, (int(nets.costs.sum()), int(share.costs.sum())))
        senders, lengths = (sum(column) for column in zip(*sums, strict=True))
        scale = models.factor(objective, objective.cost(senders, lengths))
        of_pairs = share.low, share.high
        return Hypergraph(
            np.append(nets.xpins, nets.xpins[-1] + np.arange(1, len(share.low) + 1) * 2),
            np.append(nets.pins, np.stack(of_pairs, axis=1).astype(np.int32).ravel()),
            np.append(
                nets.costs * models.whole_costs(np.full(1, objective.t_start * scale))
                if objective.t_start
                else 0 * nets.costs,
                models.whole_costs(share.costs * objective.t_byte * scale),
            ),
            nets.weights,
        )


async def _search(
    atoms: Atoms | None, parts: int, model: Model, settings: Settings, peers: Peers
) -> tuple[Ids, Objective]:
    """Return the best of several searches of what rank 0 has, and its objective, on all ranks.

    Each rank tries a share of the `settings.tries` seeds. The best is chosen as in `assign`.
    """
    for rank in range(1, min(peers.size, settings.tries)):  # one copy at a time
        given = await peers.alltoall([atoms if to == rank else None for to in range(peers.size)])
        atoms = given[0] if peers.rank == rank else atoms
    seeds = range(settings.seed, settings.seed + settings.tries)[peers.rank :: peers.size]

    def search() -> list[tuple[int, Ids, Counts]]:
        if atoms is None:
            return []
        one = np.arange(len(atoms.nets.weights), dtype=np.int32)
        found = list[tuple[int, Ids, Counts]]()
        for seed in seeds:
            tried = Search(atoms, parts, replace(settings, seed=seed), DEFAULT)
            part = assign.once(tried, model, one).part
            found.append((seed, part, atoms.counts(part, parts)))
        return found

    of_ranks = await peers.gather(await agreed(peers, search))

    def choose() -> tuple[Ids, Objective] | None:
        if atoms is None or not of_ranks:
            return None
        found = sorted((one for of_rank in of_ranks for one in of_rank), key=lambda one: one[0])
        counts = [one[2] for one in found]
        objective = assign.aim(model, settings)
        if objective is None:
            objective = assign.weighed(DEFAULT.volume_weight, counts[0], counts[0])
        values = [objective.cost(one.messages_page_part, one.volume_bytes) for one in counts]
        return found[assign.least(counts, values, settings)][1], objective

    chosen = await peers.bcast(await agreed(peers, choose))
    assert chosen is not None
    return chosen
