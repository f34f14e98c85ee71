"""The measures over time, counted by several processes together.

The processes put the pages into the order of their times. Each process gets the pages of a stretch
of time, so it knows the *position* of each page in the order. A process tells the positions of the
pages with a key to the *holder* of the key: the process whose rank is the key modulo the number of
processes.

Memory grows by about 100 bytes for each page of a process.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from crawler import session
from crawler.ports import Peers
from crawler.report.measures import (
    Point,
    make_points,
    numbers_of_points,
    position,
    shares_of_best,
)
from crawler.report.reference import Web
from crawler.session.together import by_holder, everywhere

_Keys = npt.NDArray[np.uint64]
_Numbers = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]

_SAMPLES: Final = 100  # times that a process gives for each stretch


class Responses(NamedTuple):
    """The pages of a process that have a response. The arrays have an element for each page."""

    keys: _Keys
    times: _Numbers  # microseconds since the epoch
    good: _Mask  # whether it had status 200
    again: _Mask  # whether it was requested again with a cookie

    def some(self, which: slice | _Numbers) -> "Responses":
        """Return the pages that `which` chooses."""
        return Responses(self.keys[which], self.times[which], self.good[which], self.again[which])


class Sent(NamedTuple):
    """How many URLs a rank had sent to others in a run, at some moments."""

    when: npt.NDArray[np.float64]  # seconds since the epoch, ascending; the first one is 0
    urls: npt.NDArray[np.float64]


async def series_together(
    responses: Responses,
    sent: Sequence[Sent] | None,
    web: Web | None,
    reachable: _Keys | None,
    peers: Peers,
) -> list[Point]:
    """Return on each process what `measures.series` returns for the pages of all processes.

    Of pages with the same time, those of earlier processes come first. `sent` is that of the
    first process; `reachable` is the same on all. `web`: the reference, as far as this process
    holds its pages.
    """
    if not any(await everywhere(peers, len(responses.keys))):
        return []
    stretch = await _in_order_of_time(responses, peers)
    lengths = await everywhere(peers, len(stretch.keys))
    bounds = np.append(0, np.cumsum(lengths))  # the positions where the stretches begin
    first = int(bounds[peers.rank])
    to_reach = None if web is None else web.pages
    held = None if web is None else web.keys
    if reachable is not None:
        to_reach = len(reachable)
        held = np.sort(reachable[by_holder(reachable, peers)[peers.rank]])
    after = numbers_of_points(int(bounds[-1]))

    async def count(positions: _Numbers, numbers: Sequence[int]) -> list[int]:
        """Return how many of all processes' positions are below each number."""
        below = np.searchsorted(np.sort(positions), numbers)
        total: list[int] = np.sum(await everywhere(peers, below), axis=0).tolist()
        return total

    keys, positions, good = await _held(stretch, first, peers)
    firsts = _first_of_each(keys, positions)
    unique = await count(firsts.positions, after)
    wanted = np.flatnonzero(good if held is None else good & session.among(keys, held))
    qualities = []
    if web is not None:
        order = await _order_of(firsts.positions, bounds, peers)
        place = position(web.keys, firsts.keys)
        real = np.flatnonzero(place >= 0)
        for places in web.places:
            # For each page, the smallest N for which it is in both A_N and P_N (`quality`).
            both = await count(np.maximum(order[real], places[place[real]]), unique)
            qualities.append(shares_of_best(both, unique, web.pages))
    times = await _times_at([0, *(number - 1 for number in after)], stretch, first, peers)
    return make_points(
        after,
        start=times[0],
        times=times[1:],
        again=await count(first + np.flatnonzero(stretch.again), after),
        unique=unique,
        covered=await count(_first_of_each(keys[wanted], positions[wanted]).positions, after),
        reachable=to_reach,
        qualities=qualities,
        sent=await peers.bcast(None if sent is None else _sent_at(times[1:], sent)),
    )


async def _in_order_of_time(responses: Responses, peers: Peers) -> Responses:
    """Return the pages of this process's stretch of time, in order. Rank 0 has the first stretch.

    The bounds come from a few times of each process, so that stretches have about as many pages.
    """
    own = responses.some(np.argsort(responses.times, kind="stable"))
    step = max(1, len(own.times) // (_SAMPLES * peers.size))
    samples = np.sort(np.concatenate(await everywhere(peers, own.times[::step])))
    number = np.arange(1, peers.size) * len(samples) // peers.size
    ends = [*np.searchsorted(own.times, samples[number]).tolist(), len(own.times)]
    begins = [0, *ends[:-1]]
    given = [own.some(slice(*pair)) for pair in zip(begins, ends, strict=True)]
    columns = zip(*await peers.alltoall(given), strict=True)
    stretch = Responses(*map(np.concatenate, columns))
    return stretch.some(np.argsort(stretch.times, kind="stable"))


async def _held(stretch: Responses, first: int, peers: Peers) -> tuple[_Keys, _Numbers, _Mask]:
    """Return the keys that this process holds, with the position of each page, and `good`."""
    positions = first + np.arange(len(stretch.keys))
    given = [
        (stretch.keys[its], positions[its], stretch.good[its])
        for its in by_holder(stretch.keys, peers)
    ]
    keys, places, good = zip(*await peers.alltoall(given), strict=True)
    return np.concatenate(keys), np.concatenate(places), np.concatenate(good)


class _Firsts(NamedTuple):
    keys: _Keys  # ascending, each once
    positions: _Numbers


def _first_of_each(keys: _Keys, positions: _Numbers) -> _Firsts:
    """Return the distinct keys, and the first position of each.

    The positions of a key ascend, because they come stretch by stretch.
    """
    different, first = np.unique(keys, return_index=True)
    return _Firsts(different, positions[first])


async def _order_of(positions: _Numbers, bounds: _Numbers, peers: Peers) -> _Numbers:
    """Return the places of positions, from 0, in the order of the positions of all processes.

    `bounds`: the first position of each stretch. The process that has a stretch numbers the
    positions in it.
    """
    stretches = np.searchsorted(bounds, positions, side="right") - 1
    asked = [np.flatnonzero(stretches == rank) for rank in range(peers.size)]
    received = await peers.alltoall([positions[its] for its in asked])
    own = np.sort(np.concatenate(received))
    before = sum((await everywhere(peers, len(own)))[: peers.rank])
    answers = await peers.alltoall([before + np.searchsorted(own, its) for its in received])
    order = np.empty(len(positions), np.int64)
    for its, places in zip(asked, answers, strict=True):
        order[its] = places
    return order


async def _times_at(
    positions: Sequence[int], stretch: Responses, first: int, peers: Peers
) -> list[float]:
    """Return the times of the pages at these positions, in seconds since the epoch."""
    offsets = np.array(positions) - first
    here = (offsets >= 0) & (offsets < len(stretch.times))
    times = np.zeros(len(offsets), np.int64)
    times[here] = stretch.times[offsets[here]]
    seconds: list[float] = (np.sum(await everywhere(peers, times), axis=0) / 1e6).tolist()
    return seconds


def _sent_at(times: Sequence[float], sent: Sequence[Sent]) -> list[float]:
    """Return how many URLs all ranks had sent at each time."""
    total = np.zeros(len(times), np.int64)
    for one in sent:
        total += one.urls[np.searchsorted(one.when, times, side="right") - 1].astype(np.int64)
    return total.astype(float).tolist()
