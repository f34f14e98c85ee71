"""Searches for a partition of the units that the ranks hold, and refines it on all ranks.

The ranks divide the seeds among them, and the best result of all seeds is taken. So the parts don't
depend on the number of ranks.
"""

from dataclasses import dataclass, replace

import numpy as np

from crawler.ports import Peers
from partition import assign, engines, models
from partition.arrays import Ids
from partition.assign import DEFAULT, Counts, Search
from partition.hypergraph import Hypergraph, connectivity_minus_one
from partition.models import Model, Objective
from partition.multilevel import presets
from partition.ranks.atoms import Atoms, atoms_of
from partition.ranks.coarsening import Level, coarsened
from partition.ranks.exchange import agreed, everywhere
from partition.ranks.groups import regrouped
from partition.ranks.refining import refined
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
    levels, coarsest = await coarsened(
        share,
        np.zeros(share.vertices, np.int32),
        parts,
        most,
        tolerances=tolerances,
        seed=settings.seed,
        progress=settings.progress,
        peers=peers,
    )
    if (held := await ends(coarsest, peers)) > most:
        settings.progress(f"rank 0 searches {held:,} pins, because no more units can be merged")
    top = levels[0].share if levels else None
    del share
    known = await whole(coarsest, peers)
    atoms = None if known is None else atoms_of(known, site[:0] if levels else site, links, model)
    del coarsest, known
    part, objective = await _search(atoms, parts, model, settings, peers)
    del atoms
    if top is None:
        return part
    rng = np.random.default_rng(settings.seed)
    refinement = _Refinement(parts, model, objective, tolerances, settings, rng, peers)
    return await refinement.cycles(top, await refinement.descended(levels, part))


@dataclass(frozen=True, slots=True)
class _Refinement:
    """How a partition of all units is refined on all ranks."""

    parts: int
    model: Model
    objective: Objective
    tolerances: tuple[float, ...]
    settings: Settings
    rng: np.random.Generator  # in the same state on all ranks
    peers: Peers

    async def cycles(self, top: Share, part: Ids) -> Ids:
        """Refine by coarsening and uncoarsening again, as `multilevel.steps` does on one rank.

        Only units of the same part are merged. Cycles end when one gains too little.
        """
        preset = presets.DEFAULT
        nets = await self._weighed(top)
        cost = await self._cost(nets, part)
        for number in range(preset.cycles):
            levels, coarsest = await coarsened(
                top,
                part,
                self.parts,
                self.settings.pins_per_rank,
                tolerances=self.tolerances,
                seed=self._seed(),
                progress=self.settings.progress,
                peers=self.peers,
            )
            lower = part
            for level in levels:
                lower = level.lowered(lower)
            lower = await self._refined(coarsest, lower)
            part = await self.descended(levels, lower)
            before, cost = cost, await self._cost(nets, part)
            self.settings.progress(f"cycle {number + 1}: cost {cost:,} after {before:,}")
            if cost > before * (1 - preset.min_cycle_gain):
                break
        return part

    async def descended(self, levels: list[Level], part: Ids) -> Ids:
        """Refine the partition of the coarsest level on each level up to the first."""
        while levels:
            share, unit = levels.pop()
            part = await self._refined(share, part[unit])
        return part

    async def _refined(self, share: Share, part: Ids) -> Ids:
        most, peers = self.settings.pins_per_rank, self.peers
        self.settings.progress(f"refining {len(part):,} units on {peers.size} ranks")
        nets = await self._weighed(share)
        if sum(await everywhere(peers, len(nets.pins))) > most:
            part = await refined(
                nets,
                part,
                self.parts,
                tolerances=self.tolerances,
                seed=self._seed(),
                peers=peers,
            )
        return await regrouped(
            nets,
            part,
            self.parts,
            most_pins=most,
            tolerances=self.tolerances,
            seed=self._seed(),
            peers=peers,
        )

    def _seed(self) -> int:
        return int(self.rng.integers(1 << 31))

    async def _cost(self, nets: Hypergraph, part: Ids) -> int:
        return sum(await everywhere(self.peers, connectivity_minus_one(nets, part)))

    async def _weighed(self, share: Share) -> Hypergraph:
        """Return this rank's nets of a level, and its pairs as nets if their bytes count."""
        nets, objective = share.nets, self.objective
        if not self.model.hyper or not objective.t_byte:
            return nets
        sums = await everywhere(self.peers, (int(nets.costs.sum()), int(share.costs.sum())))
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
