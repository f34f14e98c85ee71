"""Finds URLs that have the same key: a crawl takes them for one URL (docs/decisions/keys.md).

The logs have the texts of all links. Each text gets a second hash here. So two URLs with one key
differ in the second hash, but for one pair in 2**64.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64_intdigest

from crawler import session
from crawler.report.verify.findings import Findings
from crawler.session import LoggedPage

_SEED = 1  # of the second hash
_MOST_NEW = 1 << 20  # links, until those that came before are left out

Keys = npt.NDArray[np.uint64]


class SecondHashes:
    """The different pairs of a key and a second hash, of all URLs in some pages."""

    def __init__(self) -> None:
        self._new: list[tuple[int, int]] = []
        self._pairs: Keys = np.zeros((2, 0), np.uint64)

    def add(self, page: LoggedPage) -> None:
        """Add the URL of a page, and those of its links."""
        self._new.append((page.row.key, _second_hash(page.row.url)))
        seconds = map(_second_hash, page.urls)
        self._new += zip(page.keys.tolist(), seconds, strict=False)
        if len(self._new) >= _MOST_NEW:
            self._settle()

    def pairs(self) -> Keys:
        """Return the keys in one row, in ascending order, and the second hashes in another."""
        self._settle()
        return self._pairs

    def _settle(self) -> None:
        new = np.array(self._new, np.uint64).reshape(-1, 2).T
        self._new.clear()
        self._pairs = different(np.concatenate([self._pairs, new], axis=1))


def _second_hash(text: str) -> int:
    return xxh3_64_intdigest(text.encode(), _SEED)


def different(pairs: Keys) -> Keys:
    """Return the columns, sorted, each once."""
    pairs = pairs[:, np.lexsort(pairs[::-1])]
    return pairs[:, np.append(True, (pairs[:, 1:] != pairs[:, :-1]).any(0))[: pairs.shape[1]]]


def note_same_keys(
    hashes: Iterable[SecondHashes], logs: Sequence[Path], findings: Findings
) -> None:
    """Note the URLs that have the same key as another URL."""
    pairs = np.zeros((2, 0), np.uint64)
    for one in hashes:
        pairs = different(np.concatenate([pairs, one.pairs()], axis=1))
    keys = pairs[0]
    shared: dict[int, set[str]] = {key: set() for key in keys[1:][keys[1:] == keys[:-1]].tolist()}
    for path in logs if shared else ():
        for entry in session.read_log(path):
            if isinstance(entry, LoggedPage):
                keys_of_page = [entry.row.key, *entry.keys.tolist()]
                for key, text in zip(keys_of_page, [entry.row.url, *entry.urls], strict=False):
                    if key in shared:
                        shared[key].add(text)
    for key, texts in shared.items():
        what = f"have the key {key:016x}, so at most one of them was fetched"
        findings.note(" and ".join(sorted(texts)), what)
