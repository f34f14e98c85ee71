"""URLs: examples by hand, and what must hold for all of them."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.url import BadUrlError, authority, host, key, normalise

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


@given(awkward | texts, urls)
def test_joining_gives_normal_urls(reference: str, base: str) -> None:
    try:
        url = normalise(reference, normalise(base))
    except BadUrlError:
        return
    assert normalise(url) == url
