"""MPI: messages between ranks, and how ranks start, meet and end.

All MPI calls are made from the event loop's thread, and none of them blocks while a crawl runs: a
blocked call busy-waits in every MPI library, and stops the loop. Importing this package initialises
MPI. `python -m crawler` does so only for the commands that run on several ranks; the rest of the
crawler knows MPI only by the protocols `ports.Group` and `ports.Transport`.

A rank may die. Most MPIs end all others then. An MPI with user-level failure mitigation (ULFM;
Bland et al., International Journal of High Performance Computing Applications 27, 2013) tells them
instead, if it is asked to (`library.OUTLIVES`): what they wait for raises LostRankError. A rank
that hears of the loss abandons its transport, and so lets all others know. All who are left meet in
`Group.all_done`, which has one answer for all. If that is no, they go on as fewer by
`Group.survive`.
"""

from crawler.mpi.group import MpiGroup
from crawler.mpi.process import run
from crawler.mpi.transport import MpiTransport

__all__ = ["MpiGroup", "MpiTransport", "run"]
