"""The start tags of a page that hold links: by lexbor where that is safe, else by our tokeniser.

lexbor (selectolax) is the parser. It builds a tree in a time quadratic in the depth of nesting and
in the attributes of a tag, so a page made to be slow would stop the event loop for minutes. Cheap
bounds on both decide: a page beyond them goes to `tokens`, which is slower, linear, and finds the
same links. docs/decisions/two-readers-of-html.md has the measurements.
"""

from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import Final

import numpy as np
from selectolax.lexbor import LexborHTMLParser, LexborNode

from crawler.reading.parse import xhtml
from crawler.reading.parse.tokens import SHADOW_ROOTS, attributes_of, tags

_SMALL: Final = 1 << 13  # characters; too few for a depth or a tag that takes long
_LARGEST: Final = 1 << 19  # characters; more takes lexbor more than some milliseconds
_DEPTH: Final = 4000  # levels, that take 30 ms: so many unclosed tags, or twice as many in all
_BLOCK: Final = 1 << 12  # characters; a tag as long as two has attributes that take 30 ms
_TRIALS: Final = 8  # of the > in a block
# Queries by attribute alone take lexbor less time than those by name and attribute.
_QUERY: Final = "[href],[content],iframe,frame,noframes,template"
_HIDING: Final = frozenset({"noframes", "template"})
_QUERY_WITH_IMAGES: Final = f"{_QUERY},[src],[srcset]"


class Form(Enum):
    """How a text is to be read."""

    HTML = auto()
    XHTML = auto()  # elements in no namespace count, too
    XML = auto()


def elements(
    text: str, names: frozenset[str], utf8: bytes | None = None, *, form: Form = Form.HTML
) -> Iterator[tuple[str, Mapping[str, str | None]] | None]:
    """Name and attributes (lower case) of the elements with these names, in document order.

    An attribute without a value may have the value None. `utf8` is the text in bytes, if the caller
    has them. Of XHTML and other XML only XHTML elements count.

    Yields None between two steps of the work, each of a few milliseconds.
    """
    if form is not Form.HTML:
        for tag in xhtml.tags(text, names, default=form is Form.XHTML):
            yield None if tag is None else (tag[0], attributes_of(tag[1]))
        return
    ordinary = False
    if len(text) <= _LARGEST:
        utf8 = utf8 or text.encode()
        ordinary = is_ordinary(text, utf8)
    if ordinary:
        assert utf8 is not None
        found = LexborHTMLParser(utf8).css(_QUERY_WITH_IMAGES if "img" in names else _QUERY)
        tags_of = [node.tag for node in found]
        if _HIDING.isdisjoint(tags_of) or not any(map(_hides_links, tags_of, found)):
            for name, node in zip(tags_of, found, strict=True):
                if name in names:
                    yield name, node.attributes
            return
    for tag in tags(text, names):
        yield None if tag is None else (tag[0], attributes_of(tag[1]))


def _hides_links(name: str | None, node: LexborNode) -> bool:
    """Whether an element holds markup that the tokeniser reads, but lexbor doesn't."""
    if name == "template":
        mode = node.attributes.get("shadowrootmode")
        return mode is not None and mode.lower() in SHADOW_ROOTS
    return name == "noframes"


def is_ordinary(text: str, utf8: bytes) -> bool:
    """Whether a page is neither large nor able to be deep or to have a tag of many attributes."""
    if len(text) <= _SMALL:
        return True
    tags = int(np.count_nonzero(np.frombuffer(utf8, np.uint8) == ord("<")))  # faster than `count`
    return (
        len(text) <= _LARGEST
        # End tags may be there that end nothing, but each is a tag too.
        and tags <= 2 * _DEPTH
        and (tags <= _DEPTH or tags - 2 * text.count("</") <= _DEPTH)
        and _ends_tags(text)
    )


def _ends_tags(text: str) -> bool:
    """Whether each block of the text has a > that ends whatever tag it stands in: then no tag
    reaches across a block. Only where an attribute's quoted value is open does a > end nothing."""
    double = single = -1  # where the last quotes before `read` are
    read = 0
    for start in range(0, len(text) - _BLOCK, _BLOCK):
        at = start
        for _ in range(_TRIALS):
            at = text.find(">", at, start + _BLOCK) + 1
            if not at:
                return False
            # What lies before `read` isn't searched again: a page may have no quote of a kind.
            double = max(double, text.rfind('"', read, at))
            single = max(single, text.rfind("'", read, at))
            read = at
            if not (_opens_value(text, double) or _opens_value(text, single)):
                break
        else:
            return False
    return True


def _opens_value(text: str, quote: int) -> bool:
    """Whether a value may start at the quote at this place, if it is one."""
    if quote < 0:
        return False
    before = text[max(0, quote - 16) : quote].rstrip("\t\n\f\r ")
    return before.endswith("=") or not before  # = comes before it, or only space for so long
