"""The title and the language of pages."""

import re
from html import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from crawler.reading.parse import Form, finish
from crawler.reading.parse.head import Head, header_language, language_tag, reading_head

NS = 'xmlns="http://www.w3.org/1999/xhtml"'


def head(text: str, form: Form = Form.HTML) -> Head:
    return finish(reading_head(text, form))


@pytest.mark.parametrize(
    ("html", "title"),
    [
        ("<title>One</title><title>Two</title>", "One"),
        ("<TITLE\nclass='>'>\n A\t&amp;\r\n B&nbsp;&copy </Title ><p>x", "A & B ©"),
        ("<title><b>bold</b> &lt;i&gt;</title>", "<b>bold</b> <i>"),
        ("<body><p>late<title>Late</title>", "Late"),
        ("<title></title><title>Two</title>", None),
        ("<title> \n&nbsp;</title>", None),
        ("<p>none", None),
        # not a title: in a comment, an attribute, a script, a picture
        ("<!-- <title>no</title> --><title>yes</title>", "yes"),
        ("<meta content='<title>no</title>'><title>yes</title>", "yes"),
        ("<script>'<title>no</title>'</script><title>yes</title>", "yes"),
        ("<svg><title>no</title></svg><title>yes</title>", "yes"),
        ("<template><title>no</title></template><title>yes</title>", "yes"),
        # the title has no end, or controls that no terminal should get
        ("<title>One</titles> <p>two", "One</titles> <p>two"),
        ("<title>a\x1b[2Jb\x85c&#7;</title>", "a [2Jb c"),
        ("<title>" + "ab " * 1000 + "</title>", ("ab " * 171)[:512].rstrip()),
        ("<title>" + "é" * 1_000_000, "é" * 512),
        ("<!--" + "x" * (1 << 17) + "--><title>too late</title>", None),
        ("<noframes><title>no</title></noframes><frameset>", "no"),
    ],
)
def test_title(html: str, title: str | None) -> None:
    assert head(html).title == title


@pytest.mark.parametrize(
    ("html", "language"),
    [
        ("<html lang=de><title>x</title>", "de"),
        ("<HTML class='x' LANG='pt-BR'>", "pt-br"),
        ("<html xml:lang='fr' lang='en_US'>", "en-us"),
        ("<html xml:lang='fr' lang=''>", "fr"),
        ("<html data-lang=de><html lang=nl>", "nl"),
        ("<html lang='a sentence'>", None),
        ("<html lang>", None),
        ("<p lang=de>", None),
        ("<html lang='" + "de-" * 100_000 + "'>", None),
    ],
)
def test_language(html: str, language: str | None) -> None:
    assert head(html).language == language


@pytest.mark.parametrize(
    ("xml", "expected"),
    [
        (f"<html {NS} xml:lang='de'><title>A &amp; B</title></html>", Head("A & B", "de")),
        (f"<html {NS}><title/><body>x</body></html>", Head()),
        (f"<html {NS}><svg xmlns='http://www.w3.org/2000/svg'><title>no</title></svg></html>",
         Head()),
        ("<h:html xmlns:h='http://www.w3.org/1999/xhtml' lang='x'><h:title>y</h:title></h:html>",
         Head("y", "x")),
    ],
)  # fmt: skip
def test_xhtml(xml: str, expected: Head) -> None:
    assert head(xml, Form.XHTML) == expected


def test_the_header_counts_if_it_names_one_language() -> None:
    assert header_language(["de-AT "]) == "de-at"
    assert header_language(["de, en"]) is None
    assert header_language(["de", "en"]) is None
    assert header_language([]) is None


@given(st.text())
def test_a_language_is_a_tag_or_nothing(text: str) -> None:
    tag = language_tag(text)
    assert tag is None or (tag.isascii() and len(tag) < 80 and language_tag(tag) == tag)


PIECES = st.lists(
    st.sampled_from(
        ["<!doctype html>", "<html lang=de>", "<HTML xml:lang='fr' lang>", "<html lang=a/b>",
         "<html>", "<head>", "<meta content='x'>", "<meta a=it's>", '<meta content="<title>">',
         '<meta a"b c=">', "<link/>", "<base href = x />", "<meta =x>", "<meta '>", "<meta a='",
         "'>", '">', "<!-- a -->", "<!-->", "<!--->", "<!-- -- -->", "<!--a--!>", "<!-- - > -->",
         "<script>1</script>", "<style>", "</style>", "<script src='x'>", "</script >",
         "<title>One</title>", "<TITLE a>Two</Title >", "<title/>", "</title>",
         "<title>a<b</title>", "<title", "<svg>", "</svg>", "<", " ", "text"]
    ),
    max_size=8,
)  # fmt: skip


@given(PIECES)
def test_the_short_cut_finds_what_the_tokeniser_finds(pieces: list[str]) -> None:
    html = "".join(pieces)
    short = head(html)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("crawler.reading.parse.head._usual", lambda: re.compile(r"(?!)"))
        assert head(html) == short


@given(st.lists(st.sampled_from(["a", "<b>", "&", " ", "\n", "é", "<", "&lt", ";", "</tit"])))
def test_a_title_is_what_a_browser_shows(pieces: list[str]) -> None:
    text = "".join(pieces)
    html = f"<!doctype html><html><head><title>{text}</title></head><body>x</body></html>"
    node = LexborHTMLParser(html).css_first("title")
    assert node is not None
    assert head(html).title == (" ".join(node.text().split()) or None)
    assert head(f"<title>{escape(text)}</title>").title == (" ".join(text.split()) or None)
