"""Finds the branches of sites that send only near-duplicates, so that their URLs come last."""

import re
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from operator import eq
from typing import Final

from rensa import RMinHash
from xxhash import xxh3_64_intdigest

from crawler import url

_WATCHED_BRANCHES = 1 << 16
_BRANCH_BYTES: Final = 360  # without its sketches, about
_SKETCH_BYTES: Final = 340
_SAMPLED: Final = 16  # one page in so many is compared
_COMPARED: Final = 1 << 16  # bytes of a page
_PERMUTATIONS: Final = 64
_RESEMBLING: Final = 58  # of the permutations must agree: a resemblance of about 0.9
_SKETCHES: Final = 2  # kept of each branch
_DIGITS: Final = re.compile(r"\d+")
_TEXTS: Final = re.compile(rb">\s*+([^<>\s][^<>]*+)")  # behind each tag, up to the next one
_VALUES: Final = re.compile(r"=[^&;]*")


class _Branch:
    """What is remembered of a branch."""

    __slots__ = ("alike", "pages", "sketches")

    def __init__(self) -> None:
        self.pages = 0
        self.alike = 0  # near-duplicates in a row, of the pages that were compared
        self.sketches: tuple[array[int], ...] = ()  # of the latest pages that were no duplicates


class Branches:
    """Finds the branches of sites that send only near-duplicates.

    A branch is the pages of a site whose URLs share the first two folders of the path, with each
    number written as 0, and the names in the query. The first pages of all branches of a site also
    form a branch. It stands for branches that aren't known yet, for example at a site that answers
    any path with the same text.

    Two pages are near-duplicates if the sets of their words, without digits, have a resemblance
    (Jaccard) of about 0.9, estimated by MinHash (Broder, On the resemblance and containment of
    documents, 1997). Only one page in sixteen is compared.
    """

    def __init__(self, limit: int) -> None:
        """`limit`: a branch is poor after so many near-duplicates in a row; 0 for never."""
        self._limit = limit
        self._step = max(1, min(_SAMPLED, limit // 10))
        self._branches: OrderedDict[int, _Branch] = OrderedDict()  # the latest
        self._sketches = 0  # of all of them
        self.poor: set[int] = set()  # keys of branches

    def nbytes(self) -> int:
        """About how many bytes of memory the branches take."""
        return _BRANCH_BYTES * len(self._branches) + _SKETCH_BYTES * self._sketches

    def add(self, address: str, body: bytes) -> None:
        """Note a page that was fetched."""
        if not self._limit:
            return
        site, name = _branch(address)
        key = hash_of(name)
        if key not in self._branches:
            self._count(hash_of(site), body)
        self._count(key, body)

    def is_poor(self, address: str) -> bool:
        """Whether the branch of a URL has sent only near-duplicates for a while."""
        site, name = _branch(address)
        key = hash_of(name)
        return (key if key in self._branches else hash_of(site)) in self.poor

    def _count(self, key: int, body: bytes) -> None:
        branch = self._branches.get(key)
        if branch is None:
            branch = self._branches[key] = _Branch()
            if len(self._branches) > _WATCHED_BRANCHES:
                oldest, forgotten = self._branches.popitem(last=False)
                self._sketches -= len(forgotten.sketches)
                self.poor.discard(oldest)
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
            before = len(branch.sketches)
            branch.sketches = (sketch, *branch.sketches[: _SKETCHES - 1])
            self._sketches += len(branch.sketches) - before
            self.poor.discard(key)


def _branch(address: str) -> tuple[str, str]:
    """Return the site of a URL, and the name of its branch."""
    path, _, query = address.partition("?")
    site = url.site(path)
    folder = "/".join(path.split("/", 5)[3:-1][:2])
    return site, f"{site}/{_DIGITS.sub('0', folder)}?{_VALUES.sub('', query)}"


def sketch_of(body: bytes) -> "array[int]":
    """Return the MinHash of the words of a page, outside its tags and without digits."""
    text = b" ".join(_TEXTS.findall(b">" + body[:_COMPARED])).translate(None, b"0123456789")
    sketch = RMinHash(num_perm=_PERMUTATIONS, seed=1)
    sketch.update(text.decode("latin-1").split())
    return array("I", sketch.digest())


def resembles(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether two pages are near-duplicates, by their sketches."""
    same: int = sum(map(eq, one, other))
    return same >= _RESEMBLING


def hash_of(text: str) -> int:
    """Return a 64-bit hash of a text."""
    return xxh3_64_intdigest(text.encode())
