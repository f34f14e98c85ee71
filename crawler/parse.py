"""From the bytes of a page to its links. Pure: bytes and a URL in, values out.

The parse stage enters here, in this order: `is_html`, `decode`, `extract`. The parser (selectolax,
engine lexbor) takes everything for UTF-8, so bytes are decoded before it sees them.
"""

import codecs
import re
from functools import lru_cache
from typing import Final

import cchardet
from selectolax.lexbor import LexborHTMLParser

from crawler.ports import ALTERNATE, CANONICAL, FRAME, NEXT, NOFOLLOW, PREV
from crawler.url import BadUrlError, normalise

# --- What is HTML? ---------------------------------------------------------------------------

_HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
_NO_TYPES: Final = frozenset({"", "*/*", "unknown/unknown", "application/unknown"})
# https://mimesniff.spec.whatwg.org/#identifying-a-resource-with-an-unknown-mime-type
_HTML_START: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?[\t\n\f\r ]*<(?:!--|(?:!doctype html|html|head|script|iframe|h1|div|font"
    rb"|table|a|style|title|b|body|br|p)[ >])",
    re.IGNORECASE,
)


def is_html(content_type: str | None, body: bytes) -> bool:
    """Whether a response is an HTML page: by its Content-Type, or else by its first bytes."""
    essence = (content_type or "").partition(";")[0].strip().lower()
    return essence in _HTML_TYPES or (
        essence in _NO_TYPES and _HTML_START.match(body, 0, 1445) is not None
    )


# --- Bytes to text ---------------------------------------------------------------------------

_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16le"),
    (codecs.BOM_UTF16_BE, "utf-16be"),
)
_LABEL: Final = r"charset\s*=[\s\"']*([a-z0-9_.:+-]{1,40})"
_HEADER_CHARSET: Final = re.compile(_LABEL, re.IGNORECASE | re.ASCII)
_META_CHARSET: Final = re.compile(rb"<meta[\s/][^>]*?" + _LABEL.encode(), re.IGNORECASE)
_COMMENT: Final = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)
_META_WITHIN: Final = 4096  # bytes; the standard says 1024, but pages with a long head exist
_GUESS_FROM: Final = 64 << 10  # bytes

# The encodings of the web (https://encoding.spec.whatwg.org/#names-and-labels): what Python calls
# the codec -> the standard's name. What isn't here (base64, punycode, utf-7) no page may choose.
_NAMES: Final = {
    "utf-8": "utf-8",
    "utf-16": "utf-16le",
    "utf-16-le": "utf-16le",
    "utf-16-be": "utf-16be",
    "ascii": "windows-1252",
    "iso8859-1": "windows-1252",
    "iso8859-9": "windows-1254",
    "iso8859-11": "windows-874",
    "tis-620": "windows-874",
    "cp874": "windows-874",
    "cp866": "ibm866",
    "koi8-r": "koi8-r",
    "koi8-u": "koi8-u",
    "mac-roman": "macintosh",
    "mac-cyrillic": "x-mac-cyrillic",
    "gb2312": "gbk",
    "gbk": "gbk",
    "gb18030": "gb18030",
    "big5": "big5",
    "big5hkscs": "big5",
    "euc_jp": "euc-jp",
    "iso2022_jp": "iso-2022-jp",
    "shift_jis": "shift_jis",
    "cp932": "shift_jis",
    "euc_kr": "euc-kr",
    "cp949": "euc-kr",
    **{f"iso8859-{n}": f"iso-8859-{n}" for n in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
    **{f"cp{n}": f"windows-{n}" for n in range(1250, 1259)},
}
# The standard's name -> Python's codec, where they differ: web encodings are supersets of what
# their names say.
_CODECS: Final = {
    "ibm866": "cp866",
    "macintosh": "mac-roman",
    "x-mac-cyrillic": "mac-cyrillic",
    "windows-874": "cp874",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "shift_jis": "cp932",
    "euc-kr": "cp949",
}


def decode(body: bytes, content_type: str | None) -> tuple[str, str]:
    """The text of a page, and the WHATWG name (lower case) of its encoding.

    Believed in this order: byte-order mark, charset of the Content-Type header, `meta` in the first
    4 kB, valid UTF-8, a guess from the first 64 kB, windows-1252. Bytes that the encoding doesn't
    have become U+FFFD; nothing raises.
    """
    for bom, name in _BOMS:
        if body.startswith(bom):
            return body[len(bom) :].decode(name, "replace"), name
    declared = _header_encoding(content_type) or _meta_encoding(body[:_META_WITHIN])
    if declared is None:
        try:
            return body.decode(), "utf-8"
        except UnicodeDecodeError:
            guess = cchardet.detect(body[:_GUESS_FROM])["encoding"]
            declared = (guess and _encoding(guess)) or "windows-1252"
    return body.decode(_CODECS.get(declared, declared), "replace"), declared


def _header_encoding(content_type: str | None) -> str | None:
    match = _HEADER_CHARSET.search(content_type or "")
    return _encoding(match[1]) if match else None


def _meta_encoding(head: bytes) -> str | None:
    for match in _META_CHARSET.finditer(_COMMENT.sub(b"", head)):
        if name := _encoding(match[1].decode("latin-1")):
            # It was read as ASCII, so it can't be UTF-16: the standard takes UTF-8 then.
            return "utf-8" if name.startswith("utf-16") else name
    return None


@lru_cache(256)
def _encoding(label: str) -> str | None:
    """The standard's name for a label, or None."""
    python = label.lower().removeprefix("x-").replace("windows-", "cp")  # it lacks windows-874
    try:
        return _NAMES.get(codecs.lookup(python).name)
    except LookupError:
        return None


# --- Text to links ---------------------------------------------------------------------------

_C0_OR_SPACE: Final = "".join(map(chr, range(0x21)))  # what the URL standard strips
_OTHER_SCHEME: Final = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_FRAMES: Final = frozenset({"frame", "iframe"})
_REL: Final = {"canonical": CANONICAL, "next": NEXT, "prev": PREV, "alternate": ALTERNATE}
# A reference whose path is plain: (the way up)(segments that start with no dot, nothing to escape).
_PLAIN: Final = re.compile(
    r"(?=.)(/|(?:\.\./)*+)((?:[\w~-][\w~.-]*+/)*+(?:[\w~-][\w~.-]*+)?+)", re.ASCII
)
_WAY_UP: Final = 8


def extract(text: str, url: str, elements: frozenset[str]) -> list[tuple[str, int]]:
    """The distinct targets of a page's links, normalised, in document order, with their flags.

    `url` is the page's own, normalised; `elements` are those of `[extract]` in the configuration.
    References that don't make an http or https URL are left out, and so are links of the page to
    itself. Where a target is found several times, the flags of its kinds (FRAME, CANONICAL ...) are
    or-ed, and it is NOFOLLOW only if every occurrence is.
    """
    base = None
    references: dict[str, int] = {}  # distinct, fragment cut -> flags with NOFOLLOW inverted
    # One query without names of elements takes lexbor half the time of a query with them.
    for node in LexborHTMLParser(text).css("[href],[src]"):
        tag = node.tag
        if tag not in elements:
            if tag == "base" and base is None and "href" in node.attributes:
                base = _base(node.attributes["href"] or "", url)
            continue
        attributes = node.attributes
        reference = attributes.get("href")
        rel = attributes.get("rel")
        flags = 0 if rel and "nofollow" in rel.lower().split() else NOFOLLOW
        if tag == "link":
            kinds = _link_kinds(rel or "")
            if not kinds:
                continue
            flags |= kinds
        elif tag in _FRAMES:
            flags |= FRAME
            reference = attributes.get("src")
        if reference is not None:
            reference = reference.strip(_C0_OR_SPACE)
            if "#" in reference:
                reference = reference.partition("#")[0]
                if reference.endswith(" "):
                    reference += "#"  # so that it stays: only the ends are stripped
            references[reference] = references.get(reference, 0) | flags
    return _resolve(references, base or url, url)


def _base(href: str, url: str) -> str:
    """The base URL by the first `base` with an href; one that isn't http or https doesn't count."""
    try:
        return normalise(href, url)
    except BadUrlError:
        return url


def _link_kinds(rel: str) -> int:
    tokens = rel.lower().split()
    if "stylesheet" in tokens:
        return 0  # rel="alternate stylesheet" is no page
    kinds = 0
    for token in tokens:
        kinds |= _REL.get(token, 0)
    return kinds


def _resolve(references: dict[str, int], base: str, url: str) -> list[tuple[str, int]]:
    folders = _folders(base)
    targets: dict[str, int] = {}
    for reference, flags in references.items():
        plain = _PLAIN.fullmatch(reference)
        if plain and plain[1] in folders:  # what `normalise` would say, in a third of the time
            target = folders[plain[1]] + plain[2]
        elif _OTHER_SCHEME.match(reference):
            continue
        else:
            try:
                target = normalise(reference, base)
            except BadUrlError:
                continue
        targets[target] = targets.get(target, 0) | flags
    targets.pop(url, None)
    return [(target, flags ^ NOFOLLOW) for target, flags in targets.items()]


def _folders(base: str) -> dict[str, str]:
    """Where plain references start, by their way up: `/`, nothing, `../`, `../../` ...

    Not higher than `_WAY_UP` folders: all of a base with 100,000 would be quadratic.
    """
    folder = base.partition("?")[0]
    root = folder[: folder.index("/", 8) + 1]
    folder = folder[: folder.rindex("/") + 1]
    folders = {"/": root}
    for up in range(_WAY_UP + 1):
        folders["../" * up] = folder
        if folder == root:
            break
        folder = folder[: folder.rindex("/", 0, -1) + 1]
    return folders
