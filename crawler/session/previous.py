"""Looks up what an earlier session knows about a URL, for conditional requests and revisits."""

import logging
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from crawler.arrays import distinct
from crawler.ports import OUT_OF_SCOPE, Earlier, PageRow, Peers, has_page
from crawler.session.log import LoggedPage, log_files, read_log, read_page, read_placed
from crawler.session.together import Alone, everywhere, in_rounds, mine, routed, to_holders
from crawler.session.warc import is_whole, read_original

_LOG = logging.getLogger("crawler")
_OFFSETS = 1 << 48  # more than a log file has bytes
_ROUND = 100_000  # pages that a process reads before it routes them

Keys = npt.NDArray[np.uint64]


class Previous:
    """Finds whole pages of a session by URL key, and reads them from the logs. Use as a context.

    It takes 16 bytes for each page. Pages whose WARC file is missing are left out, because a
    revisit must name the record. A torn tail of a log is ignored.
    """

    def __init__(self, session: Path | None, keys: Keys, places: Keys) -> None:
        """`keys` and `places`: those of the pages, in any order. `session`: None for no pages.

        The place of a page is the number of its log file times _OFFSETS, and its offset there.
        """
        files = log_files(session) if session else []
        self._directories = [path.parent.parent for path in files]
        order = np.lexsort((places, keys))
        self._keys, self._places = keys[order], places[order]
        self._files = [path.open("rb") for path in files]
        self._warned: set[Path] = set()

    @classmethod
    def of_nothing(cls) -> Self:
        """Return one that finds no page."""
        return cls(None, np.zeros(0, np.uint64), np.zeros(0, np.uint64))

    @classmethod
    async def read(
        cls, session: Path, peers: Peers, owner: Callable[[PageRow], int | None]
    ) -> Self:
        """Read the logs of all ranks together, and keep what this process may need.

        Each process reads a share of the logs, and routes each page to the process that needs it:
        `owner(row)`, or all of them if that is None. Raises UserError for a log of another version.
        """
        keys, places = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)]
        async for received in routed(peers, _rounds(session, peers, owner)):
            for key, place in received:
                keys.append(key)
                places.append(place)
        return cls(session, np.concatenate(keys), np.concatenate(places))

    def __len__(self) -> int:
        return len(self._keys)

    def nbytes(self) -> int:
        """The bytes of memory that the places of the pages take."""
        return self._keys.nbytes + self._places.nbytes

    def find(self, key: int) -> Earlier | None:
        """Return the latest whole page of this URL, or None.

        A page with validators comes with its record (`Earlier.original`). If a server answers that
        such a page hasn't changed, only this record has the content. So this returns None if the
        record can't be read to its end. Then the page is fetched again.
        """
        if not self._keys.size:
            return None
        at = int(np.searchsorted(self._keys, np.uint64(key), side="right")) - 1
        if at < 0 or self._keys[at] != key:
            return None
        number, offset = divmod(int(self._places[at]), _OFFSETS)
        try:
            earlier = self._read(number, offset)
        except Exception as error:
            self._warn(Path(self._files[number].name), str(error))
            return None
        row = earlier.row
        if not (row.etag or row.last_modified):
            return earlier
        assert row.warc_offset is not None
        assert row.digest is not None
        original, reason = None, "the record has changed"
        try:
            if is_whole(earlier.warc_path, row.warc_offset):
                original = read_original(earlier.warc_path, row.warc_offset, row.digest)
        except (OSError, KeyError) as error:
            reason = str(error)
        if original is None:
            self._warn(earlier.warc_path, reason)
            return None
        return replace(earlier, original=original)

    def _read(self, number: int, offset: int) -> Earlier:
        page = read_page(self._files[number], offset)
        assert page.row.warc_file is not None
        return Earlier(
            page.row,
            list(zip(page.urls, page.flags, strict=True)),
            self._directories[number] / page.row.warc_file,
            anchors=page.anchors,
            requisites=tuple(page.requisites),
        )

    def _warn(self, path: Path, reason: str) -> None:
        """Warn once about each file that can't be relied on."""
        if path not in self._warned:
            self._warned.add(path)
            _LOG.warning("previous session: %s: %s; its pages are fetched again", path, reason)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the logs."""
        for file in self._files:
            file.close()


def _rounds(
    session: Path, peers: Peers, owner: Callable[[PageRow], int | None]
) -> Iterator[list[tuple[Keys, Keys]]]:
    """Yield the keys and places of whole pages for each process, round by round."""
    found = [(array("Q"), array("Q")) for _ in range(peers.size)]
    count = 0
    for number, path in mine(list(enumerate(log_files(session))), peers):
        stored = {file.name for file in path.parent.parent.glob("*.warc.gz")}
        for offset, entry in read_placed(path):
            if (
                isinstance(entry, LoggedPage)
                and _is_whole(entry.row)
                and entry.row.warc_file in stored
            ):
                rank = owner(entry.row)
                for keys, places in found if rank is None else [found[rank]]:
                    keys.append(entry.row.key)
                    places.append(number * _OFFSETS + offset)
                count += 1
                if count % _ROUND == 0:
                    yield _as_arrays(found)
                    found = [(array("Q"), array("Q")) for _ in range(peers.size)]
    yield _as_arrays(found)


def _as_arrays(found: "Sequence[tuple[array[int], array[int]]]") -> list[tuple[Keys, Keys]]:
    return [
        (np.frombuffer(keys, np.uint64), np.frombuffer(places, np.uint64)) for keys, places in found
    ]


def read_links(
    session: Path,
    correct: Callable[[LoggedPage], LoggedPage] = lambda page: page,
    peers: Peers | None = None,
) -> tuple[Keys, Keys]:
    """Return the links that a session has followed: the keys of their sources and their targets.

    They take 16 bytes for each link. `correct` corrects the flags of a page's links
    (`joined.Correction`). With `peers`, each process reads a share of the logs. Raises UserError
    for a log of another version.
    """
    sources, degrees, targets = array("Q"), array("Q"), bytearray()
    for path in mine(log_files(session), peers or Alone()):
        for entry in read_log(path):
            if isinstance(entry, LoggedPage):
                inside = np.frombuffer(correct(entry).flags, np.uint8) & OUT_OF_SCOPE == 0
                sources.append(entry.row.key)
                degrees.append(int(inside.sum()))
                targets += entry.keys[inside].tobytes()
    return (
        np.repeat(np.frombuffer(sources, np.uint64), np.frombuffer(degrees, np.int64)),
        np.frombuffer(targets, np.uint64),
    )


async def most_linked(
    session: Path,
    count: int,
    peers: Peers,
    correct: Callable[[LoggedPage], LoggedPage] = lambda page: page,
) -> list[str]:
    """Return the URLs of the `count` whole pages that most pages of a session link to.

    All processes call this together, and each gets all URLs. The most linked-to URL comes first.
    Each process reads a share of the logs, and counts the links to the pages that it holds. Raises
    UserError for a log of another version, on the process that reads it.
    """
    links = in_rounds(*read_links(session, correct, peers))
    sources, targets = await to_holders(links, 1, peers)
    order = np.lexsort((sources, targets))
    sources, targets = sources[order], targets[order]
    new = np.ones(len(order), bool)
    new[1:] = (targets[1:] != targets[:-1]) | (sources[1:] != sources[:-1])
    new &= sources != targets
    keys, counts = np.unique(targets[new], return_counts=True)
    whole = np.fromiter((row.key for row in _whole_rows(session, peers)), np.uint64)
    pages = distinct((await to_holders(in_rounds(whole, whole), 0, peers))[0])
    _, at, _ = np.intersect1d(keys, pages, assume_unique=True, return_indices=True)
    best = at[np.argsort(-counts[at], kind="stable")[:count]]
    candidates = await everywhere(peers, (keys[best], counts[best]))
    keys, counts = map(np.concatenate, zip(*candidates, strict=True))
    chosen = keys[np.lexsort((keys, -counts))[:count]].tolist()
    wanted, urls = set(chosen), dict[int, str]()
    own = {row.key: row.url for row in _whole_rows(session, peers) if row.key in wanted}
    for some in await everywhere(peers, own):
        urls |= some
    return [urls[key] for key in chosen]


def _whole_rows(session: Path, peers: Peers) -> Iterator[PageRow]:
    for path in mine(log_files(session), peers):
        for entry in read_log(path):
            if isinstance(entry, LoggedPage) and _is_whole(entry.row):
                yield entry.row


def _is_whole(row: PageRow) -> bool:
    # A partial response (206) doesn't count, because its validators belong to the whole page.
    is_page = has_page(row.status) and row.status != 206
    status_fits = is_page or (row.status == 304 and row.duplicate)
    return status_fits and row.error is None and row.truncated is None
