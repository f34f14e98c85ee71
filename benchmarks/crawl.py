"""How many pages a crawl fetches for a CPU second: ABC on 1, 2, 4 ranks, compared with others.

    python -m benchmarks crawl [WEB] [--ranks 1,2,4] [--peers wget2,scrapy] [--runs 3]
                               [--stores S,..] [--served plain,gzip,tls] [--json [FILE]]

WEB is a folder with `seeds.txt` and `hosts.txt`, which have one URL or host a line. The web must be
served already, and its host names must resolve here. Without WEB, the web of the demonstration is
made and served (`web.py`): plain, with gzip-encoded pages, and by HTTPS. The contestants take
turns, and medians are shown. Peers need wget2, and `pip install scrapy`. --stores compares values
of seen.store.

- pages: different HTML pages with status 200, of what a crawler stored. `x/` and `x/index.html`
  count as one page, because wget2 stores them in one file.
- seconds, cpu_seconds: of all processes of the client from start to end, with tables and report.
- cpu_us_per_page: cpu_seconds by pages, in microseconds.
- times_PEER: pages for a CPU second by those of the peer, in the same round.
- peak_bytes: memory of the process that used most, from start to end. rank_peak_bytes: of the rank
  that used most, until the crawl was over. tables_peak_bytes: what the tables of this rank took,
  such as those of waiting and of seen URLs.
- longest_break_ms: the longest time in which a rank kept its event loop from any other task.
"""

import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import pyarrow.compute as pc
import pyarrow.parquet as pq
from harness import (
    Numbers,
    Row,
    Usage,
    Words,
    in_turns,
    medians,
    mpirun,
    one_of,
    run_command,
    write_config,
)
from peers import CONNECTIONS, PEERS, CrawlerError, distinct, exclude
from web import SERVED, Demo, Target, serve

QUICK = {"ranks": [1, 2], "runs": 1, "pages": 100}


def measured(pages: int, used: Usage) -> Row:
    """Return what a crawler did and used."""
    return {
        "pages": pages,
        "seconds": used.wall_s,
        "pages_per_second": pages / used.wall_s,
        "cpu_seconds": used.cpu_s,
        "pages_per_cpu_second": pages / used.cpu_s,
        "cpu_us_per_page": used.cpu_s / pages * 1e6,
        "peak_bytes": used.peak_bytes,
    }


def abc(ranks: int, store: str, web: Target, folder: Path) -> Row:
    """Crawl with ABC."""
    write_config(
        folder / "config.toml",
        {
            "session": {"seeds": web.seeds},
            "scope": {"hosts": web.hosts, "exclude": [exclude(web)]},
            "politeness": {"delay_s": 0, "connections_per_site": CONNECTIONS},
            "fetch": {
                "allow_private_addresses": True,
                "ca_files": [str(web.ca_file)] if web.ca_file else [],
            },
            "seen": {"store": store},
        },
    )
    session = folder / "session"
    command = [sys.executable, "-m", "crawler", "crawl", str(folder / "config.toml")]
    command += ["--session", str(session)]
    with (folder / "errors").open("w") as errors:
        used = run_command([*mpirun(ranks), *command], folder / "output", stderr=errors)
    if used.status:
        said = (folder / "errors").read_text()[-2000:]
        raise CrawlerError(f"ABC ended with {used.status}: {said}")
    (run,) = json.loads((session / "report" / "counters.json").read_text())["runs"]
    fullest = max(run["ranks"], key=lambda rank: rank["peak_bytes"])
    longest_s = max(rank["longest_break_s"] for rank in run["ranks"])
    return measured(distinct(html_pages(session)), used) | {
        "rank_peak_bytes": fullest["peak_bytes"],
        "tables_peak_bytes": fullest["memory"]["all"][0],
        "longest_break_ms": longest_s * 1000,
    }


def html_pages(session: Path) -> list[str]:
    """Return the URLs of the HTML pages with status 200."""
    pages = session / "tables" / "pages"
    table = pq.read_table(pages, columns=["url", "status", "content_type"])
    html = pc.and_(pc.equal(table["status"], 200), pc.equal(table["content_type"], "text/html"))
    return table["url"].filter(html).to_pylist()


def peer(name: str, web: Target, folder: Path) -> Row:
    """Crawl with a peer."""
    return measured(*PEERS[name](web, folder))


def in_scratch(contestant: Callable[[Target, Path], Row], web: Target) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        try:
            return contestant(web, Path(folder))
        except CrawlerError as failure:
            raise SystemExit(f"error: {failure}") from None


def times(rows: Sequence[Row], others: Sequence[Row]) -> float:
    """Return the median of the ratios of pages for a CPU second, each within a round."""
    name = "pages_per_cpu_second"
    return statistics.median(one[name] / other[name] for one, other in zip(rows, others, strict=1))


def run(
    web: Path | None = None,
    *,
    ranks: Numbers = (1, 2, 4),
    runs: Annotated[int, "of each"] = 3,
    stores: Words = ("auto",),
    peers: Annotated[Words, one_of(PEERS), "crawlers to compare with: wget2,scrapy"] = (),
    served: Annotated[Words, one_of(SERVED), "how the web that is made is served"] = SERVED,
    pages: Annotated[int, "of the web that is made"] = 5000,
) -> Iterator[Row]:
    contestants = {
        f"ABC, K = {number}, {store}": partial(abc, number, store)
        for number in ranks
        for store in stores
    }
    contestants |= {name: partial(peer, name) for name in peers}
    if web is not None:
        yield from compare(contestants, Target.read(web), "WEB", runs)
        return
    for how in served:
        with serve(Demo(pages=pages), how) as made:
            yield from compare(contestants, made, how, runs)


def compare(
    contestants: Mapping[str, Callable[[Target, Path], Row]], web: Target, served: str, runs: int
) -> Iterator[Row]:
    """Let the contestants crawl a web in turns. Gives the medians of each."""
    calls = {name: partial(in_scratch, one, web) for name, one in contestants.items()}
    results = in_turns(calls, runs)
    for name, rows in results.items():
        beside = {f"times_{peer}": times(rows, results[peer]) for peer in PEERS if peer in results}
        yield {"crawler": name, "served": served} | medians(rows) | beside
