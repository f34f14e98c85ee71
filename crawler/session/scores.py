"""The scores of an earlier session's pages, which are computed once and read by all ranks."""

from pathlib import Path

import numpy as np
import numpy.typing as npt


class EarlierScores:
    """The scores of an earlier session, in a file that all ranks of a host map into memory."""

    def __init__(self, path: Path) -> None:
        self._keys, scores = np.load(path, mmap_mode="r")
        self._scores = scores.view(np.float64)

    @staticmethod
    def write(path: Path, keys: npt.NDArray[np.uint64], scores: npt.NDArray[np.float64]) -> None:
        """Write the file, with 16 bytes for each page. `keys` must be ascending."""
        np.save(path, np.stack((keys, scores.view(np.uint64))))

    def find(self, key: int) -> float | None:
        """Return the score of a page, or None if the earlier session didn't know the page."""
        at = int(np.searchsorted(self._keys, np.uint64(key)))
        if at == len(self._keys) or self._keys[at] != key:
            return None
        return float(self._scores[at])
