"""Runs a command on all ranks that mpirun has started, or in this process alone."""

from collections.abc import Callable, Coroutine
from typing import Any

from crawler import session
from crawler.commandline import is_launched
from crawler.ports import Group, Peers


def run(main: Callable[[Group], Coroutine[Any, Any, int]]) -> int:
    """Run `main` on all ranks that mpirun has started."""
    from crawler import mpi  # noqa: PLC0415  importing mpi starts MPI

    return mpi.run(main)


def run_together(main: Callable[[Peers], Coroutine[Any, Any, int]]) -> int:
    """Run `main` on all ranks that mpirun has started, or in this process alone without MPI."""
    if not is_launched():
        return session.alone(main(session.Alone()))

    async def with_one_code(group: Group) -> int:
        return await group.bcast(await main(group))

    return run(with_one_code)
