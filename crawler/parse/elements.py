"""The start tags of a page that hold links: by lexbor where that is safe, else by our tokeniser.

lexbor (selectolax) is the parser. It builds a tree in a time quadratic in the depth of nesting and
in the attributes of a tag, so a page made to be slow would stop the event loop for minutes. Cheap
bounds on both decide: a page beyond them goes to `tokens`, which is slower, linear, and finds the
same links. docs/decisions/two-readers-of-html.md has the measurements.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from selectolax.lexbor import LexborHTMLParser

from crawler.parse.tokens import attributes_of, tags

_LARGEST: Final = 1 << 19  # characters; more takes lexbor more than some milliseconds
_TAGS: Final = 4000  # bounds the depth: 4,000 levels take 30 ms
# Bounds the attributes of a tag: it is shorter than this, and no quoted > hides its end.
_LONG_TAG: Final = re.compile(r"""<[^>]{4096}|=\s*+(?:"[^">]*+>|'[^'>]*+>)""")


def elements(text: str, names: frozenset[str]) -> Iterator[tuple[str, Mapping[str, str]] | None]:
    """Name and attributes (lower case) of the elements with these names, in document order.

    None comes between two steps of the work, each of a few milliseconds.
    """
    if is_ordinary(text):
        # One query without names of elements takes lexbor half the time of a query with them.
        for node in LexborHTMLParser(text).css("[href],[src],[srcset],[content]"):
            if (name := node.tag) in names:
                yield name, {key: value or "" for key, value in node.attributes.items()}
        return
    for tag in tags(text, names):
        yield None if tag is None else (tag[0], attributes_of(tag[1]))


def is_ordinary(text: str) -> bool:
    """Whether a page is neither large nor able to be deep or to have a tag of many attributes."""
    return len(text) <= _LARGEST and text.count("<") <= _TAGS and _LONG_TAG.search(text) is None
