"""Judges whether a plan is balanced, and if not, says why.

A part may exceed the average by the tolerance. A giant is a site that a model keeps whole and that
is heavier than this. The part of a giant may exceed the giant by the tolerance. But no part may
exceed the heaviest giant by more than the tolerance of an average part. The parts without giants
are judged by their own average. If this lower average turns further sites into giants, the parts
without giants may also weigh as much as usual.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from partition import evaluate
from partition.arrays import Ids, Ints
from partition.evaluate import Evaluation
from partition.models import MODELS, Units
from partition.webgraph import WebGraph

WEIGHTS: Final = ("bytes", "requests")

Limits = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """Whether a plan is balanced, and which sites prevent it."""

    limits: Limits  # parts x 2: what each part may weigh; math.inf if a weight doesn't matter
    giants: tuple[str, ...]  # sites (or groups of sites) heavier than a part; heaviest first
    reasons: tuple[str, ...]  # why the plan isn't balanced
    remark: str | None  # which weights exceed the average because of giants


@dataclass(frozen=True, slots=True, eq=False)
class _Wholes:
    """The sites, or groups of sites with one address, that a model keeps whole in one part."""

    names: list[str]
    weights: Ints  # wholes x 2; 0 for a whole that lies in several parts
    part: Ids  # the part of each
    number: int  # all wholes, also those that lie in several parts


def balance(
    web: WebGraph,
    model: str,
    part: Ids,
    counts: Evaluation,
    tolerances: tuple[float, float],
    together: Mapping[str, str],
) -> Verdict:
    """Judge the plan of a model, or of a baseline."""
    wholes = _wholes(web, part, together)
    empty = _empty_by(model, counts.loads, wholes.number, web.pages)

    def too_heavy(column: int) -> str:
        return _too_heavy(web, part, counts, tolerances, column)

    if not _keeps_sites(model):
        wholes = replace(wholes, weights=np.zeros_like(wholes.weights))
    return _judged(wholes, counts.loads, tolerances, empty, too_heavy)


class Page(NamedTuple):
    """A page that is heavier than any other, in one weight."""

    name: Callable[[], str]
    weight: int
    site_weight: int  # of its site


def balance_of_units(
    model: str,
    names: Sequence[str],
    weights: Ints,
    site: Ids,
    part: Ids,
    loads: Ints,
    tolerances: tuple[float, float],
    heaviest: Sequence[Page],
) -> Verdict:
    """Judge the plan of a model, or of a baseline, as `balance` does.

    `weights`: sites x 2. `site`, `part`: of each unit. `heaviest`: a page for each weight.
    """
    first = np.zeros(len(names), np.int32)
    first[site] = part
    undivided = weights.copy()
    undivided[site[part != first[site]]] = 0
    kept = undivided if _keeps_sites(model) else np.zeros_like(undivided)
    wholes = _Wholes([f"site {name}" for name in names], kept, first, len(names))

    def too_heavy(column: int) -> str:
        load, tolerance = loads[:, column], tolerances[column]
        text = _over(evaluate.imbalance(loads)[column], tolerance, column)
        return text + _blamed(names, undivided[:, column], load, tolerance, heaviest[column])

    empty = _empty_by(model, loads, len(names), int(weights[:, 1].sum()))
    return _judged(wholes, loads, tolerances, empty, too_heavy)


def _judged(
    wholes: _Wholes,
    loads: Ints,
    tolerances: tuple[float, float],
    empty: str,
    too_heavy: Callable[[int], str],
) -> Verdict:
    """Judge the loads of parts, in which some things are whole.

    `empty` says that parts are empty. `too_heavy` says that a weight exceeds its tolerance.
    """
    reasons = [empty] if empty else []
    base = _above(loads.mean(axis=0), tolerances)
    large = np.flatnonzero((wholes.weights > base).any(axis=1))
    limits = _limits(wholes, large, loads, base, tolerances)
    over = loads > limits
    for column in np.flatnonzero(over.any(axis=0)).tolist():
        if len(large):
            reasons.append(_beside_giants(wholes, large, loads, limits, column))
        else:
            reasons.append(too_heavy(column))
    order = large[np.argsort(-(wholes.weights[large] / np.maximum(base, 1e-300)).max(axis=1))]
    names = tuple(wholes.names[at].removeprefix("site ") for at in order.tolist())
    remark = None
    if len(large) and not reasons:
        said = map(too_heavy, np.flatnonzero((loads > base).any(axis=0)).tolist())
        remark = "; ".join(["balanced beside sites heavier than a part", *said])
    return Verdict(limits, names, tuple(reasons), remark)


def _empty_by(model: str, loads: Ints, sites: int, pages: int) -> str:
    """Say that there are fewer sites or pages than parts, if a part is empty for this reason."""
    if model not in MODELS:
        return ""
    of_sites = MODELS[model].units is Units.SITES
    things, what = (sites, "sites") if of_sites else (pages, "pages")
    empty, parts = int((loads[:, 1] == 0).sum()), len(loads)
    if not empty or things >= parts:
        return ""
    return f"{empty} of {parts} parts are empty: there are only {things} {what}"


def _keeps_sites(model: str) -> bool:
    """Return whether a model divides no sites, or only some."""
    return model != "url-hash" and not (model in MODELS and MODELS[model].units is Units.PAGES)


def _wholes(web: WebGraph, part: Ids, together: Mapping[str, str]) -> _Wholes:
    names = [together.get(site, f"\0{site}") for site in web.sites]  # NUL: no address has it
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    group = np.array([numbers[name] for name in names], np.int32)[web.site]
    first = np.zeros(len(numbers), np.int32)
    first[group] = part
    weights = web.loads(group, len(numbers))
    weights[group[part != first[group]]] = 0
    shown = [f"site {name[1:]}" if name[0] == "\0" else f"sites at {name}" for name in numbers]
    return _Wholes(shown, weights, first, len(numbers))


def _limits(
    wholes: _Wholes,
    large: npt.NDArray[np.intp],
    loads: Ints,
    base: Limits,
    tolerances: tuple[float, float],
) -> Limits:
    """Return what each part may weigh, parts x 2."""
    limits = np.tile(base, (len(loads), 1))
    free = np.ones(len(loads), bool)
    free[wholes.part[large]] = False
    number = int(free.sum())
    if len(large) and number:
        rest = loads.sum(axis=0) - wholes.weights[large].sum(axis=0)
        own = np.maximum(_above(rest / number, tolerances), -(-rest // number))
        if (np.delete(wholes.weights, large, axis=0) > own).any():
            own = np.maximum(own, base)
        limits[free] = own
    if len(large):
        giants = wholes.weights[large].astype(np.float64)
        room = _above(loads.mean(axis=0), tolerances) - loads.mean(axis=0)
        own = np.minimum(_above(giants, tolerances), giants.max(axis=0) + room)
        np.maximum.at(limits, wholes.part[large], own)
    return limits


def _above(weights: Limits, tolerances: tuple[float, float]) -> Limits:
    """Return two weights, or rows of two, plus the tolerances and the rounding error of sums."""
    finite = np.isfinite(tolerances)
    factors = (1 + np.where(finite, tolerances, 0)) * (1 + 1e-12)
    return np.where(finite, weights * factors, math.inf)


def _beside_giants(
    wholes: _Wholes,
    large: npt.NDArray[np.intp],
    loads: Ints,
    limits: Limits,
    column: int,
) -> str:
    """Say why a weight is out of balance if some sites are heavier than a part."""
    worst = int((loads[:, column] / np.maximum(limits[:, column], 1e-300)).argmax())
    excess = loads[worst, column] / max(limits[worst, column], 1e-300) - 1
    over = f"{WEIGHTS[column]} of part {worst} {excess:.1%} over"
    inside = [at for at in large.tolist() if wholes.part[at] == worst]
    if inside:
        heaviest = max(inside, key=lambda at: int(wholes.weights[at, column]))
        share = wholes.weights[heaviest, column] / max(loads[:, column].mean(), 1e-300)
        name = wholes.names[heaviest]
        return f"{over} the limit with {name}, alone {share:.2f} times the average load"
    heaviest = max(large.tolist(), key=lambda at: int(wholes.weights[at, column]))
    return f"{over} the limit of the parts without {wholes.names[heaviest]}"


def _too_heavy(
    web: WebGraph,
    part: Ids,
    counts: Evaluation,
    tolerances: tuple[float, float],
    column: int,
) -> str:
    """Say why a weight exceeds its tolerance, and name a page or site that is too heavy.

    A site that lies in several parts can't be the reason.
    """
    imbalance, tolerance = counts.imbalances[column], tolerances[column]
    load = counts.loads[:, column]
    weight = (web.bytes, np.ones(web.pages, np.int64))[column]
    text = _over(imbalance, tolerance, column)
    sites = web.loads(web.site, len(web.sites))[:, column].copy()
    page = int(weight.argmax())

    def name() -> str:
        return web.texts(np.array([page], np.int32))[0] if web.texts else f"{page}"

    heaviest = Page(name, int(weight[page]), int(sites[web.site[page]]))
    of_site = np.zeros(len(web.sites), np.int32)
    of_site[web.site] = part
    sites[web.site[part != of_site[web.site]]] = 0
    return text + _blamed(web.sites, sites, load, tolerance, heaviest)


def _blamed(sites: Sequence[str], weights: Ints, load: Ints, tolerance: float, page: Page) -> str:
    """Name the page or the site that is too heavy, if one is.

    `weights`: of the sites, 0 for a site that lies in several parts.
    """
    too_heavy = (1 + tolerance) * load.mean() if math.isfinite(tolerance) else math.inf
    if too_heavy < page.weight < page.site_weight:
        share = page.weight / load.mean()
        return f": page {page.name()} alone has {share:.2f} times the average load"
    site = int(weights.argmax())
    return _alone(sites[site], int(weights[site]), load, tolerance)


def _over(imbalance: float, tolerance: float, column: int) -> str:
    return f"{WEIGHTS[column]} {imbalance:.1%} over the average (allowed {tolerance:.1%})"


def _alone(site: str, weight: int, load: Ints, tolerance: float) -> str:
    """Say that a site alone is heavier than a part, if it is; `load` is that of each part."""
    mean = load.mean()
    if not math.isfinite(tolerance) or weight <= (1 + tolerance) * mean:
        return ""
    return f": site {site} alone has {weight / mean:.2f} times the average load"
