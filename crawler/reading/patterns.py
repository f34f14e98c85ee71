"""The patterns of a robots.txt, and the one that decides about a path: RFC 9309, section 2.2.2.

`Patterns` takes rules one by one. A few rules are kept as objects. Many rules are packed into
arrays of numbers: half a megabyte of lines holds 65,000 rules, which would take 17 MB as objects
and 300 ms to be tried on one path. A packed rule takes about 20 bytes. All packed rules are tried
at once, by hashes. The best rule that seems to match is made again from its line and tried by
itself.
"""

from collections.abc import Callable, Generator
from typing import Final

from crawler.reading.packed_rules import PackedRules, Packer
from crawler.reading.rules import Rule, one_spelling

_TRIED: Final = 1 << 18  # characters that rules are tried on in one step
_LOOSE_BYTES: Final = 256 << 10  # of rules that are kept as objects; a few hundred rules


class Patterns:
    """A set of rules, by which paths are judged once it is closed."""

    __slots__ = ("_lengths", "_loose", "_packed", "_prefixes", "_wild", "size")

    def __init__(self) -> None:
        self._prefixes: dict[str, Rule] = {}  # most of all rules, so looked up
        self._lengths: list[int] = []  # of them, longest first
        self._wild: list[Rule] = []  # the others; when closed, greatest first
        self._loose: list[tuple[Rule, int]] = []  # all of them, with places, until it is closed
        self._packed: Packer | PackedRules | None = None
        self.size = 0  # about how many bytes it takes in memory

    def __bool__(self) -> bool:
        return bool(self._prefixes or self._wild or self._packed)

    def add(self, rule: Rule, place: int) -> None:
        """Take a rule. `place` is the number by which it can be made again."""
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
        """Take no more rules, in steps. `make_again` gives a rule by its place."""
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
        """The rule with the longest pattern that matches a path, Allow before Disallow; in steps of
        a few milliseconds."""
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
