"""Finds the targets of links that have no page, or a broken page. All processes do this together.

Each process reads the links of its units, which are files of the tables. Each key has a *holder*:
the process whose rank is the key modulo the number of processes. The holder knows whether there is
a page with the key. A process tells the holder of a target what its links say of the target, unless
the process itself has a page with this key.

Memory grows by 17 bytes for each page of a process, by 25 for each target without a page that it
holds, by 13 for each such target that it links to first, and by the rows of broken pages.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crawler import arrow, config, session
from crawler.arrays import distinct
from crawler.dataset import read_batches, read_table
from crawler.ports import NOFOLLOW, OUT_OF_SCOPE, REDIRECT, Failure, Peers
from crawler.report.measures import position

_Keys = npt.NDArray[np.uint64]
_Codes = npt.NDArray[np.uint8]
_Mask = npt.NDArray[np.bool_]
_Rows = list[dict[str, Any]]
_ByKey = list[tuple[int, dict[str, Any]]]

# What a link says of its target. Of several links to one target, the smallest code counts.
WAITING, TOO_FAR, UNFOLLOWED, KEPT_OUT, FETCHED = range(5)
_SOURCES: Final = 3  # pages that link to a broken one, at most
_NUMBER_BITS: Final = np.uint64(44)  # of a place: the rank, then the number of the link there
_BROKEN_STATUSES: Final = (404, 410)
_BROKEN_ERRORS: Final = (
    *(Failure.BAD_URL, Failure.DNS_NOT_FOUND, Failure.UNREACHABLE, Failure.REFUSED),
    *(Failure.CONNECT_TIMEOUT, Failure.DISCONNECTED, Failure.TIMEOUT, Failure.TLS),
    *(Failure.BAD_HTTP, Failure.BAD_REDIRECT, Failure.REDIRECT_LOOP, Failure.TOO_MANY_REDIRECTS),
)


class UnitTables(NamedTuple):
    """The files of a unit."""

    pages: Path
    links: Path


class Found(NamedTuple):
    """Targets of links. The arrays have an element for each target. Holders sort them by key."""

    keys: _Keys
    codes: _Codes
    places: _Keys  # of the first link to it
    outside: npt.NDArray[np.int64]  # how many links to it have the flag OUT_OF_SCOPE

    def some(self, which: _Mask) -> "Found":
        """Return the targets that `which` is true for."""
        return Found(self.keys[which], self.codes[which], self.places[which], self.outside[which])


_NOTHING: Final = Found(
    np.zeros(0, np.uint64), np.zeros(0, np.uint8), np.zeros(0, np.uint64), np.zeros(0, np.int64)
)


class Told(NamedTuple):
    """Targets to which a process has the first link, in the order of these links."""

    links: npt.NDArray[np.int64]  # the numbers of the links, counted over the process's units
    codes: _Codes
    outside: npt.NDArray[np.int64]

    def some(self, which: slice) -> "Told":
        """Return the targets of a slice."""
        return Told(self.links[which], self.codes[which], self.outside[which])


class Targets(NamedTuple):
    """What `find_targets` returns. Only the first process gets `unknown_seeds` and `broken`."""

    told: Told  # targets without a page, and others with links that are flagged OUT_OF_SCOPE
    unknown_seeds: list[int]  # the numbers of seeds without a page and without a link to them
    broken: _Rows  # pages that links lead to, the most linked-to first


async def find_targets(
    units: Sequence[UnitTables], settings: config.Config, seeds: _Keys, peers: Peers
) -> Targets:
    """Return the targets of links that have no page, or a broken page.

    All processes call this together, each with its units. `seeds`: the keys of the seeds.
    """
    own, broken = _read_pages(units)
    holder, own_broken = await _meet_pages(own, broken, peers)
    links = _Links(units, settings, own, own_broken, peers.rank)
    await _ask_holders(links, holder, peers)

    found = holder.found()
    ranks = found.places >> _NUMBER_BITS
    to_tell = [found.some(ranks == rank) for rank in range(peers.size)]
    told = _in_order_of_links(await peers.alltoall(to_tell))
    unknown = np.flatnonzero(_held(seeds, peers)[peers.rank] & ~holder.knows(seeds))
    unknown_seeds = sorted(chain(*await peers.gather(unknown.tolist())))
    linked = links.broken.with_texts(units)
    given = [[one for one in linked if one.key % peers.size == at] for at in range(peers.size)]
    linked_rows = holder.linked_rows(chain(*await peers.alltoall(given)))
    all_rows = chain(*await peers.gather(linked_rows))
    return Targets(
        told, unknown_seeds, sorted(all_rows, key=lambda row: (-row["links"], row["url"]))
    )


async def _meet_pages(own: _Keys, broken: _ByKey, peers: Peers) -> tuple["_Holder", _Keys]:
    """Tell the holders of pages which pages there are.

    Returns what this process knows as a holder, and which of its own keys have a broken page, here
    or at another process.
    """
    by_holder = [own[its] for its in _held(own, peers)]
    received = await peers.alltoall(by_holder)
    rows = [[one for one in broken if one[0] % peers.size == at] for at in range(peers.size)]
    holder = _Holder(received, await peers.alltoall(rows))
    answers = await peers.alltoall([holder.are_broken(keys) for keys in received])
    return holder, _chosen(by_holder, answers)


async def _ask_holders(links: "_Links", holder: "_Holder", peers: Peers) -> None:
    """Tell the holders of targets what links say of them.

    A piece of the links is told at a time, because all of them may not fit in memory.
    """
    pieces = links.pieces()
    while True:
        piece = next(pieces, None)
        given: list[Found | None] = [None] * peers.size
        if piece is not None:
            given = [piece.found.some(its) for its in _held(piece.found.keys, peers)]
        asked = await peers.alltoall(given)
        if all(one is None for one in asked):  # a process that has a piece asks all others
            return
        answers = await peers.alltoall([None if one is None else holder.take(one) for one in asked])
        if piece is not None:
            broken = _chosen([one.keys for one in given if one is not None], answers)
            to_broken = session.among(piece.targets, broken)
            links.broken.add(piece.sources[to_broken], piece.targets[to_broken])


def _held(keys: _Keys, peers: Peers) -> list[_Mask]:
    """Return, for each process, which of the keys it holds."""
    holders = keys % np.uint64(peers.size)
    return [holders == rank for rank in range(peers.size)]


def _chosen(keys: Sequence[_Keys], which: Sequence[_Mask | None]) -> _Keys:
    """Return the chosen ones of several arrays of keys, sorted."""
    pairs = zip(keys, which, strict=True)
    return np.sort(np.concatenate([its[chosen] for its, chosen in pairs if chosen is not None]))


def _in_order_of_links(received: Sequence[Found]) -> Told:
    _, codes, places, outside = (np.concatenate(columns) for columns in zip(*received, strict=True))
    links = (places & ((np.uint64(1) << _NUMBER_BITS) - np.uint64(1))).astype(np.int64)
    order = np.argsort(links)
    return Told(links[order], codes[order], outside[order])


def _read_pages(units: Sequence[UnitTables]) -> tuple[_Keys, _ByKey]:
    """Return the distinct keys of the pages of these units, sorted, and the broken pages."""
    keys, broken = [np.zeros(0, np.uint64)], _ByKey()
    for unit in units:
        for batch in read_batches(unit.pages, ["url", "key", "status", "error"]):
            keys.append(batch["key"].to_numpy())
            gone = arrow.is_in(batch["status"], pa.array(_BROKEN_STATUSES, pa.int16()))
            has_error = arrow.is_in(batch["error"], pa.array(_BROKEN_ERRORS))
            failed = arrow.and_(arrow.is_null(batch["status"]), has_error)
            rows = arrow.filter_(batch, arrow.or_(gone, failed)).to_pylist()
            broken += [(row.pop("key"), row) for row in rows]
    return distinct(np.concatenate(keys)), broken


class _Piece(NamedTuple):
    """What some links of a process say of targets that this process may have no page of."""

    found: Found
    sources: _Keys  # the pages that the links stand on
    targets: _Keys


class _Links:
    """The links of a process."""

    def __init__(
        self,
        units: Sequence[UnitTables],
        settings: config.Config,
        own: _Keys,
        own_broken: _Keys,
        rank: int,
    ) -> None:
        """`own`: the keys of the process's pages, sorted; `own_broken`: those of broken ones."""
        self.broken = _BrokenLinks()
        self._units = units
        self._own = own
        self._is_broken = session.among(own, own_broken)
        self._first_place = np.uint64(rank) << _NUMBER_BITS
        self._most_hops = min(settings.scope.most_hops, settings.traps.max_depth or inf)
        self._unfollowed = NOFOLLOW if settings.robots.obey_nofollow else 0

    def pieces(self) -> Iterator[_Piece]:
        """Read the links. Those to broken pages of this process are added to `broken`."""
        number = 0  # of the first link of a batch
        for unit in self._units:
            far = _far_pages(unit.pages, self._most_hops)
            for batch in read_batches(unit.links, ["source_key", "target_key", "flags"]):
                sources, targets, flags = (column.to_numpy() for column in batch.columns)
                page = position(self._own, targets)
                lost = np.flatnonzero(page >= 0)
                lost = lost[self._is_broken[page[lost]]]
                self.broken.add(sources[lost], targets[lost])
                outside = flags & OUT_OF_SCOPE != 0
                asked = np.flatnonzero((page < 0) | outside)
                codes = self._codes(flags[asked], session.among(sources[asked], far))
                places = self._first_place + (number + asked).astype(np.uint64)
                found = Found(targets[asked], codes, places, outside[asked].astype(np.int64))
                foreign = np.flatnonzero(page < 0)
                yield _Piece(_different(found), sources[foreign], targets[foreign])
                number += len(flags)

    def _codes(self, flags: _Codes, is_far: _Mask) -> _Codes:
        codes = np.full(len(flags), WAITING, np.uint8)
        codes[is_far & (flags & REDIRECT == 0)] = TOO_FAR
        codes[flags & OUT_OF_SCOPE != 0] = KEPT_OUT
        codes[(flags & OUT_OF_SCOPE != 0) & (flags & self._unfollowed != 0)] = UNFOLLOWED
        return codes


def _far_pages(pages: Path, most_hops: float) -> _Keys:
    """Return the sorted keys of the pages whose links are too many hops from a seed."""
    if most_hops == inf:
        return np.zeros(0, np.uint64)
    table = read_table(pages, ["key", "hops"])
    return np.sort(table["key"].to_numpy()[table["hops"].to_numpy() >= most_hops])


def _different(found: Found) -> Found:
    """Return each target once, sorted by key. The targets given may be in any order."""
    order = np.argsort(found.keys, kind="stable")
    keys = found.keys[order]
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])
    return Found(
        keys[starts],
        np.minimum.reduceat(found.codes[order], starts),
        np.minimum.reduceat(found.places[order], starts),
        np.add.reduceat(found.outside[order], starts),
    )


class _Holder:
    """What a process knows of the keys that it holds."""

    def __init__(self, keys: Sequence[_Keys], broken: Sequence[_ByKey]) -> None:
        """`keys`: of the pages of each process; `broken`: its broken pages. The last row counts."""
        self._pages = distinct(np.concatenate(keys))
        self._rows = dict(chain(*broken))
        self._broken = np.sort(np.fromiter(self._rows, np.uint64, len(self._rows)))
        # Of falling length, so that each is merged only a few times.
        self._found: list[Found] = []

    def are_broken(self, keys: _Keys) -> _Mask:
        """Return which of the keys have a broken page."""
        return session.among(keys, self._broken)

    def take(self, found: Found) -> _Mask:
        """Take note of targets of links. Returns which of them are broken pages."""
        has_page = session.among(found.keys, self._pages)
        codes = np.where(has_page, np.uint8(FETCHED), found.codes)
        self._found.append(found._replace(codes=codes).some(~has_page | (found.outside > 0)))
        while len(self._found) > 1 and len(self._found[-2].keys) < 2 * len(self._found[-1].keys):
            self._merge()
        return self.are_broken(found.keys)

    def found(self) -> Found:
        """Return the targets without a page, and the others with links out of scope."""
        while len(self._found) > 1:
            self._merge()
        return self._found[0] if self._found else _NOTHING

    def _merge(self) -> None:
        both = map(np.concatenate, zip(*self._found[-2:], strict=True))
        self._found[-2:] = [_different(Found(*both))]

    def knows(self, keys: _Keys) -> _Mask:
        """Return which of the keys have a page, or a link to them."""
        return session.among(keys, self._pages) | session.among(keys, self.found().keys)

    def linked_rows(self, linked: Iterable["_LinkedTo"]) -> _Rows:
        """Return the broken pages that links lead to, with these links."""
        for key, links, sources in linked:
            row = self._rows[key]
            row["links"] = row.get("links", 0) + links
            row["linked_from"] = [*row.get("linked_from", ()), *sources][:_SOURCES]
        return [row for row in self._rows.values() if "links" in row]


class _LinkedTo(NamedTuple):
    """The links to a broken page."""

    key: int
    links: int
    sources: list[str]  # the URLs of the first pages that link to it


class _BrokenLinks:
    """Counts links to broken pages."""

    def __init__(self) -> None:
        self._links = Counter[int]()  # by key of the broken page
        self._sources: defaultdict[int, list[int]] = defaultdict(list)

    def add(self, sources: _Keys, targets: _Keys) -> None:
        """Add links, all of which lead to broken pages."""
        order = np.argsort(targets, kind="stable")
        sources = sources[order]
        starts = np.unique(targets[order], return_index=True, return_counts=True)
        for key, start, count in zip(*(column.tolist() for column in starts), strict=True):
            self._links[key] += count
            its = self._sources[key]
            if len(its) < _SOURCES:
                its += sources[start : start + min(count, _SOURCES - len(its))].tolist()

    def with_texts(self, units: Sequence[UnitTables]) -> list[_LinkedTo]:
        """Return the links to each broken page. `units`: those that have the linking pages."""
        wanted = distinct(np.array(list(chain(*self._sources.values())), np.uint64))
        texts = dict[int, str]()
        for unit in units if len(wanted) else ():
            for batch in read_batches(unit.pages, ["url", "key"]):
                among = session.among(batch["key"].to_numpy(), wanted)
                its = arrow.filter_(batch, arrow.column(among))
                texts.update(zip(its["key"].to_pylist(), its["url"].to_pylist(), strict=True))
        return [
            _LinkedTo(key, links, [texts[source] for source in self._sources[key]])
            for key, links in self._links.items()
        ]
