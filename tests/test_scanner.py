"""The compiled scanner of HTML: built from the present source, and equal to `tokens`."""

import hashlib
import shutil
import sysconfig
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.ports import NOFOLLOW, Response
from crawler.reading.parse import elements, finish, read
from crawler.reading.parse.head import reading_head
from crawler.reading.parse.links import reading
from crawler.reading.parse.tokens import ATTRIBUTE_NAMES, attributes_of, tags

SOURCE = Path(elements.__file__).with_name("scanner.pyx")
HEADER = Path(sysconfig.get_paths()["include"], "Python.h")
NAMES = frozenset(
    {"a", "area", "base", "frame", "html", "iframe", "img", "link", "meta", "script", "title"}
)
needs_scanner = pytest.mark.skipif(
    elements.Scanner is None, reason="the scanner isn't compiled, and nothing here can compile it"
)


def can_compile() -> bool:
    return shutil.which("gcc") is not None and HEADER.exists()


def test_the_scanner_is_built_from_the_present_source_where_there_is_a_compiler() -> None:
    if elements.Scanner is None:
        assert not can_compile(), "run `python hatch_build.py` (README.md)"
        pytest.skip("the scanner isn't compiled, and nothing here can compile it")
    from crawler.reading.parse.scanner import SOURCE as BUILT

    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()
    assert digest == BUILT, "scanner.pyx has changed: run `python hatch_build.py`"


def scanned(html: bytes, names: frozenset[str] = NAMES) -> list[elements.Element]:
    from crawler.reading.parse.scanner import Scanner

    return [element for element in Scanner(html, names) if element]


def read_by_tokens(html: str, names: frozenset[str] = NAMES) -> list[elements.Element]:
    return [(tag[0], attributes_of(tag[1])) for tag in tags(html, names) if tag]


def in_any_case(names: list[str]) -> st.SearchStrategy[str]:
    return st.sampled_from([*names, *map(str.upper, names), *map(str.title, names)])


TAG_NAMES = in_any_case(
    [*sorted(NAMES), "div", "template", "svg", "math", "style", "textarea", "xmp", "noembed",
     "noframes", "frameset", "plaintext", "noscript", "aa", "x-a", "scripts", "h\xe9"]
)  # fmt: skip
VALUES = st.sampled_from(
    ["x", "/", "#f", "x#f", "a=b", "&amp;", "&#x26;", "&copy", "\0", "\xe9", "\u20ac", "open",
     "nofollow", "robots", " Robots ", "refresh", "0;url=x", ""]
)  # fmt: skip
QUOTES = st.sampled_from(["{}", "'{}'", '"{}"', "'{}", '"{}'])
EQUALS = st.sampled_from(["=", " = ", "\n=", "", "=="])
GAPS = st.sampled_from([" ", "\n", "/", " / ", "\f", "", "\x0b"])
ATTRIBUTES = st.builds(
    "{}{}{}{}".format,
    GAPS,
    in_any_case([*ATTRIBUTE_NAMES, "id", "hrefs", "=href", "lang"]),
    EQUALS,
    st.builds(str.format, QUOTES, VALUES),
)
TAGS = st.builds(
    "<{}{}{}{}{}".format,
    st.sampled_from(["", "", "", "/"]),
    TAG_NAMES,
    st.lists(ATTRIBUTES, max_size=4).map("".join),
    GAPS,
    st.sampled_from([">", ">", ">", ">", "/>", "", "<"]),
)
LOOSE = st.sampled_from(
    ["<!--", "-->", "--!>", "<!-->", "<!--->", "--", "-", "!", "<!", "<!doctype html>", "<?", "</",
     "</>", "</ ", "<", ">", "<script>", "</script>", "</script", "<script ", "'", '"', "x",
     "\xe9", "\u20ac", "\0", "<![CDATA[", "]]>", "<template shadowrootmode=open>", "</template>",
     "<noframes>", "</noframes>", "<frameset>", "<svg>", "</svg>", "<svg/>"]
)  # fmt: skip
PAGES = st.lists(st.one_of(TAGS, LOOSE), max_size=30).map("".join)


@needs_scanner
@settings(max_examples=300)
@given(PAGES)
def test_the_scanner_finds_what_tokens_finds(html: str) -> None:
    assert scanned(html.encode()) == read_by_tokens(html)


@needs_scanner
@given(st.lists(st.one_of(PAGES.map(str.encode), st.binary(max_size=3)), max_size=8).map(b"".join))
def test_invalid_bytes_are_read_as_they_are_decoded(html: bytes) -> None:
    assert scanned(html) == read_by_tokens(html.decode("utf-8", "replace"))


@needs_scanner
@given(PAGES)
def test_both_readers_give_the_same_links_and_counts(html: str) -> None:
    found = []
    for scanner in (elements.Scanner, None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(elements, "Scanner", scanner)
            left_out: Counter[str] = Counter()
            names = frozenset({"a", "area", "link", "frame", "iframe", "img", "refresh"})
            links = finish(
                reading(
                    html,
                    "http://a.example/d/p",
                    "utf-8",
                    names,
                    agent="X",
                    max_links=3,
                    left_out=left_out,
                )
            )
            found.append((links, list(links.targets), left_out))
    assert found[0] == found[1]


@needs_scanner
@settings(max_examples=200)
@given(
    st.sampled_from([b"", b"\xef\xbb\xbf", b"<html lang=de>", b"<html lang=\xff>"]),
    st.one_of(st.just(0), st.integers(16_290, 16_400)),
    st.sampled_from([b"x", "\u20ac".encode(), b"\xff", b"<b>"]),
    st.sampled_from([b"<title>", b"<svg><title>s</title></svg><title>", b""]),
    st.lists(st.one_of(PAGES.map(str.encode), st.binary(max_size=3)), max_size=3).map(b"".join),
)
def test_a_page_that_is_not_decoded_reads_as_its_text_does(
    start: bytes, padding: int, filling: bytes, title: bytes, rest: bytes
) -> None:
    """The beginning that is decoded for the head ends at each place in and near the title."""
    body = start + filling * (padding // len(filling)) + title + "Gr\xfc\xdfe &amp; \u20ac".encode()
    body += b"</title><a href=x\xe2>" + rest
    url = "http://a.example/d/p"
    response = Response(url, 0, 0, None, b"", "1.1", 200, "OK", (), body, body)
    found = []
    for scanner in (elements.Scanner, None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(elements, "Scanner", scanner)
            page = finish(read(response, frozenset({"a", "link", "refresh"})))
            found.append((page, list(page.links)))
    assert found[0] == found[1]


HEADS = st.one_of(
    TAGS,
    LOOSE,
    st.sampled_from(
        ["<html lang=de>", "<html xml:lang='&#100;e'>", "<html><html lang=fr>", "<title>a&amp;b",
         "<title>\xe9</title>", "<TITLE/>x</Title >", "</title>", "</svg>", "</noframes>",
         "</html>"]
    ),
)  # fmt: skip


@needs_scanner
@settings(max_examples=300)
@given(st.lists(HEADS, max_size=12).map("".join), st.binary(max_size=2))
def test_the_scanner_finds_the_title_and_the_language(html: str, invalid: bytes) -> None:
    body = html.encode().replace(b"x", invalid)
    text = body.decode("utf-8", "replace")
    page = finish(reading(text, "http://a.example/", "utf-8", frozenset({"a"}), utf8=body))
    assert page.head in {None, finish(reading_head(text, elements.Form.HTML))}


@needs_scanner
@pytest.mark.parametrize(
    ("html", "is_usual"),
    [
        ("<!doctype html><html lang=en><meta charset=utf-8><title>x</title><html>", True),
        ("<title></title>", True),
        ("<title>x", False),
        ("<html><html><title>x</title>", False),
        ("<title>x</title><frameset>", False),
        (f"<html x={'x' * 1024}><title>x</title>", False),
        (f"<title>{'x' * 4097}</title>", False),
        (f"{'x' * (1 << 14)}<title>x</title>", False),
    ],
)
def test_the_scanner_finds_the_head_of_usual_pages(html: str, is_usual: bool) -> None:
    assert elements.Scanner
    found = elements.Scanner(html.encode(), frozenset())
    assert not list(filter(None, found))
    assert (elements.head_of(found) is not None) == is_usual


@needs_scanner
@pytest.mark.parametrize(
    "long",
    [
        "<!--{}--><a href=1>",
        "<script>{}</script><a href=1>",
        "<script><!--{}</script><a href=1>",
        "<style>{}</style><a href=1>",
        "<p title='{}'><a href=1>",
        "<a title='{}' href=1>",
        "<a href='{}'>",
        "<a href='&{}'>",
        "<a href='data:{}'>",
        "<a href='\u20ac{}'>",
        "<noframes>{}<a href=1></noframes><frameset>",
        "{}<a href=1>",
    ],
)
@pytest.mark.parametrize("filling", ["-", "<b>"])
def test_a_token_that_spans_steps_comes_out_whole(long: str, filling: str) -> None:
    """The step ends at each place in the marks that end the long text."""
    text = filling * (1 << 17)
    for less in range(-4, 24):
        html = long.format(text[: (1 << 17) - less])
        assert scanned(html.encode()) == read_by_tokens(html)


@needs_scanner
def test_attributes_beyond_the_bounds_are_left_out() -> None:
    for count in (1023, 1024, 299_999, 300_000):
        html = "<a" + " rel" * count + " href=x><a href=y>"
        assert scanned(html.encode()) == read_by_tokens(html)


def added(html: bytes, references: dict[str, int], room: int) -> list[str]:
    """Return the hrefs that the scanner doesn't add to the references."""
    from crawler.reading.parse.scanner import Scanner

    names = frozenset({"a", "area", "base", "link", "meta"})
    metas = frozenset({"robots"})
    found = Scanner(html, names, references, elements.Room(room), NOFOLLOW, metas)
    return [attributes.get("href", name) for name, attributes in filter(None, found)]


@needs_scanner
def test_plain_links_are_added_to_the_references() -> None:
    references = {"x": NOFOLLOW, "y": 0}
    html = b"<a href=x#1><a href=y><area HREF='z'><a href><a href='z#x'><a href='\xe9\xff#'><a>"
    assert added(html, references, 3) == []
    assert set(references.values()) == {NOFOLLOW}
    assert list(references) == ["x", "y", "z", "", "\ufffd\ufffd"]


@needs_scanner
@pytest.mark.parametrize(
    "href", [" x", "x ", "x #f", "x\n#", "\0", "&amp;", "x#&", pytest.param("x" * 513, id="long")]
)
def test_other_links_are_not_added(href: str) -> None:
    references: dict[str, int] = {}
    assert len(added(f"<a href='{href}'>".encode(), references, 9)) == 1
    assert not references


@needs_scanner
def test_no_link_is_added_beyond_the_room() -> None:
    references = {"x": 0}
    assert added(b"<a href=a><a href=a><a href=b><a href=x><a href=c>", references, 1) == ["b", "c"]
    assert references == {"x": NOFOLLOW, "a": NOFOLLOW}


@needs_scanner
@pytest.mark.parametrize(
    "rel", ["nofollow", "me NoFollow", "xnofollow", "&", pytest.param("x" * 513, id="long")]
)
def test_links_that_may_be_nofollow_are_not_added(rel: str) -> None:
    references = {"x": 0, "y": NOFOLLOW}
    html = f"<a rel='{rel}' href=x><a rel='{rel}' href=y><a rel='{rel}' href=z><a rel=me href=w>"
    assert added(html.encode(), references, 9) == ["x", "z"]
    assert references == {"x": 0, "y": NOFOLLOW, "w": NOFOLLOW}


@needs_scanner
def test_elements_that_lead_nowhere_are_left_out() -> None:
    html = b"<link rel=stylesheet href=1><link href=2><link rel='x NEXT' href=3><meta charset=x>"
    html += b"<meta name=x><meta http-equiv=x><meta name=x http-equiv=x><base href=4>"
    html += b"<link rel='&' href=5><meta name=' Robots' href=6><meta name='&' href=7>"
    html += b"<meta http-equiv=Refresh href=8><meta name=x http-equiv='&' href=9>"
    assert added(html, {}, 9) == ["3", "4", "5", "6", "7", "8", "9"]


@needs_scanner
def test_a_step_adds_a_bounded_number_of_references() -> None:
    from crawler.reading.parse.scanner import Scanner

    references: dict[str, int] = {}
    html = b"".join(b"<a href=%d>" % number for number in range(3000))
    counts = []
    for element in Scanner(html, frozenset({"a"}), references, elements.Room(9999), NOFOLLOW):
        assert element is None
        counts.append(len(references))
    assert counts == [1024, 2048]
    assert len(references) == 3000


@needs_scanner
@pytest.mark.parametrize("names", [{"a" * 17}, {""}, {f"a{number}" for number in range(64)}])
def test_names_that_do_not_fit_are_refused(names: set[str]) -> None:
    with pytest.raises(ValueError, match=r"names|letters"):
        scanned(b"<a>", frozenset(names))
