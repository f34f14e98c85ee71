"""Finds the rule of a robots.txt that decides about a path (RFC 9309, section 2.2.2).

`Patterns` takes rules one by one. A few rules are kept as objects. Many rules are packed into
arrays of numbers. Half a megabyte of lines holds 65,000 rules; as objects they would take 17 MB,
and 300 ms to match with one path. A packed rule takes about 20 bytes. All packed rules are matched
at once, by hashes. The best rule whose hashes match is made again from its line, and matched
exactly.
"""

from collections.abc import Callable, Generator
from typing import Final

from crawler.reading.packed_rules import PackedRules, Packer
from crawler.reading.rules import Rule, one_spelling

_TRIED: Final = 1 << 18  # characters that rules are matched with in one step
_LOOSE_BYTES: Final = 256 << 10  # of rules kept as objects: a few hundred rules


class Patterns:
    """A set of rules. Add rules, close the set, and then ask it about paths."""

    __slots__ = ("_lengths", "_loose", "_packed", "_prefixes", "_wild", "size")

    def __init__(self) -> None:
        self._prefixes: dict[str, Rule] = {}  # rules without stars and $, by their only piece
        self._lengths: list[int] = []  # of the prefixes, longest first
        self._wild: list[Rule] = []  # the other rules, greatest first once the set is closed
        self._loose: list[tuple[Rule, int]] = []  # not packed yet; empty once closed
        self._packed: Packer | PackedRules | None = None
        self.size = 0  # about how many bytes the rules take in memory

    def __bool__(self) -> bool:
        return bool(self._prefixes or self._wild or self._packed)

    def add(self, rule: Rule, place: int) -> None:
        """Add a rule. `place` is the number from which the rule can be made again."""
        self._loose.append((rule, place))
        self.size += rule.size()
        if self.size > _LOOSE_BYTES:
            self._pack()

    def _pack(self) -> None:
        if self._packed is None:
            self._packed = Packer()
        assert isinstance(self._packed, Packer)
        self._packed.add(self._loose)
        self._loose = []
        self.size = 0

    @property
    def are_packed(self) -> bool:
        """Whether the rules are packed, and made again from their lines when they decide."""
        return self._packed is not None

    def closing(self, make_again: Callable[[int], Rule]) -> Generator[None, None, None]:
        """Close the set, in steps. `make_again` returns the rule of a place."""
        if self._packed is not None:
            self._pack()
            assert isinstance(self._packed, Packer)
            packed = PackedRules(make_again)
            yield from packed.packing(self._packed)
            self._packed = packed
            self.size = packed.size
        for rule, _ in self._loose:
            if rule.is_prefix():
                prefix = rule.pieces[0]
                self._prefixes[prefix] = max(rule, self._prefixes.get(prefix, rule))
            else:
                self._wild.append(rule)
        self._loose = []
        self._lengths = sorted(set(map(len, self._prefixes)), reverse=True)
        self._wild.sort(key=Rule.weight, reverse=True)

    def deciding(self, path: str) -> Generator[None, None, Rule | None]:
        """Return the rule that decides about a path, in steps of a few milliseconds.

        Of the rules that match, it is the one with the longest pattern; of two with equally long
        patterns, the one that allows. Returns None if no rule matches.
        """
        path = one_spelling(path)
        if self._packed is not None:
            assert isinstance(self._packed, PackedRules)
            return (yield from self._packed.deciding(path))
        found = None
        for length in self._lengths:
            found = self._prefixes.get(path[:length])
            if found:
                break
        tries = max(1, _TRIED // (len(path) + 1))
        for number, rule in enumerate(self._wild, 1):
            if found and rule < found:
                break
            if rule.matches(path):
                return rule
            if number % tries == 0:
                yield
        return found
