"""How much CPU ranks use while they wait.

    mpirun -n 4 python benchmarks idle

Prints for each rank the share of one core over 5 s each of an idle crawl (a transport that waits
for messages) and of waiting for rank 0 (in `Group.bcast`).
"""

import argparse
import asyncio
import time

from crawler import mpi
from crawler.ports import Group

SECONDS = 5.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No arguments: mpirun says how many ranks there are."""


def run(_: argparse.Namespace) -> int:
    return mpi.run(measure)


async def measure(group: Group) -> int:
    transport = await group.connect()
    since, end = time.process_time(), time.monotonic() + SECONDS
    while (left := end - time.monotonic()) > 0:
        await transport.wait(min(left, 0.5))
    crawl = cpu_percent(since)
    await transport.close()

    since = time.process_time()
    if group.rank == 0:
        await asyncio.sleep(SECONDS)
    await group.bcast(None)
    rows = await group.gather((crawl, cpu_percent(since)))
    for rank, (idle, waiting) in enumerate(rows):
        print(f"rank {rank}: idle crawl {idle:.2f} %, waiting for rank 0 {waiting:.2f} %")
    return 0


def cpu_percent(since: float) -> float:
    return 100 * (time.process_time() - since) / SECONDS
