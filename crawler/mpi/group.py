"""What all ranks do together: they meet, exchange values, and end.

A rank that waits for the others uses at most one percent of a processor core, even if another rank
keeps it waiting for minutes.
"""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, NoReturn, TypeVar

from crawler import ports
from crawler.mpi.binding import MPI, OUTLIVES, abandoned, is_loss, loss_translated
from crawler.mpi.transport import MpiTransport
from crawler.ports import LostRankError

T = TypeVar("T")

_BCAST, _GATHER, _ALL, _NOTHING = range(4)  # tags
_SHORTEST_S, _LONGEST_S = 0.001, 0.02  # pause between two tests of an operation
_SHORT_WAIT_S = 0.01  # after such a wait, operations are tested without a pause ...
_BUSY_S = 0.003  # ... for so long
_MESSAGE_DELIVERY_S = 0.3  # time for the launcher to pass on the message of an aborting rank


class MpiGroup:
    """The ranks that mpirun has started, without the ranks that were lost since then.

    Implements `ports.Group`. Values are pickled.
    """

    def __init__(self) -> None:
        self._world: MPI.Intracomm = MPI.COMM_WORLD
        self.rank: int = self._world.rank
        self.size: int = self._world.size
        self._is_broken = False  # whether the ranks have agreed that they must begin again
        self._last_wait_s = 0.0

    @property
    def lost_ranks(self) -> bool:
        """Whether ranks were lost and the others have gone on without them."""
        return bool(self._world != MPI.COMM_WORLD)

    async def meet(self) -> None:
        """Wait until all ranks have come here."""
        with loss_translated:
            await self._until(self._world.Ibarrier().Test)

    async def connect(self) -> MpiTransport:
        """Return a transport between all ranks."""
        await self.meet()  # so that the constructor blocks only shortly
        with loss_translated:
            return MpiTransport(self._world)

    async def bcast(self, value: T) -> T:
        """Return the value of rank 0, on every rank."""
        if self.rank != 0:
            value = await self._receive(0, _BCAST)
            return value
        await self._wait_for([self._give(value, rank, _BCAST) for rank in range(1, self.size)])
        return value

    async def gather(self, value: T) -> list[T]:
        """Return the values of all ranks on rank 0, and an empty list elsewhere."""
        if self.rank == 0:
            return [value] + [await self._receive(rank, _GATHER) for rank in range(1, self.size)]
        await self._wait_for([self._give(value, 0, _GATHER)])
        return []

    async def alltoall(self, values: Sequence[T]) -> list[T]:
        """Give each rank the value at its index. Returns what each rank gave this one."""
        others = [rank for rank in range(self.size) if rank != self.rank]
        given = [self._give(values[rank], rank, _ALL) for rank in others]
        try:
            received = [
                values[rank] if rank == self.rank else await self._receive(rank, _ALL)
                for rank in range(self.size)
            ]
        except LostRankError:
            abandoned.append(given)
            raise
        await self._wait_for(given)
        return received

    async def all_done(self, done: bool, lost: Collection[int] = ()) -> bool:
        """See ports.Group. With an MPI that outlives ranks, blocks the loop until all have come."""
        if not OUTLIVES:  # a lost rank would have ended all: there is nothing to agree on
            return done
        if self._is_broken:
            return False
        if not done:
            self._world.Revoke()
        elif lost:
            self._world.Ack_failed()
        try:
            self._is_broken = not self._world.Agree(done)
        except MPI.Exception as error:  # the loss of a rank raises on all ranks
            if not is_loss(error):
                raise
            self._is_broken = True
        return not self._is_broken

    async def survive(self) -> None:
        """See ports.Group. Blocks the event loop until all ranks have come."""
        abandoned.append(self._world)
        self._world = MPI.Intracomm(self._world.Shrink())
        self.rank, self.size = self._world.rank, self._world.size
        self._is_broken = False

    def abort(self, code: int, message: str) -> NoReturn:
        """See ports.Group.

        This process ends even if MPI_Abort returns or fails, or the write to standard error fails.
        """
        try:
            for stream, text in ((sys.stdout, ""), (sys.stderr, message)):
                with contextlib.suppress(
                    AttributeError, OSError, ValueError
                ):  # the stream is closed, or nobody reads it
                    stream.write(text)
                    stream.flush()
            # Ranks abort one after the other: mpirun may return 0 if two do so at the same time.
            time.sleep(_MESSAGE_DELIVERY_S * (1 + min(self.rank, 3)))
            MPI.COMM_WORLD.Abort(code)
        finally:
            os._exit(code)

    def _give(self, value: object, rank: int, tag: int) -> MPI.Request:
        with loss_translated:
            return self._world.isend(value, rank, tag)

    async def _wait_for(self, requests: Sequence[MPI.Request]) -> None:
        """Wait until the receivers have taken the messages of all these requests.

        Each request is tested by itself, because Testall doesn't say which error a request had.
        """
        try:
            await self._until(lambda: all(request.Test() for request in requests))
        except LostRankError:
            abandoned.append(requests)
            raise

    async def _receive(self, source: int, tag: int) -> Any:
        message = await self._until(lambda: self._world.improbe(source, tag))
        assert message is not None
        request = message.irecv()
        try:
            await self._until(request.get_status)
            with loss_translated:
                return request.wait()  # returns at once, as the request is complete
        except LostRankError:
            abandoned.append(request)
            raise

    async def _until(self, look: Callable[[], T]) -> T:
        """Call `look` at growing intervals until it returns a true value. Returns this value.

        An interval is a quarter of the time waited so far, so that a rank wakes soon after short
        waits. Ranks that take turns even more quickly, as when they refine a partition, would still
        wait for timers, which take a millisecond at least. So after a short wait, `look` is at
        first called without a pause.
        """
        started = time.monotonic()
        is_busy = self._last_wait_s < _SHORT_WAIT_S
        with loss_translated:
            while not (result := look()):
                # A request to a dead rank doesn't always raise, but a probe for any source does.
                if OUTLIVES:
                    self._world.Iprobe(MPI.ANY_SOURCE, _NOTHING)
                waited = time.monotonic() - started
                if is_busy and waited < _BUSY_S:
                    os.sched_yield()  # to a rank on the same core
                    await asyncio.sleep(0)
                else:
                    await asyncio.sleep(min(max(_SHORTEST_S, waited / 4), _LONGEST_S))
            self._last_wait_s = time.monotonic() - started
            return result


def _check(group: MpiGroup) -> ports.Group:
    return group  # lets mypy check that the class implements the protocol
