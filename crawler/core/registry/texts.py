"""The texts of URLs, in compressed blocks."""

from typing import Final

import zstandard

from crawler.ports import NoRoomError, Spill

# A larger block saves little: of paths of 40 bytes, a URL takes 20.2, 18.8, 18.1 and 17.7 bytes in
# blocks of 32, 64, 128 and 256 URLs. But a read takes 6, 8, 15 and 27 microseconds.
BLOCK: int = 64
_LEVEL: Final = 3
_END: Final = b"\n"  # no normalised URL contains it


class Texts:
    """Texts by row. Rows only rise, and a row may have no text.

    The block of the latest rows is open. A block that is full is compressed, and goes to the
    `Spill` if there is one that has room.
    """

    def __init__(self, spill: Spill | None) -> None:
        self._spill = spill
        self._blocks: list[bytes | int] = []  # a block, or the number of its chunk
        self._open: list[bytes] = []
        self._latest: tuple[int, list[bytes]] = -1, []  # the block that was read last
        self._compress = zstandard.ZstdCompressor(level=_LEVEL).compress
        self._decompress = zstandard.ZstdDecompressor().decompress

    def append(self, row: int, text: str) -> None:
        """Keep the text of a row, which comes after all rows that have a text."""
        number, place = divmod(row, BLOCK)
        if number > len(self._blocks):
            self._close()
            self._blocks += [b""] * (number - len(self._blocks))
        self._open += [b""] * (place - len(self._open))
        self._open.append(text.encode())

    def read(self, row: int) -> str:
        """Return the text of a row that has one."""
        number, place = divmod(row, BLOCK)
        if number == len(self._blocks):
            return self._open[place].decode()
        if number != self._latest[0]:
            block = self._blocks[number]
            if isinstance(block, int):
                assert self._spill is not None
                block = self._spill.read(block)
            self._latest = number, self._decompress(block).split(_END)
        return self._latest[1][place].decode()

    def _close(self) -> None:
        block = self._compress(_END.join(self._open))
        self._blocks.append(self._spilled(block))
        self._open = []

    def _spilled(self, block: bytes) -> bytes | int:
        """Return the number of the block on disk; the block itself if it stays in memory."""
        if self._spill is None:
            return block
        try:
            return self._spill.put(block)
        except NoRoomError:
            return block
