"""How many pages a whole crawl fetches for a CPU second: ABC on 1, 2, 4 ranks, beside Scrapy.

    python benchmarks crawl WEB [--ranks 1,2,4] [--runs 3] [--scrapy]

WEB is the folder of a web that is being served already and whose names resolve where this runs:
`seeds.txt` and `hosts.txt`, one a line. The contestants take turns, and medians are printed. CPU is
that of all processes of the client from start to end, tables and report included. Pages are HTML
pages with status 200. `--scrapy` needs `pip install scrapy`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import harness
import pyarrow.compute as pc
import pyarrow.parquet as pq
from harness import Row, in_turns, medians, mpirun, numbers, show

from crawler.config import toml_value

HERE = Path(__file__).parent
EXCLUDE = (
    r"/_sources/|\.(?:txt|py|whl|deb|ipynb|inv|patch|diff|c|h|cpp|json|xsd|asc|sh|js|log|yaml|cfg"
    r"|png|jpe?g|gif|svg|pdf|zip|gz|tgz|bz2|xz|css|ico|eps|ps|tar|mp4|csv|xml|epub|rst)(?:\?|$)"
)


def measure(command: list[str], pages: Callable[[], int], output: Path) -> Row:
    """What a whole command did and used, with all its children."""
    used = harness.run(command, output, stderr=subprocess.DEVNULL)
    if used.status:
        raise SystemExit(f"error: {command} ended with {used.status}")
    found = pages()
    return {
        "pages": found,
        "wall_s": used.wall_s,
        "pages_per_s": found / used.wall_s,
        "pages_per_cpu_s": found / used.cpu_s,
        "peak_mb": used.peak_bytes / 2**20,
    }


def abc(ranks: int, web: Path, folder: Path) -> Row:
    config = folder / "config.toml"
    hosts = (web / "hosts.txt").read_text().split()
    config.write_text(
        f"[session]\nseeds_file = {toml_value(str(web / 'seeds.txt'))}\n"
        f"[scope]\nhosts = {toml_value(hosts)}\nexclude = {toml_value([EXCLUDE, '^https:'])}\n"
        "[politeness]\ndelay_s = 0\nconnections_per_site = 16\n"
        "[fetch]\nallow_private_addresses = true\n"
    )
    session = folder / "session"
    command = [sys.executable, "-m", "crawler", "crawl", str(config), "--session", str(session)]
    return measure([*mpirun(ranks), *command], lambda: html_pages(session), folder / "output")


def html_pages(session: Path) -> int:
    table = pq.read_table(session / "tables" / "pages.parquet", columns=["status", "content_type"])
    html = pc.and_(pc.equal(table["status"], 200), pc.equal(table["content_type"], "text/html"))
    return int(pc.sum(html).as_py())


def scrapy(web: Path, folder: Path) -> Row:
    job = folder / "job.json"
    job.write_text(
        json.dumps(
            {
                "seeds": (web / "seeds.txt").read_text().split(),
                "hosts": (web / "hosts.txt").read_text().split(),
                "exclude": EXCLUDE,
            }
        )
    )
    peer = [sys.executable, str(HERE / "scrapy_peer.py"), str(job), str(folder / "bodies")]
    output = folder / "output"
    return measure(peer, lambda: int(json.loads(output.read_text())["html"]), output)


def in_scratch(contestant: Callable[[Path, Path], Row], web: Path) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        return contestant(web, Path(folder))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("web", type=Path, metavar="WEB")
    parser.add_argument("--ranks", type=numbers, default=[1, 2, 4], help="default: 1,2,4")
    parser.add_argument("--runs", type=int, default=3, help="of each (default: 3)")
    parser.add_argument("--scrapy", action="store_true", help="beside Scrapy")


def run(options: argparse.Namespace) -> None:
    contestants = {f"ABC, {ranks} ranks": partial(abc, ranks) for ranks in options.ranks}
    if options.scrapy:
        contestants["Scrapy"] = scrapy
    results = in_turns(
        {name: partial(in_scratch, one, options.web) for name, one in contestants.items()},
        options.runs,
    )
    for name, rows in results.items():
        show({"crawler": name} | medians(rows))
