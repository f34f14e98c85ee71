"""Runs Zoltan's hypergraph partitioner (PHG) on ranks of its own, on one machine or several.

Zoltan is a C library. `zoltan_driver.c` is a program that calls it. It is compiled when it is first
needed, and runs under the mpirun of the same compiler, independently of the MPI of this program.
Zoltan balances one weight.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt

from partition import UserError
from partition.child import EngineError, OneWeight

Array = npt.NDArray[Any]

_SOURCE: Final = Path(__file__).with_name("zoltan_driver.c")
_FLAGS: Final = ("-O2", "-pthread", "-I/usr/include/trilinos")
_LIBRARIES: Final = ("trilinos_zoltan", "zoltan")  # the name in Debian, and the original name
_INSTALL: Final = "install it, on Debian: apt-get install libtrilinos-zoltan-dev libopenmpi-dev"

_MOST: Final = (1 << 31) - 1  # because Zoltan's ids and its counts on a rank have 4 bytes

# Variables that launchers set for their ranks. With them, an mpirun inside a rank would take itself
# for a rank. The variables of a batch system stay, because mpirun finds its machines by them.
_RANK: Final = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")
_LAUNCHERS: Final = (
    *("HYDRA", "MPI_", "OMPI_", "OPAL_", "ORTE_", "PALS_", "PMI", "PRTE_"),
    *("SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP"),
)
# Without these, Open MPI refuses to run as root, or more ranks than cores.
_OPEN_MPI: Final = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


def partition(task: OneWeight, ranks: int) -> tuple[Array, int]:
    """Return the part of each vertex, and the peak memory of all ranks together in bytes.

    Raises UserError for a hypergraph that is too large for Zoltan's numbers, and EngineError if
    Zoltan is missing or fails.
    """
    bounds = _slices(task, ranks)
    largest = max(len(task.weights), len(task.costs), int(np.diff(bounds[2]).max()))
    if largest > _MOST:
        raise UserError(
            f"engine zoltan: {len(task.weights):,} vertices, {len(task.costs):,} nets,"
            f" {len(task.pins):,} pins: its numbers end at {_MOST:,}, for pins on each rank"
        )
    compiler = _compiler()
    driver = _driver(compiler)
    with tempfile.TemporaryDirectory(prefix="abc-zoltan-") as name:
        question, answer = Path(name, "task"), Path(name, "answer")
        with question.open("wb") as file:
            _write(task, bounds, file)
        _run([compiler.with_name("mpirun"), "-n", ranks, driver, question, answer])
        with answer.open("rb") as file:
            peak_bytes = int(np.fromfile(file, np.int64, 1)[0])
            part = np.fromfile(file, np.int32)
    if len(part) != len(task.weights):
        raise EngineError(f"answered for {len(part)} vertices of {len(task.weights)}")
    return part, peak_bytes


def _slices(task: OneWeight, ranks: int) -> tuple[Array, Array, Array]:
    """Return the first vertex, net and pin of each rank, and the end of the last rank.

    The ranks get equal numbers of vertices, and nets with about equal numbers of pins.
    """
    steps = np.arange(ranks + 1)
    nets = np.searchsorted(task.xpins, len(task.pins) * steps // ranks)
    nets[-1] = len(task.costs)
    return len(task.weights) * steps // ranks, nets, task.xpins[nets]


def _write(task: OneWeight, bounds: tuple[Array, Array, Array], file: IO[bytes]) -> None:
    """Write the task in the form that zoltan_driver.c describes."""
    np.array([len(bounds[0]) - 1, task.parts, task.seed], np.int64).tofile(file)
    np.array([task.tolerance], np.float64).tofile(file)
    for starts in bounds:
        starts.astype(np.int64).tofile(file)
    np.diff(task.xpins).astype(np.int32).tofile(file)
    task.pins.astype(np.int32).tofile(file)
    task.costs.astype(np.float32).tofile(file)
    task.weights.astype(np.float32).tofile(file)


def _compiler() -> Path:
    """Return MPICC, or the first mpicc that isn't in this virtual environment.

    An mpicc in the environment belongs to an MPI from PyPI, for which no Zoltan is compiled.
    """
    wanted = os.environ.get("MPICC", "mpicc")
    own = Path(sys.prefix, "bin") if sys.prefix != sys.base_prefix else None
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    path = os.pathsep.join(folder for folder in folders if Path(folder) != own)
    found = shutil.which(wanted, path=path)
    if found is None:
        raise EngineError(f"no {wanted}, which compiles it for this MPI; {_INSTALL}")
    if not Path(found).with_name("mpirun").exists():
        raise EngineError(f"no mpirun beside {found}; {_INSTALL}")
    return Path(found)


def _driver(compiler: Path) -> Path:
    """Return the compiled driver, from the cache if it has been compiled before."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "abc-crawler")
    command = [str(compiler), *_FLAGS, str(_SOURCE)]
    digest = hashlib.sha256("\0".join([*command, _SOURCE.read_text()]).encode()).hexdigest()
    driver = cache / f"zoltan-{digest[:16]}"
    if driver.exists():
        return driver
    cache.mkdir(parents=True, exist_ok=True)
    errors = []
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        fresh = Path(folder, "driver")
        for library in _LIBRARIES:
            compiled = subprocess.run(  # noqa: S603 - the user's compiler
                [*command, f"-l{library}", "-o", fresh],
                env=os.environ | {"LC_ALL": "C"},
                capture_output=True,
                text=True,
                check=False,
            )
            if compiled.returncode == 0:
                fresh.replace(driver)  # in one step, because other processes may do the same
                return driver
            lines = compiled.stderr.splitlines()
            errors += [line.strip() for line in lines if "error" in line or "cannot" in line]
    words = errors[0] if errors else compiled.stderr.strip().rpartition("\n")[2]
    raise EngineError(f"{compiler} can't compile it: {words}; {_INSTALL}")


def _run(command: list[object]) -> None:
    """Run the driver to its end. It outlives neither this call nor this process.

    Raises EngineError with the first line that it wrote to standard error.
    """
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(  # noqa: S603 - a command of ours
            list(map(str, command)),
            env=_environment(),
            stdin=subprocess.PIPE,  # left open: the driver ends when it closes
            stdout=subprocess.DEVNULL,
            stderr=errors,
        ) as process,
    ):
        try:
            code = process.wait()
        finally:
            process.terminate()  # mpirun passes it on
        if code:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").splitlines()
            words = next((line.strip() for line in lines if line.strip(" -\t")), "")
            raise EngineError(f"ended with code {code}: {words}")


def _environment() -> dict[str, str]:
    inside = any(name in os.environ for name in _RANK)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not (inside and name.startswith(_LAUNCHERS))
    }
    return _OPEN_MPI | kept
