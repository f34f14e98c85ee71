"""Reads the headers Link and X-Robots-Tag, and meta elements for robots."""

import re
from collections.abc import Container, Iterable, Iterator
from itertools import islice
from typing import Final

from crawler.ports import ALTERNATE, CANONICAL, NEXT, NOFOLLOW, PREV

_RELATIONS: Final = {"canonical": CANONICAL, "next": NEXT, "prev": PREV, "alternate": ALTERNATE}


def link_kinds(rel: str) -> int:
    """Return the flags of a `link` with this rel; 0 if it doesn't link to a page."""
    tokens = rel.lower().split()
    if "stylesheet" in tokens:
        return 0  # rel="alternate stylesheet" links to no page
    kinds = 0
    for token in tokens:
        kinds |= _RELATIONS.get(token, 0)
    return kinds


# https://www.rfc-editor.org/rfc/rfc8288#appendix-B, which recommends lenient reading
_LINK: Final = re.compile(
    r"""[\s,]*+<([^>]*+)>((?>(?:[^,"]++|"(?>(?:[^"\\]++|\\.)*)"?+)*))""", re.DOTALL
)
_PARAMETER: Final = re.compile(
    r""";\s*+([^\s=;,"]++)\s*+(?:=\s*+(?:"((?>(?:[^"\\]++|\\.)*))"?+|([^\s;,]*+)))?""", re.DOTALL
)


_MOST_PARAMETERS: Final = 100  # of a link
_LONGEST_REL: Final = 1 << 12  # characters that are read
_STEP: Final = 1 << 13  # characters read in one step, unless a link is longer


def header_links(values: Iterable[str]) -> list[tuple[str, int]]:
    """Return the references in Link headers that link to pages, with their flags."""
    return [link for link in reading_links(values) if link is not None]


def reading_links(values: Iterable[str]) -> Iterator[tuple[str, int] | None]:
    """Yield the same as `header_links`, and None between two steps of a few milliseconds."""
    for value in values:
        link = _LINK.match(value)
        pause = _STEP
        while link:
            if link.end() > pause:
                pause = link.end() + _STEP
                yield None
            parameters: dict[str, str] = {}
            for parameter in islice(_PARAMETER.finditer(link[2]), _MOST_PARAMETERS):
                name, quoted, bare = parameter.groups("")
                parameters.setdefault(name.lower(), quoted or bare)
            rel = parameters.get("rel", "")[:_LONGEST_REL]
            kinds = link_kinds(rel)
            if kinds and "anchor" not in parameters:  # with an anchor, it links from another page
                if "nofollow" in rel.lower().split():
                    kinds |= NOFOLLOW
                yield link[1], kinds
            link = _LINK.match(value, link.end())


_TAKES_A_VALUE: Final = frozenset({"max-snippet", "max-image-preview", "max-video-preview"})
# A word of robots directives, with the colon behind it. Colons in 15:00:00 belong to the word.
_WORD: Final = re.compile(r"((?>(?:[^\s,;:]|(?<=[0-9]):(?=[0-9]))+))\s*+(:?)")
_JOINED: Final = re.compile(r"[|/+&\uff0c\u3001\uff1b]")  # some pages write noindex|nofollow
_FORBIDDING: Final = frozenset({"noindex", "nofollow", "none"})  # never names of agents


def page_directives(
    metas: Iterable[tuple[str, str]], headers: Iterable[str], agent: str
) -> tuple[bool, bool]:
    """Return whether a page asks not to be indexed, and whether it asks not to follow its links.

    `metas` are names and contents of meta elements, `headers` the values of X-Robots-Tag, `agent`
    is our name in robots.txt. Directives for us and for all agents count; those for other agents
    don't. Commas, semicolons and blanks separate directives.
    """
    ours = {"", "*", "robots", agent.lower()}
    said: set[str] = set()
    for name, content in metas:
        if name.strip().lower() in ours:
            said |= _directives(content, ours)
    for value in headers:
        said |= _directives(value, ours)
    return not said.isdisjoint({"noindex", "none"}), not said.isdisjoint({"nofollow", "none"})


def _directives(value: str, ours: Container[str]) -> set[str]:
    """Return the directives for us in a value; `noindex, otherbot: nofollow` has one.

    A name with a colon says for which agent the rest is. A directive that takes a value also has a
    colon, and the next word is its value. The words of a date match no directive.
    """
    said: set[str] = set()
    is_ours, is_value = True, False
    for word, colon in _WORD.findall(value.lower()):
        if is_value:
            is_value = False
        elif not colon or word in _FORBIDDING:
            if is_ours:
                said.update(_JOINED.split(word))
        elif word in _TAKES_A_VALUE:
            is_value = True
        elif word != "unavailable_after":
            is_ours = word.partition("/")[0] in ours
    return said
