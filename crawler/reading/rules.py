"""A rule of a robots.txt: what it matches, and which of two rules decides."""

import re
from typing import Final, NamedTuple

# A rule that allows an index page also allows its folder. Google does the same; authors mean it.
_INDEX: Final = re.compile(r"/index\.html?\Z")
# Characters that a pattern and a path may write differently: escapes, and what must be escaped.
_UNEVEN: Final = re.compile(r"%([0-9A-Fa-f]{2})|[^A-Za-z0-9._~:/?#\[\]@!&'()+,;=%-]")
_UNRESERVED: Final = re.compile(r"[A-Za-z0-9._~-]")


class Rule(NamedTuple):
    """An Allow or Disallow line. Of all rules that match a path, the greatest one decides."""

    octets: int  # of the pattern, escaped
    allow: bool
    pieces: tuple[str, ...]  # of the pattern, between its stars
    anchored: bool  # the pattern ends with $
    line: str

    def weight(self) -> int:
        """Return a number that orders rules as the rules themselves do, but sorts much faster."""
        return 2 * self.octets + self.allow

    def is_prefix(self) -> bool:
        """Whether the rule has one piece, and matches all paths that start with it."""
        return not self.anchored and len(self.pieces) == 1

    def size(self) -> int:
        """Return about how many bytes the rule takes in memory."""
        return 300 + 60 * len(self.pieces) + self.octets + len(self.line)

    def matches(self, path: str) -> bool:
        """Whether the rule matches a path. The path must be in its `one_spelling`."""
        head, *middle = self.pieces
        if not path.startswith(head):
            return False
        at, end = len(head), len(path)
        if self.anchored:
            if not middle:
                return at == end
            tail = middle.pop()
            end -= len(tail)
            if end < at or not path.endswith(tail):
                return False
        for piece in middle:  # the first place is the best, so there is no backtracking
            at = path.find(piece, at, end)
            if at < 0:
                return False
            at += len(piece)
        return True


def rules_of(pattern: str, line: str, *, allow: bool) -> list[Rule]:
    """Return the one or two rules of an Allow or Disallow line with this pattern."""
    rules = [_rule(pattern, line, allow=allow)]
    if allow and (folder := _INDEX.sub("/", pattern)) != pattern:
        rules.append(_rule(folder + "$", line, allow=True))
    return rules


def _rule(pattern: str, line: str, *, allow: bool) -> Rule:
    anchored = pattern.endswith("$")
    if not anchored and "*" not in pattern:  # most rules, so they are handled fast
        prefix = one_spelling(pattern)
        return Rule(len(prefix), allow, (prefix,), False, line)
    pieces = [one_spelling(piece) for piece in pattern.removesuffix("$").split("*")]
    octets = sum(map(len, pieces)) + len(pieces) - 1 + anchored
    pieces = [pieces[0], *filter(None, pieces[1:-1]), *pieces[1:][-1:]]  # `**` is `*`
    return Rule(octets, allow, tuple(pieces), anchored, line)


def one_spelling(text: str) -> str:
    """Return a path, or a piece of a pattern, in the spelling in which both are compared.

    Letters, digits and `-._~` aren't escaped. Characters outside ASCII, characters that URLs can't
    hold, and literal stars and dollar signs are escaped. `%2F` and `/` stay different.
    """
    return _UNEVEN.sub(_even, text) if _UNEVEN.search(text) else text


def _even(match: re.Match[str]) -> str:
    if match[1]:
        character = chr(int(match[1], 16))
        return character if _UNRESERVED.fullmatch(character) else match[0].upper()
    return f"%{ord(match[0]):02X}"
