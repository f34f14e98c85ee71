"""Finds the start tags that hold links: with lexbor where that is safe, else with our tokeniser.

lexbor (selectolax) builds a tree. Its time is quadratic in the depth of nesting and in the
attributes of a tag, so a hostile page would stop the event loop for minutes. Cheap tests bound
both. A page beyond the bounds is read by `tokens`, which finds the same links in linear time, but
is slower on ordinary pages. docs/decisions/two-readers-of-html.md has the measurements.
"""

from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import Final

import numpy as np
from selectolax.lexbor import LexborHTMLParser, LexborNode

from crawler.reading.parse import xhtml
from crawler.reading.parse.tokens import SHADOW_ROOTS, attributes_of, tags

_SMALL: Final = 1 << 13  # characters; a smaller page is always fast
_LARGEST: Final = 1 << 19  # characters; a larger page takes lexbor too many milliseconds
_DEPTH: Final = 4000  # unclosed tags, or half of all tags; a tree so deep takes lexbor 30 ms
_BLOCK: Final = 1 << 12  # characters; the attributes of a tag as long as two blocks take 30 ms
_TRIALS: Final = 8  # so many > in a block are looked at
# lexbor is faster with queries by attribute alone than with those by name and attribute.
_QUERY: Final = "[href],[content],iframe,frame,noframes,template"
_HIDING: Final = frozenset({"noframes", "template"})
_QUERY_WITH_IMAGES: Final = f"{_QUERY},[src],[srcset]"


class Form(Enum):
    """The form in which a text is read."""

    HTML = auto()
    XHTML = auto()  # elements without a namespace count as XHTML, too
    XML = auto()


def elements(
    text: str, names: frozenset[str], utf8: bytes | None = None, *, form: Form = Form.HTML
) -> Iterator[tuple[str, Mapping[str, str | None]] | None]:
    """Yield name and attributes (lower case) of the elements with these names, in document order.

    Yields None between two steps, each of a few milliseconds. An attribute without a value may have
    the value None. `utf8`: the text in bytes, if the caller has them. In XHTML and other XML only
    XHTML elements count.
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
    """Whether an element holds markup that our tokeniser reads, but lexbor doesn't."""
    if name == "template":
        mode = node.attributes.get("shadowrootmode")
        return mode is not None and mode.lower() in SHADOW_ROOTS
    return name == "noframes"


def is_ordinary(text: str, utf8: bytes) -> bool:
    """Whether lexbor surely reads a page fast: it isn't large, deep, or full of attributes."""
    if len(text) <= _SMALL:
        return True
    tags = int(np.count_nonzero(np.frombuffer(utf8, np.uint8) == ord("<")))  # faster than `count`
    return (
        len(text) <= _LARGEST
        # An end tag may close nothing, but the bound on all tags counts it, too.
        and tags <= 2 * _DEPTH
        and (tags <= _DEPTH or tags - 2 * text.count("</") <= _DEPTH)
        and _ends_tags(text)
    )


def _ends_tags(text: str) -> bool:
    """Whether each block of a text has a > that surely ends a tag, so that no tag spans a block.

    A > ends its tag unless the quoted value of an attribute is open.
    """
    double = single = -1  # the places of the last quotes before `read`
    read = 0
    for start in range(0, len(text) - _BLOCK, _BLOCK):
        at = start
        for _ in range(_TRIALS):
            at = text.find(">", at, start + _BLOCK) + 1
            if not at:
                return False
            # The text before `read` isn't searched again: a page may lack one kind of quote.
            double = max(double, text.rfind('"', read, at))
            single = max(single, text.rfind("'", read, at))
            read = at
            if not (_opens_value(text, double) or _opens_value(text, single)):
                break
        else:
            return False
    return True


def _opens_value(text: str, quote: int) -> bool:
    """Whether the quoted value of an attribute may start at a place; -1 is no place."""
    if quote < 0:
        return False
    before = text[max(0, quote - 16) : quote].rstrip("\t\n\f\r ")
    return before.endswith("=") or not before  # after 16 blanks, the = may be farther away
