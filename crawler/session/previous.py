"""What an earlier session stored of a URL, for conditional requests and revisit records."""

from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from crawler.ports import OUT_OF_SCOPE, Earlier, PageRow
from crawler.session.log import LoggedPage, log_files, read_log, read_page, read_placed

_OFFSETS = 1 << 48  # more than a log file has bytes


class Previous:
    """The whole pages of a session, by URL key; a page is read from the log when asked for. A
    context manager.

    16 bytes a page. Pages whose WARC file is gone are left out: a revisit couldn't name the record.
    A torn tail of a log is as if it weren't there.
    """

    def __init__(self, session: Path | None, wanted: Callable[[PageRow], bool]) -> None:
        """Read the logs of all ranks, if there is a session at all; `wanted` says of a row
        whether to keep it.

        Raises UserError for a log of another version.
        """
        files = log_files(session) if session else []
        self._directories = [path.parent.parent for path in files]
        keys, places = array("Q"), array("Q")
        for number, path in enumerate(files):
            stored = {file.name for file in self._directories[number].glob("*.warc.gz")}
            for offset, entry in read_placed(path):
                if (
                    isinstance(entry, LoggedPage)
                    and _is_whole(entry.row)
                    and entry.row.warc_file in stored
                    and wanted(entry.row)
                ):
                    keys.append(entry.row.key)
                    places.append(number * _OFFSETS + offset)
        order = np.argsort(np.frombuffer(keys, np.uint64), kind="stable")
        self._keys = np.frombuffer(keys, np.uint64)[order]
        self._places = np.frombuffer(places, np.uint64)[order]
        self._files = [path.open("rb") for path in files]

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, key: int) -> Earlier | None:
        """The latest whole page of this URL, if any."""
        if not self._keys.size:
            return None
        at = int(np.searchsorted(self._keys, np.uint64(key), side="right")) - 1
        if at < 0 or self._keys[at] != key:
            return None
        number, offset = divmod(int(self._places[at]), _OFFSETS)
        page = read_page(self._files[number], offset)
        assert page.row.warc_file is not None
        return Earlier(
            page.row,
            list(zip(page.urls, page.flags, strict=True)),
            self._directories[number] / page.row.warc_file,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()


def read_links(
    session: Path, correct: Callable[[LoggedPage], LoggedPage] = lambda page: page
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """The links that a session has followed, as keys of their pages: sources and targets.

    16 bytes a link. `correct` gives the flags that the links of a page have today
    (`joined.Correction`). Raises UserError for a log of another version.
    """
    sources, degrees, targets = array("Q"), array("Q"), bytearray()
    for path in log_files(session):
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


def most_linked(
    session: Path,
    count: int,
    correct: Callable[[LoggedPage], LoggedPage] = lambda page: page,
) -> list[str]:
    """URLs of the `count` whole pages of a session with the most pages that link to them.

    The most linked-to first. Raises UserError for a log of another version.
    """
    sources, targets = read_links(session, correct)
    order = np.lexsort((sources, targets))
    sources, targets = sources[order], targets[order]
    new = np.ones(len(order), bool)
    new[1:] = (targets[1:] != targets[:-1]) | (sources[1:] != sources[:-1])
    new &= sources != targets
    keys, links = np.unique(targets[new], return_counts=True)
    pages = np.unique(np.fromiter((row.key for row in _whole_rows(session)), np.uint64))
    _, at, _ = np.intersect1d(keys, pages, assume_unique=True, return_indices=True)
    best = at[np.argsort(-links[at], kind="stable")[:count]]
    place = {key: place for place, key in enumerate(keys[best].tolist())}
    urls = {row.key: row.url for row in _whole_rows(session) if row.key in place}
    return [urls[key] for key in place]


def _whole_rows(session: Path) -> Iterator[PageRow]:
    for path in log_files(session):
        for entry in read_log(path):
            if isinstance(entry, LoggedPage) and _is_whole(entry.row):
                yield entry.row


def _is_whole(row: PageRow) -> bool:
    status_fits = row.status == 200 or (row.status == 304 and row.duplicate)
    return status_fits and row.error is None and row.truncated is None
