"""Decodes pages to text, and encodes queries to bytes, as browsers do.

The rules are those of https://encoding.spec.whatwg.org and
https://html.spec.whatwg.org/multipage/parsing.html#determining-the-character-encoding. Encodings
have the names of the standard, in lower case; `crawler.reading.encodings` knows their labels.
"""

import codecs
import re
from collections.abc import Generator
from functools import lru_cache
from typing import Final
from urllib.parse import quote_from_bytes

import cchardet

from crawler.reading import encodings
from crawler.reading.encodings import UTF_16, find_encoding
from crawler.reading.parse.tokens import ATTRIBUTES, SPACE
from crawler.reading.steps import finish
from crawler.url import MAX_LENGTH, LongUrlError

_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16le"),
    (codecs.BOM_UTF16_BE, "utf-16be"),
)
# Bytes searched for a meta. The standard searches 1024, but starts again if a meta follows later.
_META_WITHIN: Final = 64 << 10
_GUESS_FROM: Final = 64 << 10  # bytes
_AT_ONCE: Final = 1 << 20  # bytes of UTF-8 decoded in one step; 10 ms if all of them are wrong

# Python and the standard map six characters of JIS X 0208 differently.
_JIS: Final = {"\u301c": "～", "\u2016": "∥", "\u2212": "－", "¢": "￠", "£": "￡", "¬": "￢"}  # noqa: RUF001
_JIS_ENCODINGS: Final = frozenset({"euc-jp", "iso-2022-jp"})
_TO_JIS: Final = {theirs: ours for ours, theirs in _JIS.items()}


# --- Which encoding? --------------------------------------------------------------------------


_CHARSET: Final = re.compile(
    rf"""charset{SPACE}*={SPACE}*(?:"([^"]*)"|'([^']*)'|([^\t\n\f\r ;"'][^\t\n\f\r ;]*))""",
    re.IGNORECASE,
)


def _charset(text: str) -> str | None:
    """Return the encoding that a Content-Type names, in a header or in a meta element."""
    match = _CHARSET.search(text)
    return find_encoding(match[1] or match[2] or match[3] or "") if match else None


_MARKUP: Final = re.compile(
    (
        rf"<(?: !-- (?P<comment>) | meta(?=[\t\n\f\r />]) (?P<meta>{ATTRIBUTES}) (?P<whole>>)?"
        rf" | /?[a-z][^\t\n\f\r >]*+ {ATTRIBUTES} | [!/?] [^>]*+ )"
    ).encode(),
    re.IGNORECASE | re.VERBOSE,
)
_ATTRIBUTE: Final = re.compile(
    rb"""[\t\n\f\r /]*+([^\t\n\f\r />][^\t\n\f\r />=]*+)"""
    rb"""(?:[\t\n\f\r ]*+=[\t\n\f\r ]*+(?:"([^"]*+)"|'([^']*+)'|([^\t\n\f\r >]*+)))?"""
)
_XML: Final = re.compile(rb"<\?xml[^>]*?[\t\n\r ]encoding[\t\n\r ]*=[\t\n\r ]*([\"'])([^\"'>]*)\1")


def _prescan(body: bytes) -> str | None:
    """Return the encoding that a `meta` or the XML declaration in the first bytes declares."""
    at = 0
    while match := _MARKUP.search(body, at, _META_WITHIN):
        at = match.end()
        if match["comment"] is not None:
            at = body.find(b"-->", at - 2, _META_WITHIN) + 3
            if at < 3:
                break
        elif match["meta"] is not None:
            if not match["whole"]:
                break
            if name := _declared(match["meta"]):
                return name
    return _xml_encoding(body)


def _xml_encoding(body: bytes) -> str | None:
    """Return the encoding in the XML declaration."""
    xml = _XML.match(body, 0, _META_WITHIN)
    name = find_encoding(xml[2].decode("latin-1")) if xml else None
    # The declaration was read as ASCII, so the page can't be UTF-16.
    return "utf-8" if name in UTF_16 else name


@lru_cache(64)  # pages of a site have them in common
def _declared(attributes: bytes) -> str | None:
    """Return the encoding that the attributes of a meta element declare."""
    values: dict[str, str] = {}
    for match in _ATTRIBUTE.finditer(attributes):
        value = match[2] or match[3] or match[4] or b""
        values.setdefault(match[1].decode("latin-1").lower(), value.decode("latin-1"))
    if "charset" in values:
        name = find_encoding(values["charset"])
    elif values.get("http-equiv", "").lower() == "content-type":
        name = _charset(values.get("content", ""))
    else:
        return None
    if name in UTF_16:
        return "utf-8"
    return "windows-1252" if name == "x-user-defined" else name


def declared_encoding(body: bytes, content_type: str | None, is_xml: bool = False) -> str | None:
    """Return the encoding that a page and its header declare.

    The byte-order mark counts before the header, and the header before `meta`. In XML the XML
    declaration counts before `meta`.
    """
    for bom, name in _BOMS:
        if body.startswith(bom):
            return name
    declared = _charset(content_type or "")
    if declared is None and is_xml:
        declared = _xml_encoding(body)
    return declared or _prescan(body)


def encoding_of(body: bytes, content_type: str | None, is_xml: bool = False) -> str:
    """Return the encoding of a page: the declared one, or else a guess. See `decode`."""
    return declared_encoding(body, content_type, is_xml) or _guessed_encoding(body)


def _guessed_encoding(body: bytes) -> str:
    if body[:2] in {b"<\0", b"\0<"}:  # only UTF-16 begins like this
        return "utf-16le" if body[0] else "utf-16be"
    try:
        body.decode()
    except UnicodeDecodeError:
        guess = cchardet.detect(body[:_GUESS_FROM])["encoding"]
        return (guess and find_encoding(guess)) or "windows-1252"
    return "utf-8"


# --- From bytes to text -----------------------------------------------------------------------


def decode(body: bytes, content_type: str | None) -> tuple[str, str]:
    """Return the text of a page, and the WHATWG name (lower case) of its encoding.

    The first of these counts: byte-order mark, charset of the Content-Type header, `meta` (or the
    XML declaration) in the first 64 KiB, UTF-8 if the bytes are valid, a guess, windows-1252. Bytes
    that the encoding lacks become U+FFFD. Never raises.
    """
    return finish(decoding(body, content_type))


def decoding(
    body: bytes, content_type: str | None, is_xml: bool = False
) -> Generator[None, None, tuple[str, str]]:
    """Do the same as `decode` in steps; in XML the XML declaration counts before a `meta`."""
    name = encoding_of(body, content_type, is_xml)
    return (yield from decoding_as(body, name)), name


def decoding_as(body: bytes, encoding: str) -> Generator[None, None, str]:
    """Return the text of a page with this encoding, in steps."""
    if encoding == "utf-8" and len(body) <= _AT_ONCE:
        return body.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")
    text = yield from encodings.decoding(body, encoding)
    for ours, theirs in _JIS.items() if encoding in _JIS_ENCODINGS else ():
        text = text.replace(ours, theirs)
    return text


# --- From a query to bytes --------------------------------------------------------------------


def _as_reference(character: int) -> str:
    return f"%26%23{character}%3B"  # &#...;


_ENCODERS: Final = {"gbk": "gbk", "iso-2022-jp": "iso2022_jp"}
_BEFORE_ENCODING: Final[dict[str, dict[str, str]]] = {
    "gb18030": {"\ue5e5": _as_reference(0xE5E5)},
    "shift_jis": {"\xa5": "\\", "\u203e": "~"},
    "euc-jp": _TO_JIS,
    "iso-2022-jp": _TO_JIS | dict.fromkeys("\x0e\x0f\x1b", _as_reference(0xFFFD)),
}
_NEWLINES: Final = dict.fromkeys("\t\n\r", "")
_KEPT: Final = "!$%&()*+,-./:;=?@[\\]^_`{|}~"  # not escaped, like letters and digits


def _unencodable(error: UnicodeError) -> tuple[str | bytes, int]:
    assert isinstance(error, UnicodeEncodeError)
    characters = error.object[error.start : error.end]
    if characters == "€" and error.encoding == "gbk":
        return b"\x80", error.end
    return "".join(map(_as_reference, map(ord, characters))), error.end


codecs.register_error("crawler.reading.parse.query", _unencodable)


def encode_query(reference: str, encoding: str) -> str:
    """Return a reference with its query percent-encoded in the encoding of the page.

    The rules are those of https://url.spec.whatwg.org/#query-state. The reference has no fragment.
    The encoding isn't UTF-8 or UTF-16, because queries of such pages are UTF-8. Raises LongUrlError
    if the URL would surely be too long: each character outside ASCII becomes at least three.
    """
    path, mark, query = reference.partition("?")
    if query.isascii() and encoding != "iso-2022-jp":
        return reference
    if 3 * (len(query) - len(query.encode("ascii", "ignore"))) > MAX_LENGTH:
        raise LongUrlError(reference)
    for character, instead in (_NEWLINES | _BEFORE_ENCODING.get(encoding, {})).items():
        query = query.replace(character, instead)
    if encoding in _ENCODERS:
        octets = query.encode(_ENCODERS[encoding], "crawler.reading.parse.query")
    else:
        octets = encodings.encode(query, encoding, "crawler.reading.parse.query")
    return path + mark + quote_from_bytes(octets, _KEPT)
