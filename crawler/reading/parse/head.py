"""Reads the title and the language of a page. docs/session.md says what they are."""

import re
from collections.abc import Generator, Sequence
from functools import cache, lru_cache
from html import unescape
from typing import Final, NamedTuple

from crawler.reading.parse.elements import Form, xhtml_tags
from crawler.reading.parse.texts import collapse, find_attributes
from crawler.reading.parse.tokens import SPACE, tags

_READ: Final = 1 << 17  # characters; a title behind them isn't found
_USUALLY_READ: Final = 1 << 14  # characters
_MOST_READ: Final = 1 << 12  # characters of a title, before its blanks are collapsed
_SEARCHED: Final = 1 << 10  # characters of the attributes of `html`
_MOST_TITLE: Final = 512  # characters of a title
_NAMES: Final = frozenset({"html", "title"})
_TITLE_END: Final = re.compile(r"</[tT][iI][tT][lL][eE](?=[\t\n\f\r />])")
_LANGUAGE: Final = re.compile(r"[a-z]{1,8}(?:-[a-z0-9]{1,8}){0,7}")

_ATTRIBUTES: Final = (
    rf"""(?:[\t\n\f\r /]*+[^\t\n\f\r />="'<]++"""
    rf"""(?:{SPACE}*+={SPACE}*+(?:"[^"<]*+"|'[^'<]*+'|[^\t\n\f\r >"'<=]++))?)*+[\t\n\f\r /]*+"""
)


@cache
def _usual() -> re.Pattern[str]:
    """Return the pattern of the beginning of most pages, up to the end of the title.

    One match takes a third of the time that the tokeniser takes. The pattern matches only where
    both find the same: no tag, comment or script before the title holds another `<`. It is compiled
    when it is needed, because the compiled scanner finds the title itself.
    """
    return re.compile(
        rf"""[^<]*+ (?:<!(?i:doctype)[^<>]*+>[^<]*+)?+
        (?:<(?i:html)(?=[\t\n\f\r />])({_ATTRIBUTES})>[^<]*+)?+
        (?:<(?: (?i:head|meta|link|base)(?=[\t\n\f\r />]){_ATTRIBUTES}>
        | !--(?!-?>)[^-<]*+(?:-(?!-)[^-<]*+)*+-->
        | (?P<raw>script|style)(?=[\t\n\f\r />]){_ATTRIBUTES}>[^<]*+</(?P=raw)> )[^<]*+)*+
        <(?i:title)(?=[\t\n\f\r />]){_ATTRIBUTES}>([^<]*+)</(?i:title)(?=[\t\n\f\r />])""",
        re.VERBOSE,
    )


class Head(NamedTuple):
    """The title of a page, and its language, as far as they are given."""

    title: str | None = None
    language: str | None = None  # a language tag in lower case, such as `de` or `pt-br`


def usual_head(attributes: str, title: str) -> Head:
    """Return the head of a page, given the text of its title and of the attributes of its `html`.

    Both are as the page writes them.
    """
    return Head(_title(title[:_MOST_READ]), _language_of(attributes[:_SEARCHED]))


def reading_head(text: str, form: Form) -> Generator[None, None, Head]:
    """Return the first title in the text of a page, and the language of its `html`, in steps."""
    is_html = form is Form.HTML
    if is_html and (usual := _usual().match(text, 0, _USUALLY_READ)):
        attributes, _, title = usual.groups("")
        return usual_head(attributes, title)
    text = text[:_READ]
    language = None
    read = tags(text, _NAMES) if is_html else xhtml_tags(text, _NAMES, form)
    for tag in read:
        if tag is None:
            yield
            continue
        name, attributes, end = tag
        if name == "title":
            is_empty = attributes.endswith("/") and not is_html
            title = "" if is_empty else _title_at(text, end, is_html=is_html)
            return Head(_title(title), language)
        if language is None:
            language = _language_of(attributes[:_SEARCHED])
    return Head(None, language)


def _title_at(text: str, start: int, *, is_html: bool) -> str:
    """Return the title that starts at a place, as it is written."""
    most = start + _MOST_READ
    if is_html:
        match = _TITLE_END.search(text, start, most + len("</title "))
        end = match.start() if match else most
    else:
        end = text.find("<", start, most)
        end = end if end >= 0 else most
    return text[start : min(end, most)]


def _title(text: str) -> str | None:
    return collapse(unescape(text) if "&" in text else text, _MOST_TITLE) or None


@lru_cache(1 << 10)
def _language_of(attributes: str) -> str | None:
    """Return the language in the attributes of a tag; `lang` counts before `xml:lang`."""
    found = find_attributes(attributes, {"lang", "xml:lang"})
    return language_tag(found.get("lang", "")) or language_tag(found.get("xml:lang", ""))


def language_tag(text: str) -> str | None:
    """Return a language tag (RFC 5646) in lower case, or None if the text isn't one.

    Many pages write `en_US` for `en-US`.
    """
    tag = text[:80].strip().lower().replace("_", "-")
    return tag if _LANGUAGE.fullmatch(tag) else None


def header_language(values: Sequence[str]) -> str | None:
    """Return the language in Content-Language headers; None if they name several."""
    return language_tag(values[0]) if len(values) == 1 else None
