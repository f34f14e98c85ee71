"""Remembers which payloads a rank has stored, and where."""

from array import array
from pathlib import Path

from xxhash import xxh3_64_intdigest

from crawler.compact import Numbers
from crawler.ports import (
    Original,
    PageRow,
    has_page,
)
from crawler.session.warc import (
    read_original,
)

_OFFSETS = 1 << 48  # more than a WARC file has bytes


class ContentSeen:
    """Where this rank has stored each payload. The WARC record there has all that a revisit needs.

    It learns from the rows of stored pages, or from those of earlier runs.
    """

    def __init__(self, directory: Path) -> None:
        """`directory`: the directory of the rank, which holds its WARC files."""
        self._directory = directory
        self._files: list[str] = []
        # By the hash of the digest: file number * _OFFSETS + offset + 1.
        self._places = Numbers()

    def remember(self, row: PageRow) -> None:
        """Take note of a row, if it has a whole payload that came with status 2xx."""
        if not has_page(row.status) or not row.bytes or row.truncated or row.duplicate:
            return
        if row.warc_file is None or row.warc_offset is None:  # such documents aren't stored
            return
        assert row.digest is not None
        if not self._files or self._files[-1] != row.warc_file:
            self._files.append(row.warc_file)
        place = (len(self._files) - 1) * _OFFSETS + row.warc_offset
        self._places[xxh3_64_intdigest(row.digest.encode())] = place + 1

    def nbytes(self) -> int:
        """About how many bytes of memory all of this takes."""
        return self._places.nbytes()

    def state(self) -> tuple[list[str], bytes, bytes]:
        """Return all that is remembered, packed as in `CoreSnapshot`."""
        hashes = array("Q", self._places)
        places = array("Q", (place - 1 for place in self._places.values()))
        return self._files, hashes.tobytes(), places.tobytes()

    def restore(self, files: list[str], hashes: bytes, places: bytes) -> None:
        """Go on with the `state` of another run."""
        self._files = files
        self._places = Numbers()
        for key, place in zip(array("Q", hashes), array("Q", places), strict=True):
            self._places[key] = place + 1

    def find(self, payload_digest: str) -> Original | None:
        """Return the record that holds this payload, or None."""
        place = self._places[xxh3_64_intdigest(payload_digest.encode())]
        if not place:
            return None
        number, offset = divmod(place - 1, _OFFSETS)
        try:
            return read_original(self._directory / self._files[number], offset, payload_digest)
        except FileNotFoundError:  # the user moved the file away, so the payload is stored again
            return None
