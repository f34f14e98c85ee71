"""The demonstration's web: the same again, shaped as promised, and served as it says of itself."""

import http.client
import signal
import subprocess
import sys
from collections import Counter, deque
from urllib.parse import quote, urljoin, urlsplit

import pytest
from conftest import PATIENCE_S
from protego import Protego
from selectolax.lexbor import LexborHTMLParser

from crawler.demo.web import DemoWeb, serve
from crawler.url import normalise


def split(url: str) -> tuple[str, str]:
    host, _, path = url.removeprefix("http://").partition("/")
    return host, f"/{path}"


@pytest.fixture(scope="module")
def web() -> DemoWeb:
    return DemoWeb.generate(seed=1)


def test_same_seed_same_web(web: DemoWeb) -> None:
    again = DemoWeb.generate(seed=1)
    assert again == web
    for url in list(web.pages)[::40]:
        assert again.respond(*split(url)) == web.respond(*split(url))
    assert DemoWeb.generate(seed=2).pages != web.pages


def test_another_process_serves_the_same_bytes() -> None:
    with serve(seed=3, pages=100, sites=6) as (web, port):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        for url in [*web.pages, *web.redirects]:
            host, path = split(url)
            connection.request("GET", path, headers={"Host": host})
            answer = connection.getresponse()
            status, headers, body = web.respond(host, path)
            assert (answer.status, answer.read()) == (status, body)
            assert headers[0] in answer.getheaders()
        connection.close()


def test_shape(web: DemoWeb) -> None:
    sizes = Counter(split(url)[0] for url in web.pages)
    assert len(web.hosts) == len(sizes) == 48
    assert 1900 <= len(web.pages) <= 2200
    assert max(sizes.values()) <= 0.08 * len(web.pages)
    assert max(sizes.values()) >= 5 * min(sizes.values())
    topics = {split(url)[0]: page.topic for url, page in web.pages.items()}
    ends = [
        (split(url)[0], split(target)[0])
        for url, page in web.pages.items()
        for target in page.targets()
        if split(target)[0] in topics
    ]
    across = [(a, b) for a, b in ends if a != b]
    assert 0.80 <= 1 - len(across) / len(ends) <= 0.88
    assert sum(topics[a] == topics[b] for a, b in across) >= 0.8 * len(across)
    linked = Counter(b for _, b in across)
    assert max(linked.values()) >= 5 * min(linked.values())


def test_pages_are_of_realistic_size(web: DemoWeb) -> None:
    sizes = sorted(len(web.respond(*split(url))[2]) for url in list(web.pages)[::10])
    assert sizes[0] >= 1_500
    assert 8_000 <= sizes[len(sizes) // 2] <= 18_000
    assert 40_000 <= sizes[-1] <= 65_000


def test_what_a_crawl_must_find(web: DemoWeb) -> None:
    assert all(normalise(url) == url for url in web.requests)
    assert web.reachable == {url for url in web.pages if web.allowed(url)}
    private = f"http://{min(web.guarded)}/private/"
    assert private in web.pages
    assert private not in web.requests
    assert private + "open.html" in web.reachable
    statuses = Counter(web.respond(*split(url))[0] for url in web.requests)
    assert set(statuses) == {200, 301, 302, 404}
    assert min(statuses.values()) >= 50


def walk(seeds: tuple[str, ...], hosts: set[str], port: int) -> dict[str, int]:
    """Status by URL, found by means that share nothing with the crawler or the generator."""
    connection = http.client.HTTPConnection("127.0.0.1", port)

    def get(url: str) -> tuple[http.client.HTTPResponse, bytes]:
        host, path = split(url)
        connection.request("GET", path, headers={"Host": host})
        answer = connection.getresponse()
        return answer, answer.read()

    robots: dict[str, Protego] = {}
    statuses: dict[str, int] = {}
    queue = deque(seeds)
    while queue:
        url = queue.popleft()
        host = split(url)[0]
        if url in statuses or host not in hosts:
            continue
        if host not in robots:
            answer, body = get(f"http://{host}/robots.txt")
            robots[host] = Protego.parse(body.decode() if answer.status == 200 else "")
        if not robots[host].can_fetch(url, "abc-crawler"):
            continue
        answer, body = get(url)
        statuses[url] = answer.status
        base, references = url, [answer.getheader("Location", "")]
        if answer.status == 200:
            tree = LexborHTMLParser(body.decode(answer.headers.get_content_charset("latin-1")))
            for node in tree.css("base"):
                base = urljoin(url, node.attributes["href"])
            references = [node.attributes["href"] or "" for node in tree.css("a[href]")]
        for target in (urlsplit(urljoin(base, reference)) for reference in references if reference):
            if target.scheme == "http":
                query = f"?{target.query}" if target.query else ""
                queue.append(f"http://{target.netloc}{quote(target.path, safe='/%')}{query}")
    connection.close()
    return statuses


def test_an_independent_walk_finds_just_that() -> None:
    with serve(seed=5, pages=500, sites=24) as (web, port):
        statuses = walk(web.seeds, set(web.hosts), port)
    assert statuses.keys() == web.requests
    assert {url for url, status in statuses.items() if status == 200} == web.reachable


@pytest.mark.parametrize("by", ["standard input", "signal"])
def test_the_server_ends(by: str) -> None:
    arguments = ["--seed", "1", "--pages", "20", "--sites", "2"]
    pipe = subprocess.PIPE
    server = subprocess.Popen(
        [sys.executable, "-m", "crawler.demo.web", *arguments], stdin=pipe, stdout=pipe
    )
    assert server.stdin
    assert server.stdout
    assert b"port" in server.stdout.readline()
    if by == "signal":
        server.send_signal(signal.SIGTERM)
    else:
        server.stdin.close()
    assert server.wait(PATIENCE_S) == 0
    server.stdin.close()
    server.stdout.close()
