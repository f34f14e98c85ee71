"""What response headers and meta elements say to a crawler: Link, X-Robots-Tag, meta robots."""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from crawler.ports import ALTERNATE, CANONICAL, NEXT, NOFOLLOW, PREV

_RELATIONS: Final = {"canonical": CANONICAL, "next": NEXT, "prev": PREV, "alternate": ALTERNATE}


def link_kinds(rel: str) -> int:
    """The flags of a `link` with this rel; 0 if it is no link to a page."""
    tokens = rel.lower().split()
    if "stylesheet" in tokens:
        return 0  # rel="alternate stylesheet" is no page
    kinds = 0
    for token in tokens:
        kinds |= _RELATIONS.get(token, 0)
    return kinds


# https://www.rfc-editor.org/rfc/rfc8288#appendix-B, which asks for lenient reading
_LINK: Final = re.compile(
    r"""[\s,]*+<([^>]*+)>((?>(?:[^,"]++|"(?>(?:[^"\\]|\\.)*)"?+)*))""", re.DOTALL
)
_PARAMETER: Final = re.compile(
    r""";\s*+([^\s=;,"]++)\s*+(?:=\s*+(?:"((?>(?:[^"\\]|\\.)*))"?+|([^\s;,]*+)))?""", re.DOTALL
)


_MOST_PARAMETERS: Final = 100  # of a link
_STEP: Final = 1 << 13  # characters read in one step, if no link has more


def header_links(values: Iterable[str]) -> list[tuple[str, int]]:
    """The references in Link headers that stand for a `link` element of the page, with flags."""
    return [link for link in reading_links(values) if link is not None]


def reading_links(values: Iterable[str]) -> Iterator[tuple[str, int] | None]:
    """The same; None comes between two steps of the work, each of a few milliseconds."""
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
            rel = parameters.get("rel", "")
            kinds = link_kinds(rel)
            if kinds and "anchor" not in parameters:  # that would be a link of another page
                if "nofollow" in rel.lower().split():
                    kinds |= NOFOLLOW
                yield link[1], kinds
            link = _LINK.match(value, link.end())


_TAKES_A_VALUE: Final = frozenset(
    {"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"}
)


def page_directives(
    metas: Iterable[tuple[str, str]], headers: Iterable[str], agent: str
) -> tuple[bool, bool]:
    """Whether a page asks not to be indexed, and its links not to be followed.

    `metas` are names and contents of meta elements, `headers` the values of X-Robots-Tag, `agent`
    our name in robots.txt. What is meant for another agent doesn't count; of what is meant for us
    and what for all, both do.
    """
    ours = {"", "robots", agent.lower()}
    said: set[str] = set()
    for name, content in metas:
        if name.strip().lower() in ours:
            said.update(map(str.strip, content.lower().split(",")))
    for value in headers:
        addressee = ""  # `otherbot: noindex, nofollow` is all for otherbot
        for part in value.lower().split(","):
            name, colon, rest = part.partition(":")
            if not colon:
                rest = name
            elif name.strip() in _TAKES_A_VALUE:
                continue
            else:
                addressee = name.strip()
            if addressee in ours:
                said.add(rest.strip())
    return not said.isdisjoint({"noindex", "none"}), not said.isdisjoint({"nofollow", "none"})
