"""How fast a session resumes, from the logs and from snapshots of a made-up web.

    python benchmarks replay make DIR --pages 1000000 --links 10 --ranks 2
    mpirun -n 2 python benchmarks replay measure DIR

The web has half as many URLs again as pages were fetched, on sites of 1,000 each, and every link
leads to one of them by chance, half of the links within the site. `measure` prints for each rank
how long the parts of `crawler.agent.resume` take, from the logs and from a snapshot. `read_logs`
has to end before the first visit, `admit` goes on beside the crawl. The crawl itself isn't started.
"""

import argparse
import asyncio
import gc
import random
import resource
import time
from functools import partial
from pathlib import Path

import msgspec
from harness import Row, show

from crawler import config, mpi, session, url
from crawler.agent.pipeline import exchange_stage
from crawler.agent.resume import Replay
from crawler.agent.timing import Alarm, SystemClock
from crawler.agent.wire import Wire
from crawler.core.core import Core
from crawler.core.ownership import Ownership, SiteHash, make_scheme, place_parts
from crawler.core.seen import MemorySeen
from crawler.core.snapshot import CoreSnapshot
from crawler.faults import Faults
from crawler.ports import Group, Link, PageRow
from crawler.reading.declared import DeclaredSitemaps
from crawler.reading.reader import PageReader, make_scope
from crawler.session.log import LogWriter

SITE_URLS = 1_000


class Web:
    def __init__(self, urls: int) -> None:
        self.texts = [f"http://{self.host(n)}/section-{n % 7}/page-{n}.html" for n in range(urls)]
        self.keys = [url.key(text) for text in self.texts]

    @staticmethod
    def host(number: int) -> str:
        return f"www.site-{number // SITE_URLS}.example"

    def link(self, number: int) -> Link:
        return Link(self.keys[number], self.texts[number], "", 0)


def make(directory: Path, pages: int, links: int, ranks: int) -> None:
    """A session as a killed crawl would leave it, every site on the rank of its site-hash."""
    web, dice = Web(pages * 3 // 2), random.Random(1)
    settings = config.load(None, ['scope.domains=["example"]', "fetch.contact=nobody@example.org"])
    session.create(directory, settings, ranks, ranks, web.texts[:1])
    scheme = SiteHash(ranks)
    logs = []
    for rank in range(ranks):
        folder = directory / f"rank-{rank:05}" / "log"
        folder.mkdir(parents=True)
        logs.append(LogWriter(folder))
    total = len(web.texts)
    for number in range(pages):
        site = f"http://{web.host(number)}"
        rank = scheme.part(0, site)
        row = PageRow(
            web.texts[number], web.keys[number], site, rank, rank, number % 20, 1.8e9 + number, 0.1,
            address="10.0.0.1", status=200, bytes=20_000, content_type="text/html",
            digest=f"sha1:{number:032}", warc_file=f"abc-20270115080000-{rank:05}-00000.warc.gz",
            warc_offset=number * 6_000, etag=f'"{number:x}"',
        )  # fmt: skip
        start = number - number % SITE_URLS
        inside = [min(start + dice.randrange(SITE_URLS), total - 1) for _ in range(links // 2)]
        outside = [dice.randrange(total) for _ in range(links - links // 2)]
        logs[rank].page(row, [web.link(target) for target in inside + outside])
    for log in logs:
        log.close()


async def measure(directory: Path, group: Group) -> int:
    """Resume as an agent does, until all URLs wait in the workbench: from the logs, then from
    the snapshots that are made of that."""
    gc.set_threshold(50_000, 20, 100)  # as an agent does
    transport = await group.connect()
    state = await resume_on(directory, group, Wire(transport), None)
    gc.collect()
    began = time.perf_counter()
    path = directory / f"rank-{group.rank:05}" / "state"
    path.write_bytes(msgspec.msgpack.encode(state))
    size = path.stat().st_size
    await report(group, "written", {"seconds": time.perf_counter() - began, "bytes": size})
    del state
    gc.collect()
    began = time.perf_counter()
    state = msgspec.msgpack.decode(path.read_bytes(), type=CoreSnapshot)
    await report(group, "read", {"seconds": time.perf_counter() - began})
    await resume_on(directory, group, Wire(transport), state)
    await transport.close()
    return 0


async def resume_on(
    directory: Path, group: Group, wire: Wire, state: CoreSnapshot | None
) -> CoreSnapshot | None:
    settings = session.load(directory).config
    logs = session.shares(session.log_sizes(directory), group.size)
    clock, alarm = SystemClock(), Alarm()
    scope = make_scope(settings, session.seeds(directory), 2027)
    scheme = make_scheme(settings.assignment, group.size)
    ownership = Ownership(group.rank, scheme, place_parts(scheme, group.size))
    declared, faults = DeclaredSitemaps(), Faults()
    core = Core(
        *(settings, group.size, ownership, scope.sites, MemorySeen()),
        declared=declared,
        faults=faults,
    )
    reader = PageReader(settings, scope, declared)
    times = [(time.perf_counter(), time.process_time())]
    replay = Replay(
        *(logs[group.rank], settings, core, group, lambda row: None, declared, faults),
        judges_again=False,
    )
    await replay.adopt(state)
    pages = await replay.read_logs()
    times.append((time.perf_counter(), time.process_time()))
    receiving = asyncio.ensure_future(
        exchange_stage(core, wire, lambda rank, note: None, alarm, 1.0, clock)
    )
    core.start([scope.link(seed) for seed in session.seeds(directory)], clock.now())
    await replay.admit(reader, scope, wire, alarm, clock)
    times.append((time.perf_counter(), time.process_time()))
    await group.gather(None)
    await asyncio.sleep(3)  # what others have sent
    receiving.cancel()
    figures: dict[str, float] = {"pages": pages, "waiting": core.waiting}
    for name, before, after in zip(("read_logs", "admit"), times, times[1:], strict=False):
        figures[f"{name}_seconds"] = round(after[0] - before[0], 2)
        figures[f"{name}_cpu_seconds"] = round(after[1] - before[1], 2)
    figures["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    await report(group, "logs" if state is None else "snapshot", figures)
    return core.resumption.state() if state is None else None


async def report(group: Group, what: str, figures: Row) -> None:
    for rank, one in enumerate(await group.gather(figures)):
        show({"what": what, "rank": rank, **one})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make")
    making.add_argument("directory", type=Path)
    making.add_argument("--pages", type=int, default=1_000_000)
    making.add_argument("--links", type=int, default=10)
    making.add_argument("--ranks", type=int, default=2)
    measuring = commands.add_parser("measure")
    measuring.add_argument("directory", type=Path)


def run(options: argparse.Namespace) -> int:
    if options.command == "measure":
        return mpi.run(partial(measure, options.directory))
    make(options.directory, options.pages, options.links, options.ranks)
    return 0
