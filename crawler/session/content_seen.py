"""Which payloads a rank has stored, and where."""

from array import array
from pathlib import Path

from xxhash import xxh3_64_intdigest

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
    """Where this rank has stored which payload. What else a revisit must say is read from there.

    Fed with the rows of what is stored, or with those of earlier runs. About 150 bytes a payload.
    """

    def __init__(self, directory: Path) -> None:
        """`directory` is the rank's, where its WARC files are."""
        self._directory = directory
        self._files: list[str] = []
        self._places: dict[int, int] = {}  # hash of the digest -> file number * _OFFSETS + offset

    def remember(self, row: PageRow) -> None:
        """Take note of a row, if it is one of a whole payload that came with status 2xx."""
        if not has_page(row.status) or not row.bytes or row.truncated or row.duplicate:
            return
        if row.warc_file is None or row.warc_offset is None:  # of a kind that isn't stored
            return
        assert row.digest is not None
        if not self._files or self._files[-1] != row.warc_file:
            self._files.append(row.warc_file)
        place = (len(self._files) - 1) * _OFFSETS + row.warc_offset
        self._places[xxh3_64_intdigest(row.digest.encode())] = place

    def state(self) -> tuple[list[str], bytes, bytes]:
        """What it knows, packed as in state.State."""
        hashes, places = array("Q", self._places), array("Q", self._places.values())
        return self._files, hashes.tobytes(), places.tobytes()

    def restore(self, files: list[str], hashes: bytes, places: bytes) -> None:
        """Know what another one knew."""
        self._files = files
        self._places = dict(zip(array("Q", hashes), array("Q", places), strict=True))

    def find(self, payload_digest: str) -> Original | None:
        """The record that holds this payload, if any."""
        place = self._places.get(xxh3_64_intdigest(payload_digest.encode()))
        if place is None:
            return None
        number, offset = divmod(place, _OFFSETS)
        try:
            return read_original(self._directory / self._files[number], offset, payload_digest)
        except FileNotFoundError:  # its user moved it away, so the payload is stored again
            return None
