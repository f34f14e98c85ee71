"""The MPI library: loads it, and tells what it says of dead ranks. The only import of mpi4py.

Importing this module initialises MPI.
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
        f"MPI: {str(_error).splitlines()[0]}; install one beside this Python"
        " (pip install '.[mpich]') or load the cluster's MPI module"
    ) from None

__all__ = ["MPI", "OUTLIVES", "LossTold", "is_loss", "loss_told", "wreckage"]

_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")  # number of ranks, by the mpirun of MPICH, Open MPI

if MPI.COMM_WORLD.size == 1 and any(os.environ.get(size, "1") != "1" for size in _SIZES):
    # Each process would crawl everything.
    raise UserError(
        "MPI: mpirun started several processes, but each finds itself alone; use the mpirun of"
        f" this Python's MPI library, {MPI.get_vendor()[0]}"
    )

# Whether the other ranks go on when a rank dies. Open MPI 5 sets the variable under
# `mpirun --with-ft ulfm`.
OUTLIVES: Final = (
    MPI.get_vendor()[0] == "Open MPI" and os.environ.get("OMPI_MCA_mpi_ft_enable") == "1"  # noqa: SIM112  its name
)
_LOSSES = (MPI.ERR_PROC_FAILED, MPI.ERR_PROC_FAILED_PENDING, MPI.ERR_REVOKED)

# Requests and communicators that the loss of a rank broke off. They are never freed, because MPI
# may still look at their buffers.
wreckage: Final[list[object]] = []


def is_loss(error: MPI.Exception) -> bool:
    """Whether an error of MPI says that a rank has died, and the others are to go on."""
    return OUTLIVES and error.Get_error_class() in _LOSSES


class LossTold:
    """A context that raises LostRankError for an error of MPI that is about a dead rank.

    First it revokes the given communicators, so that no other rank waits there for ever.
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


loss_told: Final = LossTold()
