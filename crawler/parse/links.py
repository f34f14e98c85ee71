"""The text of an HTML page to its links.

What a page costs is bounded by its bytes: a long base could make a long URL of each short
reference. So no URL is longer than `url.MAX_LENGTH`, and all URLs of a page together have at most
`most_characters`. What is left out is counted. docs/decisions/bounds.md says why.
"""

import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

from crawler.parse.elements import elements as elements_of
from crawler.parse.encoding import encode_query
from crawler.parse.headers import link_kinds
from crawler.parse.tokens import SPACE, TooLong
from crawler.ports import FRAME, NOFOLLOW
from crawler.url import MAX_LENGTH, BadUrlError, LongUrlError, authority, normalise

_C0_OR_SPACE: Final = "".join(map(chr, range(0x21)))  # what the URL standard strips
_OTHER_SCHEME: Final = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)
# A reference whose path is plain: (the way up)(segments that start with no dot, nothing to escape).
_PLAIN: Final = re.compile(
    r"(?=.)(/|(?:\.\./)*)((?:[\w~-][\w~.-]*+/)*(?:[\w~-][\w~.-]*+)?)", re.ASCII
)
_ABSOLUTE: Final = ("http://", "https://")
_SHORT: Final = 512  # characters of an absolute reference that is worth remembering
_known: Final = lru_cache(1 << 14)(normalise)  # neighbours link to the same pages elsewhere
_WAY_UP: Final = 8
MAX_LINKS: Final = 100_000
MAX_LINK_BYTES: Final = 32 << 20  # of the URLs of a page's links
_LINK_BYTES_AT_LEAST: Final = 1 << 20  # of them any page may have so many
_LINK_BYTES_PER_CHARACTER: Final = 16  # and so many for each character of its text
# Work is counted in characters read and written; a reference counts as so many more.
_WORK_STEP: Final = 1 << 18
_WORK_PER_REFERENCE: Final = 64
_VALUES_STEP: Final = 1 << 17  # characters of references taken in one step
_TARGETS: Final = 1 << 13  # put together in one step
_MOST_METAS: Final = 1 << 15  # characters of meta elements for robots
_UTF8: Final = frozenset({"utf-8", "utf-16le", "utf-16be", "replacement"})  # queries are UTF-8

_ALWAYS: Final = frozenset({"base", "meta"})
_PLAIN_LINKS: Final = frozenset({"a", "area"})
_FRAMES: Final = frozenset({"frame", "iframe"})
_IMAGES: Final = frozenset({"img", "source"})


class Links(NamedTuple):
    targets: list[tuple[str, int]]  # normalised, distinct, in document order, with flags
    metas: list[tuple[str, str]]  # name and content of those meta elements that are for robots


def most_characters(text: str, max_link_bytes: int = MAX_LINK_BYTES) -> int:
    """How many characters the URLs of a page's links may have together. A little more may pass."""
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
) -> Generator[None, None, Links]:
    """The links of a page in steps. `more` are others of its links, relative to its own URL, with
    flags; None there comes between two steps.

    Of several `base` elements the first with an href counts, also for what stands before it. Of
    more than `max_links` different references the first are taken, and of those the first whose
    URLs have `most_characters` together. `left_out` counts the others, by the bound that did it.
    `utf8`: the text in bytes, where they are at hand.
    """
    base: _Base | None = None
    # Distinct, fragment cut -> flags with NOFOLLOW inverted.
    references: dict[str, int] = {}
    others: dict[str, int] = {}  # relative to the page, whatever its base is
    metas = []
    metas_size = 0
    robots = {"robots", agent.lower()} - {""}
    left_out = Counter() if left_out is None else left_out
    work = 0

    def add(reference: str | None, flags: int, references: dict[str, int] = references) -> None:
        nonlocal work
        if not reference:
            if isinstance(reference, TooLong):
                left_out["max_url_length"] += 1
                return
            reference = ""
        work += len(reference)
        reference = reference.strip(_C0_OR_SPACE)
        if "#" in reference:
            reference = reference.partition("#")[0]
            if reference.endswith(" "):
                reference += "#"  # so that it stays: only the ends are stripped
        known = references.get(reference)
        if known is not None:
            references[reference] = known | flags
        elif len(reference) > MAX_LENGTH:
            if not _OTHER_SCHEME.match(reference):
                left_out["max_url_length"] += 1
        elif len(references) + len(others) < max_links:
            references[reference] = flags
        else:
            left_out["max_links"] += 1

    for link in more:
        if link is None:
            yield
        else:
            add(link[0], link[1] ^ NOFOLLOW, others)
    images = _IMAGES if "img" in elements else frozenset()
    for element in elements_of(text, (elements - {"refresh"}) | images | _ALWAYS, utf8):
        if element is None:
            yield
            continue
        if work > _VALUES_STEP:
            work = 0
            yield
        name, attributes = element
        rel = attributes.get("rel")
        flags = 0 if rel and "nofollow" in rel.lower().split() else NOFOLLOW
        if name in _PLAIN_LINKS:
            if "href" in attributes:
                add(attributes["href"], flags)
        elif name == "link":
            kinds = link_kinds(rel or "")
            if kinds and "href" in attributes:
                add(attributes["href"], flags | kinds)
        elif name in _FRAMES:
            if "src" in attributes:
                add(attributes["src"], flags | FRAME)
        elif name in images:
            for target in (attributes.get("src"), *srcset_urls(attributes.get("srcset") or "")):
                if target:
                    add(target, NOFOLLOW)
                    work += _WORK_PER_REFERENCE
                    if work > _VALUES_STEP:
                        work = 0
                        yield
        elif name == "base":
            if base is None and "href" in attributes:
                base = _base(attributes["href"], url)
        else:
            content = attributes.get("content") or ""
            meta = attributes.get("name") or ""
            if meta.strip().lower() in robots:
                metas_size += len(meta) + len(content)
                if metas_size <= _MOST_METAS:
                    metas.append((meta, content))
            elif "refresh" in elements and _equiv(attributes) == "refresh":
                target = refresh_target(content)
                if target is not None:
                    add(target, NOFOLLOW)
    yield
    resolution = _Resolution(encoding, fold, most_characters(text, max_link_bytes), left_out)
    if others:
        yield from resolution.resolve(others, _Base(url))
    yield from resolution.resolve(references, base or _Base(url))
    targets = yield from resolution.targets(fold(url) if fold else url)
    return Links(targets, metas)


def _equiv(attributes: Mapping[str, str | None]) -> str:
    return (attributes.get("http-equiv") or "").lower()


class _Base(NamedTuple):
    """What references are relative to. Of a URL that is too long only its origin is known: whatever
    is relative to its path would be too long, too."""

    url: str
    is_origin_only: bool = False


def _base(href: str | None, url: str) -> _Base:
    """The base by the first `base` with an href; one that isn't http or https doesn't count."""
    if href is None:
        href = ""
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
    (?:[uU][rR][lL]{SPACE}*+={SPACE}*+(?:"(?P<double>[^"]*+)|'(?P<single>[^']*+)|(?P<bare>.++))
    |(?P<rest>.++))""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)


def refresh_target(content: str) -> str | None:
    """The reference in the content of a meta refresh; None if it only reloads, or is nonsense."""
    match = _REFRESH.match(content)
    return match[match.lastgroup] if match and match.lastgroup else None


_CANDIDATE: Final = re.compile(r"[\t\n\f\r ,]*+([^\t\n\f\r ]++)")
_DESCRIPTORS: Final = re.compile(r"(?>(?:[^(,]++|\([^)]*+\)?+)*),?+")


def srcset_urls(value: str) -> Iterator[str]:
    """https://html.spec.whatwg.org/multipage/images.html#parse-a-srcset-attribute"""
    match = _CANDIDATE.match(value)
    while match:
        at = match.end()
        if match[1].endswith(","):
            yield match[1].rstrip(",")
        else:
            yield match[1]
            descriptors = _DESCRIPTORS.match(value, at)
            assert descriptors  # it matches nothing at least
            at = descriptors.end()
        match = _CANDIDATE.match(value, at)


_ROOTED: Final = re.compile(r"[/\\]|https?:", re.IGNORECASE)  # the path of the base doesn't matter


class _Resolution:
    """Makes URLs of references, within the bounds, in steps."""

    def __init__(
        self,
        encoding: str,
        fold: Callable[[str], str] | None,
        most: int,
        left_out: Counter[str],
    ) -> None:
        """`most`: characters of all URLs together. `left_out` is counted on."""
        self._encoding = encoding
        self._fold = fold
        self._room = most
        self._left_out = left_out
        self._targets: dict[str, int] = {}  # distinct, with the flags of their references

    def resolve(self, references: Mapping[str, int], base: _Base) -> Generator[None, None, None]:
        """Add the targets of references to the URLs that there are.

        A URL that is too long takes room, too. When there is no room, nothing more is resolved.
        """
        base_url, is_origin_only = base
        folders = {"/": base_url} if is_origin_only else _folders(base_url)
        encoding, fold, targets, room = self._encoding, self._fold, self._targets, self._room
        utf8 = encoding in _UTF8
        # A path that is replaced needn't be joined.
        origin = authority(base_url) + "/" if len(base_url) > _SHORT else base_url
        share = len(base_url) // 8  # of the room, for each URL that is joined to the base
        work = 0
        for count, (reference, flags) in enumerate(references.items()):
            if room <= 0:
                self._left_out["max_link_bytes"] += len(references) - count
                break
            if work > _WORK_STEP:
                work = 0
                yield
            work += _WORK_PER_REFERENCE
            plain = _PLAIN.fullmatch(reference)
            if plain and plain[1] in folders:  # what `normalise` would say, in a third of the time
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
                as_sent = reference if utf8 else encode_query(reference, encoding)
                try:
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
        """All but `url`, with the flags of ports."""
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
