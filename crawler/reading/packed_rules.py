"""Many rules of a robots.txt as arrays of numbers, which are matched with a path all at once.

A piece c0 c1 c2 ... has the hash c0 + c1 B + c2 B^2 + ... modulo 2^64. The hashes of all substrings
of a length follow from the hashes of all prefixes of a text. If different pieces have the same
hash, that does no harm, because a rule whose hashes match is matched exactly afterwards.
"""

from array import array
from collections.abc import Callable, Generator, Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from crawler.arrays import distinct
from crawler.reading.rules import Rule

Numbers = npt.NDArray[Any]  # unsigned, of any size
_BASE: Final = np.uint64(0x9E3779B97F4A7C15)
_INVERSE: Final = np.uint64(pow(int(_BASE), -1, 1 << 64))
_FEW_PIECES: Final = 4  # if a length has at most so many pieces, they are searched for one by one


def _powers(base: np.uint64, count: int) -> npt.NDArray[np.uint64]:
    powers = np.full(count, base, np.uint64)
    powers[:1] = 1
    return np.cumprod(powers, dtype=np.uint64)


class _Hashed:
    """A text whose substrings have hashes."""

    def __init__(self, text: str) -> None:
        octets = np.frombuffer(text.encode("latin-1"), np.uint8).astype(np.uint64)
        self.length = len(text)
        self._sums = np.zeros(self.length + 1, np.uint64)
        np.cumsum(octets * _powers(_BASE, self.length), out=self._sums[1:])
        self._inverses = _powers(_INVERSE, self.length + 1)

    def at(self, starts: Numbers, ends: Numbers) -> npt.NDArray[np.uint64]:
        """Return the hashes of the substrings with these starts and ends."""
        found: npt.NDArray[np.uint64] = (self._sums[ends] - self._sums[starts]) * self._inverses[
            starts
        ]
        return found

    def of_length(self, length: int) -> npt.NDArray[np.uint64]:
        """Return the hashes of all substrings of a length, by their place."""
        count = self.length - length + 1
        found: npt.NDArray[np.uint64] = (self._sums[length:] - self._sums[:count]) * self._inverses[
            :count
        ]
        return found


def _compact(numbers: Numbers) -> Numbers:
    """Return the same numbers in the smallest type that holds them."""
    most = int(numbers.max(initial=0))
    return numbers.astype(np.min_scalar_type(most))


_Table = dict[str, "array[int]"]  # columns of numbers: hashes of 64 bits, others of 32


class Packer:
    """Collects rules that are to be packed, as tables of their parts."""

    def __init__(self) -> None:
        self.prefixes: _Table = {}
        self.wild: _Table = {}
        self.pieces: _Table = {}

    def add(self, rules: Iterable[tuple[Rule, int]]) -> None:
        """Add rules with their places."""
        prefixes = [(rule, place) for rule, place in rules if rule.is_prefix()]
        _append(
            self.prefixes,
            hashes=_hashes([rule.pieces[0] for rule, _ in prefixes]),
            weights=[rule.weight() for rule, _ in prefixes],
            places=[place for _, place in prefixes],
        )
        wild = [(rule, place) for rule, place in rules if not rule.is_prefix()]
        middles = [rule.pieces[1:-1] if rule.anchored else rule.pieces[1:] for rule, _ in wild]
        middles = [tuple(filter(None, each)) for each in middles]
        tails = [
            rule.pieces[-1] if rule.anchored and len(rule.pieces) > 1 else "" for rule, _ in wild
        ]
        heads = [rule.pieces[0] for rule, _ in wild]
        _append(
            self.wild,
            weights=[rule.weight() for rule, _ in wild],
            places=[place for _, place in wild],
            heads=_hashes(heads),
            head_sizes=list(map(len, heads)),
            tails=_hashes(tails),
            tail_sizes=list(map(len, tails)),
            exact=[rule.anchored and len(rule.pieces) == 1 for rule, _ in wild],
            least=[sum(map(len, rule.pieces)) for rule, _ in wild],
            counts=list(map(len, middles)),
        )
        pieces = [piece for each in middles for piece in each]
        _append(self.pieces, keys=_keys(np.array(list(map(len, pieces))), _hashes(pieces)))


def _append(table: _Table, **columns: list[int] | list[bool] | Numbers) -> None:
    for name, values in columns.items():
        kind = "Q" if isinstance(values, np.ndarray) else "I"
        numbers = np.array(values, np.dtype(kind))
        table.setdefault(name, array(kind)).frombytes(numbers.tobytes())


def _columns(table: _Table) -> dict[str, Numbers]:
    return {name: np.frombuffer(column, column.typecode) for name, column in table.items()}


def _keys(sizes: Numbers, hashes: Numbers) -> npt.NDArray[np.uint64]:
    """Return the keys of pieces: 16 bits of size (longer pieces count as 65535), 48 of hash."""
    most = np.minimum(sizes, (1 << 16) - 1).astype(np.uint64)
    # The upper bits of a product depend on all bits of its factors.
    keys: npt.NDArray[np.uint64] = (most << np.uint64(48)) | (hashes * _BASE >> np.uint64(16))
    return keys


def _hashes(texts: list[str]) -> Numbers:
    sizes = np.array(list(map(len, texts)), np.int64)
    ends = np.cumsum(sizes)
    return _Hashed("".join(texts)).at(ends - sizes, ends)


class PackedRules:
    """Many rules as arrays of numbers."""

    __slots__ = (
        "_classes", "_counts", "_exact", "_head_sizes", "_heads", "_least", "_lengths",
        "_make_again", "_piece_sizes", "_pieces", "_places", "_prefix_places", "_prefixes",
        "_tail_sizes", "_tails", "size",
    )  # fmt: skip

    def __init__(self, make_again: Callable[[int], Rule]) -> None:
        self._make_again = make_again
        self.size = 0

    def packing(self, packer: Packer) -> Generator[None, None, None]:
        """Take over all rules, in steps."""
        self._pack_prefixes(_columns(packer.prefixes))
        packer.prefixes.clear()
        yield
        wild = _columns(packer.wild)
        packer.wild.clear()
        order = np.argsort(wild.pop("weights"), kind="stable")[::-1].astype(np.int32)
        yield
        keys = _columns(packer.pieces)["keys"]
        packer.pieces.clear()
        yield from self._pack_pieces(wild.pop("counts").astype(np.int32), order, keys)
        del keys
        yield
        self._places = self._kept(wild.pop("places")[order])
        self._heads = self._kept(wild.pop("heads")[order])
        self._head_sizes = self._kept(wild.pop("head_sizes")[order])
        self._tails = self._kept(wild.pop("tails")[order])
        self._tail_sizes = self._kept(wild.pop("tail_sizes")[order])
        self._exact = self._kept(wild.pop("exact")[order])
        self._least = self._kept(wild.pop("least")[order])

    def _kept(self, numbers: Numbers) -> Numbers:
        compact = _compact(numbers)
        self.size += compact.nbytes
        return compact

    def _pack_prefixes(self, table: dict[str, Numbers]) -> None:
        # Of equal prefixes, the one that allows comes first and is kept.
        order = np.lexsort((table["weights"] ^ 1, table["hashes"]))
        hashes = table["hashes"][order]
        first = np.ones(len(order), np.bool_)
        first[1:] = hashes[1:] != hashes[:-1]
        self._prefixes = self._kept(hashes[first])
        self._prefix_places = self._kept(table["places"][order][first])
        self._lengths = distinct(table["weights"] >> 1)[::-1].astype(np.int64)

    def _pack_pieces(
        self, counts: Numbers, order: Numbers, keys: Numbers
    ) -> Generator[None, None, None]:
        """Pack the pieces of all rules, in steps.

        `counts`: the number of pieces of each rule, in the order of adding. `order`: the rules,
        greatest first. `keys`: those of all pieces, in the order of adding.
        """
        places = (np.cumsum(counts, dtype=np.int32) - counts)[order]
        counts = counts[order]
        self._counts = self._kept(counts)
        places = np.repeat(places - (np.cumsum(counts, dtype=np.int32) - counts), counts)
        places += np.arange(len(keys), dtype=np.int32)
        yield
        different, numbers = np.unique(keys, return_inverse=True)
        yield
        self._pieces = self._kept(numbers.reshape(-1))[places]
        sizes = different >> np.uint64(48)
        self._piece_sizes = self._kept(sizes)
        each_size, firsts = np.unique(sizes, return_index=True)
        bounds = [*map(int, firsts), len(different)]
        self._classes = [
            (int(size), bounds[at], different[bounds[at] : bounds[at + 1]])
            for at, size in enumerate(each_size)
        ]
        self.size += different.nbytes

    def deciding(self, path: str) -> Generator[None, None, Rule | None]:
        """Return the rule that decides about a path, like `Patterns.deciding`."""
        hashed = _Hashed(path)
        found = self._longest_prefix(path, hashed)
        for place in (yield from self._seeming(hashed)):
            rule = self._make_again(int(place))
            if found and rule.weight() <= found.weight():
                break
            if rule.matches(path):
                return rule
            yield
        return found

    def _longest_prefix(self, path: str, hashed: _Hashed) -> Rule | None:
        lengths = self._lengths[self._lengths <= len(path)]
        if not len(lengths):
            return None
        starts = hashed.at(np.zeros(len(lengths), np.int64), lengths)
        index = np.minimum(np.searchsorted(self._prefixes, starts), len(self._prefixes) - 1)
        for at in np.flatnonzero(self._prefixes[index] == starts):
            rule = self._make_again(int(self._prefix_places[index[at]]))
            if path.startswith(rule.pieces[0]):
                return rule
        return None

    def _seeming(self, hashed: _Hashed) -> Generator[None, None, Numbers]:
        """Return the places of the rules with stars or $ whose hashes match, greatest first."""
        length = hashed.length
        head_sizes = self._head_sizes.astype(np.int64)
        tail_sizes = self._tail_sizes.astype(np.int64)
        fits = (self._least <= length) & (~self._exact.astype(np.bool_) | (head_sizes == length))
        rules = np.flatnonzero(fits)
        zeros = np.zeros(len(rules), np.int64)
        rules = rules[hashed.at(zeros, head_sizes[rules]) == self._heads[rules]]
        ends = length - tail_sizes[rules]
        right = hashed.at(ends, np.full(len(rules), length)) == self._tails[rules]
        rules, ends = rules[right], ends[right]
        counts = self._counts.astype(np.int64)
        nexts = (np.cumsum(counts) - counts)[rules]  # for each rule, the piece to search for next
        lasts = nexts + counts[rules]
        at = head_sizes[rules]
        matched = [rules[nexts == lasts]]
        going = nexts < lasts
        where = np.zeros(0, np.int64)
        if going.any():
            where = yield from self._occurrences(hashed)
        while len(where) and going.any():
            rules, ends, nexts, lasts, at = (
                each[going] for each in (rules, ends, nexts, lasts, at)
            )
            pieces = self._pieces[nexts].astype(np.int64)
            index = np.searchsorted(where, pieces * (length + 1) + at)
            found = where[np.minimum(index, len(where) - 1)] - pieces * (length + 1)
            at = found + self._piece_sizes[pieces]
            here = (index < len(where)) & (found <= length) & (at <= ends)
            nexts = nexts + 1
            matched.append(rules[here & (nexts == lasts)])
            going = here & (nexts < lasts)
            yield
        found_all: Numbers = self._places[np.sort(np.concatenate(matched))]
        return found_all

    def _occurrences(self, hashed: _Hashed) -> Generator[None, None, npt.NDArray[np.int64]]:
        """Return where all pieces occur in a text, in steps.

        The result is sorted numbers: piece * (length + 1) + place.
        """
        found = [np.zeros(0, np.int64)]
        for size, first, keys in self._classes:
            if size > hashed.length:
                break
            yield
            windows = _keys(np.array(size), hashed.of_length(size))
            if len(keys) <= _FEW_PIECES:
                for number, key in enumerate(keys, first):
                    found.append(np.flatnonzero(windows == key) + number * (hashed.length + 1))
                continue
            index = np.minimum(np.searchsorted(keys, windows), len(keys) - 1)
            places = np.flatnonzero(keys[index] == windows)
            found.append(np.sort((index[places] + first) * (hashed.length + 1) + places))
        return np.concatenate(found)
