"""VEUNIQ: a store that answers late, with repositories by server (algorithm 1 of the paper).

Henrique, Ziviani and others, *A New Approach for Verifying URL Uniqueness in Web Crawlers*,
section 5. There are N repositories, and the hash of a URL's site says to which one the URL belongs.
A cycle merges one repository. The entries of all others are appended to the file that collects
what belongs to each of them: the paper's TMP. The repository merged next is the one with the most
pending entries, or the next one in turn, as in the paper. An entry that has waited too long
overrides both.
"""

from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from crawler.stores import buckets
from crawler.stores.batch_store import BatchStore
from crawler.stores.entries import COPIES, Answers, Entries, Flags, Keys, answered, parted
from crawler.stores.folder import NewFile
from crawler.stores.merging import PairReader, merge_pairs
from crawler.stores.texts import merge_texts, texts_in
from crawler.url import key


class Veuniq(BatchStore):
    """URLs in repositories by site. A repository holds their keys or their texts, in order."""

    def __init__(
        self,
        path: Path,
        repositories: int,
        *,
        records: Literal["keys", "texts"] = "keys",
        in_turn: bool = False,
        max_delay_s: float = inf,
    ) -> None:
        """`in_turn`: whether repositories take turns, rather than the fullest coming next.

        `max_delay_s`: a repository with an entry that has waited longer comes first. Raises
        DamagedStoreError.
        """
        super().__init__(path, f"veuniq {repositories} {records}")
        self._records = records
        self._in_turn = in_turn
        self._max_delay_s = max_delay_s
        self._waiting: list[tuple[Entries, npt.NDArray[np.int64]]] = []  # with their repositories
        files = self.folder.manifest.files
        self._names = self._named()
        self._asked: tuple[Entries, Keys, Flags] | None = None  # in the cycle under way
        self._counts = np.zeros(repositories, np.int64)  # of pending entries
        for i in range(repositories):
            if name := self._names.get(f"t{i}"):
                self._counts[i] = files[name].records
        self._oldest = {int(i): -inf for i in np.flatnonzero(self._counts)}
        self.at_hand = self._choose(-inf)  # the repository that the next cycle is to merge

    @property
    def turn(self) -> int:
        """The repository whose turn comes next."""
        return self.folder.manifest.turn

    @property
    def pending(self) -> int:
        """See BatchStore.pending."""
        return int(self._counts.sum())

    @property
    def in_memory(self) -> int:
        """See BatchStore.in_memory."""
        return sum(len(entries.keys) for entries, _ in self._waiting)

    @property
    def nbytes(self) -> int:
        """See BatchStore.nbytes."""
        return self.at_work + sum(entries.nbytes for entries, _ in self._waiting)

    @property
    def oldest(self) -> float:
        """See BatchStore.oldest."""
        return min(self._oldest.values(), default=inf)

    def repository_of(self, sites: Keys) -> npt.NDArray[np.int64]:
        """The repositories of sites, given by their hashes: the h' of algorithm 1."""
        return (sites % np.uint64(len(self._counts))).astype(np.int64)

    def group_of(self, site: str) -> int:
        """Return the repository of a site."""
        return key(site) % len(self._counts)

    def submit(self, entries: Entries, sites: Keys, now: float) -> None:
        """See BatchStore.submit."""
        parts = self.repository_of(sites)
        counts = np.bincount(parts, minlength=len(self._counts))
        self._counts += counts
        for i in np.flatnonzero(counts).tolist():
            self._oldest.setdefault(i, now)
        self.at_hand = self._choose(now)
        self._waiting.append((entries, parts))

    def cycle(self, now: float, *, answer: bool = False) -> Iterator[Answers | None]:
        """See BatchStore.cycle."""
        i = self._choose(now)
        waiting, self._waiting = self._waiting, []
        self._counts[i] = 0  # already now, as entries may be submitted during the cycle
        self._oldest.pop(i, None)
        self.at_hand = self._choose(now)
        parts = np.concatenate([np.zeros(0, np.int64), *(parts for _, parts in waiting)])
        entries = Entries.joined([entries for entries, _ in waiting])
        del waiting
        collected = self.folder.state(self._names.get(f"t{i}", "")).bytes
        self.at_work = COPIES * (entries.nbytes + collected)
        yield None
        yield from self.folder.change(lambda: self._check(i, entries, parts))
        assert self._asked is not None
        entries, asked, self._asked = Entries.none(), self._asked, None
        answers = answered(*asked)
        self.at_work = 0
        del asked
        yield answers

    def _check(self, i: int, entries: Entries, parts: npt.NDArray[np.int64]) -> Iterator[None]:
        """Put the entries of other repositories aside, and merge those of one repository."""
        self._names = self._named()
        number = len(self._counts)
        for some in parted(entries, np.where(parts == i, number, parts), number):
            for j, part in some:
                name = self._names.setdefault(f"t{j}", self._new_name("t", j))
                buckets.append(self.folder, name, part, buckets.ALL)
            yield None
        collected = buckets.read(self.folder, self._names.get(f"t{i}", ""), buckets.ALL)
        asked = collected.followed_by(entries, np.flatnonzero(parts == i))
        del collected
        new = np.empty(len(asked.keys), bool)
        yield from self._merge(i, asked, new, values := asked.values.copy())
        self._asked = asked, values, new

    def _merge(
        self, i: int, entries: Entries, new: npt.NDArray[np.bool_], values: Keys
    ) -> Iterator[None]:
        """Merge entries into a repository, and make the result count."""
        old, collected = (self._names.pop(f"{letter}{i}", "") for letter in "rt")
        out = NewFile(self.folder, self._new_name("r", i))
        known = self.are_noted(entries.keys)
        entries = entries._replace(values=values)
        if self._records == "texts":
            yield from merge_texts(self.folder, old, entries, known, new, out)
        else:
            yield from merge_pairs(
                PairReader(self.folder, old), None, entries.keys, values, known, new, out
            )
        yield from out.finish()
        self.folder.manifest.turn = (i + 1) % len(self._counts)
        self._names[f"r{i}"] = out.name
        yield from self.folder.commit([old, collected])

    def _choose(self, now: float) -> int:
        """Return the repository that this cycle merges."""
        if self._oldest:
            first = min(self._oldest, key=self._oldest.__getitem__)
            if now - self._oldest[first] >= self._max_delay_s:
                return first
        if not self._in_turn:
            return int(self._counts.argmax())
        following = np.roll(self._counts, -self.turn)
        return (self.turn + int((following > 0).argmax())) % len(self._counts)

    def _new_name(self, letter: str, i: int) -> str:
        """Return the name of a file that this cycle begins."""
        return f"{letter}{i}-{self.folder.manifest.cycles}"

    def repositories(self) -> list[str]:
        """See BatchStore.repositories."""
        return [name for place, name in self._names.items() if place.startswith("r")]

    def contents(self, name: str) -> Iterator[tuple[Keys, Keys]]:
        """See BatchStore.contents."""
        if self._records == "texts":
            for text, value in texts_in(self.folder, name):
                yield np.array([key(text.decode())], np.uint64), np.array([value], np.uint64)
            return
        for pairs in PairReader(self.folder, name).up_to(None):
            yield pairs[::2], pairs[1::2]
