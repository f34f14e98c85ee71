"""Programs on several ranks, started by mpirun: the tests in mpi/, and how a run ends."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import MpiRun

ENDING = """
import asyncio, sys
from crawler import mpi
from crawler.ports import UserError

async def main(group):
    if group.rank == 1:
        {rank_1}
    await asyncio.sleep({others_s})
    return 75

sys.exit(mpi.run(main))
"""


@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.slow), 4])
def test_on_several_ranks(mpirun: MpiRun, ranks: int) -> None:
    tests = Path(__file__).parent / "mpi"
    options = ["--with-mpi", "--capture=no", "-p", "no:cacheprovider", "-n", "0"]
    # In the event loop a signal would go unheard; the thread says where a rank hangs, and ends it.
    options += ["--timeout=250", "--timeout-method=thread"]
    done = mpirun(ranks, "-m", "pytest", *options, str(tests))
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-8000:]
    assert " passed" in done.stdout


@pytest.mark.parametrize(
    ("rank_1", "others_s", "code", "said"),
    [
        ("raise RuntimeError('lost')", 1000, 1, "RuntimeError: lost"),
        ("raise UserError('disk: full')", 1000, 2, "error: disk: full"),
        ("sys.exit(3)", 1000, 1, "SystemExit: 3"),
        ("await asyncio.sleep(0.05)", 0, 75, ""),
    ],
)
def test_exit(mpirun: MpiRun, rank_1: str, others_s: int, code: int, said: str) -> None:
    done = mpirun(4, "-c", ENDING.format(rank_1=rank_1, others_s=others_s))
    assert done.returncode == code, done.stderr
    assert said in done.stderr


ABORTING = """
import sys
from types import SimpleNamespace
from crawler import mpi
from crawler.mpi import group, process
from crawler.ports import LostRankError, UserError

def abort(code):
    {does}

world = SimpleNamespace(Abort=abort, rank=0, size=2)
group.MPI = process.MPI = SimpleNamespace(COMM_WORLD=world, Get_processor_name=lambda: "host")

async def main(group):
    {before}
    raise {error}

sys.exit(mpi.run(main))
"""


@pytest.mark.parametrize("does", ["pass", "raise RuntimeError('MPI is gone')", "sys.exit(0)"])
@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        ("ValueError('the true error')", 1, "ValueError: the true error"),
        ("UserError('disk: full')", 2, "error: disk: full"),
        ("LostRankError", 137, "a rank was lost"),
    ],
)
def test_an_abort_that_returns_or_fails_hides_no_error(
    does: str, error: str, code: int, said: str
) -> None:
    for before in ("pass", "sys.stdout.close()", "sys.stdout = None"):
        done = subprocess.run(
            [sys.executable, "-c", ABORTING.format(does=does, error=error, before=before)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert said in done.stderr
        assert "UnboundLocalError" not in done.stderr


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("MPI4PY_LIBMPI", "/nowhere/libmpi.so", "cannot load MPI library; install an MPI library"),
        ("PMI_SIZE", "2", "mpirun started several processes, but each finds itself alone"),
        ("OMPI_COMM_WORLD_SIZE", "2", "mpirun started several processes, but each finds itself"),
    ],
)
def test_the_wrong_mpi_is_the_user_s_mistake(variable: str, value: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import crawler.mpi"],
        env=os.environ | {variable: value},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.splitlines()[-1].startswith(f"crawler.ports.errors.UserError: MPI: {said}")
