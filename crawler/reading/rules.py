"""A rule of a robots.txt: what it matches, and which of two rules decides."""

import re
from typing import Final, NamedTuple

# An index page that is allowed allows its folder. That is Google's, and what the author means.
_INDEX: Final = re.compile(r"/index\.html?\Z")
# What a pattern and a path may be written in differently: escapes, and what must be escaped.
_UNEVEN: Final = re.compile(r"%([0-9A-Fa-f]{2})|[^A-Za-z0-9._~:/?#\[\]@!&'()+,;=%-]")
_UNRESERVED: Final = re.compile(r"[A-Za-z0-9._~-]")


class Rule(NamedTuple):
    """An Allow or Disallow line. Of the rules that match a path, the greatest one decides."""

    octets: int  # of the pattern, escaped
    allow: bool
    pieces: tuple[str, ...]  # of the pattern, between its stars
    anchored: bool  # the pattern ends with $
    line: str

    def weight(self) -> int:
        """Greater for the greater of two rules; sorting by it is far faster."""
        return 2 * self.octets + self.allow

    def is_prefix(self) -> bool:
        """Whether the rule matches all paths that start with its only piece."""
        return not self.anchored and len(self.pieces) == 1

    def size(self) -> int:
        """About how many bytes the rule takes in memory."""
        return 300 + 60 * len(self.pieces) + self.octets + len(self.line)

    def matches(self, path: str) -> bool:
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
        for piece in middle:  # the first place is the best, so nothing is ever tried again
            at = path.find(piece, at, end)
            if at < 0:
                return False
            at += len(piece)
        return True


def rules_of(pattern: str, line: str, *, allow: bool) -> list[Rule]:
    """The rules that an Allow or Disallow line with this pattern makes: one or two."""
    rules = [_rule(pattern, line, allow=allow)]
    if allow and (folder := _INDEX.sub("/", pattern)) != pattern:
        rules.append(_rule(folder + "$", line, allow=True))
    return rules


def _rule(pattern: str, line: str, *, allow: bool) -> Rule:
    anchored = pattern.endswith("$")
    if not anchored and "*" not in pattern:  # most are so, and a large file has thousands
        prefix = one_spelling(pattern)
        return Rule(len(prefix), allow, (prefix,), False, line)
    pieces = [one_spelling(piece) for piece in pattern.removesuffix("$").split("*")]
    octets = sum(map(len, pieces)) + len(pieces) - 1 + anchored
    pieces = [pieces[0], *filter(None, pieces[1:-1]), *pieces[1:][-1:]]  # `**` is `*`
    return Rule(octets, allow, tuple(pieces), anchored, line)


def one_spelling(text: str) -> str:
    """The one spelling of a path or of a piece of a pattern.

    Letters, digits and `-._~` aren't escaped; what isn't ASCII or no part of a URL is, and so are
    stars and dollar signs that mean themselves. `%2F` and `/` stay different.
    """
    return _UNEVEN.sub(_even, text) if _UNEVEN.search(text) else text


def _even(match: re.Match[str]) -> str:
    if match[1]:
        character = chr(int(match[1], 16))
        return character if _UNRESERVED.fullmatch(character) else match[0].upper()
    return f"%{ord(match[0]):02X}"
