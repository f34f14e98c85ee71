"""How crawls go on several hosts with slow links between them (root, Linux).

    python benchmarks namespaces --hosts 4 --ranks 8 --delays-ms 0,20,100

The hosts are network namespaces of this machine. A router in this process connects them. It
delays packets in both directions by a fixed time and a random one, and loses some. Each host serves
the same web on its loopback, so only messages between ranks pass the router. Gives a row
for each delay: what the crawl took and sent, how long after the last page its end was known, and
how long a message to a sleeping rank takes.
Needs MPICH's mpirun, `ip`, and /dev/net/tun; leaves nothing behind.
"""

import fcntl
import json
import os
import random
import select
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import Annotated, Self

import pyarrow.parquet as pq
from harness import Row, Words, read_rows, write_config

from crawler.demo.web import DemoWeb, outside_mpi

SEED, PORT = 7, 8080
NETWORK, LAUNCHER = "10.78.0", 254  # addresses inside of the namespaces; mpirun's own host
DEVICE = "wan0"
TUNSETIFF, TUN, NO_HEADER = 0x400454CA, 0x0001, 0x1000

PING = """
import asyncio, statistics, sys, time
from crawler import mpi

async def main(group):
    transport, times = await group.connect(), []
    last = transport.size - 1
    for _ in range(20):
        if transport.rank == 0:
            await asyncio.sleep(0.3)  # the other has gone to sleep
            start = time.monotonic()
            transport.send(last, b"ping")
        if transport.rank in (0, last):
            while not transport.receive():
                await transport.wait(10)
        if transport.rank == last:
            transport.send(0, b"pong")
        if transport.rank == 0:
            times.append(time.monotonic() - start)
    await transport.close()
    if transport.rank == 0:
        print(statistics.median(times))
    return 0

sys.exit(mpi.run(main))
"""


class Lan:
    """Hosts 1 to n and the launcher's, joined by a router. Packets keep their order."""

    def __init__(self, hosts: int, delay_s: float, jitter_s: float, loss: float) -> None:
        self.hosts = range(1, hosts + 1)
        self._delay_s, self._jitter_s, self._loss = delay_s, jitter_s, loss
        self._random = random.Random(SEED)
        self._devices: dict[bytes, int] = {}  # by address
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._route)
        self.packets = 0

    def __enter__(self) -> Self:
        try:
            for host in (*self.hosts, LAUNCHER):
                self._make(host)
        except BaseException:
            self._remove()
            raise
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._remove()

    @staticmethod
    def namespace(host: int | str) -> str:
        return f"abc-{os.getpid()}-{host}"

    def on(self, host: int) -> list[str]:
        """The words that run a command on a host."""
        return ["ip", "netns", "exec", self.namespace(host)]

    def _make(self, host: int) -> None:
        name, temporary = self.namespace(host), f"abc{host}"
        ip("netns", "add", name)
        device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        self._devices[bytes(map(int, f"{NETWORK}.{host}".split(".")))] = device
        fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", temporary.encode(), TUN | NO_HEADER))
        ip("link", "set", temporary, "netns", name)
        ip("-n", name, "link", "set", temporary, "name", DEVICE)
        ip("-n", name, "addr", "add", f"{NETWORK}.{host}/24", "dev", DEVICE)
        ip("-n", name, "link", "set", DEVICE, "up", "txqueuelen", "4000")
        ip("-n", name, "link", "set", "lo", "up")

    def _remove(self) -> None:
        for device in self._devices.values():
            os.close(device)
        for host in (*self.hosts, LAUNCHER):
            subprocess.run(["ip", "netns", "del", self.namespace(host)], check=False)

    def _route(self) -> None:
        waiting: list[tuple[float, int, int, bytes]] = []  # time of arrival, order, device
        latest: dict[tuple[int, int], float] = {}  # arrival of the last packet between two devices
        order, poll = count(), select.epoll()
        for device in self._devices.values():
            poll.register(device, select.EPOLLIN)
        while not self._over.is_set():
            until = waiting[0][0] - time.monotonic() if waiting else 0.1
            for source, _ in poll.poll(max(0.0, min(until, 0.1))):
                for _ in range(64):
                    try:
                        packet = os.read(source, 1 << 16)
                    except BlockingIOError:
                        break
                    self.packets += 1
                    target = self._devices.get(packet[16:20])
                    if target is None or self._random.random() < self._loss:
                        continue
                    jitter_s = self._random.expovariate(1 / self._jitter_s) if self._jitter_s else 0
                    at = time.monotonic() + self._delay_s + jitter_s
                    at = latest[source, target] = max(at, latest.get((source, target), 0.0))
                    heappush(waiting, (at, next(order), target, packet))
            while waiting and waiting[0][0] <= time.monotonic():
                _, _, target, packet = heappop(waiting)
                try:
                    os.write(target, packet)
                except BlockingIOError:
                    continue  # a full queue loses packets, as in a router


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@contextmanager
def web_servers(lan: Lan, pages: int, sites: int) -> Iterator[DemoWeb]:
    """Serve the same web on the loopback of each host."""
    shape = ["--seed", str(SEED), "--pages", str(pages), "--sites", str(sites)]
    shape += ["--port", str(PORT)]
    with ExitStack() as stack:
        servers = [
            stack.enter_context(
                subprocess.Popen(
                    [*lan.on(host), sys.executable, "-m", "crawler.demo.web", *shape],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env=outside_mpi(),
                )
            )
            for host in lan.hosts
        ]
        for server in servers:
            assert server.stdout
            assert server.stdout.readline(), "a server didn't start"
        yield DemoWeb.generate(SEED, pages, sites)
        for server in servers:
            assert server.stdin
            server.stdin.close()


def mpirun(lan: Lan, ranks: int, folder: Path, *words: str) -> str:
    """Run Python on all hosts. Returns its standard output."""
    launch = folder / "launch"  # stands for ssh: [options] host command
    launch.write_text(
        '#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nhost=$1; shift\n'
        f'exec ip netns exec {lan.namespace("")}"${{host##*.}}" sh -c "$*"\n'
    )
    launch.chmod(0o755)
    hosts = ",".join(f"{NETWORK}.{host}" for host in lan.hosts)
    done = subprocess.run(
        [
            *lan.on(LAUNCHER),
            *("mpirun", "-launcher", "ssh", "-launcher-exec", str(launch)),
            *("-localhost", f"{NETWORK}.{LAUNCHER}", "-hosts", hosts, "-n", str(ranks)),
            *(sys.executable, *words),
        ],
        env=outside_mpi() | {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": DEVICE},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"exit code {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def measure(lan: Lan, ranks: int, pages: int, sites: int, politeness_s: float) -> Row:
    with tempfile.TemporaryDirectory() as name, web_servers(lan, pages, sites) as web:
        folder = Path(name)
        round_trip_s = float(mpirun(lan, ranks, folder, "-c", PING))
        write_config(
            folder / "c.toml",
            {
                "session": {"directory": str(folder / "session"), "seeds": web.seeds},
                "scope": {"hosts": web.hosts},
                "politeness": {"delay_s": politeness_s},
                "dns": {"hosts": dict.fromkeys(web.hosts, f"127.0.0.1:{PORT}")},
                "fetch": {"allow_private_addresses": True},
            },
        )
        metrics = json.loads(
            mpirun(lan, ranks, folder, "-m", "crawler", "crawl", "c.toml", "--json")
        )
        rows = pq.read_table(folder / "session" / "tables" / "pages").to_pylist()
        last_row = max(path.stat().st_mtime for path in folder.glob("session/rank-*/log/*.log"))
        logs = [row for log in folder.glob("session/rank-*/agent.log") for row in read_rows(log)]
    fetched = [row["url"] for row in rows if row["status"] == 200]
    known = min(
        datetime.fromisoformat(row["time"]).timestamp() for row in logs if row["event"] == "over"
    )
    return {
        "pages": len(fetched),
        "all_pages": sorted(fetched) == sorted(web.reachable),  # and no other
        **{name: metrics[name] for name in ("seconds", "mpi_messages", "mpi_bytes")},
        # From the last row of any rank until the first rank knows the end.
        "detection_ms": 1000 * (known - last_row),
        # Of a small message with its answer, between ranks that sleep.
        "round_trip_ms": 1000 * round_trip_s,
        "packets": lan.packets,
    }


def run(
    *,
    hosts: int = 4,
    ranks: int = 4,
    delays_ms: Annotated[Words, "one way"] = ("0", "20", "100"),
    jitter: Annotated[float, "mean, as a share of the delay"] = 0.2,
    loss: Annotated[float, "share of packets"] = 0.001,
    pages: int = 1000,
    sites: int = 40,
    politeness_s: float = 0.0,
) -> Iterator[Row]:
    for delay_ms in map(float, delays_ms):
        delay_s = delay_ms / 1000
        with Lan(hosts, delay_s, delay_s * jitter, loss) as lan:
            yield {"delay_ms": delay_ms} | measure(lan, ranks, pages, sites, politeness_s)
