"""What the end of a session takes on several ranks: the tables and the report of a made-up web.

    python benchmarks ends make DIR --pages 1000000 --links 10 --ranks 4
    mpirun -n 2 python benchmarks ends measure DIR

`make` writes the logs and request logs that a crawl leaves, with sites of 1,000 URLs, each on the
rank of its site-hash. Of three URLs, two are fetched. Half of the links stay within the site. No
WARC file is written. `measure` writes the tables and the report, and prints for each rank the
seconds, the CPU seconds and the peak of memory of both: first of the tables alone, then of the
tables and the report. A rank that waits for others uses next to no CPU time. So `cpu_seconds` of
the busiest rank says how long the end takes where each rank has a core of its own.
"""

import random
import resource
from functools import partial
from pathlib import Path
from typing import Literal

from harness import Timer, show
from replay import SITE_URLS, Web

from crawler import config, mpi, session
from crawler.core.schemes import SiteHash
from crawler.ports import Asked, Group, PageRow
from crawler.report.report import write_metrics
from crawler.session.log import LogWriter
from crawler.session.requests import Manners, RequestLog
from crawler.session.tables import write_tables


def make(directory: Path, pages: int, links: int, ranks: int) -> None:
    web, dice = Web(pages * 3 // 2), random.Random(1)
    settings = config.load(None, ['scope.domains=["example"]', "fetch.contact=nobody@example.org"])
    session.create(directory, settings, ranks, ranks, web.texts[:1])
    scheme = SiteHash(ranks)
    logs, requests = [], []
    for rank in range(ranks):
        folder = directory / f"rank-{rank:05}"
        (folder / "log").mkdir(parents=True)
        logs.append(LogWriter(folder / "log"))
        manners = Manners(0, rank, "host", "", 0.0, "site", 1.0, 1, 60.0, 1.0, 1.0, 60.0, 3)
        requests.append(RequestLog(folder / "requests" / "00000.log", manners))
    total = len(web.texts)
    for number in range(pages):
        site = web.host(number)
        rank = scheme.part(0, site)
        # The sites are visited in turn, each once in 10,000 seconds.
        start = 1.8e9 + number % SITE_URLS * 10_000 + number // SITE_URLS % 10_000
        row = PageRow(
            web.texts[number], web.keys[number], site, rank, rank, number % 20, start, 0.1,
            address="10.0.0.1", status=200, bytes=20_000, content_type="text/html",
            digest=f"sha1:{number:032}", warc_file=f"abc-20270115080000-{rank:05}-00000.warc.gz",
            warc_offset=number * 6_000, etag=f'"{number:x}"', title=f"Page {number}",
        )  # fmt: skip
        first = number - number % SITE_URLS
        inside = [min(first + dice.randrange(SITE_URLS), total - 1) for _ in range(links // 2)]
        outside = [dice.randrange(total) for _ in range(links - links // 2)]
        logs[rank].write([logs[rank].frame(row, [web.link(target) for target in inside + outside])])
        authority = f"http://{site}"
        requests[rank].note(
            Asked(start, 0.1, site, authority, "page", row.key, 200, None, "10.0.0.1")
        )
    for log, asked in zip(logs, requests, strict=True):
        log.close()
        asked.close()
    session.finish(directory, True, "complete")


async def measure(directory: Path, group: Group) -> int:
    for what, work in (("tables", write_tables), ("tables and report", write_metrics)):
        with Timer() as timer:
            await work(directory, group)
        figures = {
            "seconds": round(timer.wall_s, 2),
            "cpu_seconds": round(timer.cpu_s, 2),
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
        for rank, one in enumerate(await group.gather(figures)):
            show({"what": what, "ranks": group.size, "rank": rank, **one})
    return 0


def run(
    command: Literal["make", "measure"],
    directory: Path,
    *,
    pages: int = 1_000_000,
    links: int = 10,
    ranks: int = 4,
) -> int:
    if command == "measure":
        return mpi.run(partial(measure, directory))
    make(directory, pages, links, ranks)
    return 0
