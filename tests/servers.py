"""Servers on loopback for tests: one that sends any bytes, one that serves pages, one for names.

Each runs in threads of its own and is a context manager; tests may be synchronous or not.
"""

import contextlib
import multiprocessing
import socket
import ssl
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from crawler.demo.web import DemoWeb

# A certificate that nobody knows, for a.example and 127.0.0.1, and its key.
CERTIFICATE = Path(__file__).parent / "instances" / "a.example.pem"


class _Server:
    def __init__(self, kind: socket.SocketKind, host: str = "127.0.0.1") -> None:
        self.socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind)
        self.socket.bind((host, 0))
        self.port: int = self.socket.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread
        # A thread that still accepts would take its descriptor, which the next server may get.
        self._thread.join()
        self.socket.close()


class RawServer(_Server):
    """Accepts connections, reads a request head, and sends the given bytes or calls the function
    with the socket; then closes. Heads are kept in `requests`."""

    def __init__(
        self,
        answer: bytes | Callable[[socket.socket], None],
        *,
        tls: bool = False,
        host: str = "127.0.0.1",
    ) -> None:
        super().__init__(socket.SOCK_STREAM, host)
        self.socket.listen()
        self.url = f"{'https' if tls else 'http'}://{host}:{self.port}/"
        self.requests: list[bytes] = []
        self._answer = answer
        self.tls: ssl.SSLContext | None = None
        if tls:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(CERTIFICATE)

    def _run(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                connection, _ = self.socket.accept()
                threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:  # the client may leave at any time
            if self.tls:
                connection = self.tls.wrap_socket(connection, server_side=True)
            with connection:
                self.requests.append(read_head(connection))
                if isinstance(self._answer, bytes):
                    connection.sendall(self._answer)
                else:
                    self._answer(connection)


def read_head(connection: socket.socket) -> bytes:
    """A request head with its empty line; less if the client closes, or doesn't speak HTTP."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = connection.recv(1)
        head += byte
        if not byte or not head[:1].isalpha():
            break
    return head


def reset(connection: socket.socket) -> None:
    """Close with a reset instead of a farewell."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def forever(head: bytes, piece: bytes, pause_s: float = 0.0) -> Callable[[socket.socket], None]:
    """An answer that never ends: `head`, then `piece` again and again."""
    pause = threading.Event()

    def answer(connection: socket.socket) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(piece)
            if pause_s:
                pause.wait(pause_s)

    return answer


class Page(NamedTuple):
    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = {}


class PageServer:
    """Serves `pages` (by path) over HTTP/1.1 with keep-alive; 404 for others. Paths asked for are
    kept in `paths`, their hosts in `hosts`, the times when their requests arrived in `times`.
    `by_host` has pages that only the host of that name serves."""

    def __init__(
        self,
        pages: Mapping[str, Page | bytes],
        by_host: Mapping[str, Mapping[str, Page | bytes]] = {},
    ) -> None:
        self.paths: list[str] = []
        self.hosts: list[str] = []
        self.times: list[float] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else a page takes 40 ms

            def do_GET(self) -> None:
                host = self.headers.get("Host", "").partition(":")[0]
                outer.times.append(time.monotonic())
                outer.paths.append(self.path)
                outer.hosts.append(host)
                own = by_host.get(host, {})
                page = own.get(self.path) or pages.get(self.path, Page(status=404))
                page = Page(page) if isinstance(page, bytes) else page
                self.send_response(page.status)
                for name, value in page.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(page.body)))
                self.end_headers()
                self.wfile.write(page.body)

            def log_message(self, *_: object) -> None:
                """Tests read `paths` instead."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=[0.02], daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextlib.contextmanager
def served(web: DemoWeb) -> Iterator[tuple[int, Counter[str]]]:
    """The web on a port of 127.0.0.1, by threads of this process; and how often each URL has been
    asked for."""
    asked: Counter[str] = Counter()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            host = self.headers["Host"].partition(":")[0]
            asked[f"http://{host}{self.path}"] += 1
            status, headers, body = web.respond(host, self.path)
            self.send_response(status)
            for name, value in (*headers, ("Content-Length", str(len(body)))):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Counted above."""

        def handle(self) -> None:
            with contextlib.suppress(ConnectionError):  # clients are killed here
                super().handle()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=[0.02], daemon=True).start()
    try:
        yield server.server_address[1], asked
    finally:
        server.shutdown()
        server.server_close()


SERVFAIL, NXDOMAIN = 2, 3


class DnsServer(_Server):
    """Answers questions for A and AAAA from a table: addresses, or an error code; no entry:
    silence. Names asked for are kept in `names`, once a question."""

    def __init__(self, table: Mapping[str, list[str] | int], ttl_s: int = 60) -> None:
        super().__init__(socket.SOCK_DGRAM)
        self.nameserver = f"127.0.0.1:{self.port}"
        self.names: list[str] = []
        self._table = table
        self._ttl_s = ttl_s

    def _run(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                query, client = self.socket.recvfrom(4096)
                if not query:
                    break  # shut down
                reply = self._reply(query)
                if reply:
                    self.socket.sendto(reply, client)

    def _reply(self, query: bytes) -> bytes | None:
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode())
            at += 1 + query[at]
        question = query[12 : at + 5]
        wants_ipv6 = query[at + 1 : at + 3] == b"\0\x1c"
        name = ".".join(labels).lower()
        self.names.append(name)
        found = self._table.get(name)
        if found is None:
            return None
        code, addresses = (found, []) if isinstance(found, int) else (0, found)
        family = socket.AF_INET6 if wants_ipv6 else socket.AF_INET
        packed = [socket.inet_pton(family, a) for a in addresses if (":" in a) == wants_ipv6]
        answers = b"".join(
            b"\xc0\x0c"
            + struct.pack("!HHIH", 28 if wants_ipv6 else 1, 1, self._ttl_s, len(each))
            + each
            for each in packed
        )
        counts = struct.pack("!HHHH", 1, len(packed), 0, 0)
        return query[:2] + struct.pack("!H", 0x8180 | code) + counts + question + answers


def _answer_everything(bound: socket.socket) -> None:
    while True:
        query, client = bound.recvfrom(4096)
        end = query.index(b"\0", 12) + 5
        question = query[12:end]
        gone = b"gone" in question
        found = question[-3] == 1 and not gone
        answer = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\n\0\0\1" if found else b""
        head = struct.pack("!5H", 0x8183 if gone else 0x8180, 1, int(found), 0, 0)
        bound.sendto(query[:2] + head + question + answer, client)


@contextlib.contextmanager
def quick_dns() -> Iterator[str]:
    """A name server in a process of its own, for thousands of names: 10.0.0.1 for every A, nothing
    for every AAAA; names with "gone" don't exist."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.1", 0))
        process = multiprocessing.get_context("fork").Process(
            target=_answer_everything, args=[bound], daemon=True
        )
        process.start()
        yield f"127.0.0.1:{bound.getsockname()[1]}"
        process.kill()
        process.join()
