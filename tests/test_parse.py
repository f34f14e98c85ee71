"""Bytes to text to links: values by hand, and the shortcut for plain references against ada."""

from html import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.parse import decode, extract, is_html
from crawler.ports import ALTERNATE, CANONICAL, FRAME, NEXT, NOFOLLOW, PREV
from crawler.url import BadUrlError, normalise

ALL = frozenset({"a", "area", "frame", "iframe", "link"})
PAGE = "http://a.example/dir/page.html"


def links(html: str, url: str = PAGE, elements: frozenset[str] = ALL) -> list[tuple[str, int]]:
    return extract(html, url, elements)


def targets(html: str, url: str = PAGE) -> list[str]:
    return [target for target, _ in links(html, url)]


# --- is_html


@pytest.mark.parametrize(
    ("content_type", "body", "answer"),
    [
        ("text/html", b"", True),
        ("Text/HTML ; charset=utf-8", b"", True),
        ("application/xhtml+xml", b"", True),
        ("text/plain", b"<!DOCTYPE html>", False),
        ("application/pdf", b"%PDF", False),
        (None, b"\xef\xbb\xbf\n <!doctype HTML>", True),
        (None, b"<p>hello", True),
        ("", b"<!-- x --><html>", True),
        ("*/*", b"<body class=x>", True),
        (None, b"<progress>", False),
        (None, b"plain <p>", False),
        (None, b"", False),
        (None, b" " * 5000 + b"<html>", False),
    ],
)
def test_is_html(content_type: str | None, body: bytes, answer: bool) -> None:
    assert is_html(content_type, body) is answer


# --- decode


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
        (b"<meta content='text/html; charset=windows-1251' x>", None, None, "windows-1251"),
        (b"<!-- <meta charset=koi8-r> --><META CHARSET = 'cp1250'/>", None, None, "windows-1250"),
        (b"<meta charset=utf-16>\xc3\xa9", None, None, "utf-8"),
        (b"x" * 3000 + b"<meta charset=koi8-r>", None, None, "koi8-r"),
        (b"x" * 5000 + b"<meta charset=koi8-r>", None, None, "utf-8"),
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


# --- extract


def test_sources_in_document_order() -> None:
    html = """
      <link rel="Canonical" href="/c"><link rel="next" href="n"><link rel=prev href=p>
      <link rel="alternate" hreflang=de href="/de"><link rel="alternate stylesheet" href="x.css">
      <link rel="icon" href="i.png"><script src="s.js"></script>
      <a href="one">1</a><img src="i.png"><map><area href="../two"></map>
      <iframe src="/three" href="/no"></iframe><a name="nothing">x</a><a href>y</a>
    """
    assert links(html) == [
        ("http://a.example/c", CANONICAL),
        ("http://a.example/dir/n", NEXT),
        ("http://a.example/dir/p", PREV),
        ("http://a.example/de", ALTERNATE),
        ("http://a.example/dir/one", 0),
        ("http://a.example/two", 0),
        ("http://a.example/three", FRAME),
    ]


def test_frames() -> None:
    html = '<html><frameset><frame src="left"><frame></frameset></html>'
    assert links(html) == [("http://a.example/dir/left", FRAME)]


def test_only_the_wanted_elements() -> None:
    html = '<base href="/b/"><a href=1></a><iframe src=2></iframe><link rel=next href=3>'
    assert links(html, elements=frozenset({"a"})) == [("http://a.example/b/1", 0)]
    assert links(html, elements=frozenset({"iframe"})) == [("http://a.example/b/2", FRAME)]
    assert links(html, elements=frozenset()) == []


def test_nofollow_holds_only_if_every_occurrence_says_so() -> None:
    html = """
      <a rel="nofollow" href=1></a><a href="./1"></a>
      <a rel="noopener NoFollow" href=2></a><a href="2#x" rel=nofollow></a>
      <a rel="ugc sponsored" href=3></a><a rel=nofollow href=4></a><iframe src="4"></iframe>
    """
    assert links(html) == [
        ("http://a.example/dir/1", 0),
        ("http://a.example/dir/2", NOFOLLOW),
        ("http://a.example/dir/3", 0),
        ("http://a.example/dir/4", FRAME),
    ]


def test_one_target_is_one_link_with_all_its_kinds() -> None:
    html = '<link rel=next href=n><link rel="prev" href="./n"><a href="n#top"></a>'
    assert links(html) == [("http://a.example/dir/n", NEXT | PREV)]


def test_links_to_the_page_itself_are_left_out() -> None:
    html = '<a href="#top"></a><a href=""></a><a href="page.html"></a><a href="./page.html#x"></a>'
    assert links(html) == []
    assert targets('<a href=".">up</a>') == ["http://a.example/dir/"]


def test_what_is_no_web_page_is_left_out() -> None:
    other_scheme = (
        "javascript:void(0)| JavaScript:x|java\nscript:x|mailto:a@b.c|tel:+1|ftp://f.org/"
    )
    no_host = "http://|http:///|http://a b/|https://[::1/|//:80/"
    for reference in f"{other_scheme}|data:,x|{no_host}".split("|"):
        assert targets(f'<a href="{reference}"></a><a href="/ok"></a>') == ["http://a.example/ok"]


@pytest.mark.parametrize(
    ("reference", "target"),
    [
        (" \n x \t", "http://a.example/dir/x"),
        ("a\nb", "http://a.example/dir/ab"),
        ("//B.example", "http://b.example/"),
        ("HTTPS://b.example:443/?", "https://b.example/"),
        ("?q=ü", "http://a.example/dir/page.html?q=%C3%BC"),
        ("../../../x", "http://a.example/x"),
        ("..", "http://a.example/"),
        ("a/../b", "http://a.example/dir/b"),
        ("x&amp;y", "http://a.example/dir/x&y"),
        ("\N{NO-BREAK SPACE}x", "http://a.example/dir/%C2%A0x"),
    ],
)
def test_references(reference: str, target: str) -> None:
    assert targets(f'<a href="{reference}"></a>') == [target]


@pytest.mark.parametrize(
    ("bases", "target"),
    [
        ('<base href="/x/">', "http://a.example/x/l"),
        ('<base href="sub/">', "http://a.example/dir/sub/l"),
        ('<base target=_top><base href="/x/"><base href="/y/">', "http://a.example/x/l"),
        ('<base href=""><base href="/y/">', "http://a.example/dir/l"),
        ('<base href="data:,x">', "http://a.example/dir/l"),
        ('<base href="//b.example?q=/z/">', "http://b.example/l"),
        ("<p>" * 2000 + '<base href="/late/">', "http://a.example/late/l"),
    ],
)
def test_base(bases: str, target: str) -> None:
    assert targets(f'<a href="l"></a>{bases}') == [target]


def test_with_a_base_a_bare_fragment_leads_to_the_base() -> None:
    assert targets('<base href="/x/"><a href="#top"></a>') == ["http://a.example/x/"]


def test_markup_that_isnt_there() -> None:
    html = '<!-- <a href=1></a> --><script>"<a href=2>"</script><title><a href=3></title>'
    assert links(html + '<noscript><a href="4"></a></noscript>') == [("http://a.example/dir/4", 0)]


def test_a_base_of_many_folders_takes_no_more_than_its_length() -> None:
    base = "http://a.example/" + "d/" * 100_000
    assert targets(f'<base href="{base}"><a href="../../x"></a>') == [base[:-4] + "x"]
    assert targets(f'<base href="{base}"><a href="{"../" * 20}x"></a>') == [base[:-40] + "x"]


def pieces(characters: str) -> st.SearchStrategy[str]:
    alphabet = st.sampled_from(["..", "../", "./", "/", "//", ".", *characters])
    return st.lists(alphabet, max_size=12).map("".join)


@given(pieces("ab-_~%2e?#:@ \\é|^;=&\t'"), pieces("az~?%@"))
def test_extract_agrees_with_normalise(reference: str, folder: str) -> None:
    page = normalise(f"http://a.example/{folder}")
    try:
        expected = [normalise(reference.strip(" \t"), page)]
    except BadUrlError:
        expected = []
    html = f'<a href="{escape(reference)}"></a>'
    assert targets(html, page) == [target for target in expected if target != page]
