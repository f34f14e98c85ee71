"""Figures 4 to 11 of Cho and Garcia-Molina, Parallel Crawlers (WWW 2002), by the simulator.

    python benchmarks parallel-crawlers GRAPH... [--figures 4,5,..] [--procs N,..]
        [--schemes S,..] [--repeat R] [--plots] --work DIR --out DIR

GRAPH is a folder of `python -m partition import` or `synthesize`; its name names the graph. A
scheme is url-hash, site-hash, or a model of `partition build`, whose part vector then stands in
for the hash. --work keeps what is made on the way: the part vectors, and the graphs with a host for
each site (a crawl knows a site by its host, whatever the graph calls a site). Crawls are appended
to OUT/parallel-crawlers.jsonl and never repeated; they run side by side, one on each core. At the
end OUT/parallel-crawlers-tables.md is made anew from all of them. All crawls of a file are of one
commit and one machine, which each row names. Others are refused.

The crawls are as simple as the paper's: each process fetches one page at a time, there is no
politeness, and all processes are equally fast. Each process has random seeds from its own part.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, fields
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import (
    Numbers,
    Row,
    Timer,
    append_rows,
    one_of,
    provenance,
    read_rows,
    require_one_origin,
)

from crawler import config, url
from crawler.core.schemes import make_scheme
from crawler.ports import Link
from crawler.report import measures
from crawler.simulate import Simulation, Web, load_web

from .tables import LOG, SCHEMES, SHARES, write_tables

HASHES: Final = ("url-hash", "site-hash")
FIGURES: Final = (4, 5, 6, 7, 8, 9, 10, 11)
EXCHANGES: Final = (0, 1, 2, 5, 10, 20, 50, 100, None)
SEEDS: Final = 5  # for each process
# Of figures 9 to 11, whose seeds the paper doesn't tell: 5 for each of 64 processes. Crawls of
# fewer processes have as many. So lines differ by what processes know, and not by their seeds.
_QUALITY_SEEDS: Final = 320
_ALL_SEEDS: Final = (64, 256, 1024, 4096, 16384)
_REPLICATED: Final = (0, 10, 100, 1000, 10_000, 100_000, 200_000)
# The paper's numbers for 40 million pages, as shares, for our smaller webs.
_REPLICATED_SHARES: Final = (10_000 / 40e6, 100_000 / 40e6, 200_000 / 40e6)
_MOST_PAGES: Final = 4  # fetches per reachable page at most, which is an overlap of 3
_POINTS: Final = 200  # of the series of figure 6
_NEVER: Final = 1 << 50


@dataclass(frozen=True)
class Case:
    """One crawl, but for its graph."""

    figure: int
    scheme: str
    procs: int
    seeds: int  # of all processes together
    seed: int  # of the random numbers: each repetition draws its own seeds
    replicated: int = 0  # number of popular URLs that all processes know
    exchanges: int | None = None  # number during the crawl; None: each URL at once
    half: bool = False  # only a random half of the sites, as the paper's web of 20 million pages

    @property
    def mode(self) -> str:
        if self.figure in (4, 5) or self.exchanges == 0:
            return "firewall"
        return "cross-over" if self.figure == 6 else "exchange"


_KEY: Final = [field.name for field in fields(Case)]


def cases(
    figure: int, pages: int, schemes: Sequence[str], procs: Sequence[int], repeats: Sequence[int]
) -> Iterator[Case]:
    """Give the crawls of a figure for a web of `pages` pages, the first repetition of all first.

    One process has the whole web whatever the scheme. So it crawls by site-hash only, in figure 4.
    Figure 8 uses the largest number of processes only. In figures 9 to 11, crawls are left out
    if each process fetches too few pages for the number of exchanges.
    """
    for seed, scheme, ranks in product(repeats, schemes, procs):
        if scheme == "url-hash" and figure != 7:
            continue
        if ranks == 1 and (scheme, figure) != ("site-hash", 4):
            continue
        some = (figure, scheme, ranks)
        seeds = min(pages, SEEDS * ranks)
        if figure == 4:
            yield Case(*some, seeds, seed)
            if scheme == "site-hash":
                yield Case(*some, seeds, seed, half=True)
        elif figure == 5:
            for number in _ALL_SEEDS:
                if number <= pages // 4:
                    yield Case(*some, number, seed)
        elif figure == 8:
            numbers = {*_REPLICATED, *(round(pages * share) for share in _REPLICATED_SHARES)}
            for number in sorted(numbers):
                if number <= pages // 2 and ranks == max(procs):
                    yield Case(*some, seeds, seed, replicated=number)
        elif figure in SHARES:
            each = pages * SHARES[figure] // ranks
            for exchanges in EXCHANGES:
                if exchanges is None or exchanges + 1 <= each / 2:
                    yield Case(*some, min(pages, _QUALITY_SEEDS), seed, exchanges=exchanges)
        else:
            yield Case(*some, seeds, seed)


def settings(case: Case, pages: int, vector: Path | None) -> config.Config:
    """Return the configuration of a crawl that is to fetch `pages` pages."""
    sets = [f"traps.{key}=0" for key in config.Traps.all_keys]
    sets += ["politeness.delay_s=0", f"politeness.connections_per_site={_NEVER}"]
    sets += [f"exchange.{key}={_NEVER}" for key in ("batch_bytes", "max_delay_s")]
    if case.figure in SHARES:
        sets.append("frontier.order=backlinks")
    every = 1 if case.exchanges is None else pages // (case.procs * (case.exchanges + 1))
    sets.append(f"exchange.batch_pages={max(1, every)}")
    if vector is None:
        sets.append(f"assignment.scheme={case.scheme}")
    else:
        sets += ["assignment.scheme=part-vector", f"assignment.part_vector={vector}"]
    return config.load(None, sets, {"session": {"mode": case.mode}})


def draw_seeds(
    web: Web, owner: Callable[[Link], int | None], procs: int, number: int, seed: int
) -> list[int]:
    """Draw `number` random pages, as many from the part of each process as from any other.

    A process whose part is too small has all its pages. More seeds are the same and others.
    """
    missing = [number // procs + (rank < number % procs) for rank in range(procs)]
    seeds: list[int] = []
    for page in np.random.default_rng(seed).permutation(len(web)).tolist():
        if len(seeds) == number:
            break
        rank = owner(web.links[page])
        assert rank is not None, web.links[page]  # hashes and part vectors know all sites
        if missing[rank]:
            missing[rank] -= 1
            seeds.append(page)
    return seeds


def half_of(web: Web) -> Web:
    """Return a web with a random half of the sites, their pages, and the links between these."""
    _, sites = np.unique([link.site for link in web.links], return_inverse=True)
    count = int(sites.max()) + 1
    chosen = np.zeros(count, bool)
    chosen[np.random.default_rng(0).permutation(count)[: (count + 1) // 2]] = True
    kept = chosen[sites]
    number = np.cumsum(kept) - 1
    sources = np.repeat(np.arange(len(web)), np.diff(web.offsets))
    both = np.stack([sources, web.targets], axis=1)
    both = both[kept[both].all(axis=1)]
    return Web([web.url(page) for page in np.flatnonzero(kept)], number[both])


def conduct(web: Web, case: Case, vector: Path | None) -> Row:
    """Crawl until all that the seeds reach, or the figure's share of the web, has been fetched.
    Returns the measures."""
    wanted = round(len(web) * SHARES[case.figure]) if case.figure in SHARES else len(web)
    chosen = settings(case, wanted, vector)
    scheme = make_scheme(chosen, case.procs)
    simulation = Simulation(
        web, chosen, scheme, case.procs, seed=case.seed, concurrency=1, encoded=False
    )
    owner = simulation.cores[0].ownership.owner
    seeds = draw_seeds(web, owner, case.procs, case.seeds, case.seed)
    popular = web.most_linked[: case.replicated].tolist()
    reachable = len(web.reachable([*seeds, *popular]))
    enough = min(reachable, wanted)
    simulation.run(
        seeds,
        replicated=popular,
        enough=enough if case.figure in SHARES or case.figure == 6 else _NEVER,
        most=_MOST_PAGES * reachable,
    )
    order = np.array(simulation.order)
    new = np.sort(np.unique(order, return_index=True)[1])  # first fetch of each page
    # Without the fetches that were under way when enough pages had been fetched.
    pages = int(new[enough]) if len(new) > enough else len(order)
    first = order[new[:enough]]
    points = []  # (fetched pages, different ones of them)
    if case.figure == 6:
        steps = [-(-step * _MOST_PAGES * reachable // _POINTS) for step in range(_POINTS + 1)]
        after = [*(step for step in steps if step <= pages), pages]
        points = list(zip(after, np.searchsorted(new[:enough], after).tolist(), strict=True))
    links = sum(core.traffic.inter_part_links for core in simulation.cores)
    loads = [len(one) for one in simulation.fetched]
    return {
        "pages": pages,
        "drawn": len(seeds),
        "coverage": measures.coverage(len(first), len(web)),
        "coverage_reachable": measures.coverage(len(first), reachable),
        "overlap": measures.overlap(pages, len(first)),
        "quality": measures.quality(first, web.reference.back_links, [enough])[0],
        "exchanged": simulation.progress[pages - 1] / pages,  # URLs for each page
        "inter_part_links": links / sum(loads),  # if each link were sent every time
        "imbalance": max(loads) / (sum(loads) / len(loads)) - 1,
        "batches": sum(core.traffic.batches_sent for core in simulation.cores),
        "points": points,
    }


# --- graphs and part vectors ------------------------------------------------------------------


def with_hosts(graph: Path, work: Path) -> Path:
    """Return the graph with a host for each of its sites, and the directories of its URLs."""
    folder = work / graph.resolve().name
    if (folder / "links.parquet").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    pages = pq.read_table(graph / "pages.parquet")
    sites = pages["site"].combine_chunks().dictionary_encode().indices.to_pylist()
    ids = pages["id"].to_pylist()
    texts = pages["url"].to_pylist() if "url" in pages.column_names else [""] * len(ids)
    urls = [
        url.normalise(f"http://s{site}.example{_directory(text)}{number}")
        for site, number, text in zip(sites, ids, texts, strict=True)
    ]
    columns = {"id": pages["id"], "url": urls, "site": [url.site(text) for text in urls]}
    if "bytes" in pages.column_names:
        columns["bytes"] = pages["bytes"]
    pq.write_table(pa.table(columns), folder / "pages.parquet")
    (folder / "links.parquet").write_bytes((graph / "links.parquet").read_bytes())
    return folder


def _directory(text: str) -> str:
    path = text.partition("?")[0].partition("//")[2].partition("/")[2]
    return "/" + path.rpartition("/")[0].strip("/") + "/" if "/" in path else "/"


def part_vector(folder: Path, model: str, parts: int) -> Path:
    """Return the part vector of a graph; `partition build` makes it if it is missing."""
    path = folder / f"{model}-{parts}.pv"
    if not path.exists():
        command = [sys.executable, "-m", "partition", "build", str(folder), "-k", str(parts)]
        command += ["--model", model, "--out", str(path)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return path


# --- all of them ------------------------------------------------------------------------------


_web_here: Web | None = None  # in a process of the pool
_half_here: Web | None = None


def _take_web(folder: Path) -> None:
    global _web_here  # noqa: PLW0603  set once, when the process starts
    _web_here = load_web(folder)


def _conduct_here(case: Case, vector: Path | None) -> Row:
    global _half_here  # noqa: PLW0603  made when it is first needed
    assert _web_here is not None
    if case.half and _half_here is None:
        _half_here = half_of(_web_here)
    web = _half_here if case.half else _web_here
    assert web is not None
    with Timer() as timer:
        result = conduct(web, case, vector)
    return {**result, "cpu_s": round(timer.cpu_s, 2)}


def crawls(folder: Path, planned: Sequence[Case], workers: int) -> Iterator[Row]:
    """Do the crawls of a graph, in this order, one on each core."""
    sites = pq.read_table(folder / "pages.parquet", columns=["site"])["site"]
    links = pq.read_metadata(folder / "links.parquet").num_rows
    size = {"pages": len(sites), "sites": len(sites.unique()), "links": links}
    origin = provenance()
    vectors = [
        None if one.scheme in HASHES else part_vector(folder, one.scheme, one.procs)
        for one in planned
    ]
    # Fresh processes rather than forks: Arrow's threads don't survive a fork.
    with ProcessPoolExecutor(
        workers, get_context("spawn"), initializer=_take_web, initargs=(folder,)
    ) as pool:
        results = pool.map(_conduct_here, planned, vectors)
        for case, result in zip(planned, results, strict=True):
            yield {"graph": folder.name, "web": size, **asdict(case), **result, **origin}


def run(
    graphs: Annotated[list[Path], "none: only tables and plots"] = [],  # noqa: B006 - not changed
    *,
    figures: Numbers = FIGURES,
    procs: Numbers = (1, 2, 4, 8, 16, 32, 64),
    schemes: Annotated[Sequence[str], one_of(SCHEMES)] = SCHEMES,
    repeat: Annotated[int, "of each crawl"] = 1,
    work: Annotated[Path, "folder of graphs and part vectors"] = Path("parallel-crawlers"),
    plots: Annotated[bool, "draw the plots, too (needs matplotlib)"] = False,
    out: Annotated[Path, "folder of crawls, tables, plots"],
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    earlier = read_rows(out / LOG)
    require_one_origin(out / LOG, earlier, provenance() if graphs else None)
    done = {_key(crawl) for crawl in earlier}
    for graph in graphs:
        folder = with_hosts(graph, work)
        pages = pq.read_metadata(folder / "pages.parquet").num_rows
        planned = [
            case
            for figure in figures
            for case in cases(figure, pages, schemes, procs, range(repeat))
            if _key({"graph": folder.name, **asdict(case)}) not in done
        ]
        if planned:
            append_rows(out / LOG, crawls(folder, planned, len(os.sched_getaffinity(0))), _line)
    write_tables(read_rows(out / LOG), out)
    if plots:
        from .plots import write_plots  # noqa: PLC0415 - matplotlib need not be there

        write_plots(read_rows(out / LOG), out)


def _key(crawl: Row) -> tuple[Any, ...]:
    return crawl["graph"], *(crawl[name] for name in _KEY)


def _line(crawl: Row) -> str:
    said = ["graph", *_KEY, "coverage", "overlap", "quality", "exchanged", "batches", "cpu_s"]
    values = (crawl[name] for name in said)
    return " ".join(f"{v:.3f}" if isinstance(v, float) else f"{v}" for v in values)
