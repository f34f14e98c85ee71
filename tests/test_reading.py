"""What responses lead to: pages, feeds, sitemaps, and what the configuration makes of them."""

import pytest
from fetches import found, response

from crawler import config, url
from crawler.ports import NOFOLLOW, OUT_OF_SCOPE, REDIRECT, Failure, Fetched, Response
from crawler.reading.declared import DeclaredSitemaps
from crawler.reading.judge import unfollowed
from crawler.reading.reader import PageReader, make_scope
from crawler.reading.steps import finish

A = "http://a.example"
PAGE = f"{A}/dir/x"
XML = (b"Content-Type", b"application/xml")
SITEMAPS = ("sitemaps.from_robots=true", "sitemaps.well_known=true")


def reader(*overrides: str, declared: DeclaredSitemaps | None = None) -> PageReader:
    settings = config.load(None, ['scope.domains=["example"]', *overrides])
    return PageReader(settings, make_scope(settings, [], year=2027), declared)


def read(one: PageReader, answer: Response) -> Fetched:
    fetched = Fetched(found(answer.url), 0.0, answer)
    for _ in one.read(fetched):
        pass
    return fetched


def targets(one: PageReader, answer: Response) -> list[tuple[str, int]]:
    return [(link.url, link.flags) for link in read(one, answer).links]


def urls(*paths: str, kind: str = "url", index: str = "urlset") -> bytes:
    entries = "".join(f"<{kind}><loc>{path}</loc></{kind}>" for path in paths)
    return f'<?xml version="1.0"?><{index}>{entries}</{index}>'.encode()


# --- pages


def test_html_meta_robots_noindex_is_noted_and_nofollow_flags_the_links() -> None:
    page = b'<META NAME="ROBOTS" CONTENT="NOINDEX,FOLLOW"><a href=/b>'
    fetched = read(reader(), response(PAGE, page))
    assert fetched.noindex
    assert [link.flags for link in fetched.links] == [0]
    commented = read(reader(), response(PAGE, b"<!--" + page + b"--><a href=/b>"))
    assert (commented.noindex, len(commented.links)) == (False, 1)


def test_a_page_has_a_title_and_the_language_of_its_html_or_its_header() -> None:
    header, html = (b"Content-Language", b"de-AT"), (b"Content-Type", b"text/html")
    for body, expected in (
        (b"<html lang=fr><title>T</title>", ("T", "fr")),
        (b"<title>T</title>", ("T", "de-at")),
        (b"", (None, "de-at")),
    ):
        fetched = read(reader(), response(PAGE, body, headers=(html, header)))
        assert (fetched.title, fetched.language) == expected
    pdf = response(PAGE, b"%PDF-", headers=((b"Content-Type", b"application/pdf"), header))
    assert read(reader(), pdf).language == "de-at"
    latin = response(PAGE, "<title>Übung</title>".encode("latin-1"), headers=(html,))
    assert read(reader(), latin).title == "Übung"
    missing = read(reader(), response(PAGE, b"<html lang=fr><title>Oops</title>", status=404))
    assert (missing.title, missing.language) == (None, None)


@pytest.mark.parametrize(
    ("overrides", "flags"),
    [((), [NOFOLLOW, 0]), (("robots.obey_nofollow=true",), [NOFOLLOW | OUT_OF_SCOPE, 0])],
)
def test_nofollow_is_obeyed_by_configuration(overrides: tuple[str, ...], flags: list[int]) -> None:
    page = response(PAGE, b"<a rel=nofollow href=/a></a><a href=/b></a>")
    assert [flag for _, flag in targets(reader(*overrides), page)] == flags


def test_links_are_folded_by_configuration() -> None:
    page = response(PAGE, b"<a href=/b?utm_source=x&amp;q=1></a><a href=/b?q=1></a>")
    folding = reader("normalise.drop_tracking=true")
    assert targets(folding, page) == [(f"{A}/b?q=1", 0)]
    assert len(targets(reader(), page)) == 2


def test_so_many_links_are_taken_of_a_page_or_a_feed() -> None:
    feeds = reader("extract.max_links=2", 'extract.types=["text/html", "application/rss+xml"]')
    page = response(PAGE, b"<a href=/1></a><a href=/2></a><a href=/1></a><a href=/3></a>")
    items = "".join(f"<item><link>/{n}</link></item>" for n in (1, 1, 2, 3))
    rss = response(
        PAGE, f"<rss>{items}</rss>".encode(), headers=[(b"Content-Type", b"application/rss+xml")]
    )
    assert targets(feeds, page) == targets(feeds, rss) == [(f"{A}/1", 0), (f"{A}/2", 0)]


def test_a_redirect_to_another_form_of_the_page_is_followed() -> None:
    folding = reader("normalise.fold_slash=true")
    moved = response(f"{A}/x", b"", status=301, headers=[(b"Location", b"/x/")])
    assert targets(folding, moved) == [(f"{A}/x/", REDIRECT)]
    elsewhere = response(f"{A}/x", b"", status=301, headers=[(b"Location", b"/y/")])
    assert targets(folding, elsewhere) == [(f"{A}/y", REDIRECT)]


def test_what_links_are_read_in_is_configurable() -> None:
    feed = b"<rss><channel><item><link>http://a.example/news</link></item></channel></rss>"
    answer = response(PAGE, feed, headers=[(b"Content-Type", b"application/rss+xml")])
    assert targets(reader(), answer) == []
    feeds = reader('extract.types=["text/html", "application/rss+xml"]')
    assert targets(feeds, answer) == [(f"{A}/news", 0)]
    no_php = reader('extract.types=["text/html", "!.php"]')
    assert targets(no_php, response(f"{A}/x.php", b"<a href=/b>")) == []


def test_a_page_of_very_many_links_is_read_in_steps() -> None:
    page = response(PAGE, b"".join(b"<a href=/%d>" % number for number in range(5000)))
    fetched = Fetched(found(PAGE), 0.0, page)
    steps = sum(1 for _ in reader().read(fetched))
    assert steps >= 10
    assert len(fetched.links) == 5000


@pytest.mark.parametrize("value", ["0; url=/next", "0;URL='/next'", "5, /next"])
@pytest.mark.parametrize("kind", [b"text/html", b"application/pdf"])
def test_refresh_headers_are_followed(value: str, kind: bytes) -> None:
    headers = [(b"Content-Type", kind), (b"Refresh", value.encode())]
    answer = response(PAGE, b"<base href=/b/>", headers=headers)
    assert targets(reader(), answer) == [(f"{A}/next", 0)]
    assert targets(reader('extract.elements=["a"]'), answer) == []


def test_a_document_without_links_may_ask_not_to_be_indexed() -> None:
    headers = [(b"Content-Type", b"application/pdf"), (b"X-Robots-Tag", b"noindex")]
    assert read(reader(), response(PAGE, b"%PDF-", headers=headers)).noindex


# --- sitemaps


def test_the_sitemaps_of_an_authority() -> None:
    named = ["http://a.example/s.xml", "/relative.xml", "ftp://a.example/", "http://b.com/s.xml"]
    links = finish(reader(*SITEMAPS).sitemaps(A, named))
    assert [(link.url, link.flags) for link in links] == [
        (f"{A}/s.xml", 0),
        (f"{A}/relative.xml", 0),
        ("http://b.com/s.xml", 0),  # of any host, as robots.txt names it
        (f"{A}/sitemap.xml", 0),
    ]
    assert finish(reader().sitemaps(A, named)) == []
    assert len(finish(reader("sitemaps.from_robots=true").sitemaps(A, named))) == 3


def test_sitemaps_named_by_a_host_out_of_scope_are_out_of_scope() -> None:
    links = finish(reader(*SITEMAPS).sitemaps("http://b.com", ["/s.xml", f"{A}/s.xml"]))
    assert [link.flags for link in links] == [OUT_OF_SCOPE, 0, OUT_OF_SCOPE]


def test_a_sitemap_elsewhere_speaks_of_all_that_name_it_by_either_scheme() -> None:
    declared = DeclaredSitemaps()
    one = reader(*SITEMAPS, declared=declared)
    for authority in (A, "http://b.example"):
        finish(one.sitemaps(authority, ["http://cdn.com/s.xml"]))
    body = urls(f"{A}/1", "https://a.example/2", "http://b.example/3", "http://c.example/4")
    elsewhere = response("http://cdn.com/s.xml", body, headers=[XML])
    assert targets(one, elsewhere) == [
        (f"{A}/1", 0), ("https://a.example/2", 0), ("http://b.example/3", 0)
    ]  # fmt: skip
    fetched = read(one, response("http://cdn.com/s.xml", b"", status=302, headers=[
        (b"Location", b"http://more.com/s.xml")
    ]))  # fmt: skip
    assert [link.flags for link in fetched.links] == [REDIRECT]
    assert fetched.sitemaps_of == (A, "http://b.example")
    index = b"<sitemapindex><sitemap><loc>http://cdn.com/2.xml</loc></sitemap></sitemapindex>"
    assert targets(one, response("http://more.com/s.xml", index, headers=[XML])) == []
    assert targets(one, response("http://cdn.com/s.xml", index, headers=[XML])) == [
        ("http://cdn.com/2.xml", 0)
    ]
    assert declared.authorities(url.key("http://cdn.com/2.xml")) == (A, "http://b.example")


def test_a_sitemap_leads_to_its_pages() -> None:
    one = reader(*SITEMAPS)
    finish(one.sitemaps(A, ["/maps/s.xml"]))
    body = urls(f"{A}/maps/1", f"{A}/elsewhere", "http://b.example/", f"{A}/maps/1")
    named = response(f"{A}/maps/s.xml", body, headers=[XML])
    assert targets(one, named) == [(f"{A}/maps/1", 0), (f"{A}/elsewhere", 0)]
    # What no robots.txt names may speak of its own folder only.
    found_by_chance = response(f"{A}/maps/t.xml", body, headers=[XML])
    assert targets(one, found_by_chance) == [(f"{A}/maps/1", 0)]
    assert targets(reader(), named) == []


def test_an_index_and_a_redirect_pass_on_who_names_them() -> None:
    one = reader(*SITEMAPS)
    finish(one.sitemaps(A, ["/index.xml"]))
    moved = response(f"{A}/index.xml", b"", status=301, headers=[(b"Location", b"/maps/i.xml")])
    assert targets(one, moved) == [(f"{A}/maps/i.xml", REDIRECT)]
    index = urls(f"{A}/maps/1.txt", kind="sitemap", index="sitemapindex")
    assert targets(one, response(f"{A}/maps/i.xml", index, headers=[XML])) == [
        (f"{A}/maps/1.txt", 0)
    ]
    plain = [(b"Content-Type", b"text/plain")]
    text = response(f"{A}/maps/1.txt", f"{A}/\n{A}/x\n".encode(), headers=plain)
    assert targets(one, text) == [(f"{A}/", 0), (f"{A}/x", 0)]


def test_text_that_is_no_sitemap_is_not_read_as_one() -> None:
    plain = [(b"Content-Type", b"text/plain")]
    text = response(f"{A}/notes.txt", f"{A}/x\n".encode(), headers=plain)
    assert targets(reader(*SITEMAPS), text) == []


def test_a_sitemap_that_is_not_there_is_a_page_like_others() -> None:
    one = reader(*SITEMAPS)
    (link,) = finish(one.sitemaps(A, []))
    missing = read(one, response(link.url, b"<a href=/b>", status=404))
    assert (missing.links, missing.failure) == ([], None)


def test_the_limits_of_a_sitemap() -> None:
    one = reader(*SITEMAPS, "sitemaps.max_entries=2")
    finish(one.sitemaps(A, ["/s.xml"]))
    body = urls(*(f"{A}/{number}" for number in range(9)))
    assert len(targets(one, response(f"{A}/s.xml", body, headers=[XML]))) == 2


# --- redirects


def test_a_redirect_to_nowhere_fails() -> None:
    nowhere = response(PAGE, b"", status=302, headers=[(b"Location", b"http://")])
    assert read(reader(), nowhere).failure is Failure.BAD_REDIRECT


def test_a_target_with_the_shape_of_a_trap_is_recorded_and_not_followed() -> None:
    moved = response(PAGE, b"", status=302, headers=[(b"Location", b"/a/a/a/a/a")])
    assert targets(reader(), moved) == [(url.normalise(f"{A}/a/a/a/a/a"), REDIRECT | OUT_OF_SCOPE)]


@pytest.mark.parametrize(
    ("overrides", "judges_again", "flags"),
    [
        ([], False, OUT_OF_SCOPE),
        (["robots.obey_nofollow=true"], False, OUT_OF_SCOPE),  # nofollow links have that flag too
        ([], True, 0),
        (["robots.obey_nofollow=true"], True, NOFOLLOW),
    ],
)
def test_what_keeps_a_logged_link_from_being_followed(
    overrides: list[str], judges_again: bool, flags: int
) -> None:
    settings = config.load(None, overrides)
    assert unfollowed(settings, judges_again=judges_again) == flags
