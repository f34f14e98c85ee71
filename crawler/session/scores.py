"""The scores of an earlier session's pages, which ranks compute together and each rank reads."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt


class EarlierScores:
    """The scores of an earlier session, in files that all ranks of a host map into memory.

    File i of n has the pages whose keys are i modulo n, as `together.by_holder` divides them.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._pieces = [np.load(path, mmap_mode="r") for path in paths]

    @staticmethod
    def write(path: Path, keys: npt.NDArray[np.uint64], scores: npt.NDArray[np.floating]) -> None:
        """Write a file, with 16 bytes for each page. `keys` must be ascending."""
        np.save(path, np.stack((keys, scores.astype(np.float64).view(np.uint64))))

    def find(self, key: int) -> float | None:
        """Return the score of a page, or None if the earlier session didn't know the page."""
        keys, scores = self._pieces[key % len(self._pieces)]
        at = int(np.searchsorted(keys, np.uint64(key)))
        if at == len(keys) or keys[at] != key:
            return None
        return float(scores[at : at + 1].view(np.float64)[0])
