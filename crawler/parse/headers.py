"""What response headers and meta elements say to a crawler: Link, X-Robots-Tag, meta robots."""

import re
from collections.abc import Iterable
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


def header_links(values: Iterable[str]) -> list[tuple[str, int]]:
    """The references in Link headers that stand for a `link` element of the page, with flags."""
    found = []
    for value in values:
        link = _LINK.match(value)
        while link:
            parameters: dict[str, str] = {}
            for name, quoted, bare in _PARAMETER.findall(link[2]):
                parameters.setdefault(name.lower(), quoted or bare)
            rel = parameters.get("rel", "")
            kinds = link_kinds(rel)
            if kinds and "anchor" not in parameters:  # that would be a link of another page
                if "nofollow" in rel.lower().split():
                    kinds |= NOFOLLOW
                found.append((link[1], kinds))
            link = _LINK.match(value, link.end())
    return found


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
