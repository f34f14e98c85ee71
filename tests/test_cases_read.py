"""Cases from public reports about other crawlers, as far as reading is concerned, by their ids."""

from collections.abc import Callable

import pytest

from crawler.ports import Response
from crawler.reading.parse import decode, extract, finish, read
from crawler.reading.robots import Rules
from crawler.reading.sitemaps import entries
from crawler.url import normalise

PAGE = "http://a.example/d/p"
ELEMENTS = frozenset({"a", "area", "frame", "iframe", "img", "link", "refresh"})


def targets(html: str) -> list[str]:
    return [target.removeprefix("http://a.example") for target, _ in extract(html, PAGE, ELEMENTS)]


def denied(robots: str | bytes, *paths: str) -> list[bool]:
    body = robots if isinstance(robots, bytes) else robots.encode()
    rules = Rules.parse(body, "abc-crawler")
    return [not rules.allows(f"http://a.example{path}") for path in paths]


def html_meta_refresh() -> None:
    assert targets('<meta http-equiv="refresh" content="0; url=/x">') == ["/x"]
    assert targets('<meta content="0; url=/x" http-equiv="refresh">') == ["/x"]
    assert targets("<noscript><meta http-equiv=refresh content='0;URL=\"/x\"'></noscript>") == [
        "/x"
    ]
    assert targets('<!-- <meta http-equiv="refresh" content="0; url=/x"> -->') == []


def html_href_space() -> None:
    assert targets('<a href=" http://x/ ">') == ["http://x/"]
    assert targets('<a href="\n/a\n/b\r\n\t">') == ["/a/b"]
    assert targets('<a href="\x01 /x\x1f">') == ["/x"]


def html_base() -> None:
    link = "<a href=l></a>"
    assert targets("<base href='sub/'>" + link) == ["/d/sub/l"]
    assert targets("<base href=/1/><base href=/2/>" + link) == ["/1/l"]
    assert targets("<base target=x><base href=/2/>" + link) == ["/2/l"]
    assert targets("<base href=''><base href=/2/>" + link) == ["/d/l"]
    assert targets("<base href=javascript:x>" + link) == ["/d/l"]
    assert targets(link + "<p>" * 5000 + "<base href=/late/>") == ["/late/l"]


def html_srcset() -> None:
    assert targets('<img srcset="a,b,,c,">') == ["/d/a,b,,c"]
    assert targets('<img srcset="a, b,, c,">') == ["/d/a", "/d/b", "/d/c"]
    assert targets('<img srcset="data:image/gif;base64,AA== 1x, /y 2x">') == ["/y"]


def html_meta_robots() -> None:
    def page(html: bytes) -> tuple[int, bool, bool]:
        response = Response(PAGE, 0, 0, None, b"", "1.1", 200, "OK", [], html, html)
        found = finish(read(response, ELEMENTS, "abc-crawler"))
        return len(found.links), found.noindex, found.nofollow

    meta = b'<META NAME="ROBOTS" CONTENT="NOINDEX,FOLLOW">'
    assert page(meta + b"<a href=x>") == (1, True, False)
    assert page(b"<!--" + meta + b"--><a href=x>") == (1, False, False)


def html_bom_first() -> None:
    page = "\ufeff<a href=é>".encode()
    assert decode(page, "text/html; charset=windows-1251") == ("<a href=é>", "utf-8")


def html_deep() -> None:
    assert targets("<div>" * 1_000_000 + "<a href=/x>") == ["/x"]
    assert targets("<p " + "a=b " * 100_000 + "><a href=/x>") == ["/x"]
    response = Response(PAGE, 0, 0, None, b"", "1.1", 200, "OK", [], b"", b"<div>" * 1_000_000)
    assert sum(1 for _ in read(response, ELEMENTS)) > 30  # steps, between which the loop is free


def url_idna_port() -> None:
    assert normalise("https://тест.тест:33/") == "https://xn--e1aybc.xn--e1aybc:33/"


def url_escape_idempotent() -> None:
    url = normalise("/a%25b%23c", PAGE)
    assert url == "http://a.example/a%25b%23c"
    assert normalise(url) == url


def url_escaped_host() -> None:
    assert normalise("https://example%2Ecom/") == "https://example.com/"


def url_ipv4_forms() -> None:
    for host in ("0x7f.1", "2130706433", "127.1", "0177.0.0.1", "%31%32%37.1", "127。0。0。1"):
        assert normalise(f"http://{host}/") == "http://127.0.0.1/"
    assert normalise("http://[::ffff:127.0.0.1]/") == "http://[::ffff:7f00:1]/"


def robots_bom() -> None:
    assert denied(b"\xef\xbb\xbfUser-agent: *\nDisallow: /a\n", "/a") == [True]


def robots_groups() -> None:
    own = "User-agent: abc-crawler\nDisallow: /a\n"
    assert denied(own + "User-agent: *\nDisallow: /b\n", "/a", "/b") == [True, False]
    assert denied(own + own.replace("/a", "/b"), "/a", "/b", "/c") == [True, True, False]


def robots_big() -> None:
    head = "User-agent: *\n" + "# filler\n" * 55_000
    assert denied(head + "Disallow: /a\n" + "# filler\n" * 300_000, "/a") == [True]


def robots_star() -> None:
    robots = "User-agent: *\nDisallow: /*s=\nDisallow: */test\nDisallow: /b%2A\nDisallow: /c%24\n"
    paths = ("/?s=x", "/test", "/a/test", "/b*", "/bx", "/c$", "/c")
    assert denied(robots, *paths) == [True, True, True, True, False, True, False]


def sitemap_space() -> None:
    body = """

    <?xml version="1.0"?><urlset xmlns="https://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>
      http://a.example/x
    </loc></url></urlset>"""
    assert [entry.url for entry in entries(body.encode(), PAGE) if entry] == ["http://a.example/x"]


CASES: list[Callable[[], None]] = [
    html_meta_refresh,
    html_href_space,
    html_base,
    html_srcset,
    html_meta_robots,
    html_bom_first,
    html_deep,
    url_idna_port,
    url_escape_idempotent,
    url_escaped_host,
    url_ipv4_forms,
    robots_bom,
    robots_groups,
    robots_big,
    robots_star,
    sitemap_space,
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__.replace("_", "-"))
def test_case(case: Callable[[], None]) -> None:
    case()
