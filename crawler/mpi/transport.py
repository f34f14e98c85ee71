"""Messages between ranks during a crawl.

How a message travels: `send` queues it behind the window of its destination. From there it goes by
Issend, whose request completes only when the receiver has taken the message. So the window bounds
what a receiver has to hold; Isend with its buffers would not. The receiver finds the message by
Improbe. To spare an idle rank from looking all the time, the sender rings at its doorbell. A lost
ring costs at most `_IDLE_POLL_S` of latency.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from ipaddress import IPv4Interface
from typing import NamedTuple

from crawler import ports
from crawler.mpi.doorbell import LOOPBACK, Doorbell, meeting_address, networks
from crawler.mpi.library import MPI, LossTold, loss_told, wreckage
from crawler.ports import LostRankError

_MESSAGE = 0  # tag

_WINDOW = 4  # messages in flight to one rank
_CELLS = 64  # MPICH's shared memory starves when more than this many messages wait for one rank
_QUICK_LOOKS = 3  # without a pause, once something moves: a message takes MPI a few calls
_BURST = 32  # messages taken in one go, between two turns of the event loop

# Seconds between two looks. They double from the shortest; under half a millisecond uvloop spins.
_SHORTEST_S = 0.001
_BUSY_POLL_S = 0.008  # longest while requests are in flight: MPI moves them only when called
_IDLE_POLL_S = 0.1  # longest otherwise: the bell wakes us


@dataclass(slots=True)
class _Peer:
    """The traffic with one rank. A buffer stays with its request until that has completed."""

    remote: bool
    bell: tuple[str, int]
    window: int
    queue: deque[bytes] = field(default_factory=deque)
    leaving: deque[tuple[MPI.Request, bytes]] = field(default_factory=deque)
    arriving: deque[tuple[MPI.Request, bytearray]] = field(default_factory=deque)
    backlog: int = 0  # bytes in `queue` and `leaving`


class _Card(NamedTuple):
    """What a rank tells the others about where it is."""

    host: int  # the lowest rank there
    networks: list[IPv4Interface]
    port: int  # of its doorbell


def _make_peer(mine: _Card, its: _Card, neighbours: int) -> _Peer:
    """The traffic with a rank. `neighbours` is the number of ranks on this host."""
    if its.host != mine.host:
        return _Peer(True, (meeting_address(mine.networks, its.networks), its.port), _WINDOW)
    return _Peer(False, (LOOPBACK, its.port), max(1, min(_WINDOW, _CELLS // neighbours)))


class MpiTransport:
    """`ports.Transport` over a communicator of its own. From one rank to another, order is kept.

    Made in a running event loop by all ranks of `comm` at a time, best by `MpiGroup.connect`; it
    blocks until they are all there. One task at a time may wait. A lost rank raises LostRankError;
    from then on nothing is sent or received any more.
    """

    def __init__(self, comm: MPI.Intracomm) -> None:
        with LossTold(comm):
            self._comm = comm.Dup()
        self._left = False
        self.rank: int = comm.rank
        self.size: int = comm.size
        self._inbox: list[tuple[int, bytes]] = []
        self._active: set[int] = set()  # ranks with something leaving or arriving
        self._status = MPI.Status()
        self._awake = asyncio.Event()
        self._pause = _SHORTEST_S
        self._looks = _QUICK_LOOKS

        host, neighbours = self._find_host()
        alone = neighbours == self.size
        self._loop = asyncio.get_running_loop()
        self._bell = Doorbell(LOOPBACK if alone else "", self._wake)
        reachable_at = [] if alone else networks(MPI.Get_processor_name())
        mine = _Card(host, reachable_at, self._bell.port)
        with LossTold(self._comm):
            cards = self._comm.allgather(mine)
        self._peers = [_make_peer(mine, card, neighbours) for card in cards]

    def __repr__(self) -> str:
        traffic = ", ".join(
            f"{rank}: {len(peer.queue)} queued {len(peer.leaving)} leaving"
            f" {len(peer.arriving)} arriving {peer.backlog} B"
            for rank, peer in enumerate(self._peers)
            if rank in self._active
        )
        return f"<MpiTransport rank {self.rank} of {self.size}; {traffic or 'quiet'}>"

    def send(self, rank: int, message: bytes) -> None:
        assert rank != self.rank, "a rank has no messages for itself"
        if self._left:
            return
        peer = self._peers[rank]
        peer.queue.append(message)
        peer.backlog += len(message)
        try:
            with loss_told:
                started = self._fill_window(rank)
        except LostRankError:
            self._lose()  # the task that waits is told
        else:
            if started:
                self._wake()  # it slept without requests in flight; now there is one

    def receive(self) -> list[tuple[int, bytes]]:
        self._progress()
        received, self._inbox = self._inbox, []
        return received

    def backlog(self, rank: int) -> int:
        return self._peers[rank].backlog

    def remote(self, rank: int) -> bool:
        return self._peers[rank].remote

    async def wait(self, timeout: float) -> None:
        """Return when a message has come or one of ours was taken, or after `timeout` seconds."""
        deadline = self._loop.time() + timeout
        await asyncio.sleep(0)  # other tasks have their turn in a flood, too
        while not self._progress():
            if self._left:
                raise LostRankError
            left = deadline - self._loop.time()
            if left <= 0:
                return
            if self._looks > 0:
                self._looks -= 1
                await asyncio.sleep(0)
            else:
                await self._doze(max(_SHORTEST_S, min(left, self._pause)))
                self._pause = min(2 * self._pause, _BUSY_POLL_S if self._active else _IDLE_POLL_S)
        self._quicken()

    async def close(self) -> None:
        """Deliver what is queued, and leave together with all other ranks.

        Messages that still come are taken and dropped. The end of a crawl is declared only when
        every message that counts has been received, so these are notes that no one needs.
        After a LostRankError `abandon` is left to do.
        """
        while self._active:
            await self.wait(_IDLE_POLL_S)
            self._inbox.clear()
        # No one may stop taking messages, still less enter Finalize, while another rank waits
        # for its own to be taken.
        with loss_told:
            barrier = self._comm.Ibarrier()
            while not barrier.Test() or self._active:
                await self.wait(_BUSY_POLL_S)
                self._inbox.clear()
        self._left = True
        self._bell.close()
        self._comm.Free()

    def abandon(self) -> None:
        """Leave after the loss of a rank, at once, and let all others know."""
        self._lose()
        self._bell.close()

    def _find_host(self) -> tuple[int, int]:
        """The lowest rank on this host, by which the host is known, and the number of its ranks."""
        with LossTold(self._comm):
            node = self._comm.Split_type(MPI.COMM_TYPE_SHARED)
        with LossTold(self._comm, node):
            host, ranks = node.bcast(self.rank), node.size
        node.Free()
        return host, ranks

    def _lose(self) -> None:
        """Have nothing to do with this communicator any more, nor has anyone else."""
        if self._left:
            return
        self._left = True
        self._comm.Revoke()
        wreckage.append(self._comm)
        for rank, peer in enumerate(self._peers):
            wreckage.append((peer.leaving, peer.arriving))
            peer.queue.clear()
            peer.backlog = 0
            if rank != self.rank:
                self._bell.ring(peer.bell)
        self._active.clear()
        self._inbox.clear()
        self._wake()

    def _progress(self) -> bool:
        """Take in what has come, let go what was taken; whether there is anything of either."""
        if self._left:
            return False
        try:
            with loss_told:
                return self._move()
        except LostRankError:
            self._lose()
            return False

    def _move(self) -> bool:
        for _ in range(_BURST):
            message = self._comm.Improbe(MPI.ANY_SOURCE, _MESSAGE, self._status)
            if message is None:
                break
            source, buffer = self._status.source, bytearray(self._status.Get_count(MPI.BYTE))
            request = message.Irecv([buffer, MPI.BYTE])
            self._peers[source].arriving.append((request, buffer))
            self._active.add(source)
        taken = False
        for rank in tuple(self._active):
            peer = self._peers[rank]
            # Only the oldest is asked for, so that a long message isn't overtaken by a short one.
            while peer.arriving and peer.arriving[0][0].Test():
                self._inbox.append((rank, bytes(peer.arriving.popleft()[1])))
            while peer.leaving and peer.leaving[0][0].Test():
                peer.backlog -= len(peer.leaving.popleft()[1])
                taken = True
            self._fill_window(rank)
            if not (peer.leaving or peer.arriving):
                self._active.discard(rank)
        return taken or bool(self._inbox)

    def _fill_window(self, rank: int) -> bool:
        """Start to send what the window has room for, and ring; whether there was any."""
        peer = self._peers[rank]
        started = False
        while peer.queue and len(peer.leaving) < peer.window:
            message = peer.queue.popleft()
            request = self._comm.Issend([message, MPI.BYTE], rank, _MESSAGE)
            peer.leaving.append((request, message))
            started = True
        if started:
            self._active.add(rank)
            self._bell.ring(peer.bell)
        return started

    def _wake(self) -> None:
        self._quicken()  # the datagram may be faster than the message
        self._awake.set()

    def _quicken(self) -> None:
        self._pause = _SHORTEST_S
        self._looks = _QUICK_LOOKS

    async def _doze(self, seconds: float) -> None:
        alarm = self._loop.call_later(seconds, self._awake.set)
        try:
            await self._awake.wait()
        finally:
            alarm.cancel()
        self._awake.clear()


def _check(transport: MpiTransport) -> ports.Transport:
    return transport  # mypy holds the class against the protocol
