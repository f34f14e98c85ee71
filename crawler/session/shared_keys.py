"""URLs that have the same key: how they are found, and the file that tells them apart.

All URLs of a session stand in its logs with their texts, whatever their keys. Each text gets a
second hash here. So two URLs with one key differ in the second hash, but for one pair in 2**64.

The file shared-keys.txt has a line for each URL that has given up its key: the key, as 16
hexadecimal digits, and the URL (`url.tell_apart`). Most sessions have no such file.
"""

import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from xxhash import xxh64_intdigest

from crawler import url
from crawler.arrays import distinct
from crawler.ports import REDIRECT, UserError, requisite
from crawler.session.files import replacing
from crawler.session.log import Entry, LoggedPage, LoggedSitemaps

_NAME: Final = "shared-keys.txt"
_LINE: Final = re.compile(rb"([0-9a-f]{16}) (https?://[!-~]+)")
_MOST_NEW: Final = 1 << 20  # URLs, until those that came before are left out

Pairs = npt.NDArray[np.uint64]  # shape (2, n): keys in ascending order, and second hashes
Found = dict[tuple[int, str], int]  # by key and URL: what it is, one of the next three
_LINK, _PAGE, _REDIRECT_PAGE = range(3)


def given_up(session: Path) -> list[tuple[int, str]]:
    """Return the keys that several URLs of a session have had, each with a URL that gave it up.

    Raises UserError if the file is damaged.
    """
    path = session / _NAME
    if not path.exists():
        return []
    pairs = []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        match = _LINE.fullmatch(line)
        if match is None:
            raise UserError(
                f"{path}, line {number}: {line.decode(errors='replace')!r}: must be a key of 16"
                " hexadecimal digits and a URL; restore the file"
            )
        pairs.append((int(match[1], 16), match[2].decode()))
    return pairs


def give_up(session: Path, pairs: Iterable[tuple[int, str]]) -> None:
    """Add keys and URLs to those of `given_up`. Raises NoRoomError or OSError."""
    lines = [f"{key:016x} {text}\n" for key, text in [*given_up(session), *pairs]]
    with replacing(session / _NAME) as file:
        file.write("".join(lines).encode())


class SecondHashes:
    """The different pairs of a key and a second hash, of all URLs that were added."""

    def __init__(self) -> None:
        self._keys = array("Q")
        self._seconds = array("Q")
        self._runs: list[Pairs] = []  # of falling length, so that each is merged only a few times

    def add(self, entry: Entry) -> None:
        """Add the URLs of an entry: a page and its links, or sitemaps."""
        if isinstance(entry, LoggedPage):
            texts = entry.url_text.split(b"\n")[:-1]
            self._keys.append(entry.row.key)
            self._keys.frombytes(entry.packed_keys[: 8 * len(texts)])
            self._seconds.append(xxh64_intdigest(entry.row.name.encode()))
            self._seconds.extend(map(xxh64_intdigest, texts[: len(entry.packed_keys) // 8]))
            self.add_urls(map(requisite, entry.requisites))
        elif isinstance(entry, LoggedSitemaps):
            self.add_urls(entry.urls)
        if len(self._keys) >= _MOST_NEW:
            self._settle()

    def add_urls(self, urls: Iterable[str]) -> None:
        """Add URLs that no page links to."""
        for text in urls:
            self._keys.append(url.own_key(text))
            self._seconds.append(xxh64_intdigest(text.encode()))

    def pairs(self) -> Pairs:
        """Return the pairs."""
        self._settle()
        while len(self._runs) > 1:
            self._merge()
        return self._runs[0]

    def _settle(self) -> None:
        columns = [np.frombuffer(column, np.uint64) for column in (self._keys, self._seconds)]
        self._runs.append(different([np.stack(columns)]))
        self._keys, self._seconds = array("Q"), array("Q")
        while len(self._runs) > 1 and self._runs[-2].shape[1] < 2 * self._runs[-1].shape[1]:
            self._merge()

    def _merge(self) -> None:
        self._runs[-2:] = [different(self._runs[-2:])]


def different(some: Sequence[Pairs]) -> Pairs:
    """Return the pairs of some arrays by key, each once. A pair with a shared key may recur."""
    pairs = np.concatenate([np.zeros((2, 0), np.uint64), *some], axis=1)
    pairs = pairs[:, np.argsort(pairs[0], kind="stable")]
    return pairs[:, np.append(True, (pairs[:, 1:] != pairs[:, :-1]).any(0))[: pairs.shape[1]]]


def shared_among(pairs: Pairs) -> list[int]:
    """Return the keys of `different` pairs that several URLs have, each once."""
    keys = pairs[0]
    shared: list[int] = distinct(keys[1:][keys[1:] == keys[:-1]]).tolist()
    return shared


class Sharers:
    """The URLs, of all that were added, that have one of the shared keys."""

    def __init__(self, shared: Iterable[int]) -> None:
        self.found: Found = {}
        self.shared = set(shared)

    def add(self, entry: Entry) -> None:
        """Add the URLs of an entry: a page and its links, or sitemaps."""
        if isinstance(entry, LoggedPage):
            redirects = entry.flags and entry.flags[0] & REDIRECT
            self._add(entry.row.key, entry.row.name, _REDIRECT_PAGE if redirects else _PAGE)
            self.add_urls(map(requisite, entry.requisites))
            keys = entry.keys.tolist()
            if not self.shared.isdisjoint(keys):
                for key, text in zip(keys, entry.urls, strict=False):
                    self._add(key, text, _LINK)
        elif isinstance(entry, LoggedSitemaps):
            self.add_urls(entry.urls)

    def add_urls(self, urls: Iterable[str]) -> None:
        """Add URLs that no page links to."""
        for text in urls:
            self._add(url.own_key(text), text, _LINK)

    def _add(self, key: int, text: str, what: int) -> None:
        if key in self.shared:
            self.found[key, text] = max(what, self.found.get((key, text), what))


def those_that_give_up(found: Mapping[tuple[int, str], int]) -> list[tuple[int, str]]:
    """Return all but one URL of each key, with the key.

    A URL that redirects keeps its key if possible, because the logs name the redirects of a chain
    by their keys only. Otherwise a page keeps its key: its rank then has less to do.
    """
    best = sorted(found, key=lambda pair: (pair[0], -found[pair], pair[1]))
    return [pair for before, pair in pairwise(best) if before[0] == pair[0]]
