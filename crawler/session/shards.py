"""Reads the logs of a session fast, to resume the session.

Each rank reads a share of the log files once. Python looks at the row of each page, but links stay
keys in numpy arrays. Afterwards, the URLs of the few links that must still be fetched are read.
"""

from array import array
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from crawler import url
from crawler.ports import (
    COOKIES_LOST,
    OUT_OF_SCOPE,
    REDIRECT,
    REQUISITE,
    CrawlUrl,
    Names,
    PageRow,
    requisite,
)
from crawler.reading.declared import DeclaredSitemaps
from crawler.session.log import (
    LoggedPage,
    LoggedSitemaps,
    Torn,
    log_files,
    rank_of,
    read_page,
    read_placed,
)
from crawler.session.retried import has_failed

Keys = npt.NDArray[np.uint64]

_STEP: Final = 500  # pages read in one step, which takes a few milliseconds
_CHUNK: Final = 1 << 21  # links whose keys are sorted and made unique at a time
_REQUISITE_BYTES: Final = 250  # of the name of a requisite in a table, about
_OFFSETS: Final = 1 << 48  # more than a log file has bytes


class LogFile(NamedTuple):
    """A log file, with its size at one moment."""

    path: Path
    rank: int  # the rank that wrote the file
    bytes: int


def log_sizes(session: Path) -> list[LogFile]:
    """Return the log files of all ranks, as they are now."""
    return [LogFile(path, rank_of(path), path.stat().st_size) for path in log_files(session)]


def shares(files: Iterable[LogFile], ranks: int) -> list[list[Path]]:
    """Return the log files that each rank reads.

    A rank reads its own files. A file of a rank that doesn't exist any more goes to the rank that
    has the least to read.
    """
    loads, paths = [0] * ranks, [list[Path]() for _ in range(ranks)]
    for file in sorted(files, key=lambda file: (file.rank >= ranks, file.path)):
        reader = file.rank if file.rank < ranks else loads.index(min(loads))
        loads[reader] += file.bytes
        paths[reader].append(file.path)
    return paths


# A page; its wanted links as (key, URL, flags); and the keys of all its links, if asked for.
FoundLinks = tuple[CrawlUrl, list[tuple[int, str, int]], list[int]]


class LogShard:
    """The content of some log files. First `read` it to the end, then ask for links by their keys.

    It takes about 17 bytes for each page, 12 bytes for each different link, and the name of each
    different requisite.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        note_page: Callable[[PageRow], bool],
        *,
        skipped: int,
        retried: Collection[str] = (),
        correct: Callable[[LoggedPage], LoggedPage] | None = None,
    ) -> None:
        """`note_page(row)` is called for each row; it returns whether its links are followed.

        Links with any of the flags `skipped` are never followed. Pages with one of the failures
        `retried` count as not fetched. `correct` corrects the flags of a
        page's links (`joined.Correction`).
        """
        self.sitemaps: list[str] = []  # URLs of sitemaps that no page links to
        self.requisites: dict[str, int] = {}  # names of requisites, with their hops
        self.torn: list[Torn] = []  # the unusable tails of files
        self.declared = DeclaredSitemaps()
        self._note_page = note_page
        self._skipped = skipped
        self._retried = frozenset(retried)
        self._correct = correct or (lambda page: page)
        self.paths = paths
        self._files = [path.open("rb") for path in paths]
        self._keys = array("Q")  # the keys of pages
        self._counted = bytearray()  # for each page, whether it is fetched for good
        self._places = array("Q")  # where each page stands: file number * _OFFSETS + offset
        self._links = _FirstPlaces()

    @property
    def page_keys(self) -> Keys:
        """Return the `LoggedPage.request_key` of the pages, in the order of the logs.

        Pages that are to be fetched again are left out.
        """
        counted = np.frombuffer(self._counted, np.bool_)
        return np.frombuffer(self._keys, np.uint64)[counted]

    @property
    def link_keys(self) -> Keys:
        """Return all keys of followed links and all `LoggedPage.return_key`, sorted, each once."""
        return self._links.keys

    def are(self, paths: Container[Path]) -> bool:
        """Whether these are all of the log files."""
        return all(path in paths for path in self.paths)

    def leave_out(self, paths: Container[Path]) -> None:
        """Don't read these files. Call this before `read`."""
        for file in self._files:
            file.close()
        self.paths = [path for path in self.paths if path not in paths]
        self._files = [path.open("rb") for path in self.paths]

    def read(self) -> Iterator[None]:
        """Read the files, in steps of a few milliseconds."""
        chunk = _Chunk(0)
        for number, path in enumerate(self.paths):
            for offset, entry in read_placed(path):
                if isinstance(entry, LoggedPage):
                    self._keys.append(entry.request_key)
                    self._counted.append(not has_failed(entry.row, self._retried))
                    self._places.append(number * _OFFSETS + offset)
                    follows = self._note_page(entry.row) or bool(
                        entry.flags and entry.flags[0] & REDIRECT
                    )
                    chunk.add(self._correct(entry), follows=follows)
                    if entry.packed_requisites:
                        self._note_requisites(entry)
                    if entry.sitemaps_of is not None:
                        self._declare(entry.keys.tolist(), entry.sitemaps_of)
                    if len(chunk.flags) >= _CHUNK:
                        self._links.add(*chunk.unique(self._skipped))
                        chunk = _Chunk(len(self._keys))
                    if len(self._keys) % _STEP == 0:
                        yield
                elif isinstance(entry, Torn):
                    self.torn.append(entry)
                elif isinstance(entry, LoggedSitemaps):
                    self.sitemaps += entry.urls
                    self._declare(map(url.own_key, entry.urls), entry.authority)
        self._links.add(*chunk.unique(self._skipped))
        self._links.settle()

    def _declare(self, sitemaps: Iterable[int], names: Names) -> None:
        for key in sitemaps:
            self.declared.declare(key, names)

    def _note_requisites(self, page: LoggedPage) -> None:
        hops = page.row.hops + 1 if page.row.role == REQUISITE else 1
        for address in page.requisites:
            self.requisites.setdefault(requisite(address), hops)

    def row(self, page: int) -> PageRow:
        """Return the row of a page, by its number in the order of the logs."""
        return self._page(page).row

    def links(self, wanted: npt.NDArray[np.bool_], *, every: bool = False) -> Iterator[FoundLinks]:
        """Yield the links of `link_keys` that are wanted, page by page.

        A link is given at the page where it was found first. With `every`, it is given at each page
        where it was found, which takes as long as the reading.
        """
        pages = self._links.places[wanted]
        keys = self._links.keys[wanted]
        if every:
            here = set(keys.tolist())
            for number in range(len(self._keys)):
                yield self._found(number, here, every=True)
            return
        order = np.argsort(pages, kind="stable")
        keys, pages = keys[order], pages[order]
        bounds = [*np.flatnonzero(np.diff(pages, prepend=-1)).tolist(), len(pages)]
        for start, end in pairwise(bounds):
            yield self._found(int(pages[start]), set(keys[start:end].tolist()))

    def _found(self, number: int, wanted: set[int], *, every: bool = False) -> FoundLinks:
        page = self._page(number)
        row = page.row
        source = CrawlUrl(row.key, row.url, row.site, row.hops, page.chain)
        links = zip(page.keys.tolist(), page.urls, page.flags, strict=True)
        targets: list[int] = []
        if every:
            targets = page.keys[np.frombuffer(page.flags, np.uint8) & OUT_OF_SCOPE == 0].tolist()
        returns = page.return_key in wanted
        found = [link for link in links if returns or link[0] in wanted]
        if returns or page.gives_cookies:
            found = [(key, text, flags | COOKIES_LOST) for key, text, flags in found]
        return source, found, targets

    def nbytes(self) -> int:
        """The bytes of memory that the keys of pages and links take, with their places."""
        pages = (self._keys.itemsize + self._places.itemsize + 1) * len(self._keys)
        requisites = _REQUISITE_BYTES * len(self.requisites)
        return pages + requisites + self._links.nbytes()

    def close(self) -> None:
        """Close the log files, and forget all pages and links."""
        for file in self._files:
            file.close()
        self._keys, self._places, self._links = array("Q"), array("Q"), _FirstPlaces()
        self.requisites = {}

    def _page(self, number: int) -> LoggedPage:
        file, offset = divmod(self._places[number], _OFFSETS)
        return self._correct(read_page(self._files[file], offset))


class _Chunk:
    """Collects the links of pages, from the page with the number `first` on."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.keys = bytearray()
        self.flags = bytearray()
        self.counts = array("I")  # how many links each page has

    def add(self, page: LoggedPage, *, follows: bool) -> None:
        before = len(self.flags)
        if follows:
            self.keys += page.packed_keys
            self.flags += page.flags
            return_key = page.return_key
            if return_key is not None:
                self.keys += return_key.to_bytes(8, "little")
                self.flags += page.flags
        self.counts.append(len(self.flags) - before)

    def unique(self, skipped: int) -> tuple[Keys, npt.NDArray[np.uint32]]:
        """Return the keys of links without the flags `skipped`, and the first page of each key."""
        counts = np.frombuffer(self.counts, np.uint32)
        pages = np.arange(self.first, self.first + len(counts), dtype=np.uint32).repeat(counts)
        kept = (np.frombuffer(self.flags, np.uint8) & skipped) == 0
        return _firsts(np.frombuffer(self.keys, "<u8")[kept], pages[kept])


class _FirstPlaces:
    """Different keys, each with its first place. They are sorted once `settle` has been called.

    The keys are kept in sorted runs of falling length, so that each key is merged only a few times.
    """

    def __init__(self) -> None:
        self._runs: list[tuple[Keys, npt.NDArray[np.uint32]]] = []

    @property
    def keys(self) -> Keys:
        return self._runs[0][0]

    @property
    def places(self) -> npt.NDArray[np.uint32]:
        return self._runs[0][1]

    def nbytes(self) -> int:
        return sum(keys.nbytes + places.nbytes for keys, places in self._runs)

    def add(self, keys: Keys, places: npt.NDArray[np.uint32]) -> None:
        """Add a sorted run. Its places must come after those of all runs before."""
        self._runs.append((keys, places))
        while len(self._runs) > 1 and len(self._runs[-2][0]) < 2 * len(self._runs[-1][0]):
            self._merge()

    def settle(self) -> None:
        while len(self._runs) > 1:
            self._merge()

    def _merge(self) -> None:
        keys, places = zip(*self._runs[-2:], strict=True)
        self._runs[-2:] = [_firsts(np.concatenate(keys), np.concatenate(places))]


def among(keys: Keys, known: Keys) -> npt.NDArray[np.bool_]:
    """Return for each key whether it is among the known ones, which must be sorted."""
    if not len(known):
        return np.zeros(len(keys), np.bool_)
    at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    found: npt.NDArray[np.bool_] = known[at] == keys
    return found


def deal(asked: Sequence[Keys]) -> list[npt.NDArray[np.bool_]]:
    """Give each key to one of the ranks that asked for it.

    `asked`: the keys of each asking rank, different and sorted. Returns, for each rank, which of
    its keys it gets. The upper half of a key chooses among the ranks that asked for the key. (The
    whole key, modulo the number of ranks, has chosen the rank that calls this.)
    """
    keys = np.concatenate(asked)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = np.flatnonzero(np.diff(keys, prepend=~keys[:1]))
    askers = np.diff(starts, append=len(keys)).astype(np.uint64)
    turn = (keys[starts] >> np.uint64(32)) % askers
    given = np.zeros(len(keys), np.bool_)
    given[order[starts + turn.astype(np.intp)]] = True
    return np.split(given, np.cumsum([len(its) for its in asked])[:-1])


def _firsts(keys: Keys, places: npt.NDArray[np.uint32]) -> tuple[Keys, npt.NDArray[np.uint32]]:
    """Return the different keys, sorted, and the first place of each.

    This is faster than np.unique, because a stable sort of two sorted runs only merges them.
    """
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    new = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    return keys[new], places[order[new]]
