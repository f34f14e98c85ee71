"""How fast a whole crawl is: ABC on 1, 2, 4 ranks, beside Scrapy, in one run.

    python benchmarks/crawl.py WEB [--ranks 1,2,4] [--runs 3] [--scrapy]

WEB is the folder of a web that is being served already and whose names resolve where this runs:
`seeds.txt` and `hosts.txt`, one a line. The contestants take turns; medians are printed. CPU is
that of all processes of the client, from start to end with tables and report; pages are the HTML
pages with status 200. `--scrapy` needs `pip install scrapy`.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import pyarrow.compute as pc
import pyarrow.parquet as pq

from crawler.config import toml_value

HERE = Path(__file__).parent
EXCLUDE = (
    r"/_sources/|\.(?:txt|py|whl|deb|ipynb|inv|patch|diff|c|h|cpp|json|xsd|asc|sh|js|log|yaml|cfg"
    r"|png|jpe?g|gif|svg|pdf|zip|gz|tgz|bz2|xz|css|ico|eps|ps|tar|mp4|csv|xml|epub|rst)(?:\?|$)"
)


class Run(NamedTuple):
    pages: int
    wall_s: float
    cpu_s: float
    peak_mb: float


def measure(command: list[str], output: Path) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and peak MB of a command with all its children."""
    started = time.perf_counter()
    with output.open("w") as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{command} ended with {child.returncode}")
    wall_s = time.perf_counter() - started
    return wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def abc(web: Path, folder: Path, ranks: int) -> Run:
    config = folder / "config.toml"
    hosts = (web / "hosts.txt").read_text().split()
    config.write_text(
        f"[session]\nseeds_file = {toml_value(str(web / 'seeds.txt'))}\n"
        f"[scope]\nhosts = {toml_value(hosts)}\nexclude = {toml_value([EXCLUDE, '^https:'])}\n"
        "[politeness]\ndelay_s = 0\nconnections_per_site = 16\n"
        "[fetch]\nallow_private_addresses = true\n"
    )
    session = folder / "session"
    shutil.rmtree(session, ignore_errors=True)
    command = [sys.executable, "-m", "crawler", "crawl", str(config), "--session", str(session)]
    if ranks > 1:
        mpirun = shutil.which("mpirun", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        command = [mpirun or "mpirun", "-n", str(ranks), *command]
    used = measure(command, folder / "output")
    table = pq.read_table(session / "tables" / "pages.parquet", columns=["status", "content_type"])
    html = pc.and_(pc.equal(table["status"], 200), pc.equal(table["content_type"], "text/html"))
    return Run(pc.sum(html).as_py(), *used)


def scrapy(web: Path, folder: Path) -> Run:
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
    used = measure(peer, folder / "output")
    return Run(json.loads((folder / "output").read_text())["html"], *used)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("web", type=Path, metavar="WEB")
    parser.add_argument("--ranks", default="1,2,4", help="numbers of ranks (default 1,2,4)")
    parser.add_argument("--runs", type=int, default=3, help="of each (default 3)")
    parser.add_argument("--scrapy", action="store_true", help="beside Scrapy")
    arguments = parser.parse_args()
    contestants = [f"ABC, {ranks} ranks" for ranks in arguments.ranks.split(",")]
    contestants += ["Scrapy"] * arguments.scrapy
    runs: dict[str, list[Run]] = {name: [] for name in contestants}
    for _ in range(arguments.runs):
        for name in contestants:
            with tempfile.TemporaryDirectory() as folder:
                if name == "Scrapy":
                    run = scrapy(arguments.web, Path(folder))
                else:
                    run = abc(arguments.web, Path(folder), int(name.split()[1]))
            runs[name].append(run)
            print(f"{name}: {run}", file=sys.stderr)
    print(f"{'':14} {'pages':>8} {'wall s':>8} {'pages/s':>8} {'pages/CPU s':>12} {'peak MB':>8}")
    for name, each in runs.items():
        pages, wall_s, cpu_s, peak_mb = (
            statistics.median(column) for column in zip(*each, strict=True)
        )
        print(
            f"{name:14} {pages:8.0f} {wall_s:8.1f} {pages / wall_s:8.0f} {pages / cpu_s:12.0f}"
            f" {peak_mb:8.0f}"
        )


if __name__ == "__main__":
    main()
