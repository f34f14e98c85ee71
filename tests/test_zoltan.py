"""Zoltan as an engine: with a compiler and programs of the tests' own, and for real if there."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_engines import require

from partition import UserError, engines, zoltan
from partition.child import EngineError, OneWeight
from partition.hypergraph import Hypergraph, connectivity_minus_one, imbalances

# A stand-in for the driver: it reads the task as zoltan_driver.c describes it, says on standard
# error what it got, and puts every other vertex into part 0.
DRIVER = """
import sys
import numpy as np

with open(sys.argv[1], "rb") as task:
    ranks, parts, seed = np.fromfile(task, np.int64, 3)
    tolerance = np.fromfile(task, np.float64, 1)[0]
    vertices, nets, pins = (np.fromfile(task, np.int64, ranks + 1) for _ in range(3))
    sizes, pin = np.fromfile(task, np.int32, nets[-1]), np.fromfile(task, np.int32, pins[-1])
    costs, weights = (np.fromfile(task, np.float32, n[-1]) for n in (nets, vertices))
    assert not task.read()
with open(sys.argv[0] + ".got", "w") as got:
    for value in (parts, seed, tolerance, vertices, nets, pins, sizes, pin, costs, weights):
        print(value.tolist(), file=got)
with open(sys.argv[2], "wb") as answer:
    np.array([4096], np.int64).tofile(answer)
    (np.arange(vertices[-1]) % 2).astype(np.int32).tofile(answer)
"""
TASK = OneWeight(
    xpins=np.array([0, 2, 6, 9, 12]),
    pins=np.array([0, 2, 0, 1, 3, 4, 3, 4, 6, 2, 5, 6], np.int32),
    costs=np.array([1, 2, 1, 1]),
    weights=np.arange(1, 8),
    parts=2,
    tolerance=0.25,
    seed=7,
)


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: str) -> Path:
    """A compiler that only knows this driver, and an mpirun with one rank. Returns the cache."""
    source = program(tmp_path / "driver", f"#!{sys.executable}\n{driver}")
    copy = f'echo >> {tmp_path}/compiled\nfor out; do true; done\ncp {source} "$out"\n'
    program(tmp_path / "bin" / "mpicc", f"#!/bin/sh\n{copy}")
    program(tmp_path / "bin" / "mpirun", '#!/bin/sh\nshift 2\nexec "$@"\n')
    monkeypatch.setenv("MPICC", str(tmp_path / "bin" / "mpicc"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "abc-crawler"


@pytest.fixture
def real(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    require("zoltan")


def test_the_task_reaches_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """12 pins on 2 ranks: the first two nets have 6. Compiled once, though run twice."""
    cache = install(tmp_path, monkeypatch, DRIVER)
    for _ in range(2):
        part, peak_bytes = zoltan.partition(TASK, 2)
    assert (part.tolist(), peak_bytes) == ([0, 1, 0, 1, 0, 1, 0], 4096)
    driver, got = sorted(cache.iterdir())
    assert got.name == f"{driver.name}.got"
    assert got.read_text().splitlines() == [
        *("2", "7", "0.25"),
        *("[0, 3, 7]", "[0, 2, 4]", "[0, 6, 12]"),
        *("[2, 4, 3, 3]", "[0, 2, 0, 1, 3, 4, 3, 4, 6, 2, 5, 6]", "[1.0, 2.0, 1.0, 1.0]"),
        "[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]",
    ]
    assert (tmp_path / "compiled").read_text() == "\n"


def test_our_refinement_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two chains of 20 vertices, which the stand-in cuts everywhere: 38 times."""
    install(tmp_path, monkeypatch, DRIVER)
    said: list[str] = []
    net = chains(2, 20)
    found = engines.partition(
        net, 2, engine="zoltan", tolerances=(0.05, 0.05), seed=0, progress=said.append
    )
    assert said[0] == "zoltan: cost 38"
    assert connectivity_minus_one(net, found.part) < 38 / 4
    assert max(imbalances(net, found.part, 2)) <= 0.05
    assert (found.constraints, found.peak_bytes) == (2, 4096)


@pytest.mark.parametrize(
    ("driver", "message"),
    [
        ("import sys; sys.exit('\\n----\\nno slots\\n----')", "ended with code 1: no slots"),
        ("import os; os.kill(os.getpid(), 9)", "ended with code -9: "),
        (DRIVER.replace("vertices[-1]) %", "3) %"), "answered for 3 vertices of 40"),
    ],
)
def test_a_driver_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: str, message: str
) -> None:
    install(tmp_path, monkeypatch, driver)
    with pytest.raises(EngineError, match=f"^Zoltan: {message}") as caught:
        engines.partition(chains(2, 20), 2, engine="zoltan", tolerances=(0.1, 0.1), seed=0)
    assert str(caught.value).endswith("(40 vertices, 38 nets)")


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, DRIVER)
    words = "echo 'zoltan_driver.c:20:10: fatal error: zoltan.h: No such file' >&2; exit 1"
    program(tmp_path / "bin" / "mpicc", f"#!/bin/sh\n{words}\n")
    remedy = "install it, on Debian: apt-get install libtrilinos-zoltan-dev libopenmpi-dev"
    with pytest.raises(EngineError, match=f"can't compile it: .*zoltan.h: No such file; {remedy}"):
        zoltan.partition(TASK, 2)
    (tmp_path / "bin" / "mpirun").unlink()
    with pytest.raises(EngineError, match=f"no mpirun beside {tmp_path}/bin/mpicc; {remedy}"):
        zoltan.partition(TASK, 2)
    monkeypatch.delenv("MPICC")
    # An mpicc of this environment is of another MPI than any Zoltan.
    program(tmp_path / "bin" / "mpicc", "#!/bin/sh\n")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(zoltan.sys, "prefix", str(tmp_path))
    with pytest.raises(EngineError, match=f"no mpicc, .*; {remedy}"):
        zoltan.partition(TASK, 2)


def test_what_has_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoltan, "_MOST", 6)
    with pytest.raises(UserError, match="7 vertices, 4 nets, 12 pins: its numbers end at 6, for"):
        zoltan.partition(TASK, 2)


def test_what_an_outer_launcher_set_is_kept_from_the_inner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in list(os.environ):
        if name in zoltan._RANK:
            monkeypatch.delenv(name)
    monkeypatch.setenv("OMPI_MCA_btl", "tcp")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    assert zoltan._environment()["OMPI_MCA_btl"] == "tcp"
    monkeypatch.setenv("PMI_RANK", "0")
    environment = zoltan._environment()
    assert "OMPI_MCA_btl" not in environment
    assert "PMI_RANK" not in environment
    assert environment["SLURM_JOB_NODELIST"] == "n[1-2]"


@pytest.mark.usefixtures("real")
@pytest.mark.parametrize("ranks", [1, 3])
def test_zoltan_cuts_between_the_chains(ranks: int) -> None:
    """Four chains of 20: each a part, no net is cut; by Zoltan alone, and equal seeds repeat."""
    net = chains(4, 20)
    task = engines._one_weight(net, 4, (0.05, 0.05), 1)
    one, same = (engines._zoltan(task, ranks) for _ in range(2))
    assert one.part.tolist() == same.part.tolist()
    assert imbalances(net, one.part, 4) == (0, 0)
    assert connectivity_minus_one(net, one.part) == 0
    assert one.peak_bytes > 1 << 20


@pytest.mark.usefixtures("real")
def test_zoltan_without_nets() -> None:
    nothing = np.zeros(0, np.int32)
    net = Hypergraph(np.zeros(1, int), nothing, nothing, np.ones((9, 2), int))
    found = engines.partition(net, 3, engine="zoltan", tolerances=(0.05, 0.05), seed=0)
    assert np.bincount(found.part).tolist() == [3, 3, 3]


@pytest.mark.usefixtures("real")
def test_zoltan_ends_with_its_caller(tmp_path: Path) -> None:
    """The task is a pipe that nobody writes to, so the driver waits until its lifeline closes."""
    os.mkfifo(tmp_path / "task")
    compiler = zoltan._compiler()
    driver = zoltan._driver(compiler)
    command = [compiler.with_name("mpirun"), "-n", "1", driver, tmp_path / "task", tmp_path / "out"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, env=zoltan._environment()
    ) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        assert process.stdin
        process.stdin.close()
        assert process.wait(60) != 0


def chains(number: int, size: int) -> Hypergraph:
    """Nets of two neighbours each; vertices of alike weight."""
    vertices = np.arange(number * size, dtype=np.int32)
    starts = vertices[vertices % size < size - 1]
    return Hypergraph(
        xpins=2 * np.arange(len(starts) + 1),
        pins=np.stack([starts, starts + 1], axis=1).ravel(),
        costs=np.ones(len(starts), np.int64),
        weights=np.ones((len(vertices), 2), np.int64),
    )
