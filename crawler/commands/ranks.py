"""Runs a command on all ranks that mpirun has started, or in this process alone."""

import os
from collections.abc import Callable, Coroutine
from typing import Any, Final

from crawler import session
from crawler.ports import Group, Peers

_NUMBERS: Final = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")


def is_first() -> bool:
    """Whether this process is the first rank, or the only one. It need not have started MPI."""
    return all(os.environ.get(name, "0") == "0" for name in _NUMBERS)


def run(main: Callable[[Group], Coroutine[Any, Any, int]]) -> int:
    """Run `main` on all ranks that mpirun has started."""
    from crawler import mpi  # noqa: PLC0415  importing mpi starts MPI

    return mpi.run(main)


def run_together(main: Callable[[Peers], Coroutine[Any, Any, int]]) -> int:
    """Run `main` on all ranks that mpirun has started, or in this process alone without MPI."""
    if not any(name in os.environ for name in _NUMBERS):
        return session.alone(main(session.Alone()))

    async def with_one_code(group: Group) -> int:
        return await group.bcast(await main(group))

    return run(with_one_code)
