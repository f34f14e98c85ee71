"""Chains of redirects, how long they may be, and the cookies that live as long as one."""

import json
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from crawls import assert_sound, crawl_here, metrics_of, page_rows, run_here, sets
from fetches import response
from hypothesis import given
from hypothesis import strategies as st
from servers import RawServer, read_head

from crawler import config
from crawler.reading import cookies
from crawler.reading.cookies import Jar, Jars, join_cookies
from crawler.reading.reader import MAX_REDIRECTS

A = "http://a.example/x/y"
PAST = "Expires=Thu, 01 Jan 1970 00:00:00 GMT"


def set_by(*lines: str, url: str = A) -> Jar:
    """The jar after a response with these Set-Cookie lines."""
    headers = [(b"Set-Cookie", line.encode()) for line in lines]
    return Jar().after(response(url, headers=headers, status=302))


# Cookies


@pytest.mark.parametrize(
    ("line", "url", "sent"),
    [
        ("a=1", "http://a.example/x/z", "a=1"),
        ("a=1", "http://a.example/x", "a=1"),
        ("a=1", "http://a.example/", ""),
        ("a=1", "http://a.example:81/x/", "a=1"),
        ("a=1", "https://a.example/x/", "a=1"),
        ("a=1", "http://b.a.example/x/", ""),
        ("a=1; Path=/", "http://a.example/?q", "a=1"),
        ("a=1; path=/x/y; HttpOnly; SameSite=Lax", "http://a.example/x/y", "a=1"),
        ("a=1; Path=/x/y", "http://a.example/x/yz", ""),
        ("a=1; Path=x", "http://a.example/x/", "a=1"),
        ("a=1; Domain=.A.example; Path=/", "http://b.a.example/", "a=1"),
        ("a=1; Domain=b.example; Path=/", "http://b.example/", ""),
        ("a=1; Domain=example; Path=/", "http://b.example/", ""),
        ("a=1; Domain=example; Path=/", "http://a.example/", ""),
        ("a=1; Secure; Path=/", "http://a.example/", ""),
        ("a=1; Secure; Path=/", "https://a.example/", "a=1"),
        ("a=1; Max-Age=0; Path=/", "http://a.example/", ""),
        ("a=1; Max-Age=-1; Path=/", "http://a.example/", ""),
        (f"a=1; Max-Age=60; {PAST}; Path=/", "http://a.example/", "a=1"),
        ("a=1; Expires=Thu, 01-Jan-1970 00:00:00 GMT; Path=/", "http://a.example/", ""),
        ("a=1; Expires=Thu, 01 Jan 2099 00:00:00 GMT; Path=/", "http://a.example/", "a=1"),
        ("a=1; Expires=some day; Path=/", "http://a.example/", "a=1"),
        ("a=; Path=/", "http://a.example/", "a="),
        ("a; Path=/", "http://a.example/", "a"),
        ("a=b=c; Path=/", "http://a.example/", "a=b=c"),
        ("=; Path=/", "http://a.example/", ""),
        ("; Path=/", "http://a.example/", ""),
        ("a=1\x00; Path=/", "http://a.example/", ""),
        ("a=z\xfcrich; Path=/", "http://a.example/", "a=z\xfcrich"),
    ],
)  # fmt: skip
def test_where_a_cookie_goes(line: str, url: str, sent: str) -> None:
    assert set_by(line).header(url) == sent


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_cookies_of_addresses(host: str) -> None:
    url = f"http://{host}:8080/"
    assert set_by("a=1", url=url).header(url) == "a=1"
    assert set_by("a=1; Domain=0.0.1", url=url).header(url) == ""


def test_a_later_response_changes_and_deletes() -> None:
    jar = set_by("a=1; Path=/", "b=2; Path=/", "c=3; Path=/x")
    later = [(b"set-cookie", b"a=9; Path=/"), (b"SET-COOKIE", b"b=; Max-Age=0; Path=/")]
    assert jar.after(response(A, headers=later)).header(A) == "c=3; a=9"


@given(st.lists(st.binary(max_size=6000), max_size=60))
def test_any_set_cookie_ends_in_a_small_jar(lines: list[bytes]) -> None:
    headers = [(b"Set-Cookie", line) for line in lines]
    header = Jar().after(response(A, headers=headers)).header(A)
    assert len(header) < 5000
    assert "\r" not in header
    assert "\n" not in header
    header.encode(errors="surrogateescape")


def test_jars_are_few_and_taken_once() -> None:
    jars, jar = Jars(), set_by("a=1")
    for key in range(3000):
        jars.put(key, jar)
    assert [jars.take(key).cookies == jar.cookies for key in (999, 1000, 2999)] == [
        False,
        True,
        True,
    ]
    assert jars.get(2999) == jars.take(2999) == Jar()


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3))))
def test_jars_say_how_much_memory_they_take(steps: list[tuple[int, int]]) -> None:
    jars = Jars()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cookies, "_MAX_JARS", 5)
        for key, number in steps:
            if number:
                jars.put(key, set_by(*(f"a{one}=1" for one in range(number))))
            else:
                jars.take(key)
            kept = [jar for jar in map(jars.get, range(10)) if jar.cookies]
            assert jars.nbytes() == sum(jar.nbytes() for jar in kept)
            assert (jars.nbytes() == 0) == jars.empty


def test_cookies_of_a_file_and_of_a_chain() -> None:
    assert join_cookies("", "a=1") == "a=1"
    assert join_cookies("a=0; b=2", "a=1; c=3") == "b=2; a=1; c=3"


# Crawls

Answer = Callable[[str, str], bytes]  # of path and Cookie


def moved(to: str, *cookies: str) -> bytes:
    lines = "".join(f"Set-Cookie: {cookie}\r\n" for cookie in cookies)
    head = f"HTTP/1.1 302 Found\r\nLocation: {to}\r\n{lines}Content-Length: 0\r\n\r\n"
    return head.encode()


def page(body: str = "") -> bytes:
    text = f"<html>{body}".encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n"
    return head % len(text) + text


class Site:
    """Answers by path and cookie; what was asked is kept."""

    def __init__(self, answer: Answer) -> None:
        self.asked: list[tuple[str, str]] = []
        self._answer = answer
        self.server = RawServer(self._serve)

    def _serve(self, connection: socket.socket) -> None:
        head = self.server.requests[-1]
        while head:
            lines = head.decode().split("\r\n")
            headers: Mapping[str, str] = dict(line.split(": ", 1) for line in lines[1:-2])
            asked = lines[0].split(" ")[1], headers.get("Cookie", "")
            self.asked.append(asked)
            connection.sendall(self._answer(*asked))
            head = read_head(connection)


def crawl(
    tmp_path: Path, answer: Answer, *words: str, path: str = "/"
) -> tuple[Site, list[object]]:
    """The site, and the rows: path, status, error."""
    site = Site(answer)
    with site.server as server:
        settings = sets("robots.obey=false", "politeness.delay_s=0")
        seed = server.url.rstrip("/") + path
        done = crawl_here(tmp_path / "s", seed, *settings, *words)
    assert "SECRET" not in done.stdout + done.stderr
    rows = page_rows(tmp_path / "s")
    has_page = any(row["status"] == 200 for row in rows)
    assert done.returncode == (0 if has_page else 1), done.stderr
    assert_sound(tmp_path / "s")
    return site, [("/" + r["url"].split("/", 3)[3], r["status"], r["error"]) for r in rows]


def test_a_page_that_sets_a_cookie_and_redirects_to_itself(tmp_path: Path) -> None:
    def answer(path: str, cookie: str) -> bytes:
        if path == "/" and not cookie:
            return moved("/", "ok=SECRET")
        return page("<a href=/in>")

    site, rows = crawl(tmp_path, answer)
    assert site.asked == [("/", ""), ("/", "ok=SECRET"), ("/in", "")]
    assert rows == [("/", 302, None), ("/", 200, None), ("/in", 200, None)]
    assert all(b"SECRET" not in path.read_bytes() for path in (tmp_path / "s").rglob("*.log"))


def test_a_page_whose_cookie_another_page_sets(tmp_path: Path) -> None:
    def answer(path: str, cookie: str) -> bytes:
        if path == "/login":
            return moved("/", "ok=1")
        return page("<a href=/in>") if cookie or path == "/in" else moved("/login")

    site, rows = crawl(tmp_path, answer)
    assert site.asked == [("/", ""), ("/login", ""), ("/", "ok=1"), ("/in", "")]
    assert [row[:2] for row in rows] == [("/", 302), ("/login", 302), ("/", 200), ("/in", 200)]
    measures = metrics_of(tmp_path / "s")
    assert (measures["pages"], measures["unique_pages"], measures["asked_again"]) == (4, 3, 1)
    assert measures["overlap"] == 0
    assert {point["overlap"] for point in measures["series"]} == {0}
    # A resume finds nothing to do.
    done = run_here("resume", str(tmp_path / "s"))
    assert done.returncode == 0, done.stderr
    assert len(page_rows(tmp_path / "s")) == 4


def test_cookies_go_along_a_chain(tmp_path: Path) -> None:
    def answer(path: str, cookie: str) -> bytes:
        if path == "/":
            return moved("/1", "a=1")
        if path == "/1":
            return moved("/2", "b=2; Path=/2", "c=3; Path=/elsewhere")
        return page()

    site, _ = crawl(tmp_path, answer)
    assert site.asked == [("/", ""), ("/1", "a=1"), ("/2", "b=2; a=1")]


def test_cookies_of_pages_are_not_taken(tmp_path: Path) -> None:
    def answer(path: str, cookie: str) -> bytes:
        return page("<a href=/1>").replace(b"\r\n", b"\r\nSet-Cookie: a=1\r\n", 1)

    site, _ = crawl(tmp_path, answer)
    assert site.asked == [("/", ""), ("/1", "")]


def test_a_cookie_from_another_host_and_back(tmp_path: Path) -> None:
    """The way of a single sign-on, on one rank: a cookie is for who set it."""

    def answer(path: str, cookie: str) -> bytes:
        if path == "/" and not cookie:
            return moved(f"http://b.example:{site.server.port}/login", "a=1")
        if path == "/login":
            return moved(f"http://a.example:{site.server.port}/back", "b=2; Path=/")
        if path == "/back":
            return moved("/", "c=3; Path=/")
        return page("<a href=/in>")

    site = Site(answer)
    hosts = 'dns.hosts={"a.example" = "127.0.0.1", "b.example" = "127.0.0.1"}'
    settings = sets("robots.obey=false", "politeness.delay_s=0", hosts, 'scope.domains=["*"]')
    with site.server as server:
        seed = f"http://a.example:{server.port}/"
        done = crawl_here(tmp_path / "s", seed, *settings)
    assert done.returncode == 0, done.stderr
    assert site.asked == [
        ("/", ""),
        ("/login", ""),
        ("/back", "a=1"),
        ("/", "a=1; c=3"),
        ("/in", ""),
    ]


@pytest.mark.parametrize(
    ("cookies", "asked"),
    [
        ((), 1),
        (("a=1; Path=/elsewhere",), 1),
        (("a=1; Domain=b.example",), 1),
        (("a=1; Max-Age=0",), 1),
        (("a=1",), 2),
        (("a=1", "b=2"), 2),
    ],
)
def test_a_loop_is_left_in_time(tmp_path: Path, cookies: tuple[str, ...], asked: int) -> None:
    site, rows = crawl(tmp_path, lambda path, cookie: moved("/", *cookies))
    assert len(site.asked) == asked
    assert rows[-1] == ("/", 302, "redirect-loop")


def test_new_cookies_each_time_make_no_endless_loop(tmp_path: Path) -> None:
    count = iter(range(10_000))

    def answer(path: str, cookie: str) -> bytes:
        return moved("/b" if path == "/" else "/", f"n{next(count)}=1")

    site, rows = crawl(tmp_path, answer)
    assert [path for path, _ in site.asked] == ["/", "/b", "/", "/b"]
    assert rows[-1] == ("/b", 302, "redirect-loop")


def test_a_limit_goes_before_a_cookie(tmp_path: Path) -> None:
    words = sets("fetch.max_redirects=0")
    site, rows = crawl(tmp_path, lambda path, cookie: moved("/", "a=1"), *words)
    assert (len(site.asked), rows) == (1, [("/", 302, "too-many-redirects")])


def test_configured_cookies_and_those_of_a_chain(tmp_path: Path) -> None:
    file = tmp_path / "cookies.txt"
    file.write_text("127.0.0.1\tFALSE\t/\tFALSE\t0\tmine\tSECRET\n")

    def answer(path: str, cookie: str) -> bytes:
        return page() if "ok" in cookie else moved("/", "ok=1")

    site, _ = crawl(tmp_path, answer, *sets(f"fetch.cookies_file={file}"))
    assert [cookie for _, cookie in site.asked] == ["mine=SECRET", "mine=SECRET; ok=1"]


@pytest.mark.parametrize(
    ("limit", "length", "error"),
    [
        (None, 5, None),
        (None, 6, None),
        (None, 20, None),
        (None, 21, "too-many-redirects"),
        (0, 0, None),
        (0, 1, "too-many-redirects"),
        (3, 3, None),
        (3, 4, "too-many-redirects"),
        (100, 100, None),
    ],
)
def test_chains_up_to_a_key(
    tmp_path: Path, limit: int | None, length: int, error: str | None
) -> None:
    def answer(path: str, cookie: str) -> bytes:
        number = int(path[1:])
        return page() if number == length else moved(f"/{number + 1}")

    words = sets() if limit is None else sets(f"fetch.max_redirects={limit}")
    _, rows = crawl(tmp_path, answer, *words, path="/0")
    end = (f"/{length}", 200, None) if error is None else (f"/{length - 1}", 302, error)
    assert rows[-1] == end


def test_the_default_is_that_of_browsers() -> None:
    assert config.Fetch().max_redirects == MAX_REDIRECTS == 20


def test_the_command_fetch_does_the_same(tmp_path: Path) -> None:
    def answer(path: str, cookie: str) -> bytes:
        if path == "/login":
            return moved("/", "ok=1")
        return page("in") if cookie else moved("/login")

    words = ("fetch", "--json", *sets("fetch.allow_private_addresses=true"))
    with Site(answer).server as server:
        found = json.loads(run_here(*words, server.url).stdout)
    assert (found["status"], len(found["redirects"])) == (200, 2)
    with Site(lambda path, cookie: moved("/", "a=1")).server as server:
        found = json.loads(run_here(*words, server.url).stdout)
    assert (found["error"], len(found["redirects"])) == ("redirect-loop", 2)
