"""How the CPU time of an agent's parts grows: by stage, waiting sites, links a page, and ranks.

    python -m benchmarks cost [--of stages,sites,links,ranks] [--json [FILE]]
    python -m benchmarks cost --plot FILE [--out docs/results]

A row for each measure and size, each from a process of its own:

- stages: one page of the demonstration's web through one stage. `fetch` is an HTTP request over a
  kept connection, `read` finds and judges the links, `store` writes WARC records and log, `admit`
  asks URL-seen, and puts URLs into the workbench, `visit` takes a URL out and ends its visit.
- sites: a URL put into the workbench and taken out, by the number of sites that wait. Each site has
  a URL, and rests for a time after each.
- links: a link read and admitted, by the number of links on a page. All links are new.
- ranks: a page of a simulated crawl, whose ranks share one process, by the number of ranks. So this
  is the cost of all ranks together, without waiting.

`us` is the CPU time in microseconds, `times` by that of the smallest size. Flat is about 1, and
logarithmic grows by the same step at each size. `longest_ms` is the longest time without a turn for
other tasks, of this thread's CPU time. --plot draws the rows of a file of --json.
"""

import random
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal

import numpy as np
import uvloop
from harness import Numbers, Row, Timer, Words, alone, one_of, read_rows
from web import Demo, serve

from crawler import config, session, url
from crawler.agent.timing import SystemClock, collect_rarely
from crawler.core.core import Core
from crawler.core.order import make_order
from crawler.core.outcomes import DONE
from crawler.core.ownership import Ownership
from crawler.core.schemes import SiteHash
from crawler.core.workbench import Workbench
from crawler.net import DnsResolver, HttpFetcher
from crawler.ports import CrawlUrl, Fetched, Response
from crawler.reading.reader import PageReader, make_scope
from crawler.simulate import Simulation, Web
from crawler.stores.memory import MemoryStore

Cost = dict[str, float]  # us, longest_ms
REST_S: Final = 1.0
SITE: Final = 100  # simulated pages of a site
QUICK = {"sites": [10, 100], "links": [10, 100], "ranks": [1, 2], "work": 2000}


class Steps:
    """Measures steps, each without a turn for other tasks."""

    def __init__(self) -> None:
        self.longest_s = self.all_s = 0.0
        self._at = time.thread_time()

    def begin(self) -> None:
        self._at = time.thread_time()

    def end(self) -> None:
        now = time.thread_time()
        self.longest_s = max(self.longest_s, now - self._at)
        self.all_s += now - self._at
        self._at = now

    def run(self, steps: Iterable[object]) -> None:
        """Take all steps of a generator."""
        self.begin()
        for _ in steps:
            self.end()
        self.end()

    def each(self, number: int) -> Cost:
        return {"us": self.all_s / number * 1e6, "longest_ms": self.longest_s * 1e3}


def settings_of(hosts: Sequence[str]) -> config.Config:
    return config.load(
        values={
            "session": {"seeds": [f"http://{host}/" for host in hosts[:1]]},
            "scope": {"hosts": list(hosts)},
            "politeness": {"delay_s": 0},
            "fetch": {"allow_private_addresses": True},
            # All pages here look alike.
            "traps": dict.fromkeys(config.Traps.all_keys, 0),
        }
    )


def core_of(settings: config.Config) -> tuple[Core, PageReader]:
    """Return the core and the reader of the only rank of a crawl."""
    scope = make_scope(settings, settings.session.seeds, 2027)
    core = Core(settings, 1, Ownership(0, SiteHash(1), [0]), scope.sites, MemoryStore())
    return core, PageReader(settings, scope)


# --- stages -----------------------------------------------------------------------------------


def stages(pages: int) -> Iterator[tuple[str, Cost]]:
    """Give the cost of each stage."""
    with serve(Demo(pages=pages)) as web, tempfile.TemporaryDirectory() as folder:
        settings = settings_of(web.hosts)
        core, reader = core_of(settings)
        rows = uvloop.run(through_all(settings, core, reader, web.seeds, pages, Path(folder)))
    yield from rows.items()


async def through_all(
    settings: config.Config,
    core: Core,
    reader: PageReader,
    seeds: Sequence[str],
    pages: int,
    folder: Path,
) -> dict[str, Cost]:
    """Crawl, one page after the other, and measure what each stage takes."""
    names = ("fetch", "read", "store", "admit", "visit")
    fetch, read, store, admit, visit = each = [Steps() for _ in names]
    scope = make_scope(settings, seeds, 2027)
    repository = session.RankStore(
        folder, 0, settings.storage, user_agent="benchmark", obeys_robots=False
    )
    clock, fetched_pages = SystemClock(), 0
    private = settings.fetch.allow_private_addresses
    async with (
        DnsResolver(settings.dns, private, clock) as resolver,
        HttpFetcher(settings.fetch, resolver) as fetcher,
    ):
        core.start([scope.link(seed) for seed in seeds], clock.now())
        while fetched_pages < pages:
            visit.begin()
            found = core.acquire(clock.now())
            visit.end()
            if found is None:
                break
            fetch.begin()
            response = await fetcher.fetch(found.found.url)
            fetch.end()
            fetched = Fetched(found.found, response.started, response, address=response.address)
            read.run(reader.read(fetched))
            store.begin()
            repository.hash(fetched)
            repository.log([fetched], [repository.archive(fetched, 0)])
            store.end()
            visit.begin()
            core.end(found, DONE, clock.now())
            visit.end()
            admit.run(core.stored(found.found, fetched.followed, clock.now(), response=True))
            fetched_pages += 1
    repository.close()
    costs = {name: steps.each(fetched_pages) for name, steps in zip(names, each, strict=True)}
    costs["fetch"]["longest_ms"] = 0.0  # a fetch has many turns, which aren't seen from here
    return costs


# --- sites ------------------------------------------------------------------------------------


def waiting_sites(sites: int, work: int) -> Cost:
    """Return the cost of a URL, with so many sites that wait."""
    politeness = config.Politeness(delay_s=REST_S)
    bench = Workbench(politeness, config.Retry(), make_order(config.Frontier()))
    steps = Steps()

    def put(number: int) -> None:
        site = f"www.site-{number % sites}.example"
        address = f"http://{site}/section/{number}-title"
        one = CrawlUrl(url.key(address), address, site, 0)
        steps.begin()
        bench.enqueue(one)
        steps.end()

    for number in range(sites):
        put(number)
    steps.all_s, now = 0.0, 0.0  # while the sites are new, the tables grow
    for number in range(sites, sites + work):
        put(number)
        now += 1.01 * REST_S / sites
        steps.begin()
        visit = bench.acquire(now)
        assert visit is not None
        bench.end(visit, DONE, now)
        steps.end()
    return steps.each(work)


# --- links ------------------------------------------------------------------------------------


def links_of_a_page(links: int, work: int) -> Cost:
    """Return the cost of a link, with so many links on each page."""
    host, steps, pages = "www.a.example", Steps(), max(2, work // links)
    core, reader = core_of(settings_of([host]))
    scope = make_scope(settings_of([host]), [f"http://{host}/"], 2027)
    core.start([scope.link(f"http://{host}/{page}/") for page in range(pages)], 0.0)
    for number in range(pages):
        visit = core.acquire(0.0)
        assert visit is not None
        core.end(visit, DONE, 0.0)
        anchors = "".join(
            f'<li><a class="reference internal" href="/{number}/section/{link}-title.html">'
            f"The words of link {link}</a>\n"
            for link in range(links)
        )
        body = f"<!DOCTYPE html><title>Page</title><ul>{anchors}</ul>".encode()
        fetched = Fetched(visit.found, 1.8e9, response_of(visit.found.url, body))
        steps.run(reader.read(fetched))
        assert len(fetched.links) == links
        steps.run(core.stored(visit.found, fetched.followed, 0.0, response=True))
    return steps.each(pages * links)


def response_of(address: str, body: bytes) -> Response:
    return Response(
        url=address,
        started=1.8e9,
        seconds=0.1,
        address="127.0.0.1",
        request_head=b"GET / HTTP/1.1\r\n\r\n",
        version="1.1",
        status=200,
        reason="OK",
        headers=[(b"Content-Type", b"text/html; charset=utf-8")],
        payload=body,
        body=body,
    )


# --- ranks ------------------------------------------------------------------------------------


def simulated_ranks(ranks: int, work: int) -> Cost:
    """Return the cost of a page in a crawl by so many ranks, of all ranks together."""
    pages = max(work // 10, 100)
    draw = np.random.default_rng(1)
    source = np.repeat(np.arange(pages), 10)
    near = source // SITE * SITE + draw.integers(0, SITE, len(source))
    target = np.where(draw.random(len(source)) < 0.9, near, draw.integers(0, pages, len(source)))
    links = np.stack([source, np.minimum(target, pages - 1)], axis=1)
    urls = [f"http://www.site-{page // SITE}.example/{page}" for page in range(pages)]
    web = Web(urls, links)
    settings = config.load(None, ["politeness.delay_s=0"])
    assert len(web.pages) == len(web.out_links)  # makes them
    with Timer() as timer:
        simulation = Simulation(web, settings, SiteHash(ranks), ranks)
        simulation.run(random.Random(1).sample(range(pages), min(pages, 200)))
    return {"us": timer.cpu_s / simulation.pages * 1e6}


# --- all --------------------------------------------------------------------------------------

MEASURES: Final[dict[str, Callable[[int, int], Cost]]] = {
    "sites": waiting_sites,
    "links": links_of_a_page,
    "ranks": simulated_ranks,
}
Measure = Literal["stages", "sites", "links", "ranks"]


def run(
    *,
    of: Annotated[Words, one_of(("stages", *MEASURES))] = ("stages", *MEASURES),
    sites: Numbers = (10, 100, 1000, 10_000, 100_000, 1_000_000),
    links: Numbers = (10, 100, 1000, 10_000),
    ranks: Numbers = (1, 2, 4, 8, 16, 32, 64),
    work: Annotated[int, "URLs or links that are measured"] = 200_000,
    plot: Annotated[Path | None, Path, "a file of rows"] = None,
    out: Path = Path("docs/results"),
) -> Iterator[Row]:
    if plot is not None:
        draw(read_rows(plot), out / "cost.svg")
        return
    collect_rarely()  # as an agent does; the processes inherit it
    if "stages" in of:
        costs, _ = alone(lambda: list(stages(max(100, work // 100))))
        for stage, cost in costs:
            yield {"cost": "stages", "size": stage, **cost}
    for name, sizes in (("sites", sites), ("links", links), ("ranks", ranks)):
        least = 0.0
        for size in sizes if name in of else ():
            cost, _ = alone(partial(MEASURES[name], size, work))
            least = least or cost["us"]
            yield {"cost": name, "size": str(size), "times": cost["us"] / least, **cost}


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw the cost by size, with a panel for each measure."""
    from plotting import by_two, panels, save  # noqa: PLC0415 (only plots need matplotlib)

    figure, axes = panels(1, len(MEASURES))
    titles = {"sites": "waiting sites", "links": "links of a page", "ranks": "ranks"}
    units = {"sites": "us for a URL", "links": "us for a link", "ranks": "us for a page"}
    line = None
    for panel, name in zip(axes[0], MEASURES, strict=True):
        points = [(int(row["size"]), row["us"]) for row in rows if row["cost"] == name]
        (line,) = panel.plot(*zip(*points, strict=True), marker="o", ms=3, lw=1, color="#0072b2")
        panel.set(xlabel=titles[name], ylabel=units[name], xscale="log", ylim=0)
        if name == "ranks":
            by_two(panel)
    save(figure, {"CPU time": line}, path)
