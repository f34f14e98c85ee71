"""The partitioning job: sessions -> graph -> plan -> part vector."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from crawler.version import __version__
from partition import (
    UserError,
    arrays,
    evaluate,
    graph,
    models,
    partvector,
    planning,
    politeness,
    webgraph,
)
from partition.arrays import Ids, Ints
from partition.models import MODELS
from partition.multilevel import MAX_PARTS
from partition.partvector import PartVector
from partition.planning import Plan
from partition.settings import Settings
from partition.webgraph import WebGraph

DEFAULT_MODEL: Final = "site-hypergraph"  # keeps sites whole; see `chosen`


def build(
    paths: Sequence[Path],
    parts: int | None,
    out: Path,
    *,
    model: str | None = None,
    settings: Settings | None = None,
    together: bool = False,
    replicate: int = 0,
    site_column: str = "site",
) -> list[Plan]:
    """Write the part vector `out` for sessions (oldest first) or for a graph.

    Without `parts`, there are as many as make the crawl faster (`forecast.useful_ranks`).
    Without a `model`, sites stay whole unless dividing them is useful, see `chosen`. With
    `together`, sites that had the same address in the last session are kept in one part. The
    `replicate` most linked-to URLs are known to all ranks, so links to them cost nothing.

    Returns the plan of the part vector, then those of the baselines. Raises UserError,
    EngineError.
    """
    settings = settings or Settings()
    if model not in (None, *MODELS):
        raise UserError(f"model {model}: can't make a part vector; use one of {', '.join(MODELS)}")
    planning.check(settings, parts or 1, model, together=together)
    settings.progress("reading")
    web = graph.read(paths, site_column)
    settings = replace(settings, politeness=politeness.read(paths), seeds=graph.seeds(paths, web))
    if parts is None:
        parts = planning.useful_ranks(web, settings)
        if parts is None:
            raise UserError(f"-k auto: {paths[0]} doesn't say how fast sites answer; give a number")
        parts = min(parts, MAX_PARTS)
        planning.check(settings, parts, model)
    if together:
        settings = replace(settings, together=graph.addresses(paths[-1]))
    replicated: list[str] = []
    if replicate:
        if web.texts is None:
            raise UserError(f"{paths[0]}: has no URLs to replicate; leave out --replicate")
        known = webgraph.popular(web, replicate)
        replicated = web.texts(known)
        web = webgraph.without_links_to(web, known)
    if model is None:
        weights = web.loads(web.site, len(web.sites))
        model, settings = chosen(web.sites, weights, parts, settings)
    built = planning.plan(web, model, parts, settings)
    settings.progress("writing")
    sites, urls, directories = _tables(web, built.part)
    write(
        out,
        lambda vector: _must_say(vector, web, built.part),
        parts=parts,
        sites=sites,
        urls=urls,
        directories=directories,
        loads=built.counts.loads,
        replicated=replicated,
        model=model,
        paths=paths,
        seed=settings.seed,
    )
    return [built, *(planning.plan(web, name, parts, settings) for name in planning.COMPARED)]


def write(
    out: Path,
    check: Callable[[PartVector], None],
    *,
    parts: int,
    sites: Mapping[str, int],
    urls: tuple[partvector.Keys, Ids] | None = None,
    directories: Mapping[tuple[str, str], int] | None = None,
    loads: Ints,
    replicated: Sequence[str] = (),
    model: str,
    paths: Sequence[Path],
    seed: int,
) -> None:
    """Write a part vector for sessions at `paths`, which replaces `out` once `check` passes it.

    `check` raises an exception if the part vector doesn't say what was planned.
    """
    unchecked = out.with_name(f".{out.name}.{os.getpid()}.unchecked")
    imbalance_bytes, imbalance_requests = evaluate.imbalance(loads)
    partvector.write(
        unchecked,
        parts=parts,
        sites=sites,
        urls=urls,
        directories=directories,
        loads=loads,
        replicated=replicated,
        model=model,
        sessions=[path.resolve().name for path in paths],
        metadata={
            "created_by": f"abc-crawler {__version__}",
            "seed": seed,
            "imbalance_bytes": imbalance_bytes,
            "imbalance_requests": imbalance_requests,
        },
    )
    try:
        check(PartVector.open(unchecked))
        unchecked.replace(out)
    finally:
        unchecked.unlink(missing_ok=True)


def chosen(
    sites: Sequence[str], weights: Ints, parts: int, settings: Settings
) -> tuple[str, Settings]:
    """Return the default model, and the settings with the sites that it must keep whole.

    `weights`: sites x 2.

    Sites stay whole, with one exception. The hybrid model divides a site that is heavier than a
    part and allows more pages a second than a rank fetches (`rank_rate`). A bare graph doesn't
    say how many pages a second its sites allow, so they stay whole.
    """
    if settings.politeness is None:
        return DEFAULT_MODEL, settings
    fast = settings.politeness.rates(sites) > settings.rank_rate
    share = (1 + np.array(settings.tolerances)) * weights.sum(axis=0) / parts
    divided = fast & (weights > share).any(axis=1)
    if not divided.any():
        return DEFAULT_MODEL, settings
    slow = np.flatnonzero(~fast).tolist()
    return "hybrid", replace(settings, whole=frozenset(sites[site] for site in slow))


def _tables(
    web: WebGraph, part: Ids
) -> tuple[
    dict[str, int],
    tuple[partvector.Keys, Ids] | None,
    dict[tuple[str, str], int] | None,
]:
    """Return the contents of a part vector: the parts of sites, of pages, and of directories.

    Pages and directories are listed only for sites that lie in several parts. A directory is
    listed only if its part differs from that of the directory or site above it.
    """
    of_site = arrays.majority(web.site, part, len(web.sites))
    sites = {
        site: number
        for site, number in zip(web.sites, of_site.tolist(), strict=True)
        if number >= 0
    }
    split = np.zeros(len(web.sites), bool)
    split[web.site[part != of_site[web.site]]] = True
    pages = np.flatnonzero(split[web.site]).astype(np.int32)
    if not len(pages):
        return sites, None, None
    directories: dict[tuple[str, str], int] | None = None
    if web.texts is not None:
        folders = models.directories(web.texts(pages))
        directories = {}
        order = np.argsort(web.site[pages], kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(web.site[pages[order]])) + 1):
            site = int(web.site[pages[rows[0]]])
            inside = models.directory_parts(
                [folders[row] for row in rows.tolist()],
                part[pages[rows]].tolist(),
                [int(of_site[site])] * len(rows),
            )
            directories |= {(web.sites[site], folder): at for folder, at in inside.items()}
    return sites, (web.key[pages], part[pages]), directories


def _must_say(vector: PartVector, web: WebGraph, part: Ids) -> None:
    """Raise AssertionError unless a part vector has each page in its planned part."""
    wrong = np.flatnonzero(planning.listed(web, vector) != part)
    if len(wrong):
        raise AssertionError(
            f"the part vector has {len(wrong)} of {web.pages} pages in another part than was"
            f" planned, the first is page {wrong[0]} of site {web.sites[web.site[wrong[0]]]}"
        )
