"""Builds the part vector of sites on several ranks.

The ranks divide the seeds among them, and the best result of all seeds is written. So the part
vector doesn't depend on the number of ranks.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from crawler import compiled
from crawler.ports import Peers
from partition import UserError, engines, evaluate, graph, job, judge, planning, politeness
from partition.arrays import Ids
from partition.child import peak_memory
from partition.evaluate import Evaluation
from partition.forecast import Forecast
from partition.hypergraph import Hypergraph, connectivity_minus_one, part_loads
from partition.judge import Verdict
from partition.multilevel import MAX_PARTS
from partition.partvector import PartVector
from partition.politeness import Bound
from partition.ranks import collecting, counting, merging, reading
from partition.ranks.coarsening import coarsened
from partition.ranks.exchange import agreed, agreed_at_first, everywhere
from partition.ranks.merging import Sites
from partition.ranks.reading import Held
from partition.ranks.refining import refined
from partition.ranks.shares import Share, Whole, whole
from partition.settings import Settings

MODEL: Final = job.DEFAULT_MODEL  # the only model that several ranks make
BASELINE: Final = "site-hash"


@dataclass(frozen=True, slots=True, eq=False)
class SitePlan:
    """An assignment of whole sites to parts, with its measures."""

    model: str
    parts: int
    part: Ids  # of each site
    counts: Evaluation
    verdict: Verdict
    seconds: float  # to make the assignment, without reading, compiling and counting
    peak_bytes: int  # the most memory of any rank so far
    bound: Bound  # the site that takes longest to crawl, under any plan
    forecast: Forecast | None  # of the time of the crawl

    @property
    def reason(self) -> str | None:
        """Why the plan isn't balanced; None if it is."""
        return "; ".join(self.verdict.reasons) or None

    @property
    def remark(self) -> str | None:
        """How far giants exceed the average, if the plan is balanced."""
        return self.verdict.remark

    def row(self) -> dict[str, object]:
        """The plan as the JSON object that the command line prints."""
        return {
            "model": self.model,
            "k": self.parts,
            **self.counts.row(),
            "seconds": round(self.seconds, 3),
            "peak_bytes": self.peak_bytes,
            "feasible": self.reason is None,
            "reason": self.reason,
            "giants": list(self.verdict.giants),
            **self.bound.row(),
            **(self.forecast.row() if self.forecast is not None else {}),
        }


async def build(
    paths: Sequence[Path], parts: int | None, out: Path, settings: Settings, peers: Peers
) -> list[SitePlan]:
    """Write the part vector `out` for sessions, oldest first. All ranks call this together.

    Returns, at rank 0, the plan of the part vector and that of site-hash; elsewhere nothing.
    """

    def begin() -> list[Path]:
        planning.check(settings, parts or 1)
        if graph.is_folder(paths):
            raise UserError(f"{paths[0]}: a graph folder is read by one process; leave mpirun out")
        return graph.tables(paths)

    folders = await agreed(peers, begin)
    settings.progress(f"reading on {peers.size} ranks")
    held = await reading.read(folders, peers)
    sites = await merging.numbered(held, peers)
    if not len(sites.weights):
        raise graph.empty(paths)
    times = await reading.fetch_times(folders, peers)
    polite = await agreed_at_first(peers, lambda: politeness.of_sessions(paths, times))
    settings = replace(settings, politeness=polite)
    if parts is None:
        parts = await _useful_ranks(folders, held, sites, settings, peers)
    settings.progress("merging the nets of the ranks")
    share = await merging.merge(held, sites, peers)
    began = time.perf_counter() - compiled.seconds()
    found = await best(share, parts, settings, peers)
    del share
    seconds = time.perf_counter() - compiled.seconds() - began
    settings.progress("counting")
    hashed = await peers.bcast(evaluate.site_hashes(sites.names, parts))
    plans = []
    for model, part, taken in ((MODEL, found, seconds), (BASELINE, hashed, 0.0)):
        counts = await counting.count(held, sites, part, parts, peers)
        peak_bytes = max(await everywhere(peers, peak_memory()))
        if counts is not None and polite is not None:
            verdict = judge.balance_of_sites(
                sites.names, sites.weights, part, counts.loads, settings.tolerances
            )
            bound = politeness.bound(sites.names, sites.weights[:, 1], polite)
            plans.append(
                SitePlan(model, parts, part, counts, verdict, taken, peak_bytes, bound, None)
            )

    def write() -> None:
        if plans:
            settings.progress("writing")
            _write(sites, plans[0], paths, out, settings)

    await agreed(peers, write)
    settings.progress("predicting the crawl")  # after writing, because it may take most memory
    web = await collecting.collected(folders, held, sites, peers)
    if web is not None:
        of_web = replace(settings, seeds=web.seeds)
        plans = [
            replace(
                plan,
                forecast=planning.predicted(web.links, plan.part[web.links.site], parts, of_web),
            )
            for plan in plans
        ]

    return plans


async def _useful_ranks(
    folders: Sequence[Path], held: Held, sites: Sites, settings: Settings, peers: Peers
) -> int:
    """Return from which number of ranks on more ranks hardly make the crawl faster."""
    web = await collecting.collected(folders, held, sites, peers)
    found = None
    if web is not None:
        found = planning.useful_ranks(web.links, replace(settings, seeds=web.seeds))
    return min(await peers.bcast(found or 1), MAX_PARTS)


async def best(share: Share, parts: int, settings: Settings, peers: Peers) -> Ids:
    """Return the best partition that the ranks find together, on all of them.

    A hypergraph with more than `settings.pins_per_rank` pins is coarsened on all ranks. The
    coarsest one is searched. Its partition is refined on each level, on all ranks again.
    """
    tolerances = engines.bounds(settings.tolerances, parts)
    levels, share = await coarsened(
        share,
        parts,
        settings.pins_per_rank,
        tolerances=tolerances,
        seed=settings.seed,
        progress=settings.progress,
        peers=peers,
    )
    part = await _search(await whole(share, peers), parts, settings, peers)
    del share
    while levels:
        nets, unit = levels.pop()
        settings.progress(f"refining {len(unit):,} sites on {peers.size} ranks")
        part = await refined(
            nets, part[unit], parts, tolerances=tolerances, seed=settings.seed, peers=peers
        )
    return part


async def _search(sites: Whole | None, parts: int, settings: Settings, peers: Peers) -> Ids:
    """Return the best of several searches for a partition of what rank 0 has, on all ranks.

    The best one exceeds the tolerances by the least. Among equals it has the fewest messages, and
    then the lowest seed. Each rank tries a share of the `settings.tries` seeds.
    """
    for rank in range(1, min(peers.size, settings.tries)):  # one copy at a time
        given = await peers.alltoall([sites if to == rank else None for to in range(peers.size)])
        sites = given[0] if peers.rank == rank else sites
    seeds = range(settings.seed, settings.seed + settings.tries)[peers.rank :: peers.size]

    def search() -> list[tuple[float, int, int, Ids]]:
        if sites is None:
            return []
        found = []
        for seed in seeds:
            part = _searched(sites, parts, settings, seed)
            found.append((*rank_of(sites.hypergraph, part, parts, settings), seed, part))
        return found

    of_ranks = await peers.gather(await agreed(peers, search))
    found = [one for of_rank in of_ranks for one in of_rank]
    none: Ids = np.empty(0, np.int32)
    return await peers.bcast(min(found, key=lambda one: one[:3])[3] if found else none)


def _searched(sites: Whole, parts: int, settings: Settings, seed: int) -> Ids:
    """Return what one process finds with a seed (`assign.search`): METIS's partition, refined."""
    vertices, nets = sites.hypergraph.vertices, sites.hypergraph.nets
    settings.progress(f"seed {seed}: {vertices:,} sites, {nets:,} groups of them linked")
    by_metis = engines.partition(
        sites.graph, parts, engine="metis", tolerances=settings.tolerances, seed=seed
    )
    return engines.partition(
        sites.hypergraph,
        parts,
        engine="multilevel",
        tolerances=settings.tolerances,
        seed=seed,
        starts=[by_metis.part],
        progress=settings.progress,
    ).part


def rank_of(h: Hypergraph, part: Ids, parts: int, settings: Settings) -> tuple[float, int]:
    """Return by how much a partition exceeds the tolerances, and its messages."""
    imbalances = evaluate.imbalance(part_loads(h.weights, part, parts))
    pairs = zip(imbalances, settings.tolerances, strict=True)
    excess = max(0.0, *(imbalance - bound for imbalance, bound in pairs))
    return excess, connectivity_minus_one(h, part)


def _write(
    sites: Sites, plan: SitePlan, paths: Sequence[Path], out: Path, settings: Settings
) -> None:
    of_site = dict(zip(sites.names, plan.part.tolist(), strict=True))

    def must_say(vector: PartVector) -> None:
        wrong = [site for site, part in of_site.items() if vector.site_part(site) != part]
        if wrong:
            raise AssertionError(
                f"the part vector has {len(wrong)} of {len(of_site)} sites in another part than"
                f" was planned, the first is {wrong[0]}"
            )

    job.write(
        out,
        must_say,
        parts=plan.parts,
        sites=of_site,
        loads=plan.counts.loads,
        model=plan.model,
        paths=paths,
        seed=settings.seed,
    )
