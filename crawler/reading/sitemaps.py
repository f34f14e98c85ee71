"""Reads the URLs that a sitemap lists, and judges whether it may list them.

The formats are those of https://www.sitemaps.org/protocol.html: urlset, sitemapindex, RSS, Atom and
text, each of them also gzipped. No I/O happens here. An entry is read when the caller asks for it.

Real files are often no valid XML (a bare `&`, a cut end, bytes of another encoding). So they are
read tag by tag, without an XML parser. Only the five predefined entities of XML are expanded, so
entities that contain each other do no harm.
"""

import codecs
import re
from collections.abc import Generator, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, NamedTuple

from isal import isal_zlib

from crawler.ports import BY_USER, Names, names_of
from crawler.reading import encodings
from crawler.url import BadUrlError, authority, foreign_host, normalise, site

# The limits of the protocol.
MAX_BYTES: Final = 50_000_000  # decoded
MAX_ENTRIES: Final = 50_000


_FIRST_TAG: Final = re.compile(
    rb"(?:<\?.*?\?>\s*|<!--.*?-->\s*|<!DOCTYPE[^>]*>\s*)*+<(?:[\w.-]+:)?(?:urlset|sitemapindex)\b",
    re.DOTALL,
)
_HEAD: Final = 4096  # bytes that tell a sitemap from other documents
_IS_URL: Final = re.compile(rb"https?://", re.IGNORECASE)
_URL_BYTES_AT_LEAST: Final = 1 << 20  # as for the links of pages: docs/decisions/bounds.md
_URL_BYTES_PER_BYTE: Final = 16


class Entry(NamedTuple):
    """An entry of a sitemap or feed."""

    url: str  # normalised
    is_sitemap: bool  # another sitemap, named by an index
    lastmod: str | None = None  # as written, if it may be a date
    priority: float | None = None  # 0 to 1


def belongs(sitemap: str, entry: str, declared_by: Names | None = None) -> bool:
    """Whether the protocol allows a sitemap to list a URL; both are normalised.

    A sitemap may list URLs in its own folder and below. If the robots.txt of an authority
    (`declared_by`) names the sitemap, or an index that lists it, the sitemap may also list all URLs
    of that host and port, with http and https. If the user does so, it may list all URLs.
    """
    folder = sitemap.partition("?")[0]
    if entry.startswith(folder[: folder.rindex("/") + 1]):
        return True
    names = names_of(declared_by)
    return BY_USER in names or site(authority(entry)) in map(site, names)


def is_sitemap(body: bytes) -> bool:
    """Whether a document is a sitemap or an index of sitemaps, by its first bytes.

    It may also be a list of URLs as text. A feed or a page is none.
    """
    head = body[:_HEAD]
    for _ in range(_LAYERS):
        if head.startswith(_GZIP):
            with suppress(_BROKEN):
                head = isal_zlib.decompressobj(wbits=31).decompress(head, _HEAD)
    name, text = _encoding(head)
    if name != "utf-8":
        text = text.decode(name, "replace").lstrip("\ufeff").encode("utf-8", "replace").strip()
    if text.startswith(b"<"):
        return _FIRST_TAG.match(text) is not None
    lines = text.split()
    return bool(lines) and all(_IS_URL.match(line) for line in lines[: max(1, len(lines) - 1)])


def entries(
    body: bytes, url: str, max_bytes: int = MAX_BYTES, max_entries: int = MAX_ENTRIES
) -> Iterator[Entry | None]:
    """Yield the entries of a sitemap or feed that was fetched from `url`.

    Yields None between two steps, each of a few milliseconds. If a file is broken, or longer than
    `max_bytes` when decoded, the entries before that place are yielded. Another kind of file has no
    entries. Relative references are allowed, but all URLs together have at most about as many
    characters as `_url_room` says.
    """
    text = yield from _utf8((yield from _inflated(body, max_bytes)))
    room = _url_room(text)
    read = _read_xml(text) if text.startswith(b"<") else _read_lines(text)
    work = 0
    for found in read:
        if found is None:
            yield None
            continue
        reference, is_sitemap, lastmod, priority = found
        work += len(foreign_host(reference))
        if work > _FOREIGN_STEP:
            work = 0
            yield None
        try:
            entry = Entry(normalise(reference, url), is_sitemap, lastmod, priority)
        except BadUrlError:
            continue
        yield entry
        max_entries -= 1
        room -= len(entry.url)
        if not max_entries or room <= 0:
            return


_FOREIGN_STEP: Final = 8192  # characters of hosts in other characters than ASCII


def _url_room(text: bytes) -> int:
    return _URL_BYTES_AT_LEAST + _URL_BYTES_PER_BYTE * len(text)


# --- Bytes ------------------------------------------------------------------------------------

_GZIP: Final = b"\x1f\x8b"
_BROKEN: Final[Any] = isal_zlib.error
_Steps = Generator[None, None, bytes]
_PIECE: Final = 1 << 20  # bytes in one step
_FED: Final = 1 << 14  # bytes of gzip fed at a time; the rest behind a member is copied
_MOST_MEMBERS: Final = 2_000  # of a gzip file; each needs a new decoder
_LAYERS: Final = 2  # of gzip: some servers compress a .gz file once more
_UTF_16_STARTS: Final = (
    (codecs.BOM_UTF16_LE, "utf-16le"),
    (codecs.BOM_UTF16_BE, "utf-16be"),
    (b"<\0", "utf-16le"),
    (b"\0<", "utf-16be"),
    (b"h\0", "utf-16le"),  # of http, in a list of URLs
    (b"\0h", "utf-16be"),
)
_DECLARED_WITHIN: Final = 1024  # bytes
_DECLARED: Final = re.compile(rb"<\?xml[^>]*?\sencoding\s*=\s*[\"']([\w.:-]{1,40})[\"']")


def _inflated(body: bytes, max_bytes: int) -> _Steps:
    for _ in range(_LAYERS):
        if not body.startswith(_GZIP):
            break
        body = yield from _gunzipped(body, max_bytes)
    return body[:max_bytes]


def _gunzipped(body: bytes, max_bytes: int) -> _Steps:
    """Return all decoded members, at most `max_bytes`; of a broken file the part before."""
    text = bytearray()
    at = fed = members = 0
    member = isal_zlib.decompressobj(wbits=31)
    while at < len(body) and len(text) < max_bytes:
        if member.eof:  # another member follows, or bytes that don't belong there
            members += 1
            if members >= _MOST_MEMBERS or not body.startswith(_GZIP, at):
                break
            member = isal_zlib.decompressobj(wbits=31)
        piece = body[at : at + _FED]
        try:
            more = member.decompress(piece, min(_PIECE, max_bytes - len(text)))
        except _BROKEN:
            break
        at += len(piece) - len(member.unused_data if member.eof else member.unconsumed_tail)
        text += more
        fed += len(piece) + len(more)
        if fed >= _PIECE:
            fed = 0
            yield
    return bytes(text)


def _utf8(text: bytes) -> _Steps:
    """Convert a file to UTF-8, without blanks at its start.

    Its encoding is given by a byte-order mark or an XML declaration. A label outside the Encoding
    Standard is ignored. The label UTF-16 is ignored, too, because a declaration in UTF-16 couldn't
    be read byte by byte.
    """
    name, text = _encoding(text)
    if name == "utf-8":
        return text
    decoded = yield from encodings.decoding(text, name)
    return _without_blanks(decoded.encode("utf-8", "replace"))


def _encoding(text: bytes) -> tuple[str, bytes]:
    """Return the encoding of a file, and the file; UTF-8 without its mark and first blanks."""
    for start, name in _UTF_16_STARTS:
        if text.startswith(start):
            return name, text
    marked = text.startswith(codecs.BOM_UTF8)
    text = _without_blanks(text.removeprefix(codecs.BOM_UTF8))
    declared = None if marked else _DECLARED.match(text, 0, _DECLARED_WITHIN)
    label = declared and encodings.find_encoding(declared[1].decode("ascii"))
    return ("utf-8", text) if label is None or label in encodings.UTF_16 else (label, text)


def _without_blanks(text: bytes) -> bytes:
    """Do the same as lstrip, but return nothing if a file begins with a million blanks."""
    start = len(text[:_PIECE]) - len(text[:_PIECE].lstrip())
    return text[start:] if start < _PIECE else b""


# --- Text -------------------------------------------------------------------------------------

_Read = Iterator[tuple[str, bool, str | None, float | None] | None]
_TAGS: Final = 1 << 11  # tags or lines read in one step
_WINDOW: Final = 1 << 18  # bytes read in one step; a longer element or line is skipped
_LONGEST_VALUE: Final = 1 << 14  # bytes of an element; a longer one holds no URL
_LONGEST_DATE: Final = 40  # characters
_LINE: Final = re.compile(rb"[^\r\n]{1,%d}+" % _LONGEST_VALUE)


def _read_lines(text: bytes) -> _Read:
    pause = _WINDOW
    for count, line in enumerate(_LINE.finditer(text), 1):
        if count % _TAGS == 0 or line.end() > pause:
            pause = line.end() + _WINDOW
            yield None
        # The pattern cuts a longer line into pieces, which are skipped.
        is_whole = (
            len(line[0]) < _LONGEST_VALUE and text[line.start() - 1 : line.start()] in b"\r\n"
        )
        reference = line[0].decode("utf-8", "replace").strip() if is_whole else ""
        if reference[:8].lower().startswith(("http://", "https://")):
            yield reference, False, None, None


# --- XML --------------------------------------------------------------------------------------


class _Form(NamedTuple):
    """The names of the elements under a root element."""

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
    rb"""(?>(?: \s++ | <\?[^>]*+> | <!--(?>(?:[^-]++|-(?!->))*)-->
          | <![dD][oO][cC][tT][yY][pP][eE] [^\[>]*+ (?>(?:\[[^\]]*+\][^\[>]*+)*) > )*)
        <(?>(?:([\w.-]++):)?)([\w.-]++)""",
    re.VERBOSE,
)
_CDATA: Final = rb"<!\[CDATA\[((?>(?:[^\]]++|\](?!\]>))*))"  # without its end
_REFERENCE: Final = re.compile(r"&(?:(amp|lt|gt|quot|apos)|#([0-9]{1,7})|#x([0-9a-fA-F]{1,6}));")
_PREDEFINED: Final = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_ATTRIBUTE: Final = re.compile(rb"""([\w.:-]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)')""")


@lru_cache(64)
def _tags(form: str, prefix: str) -> re.Pattern[bytes]:
    """Return a pattern for the tags of a form.

    Its groups: "/" of an end tag, name, attributes, and the text that follows.
    """
    names = [prefix + name for name in (*_FORMS[form][:3], "priority")]
    cdata = _CDATA.replace(b"((", b"(?:(")
    return re.compile(
        rb"<!--(?>(?:[^-]++|-(?!->))*)(?:-->|\Z)|%b(?:\]\]>|\Z)|"
        rb"<(/?)(%b)(?=[\s/>])((?>(?:[^<>\"']++|\"[^<\"]*+\"|'[^<']*+')*))>((?>(?:[^<]++|%b\]\]>)*))"
        % (cdata, "|".join(map(re.escape, names)).encode(), cdata)
    )


def _read_xml(text: bytes) -> _Read:
    root = _ROOT.match(text, 0, _PIECE)
    form = root[2].decode("latin-1") if root else ""
    if not root or form not in _FORMS:
        return
    names = _FORMS[form]
    # `image:loc` isn't `loc`: only elements with the prefix, so the namespace, of the root count.
    prefix = root[1].decode("latin-1") + ":" if root[1] and form != "RDF" else ""
    inside = False  # whether the tag is inside an entry
    reference = lastmod = priority = None
    for tag in _find_tags(_tags(form, prefix), text, root.end()):
        if tag is None:
            yield None
            continue
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
            continue  # at the end of a cut file, the value may be cut, too
        if name == names.entry:
            if names.is_index:
                reference = _value(content)  # some files lack the element loc
        elif name == names.location:
            reference = reference or (_href(attributes) if form == "feed" else _value(content))
        elif name == names.time:
            lastmod = _value(content)
            if lastmod and not (len(lastmod) <= _LONGEST_DATE and lastmod.isprintable()):
                lastmod = None
        else:
            with suppress(ValueError):
                priority = min(1.0, max(0.0, float(_value(content) or "")))
    if reference:
        yield reference, names.is_index, lastmod, priority


_END_OF: Final = {b"<!--": b"-->", b"<![C": b"]]>"}


def _find_tags(
    pattern: re.Pattern[bytes], text: bytes, at: int
) -> Iterator[re.Match[bytes] | None]:
    """Yield all matches, and None between two steps. A step searches a window of the text."""
    length = len(text)
    while at < length:
        end = min(at + _WINDOW, length)
        start = at
        for count, tag in enumerate(pattern.finditer(text, at, end), 1):
            # The text after the tag, or a CDATA section there, may continue behind the window.
            cut = tag.end() == end or (tag[2] and text.startswith(b"<![CDATA[", tag.end()))
            if cut and end < length:
                at = tag.start()
                break
            yield tag
            at = tag.end()
            if count % _TAGS == 0:
                yield None
        else:
            at = max(at, text.rfind(b"<", at, end)) if end < length else end
        if at == start and end < length:  # this tag, comment or CDATA is longer than a window
            at = text.find(_END_OF.get(text[at : at + 4], b"<"), at + 1)
            if at < 0:
                return
        yield None


def _value(content: bytes) -> str | None:
    """Return the text of an element in one line; None if it is empty or too long."""
    if len(content) > _LONGEST_VALUE:
        return None
    pieces = []
    at = 0
    for cdata in re.finditer(_CDATA + rb"\]\]>", content):
        pieces += [_unescape(content[at : cdata.start()]), cdata[1].decode("utf-8", "replace")]
        at = cdata.end()
    pieces.append(_unescape(content[at:]))
    return "".join(map(str.strip, "".join(pieces).splitlines())) or None


def _href(attributes: bytes) -> str | None:
    """Return the target of an Atom link if it is the page of the entry, otherwise None."""
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
