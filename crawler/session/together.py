"""What several processes do together with the files of a session: they divide, route and agree.

The work is divided by the directories of ranks: `mine`. Each process takes neighbouring
ones, and what the processes have found is put together in their order. So the result is the same
for each number of processes. One process alone does all of it as `Alone`.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64_intdigest

from crawler.ports import NoRoomError, Peers
from crawler.session.files import is_no_room

T = TypeVar("T")
Keys = npt.NDArray[np.uint64]

_ROUND: Final = 1 << 20  # rows that a process sends at a time


class Alone:
    """The only process. Implements `ports.Peers`; its methods never wait."""

    rank = 0
    size = 1

    async def bcast(self, value: T) -> T:
        """Return the value."""
        return value

    async def gather(self, value: T) -> list[T]:
        """Return the value in a list."""
        return [value]

    async def alltoall(self, values: Sequence[T]) -> list[T]:
        """Return the values."""
        return list(values)


def alone(coroutine: Coroutine[object, None, T]) -> T:
    """Return what a coroutine returns that does something as `Alone`, and so never waits."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("it waits for another process")


def holder(number: int, count: int, size: int) -> int:
    """Return which of `size` processes holds item `number` of `count`: neighbours go together."""
    return number * size // count


def mine(items: Sequence[T], peers: Peers) -> list[T]:
    """Return the items that this process holds."""
    return [
        item
        for number, item in enumerate(items)
        if holder(number, len(items), peers.size) == peers.rank
    ]


def by_holder(keys: Keys, peers: Peers) -> list[npt.NDArray[np.int64]]:
    """Return, for each process, where the keys are that it holds: the key modulo their number."""
    holders = keys % np.uint64(peers.size)
    return [np.flatnonzero(holders == rank) for rank in range(peers.size)]


def bucket(name: str, count: int) -> int:
    """Return which of `count` buckets a name, such as that of a site, belongs to."""
    return xxh3_64_intdigest(name.encode()) % count


async def everywhere(peers: Peers, value: T) -> list[T]:
    """Return the values of all processes, in their order, on each of them."""
    return await peers.bcast(await peers.gather(value))


async def done_by_all(peers: Peers, make: Callable[[], T]) -> T:
    """Call `make` on every process, and return its result when all are done.

    If the disk is full for one process, NoRoomError is raised on all. Any other exception is raised
    on its process alone, which ends the program.
    """
    result, full = None, ""
    try:
        result = make()
    except NoRoomError as error:
        full = str(error)
    except OSError as error:
        if not is_no_room(error):
            raise
        full = f"{error.filename}: {error.strerror}"
    found = [one for one in await everywhere(peers, full) if one]
    if found:
        raise NoRoomError(found[0])
    return result  # type: ignore[return-value]  # `make` has returned it


async def routed(peers: Peers, rounds: Iterator[Sequence[T]]) -> AsyncIterator[list[T]]:
    """Send values to other processes round by round, so that few are in memory at a time.

    `rounds` yields a value for each process. The processes may have different numbers of rounds.
    Yields the values that each round has brought, by the process that sent them.
    """
    while True:
        own = next(rounds, None)
        given = [None] * peers.size if own is None else [(value,) for value in own]
        received = [one[0] for one in await peers.alltoall(given) if one is not None]
        if not received:
            # A process that still has rounds gives every other process a value.
            return
        yield received


def in_rounds(first: Keys, second: Keys) -> Iterator[tuple[Keys, Keys]]:
    """Yield two columns in pieces of so many rows as are sent at a time."""
    for begin in range(0, len(first), _ROUND):
        yield first[begin : begin + _ROUND], second[begin : begin + _ROUND]


async def to_holders(
    rows: Iterable[tuple[Keys, Keys]], column: int, peers: Peers
) -> tuple[Keys, Keys]:
    """Send each row to the process that holds its first or second column, piece by piece.

    `column`: 0 or 1. Returns the rows that this process has received.
    """
    given = ([(row[0][its], row[1][its]) for its in by_holder(row[column], peers)] for row in rows)
    first, second = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)]
    async for received in routed(peers, given):
        for one, other in received:
            first.append(one)
            second.append(other)
    return np.concatenate(first), np.concatenate(second)
