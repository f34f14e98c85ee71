"""Branches of sites that bring near-duplicates only: their URLs may well come last."""

import re
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from operator import eq
from typing import Final

from rensa import RMinHash
from xxhash import xxh3_64_intdigest

from crawler import url

_WATCHED_BRANCHES = 1 << 16  # 40 MB
_SAMPLED: Final = 16  # one page of so many is compared
_COMPARED: Final = 1 << 16  # bytes of a page
_PERMUTATIONS: Final = 64
_RESEMBLING: Final = 58  # of the permutations: about 0.9
_SKETCHES: Final = 2  # kept of a branch
_DIGITS: Final = re.compile(r"\d+")
_VALUES: Final = re.compile(r"=[^&;]*")


class _Branch:
    """What is known of a branch."""

    __slots__ = ("alike", "pages", "sketches")

    def __init__(self) -> None:
        self.pages = 0
        self.alike = 0  # of those looked at, the latest in a row that were near-duplicates
        self.sketches: tuple[array[int], ...] = ()  # of the latest that were none


class Branches:
    """The branches of sites, and which of them bring near-duplicates only.

    A branch is the pages of a site that share the first two folders of the path, numbers in it and
    the names in the query; the values there don't matter. The first pages of a site's branches make
    a branch too, which stands for all those that aren't known yet: of a site that answers anything,
    at paths that were never heard of. Two pages are near-duplicates if the sets of their words,
    without digits, have a resemblance (Jaccard) of about 0.9, estimated by MinHash (Broder, On the
    resemblance and containment of documents, 1997). Only one page in sixteen is looked at.
    """

    def __init__(self, limit: int) -> None:
        """`limit`: pages of a branch in a row, all near-duplicates, that make it a poor one; 0 for
        none."""
        self._limit = limit
        self._step = max(1, min(_SAMPLED, limit // 10))
        self._branches: OrderedDict[int, _Branch] = OrderedDict()  # the latest
        self.poor: set[int] = set()  # keys of branches

    def add(self, address: str, body: bytes) -> None:
        """Take note of a page that was fetched."""
        if not self._limit:
            return
        site, name = _branch(address)
        key = hash_of(name)
        if key not in self._branches:
            self._count(hash_of(site), body)
        self._count(key, body)

    def is_poor(self, address: str) -> bool:
        site, name = _branch(address)
        key = hash_of(name)
        return (key if key in self._branches else hash_of(site)) in self.poor

    def _count(self, key: int, body: bytes) -> None:
        branch = self._branches.get(key)
        if branch is None:
            branch = self._branches[key] = _Branch()
            if len(self._branches) > _WATCHED_BRANCHES:
                self.poor.discard(self._branches.popitem(last=False)[0])
        else:
            self._branches.move_to_end(key)
        branch.pages += 1
        if branch.pages % self._step:
            return
        sketch = sketch_of(body)
        if any(resembles(sketch, other) for other in branch.sketches):
            branch.alike += 1
            if branch.alike * self._step >= self._limit:
                self.poor.add(key)
        else:
            branch.alike = 0
            branch.sketches = (sketch, *branch.sketches[: _SKETCHES - 1])
            self.poor.discard(key)


def _branch(address: str) -> tuple[str, str]:
    """The site of a URL, and what its branch has in common."""
    path, _, query = address.partition("?")
    site = url.site(path)
    folder = "/".join(path.split("/", 5)[3:-1][:2])
    return site, f"{site}/{_DIGITS.sub('0', folder)}?{_VALUES.sub('', query)}"


def sketch_of(body: bytes) -> "array[int]":
    """The MinHash of the words of a page, outside its tags."""
    pieces = body[:_COMPARED].translate(None, b"0123456789").split(b">")
    text = b" ".join([piece.partition(b"<")[0] for piece in pieces]).decode("latin-1")
    sketch = RMinHash(num_perm=_PERMUTATIONS, seed=1)
    sketch.update(text.split())
    return array("I", sketch.digest())


def resembles(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether two pages are near-duplicates, by their sketches."""
    same: int = sum(map(eq, one, other))
    return same >= _RESEMBLING


def hash_of(text: str) -> int:
    """64 bits that stand for a text."""
    return xxh3_64_intdigest(text.encode())
