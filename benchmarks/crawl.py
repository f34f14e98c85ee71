"""How many pages a crawl fetches for a CPU second: ABC on 1, 2, 4 ranks, compared with Scrapy.

    python benchmarks crawl WEB [--ranks 1,2,4] [--runs 3] [--stores S,..] [--scrapy]

WEB is a folder with `seeds.txt` and `hosts.txt`, which have one URL or host a line. The web must be
served already, and its host names must resolve here. The contestants take turns, and medians are
printed. --stores compares values of seen.store. CPU is that of all processes of the client from
start to end, with tables and report. Pages are HTML pages with status 200. `--scrapy` needs
`pip install scrapy`.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import pyarrow.compute as pc
import pyarrow.parquet as pq
from harness import Numbers, Row, Words, in_turns, medians, mpirun, run_command, show, write_config

HERE = Path(__file__).parent
EXCLUDE = (
    r"/_sources/|\.(?:txt|py|whl|deb|ipynb|inv|patch|diff|c|h|cpp|json|xsd|asc|sh|js|log|yaml|cfg"
    r"|png|jpe?g|gif|svg|pdf|zip|gz|tgz|bz2|xz|css|ico|eps|ps|tar|mp4|csv|xml|epub|rst)(?:\?|$)"
)


def measure(command: list[str], pages: Callable[[], int], output: Path) -> Row:
    """Run a command, and return what it and its children did and used."""
    used = run_command(command, output, stderr=subprocess.DEVNULL)
    if used.status:
        raise SystemExit(f"error: {command} ended with {used.status}")
    fetched = pages()
    return {
        "pages": fetched,
        "wall_s": used.wall_s,
        "pages_per_s": fetched / used.wall_s,
        "pages_per_cpu_s": fetched / used.cpu_s,
        "peak_mb": used.peak_bytes / 2**20,
    }


def abc(ranks: int, store: str, web: Path, folder: Path) -> Row:
    write_config(
        folder / "config.toml",
        {
            "session": {"seeds_file": str(web / "seeds.txt")},
            "scope": {
                "hosts": (web / "hosts.txt").read_text().split(),
                "exclude": [EXCLUDE, "^https:"],
            },
            "politeness": {"delay_s": 0, "connections_per_site": 16},
            "fetch": {"allow_private_addresses": True},
            "seen": {"store": store},
        },
    )
    session = folder / "session"
    command = [sys.executable, "-m", "crawler", "crawl", str(folder / "config.toml")]
    command += ["--session", str(session)]
    return measure([*mpirun(ranks), *command], lambda: html_pages(session), folder / "output")


def html_pages(session: Path) -> int:
    table = pq.read_table(session / "tables" / "pages.parquet", columns=["status", "content_type"])
    html = pc.and_(pc.equal(table["status"], 200), pc.equal(table["content_type"], "text/html"))
    return int(pc.sum(html).as_py())


def peer(web: Path, folder: Path) -> Row:
    job: Row = {name: (web / f"{name}.txt").read_text().split() for name in ("seeds", "hosts")}
    (folder / "job.json").write_text(json.dumps(job | {"exclude": EXCLUDE}))
    command = [sys.executable, str(HERE / "scrapy_peer.py")]
    command += [str(folder / "job.json"), str(folder / "bodies")]
    output = folder / "output"
    return measure(command, lambda: int(json.loads(output.read_text())["html"]), output)


def in_scratch(contestant: Callable[[Path, Path], Row], web: Path) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        return contestant(web, Path(folder))


def run(
    web: Path,
    *,
    ranks: Numbers = (1, 2, 4),
    runs: Annotated[int, "of each"] = 3,
    stores: Words = ("auto",),
    scrapy: Annotated[bool, "also run Scrapy"] = False,
) -> None:
    contestants = {
        f"ABC, {number} ranks, {store}": partial(abc, number, store)
        for number in ranks
        for store in stores
    }
    if scrapy:
        contestants["Scrapy"] = peer
    results = in_turns(
        {name: partial(in_scratch, one, web) for name, one in contestants.items()}, runs
    )
    for name, rows in results.items():
        show({"crawler": name} | medians(rows))
