"""Judges the requests of a session by several processes: each judges the sites that it holds.

A gap may lie between requests of two ranks. So each request goes to the process that holds its
site, and also to the one that holds its address, if addresses have clocks (`gaps`).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from crawler.ports import Asked, CrawlDelay, Peers
from crawler.session.gaps import Clock, Crowd, Gap, Requests
from crawler.session.log import Torn
from crawler.session.requests import Manners, read_promised, read_requests
from crawler.session.timeline import Promise
from crawler.session.together import everywhere, routed

_ROUND: Final = 50_000  # rows that a process reads before it sends them
_pack: Final = msgspec.msgpack.Encoder().encode
_unpack: Final = msgspec.msgpack.Decoder(list[tuple[int, Asked]]).decode


class _Asked(list[tuple[Asked, Promise]]):
    """Requests, with their promises. Other processes get them in a fifth of a list's time."""

    def __reduce__(self) -> tuple[Callable[[bytes, list[Promise]], "_Asked"], tuple[Any, ...]]:
        promises = {id(promise): promise for _, promise in self}
        numbers = {one: number for number, one in enumerate(promises)}
        packed = _pack([(numbers[id(promise)], asked) for asked, promise in self])
        return _unpacked, (packed, list(promises.values()))


def _unpacked(packed: bytes, promises: list[Promise]) -> _Asked:
    return _Asked([(asked, promises[number]) for number, asked in _unpack(packed)])


class _Rows(NamedTuple):
    """Rows for one process."""

    by_site: _Asked
    by_address: _Asked
    delays: list[tuple[CrawlDelay, Promise]]


class Judged(NamedTuple):
    """The findings about the sites that a process holds."""

    clocks: list[tuple[str, Clock]]  # by the name of the site
    crawl_delays: dict[str, float]  # by site; in seconds


async def judge_together(
    files: Sequence[Path],
    peers: Peers,
    place: Callable[[str], int],
    tell: Callable[[Gap | Crowd], None] = lambda _: None,
    tears: Callable[[Torn], None] = lambda _: None,
) -> Judged:
    """Judge all requests. `place` says which process holds a site, or an address.

    `files`: the request logs that this process reads. `tell` is called with each broken promise of
    the sites and addresses that this process holds, and `tears` with each torn tail of its files.
    Memory grows by 50 bytes for each request of these sites, and by the Crawl-delays of all sites.
    """
    sites, addresses = Requests(), Requests()
    for promise in chain(*await everywhere(peers, [*_promises(files)])):
        sites.meet(promise)
        addresses.meet(promise)
    async for received in routed(peers, _rounds(files, peers.size, place, tears)):
        for rows in received:
            for asked, promise in rows.by_site:
                sites.add(asked, promise)
            for asked, promise in rows.by_address:
                addresses.add(asked, promise)
            for delay, promise in rows.delays:
                sites.add_delay(delay, promise)
                addresses.add_delay(delay, promise)
    early = sum(await everywhere(peers, addresses.judge_addresses(tell)), Counter[str]())
    return Judged(list(sites.judge_sites(early, tell)), sites.crawl_delays())


def _promises(files: Sequence[Path]) -> Iterator[Promise]:
    for path in files:
        first = next(read_requests(path), None)
        if isinstance(first, Manners):
            yield first.promise


def _rounds(
    files: Sequence[Path], size: int, place: Callable[[str], int], tears: Callable[[Torn], None]
) -> Iterator[list[_Rows]]:
    """Yield the rows of files for each process, round by round."""
    rows, count = [_Rows(_Asked(), _Asked(), []) for _ in range(size)], 0
    for path in files:
        for row, promise in read_promised(path, tears):
            if isinstance(row, Asked):
                rows[place(row.site)].by_site.append((row, promise))
                if promise.by_address and row.address is not None:
                    rows[place(row.address)].by_address.append((row, promise))
            else:
                for its in rows:
                    its.delays.append((row, promise))
            count += 1
            if count == _ROUND:
                yield rows
                rows, count = [_Rows(_Asked(), _Asked(), []) for _ in range(size)], 0
    yield rows
