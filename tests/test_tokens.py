"""The tokeniser: what is a tag, what isn't, and that hostile pages are read in small steps."""

from html import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.reading.parse import extract
from crawler.reading.parse.elements import is_ordinary
from crawler.reading.parse.tokens import attributes_of, tags, unescape

NAMES = frozenset({"a", "base", "img"})


def found(html: str) -> list[tuple[str, str]]:
    return [tag[:2] for tag in tags(html, NAMES) if tag]


def hrefs(html: str) -> list[str]:
    return [attributes_of(text).get("href", "") for _, text in found(html)]


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
    for _, text in found(html):
        assert attributes_of(text).keys() <= {"href"}
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
    count = sum(1 for tag in tags(html, NAMES) if tag)
    assert count == {"links": 100_000, "open": 50_000, "equals": 1, "references": 1}.get(name, 0)


@pytest.mark.parametrize("name", ["nested", "links", "templates", "empty comments"])
def test_work_comes_in_steps(name: str) -> None:
    html = HOSTILE[name]
    assert sum(1 for tag in tags(html, NAMES) if not tag) >= 30


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


# --- ordinary pages go to lexbor, the others to the tokeniser, and the links are the same


@pytest.mark.parametrize(
    "text",
    [
        "<div>" * 4001,
        "<div></x>" * 4001,
        "<a " + " ".join(f"a{n}" for n in range(2000)) + ">",
        "<a " + 'x=">" b c d ' * 3 + ">" + " " * 8192,
        "<a x = '>'>" + " " * 8192,
        "x" * ((1 << 19) + 1),
    ],
)
def test_a_page_that_could_hurt_lexbor_is_not_ordinary(text: str) -> None:
    assert not is_ordinary(text, text.encode())


PIECES = [
    "x ",
    "y=1 ",
    "z='<b>' ",
    'z="<b>" ',
    "z= '\">' ",
    'z="',
    "z='",
    "'",
    '"',
    "=",
    ">",
    "<p ",
    "/>",
]


@given(st.lists(st.tuples(st.lists(st.sampled_from(PIECES), max_size=6), st.integers(1, 2000))))
def test_an_ordinary_page_has_no_tag_that_is_long(parts: list[tuple[list[str], int]]) -> None:
    text = "<p " + "".join("".join(pieces) * times for pieces, times in parts)
    if is_ordinary(text, text.encode()):
        assert all(len(tag[1]) <= 8192 for tag in tags(text, frozenset({"p"})) if tag)


def test_both_readers_find_the_same_links(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (
        "<base href=/d/><META NAME=robots CONTENT=nofollow><title><a href=no></title>"
        "<a href='x?a&amp;b'>x</a><!-- <a href=no> --><noscript><a href=y rel=nofollow></noscript>"
        "<iframe src=z></iframe><link rel=canonical href=c><script>'<a href=no>'</script>"
        "<template><a href=no></template><area href=w><a>none</a><a href>here</a>"
    )
    everything = frozenset({"a", "area", "frame", "iframe", "link", "refresh", "img"})
    assert is_ordinary(page, page.encode())
    by_lexbor = extract(page, "http://a.example/p", everything)
    monkeypatch.setattr("crawler.reading.parse.elements.is_ordinary", lambda *_: False)
    assert extract(page, "http://a.example/p", everything) == by_lexbor
    assert len(by_lexbor) == 6


FRAGMENTS = [
    "<a href=1>",
    "<a href=2>x</a>",
    "<div><template shadowrootmode=open><a href=3></template></div>",
    "<template><a href=4></template>",
    "<template shadowrootmode=x><a href=5></template>",
    "<TEMPLATE ShadowRootMode=CLOSED><a href=6><template><a href=no></template></TEMPLATE>",
    "<iframe srcdoc='&lt;a href=7>' src=8></iframe>",
    "<iframe srcdoc='<base href=/z/><a href=9>'></iframe>",
    "<iframe srcdoc='<iframe srcdoc=&quot;<a href=10>&quot;></iframe>'></iframe>",
    "<noframes><a href=11></noframes>",
    "<frameset><frame src=12></frameset>",
    "<!-- <noframes> -->",
    "<p>text</p>",
]


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=8))
def test_small_and_large_pages_are_read_alike(fragments: list[str]) -> None:
    # A frameset counts only where nothing stands before it: that only the tree knows.
    fragments.sort(key=lambda fragment: not fragment.startswith("<frameset"))
    page, names = "".join(fragments), frozenset({"a", "frame", "iframe"})
    small = extract(page, "http://a.example/p", names)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("crawler.reading.parse.elements.is_ordinary", lambda *_: False)
        large = extract(page, "http://a.example/p", names)
    if any(fragment.startswith("<frameset") for fragment in fragments):
        small = [link for link in small if "12" not in link[0]]
        large = [link for link in large if "12" not in link[0]]
        if not any(fragment.startswith("<noframes") for fragment in fragments):
            return  # the tree drops what stands behind a frameset
    assert small == large


@pytest.mark.parametrize(
    ("html", "names"),
    [
        ("<frameset><frame src=f></frameset><noframes><a href=n></noframes>", ["f", "n"]),
        ("<NOFRAMES><a href=n></NOFRAMES><frameset><frame src=f></frameset>", ["n", "f"]),
        ("<body><noframes><a href=n></noframes><a href=y>", ["y"]),
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
