"""Webs that the benchmarks make and serve themselves, so that anybody can run them.

A process of its own serves a web by HTTP/1.1, on a loopback address for each site and one port. So
no name must be resolved, and nobody needs to be root. The server ends with its standard input.

- `Demo`: the web of the demonstration (crawler/demo), all of whose pages are written beforehand.
- `Numbered`: pages whose links follow from their numbers, so that the web takes no memory. All
  pages have equally many links. A site is a tree, with links across it and to other sites.
"""

import asyncio
import gzip
import json
import re
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Literal, Protocol, get_args

import uvloop

from crawler.demo.web import DemoWeb, outside_mpi

Served = Literal["plain", "gzip", "tls"]
SERVED: Final[tuple[Served, ...]] = get_args(Served)
Answer = tuple[int, Mapping[str, str], bytes]  # status, fields of the head, body
_OTHERS: Final = 6  # one link of a numbered page in so many leads to another site
_MASK: Final = 2**64 - 1
_WORDS: Final = "the words of a page say nothing here, but they take as much room as others "


@dataclass(frozen=True)
class Target:
    """A served web that crawlers are to crawl."""

    seeds: list[str]
    hosts: list[str]
    scheme: Literal["http", "https"] = "http"
    is_compressed: bool = False
    ca_file: Path | None = None  # who signs the certificates of the servers

    @classmethod
    def read(cls, folder: Path) -> "Target":
        """Read seeds.txt and hosts.txt, with one URL or host a line."""
        return cls(*((folder / f"{name}.txt").read_text().split() for name in ("seeds", "hosts")))


class Made(Protocol):
    """A web to serve, made from its fields. Its sites have the numbers from 0."""

    sites: int

    def starts(self) -> list[tuple[int, str]]:
        """Site and path of each seed."""

    def responder(self, root: Callable[[int], str]) -> Callable[[int, str], Answer]:
        """Return the function that answers a request to a site. `root(site)`: `http://host:port`."""


@dataclass(frozen=True)
class Demo:
    """The web of the demonstration, without its robots.txt files, which not all peers obey."""

    sites: int = 48
    pages: int = 2000

    def _web(self) -> DemoWeb:
        return DemoWeb.generate(1, self.pages, self.sites)

    def starts(self) -> list[tuple[int, str]]:
        return [(site, "/") for site in range(self.sites)]

    def responder(self, root: Callable[[int], str]) -> Callable[[int, str], Answer]:
        web = self._web()
        numbers = {host: site for site, host in enumerate(web.hosts)}
        named = re.compile("(http:)?//(" + "|".join(map(re.escape, web.hosts)) + ")/")
        named_bytes = re.compile(named.pattern.encode())

        def rewritten(text: str) -> str:
            return named.sub(lambda match: f"{root(numbers[match[2]])}/", text)

        answers: dict[tuple[int, str], Answer] = {}
        for url in (*web.pages, *web.redirects):
            host, path = url.removeprefix("http://").split("/", 1)
            status, head, body = web.respond(host, f"/{path}")
            body = named_bytes.sub(lambda match: rewritten(match[0].decode()).encode(), body)
            fields = {name: rewritten(value) for name, value in head}
            answers[numbers[host], f"/{path}"] = status, fields, body
        missing: Answer = 404, {"Content-Type": "text/html"}, b"<h1>Not found</h1>"
        return lambda site, path: answers.get((site, path), missing)


@dataclass(frozen=True)
class Numbered:
    """A web of pages that follow from numbers."""

    sites: int
    pages: int  # of each site
    links: int = 12  # of each page
    room: int = 2000  # bytes of text of each page

    def starts(self) -> list[tuple[int, str]]:
        return [(0, self._path(0))]

    def responder(self, root: Callable[[int], str]) -> Callable[[int, str], Answer]:
        text = _WORDS * (self.room // len(_WORDS))

        def answer(site: int, path: str) -> Answer:
            page = path.rpartition("/")[2].removesuffix(".html")
            if not page.isdecimal() or int(page) >= self.pages or self._path(int(page)) != path:
                return 404, {"Content-Type": "text/html"}, b"<h1>Not found</h1>"
            anchors = "\n".join(
                f'<li><a href="{"" if to == site else root(to)}{self._path(of)}">page {of}</a>'
                for to, of in self._links(site, int(page))
            )
            html = f"<!DOCTYPE html><title>Page {page}</title><p>{text}<ul>{anchors}</ul>"
            return 200, {"Content-Type": "text/html"}, html.encode()

        return answer

    @staticmethod
    def _path(page: int) -> str:
        return f"/section-{page % 97}/{page}.html"

    def _links(self, site: int, page: int) -> Iterator[tuple[int, int]]:
        """Give site and page of each link: to children, anywhere in the site, to other sites."""
        outside = max(1, self.links // _OTHERS)
        children = (self.links - outside) // 2
        first = page * children + 1
        draw = site << 32 ^ page
        for number in range(self.links - outside):
            draw = _mixed(draw)
            is_child = number < children and first + number < self.pages
            yield site, first + number if is_child else draw % self.pages
        yield (site + 1) % self.sites, 0  # so that all sites are found
        for _ in range(outside - 1):
            draw = _mixed(draw)
            yield draw % self.sites, (draw >> 32) % self.pages


def _mixed(number: int) -> int:
    """Return a hash of a number (the finaliser of splitmix64)."""
    number = (number + 0x9E3779B97F4A7C15) & _MASK
    number = ((number ^ number >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    number = ((number ^ number >> 27) * 0x94D049BB133111EB) & _MASK
    return number ^ number >> 31


KINDS: Final[dict[str, type[Any]]] = {"Demo": Demo, "Numbered": Numbered}


# --- serving ----------------------------------------------------------------------------------


def address(site: int) -> str:
    """The loopback address of a site."""
    return f"127.{1 + site // 62_500}.{site // 250 % 250}.{1 + site % 250}"


@contextmanager
def serve(web: Made, served: Served = "plain") -> Iterator[Target]:
    """Serve a web in a child process for the length of a `with` block.

    `served`: plain; all pages gzip-encoded; or by HTTPS.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if served == "tls":
            _certify(folder, web.sites)
        order = {"kind": type(web).__name__, "fields": asdict(web), "served": served}
        child = subprocess.Popen(
            [sys.executable, __file__, json.dumps(order), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=outside_mpi(),
        )
        assert child.stdin
        assert child.stdout
        try:
            line = child.stdout.readline()
            if not line:
                raise SystemExit("error: the server of the web didn't start, see above")
            port = int(line)
            scheme: Literal["http", "https"] = "https" if served == "tls" else "http"
            yield Target(
                [f"{scheme}://{address(site)}:{port}{path}" for site, path in web.starts()],
                [address(site) for site in range(web.sites)],
                scheme,
                served == "gzip",
                folder / "cert.pem" if served == "tls" else None,
            )
        finally:
            child.stdin.close()
            child.stdout.close()
            child.wait()


def _certify(folder: Path, sites: int) -> None:
    """Write a key, and a certificate for the addresses of all sites that it signs itself."""
    names = ",".join(f"IP:{address(site)}" for site in range(sites))
    command = ["openssl", "req", "-x509", "-nodes", "-newkey", "ec"]
    command += ["-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-days", "2", "-subj", "/CN=benchmark", "-addext", f"subjectAltName={names}"]
    command += ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)


class _Connection(asyncio.Protocol):
    """Answers requests to one site, keeps connections alive, and allows pipelining."""

    def __init__(self, answer: Callable[[str], bytes]) -> None:
        self._answer = answer
        self._rest = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *requests, self._rest = (self._rest + data).split(b"\r\n\r\n")
        for request in requests:
            self._transport.write(self._answer(request.split(b" ", 2)[1].decode("latin-1")))


def _encoded(answer: Answer, is_compressed: bool) -> bytes:
    status, fields, body = answer
    fields = {**fields, "Content-Length": str(len(body))}
    if is_compressed:
        body = gzip.compress(body, 6)
        fields |= {"Content-Length": str(len(body)), "Content-Encoding": "gzip"}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{head}\r\n".encode() + body


async def _serve(order: dict[str, Any], folder: Path) -> None:
    loop = asyncio.get_running_loop()
    web: Made = KINDS[order["kind"]](**order["fields"])
    secure = None
    if order["served"] == "tls":
        secure = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        secure.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    scheme, port = "https" if secure else "http", 0
    kept: dict[tuple[int, str], bytes] = {}
    keeps = isinstance(web, Demo)

    def root(site: int) -> str:
        return f"{scheme}://{address(site)}:{port}"

    def answering(site: int) -> Callable[[str], bytes]:
        def answer(path: str) -> bytes:
            found = kept.get((site, path))
            if found is None:
                found = _encoded(respond(site, path), order["served"] == "gzip")
                if keeps:
                    kept[site, path] = found
            return found

        return answer

    for site in range(web.sites):
        answer = answering(site)
        server = await loop.create_server(
            lambda answer=answer: _Connection(answer), address(site), port, ssl=secure
        )
        port = port or server.sockets[0].getsockname()[1]
    respond = web.responder(root)
    print(port, flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(_serve(json.loads(sys.argv[1]), Path(sys.argv[2])))
