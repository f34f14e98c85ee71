"""From the bytes of a page to its links. Pure: bytes and a URL in, values out.

    kinds     what a response holds: is it HTML?
    encoding  bytes to text, as browsers decide it; and queries back to bytes
    elements  text to the tags that matter: by lexbor, or for a page that could hurt it
    tokens    by the tokeniser of the standard, in linear time whatever the text
    links     tags to links
    headers   Link, X-Robots-Tag, meta robots

`read` is the whole way for a response. It works in steps, so that a page of many megabytes, or one
made to be slow, keeps nobody waiting: see `steps`.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from typing import Final, NamedTuple

from crawler.parse.encoding import declared_encoding, decode, decoding
from crawler.parse.headers import page_directives, reading_links
from crawler.parse.kinds import Kinds, is_html, media_type
from crawler.parse.links import MAX_LINK_BYTES, MAX_LINKS, reading
from crawler.parse.steps import finish
from crawler.ports import NOFOLLOW, Response

__all__ = [
    "Kinds",
    "Page",
    "declared_encoding",
    "decode",
    "extract",
    "finish",
    "is_html",
    "media_type",
    "page_directives",
    "read",
]


class Page(NamedTuple):
    """What an HTML page says to a crawler."""

    encoding: str  # WHATWG name, lower case
    links: list[tuple[str, int]]  # distinct targets, normalised, in document order; flags of ports
    noindex: bool
    nofollow: bool  # then all its links are flagged NOFOLLOW


_MOST_ROBOTS_TAGS: Final = 1 << 15  # bytes of X-Robots-Tag headers that are read


def read(
    response: Response,
    elements: frozenset[str],
    agent: str = "",
    fold: Callable[[str], str] | None = None,
    max_links: int = MAX_LINKS,
    max_link_bytes: int = MAX_LINK_BYTES,
    left_out: Counter[str] | None = None,
) -> Generator[None, None, Page]:
    """Read a response that is HTML (the caller has asked `is_html`), step by step.

    A step takes milliseconds. `elements`, `max_links` and `max_link_bytes` are those of `[extract]`
    in the configuration, `agent` is our name in robots.txt, `fold` the folding of URLs if there is
    any. `left_out` counts the references that are no links, by the bound that did it.
    """
    url = response.url
    text, encoding = yield from decoding(response.body, response.content_type)
    more: Iterator[tuple[str, int] | None] = iter(())
    if "link" in elements:
        more = reading_links(_values(response, b"link"))
    utf8 = response.body if encoding == "utf-8" and "\ufffd" not in text else None
    links, metas = yield from reading(
        text, url, encoding, elements, more, agent, fold, max_links, utf8, max_link_bytes, left_out
    )
    robots_tags = _values(response, b"x-robots-tag", _MOST_ROBOTS_TAGS)
    noindex, nofollow = page_directives(metas, robots_tags, agent)
    if nofollow:
        links = [(target, flags | NOFOLLOW) for target, flags in links]
    return Page(encoding, links, noindex, nofollow)


def _values(response: Response, name: bytes, most: int | None = None) -> list[str]:
    """The values of a header, and of them the first bytes."""
    values = []
    for key, value in response.headers:
        if key.lower() == name:
            values.append(value[:most].decode("latin-1"))
            if most is not None:
                most = max(0, most - len(value))
    return values


def extract(
    text: str, url: str, elements: frozenset[str], encoding: str = "utf-8"
) -> list[tuple[str, int]]:
    """The distinct targets of a page's links, normalised, in document order, with their flags.

    `url` is the page's own, normalised; `elements` are those of `[extract]` in the configuration.
    References that don't make an http or https URL are left out, and so are links of the page to
    itself. Where a target is found several times, the flags of its kinds (FRAME, CANONICAL ...) are
    or-ed, and it is NOFOLLOW only if every occurrence is. Queries are in the page's `encoding`.
    """
    return finish(reading(text, url, encoding, elements)).targets
