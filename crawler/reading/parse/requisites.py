"""Finds the requisites of a page or of a style sheet: the files that are needed to show it.

A page is read by the tokeniser, because a requisite may stand in an attribute of any element, and
in the text of a `style` element. Frames are no requisites, but links.
"""

import re
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from typing import Final

from crawler.ports import Response
from crawler.reading.media import charset_source
from crawler.reading.parse import sheets, xhtml
from crawler.reading.parse.elements import Form
from crawler.reading.parse.encoding import decoding
from crawler.reading.parse.links import srcset_urls
from crawler.reading.parse.resolution import C0_OR_SPACE, Base, Resolution, base_of, most_characters
from crawler.reading.parse.tokens import Tag, attributes_of, tags

_SOURCES: Final = frozenset(
    {"audio", "embed", "img", "input", "script", "source", "track", "video"}
)  # with an attribute `src`
_SVG: Final = frozenset({"feimage", "image", "use"})  # with `href` or `xlink:href`
_ALWAYS: Final = _SOURCES | _SVG | {"base", "link", "object", "style"}
# With an attribute `background`.
_BACKGROUNDS: Final = frozenset({"body", "table", "tbody", "td", "tfoot", "th", "thead", "tr"})
_BACKGROUND: Final = re.compile(r"background[\t\n\f\r ]*+=", re.IGNORECASE)
# Elements that may have an attribute `style`.
_STYLED: Final = frozenset(
    {
        "a", "abbr", "article", "aside", "b", "blockquote", "body", "button", "caption",
        "center", "cite", "code", "col", "dd", "details", "div", "dl", "dt", "em",
        "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4",
        "h5", "h6", "header", "hr", "html", "i", "iframe", "kbd", "label", "legend", "li",
        "main", "nav", "ol", "p", "pre", "q", "s", "section", "select", "small", "span",
        "strong", "sub", "summary", "sup", "table", "tbody", "td", "textarea", "tfoot",
        "th", "thead", "tr", "tt", "u", "ul", "var",
    }
)  # fmt: skip
_STYLE: Final = re.compile(r"style[\t\n\f\r ]*+=", re.IGNORECASE)
_STYLE_END: Final = re.compile(r"</style(?=[\t\n\f\r />])", re.IGNORECASE)
_URL: Final = re.compile(r"url\(", re.IGNORECASE)
_RELATIONS: Final = frozenset(
    {
        "apple-touch-icon", "apple-touch-icon-precomposed", "icon", "manifest", "mask-icon",
        "modulepreload", "preload", "stylesheet",
    }
)  # fmt: skip
_PICTURE: Final = "image"


def of_page(
    text: str, url: str, encoding: str, form: Form, most: int, most_bytes: int
) -> Generator[None, None, list[str]]:
    """Return the normalised URLs of the requisites of a page, each once, in steps.

    `url`: that of the page. `most` and `most_bytes` bound their number and their length, as they do
    for links. URLs keep their queries as they are, because a browser asks for them so.
    """
    found: dict[str, int] = {}
    base: str | None = None
    style_end = 0
    for tag in _tags(text, form):
        if tag is None:
            yield
            continue
        name, written, start = tag
        if name == "style":
            if style_end < start:  # so the text is searched only once
                match = _STYLE_END.search(text, start)
                style_end = match.start() if match else len(text)
            references: Iterator[str | None] = sheets.references(text[start:style_end])
        else:
            attributes = attributes_of(written)
            if name == "base":
                base = attributes.get("href") if base is None else base
                continue
            references = _references(name, attributes)
        for reference in references:
            if reference is None:
                yield
            elif len(found) < most and (bare := _bare(reference)):
                found[bare] = 0
    where = Base(url) if base is None else base_of(base, url)
    return (yield from _resolved(found, where, encoding, most_characters(text, most_bytes), url))


def of_sheet(response: Response, most: int, most_bytes: int) -> Generator[None, None, list[str]]:
    """Return the normalised URLs that a style sheet needs, in steps. See `of_page`."""
    source = charset_source(response.content_type)
    text, _ = yield from decoding(response.body, source)
    found: dict[str, int] = {}
    for reference in sheets.references(text):
        if reference is None:
            yield
        elif len(found) < most and (bare := _bare(reference)):
            found[bare] = 0
    room = most_characters(text, most_bytes)
    return (yield from _resolved(found, Base(response.url), "utf-8", room, response.url))


def _resolved(
    found: Mapping[str, int], base: Base, encoding: str, room: int, url: str
) -> Generator[None, None, list[str]]:
    resolution = Resolution(encoding, None, room, Counter())
    yield from resolution.resolve(found, base)
    resolution.targets.pop(url, None)
    return list(resolution.targets)


def _bare(reference: str) -> str:
    """The reference without blanks around it and without its fragment."""
    return reference.strip(C0_OR_SPACE).partition("#")[0]


def _tags(text: str, form: Form) -> Iterator[Tag | None]:
    names = _ALWAYS
    if _BACKGROUND.search(text):
        names |= _BACKGROUNDS
    if _URL.search(text) and _STYLE.search(text):
        names |= _STYLED
    if form is Form.HTML:
        return tags(text, names)
    return xhtml.tags(text, names, default=form is Form.XHTML)


def _references(name: str, attributes: Mapping[str, str]) -> Iterator[str | None]:
    """Yield the references in the attributes of an element."""
    if name in _SOURCES and (name != "input" or attributes.get("type", "").lower() == _PICTURE):
        yield attributes.get("src", "")
        yield attributes.get("poster", "")
    elif name in _SVG:
        yield attributes.get("href", attributes.get("xlink:href", ""))
    elif name == "object":
        yield attributes.get("data", "")
    elif name == "link" and not _RELATIONS.isdisjoint(attributes.get("rel", "").lower().split()):
        yield attributes.get("href", "")
        yield from srcset_urls(attributes.get("imagesrcset", ""))
    yield from srcset_urls(attributes.get("srcset", ""))
    yield attributes.get("background", "")
    style = attributes.get("style", "")
    if style:
        yield from sheets.references(style)
