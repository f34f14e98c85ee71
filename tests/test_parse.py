"""Pages to links: values by hand, and the shortcut for plain references against ada."""

from collections import Counter
from contextlib import suppress
from html import escape
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crawler.ports import ALTERNATE, CANONICAL, FRAME, NEXT, NOFOLLOW, PREV, Response
from crawler.reading.parse import Page, extract, finish, is_html, read, resolution
from crawler.reading.parse.encoding import encode_query
from crawler.reading.parse.links import bare, reading, refresh_target, srcset_urls
from crawler.reading.parse.resolution import Base, Resolution, _Folders
from crawler.url import BadUrlError, Folding, normalise

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


beginnings = st.sampled_from(
    ["", "", "", "/", "../", "http://a.example/", "https://a.example", "http://B.example:80/", "//"]
)
references = st.builds("{}{}".format, beginnings, pieces("ab-_~%2e?:@ \\é|^;=&'\x0e"))
encodings = st.sampled_from(["utf-8", "windows-1252", "iso-2022-jp"])


@example(["http://a.example/?\x0ea"], [("", "utf-8"), ("", "iso-2022-jp")])
@given(
    st.lists(references, max_size=6, unique=True),
    st.lists(st.tuples(pieces("a?"), encodings), min_size=2, max_size=4),
)
def test_pages_of_a_folder_find_what_each_finds_alone(
    found: list[str], others: list[tuple[str, str]]
) -> None:
    found = list(dict.fromkeys(map(bare, found)))
    for name, encoding in others:
        page = normalise(f"http://a.example/x/{name}")
        expected = {}
        for reference in found:
            as_sent = reference if encoding == "utf-8" else encode_query(reference, encoding)
            with suppress(BadUrlError):
                expected[reference] = normalise(f" {as_sent}", page)
        meant: dict[str, str] = {}
        resolution = Resolution(encoding, None, 10**6, Counter())
        finish(resolution.resolve(dict.fromkeys(found, 0), Base(page), meant))
        assert meant == expected


@pytest.mark.skipif(
    (resolution.__file__ or "").endswith(".so"), reason="compiled code can't be patched"
)
def test_only_so_many_references_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    folders = _Folders()
    monkeypatch.setattr("crawler.reading.parse.resolution._folders", folders)
    monkeypatch.setattr("crawler.reading.parse.resolution._MOST_REMEMBERED", 200)
    most = 0
    for number in range(100):
        page = f"http://a.example/{number}/"
        names = [f"x{other}" for other in range(number, number + 30)]
        html = "".join(f"<a href={name}>" for name in [*names, "http://b.example/z"])
        assert targets(html, page) == [*(page + name for name in names), "http://b.example/z"]
        most = max(most, len(folders))
    assert 100 < most <= 200


@pytest.mark.skipif(
    (resolution.__file__ or "").endswith(".so"), reason="compiled code can't be patched"
)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 50), st.integers(1, 12))))
def test_the_folder_that_was_used_last_is_remembered(used: list[tuple[int, int, int]]) -> None:
    folders = _Folders()
    with mock.patch.object(resolution, "_MOST_REMEMBERED", 40):
        for number, first, count in used:
            page = f"http://a.example/{number}/"
            folder = folders.find(page)
            for reference in map(str, range(first, first + count)):
                if reference not in folder.known:
                    folders.remember(folder, reference, page + reference)
                assert len(folders) <= 40
            assert str(first + count - 1) in folders.find(page).known


def test_only_so_many_links_are_taken() -> None:
    html = "".join(f"<a href={number}>" for number in [1, 2, 1, 3, 2, 4]) + "<base href=/b/>"
    targets = finish(reading(html, PAGE, "utf-8", ALL, max_links=2)).targets
    assert targets == {"http://a.example/b/1": 0, "http://a.example/b/2": 0}


# --- refresh, srcset


@pytest.mark.parametrize(
    ("content", "target"),
    [
        ("0;url=/x", "/x"),
        ("5; URL = 'x y' z", "x y"),
        (' 1.5 , url="x', "x"),
        ("0 url=x", "x"),
        ("0;x", "x"),
        (".;url=x", "x"),
        ("0;url=a;b", "a;b"),
        ("0; urls", "urls"),
        ("5", None),
        ("5;", None),
        ("5;url=''", ""),
        ("5;url=", ""),
        ("5; URL = ", ""),
        ("5;url", "url"),
        ("x;url=y", None),
        ("url=x", None),
        ("-1;url=x", None),
        ("5x;url=x", None),
        ("", None),
    ],
)
def test_refresh(content: str, target: str | None) -> None:
    assert refresh_target(content) == target


@pytest.mark.parametrize(
    ("srcset", "urls"),
    [
        ("a,b,,c,", ["a,b,,c"]),
        ("a, b,, c,", ["a", "b", "c"]),
        ("a 1x, b 2x", ["a", "b"]),
        ("a 1x,b 2x", ["a", "b"]),
        ("data:,a ( , ) 1x, b", ["data:,a", "b"]),
        ("data:image/png;base64,AA== 1x, b", ["data:image/png;base64,AA==", "b"]),
        (" ,, a (b", ["a"]),
        ("", []),
    ],
)
def test_srcset(srcset: str, urls: list[str]) -> None:
    assert list(srcset_urls(srcset)) == urls


def test_refresh_and_images_are_followed_if_wanted() -> None:
    html = """
      <META content="0; url=1" HTTP-EQUIV=Refresh><noscript><meta http-equiv=refresh content=3;2>
      </noscript><!-- <meta http-equiv=refresh content="0;url=no"> -->
      <img src=i srcset="j 1x, data:,x 2x"><picture><source srcset=k></picture><a href=a></a>
    """
    base = "http://a.example/dir/"
    assert links(html, elements=frozenset({"refresh"})) == [(base + "1", 0), (base + "2", 0)]
    assert links(html, elements=frozenset({"img"})) == [(base + name, 0) for name in "ijk"]
    assert links(html) == [(base + "a", 0)]


# --- read: a whole response


def read_page(body: bytes, *headers: tuple[bytes, bytes], fold: Folding | None = None) -> Page:
    response = Response(PAGE, 0, 0, None, b"", "1.1", 200, "OK", headers, body, body)
    return finish(read(response, ALL, "abc-crawler", fold))


@pytest.mark.parametrize(
    ("label", "text", "query"),
    [
        ("utf-16le", "пути", "%D0%BF%D1%83%D1%82%D0%B8"),
        ("windows-1251", "пути", "%EF%F3%F2%E8"),
        ("gbk", "中", "%D6%D0"),
        ("shift_jis", "日本", "%93%FA%96{"),
        ("euc-kr", "한국", "%C7%D1%B1%B9"),
    ],
)
def test_links_of_pages_in_other_encodings(label: str, text: str, query: str) -> None:
    html = f'<meta charset="{label}"><a href="/{text}?q={text}#{text}">{text}</a>'
    body = ("\ufeff" + html if label == "utf-16le" else html).encode(label)
    page = read_page(body)
    path = normalise(f"http://a.example/{text}")  # paths are UTF-8 whatever the page is in
    assert page == Page(label, {f"{path}?q={query}": 0}, noindex=False, nofollow=False)


def test_link_headers_are_links_of_the_page_not_of_its_base() -> None:
    page = read_page(
        b"<base href=/b/><a href=x></a><link rel=canonical href=y>",
        (b"Link", b'<c>; rel="canonical", <n>;rel=next;title="a, <b>; rel=prev"'),
        (b"LINK", b"<s>; rel=stylesheet, <data:,x>; rel=next, <//o.example/>; rel=alternate"),
    )
    assert list(page.links.items()) == [
        ("http://a.example/dir/c", CANONICAL),
        ("http://a.example/dir/n", NEXT),
        ("http://o.example/", ALTERNATE),
        ("http://a.example/b/x", 0),
        ("http://a.example/b/y", CANONICAL),
    ]


def test_what_the_page_asks_for() -> None:
    assert read_page(b'<META NAME="ROBOTS" CONTENT="NOINDEX,FOLLOW"><a href=x>') == (
        "utf-8",
        {"http://a.example/dir/x": 0},
        True,
        False,
        (None, None),
        (),
        (),
    )
    commented = read_page(b'<!-- <meta name=robots content="noindex,nofollow"> --><a href=x>')
    assert (commented.noindex, commented.nofollow) == (False, False)
    page = read_page(b"<a href=x><iframe src=y>", (b"X-Robots-Tag", b"nofollow"))
    assert page.nofollow
    assert list(page.links.values()) == [NOFOLLOW, FRAME | NOFOLLOW]


def test_folded_targets_are_one_link() -> None:
    fold = Folding(session_ids=True, slash=True)
    html = b"<a href='x?jsessionid=1'><a href='x/' rel=nofollow><a href='page.html/'>"
    assert read_page(html, fold=fold).links == {"http://a.example/dir/x": 0}


@given(st.binary(max_size=200), st.binary(max_size=60), st.binary(max_size=60))
def test_any_page_can_be_read(body: bytes, content_type: bytes, header: bytes) -> None:
    page = read_page(
        b"<a href='" + body,
        (b"content-type", content_type),
        (b"link", header),
        (b"x-robots-tag", header),
    )
    assert all(normalise(target) == target for target in page.links)
