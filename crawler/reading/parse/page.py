"""Reads a response that is a page: from its bytes to its links, and what it says of itself."""

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from crawler.ports import NOFOLLOW, Anchor, Response
from crawler.reading.media import XHTML, charset_source
from crawler.reading.parse.elements import Form, reads_bytes
from crawler.reading.parse.encoding import decoding_as, encoding_of
from crawler.reading.parse.head import Head, header_language, reading_head
from crawler.reading.parse.headers import page_directives, reading_links
from crawler.reading.parse.links import MAX_LINKS, reading, refresh_target
from crawler.reading.parse.resolution import MAX_LINK_BYTES
from crawler.reading.steps import finish


class Page(NamedTuple):
    """The links and robots directives of a page, and what it says of itself."""

    encoding: str  # WHATWG name, lower case
    links: dict[str, int]  # normalised targets in document order, with their flags
    noindex: bool
    nofollow: bool  # if set, all links have the flag NOFOLLOW
    head: Head = Head()
    anchors: Sequence[Anchor] = ()  # if they are wanted
    requisites: Sequence[str] = ()  # distinct normalised URLs, if they are wanted


def form_of(media: str, label: str | None) -> Form:
    """Return the form in which a page is read, given its media type and the type in its header.

    In Form.XHTML elements without a namespace count as XHTML; only the header can choose that form.
    """
    if media != XHTML:
        return Form.HTML
    return Form.XHTML if label == XHTML else Form.XML


_MOST_REFRESHES: Final = 1 << 15  # bytes of Refresh headers that are read
_MOST_ROBOTS_TAGS: Final = 1 << 15  # bytes of X-Robots-Tag headers that are read


def read(
    response: Response,
    elements: frozenset[str],
    agent: str = "",
    fold: Callable[[str], str] | None = None,
    max_links: int = MAX_LINKS,
    max_link_bytes: int = MAX_LINK_BYTES,
    left_out: Counter[str] | None = None,
    form: Form = Form.HTML,
    *,
    anchors: bool = False,
    requisites: bool = False,
) -> Generator[None, None, Page]:
    """Read a response that is a page, in steps of a few milliseconds.

    `elements`, `max_links` and `max_link_bytes` are those of `[extract]` in the configuration.
    `agent` is our name in robots.txt, `fold` the folding of URLs, if any. `left_out` counts the
    references that aren't taken as links, by the bound that they exceed. `form`: whether the page
    is read as HTML, XHTML or other XML. `anchors`: whether the texts of the links are wanted.
    `requisites`: whether the page's requisites are wanted.
    """
    url = response.url
    content_type = charset_source(response.content_type)
    body = response.body
    encoding = encoding_of(body, content_type, form is not Form.HTML)
    utf8 = body if encoding == "utf-8" else None
    more: Iterator[tuple[str, int] | None] = iter(())
    if "link" in elements:
        more = reading_links(_values(response, b"link"))
    if "refresh" in elements and (refreshes := refresh_links(response)):
        more = chain(more, refreshes)
    needs_text = utf8 is None or not reads_bytes(form) or anchors or requisites
    text = (yield from decoding_as(body, encoding)) if needs_text else ""
    meant: dict[str, str] | None = {} if anchors else None
    links, metas, head = yield from reading(
        text,
        url,
        encoding,
        elements,
        more,
        agent,
        fold,
        max_links,
        utf8,
        max_link_bytes,
        left_out,
        form,
        meant,
    )
    if head is None:
        text = text if needs_text else (yield from decoding_as(body, encoding))
        head = yield from reading_head(text, form)
    page = _page(response, encoding, links, metas, agent, head)
    if requisites:
        from crawler.reading.parse.requisites import of_page  # noqa: PLC0415  few crawls want them

        needed = yield from of_page(text, url, encoding, form, max_links, max_link_bytes)
        page = page._replace(requisites=needed)
    if meant is None:
        return page
    from crawler.reading.parse.anchors import reading_anchors  # noqa: PLC0415  few crawls want them

    said = yield from reading_anchors(text, form, elements, max_links, meant, links)
    return page._replace(anchors=said)


def read_headers(
    response: Response,
    elements: frozenset[str],
    agent: str = "",
    fold: Callable[[str], str] | None = None,
) -> Page:
    """Return what the headers say of a document whose body isn't read.

    Browsers follow the header Refresh of any document, as they follow a redirect.
    """
    refreshes = refresh_links(response) if "refresh" in elements else []
    links, metas, _ = finish(reading("", response.url, "utf-8", frozenset(), refreshes, "", fold))
    return _page(response, "", links, metas, agent, Head())


def _page(
    response: Response,
    encoding: str,
    links: dict[str, int],
    metas: list[tuple[str, str]],
    agent: str,
    head: Head,
) -> Page:
    robots_tags = _values(response, b"x-robots-tag", _MOST_ROBOTS_TAGS)
    noindex, nofollow = page_directives(metas, robots_tags, agent)
    if nofollow:
        links = {target: flags | NOFOLLOW for target, flags in links.items()}
    if head.language is None:
        language = header_language(response.values(b"content-language"))
        head = head._replace(language=language)
    return Page(encoding, links, noindex, nofollow, head)


def refresh_links(response: Response) -> list[tuple[str, int]]:
    """Return the targets of Refresh headers, as references relative to the response's URL."""
    values = _values(response, b"refresh", _MOST_REFRESHES)
    targets = [refresh_target(value) for value in values]
    return [(target, 0) for target in targets if target]


def _values(response: Response, name: bytes, most: int | None = None) -> list[str]:
    """Return the values of a header, cut after `most` bytes in all."""
    values = []
    for value in response.raw_values(name):
        values.append(value[:most].decode("latin-1"))
        if most is not None:
            most = max(0, most - len(value))
    return values


def extract(
    text: str, url: str, elements: frozenset[str], encoding: str = "utf-8"
) -> list[tuple[str, int]]:
    """Return the distinct targets of a page's links, normalised, in document order, with flags.

    `url` is the normalised URL of the page, `elements` are those of `[extract]`, and queries are
    encoded in the page's `encoding`. References that give no http or https URL are left out, and so
    are links of the page to itself. If a target occurs several times, the flags of its kinds
    (FRAME, CANONICAL ...) are combined. It is NOFOLLOW only if every occurrence is.
    """
    return list(finish(reading(text, url, encoding, elements)).targets.items())
