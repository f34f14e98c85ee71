"""What kind of document a response holds."""

import fnmatch
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
_NO_TYPES: Final = frozenset({"", "*/*", "unknown/unknown", "application/unknown"})
# https://mimesniff.spec.whatwg.org/#identifying-a-resource-with-an-unknown-mime-type
_HTML_START: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?[\t\n\f\r ]*<(?:!--|(?:!doctype html|html|head|script|iframe|h1|div|font"
    rb"|table|a|style|title|b|body|br|p)[ >])",
    re.IGNORECASE,
)


def media_type(content_type: str | None, body: bytes) -> str:
    """`type/subtype`, lower case: by Content-Type, or else by the first bytes."""
    essence = (content_type or "").partition(";")[0].strip().lower()
    if essence not in _NO_TYPES:
        return essence
    return "text/html" if _HTML_START.match(body, 0, 1445) else "application/octet-stream"


def is_html(content_type: str | None, body: bytes) -> bool:
    """Whether a response is an HTML page: by its Content-Type, or else by its first bytes."""
    return media_type(content_type, body) in HTML_TYPES


class Kinds:
    """A choice of documents by media type and by extension of the URL's path, as configured.

    Patterns: a media type, `image/*`; an extension, `.zip`; with `!` before it, what isn't chosen
    even if another pattern says so.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        chosen: list[str] = []
        refused: list[str] = []
        for pattern in patterns:
            kind = refused if pattern.startswith("!") else chosen
            kind.append(pattern.removeprefix("!").lower())
        self._chosen = _Patterns(chosen)
        self._refused = _Patterns(refused)

    def hold(self, media: str, url: str) -> bool:
        """Whether a document of this media type at this normalised URL is one of them."""
        name = url.partition("?")[0].rpartition("/")[2].lower()
        return self._chosen.match(media, name) and not self._refused.match(media, name)


class _Patterns:
    def __init__(self, patterns: list[str]) -> None:
        self._extensions = tuple(pattern for pattern in patterns if pattern.startswith("."))
        self._types = [pattern for pattern in patterns if not pattern.startswith(".")]

        self._match_type = lru_cache(1024)(self._match_type_uncached)

    def match(self, media: str, name: str) -> bool:
        return self._match_type(media) or name.endswith(self._extensions)

    def _match_type_uncached(self, media: str) -> bool:
        return any(fnmatch.fnmatchcase(media, pattern) for pattern in self._types)
