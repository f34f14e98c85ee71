"""Reads the links in the text of a page.

The references in its elements are collected first; then `resolution` turns them into URLs.
"""

import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from crawler.ports import FRAME, NOFOLLOW
from crawler.reading.parse.elements import Form, Room, head_of
from crawler.reading.parse.elements import elements as elements_of
from crawler.reading.parse.head import Head, usual_head
from crawler.reading.parse.headers import link_kinds
from crawler.reading.parse.resolution import (
    C0_OR_SPACE,
    MAX_LINK_BYTES,
    OTHER_SCHEME,
    Base,
    Resolution,
    base_of,
    most_characters,
)
from crawler.reading.parse.tokens import SPACE, Escaped, TooLong, unescaping
from crawler.url import MAX_LENGTH

MAX_LINKS: Final = 100_000
_IMAGES_STEP: Final = 1 << 17  # characters of image references taken in one step
_WORK_PER_IMAGE: Final = 64  # characters that each reference counts for, besides its own
_MOST_METAS: Final = 1 << 15  # characters of meta elements for robots

_ALWAYS: Final = frozenset({"base", "meta"})
_PLAIN_LINKS: Final = frozenset({"a", "area"})
_FRAMES: Final = frozenset({"frame", "iframe"})
_SRCDOC_DEPTH: Final = 4  # levels of documents inside srcdoc attributes that are read
_IMAGES: Final = frozenset({"img", "source"})


class Links(NamedTuple):
    """The links of a page, its meta elements for robots, and its head if that was found as well."""

    targets: dict[str, int]  # normalised, in document order, with flags
    metas: list[tuple[str, str]]  # name and content of meta elements for robots
    head: Head | None = None


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
    meant: dict[str, str] | None = None,
) -> Generator[None, None, Links]:
    """Return the links of a page, in steps.

    The first `base` element with an href counts, also for links before it. The first `max_links`
    different references are taken, as long as all URLs together have at most `most_characters`.
    `left_out` counts the other references, by the bound that they exceed.

    `more` yields further links of the page, relative to its own URL, with flags; it yields None
    between two steps. `utf8`: the bytes of a page in UTF-8. If `elements.reads_bytes`, they are
    read in place of the text.
    `form`: how the text is read. `meant`, if given, is filled with the URL of each `bare` reference
    in the text itself.
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
    most = most_characters(text if utf8 is None else utf8, max_link_bytes)
    resolution = Resolution(encoding, fold, most, left_out)
    if others:
        yield from resolution.resolve(others, Base(url))
    base = Base(url) if href is None else base_of(href, url)
    yield from resolution.resolve(references, base, meant)
    for own_base, inner in collector.framed:
        yield from resolution.resolve(inner, base_of(own_base, base.url))
    resolution.targets.pop(fold(url) if fold else url, None)
    return Links(resolution.targets, collector.metas, collector.head)


def bare(reference: str) -> str:
    """Return a reference without its fragment, and without blanks at its ends."""
    reference = reference.strip(C0_OR_SPACE)
    if "#" in reference:
        reference = reference.partition("#")[0]
        if reference.endswith(" "):
            reference += "#"  # keeps the blank: later only blanks at the ends are stripped
    return reference


@lru_cache(16)
def _names_of(elements: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of the elements that are read, and of those among them that hold images."""
    images = _IMAGES if "img" in elements else frozenset()
    return (elements - {"refresh"}) | images | _ALWAYS, images


@lru_cache(16)
def _robots_of(agent: str) -> frozenset[str]:
    """Return the names of the `meta` elements that hold robots directives for an agent."""
    return frozenset({"robots", agent.lower()}) - {""}


class _Collector:
    """Collects the different references in the elements of a page, without their fragments.

    A dictionary of references holds the flags of each, with NOFOLLOW inverted, so that the flags of
    several occurrences can be or-ed.
    """

    def __init__(
        self, elements: frozenset[str], agent: str, max_links: int, left_out: Counter[str]
    ) -> None:
        self.metas: list[tuple[str, str]] = []  # name and content of meta elements for robots
        # For each document in a srcdoc with its own base: the base, and the references.
        self.framed: list[tuple[str, dict[str, int]]] = []
        self.head: Head | None = None
        self._refreshes = "refresh" in elements
        self._names, self._images = _names_of(elements)
        self._robots = _robots_of(agent)
        self._metas_size = 0
        self._room = Room(max_links)
        self._left_out = left_out
        self._work = 0

    def add(self, reference: str, flags: int, references: dict[str, int]) -> None:
        """Add a reference to a dictionary."""
        if isinstance(reference, TooLong):
            self._left_out["max_url_length"] += 1
            return
        reference = bare(reference)
        known = references.get(reference)
        if known is not None:
            references[reference] = known | flags
        elif len(reference) > MAX_LENGTH:
            if not OTHER_SCHEME.match(reference):
                self._left_out["max_url_length"] += 1
        elif self._room.left > 0:
            self._room.left -= 1
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
        found = elements_of(
            text,
            self._names,
            utf8,
            form=form,
            references=references,
            room=self._room,
            metas=self._robots,
        )
        for element in found:
            if element is None:
                yield
                continue
            name, attributes = element
            rel = attributes.get("rel", "")
            flags = 0 if rel and "nofollow" in rel.lower().split() else NOFOLLOW
            if name in _PLAIN_LINKS:
                if href := attributes.get("href"):
                    # Most references are there already, after their fragment is removed.
                    known = references.get(href.partition("#")[0])
                    if known is None or known | flags != known:
                        add(href, flags, references)
                elif "href" in attributes:
                    add(attributes["href"], flags, references)  # it may be a TooLong
            elif name == "link":
                kinds = link_kinds(rel)
                if kinds and "href" in attributes:
                    add(attributes["href"], flags | kinds, references)
            elif name in _FRAMES:
                if "src" in attributes:
                    add(attributes["src"], flags | FRAME, references)
                if name == "iframe" and attributes.get("srcdoc") and depth < _SRCDOC_DEPTH:
                    yield from self._read_srcdoc(attributes["srcdoc"], references, depth + 1)
            elif name in images:
                yield from self._read_image(attributes, references)
            elif name == "base":
                if base is None and "href" in attributes:
                    base = attributes["href"]
            else:
                self._read_meta(attributes, references, is_page=depth == 0)
        if depth == 0 and (written := head_of(found)):
            self.head = usual_head(*written)
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
        self, attributes: Mapping[str, str], references: dict[str, int]
    ) -> Generator[None, None, None]:
        for target in (attributes.get("src", ""), *srcset_urls(attributes.get("srcset", ""))):
            if target:
                self.add(target, NOFOLLOW, references)
                self._work += _WORK_PER_IMAGE + len(target)
                if self._work > _IMAGES_STEP:
                    self._work = 0
                    yield

    def _read_meta(
        self, attributes: Mapping[str, str], references: dict[str, int], *, is_page: bool
    ) -> None:
        content = attributes.get("content", "")
        meta = attributes.get("name", "")
        if meta.strip().lower() in self._robots:
            self._metas_size += len(meta) + len(content)
            if is_page and self._metas_size <= _MOST_METAS:
                self.metas.append((meta, content))
        elif self._refreshes and _equiv(attributes) == "refresh":
            target = refresh_target(content)
            if target is not None:
                self.add(target, NOFOLLOW, references)


def _equiv(attributes: Mapping[str, str]) -> str:
    return attributes.get("http-equiv", "").lower()


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
