"""The rules on places without end: what each holds, and above all what it lets through."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler import config, url
from crawler.ports import OUT_OF_SCOPE, Found, PageRow
from crawler.scope import Scope, Sites
from crawler.traps import Shapes, Watch

A = "http://a.example"
YEAR = 2027
OFF = dict.fromkeys(config.Traps.model_fields, 0)


def traps(**limits: int) -> config.Traps:
    """Only the given rules."""
    return config.Traps(**{**OFF, **limits})


def found(path: str, site: str = A) -> Found:
    address = url.normalise(site + path)
    return Found(url.key(address), address, site, 0)


# --- the shape of a URL


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("/", None),
        ("/" + "x" * (2048 - len(A) - 1), None),
        ("/" + "x" * (2048 - len(A)), "max_url_length"),
        ("/?" + "x" * 2048, "max_url_length"),
        ("/" + "/".join(map(str, range(50))), None),
        ("/" + "/".join(map(str, range(51))), "max_path_segments"),
        ("/?" + "/" * 60, None),  # of the query another rule takes care
        # the same again and again
        ("/a/a/a", None),
        ("/a/a/a/a", "max_repeated_segments"),
        ("/x/y/a/a/a/a/z", "max_repeated_segments"),
        ("/a/b/a/b/a/b", None),
        ("/a/b/a/b/a/b/a/b", "max_repeated_segments"),
        ("/a/b/a/b/a/b/a/c", None),
        ("/s/a/b/c/a/b/c/a/b/c/a/b/c/index.html", "max_repeated_segments"),
        ("////", "max_repeated_segments"),
        ("/0/0/0/12", None),
        ("/?a/a/a/a/a/a", None),
        # calendars
        ("/calendar/2052-12", None),
        ("/calendar/2053-01", "max_calendar_years"),
        ("/calendar/2001/12/31", "max_calendar_years"),
        ("/events?year=2300&month=1", "max_calendar_years"),
        ("/cal?date=20530101", "max_calendar_years"),
        ("/cal?date=20270101", None),
        ("/agenda.php?y=1", "max_calendar_years"),
        ("/agenda.php?y=12027", "max_calendar_years"),
        ("/2053/01/what-will-be", None),  # no calendar
        ("/parts/4500-12/", None),
        ("/local/medical/8000/11", None),
        ("/events/123456789", None),
        ("/events/1999/17", None),  # no month
        ("/event/20531399", None),
    ],
)
def test_the_shape_of_a_url(path: str, rule: str | None) -> None:
    assert Shapes(config.Traps(), YEAR).rule(url.normalise(A + path)) == rule


def test_every_rule_on_shapes_can_be_switched_off() -> None:
    long = A + "/calendar/9999-12" + "/a" * 3000
    assert Shapes(config.Traps(), YEAR).rule(long) is not None
    assert Shapes(traps(), YEAR).rule(long) is None


@given(st.lists(st.sampled_from("ab"), max_size=14), st.integers(1, 4))
def test_repeated_segments_as_a_pattern_says_it(segments: list[str], most: int) -> None:
    path = "/" + "/".join(segments)
    repeated = re.search(rf"(?<=/)((?:[^/]*/)+?)\1{{{most}}}", path + "/")
    rule = Shapes(traps(max_repeated_segments=most), YEAR).rule(A + path)
    assert (rule is not None) == (repeated is not None)


def test_the_scope_keeps_traps_out_and_counts_the_links() -> None:
    shapes = Shapes(config.Traps(), YEAR)
    scope = Scope(config.Scope(), Sites("authority"), [A + "/"], shapes.rule)
    verdict = scope.judge(A + "/a/a/a/a")
    assert (verdict.allowed, verdict.rule) == (False, "traps.max_repeated_segments")
    assert scope.trapped == {}  # it was only asked
    assert scope.link(A + "/a/a/a/a").flags == OUT_OF_SCOPE
    assert scope.link(A + "/a").flags == 0
    assert scope.link("http://b.example/a/a/a/a").flags == OUT_OF_SCOPE  # whatever its shape
    assert scope.trapped == {"max_repeated_segments": 1}


# --- growing URLs


def fetches_until_caught(step: object, start: str, most: int = 100) -> int:
    """How many URLs of a chain are let in, each found on the page before."""
    watch = Watch(traps(max_growth=8))
    page, address = None, start
    for number in range(most):
        target = found(address)
        if not watch.admit(target, page):
            return number
        page, address = target, step(address)  # type: ignore[operator]
    return most


@pytest.mark.parametrize(
    ("start", "step"),
    [
        ("/?pos=", lambda a: a + "%2F"),
        ("/list?pos=%2F&lang=en", lambda a: a.replace("pos=", "pos=%2F")),
        ("/?q=x", lambda a: a + "x"),
        ("/?q=x", lambda a: a + "%20"),
        ("/?next=/x", lambda a: a + "%3Fnext%3D/x"),
        ("/?tag=a", lambda a: a + "&tag=a"),
        ("/?tag=a", lambda a: a + f"&tag={len(a):x}z"),
        ("/?a=1&b=2", lambda a: a.replace("b=2", "amp;b=2")),
        ("/?a=1&b=2", lambda a: a.replace("b=2", "amp%3Bb=2")),
        ("/dir/page", lambda a: a + "-x"),
        ("/dir/%2F", lambda a: a + "%2F"),
        ("/?u=%2Fa%2Fb", lambda a: a.replace("%", "%25")),
    ],
)
def test_url_trap_growing_is_caught_within_10_fetches(start: str, step: object) -> None:
    assert fetches_until_caught(step, start) <= 10


def test_a_growing_url_is_caught_among_others_that_grow() -> None:
    """Each page has links to all the chains: two grow, one is of numbers."""
    watch = Watch(config.Traps())
    pages, fetched = [found("/?pos=", A)], 0
    while pages and fetched < 200:
        page, *pages = pages
        fetched += 1
        for more in ("%2F", "x"):
            target = found(page.url.removeprefix(A) + more)
            if watch.admit(target, page):
                pages.append(target)
        assert watch.admit(found(f"/?page={fetched}"), page)
    assert fetched == 200  # a tree of two to the eighth; but no URL of it is longer than that
    assert max(len(page.url) for page in pages) <= len(A + "/?pos=" + "%2F" * 8)


@pytest.mark.parametrize(
    "path",
    [
        [f"/?page={number}" for number in range(3000)],
        [f"/?id={10**number}" for number in range(20)],
        [f"/item{'1' * number}" for number in range(1, 20)],
        [f"/{'x/' * number}" for number in range(1, 20)],
        [f"/{'x/' * number}index.html" for number in range(1, 20)],
        [f"/dir/{word}" for word in ("a", "an", "ant", "anti", "antic", "x", "xylophone", "zoo")],
        [f"/?sort={s}&order={o}&page={p}" for p in range(50) for s in "abc" for o in "xy"],
        ["/" + "".join("abcdefgh"[:n]) for n in range(1, 9)],  # eight are let in
    ],
)
def test_what_only_looks_as_if_it_grew_is_let_in(path: list[str]) -> None:
    watch = Watch(config.Traps())
    urls = [found(one) for one in path]
    assert all(watch.admit(one, before) for one, before in zip(urls, [None, *urls], strict=False))
    assert watch.fired == {}


def test_what_is_remembered_of_grown_urls_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawler.traps._WATCHED_URLS", 10)
    watch = Watch(traps(max_growth=8))
    for number in range(100):
        assert watch.admit(found(f"/{number}xx"), found(f"/{number}x"))
    assert len(watch._growths) == 10


# --- counts


def admitted(watch: Watch, paths: list[str]) -> int:
    return sum(watch.admit(found(path), None) for path in paths)


@pytest.mark.parametrize(
    "template",
    [
        "/page?PHPSESSID={}",
        "/page;jsessionid={}?x=1",
        "/page?x=1&sid={}&y=2",
        "/page?session_id={}",
        "/(S({}))/page.aspx",
        "/page?osCsid={}",
    ],
)
def test_urls_that_differ_only_in_a_session_id(template: str) -> None:
    watch = Watch(traps(max_session_ids=10))
    ids = [f"{number:032x}" for number in range(50)]
    assert admitted(watch, [template.format(one) for one in ids]) == 10
    assert watch.fired == {"max_session_ids": 40}
    assert admitted(watch, [template.replace("page", "other").format(one) for one in ids]) == 10


@pytest.mark.parametrize(
    "template",
    ["/news?newsid={}", "/story?sid={}", "/article?id={}", "/page?sid=07/05/{}", "/session/{}"],
)
def test_numbers_of_articles_are_no_session_ids(template: str) -> None:
    watch = Watch(config.Traps())
    assert admitted(watch, [template.format(number + 123456) for number in range(200)]) == 200


def test_queries_per_path() -> None:
    watch = Watch(traps(max_queries_per_path=5))
    assert admitted(watch, [f"/list?a={number}" for number in range(9)]) == 5
    assert admitted(watch, [f"/other?a={number}" for number in range(9)]) == 5
    assert admitted(watch, [f"/list/{number}" for number in range(9)]) == 9
    assert watch.fired == {"max_queries_per_path": 8}


def test_urls_per_site() -> None:
    watch = Watch(traps(max_urls_per_site=5))
    assert admitted(watch, [f"/{number}" for number in range(9)]) == 5
    assert watch.admit(found("/", "http://b.example"), None)
    assert watch.fired == {"max_urls_per_site": 4}


def row(
    number: int, digest: str | None, *, site: str = A, size: int = 1, duplicate: bool = True
) -> PageRow:
    return PageRow(
        f"{site}/{number}", number, site, 0, 0, 0, 0.0, 0.0,
        status=200, bytes=size, digest=digest, duplicate=duplicate,
    )  # fmt: skip


def test_links_of_pages_that_are_all_the_same_are_followed_so_often() -> None:
    """As of a site that answers 200 with the same page whatever it is asked for."""
    watch = Watch(traps(max_same_content=3))
    follow = [watch.stored(row(n, "sha1:same", duplicate=n > 0)) for n in range(6)]
    assert follow == [True, True, True, False, False, False]
    assert watch.stored(row(7, "sha1:other", duplicate=False))
    assert watch.stored(row(8, "sha1:same", site="http://b.example"))
    assert watch.fired == {"max_same_content": 3}


def test_bytes_per_site() -> None:
    watch = Watch(traps(max_bytes_per_site=10))
    assert not watch.is_full(A)
    assert watch.stored(row(0, None, size=9))
    assert not watch.is_full(A)
    assert watch.stored(row(1, None, size=5))
    assert watch.is_full(A)
    assert not watch.is_full("http://b.example")
    assert watch.fired == {"max_bytes_per_site": 1}


def test_depth() -> None:
    watch = Watch(traps(max_depth=3))
    assert [watch.too_deep(hops) for hops in range(5)] == [False, False, False, True, True]
    assert watch.fired == {"max_depth": 2}


def test_every_count_can_be_switched_off() -> None:
    watch = Watch(traps())
    paths = [f"/x?PHPSESSID={number:032x}" for number in range(100)]
    assert admitted(watch, paths + ["/?a=" + "%2F" * number for number in range(50)]) == 150
    assert all(watch.stored(row(number, "sha1:same", size=1 << 50)) for number in range(200))
    assert not watch.is_full(A)
    assert not watch.too_deep(10**6)
    assert watch.fired == {}


@given(st.lists(st.text("abc/?&=%2F", max_size=12), max_size=30, unique=True))
def test_any_urls_are_judged_in_any_order(paths: list[str]) -> None:
    """Nothing raises, and so few URLs meet no limit on counts."""
    watch = Watch(config.Traps())
    urls = [found("/" + path) for path in paths]
    for one, before in zip(urls, [None, *urls], strict=False):
        watch.admit(one, before)
    assert set(watch.fired) <= {"max_growth"}
