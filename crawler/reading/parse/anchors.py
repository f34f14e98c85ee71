"""Reads the texts of links: what a page calls the pages that it links to.

This is a reading of its own, by the tokenisers. It is done only if `extract.anchors` is set.
"""

import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from html import unescape
from typing import Final

from crawler.ports import Anchor
from crawler.reading.parse import xhtml
from crawler.reading.parse.elements import Form
from crawler.reading.parse.links import bare, srcset_urls
from crawler.reading.parse.texts import collapse, find_attributes
from crawler.reading.parse.tokens import ATTRIBUTES, Tag, attributes_of, tags

_MOST_READ: Final = 1 << 11  # characters of an `a` that are searched for its text
_MOST_TEXT: Final = 256  # characters of a text
_STEP: Final = 1 << 8  # references read in one step

# The attribute that has the text of an element. The text of an `a` is its content.
_TEXTS: Final = {
    "area": "alt",
    "frame": "title",
    "iframe": "title",
    "img": "alt",
    "link": "rel",
    "source": "alt",
}
_IMAGES: Final = frozenset({"img", "source"})
_END: Final = re.compile(r"<(?:/(?:[\w.-]+:)?)?[aA](?=[\t\n\f\r />])")
_MARKUP: Final = re.compile(
    rf"""<(?: !--.*?(?:-->|\Z) | (?P<hidden>script|style)\b.*?(?:</(?P=hidden)[^>]*+(?:>|\Z)|\Z)
    | /?(?P<name>[a-z][^\t\n\f\r />]*+) (?P<attributes>{ATTRIBUTES}) (?:>|\Z) )""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
# Elements that may stand within a word. Others separate words.
_INLINE: Final = frozenset(
    {
        "abbr", "b", "bdi", "bdo", "cite", "code", "em", "font", "i", "kbd", "mark", "q", "s",
        "samp", "small", "span", "strong", "sub", "sup", "tt", "u", "var", "wbr",
    }
)  # fmt: skip


def reading_anchors(
    text: str,
    form: Form,
    elements: frozenset[str],
    max_links: int,
    meant: Mapping[str, str],
    links: Iterable[str],
) -> Generator[None, None, list[Anchor]]:
    """Return the first `max_links` different anchors of a page, in document order, in steps.

    `elements`: those from which links are taken. `meant`: the URL that each reference means.
    `links`: the targets of the page's links. Documents in a srcdoc aren't read.
    """
    numbers = {target: number for number, target in enumerate(links)}
    names = elements & {"a", *_TEXTS} | (_IMAGES if "img" in elements else frozenset())
    is_html = form is Form.HTML
    read = tags(text, names) if is_html else xhtml.tags(text, names, default=form is Form.XHTML)
    found: dict[Anchor, None] = {}
    count = 0
    for tag in read:
        if tag is None:
            yield
            continue
        said: str | None = None
        for reference in _references(tag):
            count += 1
            if count % _STEP == 0:
                yield
            number = numbers.get(meant.get(bare(reference), ""))
            if number is not None:
                said = _said(tag, text, is_html=is_html) if said is None else said
                found[Anchor(number, tag[0], said)] = None
        if len(found) >= max_links:
            break
    return list(found)


def _references(tag: Tag) -> Iterator[str]:
    """Yield the references of an element."""
    attributes = attributes_of(tag[1])
    yield (
        attributes.get("href", "") if tag[0] in {"a", "area", "link"} else attributes.get("src", "")
    )
    if tag[0] in _IMAGES and "srcset" in attributes:
        yield from srcset_urls(attributes["srcset"])


def _said(tag: Tag, text: str, *, is_html: bool) -> str:
    """Return the text of an element, which the tag begins."""
    name, attributes, end = tag
    if name != "a":
        place = _TEXTS[name]
        return collapse(unescape(find_attributes(attributes, {place}).get(place, "")), _MOST_TEXT)
    if not is_html and attributes.endswith("/"):
        return ""
    content = text[end : end + _MOST_READ]
    stop = _END.search(content)
    content = content[: stop.start()] if stop else content
    return collapse(unescape(_MARKUP.sub(_shown, content)), _MOST_TEXT)


def _shown(match: re.Match[str]) -> str:
    """Return what a browser shows in place of markup within a link."""
    name = (match["name"] or "").lower()
    if name == "img":
        return f" {find_attributes(match['attributes'], {'alt'}).get('alt', '')} "
    return "" if name in _INLINE or not name else " "
