"""What a response holds: several and odd Content-Type lines, and sniffing as browsers do it."""

import pytest
from fetches import response
from hypothesis import given
from hypothesis import strategies as st

from crawler.reading.media import charset_source, media_type, parse_type, supplied_type, types_of
from crawler.reading.parse import MediaTypes

XHTML = b'<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><body/></html>'


@pytest.mark.parametrize(
    ("value", "essence", "charset"),
    [
        ("text/html", "text/html", None),
        (" Text/HTML ; Charset=UTF-8 ", "text/html", "UTF-8"),
        ('text/html;charset="a\\"b"; charset=c', "text/html", 'a"b'),
        ("text/html; x; charset=; charset=b", "text/html", "b"),
        ("text/html;x=y,text/plain;charset=u", "text/plain", "u"),
        ("text/html;charset=a, text/html", "text/html", "a"),
        ("text/html;charset=a, text/plain, text/html", "text/html", None),
        ('text/html;x=",text/plain', "text/html", None),
        ("*/*, text/html", "text/html", None),
        ("text/html, */*", "text/html", None),
        ("text/html,", "text/html", None),
        (",, text/html, html", "text/html", None),
    ],
)
def test_types_that_count(value: str, essence: str, charset: str | None) -> None:
    assert supplied_type(value) == (essence, charset)


@pytest.mark.parametrize("value", ["", "html", "text/", "/html", "text html", "text/ht ml", "*/*"])
def test_what_is_no_type_says_nothing(value: str) -> None:
    assert supplied_type(value) is None
    assert media_type(value, b"<html>") == "text/html"


@pytest.mark.parametrize(
    ("content_type", "body", "media"),
    [
        (None, b"<!-- x", "text/html"),
        (None, b"\n <BODY>", "text/html"),
        (None, b"<bodyx>", "text/plain"),
        (None, "<html>".encode("utf-16"), "text/html"),
        (None, XHTML, "application/xhtml+xml"),
        (None, b"<?xml version='1.0'?><x/>", "text/xml"),
        (None, b"%PDF-1", "application/pdf"),
        (None, b"\x89PNG\r\n\x1a\n", "image/png"),
        (None, b"RIFF\n\n\n\nWEBPVP", "image/webp"),
        (None, b"PK\3\4", "application/zip"),
        (None, b"MThd\0\0\0\6", "audio/midi"),
        (None, b"Rar!\x1a\7\0", "application/x-rar-compressed"),
        (None, b"\0\0\1\0", "image/x-icon"),
        (None, b"", "text/plain"),
        (None, b"words", "text/plain"),
        (None, b"\0words", "application/octet-stream"),
        ("unknown/unknown", b"<p>", "text/html"),
        ("application/unknown", b"GIF89a", "image/gif"),
        ("text/plain", b"<html>", "text/plain"),
        ("text/plain", b"\0", "application/octet-stream"),
        ("text/plain; charset=UTF-8", b"\1", "application/octet-stream"),
        ("text/plain; charset=utf-8", b"\1", "text/plain"),
        ("text/plain", b"\xef\xbb\xbf\0", "text/plain"),
        ("image/png", b"GIF89a", "image/gif"),
        ("image/png", b"<html>", "image/png"),
        ("image/svg+xml", b"GIF89a", "image/svg+xml"),
        ("application/xml", XHTML, "application/xhtml+xml"),
        ("text/xml; charset=utf-8", XHTML.decode().encode("utf-16"), "application/xhtml+xml"),
        ("text/xml", b"<x/>", "text/xml"),
        ("text/xml", b"<!-- <rss> --><feed xmlns='x'>", "application/atom+xml"),
        ("application/xml", b"<rss version='2.0'>", "application/rss+xml"),
        ("application/xml", b"<urlset xmlns:x='http://www.w3.org/1999/xhtml'>", "application/xml"),
        ("application/vnd.x+xml", XHTML, "application/vnd.x+xml"),
        ("text/html", XHTML, "text/html"),
        ("text/html", b"<?xml version='1.0'?>\n<!-- x --><rss>", "application/rss+xml"),
        ("text/html", b"<p><rss>", "text/html"),
    ],
)
def test_sniffing(content_type: str | None, body: bytes, media: str) -> None:
    assert media_type(content_type, body) == media


def test_nosniff_keeps_browsers_from_running_what_has_no_type() -> None:
    assert media_type(None, b"<html>", nosniff=True) == "text/plain"
    assert media_type("text/plain", b"\0", nosniff=True) == "text/plain"
    headers = [(b"X-Content-Type-Options", b"NoSniff")]
    assert types_of(response("http://a.example/", b"<p>", headers=headers)) == ("text/plain", None)


def test_several_lines_are_read_together() -> None:
    headers = [(b"Content-Type", b"text/plain"), (b"content-type", b"text/html; charset=koi8-r")]
    answer = response("http://a.example/", b"", headers=headers)
    assert types_of(answer) == ("text/html", "text/html")
    assert charset_source(answer.content_type) == 'charset="koi8-r"'


@given(st.none() | st.text(max_size=60), st.binary(max_size=60), st.booleans())
def test_whatever_the_header_says_the_document_is_stored_by_default(
    content_type: str | None, body: bytes, nosniff: bool
) -> None:
    media = media_type(content_type, body, nosniff=nosniff)
    assert parse_type(media) == (media, None)
    assert MediaTypes(["*/*"]).hold(media, "http://a.example/")


@pytest.mark.parametrize("piece", [b"<!---->", b"<!--", b"<?x", b"<!x", b" ", b"<!x[", b"-"])
def test_a_long_start_takes_a_time_that_grows_with_its_length(piece: bytes) -> None:
    for content_type in (None, "text/html", "text/xml"):
        media_type(content_type, piece * 100_000)


def test_a_choice_means_the_type_in_the_header_too() -> None:
    assert MediaTypes(["application/xml"]).hold(
        "application/xhtml+xml", "http://a/", "application/xml"
    )
    assert not MediaTypes(["*/*", "!text/xml"]).hold(
        "application/xhtml+xml", "http://a/", "text/xml"
    )
