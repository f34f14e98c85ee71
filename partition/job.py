"""The partitioning job: sessions -> graph -> model -> engine -> evaluation -> part vector.

`build` is the walk. `plan` is its middle, from graph to evaluated assignment, for any model.
"""

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from crawler import __version__
from partition import UserError, engines, evaluate, graph, partvector
from partition.engines import Partition
from partition.evaluate import Evaluation
from partition.graph import Ids, WebGraph
from partition.metis import peak_memory
from partition.partvector import PartVector

BASELINES: Final = ("url-hash", "site-hash")
SITE_MODELS: Final = ("site-graph",)  # those that `build` can make a site table from
MODELS: Final = (*BASELINES, *SITE_MODELS)
WEIGHTS: Final = ("bytes", "requests")

# METIS overshoots where vertices are heavy: asked for less, it may deliver what is needed.
_STRICTNESS: Final = (1.0, 0.4, 0.1)

Tolerances = tuple[float, float]  # the imbalance allowed: bytes, requests
DEFAULT_TOLERANCES: Final[Tolerances] = (0.05, 0.05)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """An assignment of the pages of a web to parts, and what it means."""

    model: str
    parts: int
    part: Ids  # of each page
    counts: Evaluation
    seconds: float  # to make the assignment; reading the graph and evaluating not included
    peak_bytes: int  # memory of this process so far, and of the engine
    constraints: int  # weights that the engine balanced; 0 for hashing
    reason: str | None  # why an imbalance is over its tolerance; None if none is

    @property
    def feasible(self) -> bool:
        return self.reason is None

    def row(self) -> dict[str, object]:
        """The object that the command line prints for it."""
        counts = self.counts
        return {
            "model": self.model,
            "k": self.parts,
            "imbalance_bytes": counts.imbalance_bytes,
            "imbalance_requests": counts.imbalance_requests,
            "messages_page_part": counts.messages_page_part,
            "messages_site_part": counts.messages_site_part,
            "transmissions_target_part": counts.transmissions_target_part,
            "transmission_bytes": counts.transmission_bytes,
            "volume_bytes": counts.volume_bytes,
            "inter_part_links": counts.inter_part_links,
            "loads_bytes": counts.loads[:, 0].tolist(),
            "loads_requests": counts.loads[:, 1].tolist(),
            "constraints": self.constraints,
            "seconds": round(self.seconds, 3),
            "peak_bytes": self.peak_bytes,
            "feasible": self.feasible,
            "reason": self.reason,
        }


def build(
    paths: Sequence[Path],
    parts: int,
    out: Path,
    *,
    model: str = "site-graph",
    seed: int = 0,
    tries: int = 1,
    tolerances: Tolerances = DEFAULT_TOLERANCES,
    site_column: str = "site",
) -> list[Plan]:
    """Make the part vector `out` from sessions, oldest first, or a graph.

    Returns its plan, and those of the baselines for comparison. Raises UserError, EngineError.
    """
    if model not in SITE_MODELS:
        raise UserError(f"model {model}: a part vector is made by {', '.join(SITE_MODELS)}")
    web = graph.read(paths, site_column)
    chosen = plan(web, model, parts, seed=seed, tries=tries, tolerances=tolerances)
    part_of_site = np.zeros(len(web.sites), np.int64)
    part_of_site[web.site] = chosen.part
    partvector.write(
        out,
        parts=parts,
        sites=dict(zip(web.sites, part_of_site.tolist(), strict=True)),
        model=model,
        sessions=[path.resolve().name for path in paths],
        metadata={
            "created_by": f"abc-crawler {__version__}",
            "seed": seed,
            "imbalance_bytes": chosen.counts.imbalance_bytes,
            "imbalance_requests": chosen.counts.imbalance_requests,
        },
    )
    return [chosen, *(plan(web, name, parts, tolerances=tolerances) for name in BASELINES)]


def plan(
    web: WebGraph,
    model: str,
    parts: int,
    *,
    seed: int = 0,
    tries: int = 1,
    tolerances: Tolerances = DEFAULT_TOLERANCES,
) -> Plan:
    """The best assignment of `tries` seeds, from `seed` on.

    Best is the one with the fewest `messages_page_part` of those within the tolerances, or else the
    one least over them. Raises UserError for an unknown model or no parts, EngineError.
    """
    if parts < 1:
        raise UserError(f"{parts} parts: must be 1 or more")
    started = time.perf_counter()
    if model == "url-hash":
        found = Partition(evaluate.url_hash(web, parts), constraints=0)
    elif model == "site-hash":
        found = Partition(evaluate.site_hash(web, parts), constraints=0)
    elif model == "site-graph":
        found = _cut_sites(web, parts, range(seed, seed + tries), tolerances)
    else:
        raise UserError(f"model {model}: must be one of {', '.join(MODELS)}")
    return _judge(web, model, parts, found, time.perf_counter() - started, tolerances)


def _cut_sites(
    web: WebGraph, parts: int, seeds: Iterable[int], tolerances: Tolerances
) -> Partition:
    """The best partition of the site graph, spread out over the pages."""
    sites = graph.site_graph(web)
    best, best_rank = None, (math.inf, math.inf)
    for seed in seeds:
        for strictness in _STRICTNESS:
            asked = [tolerance * strictness for tolerance in tolerances]
            found = engines.metis(sites, parts, tolerances=asked, seed=seed)
            found = replace(found, part=found.part[web.site])
            counts = evaluate.evaluate(web, found.part, parts)
            pairs = zip(counts.imbalances, tolerances, strict=True)
            excess = max(0.0, *(imbalance - tolerance for imbalance, tolerance in pairs))
            rank = (excess, counts.messages_page_part)
            if rank < best_rank:
                best, best_rank = found, rank
            if excess == 0:
                break
    assert best is not None
    return best


def follow(web: WebGraph, vector: PartVector, tolerances: Tolerances = DEFAULT_TOLERANCES) -> Plan:
    """What a part vector means on a web. Sites that it lacks go by site-hash."""
    started = time.perf_counter()
    listed = [vector.site_part(site) for site in web.sites]
    hashed = evaluate.site_hashes(web.sites, vector.parts).tolist()
    part_of_site = [hashed[i] if part is None else part for i, part in enumerate(listed)]
    part = np.array(part_of_site, np.int32)[web.site]
    if len(vector.url_keys):
        at = np.searchsorted(vector.url_keys, web.key) % len(vector.url_keys)
        known = vector.url_keys[at] == web.key
        part[known] = vector.url_parts[at[known]]
    seconds = time.perf_counter() - started
    return _judge(
        web, vector.model, vector.parts, Partition(part, constraints=0), seconds, tolerances
    )


def _judge(
    web: WebGraph,
    model: str,
    parts: int,
    found: Partition,
    seconds: float,
    tolerances: Tolerances,
) -> Plan:
    counts = evaluate.evaluate(web, found.part, parts)
    return Plan(
        model=model,
        parts=parts,
        part=found.part,
        counts=counts,
        seconds=seconds,
        peak_bytes=peak_memory() + found.peak_bytes,
        constraints=found.constraints,
        reason=_reason(web, found.part, counts, tolerances),
    )


def _reason(web: WebGraph, part: Ids, counts: Evaluation, tolerances: Tolerances) -> str | None:
    """Which weights are over their tolerance, and the site in the way if one alone is too heavy."""
    reasons = []
    page_weights = (web.bytes, np.ones(web.pages, np.int64))
    for column, (imbalance, tolerance) in enumerate(
        zip(counts.imbalances, tolerances, strict=True)
    ):
        if imbalance <= tolerance:
            continue
        load = counts.loads[:, column]
        inside = part == int(load.argmax())
        of_site = np.bincount(web.site[inside], page_weights[column][inside], len(web.sites))
        heaviest, share = int(of_site.argmax()), float(of_site.max()) / float(load.mean())
        text = f"{WEIGHTS[column]} {imbalance:.1%} over the average (allowed {tolerance:.1%})"
        if share > 1 + tolerance:
            text += f": site {web.sites[heaviest]} alone has {share:.2f} parts' share"
        reasons.append(text)
    return "; ".join(reasons) or None
