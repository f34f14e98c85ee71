"""Many nodes on one machine: network namespaces, with delay, jitter and loss between them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import launching

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"

needs_namespaces = pytest.mark.skipif(
    os.getuid() != 0 or not shutil.which("ip") or not Path("/dev/net/tun").exists(),
    reason="network namespaces are made by root, with ip (iproute2) and /dev/net/tun",
)


@needs_namespaces
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("hosts", "ranks", "loss"), [(4, 4, 0.001), (3, 6, 0.01)])
def test_the_same_pages_whatever_the_network(hosts: int, ranks: int, loss: float) -> None:
    words = ["--hosts", str(hosts), "--ranks", str(ranks), "--loss", str(loss)]
    words += ["--delays-ms", "0,20,100", "--pages", "300", "--sites", "16", "--json"]
    done = subprocess.run(
        [sys.executable, BENCHMARKS, "namespaces", *words],
        env=launching() | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    crawls = [json.loads(line) for line in done.stdout.splitlines()]
    assert [crawl["delay_ms"] for crawl in crawls] == [0, 20, 100]
    assert all(crawl["all_pages"] for crawl in crawls), crawls
    assert len({crawl["pages"] for crawl in crawls}) == 1
    assert all(crawl["mpi_messages"] > 0 for crawl in crawls)
