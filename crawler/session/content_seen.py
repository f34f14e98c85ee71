"""Remembers which payloads a rank has stored, and where."""

from array import array
from collections.abc import Callable
from pathlib import Path

from xxhash import xxh3_64_intdigest

from crawler.compact import Numbers
from crawler.ports import Earlier, Original, PageRow, Response, has_page
from crawler.session.warc import digest, read_original

_OFFSETS = 1 << 48  # more than a WARC file has bytes
# So many places are put into the table together. This takes a third of the time of putting each
# there on its own, because the other work on a page drives the table out of the caches.
_BATCH = 256


class ContentSeen:
    """Where this rank has stored each payload. The WARC record there has all that a revisit needs.

    It learns from the rows of stored pages, or from those of earlier runs.
    """

    def __init__(self, directory: Path, flush: Callable[[], None] = lambda: None) -> None:
        """`directory`: the directory of the rank, which holds its WARC files.

        `flush` writes the records that wait. It is called before a record is read.
        """
        self._directory = directory
        self._flush = flush
        self._files: list[str] = []
        # By the hash of the digest: file number * _OFFSETS + offset + 1.
        self._places = Numbers()
        self._new: dict[int, int] = {}  # the latest places, which aren't in the table yet

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
        self._new[xxh3_64_intdigest(row.digest.encode())] = place + 1
        if len(self._new) >= _BATCH:
            self._take_in()

    def _take_in(self) -> None:
        for key, place in self._new.items():
            self._places[key] = place
        self._new.clear()

    def nbytes(self) -> int:
        """About how many bytes of memory all of this takes."""
        return self._places.nbytes()

    def state(self) -> tuple[list[str], bytes, bytes]:
        """Return all that is remembered, packed as in `CoreSnapshot`."""
        self._take_in()
        hashes = array("Q", self._places)
        places = array("Q", (place - 1 for place in self._places.values()))
        return self._files, hashes.tobytes(), places.tobytes()

    def restore(self, files: list[str], hashes: bytes, places: bytes) -> None:
        """Go on with the `state` of another run."""
        self._files = files
        self._places = Numbers()
        self._new.clear()
        for key, place in zip(array("Q", hashes), array("Q", places), strict=True):
            self._places[key] = place + 1

    def find(self, payload_digest: str) -> Original | None:
        """Return the record of this rank that holds this payload, or None."""
        key = xxh3_64_intdigest(payload_digest.encode())
        place = self._new.get(key) or self._places[key]
        if not place:
            return None
        self._flush()
        number, offset = divmod(place - 1, _OFFSETS)
        try:
            return read_original(self._directory / self._files[number], offset, payload_digest)
        except FileNotFoundError:  # the user moved the file away, so the payload is stored again
            return None

    def identify(
        self, response: Response, earlier: Earlier | None, payload_digest: str | None = None
    ) -> tuple[str, Original | None]:
        """Return the digest of the page, and the record that has the same payload already, if any.

        The record may be of this session or of the previous one. After status 304, digest and
        record are those of the page that hasn't changed. `payload_digest`: that of the payload, if
        it is known. Raises NoRoomError; see `flush`.
        """
        if response.status == 304 and earlier is not None:
            original = _read_earlier(earlier)
            if original is not None:
                assert earlier.row.digest is not None
                return earlier.row.digest, original
        payload_digest = payload_digest or digest(response.stored)
        if not response.has_page or not response.payload or response.truncated is not None:
            return payload_digest, None
        original = self.find(payload_digest)
        if original is None and earlier is not None and earlier.row.digest == payload_digest:
            original = _read_earlier(earlier)
        return payload_digest, original


def _read_earlier(earlier: Earlier) -> Original | None:
    """Return the page's record in the previous session, or None if it can't be read any more."""
    row = earlier.row
    if earlier.original is not None or row.warc_offset is None or row.digest is None:
        return earlier.original
    try:
        return read_original(earlier.warc_path, row.warc_offset, row.digest)
    except (OSError, KeyError):  # moved away, or damaged
        return None
