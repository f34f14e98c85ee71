"""Reads the links in the text of a page.

The cost of a page is bounded by its bytes. A long base would turn each short reference into a long
URL. So a URL has at most `url.MAX_LENGTH` characters, and all URLs of a page together have about
`most_characters`. References beyond these bounds are counted. docs/decisions/bounds.md says why.
"""

import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

from crawler.ports import FRAME, NOFOLLOW
from crawler.reading.parse.elements import Form
from crawler.reading.parse.elements import elements as elements_of
from crawler.reading.parse.encoding import encode_query
from crawler.reading.parse.headers import link_kinds
from crawler.reading.parse.tokens import SPACE, Escaped, TooLong, unescaping
from crawler.url import MAX_LENGTH, BadUrlError, LongUrlError, authority, normalise

_C0_OR_SPACE: Final = "".join(map(chr, range(0x21)))  # what the URL standard strips
_OTHER_SCHEME: Final = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)
# A plain reference: (`/` or the way up)(segments that don't start with a dot, nothing to escape).
_PLAIN: Final = re.compile(
    r"(?=.)(/|(?:\.\./)*)((?:[\w~-][\w~.-]*+/)*(?:[\w~-][\w~.-]*+)?)", re.ASCII
)
_ABSOLUTE: Final = ("http://", "https://")
_SHORT: Final = 512  # characters; longer absolute references aren't cached
_known: Final = lru_cache(1 << 14)(normalise)  # neighbouring pages have many links in common
_WAY_UP: Final = 8  # most `../` of a plain reference
MAX_LINKS: Final = 100_000
MAX_LINK_BYTES: Final = 32 << 20  # of the URLs of a page's links
_LINK_BYTES_AT_LEAST: Final = 1 << 20  # any page may have so many
_LINK_BYTES_PER_CHARACTER: Final = 16  # and so many more for each character of its text
# Work is counted in characters read and written, plus an amount for each reference.
_WORK_STEP: Final = 1 << 18
_WORK_PER_REFERENCE: Final = 64
_WORK_PER_ENCODED: Final = 8  # for each character of a reference whose query is encoded
_VALUES_STEP: Final = 1 << 17  # characters of image references taken in one step
_TARGETS: Final = 1 << 13  # targets listed in one step
_MOST_METAS: Final = 1 << 15  # characters of meta elements for robots
_UTF8: Final = frozenset({"utf-8", "utf-16le", "utf-16be", "replacement"})  # queries are UTF-8

_ALWAYS: Final = frozenset({"base", "meta"})
_PLAIN_LINKS: Final = frozenset({"a", "area"})
_FRAMES: Final = frozenset({"frame", "iframe"})
_SRCDOC_DEPTH: Final = 4  # levels of documents inside srcdoc attributes that are read
_IMAGES: Final = frozenset({"img", "source"})


class Links(NamedTuple):
    """The links of a page, and its meta elements for robots."""

    targets: list[tuple[str, int]]  # normalised, distinct, in document order, with flags
    metas: list[tuple[str, str]]  # name and content of meta elements for robots


def most_characters(text: str, max_link_bytes: int = MAX_LINK_BYTES) -> int:
    """Return about how many characters the URLs of a page's links may have together."""
    warranted = _LINK_BYTES_AT_LEAST + _LINK_BYTES_PER_CHARACTER * len(text)
    return min(warranted, max_link_bytes)


def reading(
    text: str,
    url: str,
    encoding: str,
    elements: frozenset[str],
    more: Iterable[tuple[str, int] | None] = (),
    agent: str = "",
    fold: Callable[[str], str] | None = None,
    max_links: int = MAX_LINKS,
    utf8: bytes | None = None,
    max_link_bytes: int = MAX_LINK_BYTES,
    left_out: Counter[str] | None = None,
    form: Form = Form.HTML,
) -> Generator[None, None, Links]:
    """Return the links of a page, in steps.

    The first `base` element with an href counts, also for links before it. The first `max_links`
    different references are taken, and of these the first whose URLs together have at most
    `most_characters`. `left_out` counts the others, by the bound that they exceed.

    `more` yields further links of the page, relative to its own URL, with flags; it yields None
    between two steps. `utf8`: the text in bytes, if the caller has them. `form`: how the text is
    read.
    """
    left_out = Counter() if left_out is None else left_out
    others: dict[str, int] = {}  # relative to the page, whatever its base is
    references: dict[str, int] = {}
    collector = _Collector(elements, agent, max_links, left_out)
    for link in more:
        if link is None:
            yield
        else:
            collector.add(link[0], link[1] ^ NOFOLLOW, others)
    href = yield from collector.read(text, references, utf8, form)
    yield
    resolution = _Resolution(encoding, fold, most_characters(text, max_link_bytes), left_out)
    if others:
        yield from resolution.resolve(others, _Base(url))
    base = _Base(url) if href is None else _base(href, url)
    yield from resolution.resolve(references, base)
    for own_base, inner in collector.framed:
        yield from resolution.resolve(inner, _base(own_base, base.url))
    targets = yield from resolution.targets(fold(url) if fold else url)
    return Links(targets, collector.metas)


class _Collector:
    """Collects the references in the elements of a page: distinct, without fragments, limited.

    A dictionary of references holds the flags of each, with NOFOLLOW inverted, so that the flags of
    several occurrences can be or-ed.
    """

    def __init__(
        self, elements: frozenset[str], agent: str, max_links: int, left_out: Counter[str]
    ) -> None:
        self.metas: list[tuple[str, str]] = []  # name and content of meta elements for robots
        # For each document in a srcdoc with its own base: the base, and the references.
        self.framed: list[tuple[str, dict[str, int]]] = []
        self._refreshes = "refresh" in elements
        self._images = _IMAGES if "img" in elements else frozenset()
        self._names = (elements - {"refresh"}) | self._images | _ALWAYS
        self._robots = {"robots", agent.lower()} - {""}
        self._metas_size = 0
        self._room = max_links
        self._left_out = left_out
        self._work = 0

    def add(self, reference: str | None, flags: int, references: dict[str, int]) -> None:
        """Add a reference to a dictionary."""
        if not reference:
            if isinstance(reference, TooLong):
                self._left_out["max_url_length"] += 1
                return
            reference = ""
        reference = reference.strip(_C0_OR_SPACE)
        if "#" in reference:
            reference = reference.partition("#")[0]
            if reference.endswith(" "):
                reference += "#"  # keeps the blank: later only blanks at the ends are stripped
        known = references.get(reference)
        if known is not None:
            references[reference] = known | flags
        elif len(reference) > MAX_LENGTH:
            if not _OTHER_SCHEME.match(reference):
                self._left_out["max_url_length"] += 1
        elif self._room > 0:
            self._room -= 1
            references[reference] = flags
        else:
            self._left_out["max_links"] += 1

    def read(
        self,
        text: str,
        references: dict[str, int],
        utf8: bytes | None = None,
        form: Form = Form.HTML,
        depth: int = 0,
    ) -> Generator[None, None, str | None]:
        """Add all references of a document, in steps.

        Returns the href of its first `base` that has one. `depth`: the number of srcdoc attributes
        around the document.
        """
        base: str | None = None
        add, images = self.add, self._images
        for element in elements_of(text, self._names, utf8, form=form):
            if element is None:
                yield
                continue
            name, attributes = element
            rel = attributes.get("rel")
            flags = 0 if rel and "nofollow" in rel.lower().split() else NOFOLLOW
            if name in _PLAIN_LINKS:
                if href := attributes.get("href"):
                    # Most references are there already, after their fragment is removed.
                    known = references.get(href.partition("#")[0])
                    if known is None or known | flags != known:
                        add(href, flags, references)
                elif "href" in attributes:
                    add(href, flags, references)
            elif name == "link":
                kinds = link_kinds(rel or "")
                if kinds and "href" in attributes:
                    add(attributes["href"], flags | kinds, references)
            elif name in _FRAMES:
                if "src" in attributes:
                    add(attributes["src"], flags | FRAME, references)
                if name == "iframe" and attributes.get("srcdoc") and depth < _SRCDOC_DEPTH:
                    yield from self._read_srcdoc(attributes["srcdoc"] or "", references, depth + 1)
            elif name in images:
                yield from self._read_image(attributes, references)
            elif name == "base":
                if base is None and "href" in attributes:
                    href = attributes["href"]
                    base = "" if href is None else href  # a TooLong is kept as such
            else:
                self._read_meta(attributes, references, is_page=depth == 0)
        return base

    def _read_srcdoc(
        self, srcdoc: str, references: dict[str, int], depth: int
    ) -> Generator[None, None, None]:
        """Add the references of a document in a srcdoc, which may have its own base."""
        if isinstance(srcdoc, Escaped):
            srcdoc = yield from unescaping(srcdoc)
        inner: dict[str, int] = {}
        base = yield from self.read(srcdoc, inner, depth=depth)
        if base is not None:
            self.framed.append((base, inner))
            return
        for reference, flags in inner.items():
            references[reference] = references.get(reference, 0) | flags

    def _read_image(
        self, attributes: Mapping[str, str | None], references: dict[str, int]
    ) -> Generator[None, None, None]:
        for target in (attributes.get("src"), *srcset_urls(attributes.get("srcset") or "")):
            if target:
                self.add(target, NOFOLLOW, references)
                self._work += _WORK_PER_REFERENCE + len(target)
                if self._work > _VALUES_STEP:
                    self._work = 0
                    yield

    def _read_meta(
        self, attributes: Mapping[str, str | None], references: dict[str, int], *, is_page: bool
    ) -> None:
        content = attributes.get("content") or ""
        meta = attributes.get("name") or ""
        if meta.strip().lower() in self._robots:
            self._metas_size += len(meta) + len(content)
            if is_page and self._metas_size <= _MOST_METAS:
                self.metas.append((meta, content))
        elif self._refreshes and _equiv(attributes) == "refresh":
            target = refresh_target(content)
            if target is not None:
                self.add(target, NOFOLLOW, references)


def _equiv(attributes: Mapping[str, str | None]) -> str:
    return (attributes.get("http-equiv") or "").lower()


class _Base(NamedTuple):
    """The base of relative references.

    Only the origin of a base URL is kept if the URL is too long, because URLs relative to its path
    would be too long, too.
    """

    url: str
    is_origin_only: bool = False


def _base(href: str, url: str) -> _Base:
    """Return the base of a page, given the href of its `base` element and the URL of the page.

    An href that gives no http or https URL doesn't count.
    """
    start = href.start if isinstance(href, TooLong) else href[:_SHORT]
    try:
        if not isinstance(href, TooLong):
            with suppress(LongUrlError):
                return _Base(normalise(href.strip(_C0_OR_SPACE), url))
        return _Base(authority(normalise(start, url)) + "/", is_origin_only=True)
    except BadUrlError:
        return _Base(url)


# https://html.spec.whatwg.org/multipage/semantics.html#shared-declarative-refresh-steps
_REFRESH: Final = re.compile(
    rf"""{SPACE}*+(?:\d++[\d.]*+|\.[\d.]*+)(?:{SPACE}*+[;,]|{SPACE}){SPACE}*+
    (?:[uU][rR][lL]{SPACE}*+={SPACE}*+(?:"(?P<double>[^"]*+)|'(?P<single>[^']*+)|(?P<bare>.*+))
    |(?P<rest>.++))""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)


def refresh_target(content: str) -> str | None:
    """Return the reference in the content of a meta refresh; None if there is none."""
    match = _REFRESH.match(content)
    return match[match.lastgroup] if match and match.lastgroup else None


_CANDIDATE: Final = re.compile(r"[\t\n\f\r ,]*+([^\t\n\f\r ]++)")
_DESCRIPTORS: Final = re.compile(r"(?>(?:[^(,]++|\([^)]*+\)?+)*),?+")


def srcset_urls(value: str) -> Iterator[str]:
    """Yield the references in a srcset, by the rules of the HTML standard.

    https://html.spec.whatwg.org/multipage/images.html#parse-a-srcset-attribute
    """
    match = _CANDIDATE.match(value)
    while match:
        at = match.end()
        if match[1].endswith(","):
            yield match[1].rstrip(",")
        else:
            yield match[1]
            descriptors = _DESCRIPTORS.match(value, at)
            assert descriptors  # the pattern also matches the empty string
            at = descriptors.end()
        match = _CANDIDATE.match(value, at)


# The beginning of references for which the path of the base doesn't matter.
_ROOTED: Final = re.compile(r"[/\\]|https?:", re.IGNORECASE)


class _Resolution:
    """Turns references into URLs, within the bounds, in steps."""

    def __init__(
        self,
        encoding: str,
        fold: Callable[[str], str] | None,
        most: int,
        left_out: Counter[str],
    ) -> None:
        """`most`: the characters of all URLs together. `left_out` counts what exceeds a bound."""
        self._encoding = encoding
        self._fold = fold
        self._room = most
        self._left_out = left_out
        self._targets: dict[str, int] = {}  # distinct, with the flags of their references

    def resolve(self, references: Mapping[str, int], base: _Base) -> Generator[None, None, None]:
        """Resolve references, and add them to the targets.

        A URL that is too long also uses up room. When no room is left, nothing more is resolved.
        """
        base_url, is_origin_only = base
        folders = {"/": base_url} if is_origin_only else _folders(base_url)
        encoding, fold, targets, room = self._encoding, self._fold, self._targets, self._room
        utf8 = encoding in _UTF8
        # A rooted reference is joined to the origin, which is faster than joining to a long base.
        origin = authority(base_url) + "/" if len(base_url) > _SHORT else base_url
        share = len(base_url) // 8  # room that each reference joined to the base uses up
        work = 0
        rest = iter(references.items())
        for reference, flags in rest:
            if room <= 0:
                self._left_out["max_link_bytes"] += 1 + sum(1 for _ in rest)
                break
            if work > _WORK_STEP:
                work = 0
                yield
            work += _WORK_PER_REFERENCE
            plain = _PLAIN.fullmatch(reference)
            if plain and plain[1] in folders:  # does what `normalise` does, in a third of the time
                target = folders[plain[1]] + plain[2]
                if len(target) > MAX_LENGTH:
                    room -= len(target)
                    work += len(target)
                    self._left_out["max_url_length"] += 1
                    continue
            elif _OTHER_SCHEME.match(reference):
                continue
            elif is_origin_only and not _ROOTED.match(reference):
                self._left_out["max_url_length"] += 1
                continue
            else:
                start = base_url
                if origin is not base_url and _ROOTED.match(reference):
                    start = origin
                else:
                    work += len(base_url)
                    room -= share
                work += len(reference)
                try:
                    as_sent = reference if utf8 else encode_query(reference, encoding)
                    if as_sent is not reference:
                        work += _WORK_PER_ENCODED * len(as_sent)
                    if as_sent.startswith(_ABSOLUTE) and len(as_sent) <= _SHORT:
                        target = _known(as_sent)
                    else:
                        target = normalise(as_sent, start)
                except LongUrlError:
                    room -= len(start) + len(reference)
                    self._left_out["max_url_length"] += 1
                    continue
                except BadUrlError:
                    continue
            work += len(target)
            if fold:
                target = fold(target)
            known = targets.get(target)
            if known is None:
                room -= len(target)
                targets[target] = flags
            else:
                targets[target] = known | flags
        self._room = room

    def targets(self, url: str) -> Generator[None, None, list[tuple[str, int]]]:
        """Return all targets except `url`, with their flags (see `ports`), in steps."""
        targets = self._targets
        targets.pop(url, None)
        found: list[tuple[str, int]] = []
        rest = iter(targets.items())
        while some := [(target, flags ^ NOFOLLOW) for target, flags in islice(rest, _TARGETS)]:
            found += some
            if len(found) < len(targets):
                yield
        return found


def _folders(base: str) -> dict[str, str]:
    """Return the URL that plain references are appended to, for each start: `/`, nothing, `../` ...

    At most `_WAY_UP` folders up, because the folders of a base with 100,000 would take quadratic
    memory.
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
