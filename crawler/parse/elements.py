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

_SMALL: Final = 1 << 13  # characters; too few for a depth or a tag that takes long
_LARGEST: Final = 1 << 19  # characters; more takes lexbor more than some milliseconds
_DEPTH: Final = 4000  # levels, that take 30 ms: so many unclosed tags, or twice as many in all
# Bounds the attributes of a tag: it is shorter than this, and no quoted > hides its end.
_LONG_TAG: Final = re.compile(r"""<[^>]{4096}|=\s*+(?:"[^">]*+>|'[^'>]*+>)""")


def elements(
    text: str, names: frozenset[str]
) -> Iterator[tuple[str, Mapping[str, str | None]] | None]:
    """Name and attributes (lower case) of the elements with these names, in document order.

    An attribute without a value may have None for it.

    None comes between two steps of the work, each of a few milliseconds.
    """
    if is_ordinary(text):
        # One query without names of elements takes lexbor half the time of a query with them.
        for node in LexborHTMLParser(text).css("[href],[src],[srcset],[content]"):
            if (name := node.tag) in names:
                yield name, node.attributes
        return
    for tag in tags(text, names):
        yield None if tag is None else (tag[0], attributes_of(tag[1]))


def is_ordinary(text: str) -> bool:
    """Whether a page is neither large nor able to be deep or to have a tag of many attributes."""
    if len(text) <= _SMALL:
        return True
    tags = text.count("<")
    return (
        len(text) <= _LARGEST
        # End tags may be there that end nothing, but each is a tag too.
        and tags <= 2 * _DEPTH
        and tags - 2 * text.count("</") <= _DEPTH
        and _LONG_TAG.search(text) is None
    )
