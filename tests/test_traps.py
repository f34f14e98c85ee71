"""The rules on places without end: what each holds, and above all what it lets through."""

import re
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from crawls import crawl_here, metrics_of, sets, write_config
from hypothesis import given
from hypothesis import strategies as st
from rensa import RMinHash
from servers import Page, PageServer

from crawler import config, url
from crawler.ports import OUT_OF_SCOPE, CrawlUrl, Failure, Fetched, Link, PageRow, Response
from crawler.reading.branches import Branches, sketch_of
from crawler.reading.scope import Scope, Sites
from crawler.reading.shapes import Shapes
from crawler.reading.traps import TrapMonitor

A = "http://a.example"
YEAR = 2027
OFF = dict.fromkeys(config.Traps.all_keys, 0)


def traps(**limits: int) -> config.Traps:
    """Only the given rules."""
    return config.Traps(**{**OFF, **limits})


def found(path: str, site: str = A) -> CrawlUrl:
    address = url.normalise(site + path)
    return CrawlUrl(url.key(address), address, site, 0)


LINK = Link(1, A + "/elsewhere", A, 0)


def response(address: str, body: bytes) -> Response:
    """A page with this body."""
    return Response(address, 0.0, 0.0, None, b"", "1.1", 200, "OK", (), body, body)


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
    watch = TrapMonitor(traps(max_growth=8))
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
    watch = TrapMonitor(config.Traps())
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
    watch = TrapMonitor(config.Traps())
    urls = [found(one) for one in path]
    assert all(watch.admit(one, before) for one, before in zip(urls, [None, *urls], strict=False))
    assert watch.fired == {}


def test_what_is_remembered_of_grown_urls_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawler.reading.traps._WATCHED_URLS", 10)
    watch = TrapMonitor(traps(max_growth=8))
    for number in range(100):
        assert watch.admit(found(f"/{number}xx"), found(f"/{number}x"))
    assert len(watch._growths) == 10


# --- counts


def admitted(watch: TrapMonitor, paths: list[str]) -> int:
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
    watch = TrapMonitor(traps(max_session_ids=10))
    ids = [f"{number:032x}" for number in range(50)]
    assert admitted(watch, [template.format(one) for one in ids]) == 10
    assert watch.fired == {"max_session_ids": 40}
    assert admitted(watch, [template.replace("page", "other").format(one) for one in ids]) == 10


@pytest.mark.parametrize(
    "template",
    ["/news?newsid={}", "/story?sid={}", "/article?id={}", "/page?sid=07/05/{}", "/session/{}"],
)
def test_numbers_of_articles_are_no_session_ids(template: str) -> None:
    watch = TrapMonitor(config.Traps())
    assert admitted(watch, [template.format(number + 123456) for number in range(200)]) == 200


def test_queries_per_path() -> None:
    watch = TrapMonitor(traps(max_queries_per_path=5))
    assert admitted(watch, [f"/list?a={number}" for number in range(9)]) == 5
    assert admitted(watch, [f"/other?a={number}" for number in range(9)]) == 5
    assert admitted(watch, [f"/list/{number}" for number in range(9)]) == 9
    assert watch.fired == {"max_queries_per_path": 8}


def test_urls_per_site() -> None:
    watch = TrapMonitor(traps(max_urls_per_site=5))
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
    watch = TrapMonitor(traps(max_same_content=3))
    follow = [watch.stored(row(n, "sha1:same", duplicate=n > 0)) for n in range(6)]
    assert follow == [True, True, True, False, False, False]
    assert watch.stored(row(7, "sha1:other", duplicate=False))
    assert watch.stored(row(8, "sha1:same", site="http://b.example"))
    assert watch.fired == {"max_same_content": 3}


# --- near-duplicates

WORDS = [f"{a}{b}{c}" for a in "bdfgk" for b in "aeiou" for c in "lmnrst"]  # 150


def text(number: int, varied: int) -> bytes:
    """A page of 100 words, of which so many are its own, in a template."""
    own = [f"{word}{'xyz'[number % 3] * (number + 1)}" for word in WORDS[:varied]]
    links = "".join(f"<a href='/{n}?from={number}'>{n}</a>" for n in range(9))
    return f"<p id={number}>{' '.join(own + WORDS[varied:100])}{links} {number}</p>".encode()


def branches(*pages: tuple[str, bytes], limit: int = 5) -> Branches:
    known = Branches(limit)
    for path, body in pages:
        known.add(A + path, body)
    return known


def test_a_branch_of_near_duplicates_is_poor_and_its_neighbours_are_not() -> None:
    trap = [(f"/cal/day.php?month={n}", text(n, 1)) for n in range(6)]
    good = [(f"/cal/{n}.html", text(n, 30)) for n in range(6)]
    known = branches(*(page for pair in zip(trap, good, strict=True) for page in pair))
    assert known.is_poor(A + "/cal/day.php?month=77")
    assert known.is_poor(A + "/cal/day.php?month=")
    assert not known.is_poor(A + "/cal/day.php?month=1&year=2")  # other names in its query
    assert not known.is_poor(A + "/cal/77.html")
    assert not known.is_poor("http://b.example/cal/day.php?month=77")


def test_so_many_near_duplicates_in_a_row_make_a_branch_poor_until_another_page_comes() -> None:
    alike = [(f"/x/{n}", text(n, 1)) for n in range(9)]
    assert not branches(*alike[:5]).is_poor(A + "/x/y")  # the first is like none before it
    assert branches(*alike[:6]).is_poor(A + "/x/y")
    assert not branches(*alike[:6], ("/x/new", text(0, 60))).is_poor(A + "/x/y")
    assert not branches(*alike[:5], ("/x/new", text(0, 60)), *alike[5:]).is_poor(A + "/x/y")


def test_two_templates_in_turn_are_near_duplicates_too() -> None:
    pages = [(f"/x/{n}", text(n % 2, 60) + b"%d" % n) for n in range(7)]
    assert branches(*pages).is_poor(A + "/x/7")


def test_a_site_that_answers_anything_anywhere_is_poor_where_it_is_not_known_yet() -> None:
    """A soft 404 that repeats what it was asked for: no two pages have the same bytes."""
    asked = [WORDS[n] for n in range(6)]
    soft = [(f"/{word}/", b"Sorry, no " + word.encode() + text(0, 0)) for word in asked]
    good = [(f"/wiki/{n}", text(n, 60)) for n in range(6)]
    known = branches(*(page for pair in zip(good, soft, strict=True) for page in pair))
    assert known.is_poor(A + "/somewhere/")
    assert known.is_poor(A + "/some/where/else")
    assert not known.is_poor(A + "/wiki/new")
    assert not known.is_poor("http://b.example/somewhere/")


def test_numbers_in_folders_and_queries_make_no_branches() -> None:
    pages = [(f"/2026/{n}/?p={n}", text(0, 0)) for n in range(6)]
    assert branches(*pages).is_poor(A + "/1999/11/?p=0")


def test_only_one_page_in_sixteen_is_compared_where_the_limit_is_generous() -> None:
    pages = [(f"/x/{n}", text(0, 0)) for n in range(1000)]
    limit = config.Traps().max_near_duplicates
    compared = -(-limit // 16) + 1  # the first compared is like none before it
    assert not branches(*pages[: compared * 16 - 1], limit=limit).is_poor(A + "/x/y")
    assert branches(*pages[: compared * 16], limit=limit).is_poor(A + "/x/y")


def test_what_is_remembered_of_branches_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawler.reading.branches._WATCHED_BRANCHES", 10)
    known = branches(*((f"/x/{n}", b"x") for n in range(6)))
    assert known.is_poor(A + "/x/y")
    for name in "abcdefghijkl":
        known.add(f"http://{name}.example/", text(0, 0))
    assert len(known._branches) == 10
    assert known._sketches == sum(len(one.sketches) for one in known._branches.values())
    assert not known.is_poor(A + "/x/y")  # forgotten


@given(
    st.lists(st.sampled_from([*b"<>a1 \n\t\x1c\x85\xa0"]) | st.integers(0, 255)).map(bytes),
)
def test_a_sketch_is_that_of_the_words_outside_tags_without_digits(body: bytes) -> None:
    texts = [piece.partition(b"<")[0] for piece in body.split(b">")]
    words = re.sub(rb"[0-9]", b"", b" ".join(texts)).decode("latin-1").split()
    plain = RMinHash(num_perm=64, seed=1)
    plain.update(words)
    assert sketch_of(body).tolist() == plain.digest()


def test_the_watch_counts_what_comes_last() -> None:
    watch = TrapMonitor(traps(max_near_duplicates=5))
    for number in range(6):
        page = found(f"/x/{number}")
        body = text(number, 1)
        watch.compare(Fetched(page, 0.0, response(page.url, body), links=[LINK]))
    assert watch.is_poor(found("/x/7"))
    assert not watch.is_poor(found("/y/7"))
    assert watch.fired == {"max_near_duplicates": 1}


@pytest.mark.parametrize("changes", [{"status": 404}, {"body": b""}])
def test_only_pages_that_lead_somewhere_are_compared(changes: dict[str, Any]) -> None:
    watch = TrapMonitor(traps(max_near_duplicates=1))
    page = found("/x/1")
    links = [] if changes == {"body": b""} else [LINK]
    for _ in range(9):
        reply = msgspec.structs.replace(response(page.url, b"same"), **changes)
        watch.compare(Fetched(page, 0.0, reply, links=links))
        watch.compare(Fetched(page, 0.0, failure=Failure.TIMEOUT))
    assert not watch.is_poor(page)


@given(st.lists(st.binary(max_size=40), max_size=12), st.text("/?&=;1a%", max_size=20))
def test_any_pages_can_be_compared(bodies: list[bytes], path: str) -> None:
    address = url.normalise(A + "/" + path)
    known = Branches(1)
    for body in bodies:
        known.add(address, body)
    known.is_poor(address)


# --- whole crawls


class Following(dict[str, Page]):
    """A site whose every page leads to others, or is a redirect, as a function of path says."""

    def __init__(self, links: Callable[[str], list[str] | str]) -> None:
        super().__init__()
        self._links = links

    def get(self, path: str, default: Any = None) -> Any:
        links = self._links(path)
        if isinstance(links, str):
            return Page(status=302, headers={"Location": links})
        body = "".join(f"<a href='{link}'>x</a>" for link in links).encode() + path.encode()
        return Page(body, headers={"Content-Type": "text/html"})


def number_in(path: str, otherwise: int = 0) -> int:
    number = re.search(r"\d+", path)
    return int(number[0]) if number else otherwise


def new_id(path: str) -> str:
    return f"{url.key(path):032x}"


# Site -> what its pages link to, how many of its URLs are asked for, and the rule that held it.
PLACES_WITHOUT_END: dict[str, tuple[Callable[[str], list[str] | str], int, str]] = {
    # /, and every fifth year from 2010 to 25 years from now; now is in the 2020s
    "calendar": (lambda p: [f"/calendar?year={number_in(p, 2005) + 5}"], 0, "max_calendar_years"),
    "session-in-query": (lambda p: [f"/?PHPSESSID={new_id(p)}"], 1 + 10, "max_session_ids"),
    "session-in-path": (lambda p: [f"/x;jsessionid={new_id(p)}"], 1 + 10, "max_session_ids"),
    "mirror": (lambda p: ["a/b/"], 1 + 3, "max_repeated_segments"),
    "grows": (lambda p: [f"{p if '?' in p else '/?q='}%2F"], 1 + 1 + 8, "max_growth"),
    "long": (lambda p: [f"{p.rstrip('/')}/{'x' * 500}{len(p)}"], 1 + 4, "max_url_length"),
    "facets": (lambda p: [f"/list?a={number_in(p) + n}&b=x" for n in range(9)], 1 + 20,
               "max_queries_per_path"),
    "numbers": (lambda p: [f"/n/{number_in(p) + 1}"], 60, "max_urls_per_site"),
    "redirects": (lambda p: ["/r/0"] if p == "/" else f"/r/{number_in(p) + 1}", 1 + 1 + 20, ""),
    # Of each of four chains six URLs are asked for, and twenty more of all of them.
    "many-redirects": (lambda p: [f"/r{n}/0" for n in range(4)] if p == "/" else
                       f"{p[: p.rindex('/')]}/{int(p[p.rindex('/') + 1 :]) + 1}",
                       1 + 4 * (1 + 5) + 20, "max_long_redirects"),
    "soft-404": (lambda p: [f"{new_id(p)}/", f"/{new_id(p)[::-1]}"], 60, "max_urls_per_site"),
}  # fmt: skip


def test_no_place_without_end_costs_a_good_site_anything(tmp_path: Path) -> None:
    good = Following(lambda p: [f"/{number_in(p, -1) + 1}"] if number_in(p) < 49 else [])
    sites = {name: Following(links) for name, (links, _, _) in PLACES_WITHOUT_END.items()}
    home = [f"http://{name}.example/" for name in (*sites, "good")]
    with ExitStack() as stack:
        pages = {**sites, "good": good, "home": Following(lambda p: home)}
        servers = {name: stack.enter_context(PageServer(page)) for name, page in pages.items()}
        hosts = {f"{name}.example": f"127.0.0.1:{server.port}" for name, server in servers.items()}
        config = write_config(
            tmp_path / "c.toml",
            {
                "session": {"seeds": ["http://home.example/"]},
                "scope": {"hosts": [*hosts]},
                "politeness": {"delay_s": 0},
                "robots": {"obey": False},
                "dns": {"hosts": hosts},
                "traps": {
                    "max_urls_per_site": 60,
                    "max_queries_per_path": 20,
                    "max_long_redirects": 20,
                },
            },
        )
        session = tmp_path / "s"
        done = crawl_here(session, str(config))
        assert done.returncode == 0, done.stderr
        asked = {name: servers[name].paths for name in servers}
    assert sorted(asked["good"]) == sorted(["/", *(f"/{n}" for n in range(50))])  # coverage 1.0
    assert all(len(paths) == len(set(paths)) for paths in asked.values())
    for name, (_, count, _) in PLACES_WITHOUT_END.items():
        assert len(asked[name]) == count or name == "calendar", name
    assert 5 < len(asked["calendar"]) < 12
    metrics = metrics_of(session)
    assert metrics["complete"]
    rules = {rule for _, _, rule in PLACES_WITHOUT_END.values() if rule}
    assert set(metrics["by_trap"]) == rules
    assert metrics["by_error"] == {"too-many-redirects": 1 + 4}


def test_long_chains_that_arrive_cost_a_site_nothing(tmp_path: Path) -> None:
    def leads_to(path: str) -> list[str] | str:
        if path == "/":
            return [f"/r{number}/0" for number in range(6)]
        chain, _, step = path.rpartition("/")
        if step == "page":
            return [f"/s{chain[2:]}/0"] if chain.startswith("/r") else []
        return f"{chain}/{int(step) + 1}" if int(step) < 12 else [f"{chain}/page"]

    site = Following(leads_to)
    with PageServer(site) as server:
        session = tmp_path / "s"
        done = crawl_here(
            session,
            f"http://127.0.0.1:{server.port}/",
            *sets("politeness.delay_s=0", "robots.obey=false", "traps.max_long_redirects=50"),
        )
        assert done.returncode == 0, done.stderr
        assert {f"/{kind}{number}/page" for kind in "rs" for number in range(6)} <= set(
            server.paths
        )
    assert metrics_of(session)["by_error"] == {}


class AnswersAnything(dict[str, Page]):
    """A chain of good pages at /wiki/; whatever else is asked for is answered in the same words,
    with links that are always new."""

    def get(self, path: str, default: Any = None) -> Any:
        parts = path.strip("/").split("/")
        if parts[0] == "wiki":
            number = int(parts[1])
            links, said = [f"/wiki/{number + 1}", f"/{WORDS[number]}/"], text(number, 60)
            links = links if number < 30 else []
        else:
            links, said = [f"{parts[-1]}x/", f"/{parts[0]}y/"], f"No {path}!".encode() + text(0, 0)
        said += b"".join(b"<a href='%s'>x</a>" % link.encode() for link in links)
        return Page(said, headers={"Content-Type": "text/html"})


def test_a_site_that_answers_anything_has_its_good_pages_fetched_first(tmp_path: Path) -> None:
    """The trap doubles with every step; of the chain a page shows one more."""

    def fetched(limit: int) -> list[str]:
        with PageServer(AnswersAnything()) as server:
            settings = ["politeness.delay_s=0", "robots.obey=false", "sitemaps.well_known=false"]
            settings += [f"traps.max_near_duplicates={limit}"]
            settings += ["traps.max_repeated_segments=0"]
            words = [f"{server.url}/wiki/0", "--max-pages", "180", *sets(*settings)]
            session = tmp_path / str(limit)
            done = crawl_here(session, *words)
            assert done.returncode == 0, done.stderr
            assert ("max_near_duplicates" in metrics_of(session)["by_trap"]) == (limit > 0)
            return list(server.paths)

    assert sum("wiki" in path for path in fetched(0)) < 10
    held = fetched(10)
    assert sum("wiki" in path for path in held) == 31  # coverage 1.0
    assert len(held) == 180  # what comes last comes nevertheless


def test_bytes_per_site() -> None:
    watch = TrapMonitor(traps(max_bytes_per_site=10))
    assert not watch.is_full(A)
    assert watch.stored(row(0, None, size=9))
    assert not watch.is_full(A)
    assert watch.stored(row(1, None, size=5))
    assert watch.is_full(A)
    assert not watch.is_full("http://b.example")
    assert watch.fired == {"max_bytes_per_site": 1}


def test_depth() -> None:
    watch = TrapMonitor(traps(max_depth=3))
    assert [watch.too_deep(hops) for hops in range(5)] == [False, False, False, True, True]
    assert watch.fired == {"max_depth": 2}


def test_every_count_can_be_switched_off() -> None:
    watch = TrapMonitor(traps())
    paths = [f"/x?PHPSESSID={number:032x}" for number in range(100)]
    assert admitted(watch, paths + ["/?a=" + "%2F" * number for number in range(50)]) == 150
    assert all(watch.stored(row(number, "sha1:same", size=1 << 50)) for number in range(200))
    for number in range(200):
        page = found(f"/x/{number}")
        watch.compare(Fetched(page, 0.0, response(page.url, b"same"), links=[LINK]))
    assert not watch.is_poor(found("/x/y"))
    assert not watch.is_full(A)
    assert not watch.too_deep(10**6)
    assert watch.fired == {}


@given(st.lists(st.text("abc/?&=%2F", max_size=12), max_size=30, unique=True))
def test_any_urls_are_judged_in_any_order(paths: list[str]) -> None:
    """Nothing raises, and so few URLs meet no limit on counts."""
    watch = TrapMonitor(config.Traps())
    urls = [found("/" + path) for path in paths]
    for one, before in zip(urls, [None, *urls], strict=False):
        watch.admit(one, before)
    assert set(watch.fired) <= {"max_growth"}
