"""Runs a program on all ranks together, and ends the process of each rank."""

import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

from crawler.mpi.binding import MPI
from crawler.mpi.group import MpiGroup
from crawler.ports import Group, LostRankError, UserError

_KILLED = 137  # the exit code of a process that MPI has killed


def run(main: Callable[[Group], Coroutine[Any, Any, int]]) -> int:
    """Run `main(group)` in an event loop on every rank. Returns its result when all are done.

    If one of several ranks raises an exception, all ranks end, because the others would wait for
    this rank for ever. The exit code is 2 for a UserError, 137 for a lost rank, and 1 for any other
    exception. If there is only one rank, the exception is raised as usual.

    If ranks were lost and the others have gone on, this function doesn't return. It ends the
    process with the result as exit code.
    """
    group = MpiGroup()

    async def together() -> int:
        code = await main(group)
        with contextlib.suppress(LostRankError):  # the lost rank had finished its work
            await group.meet()
        return code

    try:
        code = uvloop.run(together())
    except LostRankError:
        words = "a rank was lost, and the others can't go on without it: resume the session\n"
        group.abort(_KILLED, words)
    except UserError as error:
        if group.size == 1:
            raise
        group.abort(2, f"error: {error}\n")
    except BaseException:  # including KeyboardInterrupt and SystemExit: the others must end, too
        if group.size == 1:
            raise
        where = f"rank {group.rank} on {MPI.Get_processor_name()}"
        group.abort(1, f"{where}:\n{traceback.format_exc()}")
    if group.lost_ranks:
        # Open MPI's Finalize sometimes waits for dead ranks. mpirun passes the exit code on without
        # Finalize, too.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code
