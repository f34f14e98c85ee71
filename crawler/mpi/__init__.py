"""MPI: messages between ranks, and how ranks start, meet and end.

All MPI calls are made from the event loop's thread. No call blocks while a crawl runs, because a
blocked call busy-waits in every MPI library and stops the loop.

Importing this package initialises MPI. `python -m crawler` imports it only for the commands that
run on several ranks. The rest of the crawler knows MPI only by the protocols `ports.Group` and
`ports.Transport`.

A rank may die. Most MPI libraries then end all other ranks. A library with user-level failure
mitigation (ULFM; Bland et al., International Journal of High Performance Computing Applications
27, 2013) tells the other ranks instead, if `library.OUTLIVES` is true. Then:

1. The operation that a rank waits for raises LostRankError.
2. This rank abandons its transport, which tells all other ranks.
3. All remaining ranks meet in `Group.all_done`, which gives all of them the same answer.
4. If the answer is no, they call `Group.survive`, and go on as a smaller group.

If the crawl can do without the lost rank, each rank calls `MpiTransport.forgo` instead of step 2.
Then the crawl goes on, and the ranks call `Group.survive` only at its end.
"""

from crawler.mpi.group import MpiGroup
from crawler.mpi.process import run
from crawler.mpi.transport import MpiTransport

__all__ = ["MpiGroup", "MpiTransport", "run"]
