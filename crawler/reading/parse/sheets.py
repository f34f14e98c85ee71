"""Finds the references in style sheets: what `@import` and `url()` name.

The rules are those of https://www.w3.org/TR/css-syntax-3. A sheet isn't parsed any further, because
only references count. Time grows with the length of the text.
"""

import re
from collections.abc import Iterator
from typing import Final

_STRING: Final = r"""(?:"((?>(?:[^"\\\n]++|\\[\s\S])*))"|'((?>(?:[^'\\\n]++|\\[\s\S])*))')"""
# What an unquoted url() may hold ends at a blank or at its parenthesis.
_BARE: Final = r"""((?>(?:[^"'()\\\s]++|\\(?:[0-9a-f]{1,6}\s?|[^\n]))*))"""
_BETWEEN: Final = r"(?>(?:\s++|/\*(?>(?:[^*]++|\*(?!/))*)\*/)*)"  # blanks and comments
_URL: Final = rf"[uU][rR][lL]\(\s*+(?:{_STRING}|{_BARE})\s*+\)"
_TOKEN: Final = re.compile(
    rf"""(?P<comment>/\*)
    | @namespace\b[^;]*+
    | @import\b{_BETWEEN}{_STRING}
    | (?<![\w-]){_URL}
    | (?P<string>{_STRING})
    | \\[\s\S]""",
    re.VERBOSE | re.IGNORECASE,
)
_ESCAPE: Final = re.compile(r"\\(?:([0-9a-fA-F]{1,6})[ \t\n\f\r]?|(\n)|([\s\S]))")
_TOKENS: Final = 1 << 11  # in one step
_LARGEST: Final = 0x110000


def references(text: str) -> Iterator[str | None]:
    """Yield the references of a style sheet, or of a style attribute, in their order.

    Yields None between two steps, each of a few milliseconds. A reference may come several times.
    """
    at = count = 0
    while token := _TOKEN.search(text, at):
        at = token.end()
        count += 1
        if count % _TOKENS == 0:
            yield None
        if token["comment"]:
            at = text.find("*/", at) + 2
            if at < 2:
                return
        elif not token["string"]:
            found = next(filter(None, token.groups()), None)
            if found:
                yield _unescaped(found)


def _unescaped(value: str) -> str:
    return _ESCAPE.sub(_character, value) if "\\" in value else value


def _character(escape: re.Match[str]) -> str:
    digits, newline, itself = escape.groups()
    if newline:
        return ""
    if not digits:
        return str(itself)
    code = int(digits, 16)
    is_none = not code or code in range(0xD800, 0xE000) or code >= _LARGEST
    return "\ufffd" if is_none else chr(code)
