"""Builds the part vector on several ranks: the walk of the job."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from crawler import compiled
from crawler.ports import Peers
from partition import UserError, evaluate, graph, job, judge, planning, politeness
from partition.arrays import Ids, Keys
from partition.child import peak_memory
from partition.evaluate import Evaluation
from partition.forecast import Forecast
from partition.graph.sessions import SessionTexts
from partition.judge import Verdict
from partition.models import MODELS, Units
from partition.multilevel import MAX_PARTS
from partition.politeness import Bound
from partition.ranks import collecting, counting, merging, reading
from partition.ranks.dividing import divided
from partition.ranks.exchange import agreed, agreed_at_first, everywhere, joined
from partition.ranks.linking import linked, share_of
from partition.ranks.merging import Sites
from partition.ranks.reading import Held
from partition.ranks.searching import best
from partition.ranks.writing import write
from partition.settings import Settings

BASELINE: Final = "site-hash"


@dataclass(frozen=True, slots=True, eq=False)
class UnitPlan:
    """An assignment of units to parts, with its measures."""

    model: str
    parts: int
    part: Ids  # of each unit
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
    paths: Sequence[Path],
    parts: int | None,
    out: Path,
    model: str | None,
    settings: Settings,
    peers: Peers,
) -> list[UnitPlan]:
    """Write the part vector `out` for sessions, oldest first. All ranks call this together.

    Without `parts` and without a `model`, they are chosen as in `job.build`. Returns, at rank 0,
    the plan of the part vector and that of site-hash; elsewhere nothing.
    """

    def begin() -> list[Path]:
        planning.check(settings, parts or 1)
        if graph.is_folder(paths):
            raise UserError(f"{paths[0]}: a graph folder is read by one process; leave mpirun out")
        return graph.tables(paths)

    folders = await agreed(peers, begin)
    settings.progress(f"reading on {peers.size} ranks")
    inside = model is not None and MODELS[model].units is not Units.SITES
    held = await reading.read(folders, peers, inside=inside)
    sites = await merging.numbered(held, peers)
    if not len(sites.weights):
        raise graph.empty(paths)
    times = await reading.fetch_times(folders, peers)
    polite = await agreed_at_first(peers, lambda: politeness.of_sessions(paths, times))
    settings = replace(settings, politeness=polite)
    if parts is None:
        parts = await _useful_ranks(folders, held, sites, settings, peers)
    kept = np.zeros(len(sites.weights), bool)
    if model is None:
        model, kept = await _chosen(sites, parts, settings, peers)
        if MODELS[model].units is not Units.SITES:
            settings.progress("reading again, because links within sites count now")
            held = await reading.read(folders, peers, inside=True)
    kind = MODELS[model].units
    division = await divided(folders, held, sites, kind, parts, kept, peers)
    settings.progress("merging the nets of the ranks")
    links = await linked(held, sites, division, kind, peers)
    others = links.target != held.key[links.source]
    number = sum(await everywhere(peers, int(others.sum())))
    began = time.perf_counter() - compiled.seconds()
    found = await best(  # alone holds the share, so that it can drop it
        await share_of(held, links, division, MODELS[model], peers),
        division.site,
        number,
        parts,
        MODELS[model],
        settings,
        peers,
    )
    seconds = time.perf_counter() - compiled.seconds() - began
    settings.progress("counting")
    hashed = (await peers.bcast(evaluate.site_hashes(sites.names, parts)))[division.site]
    pages = await _heaviest(folders, held, sites, peers)
    plans = []
    for name, part, taken in ((model, found, seconds), (BASELINE, hashed, 0.0)):
        counts = await counting.count(held, links, division.weights, part, parts, peers)
        peak_bytes = max(await everywhere(peers, peak_memory()))
        if counts is not None and polite is not None:
            verdict = judge.balance_of_units(
                name,
                sites.names,
                sites.weights,
                division.site,
                part,
                counts.loads,
                settings.tolerances,
                pages,
            )
            bound = politeness.bound(sites.names, sites.weights[:, 1], polite)
            plans.append(
                UnitPlan(name, parts, part, counts, verdict, taken, peak_bytes, bound, None)
            )
    del links
    loads = plans[0].counts.loads if plans else None
    of_page = found[division.of_page]
    await write(out, paths, held, sites, of_page, loads, model, settings, peers)
    settings.progress("predicting the crawl")  # after writing, because it may take most memory
    web = await collecting.collected(folders, held, sites, division.of_page, peers)
    if web is not None:
        of_web = replace(settings, seeds=web.seeds)
        plans = [
            replace(
                plan, forecast=planning.predicted(web.links, plan.part[web.unit], parts, of_web)
            )
            for plan in plans
        ]
    return plans


async def _useful_ranks(
    folders: Sequence[Path], held: Held, sites: Sites, settings: Settings, peers: Peers
) -> int:
    """Return from which number of ranks on more ranks hardly make the crawl faster."""
    web = await collecting.collected(folders, held, sites, sites.of(held.pages()[1]), peers)
    found = None
    if web is not None:
        found = planning.useful_ranks(web.links, replace(settings, seeds=web.seeds))
    return min(await peers.bcast(found or 1), MAX_PARTS)


async def _chosen(
    sites: Sites, parts: int, settings: Settings, peers: Peers
) -> tuple[str, npt.NDArray[np.bool_]]:
    """Return the default model, and which sites it must keep whole (`job.chosen`)."""

    def choose() -> tuple[str, npt.NDArray[np.bool_]]:
        model, how = job.chosen(sites.names, sites.weights, parts, settings)
        return model, np.array([name in how.whole for name in sites.names], bool)

    chosen = await peers.bcast(await agreed_at_first(peers, choose))
    assert chosen is not None
    return chosen


async def _heaviest(
    folders: Sequence[Path], held: Held, sites: Sites, peers: Peers
) -> list[judge.Page]:
    """Return the page with most bytes, and the first page, at rank 0; elsewhere nothing."""
    keys, site, sizes = held.pages()
    first = np.lexsort((keys, -sizes))[:1], np.argsort(keys)[:1]
    own = [(sizes[at], keys[at], sites.of(site[at])) for at in first]
    of_ranks = await peers.gather(own)
    pages = []
    for column, candidates in enumerate(zip(*of_ranks, strict=True)):
        size, key, number = joined(candidates)
        at = np.lexsort((key, -size))[0] if column == 0 else key.argmin()
        pages.append(
            judge.Page(
                partial(_text, folders, key[at : at + 1]),
                int(size[at]) if column == 0 else 1,
                int(sites.weights[number[at], column]),
            )
        )
    return pages


def _text(folders: Sequence[Path], key: Keys) -> str:
    (text,) = SessionTexts(folders, key)(np.zeros(1, np.int32))
    return text
