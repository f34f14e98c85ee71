"""Labels of encodings: all of the standard's, all of Python's names, and random ones, in every
place where a server may put one."""

import encodings.aliases
import random
from itertools import chain

import pytest
import webencodings.labels
from hypothesis import given
from hypothesis import strategies as st

from crawler.ports import Response
from crawler.reading.encodings import decoding, encode, find_encoding
from crawler.reading.parse import MediaTypes, finish, media_type, read
from crawler.reading.parse.encoding import encode_query
from crawler.reading.robots import Rules
from crawler.reading.sitemaps import entries

STANDARD = sorted(webencodings.labels.LABELS)
PYTHON = sorted({*encodings.aliases.aliases, *encodings.aliases.aliases.values()})
PYTHON += ["idna", "undefined", "utf-7", "unicode_escape", "raw_unicode_escape", "utf-8-sig"]
PYTHON += ["mbcs", "oem", "punycode", "string_escape", "__init__", "aliases", "..", "os.path"]
TORTURE = bytes(range(256)) * 3 + "\ufeffд日\U0001f600".encode("utf-16") + b"&#1;\x1b$B\x1b(J~}"
LINK = b'<a href="/x?q=\xc3\xa9\xe9\xff&y=1">x</a>'
ELEMENTS = frozenset({"a", "link"})


def page(body: bytes, content_type: str = "text/html") -> Response:
    headers = [(b"Content-Type", content_type.encode("latin-1"))]
    return Response("http://a.example/", 0, 0, None, b"", "1.1", 200, "OK", headers, body, body)


def places(label: str) -> list[Response]:
    """A page with the label in each place of its own."""
    written = label.encode("latin-1", "replace")
    http_equiv = b'<meta http-equiv="Content-Type" content="text/html; charset=%b">' % written
    bodies = [
        b'<meta charset="%b">' % written,
        http_equiv,
        b'<?xml version="1.0" encoding="%b"?>' % written,
    ]
    marks = [b"", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"]
    pages = [page(mark + body + LINK + TORTURE) for body in bodies for mark in marks]
    pages += [page(mark + LINK + TORTURE, f"text/html; charset={label}") for mark in marks]
    return [*pages, page(LINK, f'application/xhtml+xml;charset="{label}"; x=y')]


def check(label: str) -> None:
    for response in places(label):
        found = finish(read(response, ELEMENTS))
        assert find_encoding(found.encoding) == found.encoding
        media = media_type(response.content_type, response.body)
        MediaTypes(["*/*"]).hold(media, response.url)
    sitemap = b'<?xml version="1.0" encoding="%b"?>' % label.encode("latin-1", "replace")
    sitemap += b"<urlset><url><loc>/x</loc></url><url><loc>" + TORTURE + b"</loc></url></urlset>"
    for mark in (b"", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"):
        list(entries(mark + sitemap, "http://a.example/s.xml"))
    Rules.parse(b"# charset=%b\nDisallow: /%b\n" % (b"x", label.encode("utf-8")), "bot")


@pytest.mark.parametrize("label", STANDARD)
def test_each_label_of_the_standard_means_an_encoding(label: str) -> None:
    name = find_encoding(label)
    assert name is not None
    assert find_encoding(f" {label.upper()}\n") == name
    text = finish(decoding(TORTURE, name))
    text.encode()  # no lone surrogates
    assert text
    assert isinstance(encode("aé日", name, "replace"), bytes)
    assert encode_query("?q=aé日€", name).isascii()
    check(label)


@pytest.mark.parametrize("label", PYTHON)
def test_a_name_that_only_python_knows_is_ignored(label: str) -> None:
    if find_encoding(label) is None:
        sitemap = b'<?xml version="1.0" encoding="%b"?>' % label.encode()
        sitemap += b"<urlset><url><loc>/x</loc></url></urlset>"
        found = [each.url for each in entries(sitemap, "http://a.example/s.xml") if each]
        assert found == ["http://a.example/x"]
        for response in places(label)[-2:]:
            body = page(LINK, response.content_type or "")
            assert finish(read(body, ELEMENTS)).links
    check(label)


@given(st.text(max_size=30))
def test_any_label_at_all(label: str) -> None:
    check(label.encode("latin-1", "ignore").decode("latin-1"))


@given(st.binary(max_size=400), st.sampled_from(STANDARD))
def test_any_bytes_in_any_encoding(body: bytes, label: str) -> None:
    name = find_encoding(label)
    assert name is not None
    finish(decoding(body, name)).encode()
    finish(read(page(body, f"text/html; charset={label}"), ELEMENTS))


def test_many_random_bytes_in_any_encoding() -> None:
    dice = random.Random(3)
    for name in sorted(set(webencodings.labels.LABELS.values())):
        finish(decoding(dice.randbytes(200_000), name)).encode()


def test_replacement_reads_nothing() -> None:
    for label in ("replacement", "iso-2022-kr", "hz-gb-2312"):
        response = page(b'<a href="/x">x</a>', f"text/html; charset={label}")
        assert finish(read(response, ELEMENTS)).links == {}
    assert finish(decoding(b"", "replacement")) == ""
    assert finish(decoding(b"ab", "replacement")) == "\ufffd"


def test_sitemaps_in_utf_16_with_and_without_a_mark() -> None:
    text = "<urlset><url><loc>http://a.example/é</loc></url></urlset>"
    lines = "http://a.example/é\n"
    for codec, written in chain.from_iterable(
        [(codec, text), (codec, lines)] for codec in ("utf-16", "utf-16-le", "utf-16-be")
    ):
        found = [e.url for e in entries(written.encode(codec), "http://a.example/s.xml") if e]
        assert found == ["http://a.example/%C3%A9"], codec


def test_a_byte_order_mark_beats_the_declaration_of_a_sitemap() -> None:
    text = '<?xml version="1.0" encoding="koi8-r"?><urlset><url><loc>/é</loc></url></urlset>'
    found = [e.url for e in entries(b"\xef\xbb\xbf" + text.encode(), "http://a.example/s") if e]
    assert found == ["http://a.example/%C3%A9"]
