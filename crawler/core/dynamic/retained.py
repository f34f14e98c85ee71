"""What a server has sent to clients that hold sites, kept in case that one of them is lost.

Such a client reports neither the URLs that it fetches nor those that wait. Its log names the URLs
that it has fetched, with their links. So the server keeps what the log may lack: the URLs that it
has sent to the client, and the sites that it has moved there. In a resumed run it also keeps what
the client knows from earlier runs.
"""

from collections import defaultdict
from collections.abc import Iterator

from crawler.messages import Batch, decode, encode
from crawler.ports import NoRoomError, Spill


class Retained:
    """The batches that one server has sent to each client, packed, on disk if there is a place."""

    def __init__(self, spill: Spill | None) -> None:
        self._spill = spill
        self._chunks: defaultdict[int, list[int | bytes]] = defaultdict(list)  # by client
        self._links: dict[int, int | bytes] = {}  # by client

    def keep(self, client: int, batch: Batch) -> None:
        """Keep what a batch to a client says of URLs and of sites that move."""
        if not (batch.urls or batch.moved):
            return
        chunk = encode(
            Batch(
                urls=batch.urls,
                hops=batch.hops,
                chains=batch.chains,
                cookies=batch.cookies,
                poor=batch.poor,
                moved=batch.moved,
            ),
            compress=True,
        )
        self._chunks[client].append(self._put(chunk))

    def batches(self, client: int) -> Iterator[Batch]:
        """The batches that were sent to a client, in their order."""
        for kept in self._chunks[client]:
            batch = decode(self._read(kept))
            assert isinstance(batch, Batch)
            yield batch

    def keep_links(self, client: int, keys: bytes) -> None:
        """Keep the packed keys of the targets of links that a client admits in a resume."""
        self._links[client] = self._put(keys)

    def links(self, client: int) -> bytes | None:
        """These keys, or None in a run that isn't resumed."""
        kept = self._links.get(client)
        return None if kept is None else self._read(kept)

    def _put(self, chunk: bytes) -> int | bytes:
        try:
            return chunk if self._spill is None else self._spill.put(chunk)
        except NoRoomError:
            return chunk

    def _read(self, kept: int | bytes) -> bytes:
        if isinstance(kept, bytes):
            return kept
        assert self._spill is not None
        return self._spill.read(kept)
