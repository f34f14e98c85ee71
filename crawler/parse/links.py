"""The text of an HTML page to its links."""

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

from crawler.parse.elements import elements as elements_of
from crawler.parse.encoding import encode_query
from crawler.parse.headers import link_kinds
from crawler.parse.tokens import SPACE
from crawler.ports import FRAME, NOFOLLOW
from crawler.url import BadUrlError, normalise

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
_REFERENCES: Final = 1 << 11  # resolved in one step
_TARGETS: Final = 1 << 13  # put together in one step
_UTF8: Final = frozenset({"utf-8", "utf-16le", "utf-16be", "replacement"})  # queries are UTF-8

_ALWAYS: Final = frozenset({"base", "meta"})
_PLAIN_LINKS: Final = frozenset({"a", "area"})
_FRAMES: Final = frozenset({"frame", "iframe"})
_IMAGES: Final = frozenset({"img", "source"})


class Links(NamedTuple):
    targets: list[tuple[str, int]]  # normalised, distinct, in document order, with flags
    metas: list[tuple[str, str]]  # name and content of those meta elements that are for robots


def reading(
    text: str,
    url: str,
    encoding: str,
    elements: frozenset[str],
    more: Iterable[tuple[str, int]] = (),
    agent: str = "",
    fold: Callable[[str], str] | None = None,
    max_links: int = MAX_LINKS,
    utf8: bytes | None = None,
) -> Generator[None, None, Links]:
    """The links of a page in steps. `more` are others of its links, absolute, with flags.

    Of several `base` elements the first with an href counts, also for what stands before it. Of
    more than `max_links` different references the first are taken. `utf8`: the text in bytes, where
    they are at hand.
    """
    base = None
    references: dict[str, int] = {}  # distinct, fragment cut -> flags with NOFOLLOW inverted
    metas = []
    robots = {"robots", agent.lower()} - {""}

    def add(reference: str, flags: int) -> None:
        reference = reference.strip(_C0_OR_SPACE)
        if "#" in reference:
            reference = reference.partition("#")[0]
            if reference.endswith(" "):
                reference += "#"  # so that it stays: only the ends are stripped
        known = references.get(reference)
        if known is not None:
            references[reference] = known | flags
        elif len(references) < max_links:
            references[reference] = flags

    for reference, flags in more:
        add(reference, flags ^ NOFOLLOW)
    images = _IMAGES if "img" in elements else frozenset()
    for element in elements_of(text, (elements - {"refresh"}) | images | _ALWAYS, utf8):
        if element is None:
            yield
            continue
        name, attributes = element
        rel = attributes.get("rel")
        flags = 0 if rel and "nofollow" in rel.lower().split() else NOFOLLOW
        if name in _PLAIN_LINKS:
            if "href" in attributes:
                add(attributes["href"] or "", flags)
        elif name == "link":
            kinds = link_kinds(rel or "")
            if kinds and "href" in attributes:
                add(attributes["href"] or "", flags | kinds)
        elif name in _FRAMES:
            if "src" in attributes:
                add(attributes["src"] or "", flags | FRAME)
        elif name in images:
            for target in (attributes.get("src"), *srcset_urls(attributes.get("srcset") or "")):
                if target:
                    add(target, NOFOLLOW)
        elif name == "base":
            if base is None and "href" in attributes:
                base = _base(attributes["href"] or "", url)
        else:
            content = attributes.get("content") or ""
            meta = attributes.get("name") or ""
            if meta.strip().lower() in robots:
                metas.append((meta, content))
            elif "refresh" in elements and _equiv(attributes) == "refresh":
                target = refresh_target(content)
                if target is not None:
                    add(target, NOFOLLOW)
    yield
    targets = yield from _resolving(references, base or url, url, encoding, fold)
    return Links(targets, metas)


def _equiv(attributes: Mapping[str, str | None]) -> str:
    return (attributes.get("http-equiv") or "").lower()


def _base(href: str, url: str) -> str:
    """The base URL by the first `base` with an href; one that isn't http or https doesn't count."""
    try:
        return normalise(href, url)
    except BadUrlError:
        return url


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


def _resolving(
    references: dict[str, int],
    base: str,
    url: str,
    encoding: str,
    fold: Callable[[str], str] | None,
) -> Generator[None, None, list[tuple[str, int]]]:
    folders = _folders(base)
    utf8 = encoding in _UTF8
    targets: dict[str, int] = {}
    for count, (reference, flags) in enumerate(references.items(), 1):
        if count % _REFERENCES == 0:
            yield
        plain = _PLAIN.fullmatch(reference)
        if plain and plain[1] in folders:  # what `normalise` would say, in a third of the time
            target = folders[plain[1]] + plain[2]
        elif _OTHER_SCHEME.match(reference):
            continue
        else:
            as_sent = reference if utf8 else encode_query(reference, encoding)
            try:
                if as_sent.startswith(_ABSOLUTE) and len(as_sent) <= _SHORT:
                    target = _known(as_sent)
                else:
                    target = normalise(as_sent, base)
            except BadUrlError:
                continue
        if fold:
            target = fold(target)
        targets[target] = targets.get(target, 0) | flags
    targets.pop(fold(url) if fold else url, None)
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
