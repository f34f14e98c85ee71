"""Kills at random moments: whatever dies, a resume goes on and nothing is missing at the end."""

import contextlib
import json
import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from conftest import MpiRun
from crawls import check_warc_files, demo_config, metrics_of, page_rows

from crawler import session
from crawler.demoweb import DemoWeb

Start = Callable[..., subprocess.Popen[str]]

RANKS = 3
CONCURRENCY = 3
# Of a rank: in the fetch stage, between it and the parse stage, and in there. One more is cut off.
IN_FLIGHT = 2 * CONCURRENCY + 2


@contextlib.contextmanager
def served(web: DemoWeb) -> Iterator[tuple[int, Counter[str]]]:
    """The web on a port of 127.0.0.1, and how often each URL has been asked for."""
    asked: Counter[str] = Counter()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            host = self.headers["Host"].partition(":")[0]
            asked[f"http://{host}{self.path}"] += 1
            status, headers, body = web.respond(host, self.path)
            self.send_response(status)
            for name, value in (*headers, ("Content-Length", str(len(body)))):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Counted above."""

        def handle(self) -> None:
            with contextlib.suppress(ConnectionError):  # clients are killed here
                super().handle()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=[0.02], daemon=True).start()
    try:
        yield server.server_address[1], asked
    finally:
        server.shutdown()
        server.server_close()


def pids(directory: Path) -> list[int]:
    """Of the ranks of the latest run, those that have begun."""
    found = []
    for file in sorted(directory.glob("rank-*/agent.log")):
        lines = [json.loads(line) for line in file.read_text().splitlines() if line.endswith("}")]
        found += [line["pid"] for line in lines if line["event"] == "started"][-1:]
    return found


def tear(directory: Path, dice: random.Random) -> None:
    """What a kill in the middle of a write leaves, which happens too rarely by itself."""
    folder = dice.choice(list(directory.glob("rank-*")))
    log = max(folder.glob("log/*.log"))
    os.truncate(log, max(12, log.stat().st_size - dice.randrange(100)))
    with contextlib.suppress(ValueError):
        warc = max(folder.glob("*.warc.gz"))
        with warc.open("r+b") as file:
            begun = file.read(dice.randrange(1, 200))
            file.seek(0, os.SEEK_END)
            file.write(begun)


def crawl_with_kills(
    tmp_path: Path, start_mpirun: Start, mpirun: MpiRun, seed: int, kills: int
) -> None:
    dice = random.Random(seed)
    web = DemoWeb.generate(seed, 300, 12)
    directory = tmp_path / f"session-{seed}"
    with served(web) as (port, asked):
        config = demo_config(tmp_path / "c.toml", web, port)
        words = ["-m", "crawler", "crawl", str(config), "--session", str(directory), "--resume"]
        words += ["--set", f"fetch.concurrency={CONCURRENCY}", "--set", "politeness.delay_s=0.05"]
        killed = 0
        while killed < kills:
            runs = len(session.load(directory).runs) if session.exists(directory) else 0
            with start_mpirun(RANKS, *words) as crawl:
                while not (
                    session.exists(directory)
                    and len(session.load(directory).runs) > runs
                    and len(session.log_files(directory)) >= RANKS * (runs + 1)
                ):
                    assert crawl.poll() is None, crawl.communicate()
                    time.sleep(0.01)
                time.sleep(dice.random() * 1.5 / kills)
                victim = dice.choice([crawl.pid, *pids(directory)])
                with contextlib.suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
                crawl.communicate(timeout=60)
            killed += 1
            wait_for_death(directory)
            if dice.random() < 0.5:
                tear(directory, dice)
            if session.load(directory).last.complete:
                break  # it was too late
        done = mpirun(RANKS, *words)
        assert done.returncode == 0, done.stderr
    rows = page_rows(directory)
    fetched = [row["url"] for row in rows if row["status"] is not None]
    assert sorted(fetched) == sorted(web.requests), seed  # once each in the log
    assert {row["url"] for row in rows if row["status"] == 200} == web.reachable
    assert metrics_of(directory)["complete"]
    pages = {url: times for url, times in asked.items() if not url.endswith("/robots.txt")}
    assert set(pages) == set(web.requests)
    assert sum(pages.values()) - len(pages) <= killed * RANKS * IN_FLIGHT
    check_warc_files(directory)


def wait_for_death(directory: Path) -> None:
    """Ranks may outlive their mpirun, for a moment."""
    deadline = time.monotonic() + 30
    while any(map(session.is_open, session.log_files(directory))):
        assert time.monotonic() < deadline, "orphans"
        time.sleep(0.02)


def test_kills(tmp_path: Path, start_mpirun: Start, mpirun: MpiRun) -> None:
    crawl_with_kills(tmp_path, start_mpirun, mpirun, seed=1, kills=3)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("seed", range(2, 12))
def test_more_kills(tmp_path: Path, start_mpirun: Start, mpirun: MpiRun, seed: int) -> None:
    crawl_with_kills(tmp_path, start_mpirun, mpirun, seed, kills=6)
