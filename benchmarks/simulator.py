"""How fast the simulator crawls a known web, one crawl after another in this process.

    python benchmarks simulator GRAPH [--modes M,..] [--procs N,..] [--order O] [--repeat R]
                                      [--stores S,..]

Gives a row for each crawl: pages and links (of the pages fetched, so a page fetched twice
counts twice), CPU seconds, links a second, and the peak of memory so far. `python -m crawler
simulate` would have done the same but for the measures. The first row is about what all crawls
share: the graph is read, and its links are made. Background load slows down memory most, so on a
busy machine compare only runs that took turns (`python benchmarks pairs`).

--stores lets crawls with different stores of URL-seen take turns: set (a plain set, as in an
experiment), memory, table (what memory becomes with a million URLs), runs (with 16 MiB).
"""

import gc
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
from harness import Numbers, Row, Timer, Words, one_of

from crawler import config
from crawler.core.schemes import make_scheme
from crawler.core.seen import MemorySeen, UrlSeen
from crawler.simulate import Simulation, Web, load_web
from crawler.stores.auto import AutoStore
from crawler.stores.memory import MemoryStore
from partition.child import peak_memory

SEEDS = 5  # for each process


STORES: dict[str, Callable[[Path], UrlSeen]] = {
    "set": lambda folder: MemorySeen(),
    "memory": lambda folder: MemoryStore(),
    "table": lambda folder: MemoryStore(light_keys=0),
    "runs": partial(AutoStore, most_bytes=16 << 20, at_once=True),
}


def crawl(web: Web, settings: config.Config, procs: int, repeat: int, store: str) -> Row:
    seeds = random.Random(f"{repeat} {procs}").sample(range(len(web)), SEEDS * procs)
    reachable = len(web.reachable(seeds))
    gc.collect()
    gc.disable()  # as in an experiment
    with TemporaryDirectory() as folder:
        # A rank has two stores: for the URLs that it has met, and for those that it has sent.
        made = [STORES[store](Path(folder) / str(number)) for number in range(2 * procs)]
        unused = iter(made)
        with Timer() as timer:
            scheme = make_scheme(settings, procs)
            simulation = Simulation(
                web,
                settings,
                scheme,
                procs,
                seed=repeat,
                encoded=False,
                make_seen=partial(next, unused),
                make_sent=partial(next, unused),
            )
            simulation.run(seeds, enough=reachable, most=4 * reachable)
        for one in made:
            if not isinstance(one, MemorySeen):
                one.close()
    gc.enable()
    links = int(np.diff(web.offsets)[np.array(simulation.order)].sum())
    return {
        "store": store,
        "mode": settings.session.mode,
        "procs": procs,
        "pages": simulation.pages,
        "links": links,
        "cpu_s": round(timer.cpu_s, 2),
        "links_per_s": round(links / timer.cpu_s),
        "peak_mb": peak_memory() >> 20,
    }


def run(
    graph: Path,
    *,
    modes: Words = ("exchange", "firewall", "cross-over"),
    procs: Numbers = (64,),
    order: str = "breadth-first",
    repeat: int = 1,
    stores: Annotated[Sequence[str], one_of(STORES)] = ("set",),
) -> Iterator[Row]:
    with Timer() as loading:
        web = load_web(graph)
    gc.disable()
    with Timer() as making:
        assert len(web.pages) == len(web.out_links)  # makes them
    gc.enable()
    row = {"pages": len(web), "links": len(web.targets), "load_s": round(loading.cpu_s, 2)}
    yield row | {"links_made_s": round(making.cpu_s, 2), "peak_mb": peak_memory() >> 20}
    sets = ["politeness.delay_s=0", *(f"traps.{key}=0" for key in config.Traps.all_keys)]
    sets.append(f"frontier.order={order}")
    for mode, ranks, number, store in product(modes, procs, range(repeat), stores):
        settings = config.load(None, sets, {"session": {"mode": mode}})
        yield crawl(web, settings, ranks, number, store)
