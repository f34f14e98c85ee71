"""What ranks do together: they route rows of arrays in rounds, and agree on errors."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from crawler.ports import Peers
from partition import UserError
from partition.arrays import Ints, Keys
from partition.child import EngineError
from partition.partvector import PartVectorError

T = TypeVar("T")

Columns = tuple[npt.NDArray[Any], ...]  # arrays of equal length
ROUND_ROWS: Final = 1 << 18  # rows that a rank gives to the others at a time
_TOLD: Final = (UserError, EngineError, PartVectorError, OSError)  # errors that end in one line


@dataclass(frozen=True, slots=True)
class _Failed:
    """A rank gives this in place of values, if it has failed to make them."""

    error: Exception


async def everywhere(peers: Peers, value: T) -> list[T]:
    """Return the values of all ranks, in their order, on each of them."""
    return await peers.bcast(await peers.gather(value))


async def reduced(
    peers: Peers, numbers: npt.NDArray[Any], by: np.ufunc = np.add
) -> npt.NDArray[Any]:
    """Return the sum, or what `by` makes in its place, of arrays of all ranks, on each of them.

    The arrays have equal lengths. Each rank adds up a slice.
    """
    given = await peers.alltoall(np.array_split(numbers, peers.size))
    own = by.reduce(given, axis=0)
    return np.concatenate(await peers.alltoall([own] * peers.size))


async def agreed(peers: Peers, work: Callable[[], T]) -> T:
    """Return what `work` returns on this rank, when it has returned on all ranks.

    If it raises an error of a user, an engine or the system, the first such error is raised on
    all ranks.
    """
    results, error = [], None
    try:
        results.append(work())
    except _TOLD as caught:
        error = caught
    for failed in await everywhere(peers, error):
        if failed is not None:
            raise failed
    return results[0]


async def agreed_at_first(peers: Peers, work: Callable[[], T]) -> T | None:
    """Return what `work` returns on rank 0, and None elsewhere. Errors as in `agreed`."""
    return await agreed(peers, lambda: work() if peers.rank == 0 else None)


async def routed(peers: Peers, rounds: Iterable[Sequence[T]]) -> AsyncIterator[list[T]]:
    """Yield, for each round, what the ranks give this rank, in the order of the ranks.

    `rounds` yields what this rank gives, with a value for each rank. A rank may have fewer rounds
    than others. Errors of `rounds` are raised as in `agreed`.
    """
    given = iter(rounds)
    nothing: Sequence[T | None] = [None] * peers.size
    while True:
        values: Sequence[T | None] | list[_Failed]
        try:
            values = next(given, nothing)
        except _TOLD as error:
            values = [_Failed(error)] * peers.size
        received = await peers.alltoall(values)
        if all(value is None for value in received):
            return
        for value in received:
            if isinstance(value, _Failed):
                raise value.error
        yield [value for value in received if value is not None and not isinstance(value, _Failed)]


async def gathered(peers: Peers, columns: Columns, rows: int = ROUND_ROWS) -> Columns:
    """Return the rows of all ranks on rank 0, in the order of the ranks, and none elsewhere.

    At most `rows` of a rank are sent at a time.
    """

    def rounds() -> Iterator[list[list[tuple[int, Columns]]]]:
        for low in range(0, len(columns[0]), rows):
            piece = tuple(column[low : low + rows] for column in columns)
            yield [[(peers.rank, piece)], *([] for _ in range(1, peers.size))]

    by_rank: list[list[Columns]] = [[] for _ in range(peers.size)]
    async for received in routed(peers, rounds()):
        for rank, piece in (one for given in received for one in given):
            by_rank[rank].append(piece)
    return joined([tuple(column[:0] for column in columns), *(p for ps in by_rank for p in ps)])


async def answered(
    peers: Peers, answer: Callable[..., npt.NDArray[Any]], keys: Keys, *columns: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """Return, for each key, what `answer` returns at the rank that the key belongs to.

    `answer` gets distinct keys, with the first row of `columns` for each.
    """
    distinct, first, of = np.unique(keys, return_index=True, return_inverse=True)
    rows = (distinct, *(column[first] for column in columns))
    return (await asked(peers, answer, owners(distinct, peers.size), *rows))[of]


async def asked(
    peers: Peers, answer: Callable[..., npt.NDArray[Any]], ranks: Ints, *columns: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """Return, for each row, what `answer` returns at the rank that `ranks` names.

    `answer` gets the rows of all ranks, and returns an array with an entry for each.
    """
    received = await peers.alltoall(split(columns, ranks, peers.size))
    ends = np.cumsum([len(given[0]) for given in received])[:-1]
    answers = np.split(answer(*joined(received)), ends)
    told = np.concatenate(await peers.alltoall(answers))
    found = np.empty_like(told)
    found[np.argsort(ranks, kind="stable")] = told
    return found


def owners(keys: Keys, size: int) -> Ints:
    """Return the rank that each key belongs to. Keys are hashes, so all ranks get as many."""
    ranks: Ints = (keys % np.uint64(size)).astype(np.int64)
    return ranks


def split(columns: Columns, ranks: npt.NDArray[np.integer[Any]], size: int) -> list[Columns]:
    """Return the rows of each rank, in their order; `ranks` names the rank of each row."""
    order = np.argsort(ranks, kind="stable")
    ends = np.searchsorted(ranks[order], np.arange(size + 1))
    return [
        tuple(column[order[low:high]] for column in columns)
        for low, high in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    ]


def by_owner(columns: Columns, peers: Peers) -> Iterator[list[Columns]]:
    """Yield rows by the ranks that their keys, the first column, belong to."""
    for low in range(0, len(columns[0]), ROUND_ROWS):
        piece = tuple(column[low : low + ROUND_ROWS] for column in columns)
        yield split(piece, owners(piece[0], peers.size), peers.size)


def joined(pieces: Sequence[Columns]) -> Columns:
    """Return the rows of all pieces; there must be one piece or more."""
    return tuple(np.concatenate(column) for column in zip(*pieces, strict=True))
