"""The texts of URLs, in compressed blocks."""

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import zstandard

from crawler.ports import NoRoomError, Spill

# A URL of ics.uci.edu takes 21, 18, 17 and 16 bytes in blocks of 4, 8, 16 and 32 URLs, but a read
# takes 0.7, 1, 1.5 and 2 times as long. Without a dictionary, blocks of 32 take 27 bytes and 3
# times as long.
BLOCK: int = 8
_LEVEL: Final = 1  # 4 % more bytes than at level 3, and less than half of the time to compress
_END: Final = "\n"  # no normalised URL contains it
_NOWHERE: Final = -1  # the place of a block without texts
_ON_DISK: Final = -2

# A dictionary holds what texts have in common. It is trained on `_SAMPLES` blocks, as soon as there
# are so many. Later URLs look different, so there is a new one whenever there are `_MORE` times as
# many blocks. Training takes some 40 ms.
_DICTIONARY_BYTES: Final = 16 << 10
_SAMPLES: int = 1024
_MORE: Final = 16


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
        # Where each closed block is: its start in `_blocks`, `_NOWHERE`, or `_ON_DISK` - n for
        # the chunk n of the spill. The end isn't needed, because zstd finds it.
        self._places = array("q")
        self._open: list[str] = []
        self._latest: tuple[int, list[str]] = -1, []  # the block that was read last
        self._compress = zstandard.ZstdCompressor(level=_LEVEL).compress
        # The first block of each dictionary, and what reads the blocks from there on.
        self._learned = [0]
        self._decompress = [zstandard.ZstdDecompressor().decompress]
        self._learn_at = _SAMPLES  # blocks

    @property
    def memory(self) -> int:
        """The number of bytes that the blocks in memory take."""
        return len(self._blocks) + self._places.itemsize * len(self._places)

    def extend(self, row: int, texts: Sequence[str]) -> None:
        """Keep the texts of `row` and the following rows, which come after all that have a text."""
        done = 0
        while done < len(texts):
            number, place = divmod(row + done, BLOCK)
            while number > len(self._places):
                self._close()
            self._open += [""] * (place - len(self._open))
            self._open += texts[done : done + BLOCK - place]
            done += BLOCK - place

    def read(self, row: int) -> str:
        """Return the text of a row that has one."""
        number, place = divmod(row, BLOCK)
        if number == len(self._places):
            return self._open[place]
        if number != self._latest[0]:
            self._latest = number, self._block(number).decode().split(_END)
        return self._latest[1][place]

    def _block(self, number: int) -> bytes:
        """Return the texts of a closed block that has some."""
        decompress = self._decompress[bisect_right(self._learned, number) - 1]
        place = self._places[number]
        if place >= 0:
            return decompress(memoryview(self._blocks)[place:])
        assert self._spill is not None
        return decompress(self._spill.read(_ON_DISK - place))

    def _close(self) -> None:
        """Close the open block. It takes no room if no row of it has a text."""
        place = _NOWHERE
        if self._open:
            place = self._put(self._compress(_END.join(self._open).encode()))
            self._open = []
        self._places.append(place)
        if len(self._places) == self._learn_at:
            self._learn_at *= _MORE
            self._learn()

    def _put(self, block: bytes) -> int:
        """Keep a compressed block. Returns its place."""
        if self._spill is not None:
            with suppress(NoRoomError):
                return _ON_DISK - self._spill.put(block)
        self._blocks += block
        return len(self._blocks) - len(block)

    def _learn(self) -> None:
        """Train a dictionary on blocks of all ages. It is used from the next block on."""
        closed = len(self._places)
        numbers = range(0, closed, closed // _SAMPLES)
        samples: list[bytes | bytearray | memoryview] = [
            self._block(n) for n in numbers if self._places[n] != _NOWHERE
        ]
        try:
            learned = zstandard.train_dictionary(_DICTIONARY_BYTES, samples)
        except zstandard.ZstdError:
            return  # the texts have nothing in common, or there are hardly any
        learned.precompute_compress(level=_LEVEL)
        self._compress = zstandard.ZstdCompressor(_LEVEL, dict_data=learned).compress
        self._decompress.append(zstandard.ZstdDecompressor(dict_data=learned).decompress)
        self._learned.append(closed)
