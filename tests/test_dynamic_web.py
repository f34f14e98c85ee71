"""Dynamic assignment on real ranks, on a web with what needs more than a URL to be handed out."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from conftest import MpiRun
from crawls import metrics_of, page_rows, run_here, sets, write_config
from dynamics import KINDS

Answer = tuple[str, str, str]  # status, header lines, body

HTML = "Content-Type: text/html\r\n"
LINKS = ["/p1", "/p2", "/p3", "http://b.example/", "http://b.example/no/1", "/wall"]
ROBOTS = {
    "a.example": ("200 OK", "", "Sitemap: http://b.example/map.xml"),
    "b.example": ("301 Moved", "Location: http://late.example/rules.txt\r\n", ""),
}
MAP = "".join(
    f"<url><loc>http://{page}</loc></url>" for page in ("a.example/in-map", "b.example/in-map")
)


def answer(host: str, path: str, fields: dict[str, str]) -> Answer:
    """What the web says: joining sites, robots.txt elsewhere, sitemaps, cookies, validators."""
    if path == "/robots.txt":
        return ROBOTS.get(host, ("404 Not Found", "", ""))
    if (host, path) == ("old.example", "/"):
        return "302 Found", "Location: http://late.example/\r\n", ""
    if (host, path) == ("late.example", "/rules.txt"):
        return "200 OK", "Content-Type: text/plain\r\n", "User-agent: *\nDisallow: /no"
    if (host, path) == ("b.example", "/map.xml"):
        head = "Content-Type: application/xml\r\n"
        return "200 OK", head, f'<?xml version="1.0"?><urlset>{MAP}</urlset>'
    if path == "/gate":
        return "302 Found", "Location: /wall\r\nSet-Cookie: c=1\r\n", ""
    if path == "/wall" and "c=1" not in fields.get("cookie", ""):
        return "302 Found", "Location: /gate\r\n", ""
    if path.startswith("/p") and fields.get("if-none-match") == '"1"':
        return "304 Not Modified", 'ETag: "1"\r\n', ""
    links = {"/": [*LINKS, "http://late.example/deep"], "/wall": ["/inside"]}.get(path, [])
    body = f"{host}{path}" + "".join(f'<a href="{link}">x</a>' for link in links)
    return "200 OK", HTML + 'ETag: "1"\r\n', body


class Handler(BaseHTTPRequestHandler):
    """Sends the answers."""

    def do_GET(self) -> None:
        fields = {name.lower(): value for name, value in self.headers.items()}
        status, head, body = answer(fields["host"].partition(":")[0], self.path, fields)
        length = "" if status.startswith("304") else f"Content-Length: {len(body)}\r\n"
        text = f"HTTP/1.1 {status}\r\n{head}{length}Connection: close\r\n\r\n{body}"
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Nothing needs to be said."""


@pytest.fixture
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=[0.02], daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def outcome(directory: Path) -> list[tuple[Any, ...]]:
    rows = page_rows(directory)
    return sorted((row["url"], row["status"] or 0, row["error"] or "") for row in rows)


@pytest.mark.parametrize(
    ("per", "kinds"),
    [
        ("site", [("page", "server"), ("site", "own")]),
        pytest.param("site", KINDS, marks=pytest.mark.slow),
        pytest.param("address", KINDS, marks=pytest.mark.slow),
    ],
)
def test_what_goes_with_a_url_is_handed_out_too(
    tmp_path: Path, mpirun: MpiRun, port: int, per: str, kinds: list[tuple[str, str]]
) -> None:
    """The rows are those of one rank: with each granularity, and in a further session."""
    hosts = ["a.example", "b.example", "old.example", "late.example"]
    tables: dict[str, dict[str, object]] = {
        "session": {"seeds": [f"http://{host}/" for host in hosts[:3]]},
        "politeness": {"delay_s": 0, "per": per},
        "sitemaps": {"from_robots": True},
        "dns": {"hosts": dict.fromkeys(hosts, f"127.0.0.1:{port}")},
        "fetch": {"allow_private_addresses": True},
    }
    config = str(write_config(tmp_path / "c.toml", tables))
    alone, again = tmp_path / "alone", tmp_path / "again"
    previous = sets(f"session.previous={alone}")
    assert run_here("crawl", config, "--session", str(alone)).returncode == 0
    assert run_here("crawl", config, "--session", str(again), *previous).returncode == 0
    pages = {url for url, status, _ in outcome(alone) if status == 200}
    assert {"http://a.example/inside", "http://late.example/deep"} < pages
    assert {"http://a.example/in-map", "http://b.example/in-map"} < pages
    assert [url for url, _, error in outcome(alone) if error] == ["http://b.example/no/1"]
    assert metrics_of(again)["by_status"]["304"] == 9  # of three hosts
    for number, (granularity, follow) in enumerate(kinds):
        words = ["assignment.scheme=dynamic", f"dynamic.granularity={granularity}"]
        words += [f"dynamic.follow={follow}"]
        directory, renewed = tmp_path / f"{number}", number % 2
        crawl = ["-m", "crawler", "crawl", config, "--session", str(directory), *sets(*words)]
        done = mpirun(3, *crawl, *(previous if renewed else []))
        assert done.returncode == 0, done.stderr
        assert outcome(directory) == outcome(again if renewed else alone)


@pytest.mark.parametrize(
    ("granularity", "follow"),
    [("page", "server"), pytest.param("site", "own", marks=pytest.mark.slow)],
)
def test_a_host_that_was_given_up_stays_so_at_any_client(
    tmp_path: Path, mpirun: MpiRun, port: int, granularity: str, follow: str
) -> None:
    """A resume on other ranks asks it nothing more."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # it doesn't listen, so it refuses
        hosts = {"a.example": port, "dead.example": silent.getsockname()[1]}
        dead = [f"http://dead.example/{number}" for number in range(3)]
        tables: dict[str, dict[str, object]] = {
            "session": {"seeds": ["http://a.example/", *dead[:2]]},
            "politeness": {"delay_s": 0},
            "retry": {"tries": 1, "give_up_after": 1, "base_s": 0.01},
            "robots": {"obey": False},
            "assignment": {"scheme": "dynamic"},
            "dynamic": {"granularity": granularity, "follow": follow},
            "dns": {"hosts": {host: f"127.0.0.1:{its}" for host, its in hosts.items()}},
            "fetch": {"allow_private_addresses": True},
        }
        config = str(write_config(tmp_path / "c.toml", tables))
        directory = tmp_path / "session"
        first = ["crawl", config, "--session", str(directory)]
        assert mpirun(2, "-m", "crawler", *first).returncode == 0
        more = sets(f"session.seeds=['http://a.example/p9', '{dead[2]}']")
        done = mpirun(4, "-m", "crawler", "resume", str(directory), *more)
        assert done.returncode == 0, done.stderr
    errors = {url: error for url, _, error in outcome(directory) if url in dead}
    assert sorted(errors.values()) == ["connection-refused", "site-given-up", "site-given-up"]
    assert errors[dead[2]] == "site-given-up"
