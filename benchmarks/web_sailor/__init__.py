"""A seed server and its clients (Mukhopadhyay et al., WEB-SAILOR), beside static assignment.

    python benchmarks web-sailor GRAPH... [--clients N,..] [--repeat R] [--urls N,..]
        [--plots] --work DIR --out DIR

GRAPH is a folder of `python -m partition import` or `synthesize`; its name names the graph. Three
parts are run. "comparison": static assignment by hash and by part vector, dynamic assignment with
each granularity and follow, and one process with as many connections, each until a fifth of the
web has been fetched. "steady": figure 6 of the paper, on the first graph. "saturation": how many
pages a second one server can take, by the number of URLs that it knows, and by the number of
servers. --work keeps part vectors, and graphs with a host for each site.

The results are appended to OUT/web-sailor.jsonl and never repeated. At the end
OUT/web-sailor-tables.md is made anew from all of them.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Final

from harness import Numbers, Row, alone, append_rows, read_rows
from parallel_crawlers import part_vector, with_hosts

from crawler.simulate import Web, load_web

from . import comparison, saturation, steady
from .comparison import Case
from .tables import LOG, write_tables

# Servers, and the clients of all of them together.
_TREES: Final = (((0,), 25), ((0, 0, 0), 50))
# That the clients of a saturated server report: 512 pages, after which a stock is filled up, four
# times of 25 clients, or twice of 50.
_PAGES: Final = 51_200

_web_here: Web | None = None  # in a process of the pool


def _take_web(folder: Path) -> None:
    global _web_here  # noqa: PLW0603  set once, when the process starts
    _web_here = load_web(folder)


def _compare_here(case: Case, vector: Path | None) -> Row:
    assert _web_here is not None
    return comparison.conduct(_web_here, case, vector)


def compare(folder: Path, planned: Sequence[Case], workers: int) -> Iterator[Row]:
    """Crawl a graph by each case, in their order, side by side."""
    vectors = [
        part_vector(folder, one.kind, one.clients) if one.kind == "site-hypergraph" else None
        for one in planned
    ]
    # Fresh processes rather than forks: Arrow's threads don't survive a fork.
    with ProcessPoolExecutor(
        workers, get_context("spawn"), initializer=_take_web, initargs=(folder,)
    ) as pool:
        results = pool.map(_compare_here, planned, vectors)
        for case, result in zip(planned, results, strict=True):
            yield {"part": "comparison", **comparison.named(folder.name, case), **result}


def saturate(urls: Sequence[int], done: Sequence[Row]) -> Iterator[Row]:
    """Saturate servers that know so many URLs, unless that was done. Each has its own process."""
    known = {(row["servers"], row["urls"]) for row in done if row["part"] == "saturation"}
    for number in urls:
        for tree, clients in _TREES:
            if (len(tree), number) not in known:
                row, _ = alone(partial(_saturate_warm, tree, clients, number))
                yield row


def _saturate_warm(tree: Sequence[int], clients: int, urls: int) -> Row:
    saturation.serve(tree, 4, 1000, 2000)  # so that all functions are compiled
    return saturation.serve(tree, clients, urls, _PAGES)


def run(
    graphs: Annotated[list[Path], "none: only tables and plots"] = [],  # noqa: B006 - not changed
    *,
    clients: Numbers = (4, 16, 64),
    repeat: Annotated[int, "of each crawl"] = 1,
    urls: Annotated[Numbers, "that a saturated server knows"] = (1_000_000, 10_000_000),
    work: Annotated[Path, "folder of graphs and part vectors"] = Path("web-sailor"),
    plots: Annotated[bool, "draw the plots, too (needs matplotlib)"] = False,
    out: Annotated[Path, "folder of results, tables, plots"],
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    done = read_rows(out / LOG)
    keys = {comparison.key(row) for row in done if row["part"] == "comparison"}
    steps: list[Callable[[], Iterator[Row]]] = []
    for graph in graphs:
        folder = with_hosts(graph, work)
        planned = [
            case
            for case in comparison.cases(clients, repeat)
            if comparison.key(comparison.named(folder.name, case)) not in keys
        ]
        if planned:
            steps.append(partial(compare, folder, planned, len(os.sched_getaffinity(0))))
    if graphs and not any(row["part"] == "steady" for row in done):
        first = with_hosts(graphs[0], work)
        steps.append(lambda: (steady.conduct(load_web(first), one) for one in ("page", "dset")))
    if graphs:
        steps.append(partial(saturate, urls, done))
    for step in steps:
        append_rows(out / LOG, step(), _line)
    write_tables(read_rows(out / LOG), out)
    if plots:
        from .plots import write_plots  # noqa: PLC0415 - matplotlib need not be there

        write_plots(read_rows(out / LOG), out)


def _line(row: Row) -> str:
    return " ".join(f"{v:.3f}" if isinstance(v, float) else f"{v}" for v in row.values())[:200]
