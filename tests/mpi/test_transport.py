"""MpiTransport on 2 and more ranks. A rank knows what all others send, and so what to expect."""

import asyncio
import random
import socket
import struct
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import IPv4Interface

import pytest
from mpi4py import MPI

from crawler.mpi import MpiGroup, MpiTransport
from crawler.mpi.doorbell import meeting_address

GROUP = MpiGroup()

Messages = dict[int, list[bytes]]  # by sender, in the order of sending


@asynccontextmanager
async def started() -> AsyncIterator[MpiTransport]:
    transport = await GROUP.connect()
    yield transport
    await transport.close()


def plan(seed: int, rank: int, size: int, count: int) -> list[tuple[int, bytes]]:
    """What a rank sends: (destination, message); lengths from 0 to 300,000, many of them short."""
    rng = random.Random(f"{seed}/{rank}")
    others = [other for other in range(size) if other != rank]
    lengths = [rng.randint(0, rng.choice([0, 9, 5_000, 80_000, 300_000])) for _ in range(count)]
    return [(rng.choice(others), rng.randbytes(length)) for length in lengths]


def expected(seed: int, rank: int, size: int, count: int) -> Messages:
    messages: Messages = defaultdict(list)
    for source in range(size):
        for destination, message in plan(seed, source, size, count) if source != rank else []:
            if destination == rank:
                messages[source].append(message)
    return messages


async def take(transport: MpiTransport, count: int) -> Messages:
    """Receive so many messages, and hear for a moment whether there are more."""
    messages: Messages = defaultdict(list)
    grace = 5
    while grace:
        for source, message in transport.receive():
            messages[source].append(message)
        if sum(map(len, messages.values())) >= count:
            grace -= 1
        await transport.wait(0.005)
    return messages


def total(messages: Messages) -> int:
    return sum(map(len, messages.values()))


@pytest.mark.parametrize("seed", range(3))
async def test_every_message_comes_once_and_in_order(seed: int) -> None:
    async with started() as transport:
        due = expected(seed, transport.rank, transport.size, count=60)
        taking = asyncio.create_task(take(transport, total(due)))
        rng = random.Random(seed)
        for destination, message in plan(seed, transport.rank, transport.size, count=60):
            transport.send(destination, message)
            if rng.random() < 0.3:
                await asyncio.sleep(rng.choice([0, 0.001, 0.003]))
        assert await taking == due
        while any(map(transport.backlog, range(transport.size))):
            await transport.wait(0.1)


async def test_floods_from_all_sides_keep_within_the_sender_s_bound() -> None:
    length, count, bound = 4_000, 300, 64_000
    async with started() as transport:
        others = [rank for rank in range(transport.size) if rank != transport.rank]
        left = dict.fromkeys(others, count)
        received = dict.fromkeys(others, 0)
        while any(left.values()) or min(received.values()) < count:
            for rank in others:
                while left[rank] and transport.backlog(rank) < bound:
                    transport.send(rank, struct.pack("i", count - left[rank]).ljust(length))
                    left[rank] -= 1
                assert transport.backlog(rank) < bound + length
            for source, message in transport.receive():
                assert struct.unpack_from("i", message)[0] == received[source]
                received[source] += 1
            await transport.wait(1)
        assert received == dict.fromkeys(others, count)


async def test_a_message_counts_as_backlog_until_it_is_taken() -> None:
    async with started() as transport:
        if transport.rank == 1:
            for number in range(100):
                transport.send(0, b"%10d" % number)
            for _ in range(10):
                await transport.wait(0.005)
            assert transport.backlog(0) == 1_000
            assert "0: 96 queued 4 leaving 0 arriving 1000 B" in repr(transport)  # a window of 4
        MPI.COMM_WORLD.Barrier()  # rank 0 has taken nothing until here
        if transport.rank == 0:
            messages = await take(transport, 100)
            assert messages == {1: [b"%10d" % number for number in range(100)]}
        elif transport.rank == 1:
            while transport.backlog(0):
                await transport.wait(1)


@pytest.mark.parametrize("seed", range(3))
async def test_closing_delivers_to_a_rank_that_still_receives(seed: int) -> None:
    async with started() as transport:
        for destination, message in plan(seed, transport.rank, transport.size, count=40):
            transport.send(destination, message)
        if transport.rank == 0:  # the others close at once
            due = expected(seed, 0, transport.size, count=40)
            assert await take(transport, total(due)) == due


@pytest.mark.parametrize("seed", range(3))
async def test_all_close_while_messages_fly(seed: int) -> None:
    for crawl in (b"first", b"second", b"third"):
        async with started() as transport:
            for destination, message in plan(seed, transport.rank, transport.size, count=20):
                transport.send(destination, crawl + message)
            await asyncio.sleep(random.Random(f"{seed}/{transport.rank}").choice([0, 0.002, 0.01]))
            assert all(message.startswith(crawl) for _, message in transport.receive())


async def test_no_one_leaves_before_all_close() -> None:
    world, left = MPI.COMM_WORLD, 99
    transport = await GROUP.connect()
    if transport.rank == 0:
        for _ in range(10):  # one probe may only start to fetch what it should see
            await asyncio.sleep(0.01)
            assert not world.iprobe(tag=left)
    await transport.close()
    if transport.rank == 0:
        for rank in range(1, transport.size):
            world.recv(source=rank, tag=left)
    else:
        world.send(None, 0, left)


async def test_the_bell_alone_wakes_a_sleeper() -> None:
    async with started() as transport:
        if transport.rank == 0:
            transport._looks, transport._pause = 0, 1_000.0  # it doesn't look by itself
            await transport.wait(1_000)
            assert transport.receive() == [(1, b"wake up")]
        elif transport.rank == 1:
            await asyncio.sleep(0.05)
            transport.send(0, b"wake up")


async def test_without_a_bell_messages_still_come() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as elsewhere:
        elsewhere.bind(("127.0.0.1", 0))
        async with started() as transport:
            for peer in transport._peers:
                peer.bell = elsewhere.getsockname()
            due = expected(7, transport.rank, transport.size, count=30)
            for destination, message in plan(7, transport.rank, transport.size, count=30):
                transport.send(destination, message)
            assert await take(transport, total(due)) == due


async def test_stray_datagrams_only_wake() -> None:
    async with started() as transport:
        due = expected(8, transport.rank, transport.size, count=30)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            for number in range(300):
                datagram = random.Random(number).randbytes(number * 100)
                stranger.sendto(datagram, ("127.0.0.1", transport._bell.port))
        for destination, message in plan(8, transport.rank, transport.size, count=30):
            transport.send(destination, message)
        assert await take(transport, total(due)) == due


async def test_a_cancelled_wait_loses_nothing() -> None:
    async with started() as transport:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await transport.wait(1_000)
        MPI.COMM_WORLD.Barrier()  # a hello from a faster rank would have ended the wait
        right = (transport.rank + 1) % transport.size
        transport.send(right, b"hello")
        left = (transport.rank - 1) % transport.size
        assert await take(transport, 1) == {left: [b"hello"]}


async def test_transports_don_t_hear_each_other() -> None:
    half = MPI.COMM_WORLD.Split(GROUP.rank % 2)
    async with started() as one, started() as two:
        three = MpiTransport(half)
        for number, transport in enumerate((one, two, three)):
            for rank in range(transport.size):
                if rank != transport.rank:
                    transport.send(rank, b"on %d" % number)
        for number, transport in enumerate((one, two, three)):
            others = [rank for rank in range(transport.size) if rank != transport.rank]
            assert await take(transport, len(others)) == {r: [b"on %d" % number] for r in others}
        await three.close()
    half.Free()


@pytest.mark.parametrize(
    ("mine", "theirs", "address"),
    [
        (["10.0.0.1/24"], ["10.0.0.2/24"], "10.0.0.2"),
        (["10.0.0.1/24", "10.9.0.1/16"], ["192.168.0.2/24", "10.9.7.2/16"], "10.9.7.2"),
        (["10.0.0.1/24"], ["10.0.1.2/24", "10.0.2.2/24"], "10.0.1.2"),  # by a router, perhaps
        # Each host has a bridge of its own for containers.
        (["172.17.0.1/16", "10.0.0.1/24"], ["172.17.0.1/16", "10.0.0.2/24"], "10.0.0.2"),
        (["10.0.0.1/24"], [], "127.0.0.1"),
    ],
)
def test_hosts_meet_in_a_network_that_both_are_in(
    mine: list[str], theirs: list[str], address: str
) -> None:
    assert meeting_address(*(list(map(IPv4Interface, side)) for side in (mine, theirs))) == address


async def test_all_ranks_of_one_host_are_near() -> None:
    async with started() as transport:
        assert (transport.rank, transport.size) == (GROUP.rank, GROUP.size)
        assert not any(map(transport.remote, range(transport.size)))
        assert "quiet" in repr(transport)


async def test_a_rank_has_no_messages_for_itself() -> None:
    async with started() as transport:
        with pytest.raises(AssertionError):
            transport.send(transport.rank, b"")


async def test_bcast_and_gather_wait_for_who_is_late() -> None:
    for late in range(GROUP.size):
        if late == GROUP.rank:
            await asyncio.sleep(0.03)
        long = await GROUP.bcast(bytes(1_000_000) if GROUP.rank == 0 else b"")
        short = await GROUP.bcast({"late": late} if GROUP.rank == 0 else {})
        assert (len(long), short) == (1_000_000, {"late": late})
        gathered = await GROUP.gather((GROUP.rank, late, "x" * 200_000))
        everybody = [(rank, late, "x" * 200_000) for rank in range(GROUP.size)]
        assert gathered == (everybody if GROUP.rank == 0 else [])


async def test_alltoall_gives_each_rank_its_own() -> None:
    for late in range(GROUP.size):
        if late == GROUP.rank:
            await asyncio.sleep(0.03)
        own = [(GROUP.rank, rank, "x" * 200_000 * (rank % 2)) for rank in range(GROUP.size)]
        received = await GROUP.alltoall(own)
        length = 200_000 * (GROUP.rank % 2)
        assert received == [(rank, GROUP.rank, "x" * length) for rank in range(GROUP.size)]
        assert await GROUP.all_done(True)
