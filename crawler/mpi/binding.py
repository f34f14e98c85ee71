"""Loads the MPI library, and turns its errors about dead ranks into LostRankError.

No other module imports mpi4py. Importing this module initialises MPI.
"""

import os
from typing import Final

import mpi4py

from crawler.ports import LostRankError, UserError

mpi4py.rc.thread_level = "funneled"
try:
    from mpi4py import MPI
except (ImportError, RuntimeError) as _error:
    raise UserError(
        f"MPI: {str(_error).splitlines()[0]}; install an MPI library for this Python"
        " (pip install '.[mpich]'), or load the cluster's MPI module"
    ) from None

__all__ = ["MPI", "OUTLIVES", "LossTranslator", "abandoned", "is_loss", "loss_translated"]

# The environment variables in which the mpirun of MPICH and of Open MPI put the number of ranks.
_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")

if MPI.COMM_WORLD.size == 1 and any(os.environ.get(size, "1") != "1" for size in _SIZES):
    # Without this error, each process would crawl everything.
    raise UserError(
        "MPI: mpirun started several processes, but each finds itself alone; use the mpirun of"
        f" this Python's MPI library, {MPI.get_vendor()[0]}"
    )

# Whether the other ranks can go on when a rank dies. `mpirun --with-ft ulfm` of Open MPI 5 sets
# this environment variable.
OUTLIVES: Final = (
    MPI.get_vendor()[0] == "Open MPI" and os.environ.get("OMPI_MCA_mpi_ft_enable") == "1"  # noqa: SIM112  its name
)
_LOSSES = (MPI.ERR_PROC_FAILED, MPI.ERR_PROC_FAILED_PENDING, MPI.ERR_REVOKED)

# Requests and communicators that were in use when a rank was lost. They are never freed, because
# MPI may still use their buffers.
abandoned: Final[list[object]] = []


def is_loss(error: MPI.Exception) -> bool:
    """Whether an error of MPI says that a rank has died and the others can go on."""
    return OUTLIVES and error.Get_error_class() in _LOSSES


class LossTranslator:
    """A context that turns an MPI error about a dead rank into LostRankError.

    Before raising, it revokes the given communicators, so that no other rank waits there for ever.
    """

    def __init__(self, *revoked: MPI.Comm) -> None:
        self._revoked = revoked

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, MPI.Exception) and is_loss(error):
            for comm in self._revoked:
                comm.Revoke()
            raise LostRankError from error


loss_translated: Final = LossTranslator()
