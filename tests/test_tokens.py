"""HTML: what is a tag, what isn't, and that hostile pages are read in small steps.

Each test runs with both readers, the compiled scanner and the regular expressions of `tokens`.
"""

from html import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from crawler.reading.parse import extract
from crawler.reading.parse.elements import Element, elements
from crawler.reading.parse.tokens import unescape

NAMES = frozenset({"a", "base", "img"})

pytestmark = pytest.mark.usefixtures("html_reader")


def found(html: str) -> list[Element]:
    return [element for element in elements(html, NAMES) if element]


def hrefs(html: str) -> list[str]:
    return [attributes.get("href", "") for _, attributes in found(html)]


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<a href=1><A HREF='2'><a\nhref\n=\n\"3\"\n>", ["1", "2", "3"]),
        ("<a href=1/><a href=2 / ><a/href=3>", ["1/", "2", "3"]),
        ("<a href=a=b><a href=a'b\"c><a href==>", ["a=b", "a'b\"c", "="]),
        ("<a href=1 href=2><a hreff=1 href=2><a data-href=1>", ["1", "2", ""]),
        ("<img srcset=1 src=2 href-x=3 href=4>", ["4"]),
        ("<a title='>' href=1><a title=\"<a href=x>\" href=2>", ["1", "2"]),
        ("<a =href=1 href=2><a '' href=3><a b='' c=''href=4>", ["2", "3", "4"]),
        ("<a><ab href=1><a-b href=2>< a href=3></a href=4>", [""]),
        ("<a href=1\0x>", ["1\ufffdx"]),
        # not a tag: within another, in comments, declarations, raw text
        ("<p title='<a href=1>'><p title=<a href=2><a href=3>", ["3"]),
        ("<!-- <a href=1> --><a href=2><!--><a href=3><!---><a href=4>", ["2", "3", "4"]),
        ("<!-- <a href=1> --!><a href=2><!-- -- > <a href=3>", ["2"]),
        ("<!--!><a href=1>--><a href=2>", ["2"]),
        ("<!---!><a href=1>--><a href=2><!----!><a href=3>", ["2", "3"]),
        ("<!-- <!--!><a href=1><!-- <!--><a href=2>", ["1", "2"]),
        ("<!doctype a><? <a href=1> ?><a href=2></ <a href=3>><a href=4>", ["2", "4"]),
        ("<script><a href=1></script ><a href=2>", ["2"]),
        ("<style><a href=1></styles></style/><a href=2>", ["2"]),
        ("<textarea><a href=1></TextArea><title><a href=2></title><a href=3>", ["3"]),
        ("<xmp><a href=1></xmp><iframe><a href=2></iframe><noembed><a></noembed>", []),
        ("<noscript><a href=1></noscript><noframes><a href=2></noframes>", ["1"]),
        ("<script><!-- <script></script> <a href=1> --></script><a href=2>", ["2"]),
        ("<script><!-- </script><a href=1>", ["1"]),
        ("<template><a href=1><template></template><a href=2></template><a href=3>", ["3"]),
        ("</template><a href=1>", ["1"]),
        ("<plaintext><a href=1></plaintext><a href=2>", []),
        ("<script><!--><script></script><a href=1>", ["1"]),
        # in SVG and MathML these may close themselves
        ("<svg><title/><a href=1></svg><title><a href=2></title>", ["1"]),
        ("<svg/><style><a href=1></style><a href=2>", ["2"]),
        # what has no end is nothing
        ("<a href=1><a href='2", ["1"]),
        ("<a href=1><a href=2", ["1"]),
        ("<a href=1><!-- <a href=2>", ["1"]),
        ("<a href=1><script><a href=2>", ["1"]),
        ("<a href=1><", ["1"]),
        ("", []),
    ],
)
def test_tags(html: str, expected: list[str]) -> None:
    assert hrefs(html) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a&amp;b&lt;&#38;&#x26;&#X26;", "a&b<&&&"),
        ("?a=1&copy=2&copy;&copy&para", "?a=1&copy=2©©¶"),
        ("&notit;&amp=&ampx&nosuch;&", "&notit;&amp=&ampx&nosuch;&"),
        ("&NotEqualTilde;", "\u2242\u0338"),
        ("&#0;&#xD800;&#x110000;&#99999999999;&#x80;&#x81;", "\ufffd\ufffd\ufffd\ufffd€\ufffd"),
        ("&#00000000065;&#;&#x;", "A&#;&#x;"),
    ],
)
def test_character_references(value: str, text: str) -> None:
    assert unescape(value) == text


@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8")), max_size=5))
def test_what_is_quoted_comes_back(values: list[str]) -> None:
    html = "".join(f'<p id="{escape(value)}"><a href="{escape(value)}">' for value in values)
    assert hrefs(html) == values


MARKUP_PIECES = (
    """<a_|<a|href|=|'|"|>|<|/|<!--|-->|<script>|</script>|<svg>|</svg>|<template>
|</template>|<title|_|x|&amp|0|<?""".replace("_", " ")
    .replace("0", "\0")
    .split("|")
)
MARKUP = st.lists(st.sampled_from(MARKUP_PIECES), max_size=40).map("".join)


@given(MARKUP)
def test_any_markup_is_harmless(html: str) -> None:
    for _, attributes in found(html):
        assert attributes.keys() <= {"href"}
    assert hrefs("<a href=first>" + html)[0] == "first"


HOSTILE = {
    "nested": "<div>" * 1_000_000,
    "links": "<a href=x>" * 100_000,
    "open": '<a href="x>' * 100_000,
    "comments": "<!--" * 300_000,
    "empty comments": "<!---->" * 100_000,
    "dashes": "<!--" + "-" * 1_000_000,
    "angles": "<" * 1_000_000,
    "ends": "</" * 500_000,
    "scripts": "<script><!--" * 100_000,
    "templates": "<template>" * 100_000,
    "NUL": "\0" * 1_000_000,
    "spaces": "<a" + " " * 1_000_000,
    "equals": "<a b" + " =" * 500_000 + ">",
    "references": '<a href="' + "&#38;" * 100_000 + '">',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pages_take_a_time_that_grows_with_their_length(name: str) -> None:
    """Quadratic, any of them would take minutes, and the limit of the test run ends it."""
    html = HOSTILE[name]
    assert len(found(html)) == {"links": 100_000, "open": 50_000, "equals": 1, "references": 1}.get(
        name, 0
    )


@pytest.mark.parametrize("name", ["nested", "links", "templates", "empty comments"])
def test_work_comes_in_steps(name: str, html_reader: str) -> None:
    html = HOSTILE[name]
    least = 30 if html_reader == "regular expressions" else len(html) >> 17
    assert sum(1 for element in elements(html, NAMES) if not element) >= least


@pytest.mark.parametrize("tag", ["a", "p"])
def test_a_tag_may_have_many_attributes(tag: str) -> None:
    html = f"<{tag} " + " ".join(f"b{number}='>'" for number in range(100_000)) + " href=x>"
    assert hrefs(html + "<a href=y>") == (["x", "y"] if tag == "a" else ["y"])
    assert hrefs("<a" + " b" * 300_001 + "><a href=y>") == []


def test_long_values_and_long_comments_end_where_they_end() -> None:
    long = "x" * 1_000_000
    html = f"<img src='data:{long}'><!--{long}--><p title='{long}<a href=1>'><a href='{long}'>"
    assert hrefs(html) == ["", ""]  # nor has any link so long a URL
    assert hrefs(html.replace(long, long[:100_000])) == ["", long[:100_000]]


def test_a_tree_has_the_same_links() -> None:
    page = (
        "<base href=/d/><META NAME=robots CONTENT=nofollow><title><a href=no></title>"
        "<a href='x?a&amp;b'>x</a><!-- <a href=no> -->"
        "<noscript><a href=y rel=nofollow></a></noscript>"
        "<iframe src=z></iframe><link rel=canonical href=c><script>'<a href=no>'</script>"
        "<template><a href=no></template><area href=w><a>no</a><a href>x</a>"
    )
    names = ["a", "area", "base", "iframe", "link", "meta"]
    in_tree = [
        (node.tag, {name: value or "" for name, value in node.attributes.items()})
        for node in LexborHTMLParser(page).css(",".join(names))
    ]
    assert list(elements(page, frozenset(names))) == in_tree
    everything = frozenset({"a", "area", "frame", "iframe", "link", "refresh", "img"})
    assert len(extract(page, "http://a.example/p", everything)) == 6


@pytest.mark.parametrize(
    ("html", "names"),
    [
        ("<frameset><frame src=f></frameset><noframes><a href=n></noframes>", ["f", "n"]),
        ("<NOFRAMES><a href=n></NOFRAMES><frameset><frame src=f></frameset>", ["n", "f"]),
        ("<body><noframes><a href=n></noframes><a href=y>", ["y"]),
        ("<frameset><NoFrames><a href=n></noframes><frameset><a href=y>", ["n", "y"]),
        ("<div><template shadowrootmode=open><a href=s></template></div>", ["s"]),
        ("<TEMPLATE ShadowRootMode=CLOSED><a href=s><template><a href=no></template>", ["s"]),
        ("<template shadowrootmode=x><a href=no></template>", []),
        ("<iframe srcdoc='<a href=x>' src=f></iframe>", ["f", "x"]),
        ("<base href=/><iframe srcdoc='<base href=/d/><a href=x>'></iframe>", ["x"]),
        ("<iframe srcdoc='<meta name=robots content=none><a href=x>'></iframe>", ["x"]),
    ],
)
def test_frames_and_srcdoc(html: str, names: list[str]) -> None:
    found = extract(html, "http://a.example/d/p", frozenset({"a", "frame", "iframe"}))
    assert [target.rpartition("/")[2] for target, _ in found] == names


def test_a_srcdoc_of_many_references_is_read_in_steps() -> None:
    page = "<iframe srcdoc='" + "&lt;a href=x&gt;" * 30_000 + "&lt;a href=y&gt;'></iframe>"
    found = extract(page, "http://a.example/", frozenset({"a", "iframe"}))
    assert [target for target, _ in found] == ["http://a.example/x", "http://a.example/y"]
