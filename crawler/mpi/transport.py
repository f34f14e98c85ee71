"""Messages between ranks during a crawl.

How a message travels:

1. `send` puts the message into the queue of its destination.
2. When the destination's window has room, Issend sends the message. Its request completes only
   when the receiver has taken the message. So the window bounds how many messages a receiver must
   hold. Isend has no such bound, because its request may complete earlier.
3. The sender rings at the receiver's doorbell, so that an idle rank needn't look for messages all
   the time. A lost ring delays a message by at most `_IDLE_POLL_S`.
4. The receiver finds the message by Improbe.
"""

import asyncio
from array import array
from collections import deque
from collections.abc import Iterable
from ipaddress import IPv4Interface
from typing import NamedTuple

import msgspec

from crawler import ports
from crawler.mpi.binding import MPI, LossTranslator, abandoned, loss_translated
from crawler.mpi.doorbell import LOOPBACK, Doorbell, meeting_address, networks
from crawler.ports import LostRankError

_MESSAGE = 0  # the tag of all messages

_WINDOW = 4  # messages in flight to one rank
_CELLS = 64  # messages for one rank that fit into MPICH's shared memory
_QUICK_LOOKS = 3  # looks without a pause after progress: MPI needs a few calls for a message
_BURST = 32  # the most messages taken between two turns of the event loop

# Seconds between two looks for messages. The pause starts with the shortest and doubles each time.
# Below half a millisecond, uvloop would spin.
_SHORTEST_S = 0.001
_BUSY_POLL_S = 0.008  # longest pause with requests in flight: MPI moves them only when called
_IDLE_POLL_S = 0.1  # longest pause otherwise: the doorbell wakes the rank


class _Peer(msgspec.Struct):
    """The traffic with one rank. Each buffer is kept with its request until that is complete."""

    remote: bool
    bell: tuple[str, int]
    window: int
    queue: deque[bytes] = msgspec.field(default_factory=deque)
    leaving: deque[tuple[MPI.Request, bytes]] = msgspec.field(default_factory=deque)
    arriving: deque[tuple[MPI.Request, bytearray]] = msgspec.field(default_factory=deque)
    backlog: int = 0  # bytes in `queue` and `leaving`


class _Location(NamedTuple):
    """Where a rank runs. Each rank tells this to all others."""

    host: int  # the lowest rank on the same host
    networks: list[IPv4Interface]
    port: int  # the port of the rank's doorbell


def _make_peer(mine: _Location, its: _Location, neighbours: int) -> _Peer:
    """Prepare the traffic with a rank. `neighbours`: the number of ranks on this host."""
    if its.host != mine.host:
        return _Peer(True, (meeting_address(mine.networks, its.networks), its.port), _WINDOW)
    return _Peer(False, (LOOPBACK, its.port), max(1, min(_WINDOW, _CELLS // neighbours)))


class MpiTransport:
    """Sends messages to other ranks over a communicator of its own. Implements `ports.Transport`.

    Messages from one rank to another arrive in the order of sending. All ranks of `comm` make their
    transports together, in a running event loop. The constructor blocks until all ranks are there,
    so call `MpiGroup.connect`, which waits for them first.

    One task at a time may wait. If ranks are lost, `wait` and `close` raise LostRankError. Until
    `forgo` is called, nothing is received then. If any rank abandons its transport, nothing is sent
    or received any more.

    In the words of ULFM, `forgo` acknowledges a failure. Messages between the other ranks go on as
    before, so the communicator need not shrink, and each rank keeps its number.
    """

    def __init__(self, comm: MPI.Intracomm) -> None:
        with LossTranslator(comm):
            self._comm = comm.Dup()
        self._left = False
        self._failing: frozenset[int] = frozenset()  # lost ranks, before `forgo`
        self.lost: set[int] = set()
        self.rank: int = comm.rank
        self.size: int = comm.size
        self._inbox: list[tuple[int, bytes]] = []
        self._active: set[int] = set()  # ranks with messages in flight
        self._status = MPI.Status()
        self._awake = asyncio.Event()
        self._pause = _SHORTEST_S
        self._looks = _QUICK_LOOKS

        host, neighbours = self._find_host()
        alone = neighbours == self.size
        self._loop = asyncio.get_running_loop()
        self._bell = Doorbell(LOOPBACK if alone else "", self._wake)
        reachable_at = [] if alone else networks(MPI.Get_processor_name())
        mine = _Location(host, reachable_at, self._bell.port)
        with LossTranslator(self._comm):
            locations = self._comm.allgather(mine)
        self._peers = [_make_peer(mine, location, neighbours) for location in locations]

    def __repr__(self) -> str:
        traffic = ", ".join(
            f"{rank}: {len(peer.queue)} queued {len(peer.leaving)} leaving"
            f" {len(peer.arriving)} arriving {peer.backlog} B"
            for rank, peer in enumerate(self._peers)
            if rank in self._active
        )
        return f"<MpiTransport rank {self.rank} of {self.size}; {traffic or 'quiet'}>"

    def send(self, rank: int, message: bytes) -> None:
        """Queue a message to another rank. Returns at once."""
        assert rank != self.rank, "a rank can't send a message to itself"
        if self._left or rank in self.lost:
            return
        peer = self._peers[rank]
        peer.queue.append(message)
        peer.backlog += len(message)
        try:
            with loss_translated:
                started = self._fill_window(rank)
        except LostRankError:
            self._note_loss()
        else:
            if started:
                self._wake()  # the waiting task may sleep long, as no request was in flight

    def receive(self) -> list[tuple[int, bytes]]:
        """Return the messages that have come, each with the rank of its sender."""
        self._progress()
        received, self._inbox = self._inbox, []
        return received

    def backlog(self, rank: int) -> int:
        """The bytes of messages to a rank that it hasn't taken yet."""
        return self._peers[rank].backlog

    def remote(self, rank: int) -> bool:
        """Whether a rank runs on another host."""
        return self._peers[rank].remote

    async def wait(self, timeout: float) -> None:
        """Wait until a message has come, a sent one was taken, or `timeout` seconds have passed."""
        deadline = self._loop.time() + timeout
        await asyncio.sleep(0)  # other tasks get a turn even if messages come all the time
        while not self._progress():
            if self._left or self._failing:
                raise LostRankError(self._failing)
            left = deadline - self._loop.time()
            if left <= 0:
                return
            if self._looks > 0:
                self._looks -= 1
                await asyncio.sleep(0)
            else:
                await self._sleep(max(_SHORTEST_S, min(left, self._pause)))
                self._pause = min(2 * self._pause, _BUSY_POLL_S if self._active else _IDLE_POLL_S)
        self._poll_soon()

    async def close(self) -> None:
        """Deliver all queued messages, and leave together with all other ranks.

        Messages that still arrive are dropped. They don't matter, because a crawl ends only when
        every message that counts has been received. After a LostRankError, call `abandon`.
        """
        while self._active:
            await self.wait(_IDLE_POLL_S)
            self._inbox.clear()
        # While another rank waits for its messages to be taken, no rank may stop taking messages or
        # enter Finalize.
        with loss_translated:
            barrier = self._ibarrier()
            while not barrier.Test() or self._active:
                await self.wait(_BUSY_POLL_S)
                self._inbox.clear()
        self._left = True
        self._bell.close()
        if not self.lost:
            self._comm.Free()

    def _ibarrier(self) -> MPI.Request:
        """Begin a barrier of the ranks that are left."""
        if not self.lost:
            return self._comm.Ibarrier()
        flag = array("i", [1])
        abandoned.append((self._comm, flag))
        return self._comm.Iagree(flag)  # a barrier would need the lost ranks, too

    def forgo(self, ranks: Iterable[int]) -> None:
        """See ports.Transport."""
        assert set(ranks) == self._failing, (ranks, self._failing)
        self.lost |= self._failing
        self._comm.Ack_failed(len(self.lost))
        for rank in self._failing:
            peer = self._peers[rank]
            abandoned.append((peer.leaving, peer.arriving))
            self._peers[rank] = _Peer(peer.remote, peer.bell, peer.window)
            self._active.discard(rank)
        self._failing = frozenset()

    def abandon(self) -> None:
        """Leave at once after the loss of a rank, and tell all other ranks."""
        self._lose()
        self._bell.close()

    def _find_host(self) -> tuple[int, int]:
        """The lowest rank on this host, which identifies the host, and the number of its ranks."""
        with LossTranslator(self._comm):
            node = self._comm.Split_type(MPI.COMM_TYPE_SHARED)
        with LossTranslator(self._comm, node):
            host, ranks = node.bcast(self.rank), node.size
        node.Free()
        return host, ranks

    def _note_loss(self) -> None:
        """Find out which ranks are lost, and wake the waiting task, which raises."""
        group = self._comm.Get_failed()
        failed = set(group.Translate_ranks(group=self._comm.Get_group())) - self.lost
        if self._comm.Is_revoked() or not failed:
            self._lose()
        else:
            self._failing = frozenset(failed)
            self._wake()

    def _lose(self) -> None:
        """Stop using this communicator, on all ranks."""
        if self._left:
            return
        self._left = True
        self._comm.Revoke()
        abandoned.append(self._comm)
        for rank, peer in enumerate(self._peers):
            abandoned.append((peer.leaving, peer.arriving))
            peer.queue.clear()
            peer.backlog = 0
            if rank != self.rank:
                self._bell.ring(peer.bell)
        self._active.clear()
        self._inbox.clear()
        self._wake()

    def _progress(self) -> bool:
        """Receive messages, and forget sent ones that were taken. Returns whether any moved."""
        if self._left:
            return False
        try:
            with loss_translated:
                return self._move()
        except LostRankError:
            self._note_loss()
            return False

    def _move(self) -> bool:
        for _ in range(_BURST):
            message = self._comm.Improbe(MPI.ANY_SOURCE, _MESSAGE, self._status)
            if message is None:
                break
            source, buffer = self._status.source, bytearray(self._status.Get_count(MPI.BYTE))
            request = message.Irecv([buffer, MPI.BYTE])
            if source in self.lost:
                abandoned.append((request, buffer))
                continue
            self._peers[source].arriving.append((request, buffer))
            self._active.add(source)
        taken = False
        for rank in tuple(self._active):
            peer = self._peers[rank]
            # Only the oldest request is tested, so that no short message overtakes a long one.
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
        """Send as many messages as the window has room for, and ring. Returns whether any left."""
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
        self._poll_soon()  # look often, as the datagram may be faster than the message
        self._awake.set()

    def _poll_soon(self) -> None:
        self._pause = _SHORTEST_S
        self._looks = _QUICK_LOOKS

    async def _sleep(self, seconds: float) -> None:
        alarm = self._loop.call_later(seconds, self._awake.set)
        try:
            await self._awake.wait()
        finally:
            alarm.cancel()
        self._awake.clear()


def _check(transport: MpiTransport) -> ports.Transport:
    return transport  # lets mypy check that the class implements the protocol
