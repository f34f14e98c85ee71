"""What headers and meta elements say, and which documents are meant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.ports import ALTERNATE, CANONICAL, NEXT, NOFOLLOW, PREV
from crawler.reading.parse import MediaTypes, media_type, page_directives
from crawler.reading.parse.headers import header_links


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("<a>; rel=next", [("a", NEXT)]),
        ('<a>;REL="Prev Next"; title=x', [("a", PREV | NEXT)]),
        ("<a>; rel=next nofollow", [("a", NEXT)]),
        ('<a>; rel="next nofollow"', [("a", NEXT | NOFOLLOW)]),
        ("<a,b>; rel=next, ,<c>;rel=canonical", [("a,b", NEXT), ("c", CANONICAL)]),
        ('<a>; title="x, <y>; rel=prev \\" z"; rel=alternate', [("a", ALTERNATE)]),
        ("<a>; rel=next; rel=prev", [("a", NEXT)]),
        ("<a>; rel=next; anchor=#x", []),
        ("<a>; rel=preload, <b>", []),
        ('<a>; title="open, <b>; rel=next', []),
        ("a; rel=next", []),
        ("<a; rel=next", []),
        ("", []),
    ],
)
def test_link_header(value: str, found: list[tuple[str, int]]) -> None:
    assert header_links([value]) == found


NO, YES = False, True


@pytest.mark.parametrize(
    ("metas", "headers", "expected"),
    [
        ([], [], (NO, NO)),
        ([("robots", "noindex, nofollow")], [], (YES, YES)),
        ([("ROBOTS", " NONE ")], [], (YES, YES)),
        ([("robots", "index,follow")], [], (NO, NO)),
        ([("otherbot", "none")], [], (NO, NO)),
        ([("ABC-crawler", "nofollow"), ("robots", "noindex")], [], (YES, YES)),
        ([("description", "noindex")], [], (NO, NO)),
        ([], ["noindex"], (YES, NO)),
        ([], ["noarchive", "Nofollow"], (NO, YES)),
        ([], ["abc-crawler: none"], (YES, YES)),
        ([], ["otherbot: noindex, nofollow"], (NO, NO)),
        ([], ["otherbot: noindex, abc-crawler: nofollow"], (NO, YES)),
        ([], ["unavailable_after: 25 Jun 2030 15:00:00 PST, noindex"], (YES, NO)),
        ([], ["max-snippet:20, nofollow"], (NO, YES)),
        ([("robots", "noindex nofollow")], [], (YES, YES)),
        ([("robots", "noindex; nofollow")], [], (YES, YES)),
        ([("robots", "noindex|nofollow")], [], (YES, YES)),
        ([("robots", "max-image-preview:none, index")], [], (NO, NO)),
        ([], ["noindex; nofollow"], (YES, YES)),
        ([], ["max-image-preview: none"], (NO, NO)),
        ([], ["max-image-preview: large; noindex"], (YES, NO)),
        ([], ["unavailable_after: Mon, 01 Jan 2030 15:00:00 GMT, noindex"], (YES, NO)),
        ([], ["unavailable_after: Monday, 01-Jan-30 15:00:00 UTC; nofollow"], (NO, YES)),
        ([], ["unavailable_after: 2030-01-01T15:00:00+01:00 noindex"], (YES, NO)),
        ([], ["otherbot: unavailable_after: Mon, 01 Jan 2030 15:00:00 GMT, noindex"], (NO, NO)),
        ([], ["otherbot: noindex abc-crawler/1.0: nofollow"], (NO, YES)),
        ([], ["*: noindex"], (YES, NO)),
        ([], ["noindex: nofollow"], (YES, YES)),
        ([], ["otherbot: noindex: nofollow"], (NO, NO)),
        ([("robots", "noindex\uff0cnofollow")], [], (YES, YES)),
    ],
)
def test_directives(
    metas: list[tuple[str, str]], headers: list[str], expected: tuple[bool, bool]
) -> None:
    assert page_directives(metas, headers, "abc-crawler") == expected


@given(st.text())
def test_any_header_is_harmless(value: str) -> None:
    header_links([value])
    page_directives([(value, value)], [value], "abc-crawler")


@pytest.mark.parametrize("value", ["<a>; rel=next, " * 50_000, '<a>;t="' * 50_000, "<" * 100_000])
def test_long_headers_take_a_time_that_grows_with_their_length(value: str) -> None:
    assert len(header_links([value])) in {0, 50_000}


def test_media_types() -> None:
    assert media_type("Text/HTML; charset=x", b"") == "text/html"
    assert media_type(None, b"<html>") == "text/html"
    assert media_type(None, b"%PDF-1.7") == "application/pdf"
    assert media_type(None, b"\x00PDF") == "application/octet-stream"


@pytest.mark.parametrize(
    ("patterns", "media", "url", "held"),
    [
        (["text/html"], "text/html", "http://a.example/", True),
        (["text/html"], "text/plain", "http://a.example/x.html", False),
        (["*/*"], "application/pdf", "http://a.example/", True),
        (["text/*", ".PDF"], "application/x-pdf", "http://a.example/a.pdf?x.zip", True),
        (["*/*", "!image/*"], "image/png", "http://a.example/", False),
        (["*/*", "!.zip"], "text/html", "http://a.example/a.ZIP", False),
        (["*/*", "!.zip"], "text/html", "http://a.example/a.zip/b?c.zip", True),
        ([], "text/html", "http://a.example/", False),
    ],
)
def test_kinds(patterns: list[str], media: str, url: str, held: bool) -> None:
    assert MediaTypes(patterns).hold(media, url) is held
