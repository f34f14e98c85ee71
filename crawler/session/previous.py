"""What an earlier session stored of a URL, for conditional requests and revisit records."""

from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Self

import numpy as np

from crawler.ports import Earlier, PageRow
from crawler.session.log import LoggedPage, log_files, read_page, read_placed

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


def _is_whole(row: PageRow) -> bool:
    status_fits = row.status == 200 or (row.status == 304 and row.duplicate)
    return status_fits and row.error is None and row.truncated is None
