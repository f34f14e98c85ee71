"""Asks about keys that other processes answer for: the process `key mod processes` has each key."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from crawler.arrays import distinct
from crawler.ports import Peers
from crawler.session import Keys

Flags = npt.NDArray[np.bool_]


def split(keys: Keys, peers: Peers) -> list[Flags]:
    """Return for each process which of the keys it answers for."""
    places = keys % np.uint64(peers.size)
    return [places == rank for rank in range(peers.size)]


async def gather_keys(peers: Peers, keys: Keys) -> Keys:
    """Give all keys to those that answer for them. Returns the ones given here, sorted, once."""
    given = await peers.alltoall([keys[its] for its in split(keys, peers)])
    return distinct(np.concatenate(given))


async def ask(
    peers: Peers, keys: Keys, answer: Callable[[Sequence[Keys]], Sequence[Flags]]
) -> Flags:
    """Return the answer for each key.

    `answer` gets the keys that each process has asked for here, and returns the answers to each.
    """
    masks = split(keys, peers)
    asked = await peers.alltoall([keys[its] for its in masks])
    answers = await peers.alltoall(list(answer(asked)))
    found = np.zeros(len(keys), np.bool_)
    for its, some in zip(masks, answers, strict=True):
        found[its] = some
    return found


def first_askers(asked: Sequence[Keys], wanted: Callable[[Keys], Flags]) -> list[Flags]:
    """Answer yes to a wanted key once: to the first process that has asked for it."""
    answers, told = [], np.zeros(0, np.uint64)
    for keys in asked:
        answers.append(wanted(keys) & ~np.isin(keys, told))
        told = distinct(np.append(told, keys[answers[-1]]))
    return answers
