"""Scores of an earlier session's pages, made once and read by all ranks."""

from pathlib import Path

import numpy as np
import numpy.typing as npt


class EarlierScores:
    """The scores of an earlier session, in a file that the ranks of a host share in memory."""

    def __init__(self, path: Path) -> None:
        self._keys, scores = np.load(path, mmap_mode="r")
        self._scores = scores.view(np.float64)

    @staticmethod
    def write(path: Path, keys: npt.NDArray[np.uint64], scores: npt.NDArray[np.float64]) -> None:
        """`keys` ascending; 16 bytes a page."""
        np.save(path, np.stack((keys, scores.view(np.uint64))))

    def find(self, key: int) -> float | None:
        """The score of a page, if that session knew it."""
        at = int(np.searchsorted(self._keys, np.uint64(key)))
        if at == len(self._keys) or self._keys[at] != key:
            return None
        return float(self._scores[at])
