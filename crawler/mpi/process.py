"""How the process of a rank runs a program together with the others, and how it ends."""

import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

from crawler.mpi.group import MpiGroup
from crawler.mpi.library import MPI
from crawler.ports import Group, LostRankError, UserError

_KILLED = 137  # exit code: as if the MPI had ended all ranks


def run(main: Callable[[Group], Coroutine[Any, Any, int]]) -> int:
    """Run `main(group)` in an event loop on every rank; return its result when all ranks are done.

    The other ranks would wait for ever for a rank that leaves by an exception. So on several ranks
    an exception ends them all: exit code 2 for a UserError, 137 for a lost rank, 1 for any other.
    A lone rank just raises. If ranks were lost and the others went on, the process ends here.
    """
    group = MpiGroup()

    async def together() -> int:
        code = await main(group)
        with contextlib.suppress(LostRankError):  # it had nothing left to do
            await group.meet()
        return code

    try:
        code = uvloop.run(together())
    except LostRankError:
        words = "a rank is lost, and the others can't do without: resume the session\n"
        group.abort(_KILLED, words)
    except UserError as error:
        if group.size == 1:
            raise
        group.abort(2, f"error: {error}\n")
    except BaseException:  # also KeyboardInterrupt and SystemExit: none may leave the others alone
        if group.size == 1:
            raise
        where = f"rank {group.rank} on {MPI.Get_processor_name()}"
        group.abort(1, f"{where}:\n{traceback.format_exc()}")
    if group.lost_ranks:
        # Open MPI's Finalize waits for the dead now and then; without it, mpirun passes the exit
        # code on all the same.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code
