"""How fast a session resumes, from the logs and from snapshots of a made-up web.

    python benchmarks replay make DIR --pages 1000000 --links 10 --ranks 2
    mpirun -n 2 python benchmarks replay measure DIR

The web has 1.5 times as many URLs as fetched pages, on sites of 1,000 URLs. Each link leads to a
random URL; half of the links stay within the site. `measure` prints for each rank how long the
steps of `crawler.agent.resume` take, from the logs and from a snapshot. `read_logs` must end before
the first visit; `admit` continues during the crawl. The crawl itself isn't started. At last it
prints how long `seen.exact` takes at the end of a run (`crawler.agent.telling_apart`).
"""

import asyncio
import gc
import random
import resource
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec
from harness import Row, Timer, show

from crawler import config, mpi, session, url
from crawler.agent.pipeline import exchange_stage
from crawler.agent.resume import Replay
from crawler.agent.telling_apart import tell_apart
from crawler.agent.timing import Alarm, SystemClock, collect_rarely
from crawler.agent.wire import Wire
from crawler.core.core import Core
from crawler.core.ownership import Ownership
from crawler.core.schemes import SiteHash, make_scheme, place_parts
from crawler.core.seen import MemorySeen
from crawler.core.snapshot import About, CoreSnapshot, Piece
from crawler.faults import Faults
from crawler.ports import Group, Link, PageRow, Transport
from crawler.reading.declared import DeclaredSitemaps
from crawler.reading.judge import Judge
from crawler.reading.reader import make_scope
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
    """Make a session like that of a killed crawl, with each site on the rank of its site-hash."""
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
        logs[rank].write([logs[rank].frame(row, [web.link(target) for target in inside + outside])])
    for log in logs:
        log.close()


async def measure(directory: Path, group: Group) -> int:
    """Resume as an agent does, until all URLs wait in the workbench: first from the logs, then
    from snapshots of that state."""
    collect_rarely()  # as an agent does
    transport = await group.connect()
    state = await resume_on(directory, group, transport, None)
    gc.collect()
    path = directory / f"rank-{group.rank:05}" / "state"
    with Timer() as timer:
        assert state is not None
        pieces = list(state.pieces)
        path.write_bytes(msgspec.msgpack.encode((state.about, pieces)))
    figures = {"seconds": timer.wall_s, "bytes": path.stat().st_size}
    await report(group, "written", figures)
    del state, pieces
    gc.collect()
    with Timer() as timer:
        parts = msgspec.msgpack.decode(path.read_bytes(), type=tuple[About, list[Piece]])
        state = CoreSnapshot(*parts)
    await report(group, "read", {"seconds": timer.wall_s})
    await resume_on(directory, group, transport, state)
    with Timer() as timer:
        await tell_apart(directory, [], group)
    figures = {"seconds": round(timer.wall_s, 2), "cpu_seconds": round(timer.cpu_s, 2)}
    await report(group, "tell_apart", figures)
    await transport.close()
    return 0


async def resume_on(
    directory: Path, group: Group, transport: Transport, state: CoreSnapshot | None
) -> CoreSnapshot | None:
    settings = session.load(directory).config
    logs = session.shares(session.log_sizes(directory), group.size)
    clock = SystemClock()
    scope = make_scope(settings, session.seeds(directory), 2027)
    scheme = make_scheme(settings, group.size)
    ownership = Ownership(group.rank, scheme, place_parts(scheme, group.size))
    declared, faults = DeclaredSitemaps(), Faults()
    core = Core(
        *(settings, group.size, ownership, scope.sites, MemorySeen()),
        declared=declared,
        faults=faults,
    )
    wire = Wire(transport, core, Alarm(), clock, settings.exchange.max_backlog_bytes)
    judge = Judge(settings, scope, declared)
    replay = Replay(
        *(logs[group.rank], settings, core, group, lambda row: None, declared, faults),
        judges_again=False,
    )
    with Timer() as reading:
        await replay.adopt(state)
        pages = await replay.read_logs()
    with Timer() as admitting:
        receiving = asyncio.ensure_future(
            exchange_stage(core, wire, lambda rank, note: None, 1.0, clock)
        )
        core.start([scope.link(seed) for seed in session.seeds(directory)], clock.now())
        await replay.admit(judge, wire, clock)
    await group.gather(None)
    await asyncio.sleep(3)  # until messages of other ranks have arrived
    receiving.cancel()
    figures: dict[str, float] = {"pages": pages, "waiting": core.waiting}
    for name, timer in (("read_logs", reading), ("admit", admitting)):
        figures[f"{name}_seconds"] = round(timer.wall_s, 2)
        figures[f"{name}_cpu_seconds"] = round(timer.cpu_s, 2)
    figures["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    await report(group, "logs" if state is None else "snapshot", figures)
    return core.resumption.state() if state is None else None


async def report(group: Group, what: str, figures: Row) -> None:
    for rank, one in enumerate(await group.gather(figures)):
        show({"what": what, "rank": rank, **one})


def run(
    command: Literal["make", "measure"],
    directory: Path,
    *,
    pages: int = 1_000_000,
    links: int = 10,
    ranks: int = 2,
) -> int:
    if command == "measure":
        return mpi.run(partial(measure, directory))
    make(directory, pages, links, ranks)
    return 0
