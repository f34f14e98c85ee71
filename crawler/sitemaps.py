"""Sitemaps: bytes to the URLs in them, and whether those may be there.

https://www.sitemaps.org/protocol.html: urlset, sitemapindex, RSS, Atom, text; each of them also
gzipped. Pure, and lazy: an entry is read when it is asked for.

Real files are often no XML (a bare `&`, a cut end, bytes of another encoding), so they are read by
their tags, without an XML parser. No entity is ever expanded but the five of XML, so a file of
entities that hold each other is as harmless as any other.
"""

import codecs
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, NamedTuple

from isal import isal_zlib

from crawler.url import BadUrlError, authority, normalise

MAX_BYTES: Final = 50_000_000  # decoded; this and the next are the protocol's limits
MAX_ENTRIES: Final = 50_000


class Entry(NamedTuple):
    url: str  # normalised
    is_sitemap: bool  # another sitemap, named by an index
    lastmod: str | None = None  # as written
    priority: float | None = None  # 0 to 1


def belongs(sitemap: str, entry: str, named_by: str | None = None) -> bool:
    """Whether the protocol lets a sitemap speak of a URL, both normalised.

    It may of what lies in its folder or below. If the robots.txt of an authority (`named_by`) names
    the sitemap, or the index that lists it, also of all of that authority.
    """
    folder = sitemap.partition("?")[0]
    return entry.startswith(folder[: folder.rindex("/") + 1]) or authority(entry) == named_by


def entries(
    body: bytes, url: str, max_bytes: int = MAX_BYTES, max_entries: int = MAX_ENTRIES
) -> Iterator[Entry | None]:
    """The entries of a sitemap fetched from `url`; none if it is something else.

    Of a file that is longer when decoded, or broken, those before that place. None comes between
    two steps of the work, each of a few milliseconds (but undoing 50 MB of gzip is one step).
    """
    text = _utf8(_inflated(body, max_bytes)).lstrip()
    read = _read_xml(text) if text.startswith(b"<") else _read_lines(text)
    for found in read:
        if found is None:
            yield None
            continue
        reference, is_sitemap, lastmod, priority = found
        try:
            entry = Entry(normalise(reference, url), is_sitemap, lastmod, priority)
        except BadUrlError:
            continue
        yield entry
        max_entries -= 1
        if not max_entries:
            return


# --- Bytes ------------------------------------------------------------------------------------

_GZIP: Final = b"\x1f\x8b"
_BROKEN: Final[Any] = isal_zlib.error
_LAYERS: Final = 2  # some servers compress what is a .gz already
_DECLARED: Final = re.compile(rb"<\?xml[^>]*?\sencoding\s*=\s*[\"']([\w.:-]{1,40})[\"']")


def _inflated(body: bytes, max_bytes: int) -> bytes:
    for _ in range(_LAYERS):
        if not body.startswith(_GZIP):
            break
        body = _gunzipped(body, max_bytes)
    return body[:max_bytes]


def _gunzipped(body: bytes, max_bytes: int) -> bytes:
    """All members, up to a length; of a broken file what comes before."""
    text = bytearray()
    while body.startswith(_GZIP) and len(text) < max_bytes:
        member = isal_zlib.decompressobj(wbits=31)
        try:
            text += member.decompress(body, max_bytes - len(text))
        except _BROKEN:
            break
        body = member.unused_data
    return bytes(text)


def _utf8(text: bytes) -> bytes:
    """In UTF-8, by byte-order mark or XML declaration."""
    for bom, name in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        if text.startswith(bom):
            return text[2:].decode(name, "replace").encode()
    text = text.removeprefix(codecs.BOM_UTF8)
    declared = _DECLARED.match(text.lstrip()[:200])
    name = declared[1].decode("ascii").lower() if declared else "utf-8"
    try:
        return text if name in {"utf-8", "utf8"} else text.decode(name, "replace").encode()
    except (LookupError, UnicodeError):  # no such encoding, or one that isn't for text
        return text


# --- Text -------------------------------------------------------------------------------------

_Read = Iterator[tuple[str, bool, str | None, float | None] | None]
_TAGS: Final = 1 << 11  # or lines, read in one step


def _read_lines(text: bytes) -> _Read:
    for count, line in enumerate(re.finditer(rb"[^\r\n]+", text), 1):
        if count % _TAGS == 0:
            yield None
        reference = line[0].decode("utf-8", "replace").strip()
        if reference[:8].lower().startswith(("http://", "https://")):
            yield reference, False, None, None


# --- XML --------------------------------------------------------------------------------------


class _Form(NamedTuple):
    """What is called how under a root element."""

    entry: str
    location: str
    time: str
    is_index: bool = False


_FORMS: Final = {
    "urlset": _Form("url", "loc", "lastmod"),
    "sitemapindex": _Form("sitemap", "loc", "lastmod", is_index=True),
    "rss": _Form("item", "link", "pubDate"),
    "RDF": _Form("item", "link", "dc:date"),
    "feed": _Form("entry", "link", "updated"),
}
_ROOT: Final = re.compile(
    rb"""(?: \s++ | <\?[^>]*+> | <!--(?:[^-]++|-(?!->))*+-->
          | <![dD][oO][cC][tT][yY][pP][eE] [^\[>]*+ (?:\[[^\]]*+\][^\[>]*+)*+ > )*+
        <(?:([\w.-]++):)?+([\w.-]++)""",
    re.VERBOSE,
)
_CDATA: Final = rb"<!\[CDATA\[((?:[^\]]++|\](?!\]>))*+)"  # without its end
_REFERENCE: Final = re.compile(r"&(?:(amp|lt|gt|quot|apos)|#([0-9]{1,7})|#x([0-9a-fA-F]{1,6}));")
_PREDEFINED: Final = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_ATTRIBUTE: Final = re.compile(rb"""([\w.:-]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)')""")


@lru_cache(64)
def _tags(form: str, prefix: str) -> re.Pattern[bytes]:
    """The tags of a form: end?, name, attributes, and the text that follows."""
    names = [prefix + name for name in (*_FORMS[form][:3], "priority")]
    cdata = _CDATA.replace(b"((", b"(?:(")
    return re.compile(
        rb"<!--(?:[^-]++|-(?!->))*+(?:-->|\Z)|%b(?:\]\]>|\Z)|"
        rb"<(/?)(%b)(?=[\s/>])((?:[^<>\"']++|\"[^<\"]*+\"|'[^<']*+')*+)>((?:[^<]++|%b\]\]>)*+)"
        % (cdata, "|".join(map(re.escape, names)).encode(), cdata)
    )


def _read_xml(text: bytes) -> _Read:
    root = _ROOT.match(text)
    form = root[2].decode("latin-1") if root else ""
    if not root or form not in _FORMS:
        return
    names = _FORMS[form]
    # `image:loc` is another `loc`: what counts is of the namespace of the root, so of its prefix.
    prefix = root[1].decode("latin-1") + ":" if root[1] and form != "RDF" else ""
    inside = False  # an entry
    reference = lastmod = priority = None
    for count, tag in enumerate(_tags(form, prefix).finditer(text, root.end()), 1):
        if count % _TAGS == 0:
            yield None
        closing, qualified, attributes, content = tag.groups()
        if not qualified:
            continue
        name = qualified.decode().removeprefix(prefix)
        if name == names.entry:
            if reference:
                yield reference, names.is_index, lastmod, priority
            inside = not closing
            reference = lastmod = priority = None
        if closing or not inside or tag.end() == len(text):
            continue  # without what follows it may be half of it
        if name == names.entry:
            if names.is_index:
                reference = _value(content)  # some forget the loc
        elif name == names.location:
            reference = reference or (_href(attributes) if form == "feed" else _value(content))
        elif name == names.time:
            lastmod = _value(content)
        else:
            with suppress(ValueError):
                priority = min(1.0, max(0.0, float(_value(content) or "")))
    if reference:
        yield reference, names.is_index, lastmod, priority


def _value(content: bytes) -> str | None:
    """The text of an element, in one line."""
    pieces = []
    at = 0
    for cdata in re.finditer(_CDATA + rb"\]\]>", content):
        pieces += [_unescape(content[at : cdata.start()]), cdata[1].decode("utf-8", "replace")]
        at = cdata.end()
    pieces.append(_unescape(content[at:]))
    return "".join(map(str.strip, "".join(pieces).splitlines())) or None


def _href(attributes: bytes) -> str | None:
    """The target of an Atom link, if that is the page of the entry."""
    values = {name: double or single for name, double, single in _ATTRIBUTE.findall(attributes)}
    if values.get(b"rel", b"alternate") != b"alternate":
        return None
    return _value(values.get(b"href", b""))


def _unescape(text: bytes) -> str:
    return _REFERENCE.sub(_character, text.decode("utf-8", "replace"))


def _character(match: re.Match[str]) -> str:
    if match[1]:
        return _PREDEFINED[match[1]]
    code = int(match[2]) if match[2] else int(match[3], 16)
    return "\ufffd" if code in range(0xD800, 0xE000) or not 0 < code < 0x110000 else chr(code)
