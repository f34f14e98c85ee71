"""Finds the media type of a response from its Content-Type and its first bytes, as browsers do.

The rules are those of https://mimesniff.spec.whatwg.org. For several Content-Type lines they are
those of https://fetch.spec.whatwg.org/#concept-header-extract-mime-type. docs/decisions/reading.md
says where a crawler decides differently from a browser.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

from crawler.ports import Response

HTML: Final = "text/html"
XHTML: Final = "application/xhtml+xml"
RSS: Final = "application/rss+xml"
ATOM: Final = "application/atom+xml"
BINARY: Final = "application/octet-stream"
TEXT: Final = "text/plain"
HTML_TYPES: Final = frozenset({HTML, XHTML})
_GENERIC_XML: Final = frozenset({"text/xml", "application/xml"})
_NO_TYPES: Final = frozenset({"unknown/unknown", "application/unknown"})
_HEADER: Final = 1445  # bytes that the standard sniffs
_HEAD: Final = 1 << 16  # bytes that are searched for the root of an XML document


# --- The type by the header -------------------------------------------------------------------


class MediaType(NamedTuple):
    """A parsed Content-Type."""

    essence: str  # `type/subtype` in lower case
    charset: str | None  # the label as written


_TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - not a secret
_BLANK: Final = "\t\n\r "
_ESSENCE: Final = re.compile(rf"[{_BLANK}]*+({_TOKEN}/{_TOKEN})[{_BLANK}]*+(?=;|\Z)")
_PARAMETER: Final = re.compile(
    rf"""[;{_BLANK}]*+([^;=]*+)(?:;|\Z|=(?:"((?>(?:[^"\\]|\\.|\\\Z)*))(?:"[^;]*+)?|([^;]*+)))""",
    re.DOTALL,
)
# One value of a list; commas in quotes belong to the value.
_VALUE: Final = re.compile(r"""(?>(?:[^",]++|"(?>(?:[^"\\]|\\.|\\\Z)*)"?)*)""", re.DOTALL)
_SAID: Final = 1 << 12  # characters of Content-Type that are read
_MOST_PARAMETERS: Final = 64


def parse_type(value: str) -> MediaType | None:
    """Return a media type with its charset; None if the value is no media type, such as `html`."""
    start = _ESSENCE.match(value)
    if not start:
        return None
    at, charset = start.end(), None
    for _ in range(_MOST_PARAMETERS):
        parameter = _PARAMETER.match(value, at)
        if at >= len(value) or not parameter or parameter.end() == at:
            break
        at = parameter.end()
        name, quoted, bare = parameter.groups()
        if name.lower() != "charset" or (quoted is None and bare is None):
            continue
        if quoted is not None:
            charset = re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
        elif bare := bare.strip(_BLANK):
            charset = bare
        else:
            continue
        break  # only the first charset counts
    return MediaType(start[1].lower(), charset)


@lru_cache(1024)
def supplied_type(content_type: str) -> MediaType | None:
    """Return the type that all Content-Type lines, joined by commas, mean together.

    The last type counts. If the type before it has the same essence, the last one inherits its
    charset. `*/*` and malformed values don't count. Returns None if no value counts.
    """
    found: MediaType | None = None
    content_type = content_type[:_SAID]
    at = 0
    while at <= len(content_type):
        value = _VALUE.match(content_type, at)
        assert value  # the pattern also matches the empty string
        at = value.end() + 1
        one = parse_type(value[0])
        if one is None or one.essence == "*/*":
            continue
        if found and one.essence == found.essence and one.charset is None:
            one = found
        found = one
    return found


def charset_source(content_type: str | None) -> str | None:
    """Return the Content-Type whose charset counts; of several types it is the last one.

    A single value is returned unchanged, so that the charset is found even if the semicolon before
    it is missing.
    """
    if content_type is None or "," not in content_type:
        return content_type
    supplied = supplied_type(content_type)
    if supplied is None:
        return content_type
    return "" if supplied.charset is None else f'charset="{supplied.charset}"'


# --- The type by the bytes --------------------------------------------------------------------

_WHITE: Final = rb"[\t\n\f\r ]"
_BOMS: Final = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_UTF_16_STARTS: Final = (
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
    (b"<\0", "utf-16-le"),
    (b"\0<", "utf-16-be"),
)
_HTML_START: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?" + _WHITE + rb"*+<(?:!--|(?:!doctype html|html|head|script|iframe|h1|div"
    rb"|font|table|a|style|title|b|body|br|p)[ >])",
    re.IGNORECASE,
)
_XML_START: Final = re.compile(rb"(?:\xef\xbb\xbf)?" + _WHITE + rb"*+<\?xml")
_PATTERNS: Final = (
    ("application/pdf", rb"%PDF-"),
    ("application/postscript", rb"%!PS-Adobe-"),
    ("image/x-icon", rb"\0\0[\x01\x02]\0"),
    ("image/bmp", rb"BM"),
    ("image/gif", rb"GIF8[79]a"),
    ("image/webp", rb"RIFF....WEBPVP"),
    ("image/png", rb"\x89PNG\r\n\x1a\n"),
    ("image/jpeg", rb"\xff\xd8\xff"),
    ("audio/aiff", rb"FORM....AIFF"),
    ("audio/mpeg", rb"ID3"),
    ("application/ogg", rb"OggS\0"),
    ("audio/midi", rb"MThd\0\0\0\x06"),
    ("video/avi", rb"RIFF....AVI "),
    ("audio/wave", rb"RIFF....WAVE"),
    ("video/mp4", rb"...[\x08-\xff]ftyp(?:mp4|....(?:....)*?mp4)"),
    ("video/webm", rb"\x1aE\xdf\xa3.{0,34}?\x42\x82.{1,8}?webm"),
    ("application/x-gzip", rb"\x1f\x8b\x08"),
    ("application/zip", rb"PK\x03\x04"),
    ("application/x-rar-compressed", rb"Rar(?: |!)\x1a\x07\0"),
)
_SIGNATURE: Final = re.compile(b"|".join(b"(%b)" % one for _, one in _PATTERNS), re.DOTALL)
_NOT_TEXT: Final = re.compile(rb"[\0-\x08\x0b\x0e-\x1a\x1c-\x1f]")
# Old versions of Apache send these by default for files of any kind.
_APACHE: Final = frozenset(
    {
        "text/plain",
        "text/plain; charset=ISO-8859-1",
        "text/plain; charset=iso-8859-1",
        "text/plain; charset=UTF-8",
    }
)
_PROLOGUE: Final = (
    rb"(?:\xef\xbb\xbf)?(?>(?:" + _WHITE + rb"++|<!--(?>(?:[^-]++|-(?!->))*)-->"
    rb"|<![^\[>-][^\[>]*+(?>(?:\[[^\]]*+\][^\[>]*+)*)>|<\?(?>(?:[^?]++|\?(?!>))*)\?>)*)"
)
_FEED: Final = re.compile(_PROLOGUE + rb"<(?:(rss)|(feed)|(rdf:RDF))")
_ROOT: Final = re.compile(_PROLOGUE + rb"<(?>(?:[^\s<>/:]++:)?)([^\s<>/:]++)")
_RSS_1: Final = b"http://purl.org/rss/1.0/"
_RDF: Final = b"http://www.w3.org/1999/02/22-rdf-syntax-ns#"
XHTML_NAMESPACE: Final = "http://www.w3.org/1999/xhtml"
_ROOTS: Final = {b"rss": RSS, b"feed": ATOM, b"urlset": None, b"sitemapindex": None}


def media_type(content_type: str | None, body: bytes, *, nosniff: bool = False) -> str:
    """Return the media type, as `type/subtype` in lower case, by the standard's algorithm.

    The type of an XML document also depends on its root element. `content_type`: the values of all
    Content-Type lines, joined by commas. `nosniff`: X-Content-Type-Options is `nosniff`.
    """
    if content_type == "text/html; charset=utf-8":  # the most frequent one, handled fast
        return _feed_or_html(body)
    supplied = supplied_type(content_type) if content_type else None
    if supplied is None or supplied.essence in _NO_TYPES:
        return _by_root(_sniffed(body, scriptable=not nosniff), body)
    essence = supplied.essence
    if essence in _GENERIC_XML:
        return _by_root(essence, body)
    if nosniff:
        return essence
    if essence == HTML:
        return _feed_or_html(body)
    if content_type in _APACHE:
        return _text_or_binary(body)
    kind = essence.partition("/")[0]
    if kind in {"image", "audio", "video"} and not essence.endswith("+xml"):
        signature = _signature(body)
        if signature and (signature.partition("/")[0] == kind or signature == "application/ogg"):
            return signature
    return essence


def is_html(content_type: str | None, body: bytes) -> bool:
    """Whether a response is an HTML or XHTML page: by its Content-Type, or by its bytes."""
    return media_type(content_type, body) in HTML_TYPES


def _signature(body: bytes) -> str | None:
    match = _SIGNATURE.match(body, 0, _HEADER)
    return _PATTERNS[match.lastindex - 1][0] if match and match.lastindex else None


def _sniffed(body: bytes, *, scriptable: bool) -> str:
    """Return the type of a document whose header names no type.

    `scriptable`: whether the result may be a type in which browsers run scripts.
    """
    if scriptable:
        head = _as_ascii(body, _HEADER)
        if _HTML_START.match(head):
            return HTML
        if _XML_START.match(head):
            return "text/xml"
    return _signature(body) or _text_or_binary(body)


def _as_ascii(body: bytes, most: int) -> bytes:
    """Return the first bytes of a body; a text in UTF-16 is converted to ASCII."""
    for start, name in _UTF_16_STARTS:
        if body.startswith(start):
            text = body[: 2 * most].decode(name, "replace").removeprefix("\ufeff")
            return text.encode("ascii", "replace")
    return body[:most]


def _text_or_binary(body: bytes) -> str:
    if body.startswith(_BOMS):
        return TEXT
    return BINARY if _NOT_TEXT.search(body, 0, _HEADER) else TEXT


def _feed_or_html(body: bytes) -> str:
    """Return the type of a document that its header calls text/html: HTML or a feed."""
    match = _FEED.match(body, 0, _HEADER)
    if not match:
        return HTML
    if match[2]:
        return ATOM
    if match[3]:
        head = body[:_HEADER]
        return RSS if _RSS_1 in head and _RDF in head else HTML
    return RSS


def _by_root(media: str, body: bytes) -> str:
    """Return the type of a general XML document by its root: XHTML, a feed or `media` itself."""
    if media not in _GENERIC_XML:
        return media
    head = _as_ascii(body, _HEAD)
    root = _ROOT.match(head)
    name = root[1] if root else b""
    if name in _ROOTS:
        return _ROOTS[name] or media
    if name == b"RDF" and _RSS_1 in head:
        return RSS
    return XHTML if XHTML_NAMESPACE.encode() in head else media


def types_of(response: Response) -> tuple[str, str | None]:
    """Return the media type of a response, and the type in its header, which may be None."""
    if not response.types:
        response.types.append(_find_types(response))
    return response.types[0]


def _find_types(response: Response) -> tuple[str, str | None]:
    content_type = response.content_type
    media = media_type(content_type, response.body, nosniff=response.nosniff)
    supplied = supplied_type(content_type) if content_type else None
    return media, supplied.essence if supplied else None
