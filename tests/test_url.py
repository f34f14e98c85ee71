"""URLs: examples by hand, and what must hold for all of them."""

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.url import BadUrlError, Folding, authority, host, key, normalise

BASE = "http://a.example/b/c/d?q"


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("http://a.example", "http://a.example/"),
        ("HTTP://A.Example:80/B", "http://a.example/B"),
        ("https://a.example:443", "https://a.example/"),
        ("https://a.example:80", "https://a.example:80/"),
        (" \thttp://a.example/x\n", "http://a.example/x"),
        ("http:\\\\a.example\\x", "http://a.example/x"),
        ("http://a.example/a/./b/../c", "http://a.example/a/c"),
        ("http://a.example/%2e%2E/x", "http://a.example/x"),
        # Our own rules: no fragment, no bare question mark, no credentials, capital escapes.
        ("http://a.example/x#y?z", "http://a.example/x"),
        ("http://a.example/x?", "http://a.example/x"),
        ("http://a.example/x?#y", "http://a.example/x"),
        ("http://user:pass@a.example/@", "http://a.example/@"),
        ("http://u@b@a.example/", "http://a.example/"),
        ("http://a.example/%c3%bc?q=%c3", "http://a.example/%C3%BC?q=%C3"),
        ("http://a.example/x?y?", "http://a.example/x?y?"),
        # What would make one URL of two pages is left alone.
        ("http://a.example//x//", "http://a.example//x//"),
        ("http://a.example/?b=1&a=2", "http://a.example/?b=1&a=2"),
        ("http://a.example/%7Ex", "http://a.example/%7Ex"),
        ("http://www.a.example/index.html", "http://www.a.example/index.html"),
        ("http://a.example/a%25b%23c", "http://a.example/a%25b%23c"),
        # Everything is ASCII in the end.
        ("http://bücher.example/ü?ü", "http://xn--bcher-kva.example/%C3%BC?%C3%BC"),
        ("https://тест.тест:33/", "https://xn--e1aybc.xn--e1aybc:33/"),
        # Addresses in disguise.
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://2130706433/", "http://127.0.0.1/"),
        ("http://[::FFFF:127.0.0.1]/", "http://[::ffff:7f00:1]/"),
        ("https://example%2Ecom/", "https://example.com/"),
    ],
)
def test_normalise(text: str, normal: str) -> None:
    assert normalise(text) == normal


@pytest.mark.parametrize(
    ("reference", "target"),
    [
        ("e", "http://a.example/b/c/e"),
        ("./e", "http://a.example/b/c/e"),
        ("../e", "http://a.example/b/e"),
        ("../../../e", "http://a.example/e"),
        ("/e", "http://a.example/e"),
        ("//E.example", "http://e.example/"),
        ("?r", "http://a.example/b/c/d?r"),
        ("#f", "http://a.example/b/c/d?q"),
        ("", "http://a.example/b/c/d?q"),
        ("https://e.example/x#f", "https://e.example/x"),
        ("http:e", "http://a.example/b/c/e"),
        ("e\n f", "http://a.example/b/c/e%20f"),
    ],
)
def test_references_join(reference: str, target: str) -> None:
    assert normalise(reference, BASE) == target


NO_SCHEME = ["", "a.example", "/x"]
NO_WEB = ["ftp://a.example/", "mailto:a@b.example", "javascript:1", "data:,x"]
NO_HOST = ["http://", "http://a b/", "http://[::1/", "http://a.example:99999/", "http://1.2.3.4.5/"]


@pytest.mark.parametrize("text", NO_SCHEME + NO_WEB + NO_HOST)
def test_what_is_no_web_address(text: str) -> None:
    with pytest.raises(BadUrlError):
        normalise(text)


@pytest.mark.parametrize("reference", ["mailto:a@b.example", "ftp://a/", "//", "https://", "//a b"])
def test_references_that_lead_nowhere(reference: str) -> None:
    with pytest.raises(BadUrlError):
        normalise(reference, BASE)


@pytest.mark.parametrize(
    ("url", "site", "name"),
    [
        ("http://a.example/", "http://a.example", "a.example"),
        ("https://a.example:8443/x?http://b", "https://a.example:8443", "a.example"),
        ("http://[2001:db8::1]:81/", "http://[2001:db8::1]:81", "2001:db8::1"),
    ],
)
def test_authority_and_host(url: str, site: str, name: str) -> None:
    assert normalise(url) == url
    assert authority(url) == site
    assert host(url) == host(site) == name


def test_key_is_64_bits_of_xxh3() -> None:
    assert key("") == 0x2D06800538D394C2  # published with xxHash
    assert 0 < key("http://a.example/") < 1 << 64
    assert key("http://a.example/") != key("http://a.example/x")


# URLs with all that is awkward in them, and text that may be no URL.
awkward = st.text(string.ascii_letters + "%25e/.?#:@\\[]&=+ \tüß日~", max_size=12)
urls = st.builds(
    "{}://{}{}/{}".format, st.sampled_from(["http", "HTTPS"]), awkward, awkward, awkward
)
texts = urls | st.builds("http://a.example/{}".format, awkward) | st.text(max_size=20)


@given(texts)
def test_normalising_twice_changes_nothing(text: str) -> None:
    try:
        url = normalise(text)
    except BadUrlError:
        return
    assert normalise(url) == url
    assert normalise(url, BASE) == url
    assert url.isascii()
    assert url.startswith(("http://", "https://"))
    assert "#" not in url
    assert "@" not in authority(url)
    assert url.startswith(authority(url) + "/")
    assert host(url)


# URLs that are normal already, or nearly so.
tidy = st.lists(st.sampled_from("ab12A_~.:@!'()*+,;=/?-% [\\"), max_size=6).map("".join)
endings = st.sampled_from(["", "", "?", "??", "/..", "/.x", "?a", "/"])
hosts = st.sampled_from(
    ["a.example", "a.example", "a.Example", "a", "1.2", "0x1", "xn--a", "xn--bcher-kva.example",
     "a.", "[::1]", "[::01]", "u@a.example", "a.example:80", "a.example:81", "a b", "", "a..b"]
)  # fmt: skip
beginnings = st.sampled_from(["/", "/", "/", "", "?", "\\"])


@given(
    st.builds(
        "{}://{}{}{}{}".format,
        st.sampled_from(["http", "https"]),
        hosts,
        beginnings,
        tidy,
        endings,
    )
)
def test_the_shortcut_for_normal_urls_agrees_with_the_library(text: str) -> None:
    try:
        expected = normalise(f" {text}")  # the blank keeps the shortcut from being taken
    except BadUrlError:
        with pytest.raises(BadUrlError):
            normalise(text)
    else:
        assert normalise(text) == expected


@given(awkward | texts, urls)
def test_joining_gives_normal_urls(reference: str, base: str) -> None:
    try:
        url = normalise(reference, normalise(base))
    except BadUrlError:
        return
    assert normalise(url) == url


# --- Folding


@pytest.mark.parametrize(
    ("rules", "url", "folded"),
    [
        ({"session_ids": True}, "/a;jsessionid=1A;v=2?PHPSESSID=3&x=4", "/a;v=2?x=4"),
        ({"session_ids": True}, "/?ASPSESSIONIDQQ=1&cfid=2&CFTOKEN=3", "/"),
        ({"session_ids": True}, "/(S(lit3py55t21z5v55vlm25s55))/a.aspx", "/a.aspx"),
        ({"session_ids": True}, "/a/..;jsessionid=1/b", "/b"),
        ({"session_ids": True}, "/?my_phpsessid=1&utm_id=2", "/?my_phpsessid=1&utm_id=2"),
        ({"tracking": True}, "/?utm_source=a&UTM_medium=b&x=1&gclid=c&fbclid", "/?x=1"),
        ({"parameters": ["ref", "x*z"]}, "/?ref=1&refs=2&xyz=3&xz&a=ref", "/?refs=2&a=ref"),
        ({"parameters": ["*"]}, "/?a=1&b&", "/"),
        ({"parameters": ["a"]}, "/?&a=1&", "/?&"),
        ({"sort_query": True}, "/?b=2&a=2&a=1&c", "/?a=2&a=1&b=2&c"),
        ({"slash": True}, "/a/b//?x=/", "/a/b?x=/"),
        ({"slash": True}, "/", "/"),
        ({"index": True}, "/a/INDEX.html?x", "/a/?x"),
        ({"index": True}, "/default.aspx", "/"),
        ({"index": True}, "/myindex.html", "/myindex.html"),
        ({"index": True, "slash": True}, "/a/index.html/index.php/", "/a"),
        ({"www": True}, "/www.", "/www."),
        ({}, "/a/index.html;jsessionid=1?utm_id=1", "/a/index.html;jsessionid=1?utm_id=1"),
    ],
)
def test_folding(rules: dict[str, Any], url: str, folded: str) -> None:
    site = "http://a.example:81"
    assert Folding(**rules)(site + url) == site + folded


@pytest.mark.parametrize(
    ("host_name", "folded"),
    [
        ("www.a.example", "a.example"),
        ("www.www.a.example:81", "a.example:81"),
        ("www.example", "www.example"),
        ("www2.a.example", "www2.a.example"),
        ("[2001:db8::1]", "[2001:db8::1]"),
    ],
)
def test_folding_www(host_name: str, folded: str) -> None:
    assert Folding(www=True)(f"http://{host_name}/") == f"http://{folded}/"


def test_a_redirect_from_one_form_of_a_page_to_another_is_followed_as_it_is() -> None:
    fold = Folding(slash=True, www=True)
    page = "http://a.example/x"
    assert fold.of_redirect("http://a.example/x/", page) == "http://a.example/x/"
    assert fold.of_redirect("http://www.a.example/x/", "http://a.example/x/") != page
    assert fold.of_redirect("http://www.a.example/y/", page) == "http://a.example/y"


RULES = ("session_ids", "tracking", "sort_query", "slash", "index", "www")
pieces = st.sampled_from(
    ["/", "//", "/index.html", "/Default.aspx", "/..", "/.", ";jsessionid=1", ";v=2", "?", "&", "="]
) | st.sampled_from(
    ["utm_source=x", "PHPSESSID=3", "a=2", "b", "a=1", "%2e", "/(S(abcdefghijklmnopqrstuvwx))"]
)
hosts = st.sampled_from(["a.example", "www.a.example", "www.www.a.example:81", "www.com", "[::1]"])


@given(
    st.builds("http://{}/{}".format, hosts, st.lists(pieces, max_size=10).map("".join)) | urls,
    st.fixed_dictionaries({rule: st.booleans() for rule in RULES}),
    st.sampled_from([(), ("a",), ("*",), ("s*d", "b")]),
)
def test_folding_twice_changes_nothing_and_gives_normal_urls(
    text: str, rules: dict[str, bool], parameters: tuple[str, ...]
) -> None:
    fold = Folding(parameters=parameters, **rules)
    try:
        url = normalise(text)
    except BadUrlError:
        return
    folded = fold(url)
    assert normalise(folded) == folded
    assert fold(folded) == folded
    assert fold or folded == url


@pytest.mark.parametrize(
    "path", ["/" * 100_000, "/index.html" * 10_000, ";a=1" * 20_000, "?&" * 9_999]
)
def test_folding_takes_a_time_that_grows_with_the_url(path: str) -> None:
    fold = Folding(session_ids=True, tracking=True, sort_query=True, slash=True, index=True)
    assert fold(f"http://a.example/x{path}").startswith("http://a.example/x")


MARKS = "\u0300\u0327"


@pytest.mark.parametrize(
    "before", ["http://", "//", "HTTPS:\\\\", "h\nttp:", " \\/", "http:////me@"]
)
@pytest.mark.parametrize("name", ["a" + MARKS * 128, "%CC%80" * 43, "\ufdfa" * 256, "é" * 256])
def test_long_hosts_in_other_characters_are_refused(before: str, name: str) -> None:
    """The library takes a time for them that grows with the square of their length."""
    with pytest.raises(BadUrlError):
        normalise(f"{before}{name}.example/", "http://a.example/b")


def test_other_long_parts_are_not_refused() -> None:
    assert normalise("//é" + "e" * 9 + ".example/", "http://a/").startswith("http://xn--")
    for reference in ("é" * 999, "/é" * 999, "?é" * 999, f"http://a.example/{MARKS * 999}"):
        assert normalise(reference, "http://a.example/b").startswith("http://a.example/")
    assert normalise("http://" + "a" * 999 + ".example/%e9").endswith(".example/%E9")
