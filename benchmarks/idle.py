"""How much CPU ranks use while they wait.

    mpirun -n 4 python benchmarks idle

Prints for each rank which share of one core it uses, over 5 s each: in an idle crawl, in which the
transport waits for messages, and while it waits for rank 0 in `Group.bcast`.
"""

import asyncio
import time

from harness import Timer

from crawler import mpi
from crawler.ports import Group

SECONDS = 5.0


def run() -> int:
    return mpi.run(measure)


async def measure(group: Group) -> int:
    transport = await group.connect()
    end = time.monotonic() + SECONDS
    with Timer() as crawl:
        while (left := end - time.monotonic()) > 0:
            await transport.wait(min(left, 0.5))
    await transport.close()
    with Timer() as bcast:
        if group.rank == 0:
            await asyncio.sleep(SECONDS)
        await group.bcast(None)
    for rank, shares in enumerate(await group.gather((crawl.cpu_s, bcast.cpu_s))):
        idle, waiting = (100 * cpu_s / SECONDS for cpu_s in shares)
        print(f"rank {rank}: idle crawl {idle:.2f} %, waiting for rank 0 {waiting:.2f} %")
    return 0
