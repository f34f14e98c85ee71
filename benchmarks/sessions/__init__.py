"""What a part vector is worth in the next session, which finds more pages and sites.

    python -m benchmarks sessions GRAPH... --out DIR [-k K,..] [--seeds N] [--pages N] [--plots]

GRAPH is a folder that `python -m partition` reads. A breadth-first search from random pages puts
its pages into the order in which a crawl discovers them. Session 1 knows the first of them, and
each further session a quarter more. Session 5 knows the first `--pages` pages, or all. Each session
leaves part vectors of its pages by the default model, which keeps sites whole. The next session is
crawled by the simulator with these vectors. Its ranks place the sites that the vector lacks, as a
live crawl does: a rule sees only what the crawl has found by then.

Rows of crawls, each with the vector of the session before:

- `site-hash`: without a vector, all sites by the hash of their names.
- `hash`: `assignment.unlisted = "site-hash"`. Sites that the vector lacks go by this hash.
- `claims`: `assignment.unlisted = "claim"`, the default.
- `streaming`: the URLs of a site wait for WAIT_S of virtual time after the first link to it. Then
  the site goes to the rank with the most links to it so far, less a penalty for its load: linear
  deterministic greedy (Stanton and Kliot 2012). It limits the load of a rank as claims do. Votes
  and answers cost no time and no message here, so the rule does at least as well as in a live
  crawl.
- `all links`: as `streaming`, but the rule knows all links of the session in advance.
- `slack, claims`: as `claims`. The vector was made with a fifth of the default tolerance.
- `warm, claims`: as `claims`. Each vector starts from the one before (`build --previous`).

Rows of vectors, each on the session that it was made from. `moved_pages` and `moved_bytes` count
the pages that the vector before lists: the fraction that is in another part now. A vector that is
made anew may number its parts anew. So its parts are first matched with the parts before, in the
way that moves the fewest pages.
"""

import json
import random
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import numpy as np
from harness import (
    Numbers,
    Row,
    Timer,
    append_rows,
    provenance,
    read_rows,
    require_one_origin,
)

from crawler import config, url
from crawler.simulate import Simulation, Web
from partition import arrays, evaluate, graph, job, partvector, planning
from partition.arrays import Ids
from partition.partvector import PartVector
from partition.settings import DEFAULT_TOLERANCES, Settings
from partition.webgraph import WebGraph, from_arrays

from .streaming import Streaming
from .tables import LOG, write_tables

QUICK: Final = {"k": [2], "seeds": 4, "pages": 2000}
SESSIONS: Final = 5
GROWTH: Final = 1.25  # pages of a session for each page of the session before
SLACK: Final = (DEFAULT_TOLERANCES[0] / 5, DEFAULT_TOLERANCES[1] / 5)
RULES: Final = ("claims", "streaming", "all links")


# --- the sessions -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Discovered:
    """A web whose pages are numbered in the order of their discovery."""

    web: WebGraph
    texts: list[str]  # the URLs, made up from the numbers of the sites
    roots: list[int]  # the pages where the search began

    def first(self, pages: int) -> WebGraph:
        """Return the web of the first pages, with all links between them."""
        web, source = self.web, self.web.sources()
        inside = (source < pages) & (web.adj < pages)
        return from_arrays(
            source[inside],
            web.adj[inside],
            site=web.site[:pages],
            sites=web.sites,
            bytes=web.bytes[:pages],
            key=web.key[:pages],
        )


def discover(web: WebGraph, seeds: int, seed: int = 0) -> Discovered:
    """Number the pages breadth-first from `seeds` random pages, then from further random pages."""
    draws = list(range(web.pages))
    random.Random(seed).shuffle(draws)
    new = np.full(web.pages, -1, np.int32)
    order: list[int] = []
    roots: list[int] = []
    waiting: deque[int] = deque()

    def find(page: int) -> bool:
        if new[page] >= 0:
            return False
        new[page] = len(order)
        order.append(page)
        waiting.append(page)
        return True

    for number, page in enumerate(draws):
        if find(page):
            roots.append(int(new[page]))
        while waiting and number >= seeds - 1:
            source = waiting.popleft()
            for target in web.adj[web.xadj[source] : web.xadj[source + 1]].tolist():
                find(target)
    site = web.site[order]
    texts = [f"http://site-{number}.example/{page}" for page, number in enumerate(site.tolist())]
    ordered = from_arrays(
        new[web.sources()],
        new[web.adj],
        site=site,
        sites=[f"site-{number}.example" for number in range(len(web.sites))],
        bytes=web.bytes[order],
        key=np.fromiter(map(url.key, texts), np.uint64),
    )
    return Discovered(ordered, texts, roots)


# --- the vectors ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Vector:
    """A part vector that a session has left."""

    path: Path
    opened: PartVector
    of_site: Ids  # the part of each site, or -1


def make_vector(
    web: WebGraph, parts: int, settings: Settings, before: Vector | None, path: Path
) -> tuple[Vector, Row]:
    """Make the vector of a session. Returns also a row about it, and about what it moves."""
    with Timer() as timer:
        plan = planning.plan(web, job.DEFAULT_MODEL, parts, settings)
    part, moved = plan.part, {"moved_pages": "", "moved_bytes": ""}
    if before is not None:
        old = before.of_site[web.site]
        if settings.previous is None:
            part = matched(part, old, parts)
        known, gone = old >= 0, (old >= 0) & (old != part)
        moved = {
            "moved_pages": float(gone.sum() / known.sum()),
            "moved_bytes": float(web.bytes[gone].sum() / web.bytes[known].sum()),
        }
    of_site = arrays.majority(web.site, part, len(web.sites))
    sites = {web.sites[site]: int(of_site[site]) for site in np.flatnonzero(of_site >= 0)}
    partvector.write(path, parts=parts, sites=sites, model=job.DEFAULT_MODEL)
    row = counts(web, part, parts) | moved | {"cpu_s": timer.cpu_s}
    return Vector(path, PartVector.open(path), of_site), row


def matched(part: Ids, old: Ids, parts: int) -> Ids:
    """Return `part` with its parts numbered so that few pages are elsewhere than in `old`."""
    known = old >= 0
    same = np.zeros((parts, parts), np.int64)
    np.add.at(same, (part[known], old[known]), 1)
    number = np.full(parts, -1, np.int32)
    for pair in np.argsort(-same, axis=None, kind="stable").tolist():
        new, name = divmod(pair, parts)
        if number[new] < 0 and name not in number:
            number[new] = name
    return number[part]


def counts(web: WebGraph, part: Ids, parts: int) -> Row:
    """Return what a session costs if its pages are in these parts."""
    found = evaluate.evaluate(web, part, parts)
    return {
        "requests": found.imbalance_requests,
        "bytes": found.imbalance_bytes,
        "messages": found.messages_page_part,
    }


# --- the crawls -------------------------------------------------------------------------------


def crawl(found: Discovered, web: WebGraph, parts: int, vector: Vector, rule: str) -> Row:
    """Crawl a session by the vector of the one before, and return what it cost."""
    sets = ["politeness.delay_s=0", *(f"traps.{key}=0" for key in config.Traps.all_keys)]
    assignment = {"scheme": "part-vector", "part_vector": str(vector.path)}
    links = np.stack([web.sources(), web.adj], axis=1)
    simulation = Simulation(
        Web(found.texts[: web.pages], links),
        config.load(None, sets, {"assignment": assignment}),
        vector.opened,
        parts,
        encoded=False,
    )
    streaming = None
    if rule != "claims":
        streaming = Streaming(simulation, web if rule == "all links" else None, vector.of_site)
    simulation.run(root for root in found.roots if root < web.pages)
    part = np.full(web.pages, -1, np.int32)
    part[simulation.order] = simulation.by
    row = counts(web, part, parts)
    traffic = [core.traffic for core in simulation.cores]
    assert row["messages"] == sum(one.messages_page_part for one in traffic)
    claims = sum(one.claims for one in traffic)
    return row | {"claims": len(streaming.owners) if streaming else claims}


def follow(found: Discovered, parts: int, sizes: Sequence[int], work: Path) -> Iterator[Row]:
    """Give a row for each session and vector, and for each crawl after the first session."""
    left: dict[str, Vector] = {}
    for session, size in enumerate(sizes, 1):
        web = found.first(size)
        about: Row = {"session": session, "pages": size}
        if left:
            of_site = left["cold"].of_site
            unknown = of_site[web.site] < 0
            about["unknown_sites"] = len(np.unique(web.site[unknown]))
            about["unknown_pages"] = float(unknown.mean())
            hashed = evaluate.site_hashes(web.sites, parts)
            known = np.where(of_site < 0, hashed, of_site)
            for name, of in (("site-hash", hashed), ("hash", known)):
                yield {"crawl": name} | about | counts(web, of[web.site], parts)
            for rule in RULES:
                yield {"crawl": rule} | about | crawl(found, web, parts, left["cold"], rule)
            for name in ("slack", "warm"):
                row = crawl(found, web, parts, left[name], "claims")
                yield {"crawl": f"{name}, claims"} | about | row
        warm = Settings(previous=left["warm"].opened) if left else Settings()
        chains = {"cold": Settings(), "slack": Settings(tolerances=SLACK), "warm": warm}
        for name, settings in chains.items():
            path = work / f"{session}-{name}"
            left[name], row = make_vector(web, parts, settings, left.get(name), path)
            yield {"vector": name, "session": session, "pages": size} | row


# --- the benchmark ----------------------------------------------------------------------------


def run(
    graphs: Annotated[list[Path], "none: only tables and plots"] = [],  # noqa: B006 - not changed
    *,
    k: Annotated[Numbers, "numbers of parts"] = (4, 16),
    seeds: Annotated[int, "pages where the search begins"] = 16,
    pages: Annotated[int | None, int, "pages of the last session, at most"] = None,
    plots: Annotated[bool, "draw the plot, too (needs matplotlib)"] = False,
    out: Annotated[Path, "the folder for sessions.jsonl, the tables and the plot"],
) -> None:
    """Add the rows of graphs and numbers of parts that the log lacks. Write the tables."""
    out.mkdir(parents=True, exist_ok=True)
    log, here = out / LOG, provenance()
    require_one_origin(log, read_rows(log), here if graphs else None)
    for folder in graphs:
        found = discover(graph.read([folder]), seeds)
        last = min(pages or found.web.pages, found.web.pages)
        sizes = [round(last / GROWTH**left) for left in reversed(range(SESSIONS))]
        for parts in k:
            about = {"graph": folder.name, "k": parts}
            if any(about.items() <= row.items() for row in read_rows(log)):
                continue
            with tempfile.TemporaryDirectory() as work:
                # All sessions or none: a log that was cut off here can be continued.
                made = [about | row | here for row in follow(found, parts, sizes, Path(work))]
            append_rows(
                log, made, lambda row: json.dumps({k: row[k] for k in row if k not in here})
            )
    rows = read_rows(log)
    write_tables(rows, out)
    if plots:
        from .plots import draw  # noqa: PLC0415 - matplotlib need not be there

        draw(rows, out)
