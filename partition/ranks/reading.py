"""Reads sessions on several ranks. Each rank then has all links of the pages that it holds.

A rank holds the pages whose keys belong to it (`exchange.owners`). A page that was fetched has rows
in the table `pages`. A page that was never fetched is the target of a link. Links within a site
cost nothing in a model of sites, so for such a model they are dropped at once. The rules of
`graph.from_sessions` apply.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from xxhash import xxh3_64_intdigest

from crawler.dataset import read_batches, table_files, table_path
from crawler.ports import Peers
from partition import politeness
from partition.arrays import Ids, Ints, Keys, find
from partition.graph.batches import Share, batches, lengths
from partition.graph.sessions import (
    OUT_OF_SCOPE,
    kind_of_site,
    latest,
    strange_source,
    without_requisites,
)
from partition.graph.sites import Sites
from partition.politeness import FetchTimes
from partition.ranks.exchange import (
    Columns,
    agreed,
    answered,
    everywhere,
    joined,
    owners,
    routed,
    split,
)

_LEAST_MERGED = 1 << 20  # rows that are collected before repetitions are removed
_NOT_FOLLOWED = np.int32(-1)  # in place of a URL's length


def site_key(name: str) -> int:
    """Return the hash of a site's name. Ranks use it in place of the name."""
    return xxh3_64_intdigest(name.encode())


class Distinct:
    """Rows without repetitions, in the order of their first columns.

    Two rows are equal if they agree in the first `key_columns` columns.
    """

    def __init__(self, key_columns: int, *kinds: npt.DTypeLike) -> None:
        self._key_columns = key_columns
        self._rows: Columns = tuple(np.empty(0, kind) for kind in kinds)
        self._new: list[Columns] = []
        self._waiting = 0

    def add(self, *columns: npt.NDArray[np.generic]) -> None:
        """Add rows. Repetitions are removed at the latest when the rows have doubled."""
        self._new.append(columns)
        self._waiting += len(columns[0])
        if self._waiting > max(_LEAST_MERGED, len(self._rows[0])):
            self.rows()

    def rows(self) -> Columns:
        """Return the columns of the distinct rows."""
        if self._new:
            rows = joined([self._rows, *self._new])
            self._new, self._waiting = [], 0
            order = np.lexsort(rows[: self._key_columns][::-1])
            differs = np.zeros(len(order), bool)
            differs[:1] = True
            for column in rows[: self._key_columns]:
                differs[1:] |= column[order[1:]] != column[order[:-1]]
            self._rows = tuple(column[order[differs]] for column in rows)
        return self._rows


@dataclass(slots=True, eq=False)
class Held:
    """The pages that a rank holds, and their links, those within sites only for some models."""

    key: Keys  # of the pages that were fetched, ascending
    session: Ids  # the session that fetched each of them last
    bytes: Ints
    site: Keys  # the hash of the name of each page's site
    sites: Sites  # names that this rank has read, also of pages that other ranks hold
    # Pages that were never fetched: key, site.
    unfetched: Distinct = field(default_factory=lambda: Distinct(1, np.uint64, np.uint64))
    # Links: index of the source in `key`, key of the target, its site, the length of its URL.
    links: Distinct = field(
        default_factory=lambda: Distinct(2, np.int32, np.uint64, np.uint64, np.int32)
    )

    def find(self, keys: Keys) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Return the index of each key in `key`, and whether it is there."""
        if not len(self.key):
            return np.zeros(len(keys), np.int64), np.zeros(len(keys), bool)
        return find(self.key, keys)

    def pages(self) -> Columns:
        """Return the keys, the sites and the bytes of all pages: first those that were fetched."""
        keys, sites = self.unfetched.rows()
        return (
            np.append(self.key, keys),
            np.append(self.site, sites),
            np.append(self.bytes, np.zeros(len(keys), np.int64)),
        )

    def places(self, keys: Keys) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Return the index of each key in `pages`, and whether this rank holds such a page."""
        at, known = self.find(keys)
        unfetched = self.unfetched.rows()[0]
        if len(unfetched):
            others = np.flatnonzero(~known)
            places, found = find(unfetched, keys[others])
            at[others], known[others] = len(self.key) + places, found
        return at, known

    def sites_of(self, keys: Keys, guesses: Keys) -> Keys:
        """Return the sites of targets that this rank holds.

        `guesses` are their sites by their URLs. A target that wasn't fetched is a page from now
        on, and its guess is right.
        """
        at, fetched = self.find(keys)
        found = guesses.copy()
        found[fetched] = self.site[at[fetched]]
        self.unfetched.add(keys[~fetched], guesses[~fetched])
        return found


class _SiteKeys:
    """The hashes of the names that `Sites` has numbered."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        self._keys = np.empty(0, np.uint64)

    def of(self, numbers: Ids) -> Keys:
        """Return the hash of the name of each number."""
        if new := self._sites.names[len(self._keys) :]:
            more = np.fromiter(map(site_key, new), np.uint64, len(new))
            self._keys = np.append(self._keys, more)
        return self._keys[numbers]


async def read(folders: Sequence[Path], peers: Peers, *, inside: bool = False) -> Held:
    """Read the `tables` folders of sessions, oldest first, together. Raises UserError.

    Only with `inside`, the links within sites are kept, too.
    """
    kind = await agreed(peers, lambda: kind_of_site(folders))
    sites = Sites(domains=kind == "domain")
    keys = _SiteKeys(sites)
    held = await _fetched(folders, sites, keys, peers, learns=kind != "authority")
    for number, folder in enumerate(folders):
        await _links(held, keys, number, table_path(folder, "links"), peers, inside=inside)
    return held


async def fetch_times(folders: Sequence[Path], peers: Peers) -> FetchTimes:
    """Return the fetch times in the `tables` folders of sessions at rank 0, and none elsewhere.

    Each rank reads some of the files of the tables.
    """
    files = [file for folder in folders for file in table_files(table_path(folder, "pages"))]
    own = files[peers.rank :: peers.size]
    batches_of = (read_batches(file, politeness.TIMES) for file in own)
    summed: dict[str, tuple[float, int]] = {}
    for of_rank in await peers.gather(politeness.fetch_times(chain.from_iterable(batches_of))):
        for site, (seconds, number) in of_rank.items():
            before = summed.get(site, (0.0, 0))
            summed[site] = before[0] + seconds, before[1] + number
    return summed


async def _fetched(
    folders: Sequence[Path], sites: Sites, keys: _SiteKeys, peers: Peers, *, learns: bool
) -> Held:
    """Read the pages that were fetched. With `learns`, all ranks learn the sites of authorities."""
    names = ["key", "site", "bytes", "time", *["url"] * learns]
    share = Share(peers.rank, peers.size)
    empty = tuple(np.empty(0, kind) for kind in (np.uint64, np.int32, np.float64, np.int64))
    rows: list[Columns] = [(*empty, np.empty(0, np.uint64))]
    learned: dict[str, str] = {}
    for number, folder in enumerate(folders):

        def rounds(number: int = number, folder: Path = folder) -> Iterator[list[Columns]]:
            path = table_path(folder, "pages")
            for every in batches(path, *names, optional=["role"], share=share):
                batch = without_requisites(every)
                if learns:
                    sites.learn(batch["url"], batch["site"])
                key = batch["key"].to_numpy()
                columns = (
                    key,
                    np.full(len(batch), number, np.int32),
                    batch["time"].to_numpy(),
                    batch["bytes"].to_numpy(),
                    keys.of(sites.numbers(batch["site"])),
                )
                yield split(columns, owners(key, peers.size), peers.size)

        async for received in routed(peers, rounds()):
            rows += received
        if learns:
            for one in await everywhere(peers, sites.forget()):
                learned |= one
    sites.adopt(learned)
    columns = joined(rows)
    del rows
    key, session, _, size, site = (column[latest(*columns[:3])] for column in columns)
    return Held(key, session, size.astype(np.int64), site, sites)


async def _links(
    held: Held, keys: _SiteKeys, number: int, path: Path, peers: Peers, *, inside: bool
) -> None:
    """Read the links of session `number` from their table."""
    size = peers.size
    is_strange = False

    def rounds() -> Iterator[list[Columns]]:
        names = "source_key", "target_key", "target_url", "flags"
        for batch in batches(path, *names, share=Share(peers.rank, size)):
            is_followed = batch["flags"].to_numpy() & OUT_OF_SCOPE == 0
            wanted = np.flatnonzero(is_followed)
            source = batch["source_key"].to_numpy()
            target, first, of = np.unique(
                batch["target_key"].to_numpy()[wanted], return_index=True, return_inverse=True
            )
            texts = batch["target_url"].take(pa.array(wanted[first]))
            site, length = keys.of(held.sites.of(texts)), lengths(texts)
            # Links that aren't followed are only checked, so each of their sources is sent once.
            others = np.unique(source[~is_followed])
            nothing = np.zeros(len(others), np.uint64)
            columns = (
                np.append(source[wanted], others),
                np.append(target[of], nothing),
                np.append(site[of], nothing),
                np.append(length[of], np.full(len(others), _NOT_FOLLOWED)),
            )
            yield split(columns, owners(columns[0], size), size)

    async for received in routed(peers, rounds()):
        source_key, target, guess, length = joined(received)
        source, known = held.find(source_key)
        is_strange = is_strange or not known.all()
        known &= length != _NOT_FOLLOWED
        known[known] = held.session[source[known]] == number
        source, target, guess = source[known].astype(np.int32), target[known], guess[known]
        site = await answered(peers, held.sites_of, target, guess)
        across = np.flatnonzero(inside | (held.site[source] != site))
        held.links.add(source[across], target[across], site[across], length[known][across])

    def check() -> None:
        if is_strange:
            raise strange_source(path)

    await agreed(peers, check)
