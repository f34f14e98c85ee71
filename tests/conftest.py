"""What all tests share: how programs are started on several ranks."""

import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

from crawler.core import core
from crawler.reading.parse import elements

# No test asserts a time: machines are shared.
hypothesis.settings.register_profile("shared machines", deadline=None)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=1000)
hypothesis.settings.load_profile("shared machines")

# Containers often set this variable. Then each of the hundreds of ranks that the tests start would
# compile all modules again, which takes longer than the rest of its start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Each context for TLS reads the certificates of the system, and each rank makes three. The tests
# ask only servers of their own.
os.environ["SSL_CERT_FILE"] = os.devnull

# How long a test waits for a process or a state. Only a bug takes longer, also where many processes
# share the machine. pytest's own limit is twice as long.
PATIENCE_S = 300

MpiRun = Callable[..., subprocess.CompletedProcess[str]]

# What launchers leave in the environment: an inner mpirun would think itself part of the outer.
_LAUNCHERS = ("HYDRA", "MPI_", "OMPI", "OPAL", "ORTE", "PALS", "PMI", "PRTE", "PYTEST", "SLURM")

# Open MPI (5, and 4 for the third) doesn't run as root, nor more ranks than cores, unless told to.
_OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """tests/mpi/ runs under mpirun only; test_mpirun.py starts it there."""
    outside = not config.getoption("--with-mpi")
    return True if outside and collection_path == Path(__file__).parent / "mpi" else None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Compiled code calls its functions directly, so a test can't replace them there."""
    if item.get_closest_marker("interpreted") and core.__file__.endswith(".so"):
        pytest.skip("the modules are compiled")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With ABC_MAY_SKIP, a regular expression: a skipped test fails if its reason doesn't match. So
    nothing that CI is to run is skipped there without a word."""
    report = yield
    allowed = os.environ.get("ABC_MAY_SKIP")
    if allowed is not None and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not allowed or not re.search(allowed, reason):
            report.outcome = "failed"
            report.longrepr = f"{reason}; ABC_MAY_SKIP doesn't allow that"
    return report


@pytest.fixture(autouse=True)
def loggers_as_before() -> Iterator[None]:
    """What the log of a rank changes, if a test runs an agent in its own process."""
    loggers = [logging.getLogger(name) for name in ("crawler", "asyncio")]
    before = [(one.level, one.propagate) for one in loggers]
    yield
    for one, (level, propagate) in zip(loggers, before, strict=True):
        one.setLevel(level)
        one.propagate = propagate


@pytest.fixture(scope="module", params=["compiled scanner", "regular expressions"])
def html_reader(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each of the two readers of HTML in turn; tests/test_scanner.py says when one may lack."""
    if request.param != elements.READER == "regular expressions":
        pytest.skip("the scanner isn't compiled")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "regular expressions":
            patch.setattr(elements, "Scanner", None)
        yield request.param


def launching() -> dict[str, str]:
    """The environment for an mpirun of this Python's MPI, or for a scheduler's commands."""
    # The one beside this Python first: mpirun and the library must be of the same MPI.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(_LAUNCHERS)}
    return inherited | _OPEN_MPI | {"PATH": path}


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """`install("filters", "mine", "def mine(url): ...")` installs a plug-in for this test."""
    from plugged import installer  # not while the tests in mpi/ are collected

    return installer(tmp_path / "site-packages", monkeypatch)


@pytest.fixture(scope="session")
def start_mpirun() -> Callable[..., "subprocess.Popen[str]"]:
    """`start_mpirun(4, "-m", "crawler", ...)`: as `mpirun`, without waiting for the end."""
    inherited = launching()
    program = shutil.which("mpirun", path=inherited["PATH"])
    assert program, "no mpirun: pip install '.[mpich]'"

    def start(ranks: int, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [program, "-n", str(ranks), sys.executable, *arguments],
            env=inherited | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


@pytest.fixture(scope="session")
def mpirun(start_mpirun: Callable[..., "subprocess.Popen[str]"]) -> MpiRun:
    """`mpirun(4, "-m", "crawler", ...)`: this Python on 4 ranks, with captured output. What it
    crawled is verified.

    The ranks are forks of a process that has imported the crawler (forks.py), unless they get an
    environment of their own or run pytest. Those of `start_mpirun` are whole processes: tests may
    kill them."""
    from crawls import forked, verify_crawl  # not while the tests in mpi/ are collected

    def run(
        ranks: int, *arguments: str, timeout: float = PATIENCE_S, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        plain = environment or arguments[:2] == ("-m", "pytest")
        words = arguments if plain else (*forked(), *arguments)
        with start_mpirun(ranks, *words, **environment) as process:
            try:
                output, errors = process.communicate(timeout=timeout)
            finally:
                process.kill()
        verify_crawl(arguments, process.returncode)
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    return run


def pytest_make_parametrize_id(val: object) -> str | None:
    """What is compressed has the time in it, so workers that collect in different seconds would
    give the same test different names. (Equal names get numbers.)"""
    return "bytes" if isinstance(val, bytes) and not val.isascii() else None
