"""What it brings that the frontier prefers sites of the repository at hand (`seen.prefer`).

    python benchmarks preference GRAPH [--orders O,..] [--repositories N,..] [--max-delay-s S] ...

Simulates crawls of a known web by one rank with the store `veuniq`, without and with the
preference, and gives a row for each: pages, pages a second of virtual time, the share of
URLs that were put aside for another repository (cross), the seconds until a new URL is known as new
(mean, and 95th percentile), bytes read and written, the quality of the order (mean over the crawl,
by back-links and by PageRank), and CPU seconds. One crawl isn't repeated: only CPU times vary.
"""

import gc
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from harness import Numbers, Row, Timer, Words

from crawler import config
from crawler.core.schemes import make_scheme
from crawler.core.seen import Candidate
from crawler.report import measures
from crawler.simulate import Simulation, Web, load_web
from crawler.stores.batch_store import BatchStore
from crawler.stores.late import LateStore
from crawler.stores.veuniq import Veuniq


class Watched(LateStore):
    """Notes how long candidates wait."""

    def __init__(self, store: BatchStore, max_delay_s: float, *, prefers: bool) -> None:
        super().__init__(store, max_delay_s, prefers=prefers)
        self.submitted = 0
        self.waits: list[float] = []  # of new URLs
        self._since: dict[int, float] = {}

    def submit(self, candidate: Candidate, now: float) -> None:
        self.submitted += 1
        self._since.setdefault(candidate.found.key, now)
        super().submit(candidate, now)

    def take_answers(self, now: float, *, hurry: bool) -> Iterable[tuple[Candidate, bool]]:
        answers = list(super().take_answers(now, hurry=hurry))
        self.waits += [now - self._since[one.found.key] for one, is_new in answers if is_new]
        return answers


class Counted(Veuniq):
    """Counts the entries that are put aside."""

    cross = 0

    def _check(self, i, entries, parts):
        self.cross += int((parts != i).sum())
        return super()._check(i, entries, parts)


def crawl(
    web: Web, settings: config.Config, seeds: int, pages: int, concurrency: int, work: Path
) -> Row:
    chosen = settings.seen
    store = Counted(work, chosen.repositories, max_delay_s=chosen.max_delay_s)
    seen = Watched(store, chosen.max_delay_s, prefers=chosen.prefer)
    simulation = Simulation(
        web,
        settings,
        make_scheme(settings, 1),
        1,
        encoded=False,
        concurrency=concurrency,
        make_seen=lambda: seen,
    )
    first = random.Random(1).sample(range(len(web)), seeds)
    with Timer() as timer:
        simulation.run(first, most=pages)
    order = np.array(simulation.order)
    points = measures.series(
        order.astype(np.uint64),
        np.ones(len(order), bool),
        np.array(simulation.times),
        simulation.progress,
        web.reference,
        web.reachable(first).astype(np.uint64),
    )
    moved = sum(store.folder.read.values()) + sum(store.folder.written.values())
    store.close()
    return {
        "order": settings.frontier.order,
        "repositories": chosen.repositories,
        "prefer": chosen.prefer,
        "pages": len(order),
        "pages_per_s": round(len(order) / simulation.now, 1),
        "cross": round(store.cross / seen.submitted, 3),
        "wait_s": round(float(np.mean(seen.waits)), 1),
        "wait_p95_s": round(float(np.quantile(seen.waits, 0.95)), 1),
        "mb": round(moved / 1e6, 1),
        "quality": round(float(np.mean([one.quality for one in points])), 3),
        "quality_pagerank": round(float(np.mean([one.quality_pagerank for one in points])), 3),
        "cpu_s": round(timer.cpu_s, 1),
    }


def run(
    graph: Path,
    *,
    orders: Words = ("breadth-first", "backlinks"),
    repositories: Numbers = (16, 64),
    max_delay_s: float = 60.0,
    delay_s: float = 0.2,
    seeds: int = 5000,
    pages: int = 80_000,
    concurrency: int = 64,
) -> Iterator[Row]:
    web = load_web(graph)
    gc.disable()
    for order in orders:
        for number in repositories:
            for prefer in ("false", "true"):
                sets = [
                    f"politeness.delay_s={delay_s}",
                    f"frontier.order={order}",
                    f"seen.repositories={number}",
                    f"seen.max_delay_s={max_delay_s}",
                    f"seen.prefer={prefer}",
                    *(f"traps.{key}=0" for key in config.Traps.all_keys),
                ]
                with TemporaryDirectory() as work:
                    settings, folder = config.load(None, sets), Path(work) / "s"
                    yield crawl(web, settings, seeds, pages, concurrency, folder)
