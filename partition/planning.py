"""Plans: assignments of the pages of a web to parts, with what they cost.

`plan` makes the assignment of a model, or of a baseline. `follow` takes that of a part vector.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from crawler import compiled, url
from partition import (
    UserError,
    assign,
    discovery,
    evaluate,
    forecast,
    judge,
    network,
    politeness,
    suffixes,
    webgraph,
)
from partition.arrays import Ids
from partition.child import peak_memory
from partition.engines import Partition
from partition.evaluate import Evaluation
from partition.forecast import Costs, Forecast
from partition.judge import Limits
from partition.models import MODELS, Units
from partition.multilevel import MAX_PARTS
from partition.partvector import PartVector
from partition.politeness import Bound, Politeness
from partition.settings import Settings
from partition.webgraph import LinkGraph, WebGraph

BASELINES: Final[Mapping[str, Callable[[WebGraph, int], Ids]]] = {
    "url-hash": evaluate.url_hash,
    "site-hash": evaluate.site_hash,
    "hierarchical": evaluate.hierarchical,  # without a table; see Settings.suffixes
}
COMPARED: Final = ("url-hash", "site-hash")  # the baselines to compare a part vector with


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """An assignment of the pages of a web to parts, with its measures."""

    model: str
    parts: int
    part: Ids  # the part of each page
    counts: Evaluation
    limits: Limits  # parts x 2: what each part may weigh
    seconds: float  # to make the assignment, without reading, compiling and evaluating
    peak_bytes: int  # the most memory of this process so far, plus that of the engine
    constraints: int  # number of weights that the engine balanced; 0 for hashing
    reason: str | None  # why the plan isn't feasible; None if it is
    giants: tuple[str, ...]  # sites heavier than a part that the plan keeps whole
    remark: str | None  # how far the giants exceed the average, if the plan is feasible
    bound: Bound  # the site that takes longest to crawl, under any plan
    forecast: Forecast | None  # of the time of the crawl; None for a bare graph
    network_cost: float | None  # of all messages; None if all pairs of ranks cost the same
    moved: tuple[float, float] | None  # fractions of bytes and requests; None without `previous`

    @property
    def feasible(self) -> bool:
        """Whether the plan is balanced, and moves no more than is allowed."""
        return self.reason is None

    def row(self) -> dict[str, object]:
        """The plan as the JSON object that the command line prints."""
        row: dict[str, object] = {
            "model": self.model,
            "k": self.parts,
            **self.counts.row(),
            "constraints": self.constraints,
            "seconds": round(self.seconds, 3),
            "peak_bytes": self.peak_bytes,
            "feasible": self.feasible,
            "reason": self.reason,
            "giants": list(self.giants),
            **self.bound.row(),
        }
        if self.forecast is not None:
            row |= self.forecast.row()
        if self.network_cost is not None:
            row["network_cost"] = self.network_cost
        if self.moved is not None:
            row["moved_bytes"], row["moved_requests"] = self.moved
        return row


def plan(web: WebGraph, model: str, parts: int, settings: Settings | None = None) -> Plan:
    """Return the best assignment under a model, or the assignment of a baseline.

    The best assignment has the least objective among those within the tolerances. If none is
    within them, it exceeds them by the least. Raises UserError for an unknown model or no
    parts, and EngineError.
    """
    settings = settings or Settings()
    check(settings, parts, model, together=bool(settings.together))
    settings.progress(f"{model}, {parts} parts")
    started = _clock()
    if model == "hierarchical" and settings.suffixes is not None:
        found = Partition(suffixes.by_suffix(web, parts, settings.suffixes), constraints=0)
    elif model in BASELINES:
        found = Partition(BASELINES[model](web, parts), constraints=0)
    elif model in MODELS:
        before = None if settings.previous is None else listed(web, settings.previous)
        found = assign.assign(web, MODELS[model], parts, settings, before)
        if settings.network is not None and settings.previous is None:
            traffic = evaluate.traffic(web, found.part, parts)
            rank_of = network.place(traffic, settings.network, settings.seed)
            found = replace(found, part=rank_of[found.part])
    else:
        raise UserError(f"model {model}: must be one of {', '.join([*BASELINES, *MODELS])}")
    return judged(web, model, parts, found, _clock() - started, settings)


def _clock() -> float:
    """Return a time in seconds that doesn't advance while functions are compiled."""
    return time.perf_counter() - compiled.seconds()


def divides_sites(model: str) -> bool:
    """Return whether a model assigns pages one by one (hybrid does so by default)."""
    return model in MODELS and MODELS[model].units is Units.PAGES


def check(
    settings: Settings, parts: int, model: str | None = None, *, together: bool = False
) -> None:
    """Raise UserError for settings that don't fit the number of parts or the model."""
    if not 1 <= parts <= MAX_PARTS:
        raise UserError(f"{parts} parts: must be 1 or more, {MAX_PARTS:,} at most")
    if together and model is not None and divides_sites(model):
        whole = ", ".join(name for name, one in MODELS.items() if one.units is not Units.PAGES)
        raise UserError(f"--together: the model {model} divides sites; use one of {whole}")
    if settings.network is not None and len(settings.network) != parts:
        ranks = len(settings.network)
        raise UserError(f"--network: has costs for {ranks} ranks, must have {parts}, one a part")
    if settings.previous is not None and settings.previous.parts != parts:
        raise UserError(f"--previous: has {settings.previous.parts} parts, must have {parts} (-k)")
    for suffix, part in (settings.suffixes or {}).items():
        if part >= parts:
            raise UserError(f"suffixes: {suffix} = {part}: must be a part from 0 to {parts - 1}")


def follow(web: WebGraph, vector: PartVector, settings: Settings | None = None) -> Plan:
    """Return the plan that a part vector makes on a web.

    Sites that the vector lacks go where a crawl's claims would put them (`discovery.claimed`). The
    crawl begins with `settings.seeds`.
    """
    settings, started = settings or Settings(), _clock()
    part = listed(web, vector)
    if (part < 0).any():
        part = discovery.claimed(web, part, vector.parts, settings.seeds)
    seconds = _clock() - started
    found = Partition(part, constraints=0)
    return judged(web, vector.model, vector.parts, found, seconds, settings)


def known_to(web: WebGraph, vector: PartVector) -> WebGraph:
    """Return the web without links to the URLs that a part vector replicates."""
    keys = np.fromiter(map(url.key, vector.replicated), np.uint64)
    return webgraph.without_links_to(web, np.flatnonzero(np.isin(web.key, keys)).astype(np.int32))


def listed(web: WebGraph, vector: PartVector) -> Ids:
    """Return the part of each page by a part vector's tables, or -1 for sites that it lacks."""
    of_site = [vector.site_part(site) for site in web.sites]
    part = np.array([-1 if p is None else p for p in of_site], np.int32)[web.site]
    known = np.zeros(web.pages, bool)
    if len(vector.url_keys):
        at = np.searchsorted(vector.url_keys, web.key) % len(vector.url_keys)
        known = vector.url_keys[at] == web.key
        part[known] = vector.url_parts[at[known]]
    if vector.has_directories and web.texts is not None:
        divided = np.array([vector.divides(site) for site in web.sites], bool)
        new = np.flatnonzero(divided[web.site] & ~known).astype(np.int32)
        for page, text in zip(new.tolist(), web.texts(new), strict=True):
            nearest = vector.directory_part(text, web.sites[web.site[page]])
            if nearest is not None:
                part[page] = nearest
    return part


def judged(
    web: WebGraph,
    model: str,
    parts: int,
    found: Partition,
    seconds: float,
    settings: Settings,
) -> Plan:
    """Return an assignment with its measures. `seconds`: how long it took to make."""
    counts = evaluate.evaluate(web, found.part, parts)
    cost = moved = None
    if settings.network is not None:
        traffic = evaluate.traffic(web, found.part, parts)
        cost = network.network_cost(traffic, settings.network, np.arange(parts, dtype=np.int32))
    if settings.previous is not None:
        before = listed(web, settings.previous)
        gone = (before >= 0) & (before != found.part)
        moved = (
            int(web.bytes[gone].sum()) / max(int(web.bytes.sum()), 1),
            int(gone.sum()) / web.pages,
        )
    verdict = judge.balance(web, model, found.part, counts, settings.tolerances, settings.together)
    reasons = [*verdict.reasons]
    if moved is not None and model in MODELS:
        reasons += _moves(moved, settings.migration)
    return Plan(
        model=model,
        parts=parts,
        part=found.part,
        counts=counts,
        limits=verdict.limits,
        seconds=seconds,
        peak_bytes=peak_memory() + found.peak_bytes,
        constraints=found.constraints,
        reason="; ".join(reasons) or None,
        giants=verdict.giants,
        remark=verdict.remark,
        bound=politeness.bound(
            web.sites,
            np.bincount(web.site, minlength=len(web.sites)),
            settings.politeness or Politeness(),
        ),
        forecast=predicted(web, found.part, parts, settings),
        network_cost=cost,
        moved=moved,
    )


def predicted(web: LinkGraph, part: Ids, parts: int, settings: Settings) -> Forecast | None:
    """Return the forecast of the crawl with these parts of pages; None for a bare graph."""
    if settings.politeness is None:
        return None
    costs = Costs(1 / settings.rank_rate)
    return forecast.forecast(web, part, parts, settings.politeness, costs, settings.seeds)


def useful_ranks(web: LinkGraph, settings: Settings) -> int | None:
    """Return from which number of ranks on more ranks hardly help; None for a bare graph."""
    if settings.politeness is None:
        return None
    settings.progress("predicting crawls by more and more ranks")
    costs = Costs(1 / settings.rank_rate)
    return forecast.useful_ranks(web, settings.politeness, costs, settings.seeds)


def _moves(moved: tuple[float, float], allowed: float) -> list[str]:
    """Return the reasons why a plan moves more than it may; empty if it doesn't."""
    return [
        f"{share:.1%} of the {name} move to another part (allowed {allowed:.1%}): this model"
        " can't keep them in place"
        for name, share in zip(judge.WEIGHTS, moved, strict=True)
        if share > allowed
    ]
