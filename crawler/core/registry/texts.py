"""The texts of URLs, in compressed blocks."""

from array import array
from collections.abc import Sequence
from typing import Final

import zstandard

from crawler.ports import NoRoomError, Spill

# A larger block saves little: of paths of 40 bytes, a URL takes 20.2, 18.8, 18.1 and 17.7 bytes in
# blocks of 32, 64, 128 and 256 URLs. But a read takes 5, 8, 14 and 27 microseconds.
BLOCK: int = 32
_LEVEL: Final = 3
_END: Final = "\n"  # no normalised URL contains it
_IN_MEMORY: Final = -1


class Texts:
    """Texts by row. Rows only rise, and a row may have no text.

    The block of the latest rows is open. A block that is full is compressed, and goes to the
    `Spill` if there is one that has room.
    """

    def __init__(self, spill: Spill | None) -> None:
        self._spill = spill
        # All blocks in memory, one after another. Objects of their own would take more than twice
        # the memory, because each would leave a hole as large as zstd expected it to be.
        self._blocks = bytearray()
        self._starts = array("Q")  # of each block in `_blocks`
        self._chunks = array("q")  # the number of each block in the spill
        self._open: list[str] = []
        self._latest: tuple[int, list[str]] = -1, []  # the block that was read last
        self._compress = zstandard.ZstdCompressor(level=_LEVEL).compress
        self._decompress = zstandard.ZstdDecompressor().decompress

    @property
    def memory(self) -> int:
        """The number of bytes that the blocks in memory take."""
        return len(self._blocks) + 8 * (len(self._starts) + len(self._chunks))

    def extend(self, row: int, texts: Sequence[str]) -> None:
        """Keep the texts of `row` and the following rows, which come after all that have a text."""
        done = 0
        while done < len(texts):
            number, place = divmod(row + done, BLOCK)
            while number > len(self._starts):
                self._close()
            self._open += [""] * (place - len(self._open))
            self._open += texts[done : done + BLOCK - place]
            done += BLOCK - place

    def read(self, row: int) -> str:
        """Return the text of a row that has one."""
        number, place = divmod(row, BLOCK)
        if number == len(self._starts):
            return self._open[place]
        if number != self._latest[0]:
            self._latest = number, self._decompress(self._block(number)).decode().split(_END)
        return self._latest[1][place]

    def _block(self, number: int) -> bytes:
        chunk = self._chunks[number]
        if chunk != _IN_MEMORY:
            assert self._spill is not None
            return self._spill.read(chunk)
        last = number + 1 == len(self._starts)
        end = len(self._blocks) if last else self._starts[number + 1]
        return bytes(memoryview(self._blocks)[self._starts[number] : end])

    def _close(self) -> None:
        """Close the open block. It takes no room if no row of it has a text."""
        self._starts.append(len(self._blocks))
        self._chunks.append(_IN_MEMORY)
        if self._open:
            block = self._compress(_END.join(self._open).encode())
            self._open = []
            if not self._spilled(block):
                self._blocks += block

    def _spilled(self, block: bytes) -> bool:
        """Whether there was room on disk for the newest block, which is there then."""
        if self._spill is None:
            return False
        try:
            self._chunks[-1] = self._spill.put(block)
        except NoRoomError:
            return False
        return True
