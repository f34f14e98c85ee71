"""DRUM: a store that answers late, with one repository and buckets by key.

Lee and others, *IRLbot: Scaling to 6 Billion Pages and Beyond*, as section 4 of the VEUNIQ paper
describes it: *check*, *update* and *check+update*. Entries wait in memory, then in buckets on disk.
A bucket is two files: one with the keys and values (KV), and one with the texts and aux (A). When
one of the KV-buckets has reached a certain size, all buckets are merged with the repository, which
is sorted by key, one after the other in one pass. Sorting changes no order in the files, so the
answers match the A-buckets as these stand. A bucket's answers come before the merge is on disk: a
store that is opened after a kill answers them again.

Buckets aren't allocated before they are used, unlike the paper's: file systems that allocate late
write them in one piece as well.
"""

from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from crawler.stores import buckets
from crawler.stores.batch_store import BatchStore
from crawler.stores.entries import COPIES, Answers, Entries, Keys, answered, parted
from crawler.stores.folder import NewFile
from crawler.stores.merging import PairReader, merge_pairs

_KEY_BITS: Final = 64


class Drum(BatchStore):
    """The keys of URLs in one repository."""

    def __init__(self, path: Path, bucket_bits: int, *, bucket_bytes: int = 0) -> None:
        """`bucket_bits`: there are 2 to this power buckets, the paper's k.

        `bucket_bytes`: the paper's r. With 0, each cycle merges. Raises DamagedStoreError.
        """
        super().__init__(path, f"drum {bucket_bits}")
        self._bits = bucket_bits
        self._bucket_bytes = bucket_bytes
        self._waiting: list[Entries] = []
        files = self.folder.manifest.files
        self._names = self._named()
        self._answered = 0  # buckets, in the merge under way
        self._in_buckets = sum(files[name].records for name in files if name.startswith("k"))
        self._oldest_in_memory = inf
        self._oldest_in_buckets = -inf if self._in_buckets else inf

    @property
    def pending(self) -> int:
        """See BatchStore.pending."""
        return self.in_memory + self._in_buckets

    @property
    def in_memory(self) -> int:
        """See BatchStore.in_memory."""
        return sum(len(entries.keys) for entries in self._waiting)

    @property
    def nbytes(self) -> int:
        """See BatchStore.nbytes."""
        return self.at_work + sum(entries.nbytes for entries in self._waiting)

    @property
    def oldest(self) -> float:
        """See BatchStore.oldest."""
        return min(self._oldest_in_memory, self._oldest_in_buckets)

    def submit(self, entries: Entries, sites: Keys, now: float) -> None:
        """See BatchStore.submit."""
        if len(entries.keys):
            self._waiting.append(entries)
            self._oldest_in_memory = min(self._oldest_in_memory, now)

    def cycle(self, now: float, *, answer: bool = False) -> Iterator[Answers | None]:
        """See BatchStore.cycle."""
        waiting, self._waiting = self._waiting, []
        self._oldest_in_buckets, self._oldest_in_memory = self.oldest, inf
        entries = Entries.joined(waiting)
        self._in_buckets += len(entries.keys)
        self.at_work = COPIES * entries.nbytes
        del waiting
        yield None
        yield from self.folder.change(lambda: self._fill_buckets(entries))
        entries = Entries.none()
        self.at_work = 0
        sizes = [
            self.folder.state(self._names.get(f"k{i}", "")).bytes for i in range(1 << self._bits)
        ]
        if answer or max(sizes) >= self._bucket_bytes:
            self._answered = 0
            yield from self.folder.change(self._merge_all)
            self.at_work = 0
            self._in_buckets, self._oldest_in_buckets = 0, inf

    def _fill_buckets(self, entries: Entries) -> Iterator[None]:
        """Append entries to the buckets on disk."""
        self._names = self._named()
        for some in parted(entries, self._buckets(entries.keys), 1 << self._bits):
            for i, part in some:
                for letter, columns in (("k", buckets.KEYS_AND_VALUES), ("a", buckets.TEXTS)):
                    new = f"{letter}{i}-{self.folder.manifest.cycles}"
                    name = self._names.setdefault(f"{letter}{i}", new)
                    buckets.append(self.folder, name, part, columns)
            yield
        yield from self.folder.commit([])

    def _buckets(self, keys: Keys) -> npt.NDArray[np.int64]:
        """The bucket of each key: its highest bits, so that buckets are in the order of keys."""
        if not self._bits:
            return np.zeros(len(keys), np.int64)
        return (keys >> np.uint64(_KEY_BITS - self._bits)).astype(np.int64)

    def _merge_all(self) -> Iterator[Answers | None]:
        """Merge all buckets with the repository, and answer about each in turn, but once."""
        self._names = self._named()
        repository = self._names.pop("r", "")
        old = PairReader(self.folder, repository)
        out = NewFile(self.folder, f"r-{self.folder.manifest.cycles}")
        for i in range(1 << self._bits):
            bound = None if i + 1 == 1 << self._bits else (i + 1) << (_KEY_BITS - self._bits)
            name, texts_name = (self._names.get(f"{letter}{i}", "") for letter in "ka")
            size = self.folder.state(name).bytes
            self.at_work = COPIES * (size + self.folder.state(texts_name).bytes)
            part = buckets.read(self.folder, name, buckets.KEYS_AND_VALUES)
            keys, values, new = part.keys, part.values.copy(), np.empty(len(part.keys), bool)
            yield from merge_pairs(old, bound, keys, values, self.are_noted(keys), new, out)
            if i == self._answered:  # else an attempt without room for the rest has answered
                self._answered += 1
                texts = buckets.read(self.folder, texts_name, buckets.TEXTS)
                yield answered(texts._replace(keys=keys, values=part.values), values, new)
        yield from out.finish()
        merged = [name for place, name in self._names.items() if place[0] in "ka"]
        self._names = {"r": out.name}
        yield from self.folder.commit([repository, *merged])

    def repositories(self) -> list[str]:
        """See BatchStore.repositories."""
        return [self._names["r"]] if "r" in self._names else []

    def contents(self, name: str) -> Iterator[tuple[Keys, Keys]]:
        """See BatchStore.contents."""
        for pairs in PairReader(self.folder, name).up_to(None):
            yield pairs[::2], pairs[1::2]
