"""Bytes to text and queries to bytes, as browsers do it."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.reading.parse import decode, finish
from crawler.reading.parse.encoding import decoding, encode_query
from crawler.reading.parse.links import reading
from crawler.url import MAX_LENGTH, LongUrlError


@pytest.mark.parametrize(
    ("body", "content_type", "text", "encoding"),
    [
        # A byte-order mark beats the header, and is no part of the text.
        (b"\xef\xbb\xbf\xc3\xa9", "text/html; charset=windows-1251", "é", "utf-8"),
        (b"\xff\xfea\x00", None, "a", "utf-16le"),
        (b"\xfe\xff\x00a", "text/html; charset=utf-8", "a", "utf-16be"),
        # The header beats the page.
        (b'<meta charset="utf-8">\xe9', 'text/html; charset="ISO-8859-2"', None, "iso-8859-2"),
        # Labels mean what browsers take them for.
        (b"\x80\xe9", "text/html;charset=latin1", "€é", "windows-1252"),
        (b"\x80", "text/html; charset=us-ascii", "€", "windows-1252"),
        (b"\xd0\xd0", "text/html; charset=ISO-8859-9", "ĞĞ", "windows-1254"),
        ("㐀".encode("gb18030"), "text/html; charset=gb2312", "㐀", "gbk"),
        ("①".encode("cp932"), "text/html; charset=x-sjis", "①", "shift_jis"),
        ("뷁".encode("cp949"), "text/html; charset=ks_c_5601-1987", "뷁", "euc-kr"),
        (b"\xa1", "text/html; charset=windows-874", "ก", "windows-874"),
        ("ж".encode("koi8-r"), "text/html; charset=KOI8-R", "ж", "koi8-r"),
        # A label that is none, or no encoding of the web, is passed over.
        (b"<meta charset=koi8-r>\xd6", "text/html; charset=nonsense", None, "koi8-r"),
        (b"YWJj", "text/html; charset=base64", "YWJj", "utf-8"),
        (b"a+AOk-", "text/html; charset=utf-7", "a+AOk-", "utf-8"),
        (b"a", "text/html; charset=a\0b", "a", "utf-8"),
        # meta, both forms; not in a comment; never UTF-16.
        (b"<meta content='x; charset=cp1251' http-equiv=content-type>", None, None, "windows-1251"),
        (b"<!-- <meta charset=koi8-r> --><META CHARSET = 'cp1250'/>", None, None, "windows-1250"),
        (b"<meta charset=utf-16>\xc3\xa9", None, None, "utf-8"),
        (b"x" * 3000 + b"<meta charset=koi8-r>", None, None, "koi8-r"),
        (b"x" * 70_000 + b"<meta charset=koi8-r>", None, None, "utf-8"),
        (b"<meta name=x content='charset=koi8-r'>", None, None, "utf-8"),
        (b"<meta charset=x-user-defined>", None, None, "windows-1252"),
        (b"<?xml version='1.0' encoding='koi8-r'?><html/>", None, None, "koi8-r"),
        # UTF-16 that nobody announced.
        ("<p>é".encode("utf-16-le"), None, "<p>é", "utf-16le"),
        ("<p>é".encode("utf-16-be"), "text/html", "<p>é", "utf-16be"),
        # Python and the standard differ about six characters of JIS X 0208.
        (b"\x81\x60", "text/html; charset=shift_jis", "\uff5e", "shift_jis"),
        (b"\xa1\xc1", "text/html; charset=euc-jp", "\uff5e", "euc-jp"),
        (b"\x1b$B!A\x1b(B", "text/html; charset=iso-2022-jp", "\uff5e", "iso-2022-jp"),
        # Nothing said: UTF-8 if it is valid.
        ("naïve".encode(), "text/html", "naïve", "utf-8"),
        (b"", None, "", "utf-8"),
        # Declared and wrong: marked, not raised.
        (b"a\xffb", "text/html; charset=utf-8", "a\N{REPLACEMENT CHARACTER}b", "utf-8"),
    ],
)
def test_decode(body: bytes, content_type: str | None, text: str | None, encoding: str) -> None:
    decoded, name = decode(body, content_type)
    assert name == encoding
    assert text is None or decoded == text


def test_decode_guesses_when_nothing_is_said() -> None:
    russian = "Съешь же ещё этих мягких французских булок, да выпей чаю. " * 20
    assert decode(russian.encode("windows-1251"), None) == (russian, "windows-1251")


@given(st.binary(max_size=300), st.none() | st.text(max_size=40).map("charset={}".format))
def test_decode_never_raises(body: bytes, content_type: str | None) -> None:
    text, _ = decode(b"<meta charset=" + body, content_type)
    text.encode()  # no lone surrogates, which the parser would refuse


@pytest.mark.parametrize("label", ["gbk", "shift_jis", "euc-jp", "iso-2022-jp", "utf-16be"])
def test_characters_across_slices(label: str) -> None:
    text = "a日本b" * 40_000
    body = text.encode(label)
    assert decode(body, f"text/html; charset={label}") == (text, label)
    assert sum(1 for _ in decoding(body, f"text/html; charset={label}")) == len(body) // 65536 + 1


@pytest.mark.parametrize(
    ("reference", "encoding", "encoded"),
    [
        ("/a?q=привет", "windows-1251", "/a?q=%EF%F0%E8%E2%E5%F2"),
        ("?q=日本", "shift_jis", "?q=%93%FA%96{"),
        ("?q=日本", "euc-jp", "?q=%C6%FC%CB%DC"),
        ("?q=\uff5e", "euc-jp", "?q=%A1%C1"),
        ("?q=한국", "euc-kr", "?q=%C7%D1%B1%B9"),
        ("?q=中€", "gbk", "?q=%D6%D0%80"),
        ("?q=中", "big5", "?q=%A4%A4"),
        ("?q=é", "windows-1252", "?q=%E9"),
        # What the encoding lacks; what isn't the query; what is escaped already.
        ("?q=日", "windows-1252", "?q=%26%2326085%3B"),
        ("/й", "windows-1251", "/й"),
        ("/й?q=1", "windows-1251", "/й?q=1"),
        ("?й=%41&x='", "windows-1251", "?%E9=%41&x=%27"),
        ("?a\nй", "windows-1251", "?a%E9"),
    ],
)
def test_queries_are_in_the_encoding_of_the_page(
    reference: str, encoding: str, encoded: str
) -> None:
    assert encode_query(reference, encoding) == encoded


ENCODINGS = ["windows-1251", "gbk", "gb18030", "shift_jis", "euc-jp", "iso-2022-jp", "big5"]


@given(st.text(max_size=30), st.sampled_from(ENCODINGS))
def test_any_query_can_be_encoded(text: str, encoding: str) -> None:
    encoded = encode_query("?é" + text, encoding)
    assert encoded.isascii()
    assert encode_query(encoded, encoding) == encoded


@pytest.mark.parametrize("encoding", ["gb18030", "shift_jis", "windows-1251"])
def test_a_query_that_makes_too_long_a_url_in_any_case_is_not_encoded(encoding: str) -> None:
    """Each character takes three at least. Encoding a quarter of a million took 0.3 s."""
    with pytest.raises(LongUrlError):
        encode_query("?" + "é" * (MAX_LENGTH // 3 + 1), encoding)
    assert encode_query("é" * MAX_LENGTH + "?x", encoding) == "é" * MAX_LENGTH + "?x"


def test_a_reference_whose_query_is_too_long_is_counted() -> None:
    left_out = Counter[str]()
    text = f"<a href='/?{'日' * 100_000}'><a href='/?日'>"
    page = "http://a.example/"
    links = finish(reading(text, page, "shift_jis", frozenset({"a"}), left_out=left_out))
    assert links.targets == {page + "?%93%FA": 0}
    assert left_out == {"max_url_length": 1}
