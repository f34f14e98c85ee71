"""What goes with a request by configuration, and what of it no record shows; and proxies."""

import asyncio
import base64
import contextlib
import gzip
import socket
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from crawls import crawl_here, page_rows, sets
from fakes import FakeClock
from hypothesis import example, given, settings
from hypothesis import strategies as st
from servers import CERTIFICATE, RawServer
from test_net import HTML, OK, failure_of, get
from yarl import URL

from crawler import config
from crawler.net import DnsResolver, HttpFetcher
from crawler.net.credentials import Credentials
from crawler.net.proxies import NoProxy, Proxies
from crawler.ports import Failure, FetchError, Response, UserError, Validators

PAGE = OK + b"Content-Length: 23\r\n\r\n" + HTML
A = {"a.example": "127.0.0.1"}


def sent(head: bytes) -> dict[str, str]:
    """The headers of a request head."""
    lines = head.decode().split("\r\n")[1:-2]
    return dict(line.split(": ", 1) for line in lines)


def of_sites(tables: Mapping[str, Mapping[str, str]]) -> list[config.Site]:
    return [config.Site(match=(name,), headers=headers) for name, headers in tables.items()]


def headers(
    url: str, sites: Mapping[str, Mapping[str, str]] | None = None, **settings: object
) -> dict[str, str]:
    fetch = config.Fetch(**settings)
    return dict(Credentials(fetch, of_sites(sites or {})).headers(url))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file"


# Headers of sites


def test_headers_by_host_and_by_url() -> None:
    table = {
        r"^https://a\.example/": {"X-A": "2"},
        "a.example": {"x-a": "1", "Accept-Language": "de"},
        "A.example:81": {"X-B": "3"},
    }
    assert headers("http://a.example/", table) == {"x-a": "1", "Accept-Language": "de"}
    assert headers("https://a.example/", table) == {"X-A": "2", "Accept-Language": "de"}
    assert headers("http://a.example:81/x?y", table)["X-B"] == "3"
    assert headers("http://b.a.example/", table) == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("", "x"),
        ("A b", "x"),
        ("A:", "x"),
        ("A", "x\r\nB: y"),
        ("A", "\xe9"),
        ("Host", "b.example"),
    ],
)
def test_headers_that_cant_be_sent(name: str, value: str) -> None:
    with pytest.raises(UserError, match=r"^\[\[sites\]\] 2: headers") as caught:
        headers("http://a.example/", {"b.example": {}, "a.example": {name: value}})
    assert "\n" not in str(caught.value)


@given(
    st.dictionaries(
        st.from_regex(r"\A[A-Za-z][A-Za-z-]{0,20}\Z").filter(
            lambda name: (
                name.lower() not in {"connection", "content-length", "host", "transfer-encoding"}
            )
        ),
        st.from_regex(r"\ASECRET[!-~]{1,20}\Z"),
        min_size=1,
        max_size=5,
    )
)
@example({"L": "SECRET0", "l": "SECRET1"})
@settings(max_examples=30)
def test_no_configured_header_gets_into_a_record_whatever_its_name(table: dict[str, str]) -> None:
    with RawServer(PAGE) as server:
        response = get(f"http://a.example:{server.port}/", A, sites=of_sites({"a.example": table}))
    (head,) = server.requests
    assert b"SECRET" not in response.request_head
    # Of names that differ only in case, the last one counts: they name the same header.
    for name, value in {name.lower(): (name, value) for name, value in table.items()}.values():
        assert f"\r\n{name}: {value}\r\n".encode() in head
        assert f"\r\n{name}: withheld\r\n".encode() in response.request_head


def test_cookies_and_logins_get_into_no_record(file: Path) -> None:
    file.write_text("a.example\tFALSE\t/\tFALSE\t0\tid\tSECRET\n")
    logins = file.with_name("netrc")
    logins.write_text("machine a.example login me password SECRET\n")
    with RawServer(PAGE) as server:
        url = f"http://a.example:{server.port}/"
        response = get(url, A, cookies_file=str(file), netrc_file=str(logins))
    (head,) = server.requests
    basic = "Basic " + base64.b64encode(b"me:SECRET").decode()
    assert (sent(head)["Cookie"], sent(head)["Authorization"]) == ("id=SECRET", basic)
    shown = sent(response.request_head)
    assert (shown["Cookie"], shown["Authorization"]) == ("withheld", "withheld")


# Logins


def test_logins(file: Path) -> None:
    file.write_text(
        "machine a.example login me password my:word\n"
        "machine b.example login you password yours\n"
        "default login any password one\n"
    )
    basic = "Basic " + base64.b64encode(b"me:my:word").decode()
    for url in ("http://a.example/", "https://a.example:8443/x"):
        assert headers(url, netrc_file=str(file)) == {"Authorization": basic}
    assert headers("http://c.example/", netrc_file=str(file)) == {}
    own = {"a.example": {"Authorization": "Bearer x"}}
    found = headers("http://a.example/", own, netrc_file=str(file))
    assert found == {"Authorization": "Bearer x"}


@pytest.mark.parametrize("text", [None, "machine a.example login SECRET garbage", "\xff"])
def test_unusable_logins(file: Path, text: str | None) -> None:
    if text is not None:
        file.write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match=r"fetch\.netrc_file") as caught:
        headers("http://a.example/", netrc_file=str(file))
    assert "SECRET" not in str(caught.value).replace(str(file), "")


# Cookies

COOKIES = """\
# Netscape HTTP Cookie File

.a.example\tTRUE\t/\tFALSE\t0\tbelow\t1
a.example\tFALSE\t/\tFALSE\t4000000000\thost\t2
#HttpOnly_a.example\tFALSE\t/deep\tTRUE\t\tsecure\t3
a.example\tFALSE\t/\tFALSE\t1000000000\texpired\t4
a.example\tFALSE\t/deep/\tFALSE\t0\t\tbare
"""


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://a.example/", "below=1; host=2"),
        ("http://a.example/?/deep/", "below=1; host=2"),
        ("http://b.a.example/", "below=1"),
        ("http://a.example/deep", "below=1; host=2"),
        ("http://a.example/deep/x", "bare; below=1; host=2"),
        ("https://a.example/deep/x", "bare; secure=3; below=1; host=2"),
        ("https://a.example/deeper", "below=1; host=2"),
        ("http://ba.example/", None),
    ],
)
def test_cookies(file: Path, url: str, expected: str | None) -> None:
    file.write_text(COOKIES)
    assert headers(url, cookies_file=str(file)).get("Cookie") == expected


GOOD = "a.example\tFALSE\t/\tFALSE\t0\tsid\tabc\n"
OTHER = "b.example\tFALSE\t/\tFALSE\t0\t"


@pytest.mark.parametrize(
    ("text", "odd"),
    [
        (GOOD, 0),
        ("# Netscape HTTP Cookie File\n# https://curl.se\n\n" + GOOD, 0),
        ("\ufeff" + GOOD, 0),
        (GOOD.replace("\n", "\r\n"), 0),
        (GOOD.replace("\n", "\r"), 0),
        ("#HttpOnly_" + GOOD, 0),
        ("  " + GOOD, 0),
        (GOOD.replace("FALSE", "False"), 0),
        (GOOD.replace("FALSE", "false"), 0),
        (GOOD.replace("\t0\t", "\t4102444800.5\t"), 0),
        (GOOD.replace("\t0\t", "\t-1\t"), 0),
        (GOOD.replace("\t0\t", "\t\t"), 0),
        (GOOD.replace("\t0\t", "\t1.8e12\t"), 0),
        (GOOD.replace("\t0\t", "\t13450000000000000\t"), 0),  # microseconds
        (GOOD.replace("\t", "  "), 0),  # blanks for tabs
        (OTHER + "empty\n" + GOOD, 0),  # no value, and its tab is gone
        (OTHER + "empty\t\n" + GOOD, 0),
        (OTHER + "t\ta\tb\n" + GOOD, 0),
        (OTHER + "n\tz\xfcrich\n" + GOOD, 0),
        (OTHER + "n\ta\u2028b\x85c\n" + GOOD, 0),
        (OTHER + "n\ta\x00b\n" + GOOD, 1),
        ("rubbish\n" + GOOD + "more rubbish\t\t\n", 2),
        (GOOD + "b.example\tFALSE\t/\n", 1),
        (GOOD + "b.example\tMAYBE\t/\tFALSE\t0\tn\tv\n", 1),
        (GOOD + "\tFALSE\t/\tFALSE\t0\tn\tv\n", 1),
        (GOOD + "b.example\tFALSE\t/\tFALSE\tnever\tn\tv\n", 1),
        (GOOD + "b.example\tFALSE\t/\tFALSE\tnan\tn\tv\n", 1),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_cookies_as_browsers_export_them(
    file: Path, text: str, odd: int, encoding: str, caplog: pytest.LogCaptureFixture
) -> None:
    file.write_bytes(text.encode(encoding))
    assert headers("http://a.example/", cookies_file=str(file)) == {"Cookie": "sid=abc"}
    assert len(caplog.messages) == (odd > 0)
    assert all(f"{odd} lines hold no cookie" in message for message in caplog.messages)
    assert "rubbish" not in caplog.text


def test_cookies_in_any_bytes(file: Path) -> None:
    file.write_bytes(b"a.example\tFALSE\t/\tFALSE\t0\tn\tz\xfcr\tich\n" + GOOD.encode())
    with RawServer(PAGE) as server:
        get(f"http://a.example:{server.port}/", A, cookies_file=str(file))
    assert b"\r\nCookie: n=z\xfcr\tich; sid=abc\r\n" in server.requests[0]


def test_cookies_that_have_all_expired(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.write_text(GOOD.replace("\t0\t", "\t1000000000\t"))
    assert headers("http://a.example/", cookies_file=str(file)) == {}
    assert "all its cookies have expired" in caplog.text


@pytest.mark.parametrize(
    "text", [None, "", "SECRET\n", "a.example\tTRUE\t/\tFALSE\tnever\tname\tSECRET\n", "a\x00\xff"]
)
def test_unusable_cookies(file: Path, text: str | None) -> None:
    if text is not None:
        file.write_bytes(b"# fine\n" + text.encode("latin-1"))
    with pytest.raises(UserError, match=r"fetch\.cookies_file") as caught:
        headers("http://a.example/", cookies_file=str(file))
    assert "SECRET" not in str(caught.value).replace(str(file), "")


# Proxies


class ProxyServer(RawServer):
    """A proxy for anything; answers itself what isn't a tunnel."""

    def __init__(
        self,
        own: bytes = PAGE,
        tunnel: bytes = b"HTTP/1.1 200 Connected\r\n\r\n",
        *,
        tls: bool = False,
    ) -> None:
        super().__init__(self.serve, tls=tls)
        self._own = own
        self._tunnel = tunnel
        self.url = self.url.removesuffix("/")

    def serve(self, connection: socket.socket) -> None:
        method, target, _ = self.requests[-1].split(b" ", 2)
        if method != b"CONNECT":
            connection.sendall(self._own)
            return
        connection.sendall(self._tunnel)
        if b" 200 " not in self._tunnel:
            return
        port = int(target.rpartition(b":")[2])
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as onward:
            thread = threading.Thread(target=pump, args=[onward, connection], daemon=True)
            thread.start()
            pump(connection, onward)


def pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def through(proxy: str, url: str, **settings: object) -> Response:
    return get(url, proxy=proxy, allow_private_addresses=False, **settings)


def test_http_through_a_proxy() -> None:
    with ProxyServer() as proxy:
        with_login = proxy.url.replace("//", "//me:SECRET@")
        response = through(with_login, "http://nowhere.invalid/a?b")
    (head,) = proxy.requests
    assert head.startswith(b"GET http://nowhere.invalid/a?b HTTP/1.1\r\n")
    assert sent(head)["Proxy-Authorization"].startswith("Basic ")
    assert response.body == HTML
    # The record is of what the site would have been sent.
    assert response.request_head.startswith(b"GET /a?b HTTP/1.1\r\nHost: nowhere.invalid\r\n")
    assert b"Proxy" not in response.request_head
    assert response.address is None  # that was the proxy's


def test_https_through_a_proxy() -> None:
    with RawServer(PAGE, tls=True) as server, ProxyServer() as proxy:
        with_login = proxy.url.replace("//", "//me:SECRET@")
        url = f"https://a.example:{server.port}/x"
        response = through(with_login, url, ca_files=[str(CERTIFICATE)])
        assert failure_of(url, proxy=proxy.url) is Failure.TLS
    assert response.body == HTML
    assert server.requests[0] == response.request_head
    assert proxy.requests[0].startswith(f"CONNECT a.example:{server.port} HTTP/1.1".encode())
    assert sent(proxy.requests[0])["Proxy-Authorization"].startswith("Basic ")


def test_what_serves_a_url() -> None:
    async def main(**settings: object) -> list[object]:
        found: list[object] = []
        fetch = config.Fetch(**settings)
        dns = config.Dns(hosts={"a.example": "93.184.216.34", "b.example": "10.0.0.1"})
        async with (
            DnsResolver(dns, False, FakeClock()) as resolver,
            HttpFetcher(fetch, resolver) as fetcher,
        ):
            for host in ("a.example", "b.example:81", "10.0.0.1", "a..b"):
                try:
                    found.append(await fetcher.locate(f"http://{host}/x"))
                except FetchError as error:
                    found.append(error.failure)
        return found

    private = Failure.PRIVATE_ADDRESS
    assert asyncio.run(main()) == ["93.184.216.34", private, private, Failure.DNS_NOT_FOUND]
    # A proxy resolves names, each of which is then taken for a server of its own.
    assert asyncio.run(main(proxy="http://127.0.0.1:1")) == [
        "http://a.example",
        "http://b.example:81",
        private,
        "http://a..b",
    ]


def test_hosts_that_only_the_proxy_can_resolve_are_crawled(tmp_path: Path) -> None:
    words = sets("robots.obey=false", "politeness.per='address'", "politeness.delay_s=0")
    with ProxyServer() as proxy:
        login = proxy.url.replace("//", "//me:SECRET@")
        seeds = ["http://a.invalid/", "http://b.invalid/"]
        done = crawl_here(tmp_path / "s", *seeds, *words, *sets(f"fetch.proxy={login}"))
    assert done.returncode == 0, done.stderr
    rows = page_rows(tmp_path / "s")
    assert [(row["status"], row["address"]) for row in rows] == [(200, None)] * 2
    assert_secret(tmp_path / "s", done.stdout + done.stderr)


def assert_secret(session: Path, said: str) -> None:
    """The word SECRET stands in session.toml alone, which nobody else can read."""
    assert "SECRET" not in said
    base64_too = (b"SECRET", base64.b64encode(b"me:SECRET"))
    for path in session.rglob("*"):
        if path.is_file():
            opened = gzip.open if path.suffix == ".gz" else open
            with opened(path, "rb") as file:
                holds = any(word in file.read() for word in base64_too)
            assert holds == (path.name == "session.toml"), path
            assert not holds or path.stat().st_mode & 0o077 == 0


def test_headers_of_sites_stay_secret_too(tmp_path: Path) -> None:
    with RawServer(PAGE) as server:
        table = 'sites=[{match = "127.0.0.1", headers = {X-Plain = "SECRET"}}]'
        done = crawl_here(tmp_path / "s", server.url, *sets("robots.obey=false", table))
        assert done.returncode == 0, done.stderr
        assert sent(server.requests[0])["X-Plain"] == "SECRET"
    assert_secret(tmp_path / "s", done.stdout + done.stderr)


def test_a_login_in_a_seed_is_nowhere(tmp_path: Path) -> None:
    with RawServer(PAGE) as server:
        seeds = [
            server.url.replace("//", "//me:SECRET@"),
            f"http:me:SECRET@127.0.0.1:{server.port}/x",
        ]
        done = crawl_here(tmp_path / "s", *seeds, *sets("robots.obey=false"))
    assert done.returncode == 0, done.stderr
    assert "SECRET" not in done.stdout + done.stderr
    for path in (tmp_path / "s").rglob("*"):
        if path.is_file():
            opened = gzip.open if path.suffix == ".gz" else open
            with opened(path, "rb") as file:
                assert b"SECRET" not in file.read(), path
    assert not any(b"Authorization" in head for head in server.requests)


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("fetch.headers={'a.example' = {A = 'SECRET'}}", "fetch.headers: "),
        ("fetch.proxy=['SECRET']", "fetch.proxy"),
        ("sites='SECRET'", "sites: must be a list"),
        ("sites=['SECRET']", "[[sites]] 1: must be a "),
        ("sites=[{headers = {A = 'SECRET'}}]", "[[sites]] 1: match: is missing"),
        ("sites=[{match = 'a.example', headers = 'SECRET'}]", "[[sites]] 1: headers: must be a "),
        ("sites=[{match = 'a.example', headers = {A = ['SECRET']}}]", "[[sites]] 1: headers.A: "),
        (
            "sites=[{match = 'a.example'}, {match = '^a', delay_s = 1, headers = {A = 'SECRET'}}]",
            "[[sites]] 2: delay_s belongs to a whole site",
        ),
    ],
)
def test_a_mistake_in_a_secret_doesnt_show_it(setting: str, named: str) -> None:
    with pytest.raises(UserError) as caught:
        config.load(None, [setting])
    assert str(caught.value).startswith(f"configuration: {named}")
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    "setting",
    [
        "headers={'a.example' = {A = 'SECRET'}}",
        "proxy=http://me:SECRET@a.example",
        "fetch={headers = 'SECRET'}",
        "fetch='http://me:SECRET@a.example'",
    ],
)
def test_a_secret_in_the_wrong_place_isnt_shown(setting: str) -> None:
    with pytest.raises(UserError) as caught:
        config.load(None, [setting])
    assert "SECRET" not in str(caught.value)


def test_a_proxy_that_wont() -> None:
    with ProxyServer(tunnel=b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n") as proxy:
        assert failure_of("https://a.example/", proxy=proxy.url) is Failure.UNREACHABLE
    assert failure_of("http://a.example/", proxy=proxy.url) is Failure.UNREACHABLE


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "10.0.0.1", "localhost", "x.localhost."])
def test_private_targets_dont_go_through_a_proxy(host: str) -> None:
    with ProxyServer() as proxy:
        found = failure_of(f"http://{host}/", proxy=proxy.url, allow_private_addresses=False)
    assert found is Failure.PRIVATE_ADDRESS
    assert proxy.requests == []


def test_a_private_proxy_makes_no_other_address_public() -> None:
    with ProxyServer() as proxy, RawServer(PAGE) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("http_proxy", proxy.url)
        patch.setenv("no_proxy", "127.0.0.1")
        url = f"http://127.0.0.1:{server.port}/"
        found = failure_of(url, proxy="environment", allow_private_addresses=False)
    assert found is Failure.PRIVATE_ADDRESS


def test_proxies_of_the_environment() -> None:
    with ProxyServer() as proxy, RawServer(PAGE) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("http_proxy", proxy.url.removeprefix("http://"))
        patch.setenv("no_proxy", "a.example")
        for url in ("http://b.example/", f"http://a.example:{server.port}/"):
            assert get(url, A, proxy="environment").body == HTML
    assert len(proxy.requests) == len(server.requests) == 1


NAMES = ("a.example", "b.a.example", "xa.example", "127.0.0.1", "127.1.2.3", "::1", "fe80::1")


@pytest.mark.parametrize(
    ("no_proxy", "direct"),
    [
        ("", ()),
        (",", ()),
        ("*", NAMES),
        (" * ", NAMES),
        ("*,x", ()),
        ("a.example", ("a.example", "b.a.example")),
        (".a.example", ("a.example", "b.a.example")),
        ("A.EXAMPLE.", ("a.example", "b.a.example")),
        ("*.a.example", ()),
        ("b.a.example", ("b.a.example",)),
        ("example", ("a.example", "b.a.example", "xa.example")),
        ("x a.example,127.0.0.1", ("a.example", "b.a.example", "127.0.0.1")),
        ("127.0.0.1", ("127.0.0.1",)),
        ("127.0.0.0/8", ("127.0.0.1", "127.1.2.3")),
        ("127.0.0.9/24", ("127.0.0.1",)),
        ("127.0.0", ()),
        ("127.0.0.1/33", ()),
        ("a.example/8", ()),
        ("::1", ("::1",)),
        ("[::1]", ("::1",)),
        ("0:0:0:0:0:0:0:1", ("::1",)),
        ("fe80::/10", ("fe80::1",)),
        ("a.example:80", ("a.example", "b.a.example")),
        ("a.example:81", ()),
        ("[::1]:80 127.0.0.1:81", ("::1",)),
    ],
)
def test_no_proxy(no_proxy: str, direct: tuple[str, ...]) -> None:
    """curl 7.88 agrees with each, but for networks of IPv6, brackets, and ports."""
    rules = NoProxy(no_proxy)
    assert tuple(name for name in NAMES if rules.holds(name, 80)) == direct
    assert rules.holds("A.example.", 80) == ("a.example" in direct)


@pytest.mark.parametrize(
    ("proxy", "port"), [("http://p", 80), ("https://p", 443), ("p", 80), ("p:3128", 3128)]
)
def test_ports_of_proxies(proxy: str, port: int) -> None:
    chosen = Proxies(proxy).choose(URL("http://a.example/"))
    assert chosen
    assert (chosen.host, chosen.port) == ("p", port)


def test_the_environment_for_each_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {"HTTPS_PROXY": "http://s:1", "all_proxy": "http://all:2"})
    proxies = Proxies("environment")
    assert proxies.choose(URL("https://a.example/")) == URL("http://s:1")
    assert proxies.choose(URL("http://a.example/")) == URL("http://all:2")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_page_of_the_proxy_itself_is_no_exception(host: str) -> None:
    """`no_proxy` makes the way to it direct; its address is trusted only as that of a proxy."""
    with ProxyServer() as proxy, pytest.MonkeyPatch.context() as patch:
        url = f"http://{host}:{proxy.port}"
        patch.setenv("http_proxy", url)
        patch.setenv("no_proxy", f"{host},a.example")
        hosts = {"a.example": "127.0.0.1", "localhost": "127.0.0.1"}
        for target in (url, f"http://a.example:{proxy.port}"):
            found = failure_of(
                target + "/", hosts, proxy="environment", allow_private_addresses=False
            )
            assert found is Failure.PRIVATE_ADDRESS
    assert proxy.requests == []


@pytest.mark.parametrize(
    "setting", ["socks5://a.example", "http://", "ftp://SECRET@a.example", "//"]
)
def test_what_is_no_proxy(setting: str) -> None:
    with pytest.raises(UserError, match=r"fetch\.proxy") as caught:
        Proxies(setting)
    assert "SECRET" not in str(caught.value)


# Conditional requests


def test_conditional_requests() -> None:
    answer = b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\n\r\n'
    with RawServer(answer) as server:
        date = "Sat, 28 Nov 2026 00:00:00 GMT"
        response = get(server.url, validators=Validators('"x"', date))
        get(server.url, validators=Validators(None, None))
        get(server.url, validators=Validators('"\xe9"', "a\r\nb"))
    first, *others = server.requests
    assert (sent(first)["If-None-Match"], sent(first)["If-Modified-Since"]) == ('"x"', date)
    assert response.request_head == first
    assert (response.status, response.body, response.failure) == (304, b"", None)
    assert all(b"\r\nIf-" not in head for head in others)
