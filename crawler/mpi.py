"""MPI: messages between ranks, and how ranks start, meet and end. The only import of mpi4py.

All MPI calls are made from the event loop's thread, and none of them blocks while a crawl runs: a
blocked call busy-waits in every MPI library, and stops the loop. Importing this module initialises
MPI; `python -m crawler` does it only for the commands that run on several ranks.

How a message travels: `send` queues it behind the window of its destination. From there it goes by
Issend, whose request completes only when the receiver has taken the message; so the window bounds
what a receiver has to hold, which Isend with its buffers would not. The receiver finds it by
Improbe. To spare an idle rank from looking all the time, the sender rings: it sends a datagram to
a socket on the receiver's event loop. A datagram carries nothing and proves nothing: a lost one
costs at most `_IDLE_POLL_S` of latency, a forged one a look in vain.

A rank may die. Most MPIs end all others then. One with user-level failure mitigation (ULFM; Bland
et al., International Journal of High Performance Computing Applications 27, 2013), if it is asked
for it (`OUTLIVES`), tells them instead: what they wait for raises LostRankError. Who hears of it
abandons its transport, by which all others hear of it, too. All who are left meet in `all_done`,
which has one answer for all, and if that is no, they go on as fewer by `survive`.
"""

import asyncio
import contextlib
import fcntl
import os
import socket
import struct
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Interface
from typing import Any, Final, NoReturn, TypeVar

import mpi4py
import uvloop

from crawler.ports import UserError

mpi4py.rc.thread_level = "funneled"
try:
    from mpi4py import MPI
except (ImportError, RuntimeError) as _error:
    raise UserError(
        f"MPI: {str(_error).splitlines()[0]}; install one beside this Python"
        " (pip install '.[mpich]') or load the cluster's MPI module"
    ) from None

T = TypeVar("T")

_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")  # number of ranks, by the mpirun of MPICH, Open MPI
_world: MPI.Intracomm = MPI.COMM_WORLD  # those that are left of it
RANK: int = _world.rank  # both change when ranks are lost
SIZE: int = _world.size

if SIZE == 1 and any(os.environ.get(size, "1") != "1" for size in _SIZES):
    # Going on, each process would crawl everything.
    raise UserError(
        "MPI: mpirun started several processes, but each finds itself alone; use the mpirun of"
        f" this Python's MPI library, {MPI.get_vendor()[0]}"
    )

# Whether the others go on when a rank dies: Open MPI 5 under `mpirun --with-ft ulfm` says so.
OUTLIVES: Final = (
    MPI.get_vendor()[0] == "Open MPI" and os.environ.get("OMPI_MCA_mpi_ft_enable") == "1"  # noqa: SIM112  its name
)
_LOSSES = (MPI.ERR_PROC_FAILED, MPI.ERR_PROC_FAILED_PENDING, MPI.ERR_REVOKED)
_KILLED = 137  # exit code: as if the MPI had ended all ranks
# What a loss broke off, and is never given back: MPI may still look at the buffers.
_wreckage: Final[list[object]] = []

_MESSAGE, _BCAST, _GATHER, _ALL, _NOTHING = range(5)  # tags

_WINDOW = 4  # messages in flight to one rank
_CELLS = 64  # MPICH's shared memory starves when more than this many messages wait for one rank
_QUICK_LOOKS = 3  # without a pause, once something moves: a message takes MPI a few calls
_BURST = 32  # messages taken in one go, between two turns of the event loop

# Seconds between two looks. They double from the shortest; under half a millisecond uvloop spins.
_SHORTEST_S = 0.001
_BUSY_POLL_S = 0.008  # longest while requests are in flight: MPI moves them only when called
_IDLE_POLL_S = 0.1  # longest otherwise: the bell wakes us
_LOOPBACK = "127.0.0.1"
_SIOCGIFADDR, _SIOCGIFNETMASK = 0x8915, 0x891B  # of Linux; elsewhere all ranks share a host
_LAST_WORDS_S = 0.3  # for the launcher to pass on what an aborting rank has said
_MEETING_POLL_S = 0.02  # longest while ranks wait for each other outside of a crawl


class LostRankError(Exception):
    """A rank has died, and the others are to go on."""


def _is_loss(error: MPI.Exception) -> bool:
    return OUTLIVES and error.Get_error_class() in _LOSSES


class _LossTold:
    """Turns what MPI says of a dead rank into a LostRankError. Before, it breaks off what others
    may wait for on these communicators."""

    def __init__(self, *revoked: MPI.Comm) -> None:
        self._revoked = revoked

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, MPI.Exception) and _is_loss(error):
            for comm in self._revoked:
                comm.Revoke()
            raise LostRankError from error


_loss_told = _LossTold()


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


class MpiTransport:
    """`ports.Transport` over a communicator of its own. From one rank to another, order is kept.

    Made in a running event loop by all ranks of `comm` at a time, best by `start`; blocks until
    they are all there. One task at a time may wait. It hears of a lost rank by LostRankError; from
    then on nothing is sent or received any more.
    """

    def __init__(self, comm: MPI.Intracomm) -> None:
        with _LossTold(comm):
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

        with _LossTold(self._comm):
            node = self._comm.Split_type(MPI.COMM_TYPE_SHARED)
        with _LossTold(self._comm, node):
            host, neighbours = node.bcast(self.rank), node.size  # a host goes by its lowest rank
        node.Free()
        alone = neighbours == self.size
        networks = [] if alone else _networks()
        self._bell = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._bell.setblocking(False)
        self._bell.bind((_LOOPBACK if alone else "", 0))
        with _LossTold(self._comm):
            cards = self._comm.allgather((host, networks, self._bell.getsockname()[1]))
        self._peers = [
            _Peer(
                remote=its_host != host,
                bell=(
                    meeting_address(networks, its_networks) if its_host != host else _LOOPBACK,
                    port,
                ),
                window=_WINDOW if its_host != host else max(1, min(_WINDOW, _CELLS // neighbours)),
            )
            for its_host, its_networks, port in cards
        ]
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._bell.fileno(), self._rung)

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
            with _loss_told:
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
        with _loss_told:
            barrier = self._comm.Ibarrier()
            while not barrier.Test() or self._active:
                await self.wait(_BUSY_POLL_S)
                self._inbox.clear()
        self._left = True
        self._silence()
        self._comm.Free()

    def abandon(self) -> None:
        """Leave after the loss of a rank, at once, and let all others know."""
        self._lose()
        self._silence()

    def _silence(self) -> None:
        if self._bell.fileno() >= 0:
            self._loop.remove_reader(self._bell.fileno())
            self._bell.close()

    def _lose(self) -> None:
        """Have nothing to do with this communicator any more, nor has anyone else."""
        if self._left:
            return
        self._left = True
        self._comm.Revoke()
        _wreckage.append(self._comm)
        for rank, peer in enumerate(self._peers):
            _wreckage.append((peer.leaving, peer.arriving))
            peer.queue.clear()
            peer.backlog = 0
            if rank != self.rank:
                self._ring(peer)
        self._active.clear()
        self._inbox.clear()
        self._wake()

    def _progress(self) -> bool:
        """Take in what has come, let go what was taken; whether there is anything of either."""
        if self._left:
            return False
        try:
            with _loss_told:
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
            self._ring(peer)
        return started

    def _ring(self, peer: _Peer) -> None:
        with contextlib.suppress(OSError):  # no route, a full buffer: the receiver looks itself
            self._bell.sendto(b"", peer.bell)

    def _rung(self) -> None:
        """Someone rang. What a burst leaves in the socket calls again in the loop's next turn."""
        with contextlib.suppress(OSError):
            for _ in range(_BURST):
                self._bell.recv(1)
        self._wake()

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


def _networks() -> list[IPv4Interface]:
    """This host's addresses with their networks, that of its name first; loopback isn't one."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode())
            with contextlib.suppress(OSError):  # this one has no address
                address, mask = (
                    socket.inet_ntoa(fcntl.ioctl(any_socket, code, request)[20:24])
                    for code in (_SIOCGIFADDR, _SIOCGIFNETMASK)
                )
                found.append(IPv4Interface(f"{address}/{mask}"))
    name_address = ""
    with contextlib.suppress(OSError):
        name_address = socket.gethostbyname(MPI.Get_processor_name())
    found.sort(key=lambda interface: str(interface.ip) != name_address)
    return [interface for interface in found if not interface.is_loopback]


def meeting_address(mine: Sequence[IPv4Interface], theirs: Sequence[IPv4Interface]) -> str:
    """Where to ring at another host: its address in a network that both are in, or its first.

    A wrong one costs latency. An address that both have is that of a bridge within each of them.
    """
    own = {interface.ip for interface in mine}
    others = [interface.ip for interface in theirs if interface.ip not in own]
    near = [ip for ip in others if any(ip in interface.network for interface in mine)]
    return str((near or others or [IPv4Address(_LOOPBACK)])[0])


# Set-up and end. Every rank calls these in the same order. While one rank works for minutes before
# it comes, the others wait at a percent of a core or less. All may raise LostRankError, on some of
# the ranks or on all; but `all_done` and `survive` don't.


async def start() -> MpiTransport:
    """A transport between all ranks, for one crawl."""
    with _loss_told:
        await _until(_world.Ibarrier().Test)  # so that the constructor blocks only shortly
        return MpiTransport(_world)


async def bcast(value: T) -> T:
    """Rank 0's value, on every rank. It is pickled."""
    if RANK != 0:
        value = await _take(0, _BCAST)
        return value
    await _taken([_give(value, rank, _BCAST) for rank in range(1, SIZE)])
    return value


async def gather(value: T) -> list[T]:
    """On rank 0 the values of all ranks, in their order; elsewhere an empty list. Pickled."""
    if RANK == 0:
        return [value] + [await _take(rank, _GATHER) for rank in range(1, SIZE)]
    await _taken([_give(value, 0, _GATHER)])
    return []


async def alltoall(values: Sequence[T]) -> list[T]:
    """Give the value at each index to that rank; what the ranks have given to this one. Pickled."""
    given = [_give(values[rank], rank, _ALL) for rank in range(SIZE) if rank != RANK]
    try:
        received = [
            values[RANK] if rank == RANK else await _take(rank, _ALL) for rank in range(SIZE)
        ]
    except LostRankError:
        _wreckage.append(given)
        raise
    await _taken(given)
    return received


def all_done(done: bool) -> bool:
    """Whether all ranks that are left say so: the same answer on all, whoever dies meanwhile.

    Who has heard of a loss comes here, isn't done, and so fetches the others from whatever they
    wait for. Blocks until all have come.
    """
    if not OUTLIVES:
        return done
    if not done:
        _world.Revoke()
    try:
        return bool(_world.Agree(done))
    except MPI.Exception as error:  # of a loss by now, and the same on all, too
        if not _is_loss(error):
            raise
        return False


def survive() -> None:
    """Go on without the ranks that were lost. Blocks until all others have come.

    `RANK` and `SIZE` change: who is left is counted through, in the old order.
    """
    global _world, RANK, SIZE  # noqa: PLW0603 - as MPI itself has one world
    _wreckage.append(_world)
    _world = MPI.Intracomm(_world.Shrink())
    RANK, SIZE = _world.rank, _world.size


def run(main: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Run `main()` in an event loop on every rank; return its result when all ranks are done.

    An exception that leaves it on one of several ranks ends them all (exit code 2 for a UserError,
    137 for a lost rank, 1 for any other), since they would wait for this one for ever. A lone rank
    just raises. After a loss that was outlived the process ends here.
    """

    async def together() -> int:
        code = await main()
        with contextlib.suppress(LostRankError), _loss_told:  # it had nothing left to do
            await _until(_world.Ibarrier().Test)
        return code

    try:
        code = uvloop.run(together())
    except LostRankError:
        abort(_KILLED, "a rank is lost, and the others can't do without: resume the session\n")
    except UserError as error:
        if SIZE == 1:
            raise
        abort(2, f"error: {error}\n")
    except BaseException:  # also KeyboardInterrupt and SystemExit: none may leave the others alone
        if SIZE == 1:
            raise
        abort(1, f"rank {RANK} on {MPI.Get_processor_name()}:\n{traceback.format_exc()}")
    if _world != MPI.COMM_WORLD:
        # Open MPI's Finalize waits for the dead now and then; without it, mpirun passes the exit
        # code on all the same.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def abort(code: int, message: str) -> NoReturn:
    """End all ranks at once with this exit code, and say why on standard error.

    This process ends in any case: MPI_Abort may return or fail, and so may what it takes to speak.
    """
    try:
        for stream, text in ((sys.stdout, ""), (sys.stderr, message)):
            with contextlib.suppress(
                AttributeError, OSError, ValueError
            ):  # nobody listens, or it is closed
                stream.write(text)
                stream.flush()
        time.sleep(_LAST_WORDS_S)
        MPI.COMM_WORLD.Abort(code)
    finally:
        os._exit(code)


def _give(value: object, rank: int, tag: int) -> MPI.Request:
    with _loss_told:
        return _world.isend(value, rank, tag)


async def _taken(requests: Sequence[MPI.Request]) -> None:
    """All these have been taken. (Testall wouldn't say what is wrong with one of them.)"""
    try:
        await _until(lambda: all(request.Test() for request in requests))
    except LostRankError:
        _wreckage.append(requests)
        raise


async def _take(source: int, tag: int) -> Any:
    message = await _until(lambda: _world.improbe(source, tag))
    assert message is not None
    request = message.irecv()
    try:
        await _until(request.get_status)
        with _loss_told:
            return request.wait()  # has completed: returns at once
    except LostRankError:
        _wreckage.append(request)
        raise


async def _until(look: Callable[[], T]) -> T:
    """The first true thing that `look` returns, asked for at growing intervals."""
    pause = _SHORTEST_S
    with _loss_told:
        while not (found := look()):
            if OUTLIVES:  # a request to a dead rank doesn't always say so; to look for any does
                _world.Iprobe(MPI.ANY_SOURCE, _NOTHING)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MEETING_POLL_S)
        return found
