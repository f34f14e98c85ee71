"""What all tests share: how programs are started on several ranks."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest

# No test asserts a time: machines are shared.
hypothesis.settings.register_profile("shared machines", deadline=None)
hypothesis.settings.load_profile("shared machines")

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


@pytest.fixture(scope="session")
def mpirun() -> MpiRun:
    """`mpirun(4, "-m", "crawler", ...)`: this Python on 4 ranks, with captured output."""
    # The one beside this Python first: mpirun and the library must be of the same MPI.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    program = shutil.which("mpirun", path=path)
    assert program, "no mpirun: pip install '.[mpich]'"
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(_LAUNCHERS)}

    def run(
        ranks: int, *arguments: str, timeout: float = 100, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, "-n", str(ranks), sys.executable, *arguments],
            env=inherited | _OPEN_MPI | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run
