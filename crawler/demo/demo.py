"""The demonstration: crawl a small web, partition its link graph, crawl again, compare.

The demonstration needs no network: a child process serves the web on loopback. The partitioning
job runs in another child process. So the figures include the work of neither. All ranks enter
`run`.
"""

import asyncio
import json
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from crawler import config, url
from crawler.agent import planning
from crawler.agent.crawl import crawl
from crawler.demo.web import DemoWeb, outside_mpi, serve, settings
from crawler.ports import Group
from crawler.report.summary import comparison

_SEED = 1


async def run(group: Group) -> int:
    """Run the demonstration on all ranks. Returns the exit code."""
    folder = Path(time.strftime("demo-%Y%m%d-%H%M%S"))
    serving = serve(_SEED) if group.rank == 0 else nullcontext()
    with serving as served:
        _say(
            group,
            "A web of about 2,000 pages on 48 sites, served on loopback."
            f" {group.size} ranks crawl it by site-hash ...",
        )
        first = await _crawl(group, served, folder / "first", {"scheme": "site-hash"})
        vector = folder / "part-vector"
        _say(group, "The partitioning job makes a part vector of the link graph ...")
        predicted = await group.bcast(
            await _partition(folder / "first", vector, group.size) if group.rank == 0 else {}
        )
        _say(group, "... and the ranks crawl again with it.")
        second = await _crawl(
            group,
            served,
            folder / "second",
            {"scheme": "part-vector", "part_vector": str(vector)},
        )
    if group.rank == 0 and first and second:
        columns = {"site-hash": first, "part vector": second, "as predicted": predicted}
        _say(group, "\n" + comparison(columns), sys.stdout)
        _say(group, f"\nsessions  {folder / 'first'}\n          {folder / 'second'}", sys.stdout)
    return 0


async def _crawl(
    group: Group,
    served: tuple[DemoWeb, int] | None,
    directory: Path,
    assignment: dict[str, str],
) -> dict[str, Any] | None:
    """Crawl one session. Returns its metrics at rank 0, and None elsewhere."""
    plan, reachable = None, None
    if served is not None:
        web, port = served
        tables = settings(web, port)
        tables["session"] |= {"directory": str(directory)}
        tables |= {"assignment": dict(assignment), "politeness": {"delay_s": 0}}
        plan = planning.prepare(config.load(values=tables), group.size)
        reachable = [url.key(address) for address in web.reachable]
    plan = await group.bcast(plan)
    assert plan is not None
    await crawl(plan, group, reachable)
    if group.rank != 0:
        return None
    metrics: dict[str, Any] = json.loads((directory / "report" / "metrics.json").read_text())
    return metrics


async def _partition(directory: Path, out: Path, ranks: int) -> dict[str, Any]:
    """Make a part vector of a session's link graph. Returns the measures predicted for it."""
    words = ["build", str(directory), "-k", str(ranks)]
    job = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-P", "-m", "partition", *words, "--out", str(out), "--json"),
        env=outside_mpi(),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await job.communicate()
    if job.returncode:
        raise RuntimeError(f"the partitioning job failed with exit code {job.returncode}")
    plans: list[dict[str, Any]] = json.loads(output)
    return plans[0]


def _say(group: Group, text: str, stream: Any = None) -> None:
    if group.rank == 0:
        stream = stream or sys.stderr
        stream.write(text + "\n")
        stream.flush()
