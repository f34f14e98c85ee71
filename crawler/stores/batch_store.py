"""What the stores that answer late have in common: they take entries, and answer in cycles."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from crawler.arrays import distinct
from crawler.stores.entries import Answers, Entries, Flags, Keys
from crawler.stores.files import CONTENT_STARTS
from crawler.stores.folder import Folder, NewFile

_KEYS: Final = 1 << 16  # of an iteration, at a time


class BatchStore(ABC):
    """A store of URL-seen on disk that handles many entries at a time, in cycles.

    An entry is pending from `submit` on, until a cycle has answered it; an update without a check
    needs no answer, but is pending as well. An entry that no cycle has seen is lost in a kill, and
    all others are kept (`folder`). Only one cycle may run at a time. Entries that are submitted
    meanwhile wait for the next one.
    """

    def __init__(self, path: Path, kind: str) -> None:
        """Raises DamagedStoreError."""
        self.folder = Folder(path, kind)
        self.at_work = 0  # bytes of memory that the cycle under way takes for entries, about

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """About how many bytes of memory all entries take."""

    @property
    @abstractmethod
    def pending(self) -> int:
        """The number of entries that are pending. During a cycle it may leave out some."""

    @property
    @abstractmethod
    def in_memory(self) -> int:
        """The number of entries that no cycle has seen yet."""

    @property
    @abstractmethod
    def oldest(self) -> float:
        """When the oldest of the pending entries was submitted, or infinity."""

    @abstractmethod
    def submit(self, entries: Entries, sites: Keys, now: float) -> None:
        """Take in entries. `sites`: a hash of the site of each."""

    @abstractmethod
    def cycle(self, now: float, *, answer: bool = False) -> Iterator[Answers | None]:
        """Run one cycle, in steps of a few milliseconds. Some steps give answers.

        `answer`: the caller needs answers, so the store must not wait for more entries. Raises
        DamagedStoreError or OSError; then the store must be opened again.
        """

    @abstractmethod
    def repositories(self) -> list[str]:
        """The names of the files that hold the repositories."""

    @abstractmethod
    def contents(self, name: str) -> Iterator[tuple[Keys, Keys]]:
        """The keys in a repository with their values, in its order, in chunks."""

    def keys(self) -> Keys:
        """All keys that the store knows, in ascending order."""
        chunks = [keys for name in self.repositories() for keys, _ in self.contents(name)]
        return distinct(np.concatenate([self.noted(), *chunks]))

    def __iter__(self) -> Iterator[int]:
        """All keys that the store knows."""
        keys = self.keys()
        for first in range(0, len(keys), _KEYS):
            yield from keys[first : first + _KEYS].tolist()

    # --- keys without a site ------------------------------------------------------------------

    def note(self, keys: Keys) -> Iterator[None]:
        """Note in steps that these keys are known. They have no site, so they are kept apart.

        No cycle may be under way. Raises DamagedStoreError or OSError, as `cycle` does.
        """
        yield from self.folder.change(lambda: self._note(keys))

    def _note(self, keys: Keys) -> Iterator[None]:
        old = self._noted_name
        new = NewFile(self.folder, f"noted-{self.folder.manifest.cycles}")

        def write() -> None:
            all_keys = distinct(np.append(self.noted(), keys))
            new.write(all_keys, len(all_keys))

        yield from self.folder.in_thread(write)
        yield from new.finish()
        yield from self.folder.commit([old])

    def noted(self) -> Keys:
        """The keys that came without a site, in ascending order."""
        return np.frombuffer(b"".join(self.folder.pieces(self._noted_name)), np.uint64)

    def are_noted(self, keys: Keys) -> Flags:
        """Return which of these keys came without a site."""
        number = self.folder.state(self._noted_name).records
        if not number:
            return np.zeros(len(keys), bool)
        path = self.folder.path / self._noted_name
        noted = np.memmap(path, np.uint64, "r", CONTENT_STARTS, number)
        at = np.searchsorted(noted, keys)
        at[at == len(noted)] = 0
        return np.asarray(noted[at] == keys)

    @property
    def _noted_name(self) -> str:
        return self._named().get("noted", "")

    def _named(self) -> dict[str, str]:
        """Return the names of all files, by what stands before the number of their cycle."""
        return {name.partition("-")[0]: name for name in self.folder.manifest.files}

    def close(self) -> None:
        """End what the store does besides. The files stay."""
        self.folder.close()
