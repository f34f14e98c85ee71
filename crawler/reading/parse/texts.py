"""Texts for people in the markup of a page: attributes such as `alt`, and blanks collapsed."""

import re
from collections.abc import Collection
from itertools import islice
from typing import Final

from crawler.reading.parse.tokens import SPACE

_MOST_ATTRIBUTES: Final = 1 << 8  # of a tag
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_ATTRIBUTE: Final = re.compile(
    rf"""[\t\n\f\r /]*+([^\t\n\f\r />][^\t\n\f\r />=]*+)
    (?:{SPACE}*+={SPACE}*+(?:"([^"]*+)"|'([^']*+)'|([^\t\n\f\r >]*+)))?""",
    re.VERBOSE,
)


def find_attributes(text: str, names: Collection[str]) -> dict[str, str]:
    """Return the attributes of a tag that have these names in lower case, as they are written.

    Character references in their values aren't undone. The first value of a name counts.
    """
    found: dict[str, str] = {}
    for match in islice(_ATTRIBUTE.finditer(text), _MOST_ATTRIBUTES):
        name = match[1].lower()
        if name in names:
            found.setdefault(name, match[2] or match[3] or match[4] or "")
    return found


def collapse(text: str, most: int) -> str:
    """Return a text with controls and blanks collapsed to single blanks, cut at a length."""
    if not text.isprintable():
        text = _CONTROLS.sub(" ", text)
    return " ".join(text.split())[:most].rstrip()
