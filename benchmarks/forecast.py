"""How well the time of a live crawl is predicted from the session before.

    python -m benchmarks forecast [--ranks 2,4] [--delay S] [--pages N] [--json [FILE]]

Crawls two made webs that are served on loopback (`web.py`). A session on one rank crawls each web
first. From this session `partition build` makes a part vector for each number of ranks, and
predicts the time of a crawl with this vector. Then this crawl is done. All crawls have one
connection to a site, and `--delay` seconds between requests to it.

- `known sites`: the web of the demonstration. Each site has a seed.
- `late sites`: `web.Numbered` from one seed. A site is found when the one before has been asked.

`predicted_s` and `limit` are `crawl_seconds` and `crawl_limit` of `partition build --json`.
`taken_s` is the measure `seconds` of the crawl, and `ratio` is predicted_s / taken_s.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from harness import Numbers, Row, mpirun, provenance, write_config
from web import Demo, Made, Numbered, Target, serve

QUICK: Final = {"ranks": [2], "delay": 0.01, "pages": 200}
SITES: Final = 24


def crawl(
    web: Target, delay_s: float, ranks: int, folder: Path, assignment: Mapping[str, Any]
) -> Path:
    """Crawl a web politely, and return the session."""
    folder.mkdir()
    tables = {
        "session": {"seeds": web.seeds},
        "scope": {"hosts": web.hosts},
        "politeness": {"delay_s": delay_s},
        "fetch": {"allow_private_addresses": True},
        "assignment": assignment,
    }
    write_config(folder / "config.toml", tables)
    command = [sys.executable, "-m", "crawler", "crawl", str(folder / "config.toml")]
    command += ["--session", str(folder / "session")]
    subprocess.run([*mpirun(ranks), *command], check=True, stdout=subprocess.DEVNULL)
    return folder / "session"


def predicted(session: Path, parts: int, vector: Path) -> Row:
    """Make a part vector of a session, and return its plan."""
    command = [sys.executable, "-m", "partition", "build", str(session), "-k", str(parts)]
    command += ["--out", str(vector), "--json"]
    plans = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    plan: Row = json.loads(plans)[0]  # the others are baselines
    return plan


def compare(name: str, made: Made, delay_s: float, ranks: Numbers) -> Iterator[Row]:
    """Crawl a web once, and then again with each number of ranks."""
    with serve(made) as web, tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        before = crawl(web, delay_s, 1, folder / "first", {})
        for number in ranks:
            vector = folder / f"{number}.pv"
            plan = predicted(before, number, vector)
            assignment = {"scheme": "part-vector", "part_vector": str(vector)}
            session = crawl(web, delay_s, number, folder / str(number), assignment)
            measures = json.loads((session / "report" / "metrics.json").read_text())
            yield {
                "web": name,
                "limit": plan["crawl_limit"],
                "delay_s": delay_s,
                "ranks": number,
                "pages": measures["pages"],
                "predicted_s": round(plan["crawl_seconds"], 2),
                "taken_s": round(measures["seconds"], 2),
                "ratio": round(plan["crawl_seconds"] / measures["seconds"], 3),
                **provenance(),
            }


def run(*, ranks: Numbers = (2, 4), delay: float = 0.5, pages: int = 1000) -> Iterator[Row]:
    webs = {"known sites": Demo(SITES, pages), "late sites": Numbered(SITES, pages // SITES)}
    for name, made in webs.items():
        yield from compare(name, made, delay, ranks)
