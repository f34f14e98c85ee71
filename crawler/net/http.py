"""The fetcher: makes one GET request for a URL."""

import asyncio
import base64
import time
from collections.abc import Generator, Mapping, Sequence
from typing import Final, NamedTuple, Self, TypeVar

from multidict import CIMultiDict
from yarl import URL

from crawler import config
from crawler.faults import Faults
from crawler.net.addresses import AddressBook
from crawler.net.connections import Connections, Server, Way
from crawler.net.credentials import Credentials
from crawler.net.dns import is_public
from crawler.net.proxies import Proxies, is_private
from crawler.net.response import Head
from crawler.net.tls import TlsContext
from crawler.net.wire import Answer, Limits, LostConnectionError, WireProtocol
from crawler.ports import (
    Failure,
    FetchError,
    MovedError,
    Resolver,
    Response,
    UserError,
    Validators,
)
from crawler.reading.codings import Undone, undoing
from crawler.reading.cookies import join_cookies
from crawler.url import authority
from crawler.url import host as host_of

_T = TypeVar("_T")
_MAX_ROUTES: Final = 2000  # about 1 kB each


class _Route(NamedTuple):
    """How to connect to an authority, and the first lines of requests to it."""

    way: Way
    target: str  # what the request line has before the path: nothing, or the authority for a proxy
    host: str  # the line Host
    login: str  # the line Proxy-Authorization, if a proxy reads the request


class HttpFetcher:
    """Makes one GET request for each URL (`ports.Fetcher`).

    This is an async context manager, with no limit on parallelism.

    When a kept connection turns out to be lost, it is unknown whether the server has read the
    request, so the request is made again. On a new connection a request is made only once. Raises
    UserError for settings that can't be used.
    """

    def __init__(
        self,
        fetch: config.Fetch,
        resolver: Resolver,
        *,
        one_address: bool = False,
        resends: bool = True,
        faults: Faults | None = None,
        sites: Sequence[config.Site] = (),
    ) -> None:
        """Read the settings. `sites` may name further headers.

        With `one_address` only the address that `locate` returns is connected to, because the
        clocks are by address. When that address fails, `fetch` raises a MovedError, and `locate`
        returns the next one. With `resends` a request is made again at once after the loss of a
        kept connection. Otherwise `fetch` raises a MovedError, so that the next request waits until
        the site allows one.
        """
        self._resends = resends
        self._fetch = fetch
        self._faults = faults or Faults()
        self._tls = TlsContext(fetch)
        agent = fetch.user_agent_header
        if not (agent.isascii() and agent.isprintable()):
            raise UserError(f"fetch.user_agent, fetch.contact: {agent!r} must be printable ASCII")
        self._headers = CIMultiDict(
            {
                "User-Agent": agent,
                "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
                # The codings that readers of WARC files undo (docs/decisions/codings.md).
                "Accept-Encoding": "gzip, deflate",
            }
        )
        self._head_end = _head_end(self._headers)
        self._credentials = Credentials(fetch, sites)
        self._proxies = Proxies(fetch.proxy)
        self._addresses = AddressBook(resolver, self._check_address, one_address=one_address)
        self._routes: dict[str, _Route] = {}
        self._connections: Connections
        self._loop: asyncio.AbstractEventLoop

    async def __aenter__(self) -> Self:
        fetch = self._fetch
        self._loop = asyncio.get_running_loop()
        limits = Limits(
            fetch.max_header_bytes, fetch.max_headers, fetch.max_bytes, fetch.idle_timeout_s
        )
        connect_timeout_s = min(fetch.connect_timeout_s, fetch.timeout_s)
        self._connections = Connections(limits, self._addresses, self._tls, connect_timeout_s)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connections.close()

    async def locate(self, url: str) -> str:
        """Return the address that a URL is fetched from, or its authority behind a proxy."""
        route = self._route(url)
        if route.way.proxy:
            return authority(url)
        return await self._addresses.locate(host_of(url))

    async def fetch(
        self,
        url: str,
        validators: Validators | None = None,
        max_bytes: int | None = None,
        cookie: str = "",
    ) -> Response:
        """Make one exchange for a normalised URL, as the protocol says."""
        started, start = time.time(), time.perf_counter()
        route = self._route(url)
        path = url[url.index("/", 8) :]
        end = shown_end = self._head_end
        if self._credentials or validators or cookie:
            secrets, conditions = self._credentials.headers(url), _conditions(validators)
            if cookie:
                secrets = _with_cookie(secrets, cookie)
            end = _head_end(self._headers, {**secrets, **conditions})
            shown = dict.fromkeys(secrets, "withheld")
            shown_end = _head_end(self._headers, {**shown, **conditions})
        sent = f"GET {route.target}{path} HTTP/1.1\r\n{route.host}{route.login}{end}"
        answer, peer = await self._ask(route, sent.encode(errors="surrogateescape"), max_bytes)
        head, payload, failure, fault = answer
        if fault is not None:
            self._faults.note(fault, "the response", url)
        cut = failure  # why the payload is incomplete
        if head.flawed:
            failure = failure or Failure.BAD_HTTP
        if head.transfer_codings:  # chunked is undone already; a payload has no transfer codings
            coded = payload
            payload, wrong, _ = await self._undo(url, head.transfer_codings, coded, max_bytes)
            failure = failure or wrong
            cut = cut or (wrong if payload is not coded else None)
        body, body_cut, readable = payload, cut, True
        if head.content_codings:
            body, wrong, readable = await self._undo(url, head.content_codings, payload, max_bytes)
            # Readers of WARC files compare the whole first line, which may be "gzip,".
            readable = readable and (body is payload or _label(head) == head.content_codings[0])
            failure = failure or wrong
            if body is not payload:
                body_cut = cut or wrong
        return Response(
            url=url,
            started=started,
            seconds=time.perf_counter() - start,
            address=peer,
            request_head=f"GET {path} HTTP/1.1\r\n{route.host}{shown_end}".encode(),
            version=head.version,
            status=head.status,
            reason=head.reason,
            headers=head.headers,
            payload=payload,
            body=body,
            truncated=body_cut and _TRUNCATED[body_cut],
            failure=failure,
            payload_whole=cut is None,
            readable=readable,
        )

    async def _undo(
        self, url: str, codings: Sequence[str], coded: bytes, max_bytes: int | None
    ) -> Undone:
        fetch, limit = self._fetch, max_bytes or int(self._fetch.max_bytes)
        if fetch.max_ratio:
            limit = min(limit, fetch.max_ratio * len(coded))
        try:
            return await in_turns(undoing(codings, coded, limit))
        except BaseException as error:
            self._faults.note(error, "the content coding", url)
            return Undone(coded, Failure.INTERNAL, False)

    def _route(self, url: str) -> _Route:
        """Return the route to the authority of a URL.

        Raises FetchError (BAD_URL, PRIVATE_ADDRESS).
        """
        if not (url.isascii() and url.isprintable() and " " not in url):
            # Such a URL would change the request line.
            raise FetchError(Failure.BAD_URL, "not normalised")
        try:
            there = authority(url)
            return self._routes.get(there) or self._new_route(there)
        except ValueError as error:
            raise FetchError(Failure.BAD_URL, str(error)) from None

    def _new_route(self, there: str) -> _Route:
        target = URL(there + "/", encoded=True)
        host, port, https = target.raw_host or "", target.port or 0, target.scheme == "https"
        if not (https or target.scheme == "http"):
            raise FetchError(Failure.BAD_URL, target.scheme)
        if https and not _is_server_name(host):
            raise FetchError(Failure.BAD_URL, "the host can't be the name of a server in TLS")
        proxy = self._proxies.choose(target) if self._proxies else None
        if proxy and is_private(target) and not self._fetch.allow_private_addresses:
            raise FetchError(Failure.PRIVATE_ADDRESS, host)
        route = _Route(
            Way(Server(host, port, https)),
            target="",
            host=f"Host: {target.host_port_subcomponent}\r\n",
            login="",
        )
        if proxy:
            route = self._through(proxy, route, there, f"{target.host_subcomponent}:{port}")
        if len(self._routes) >= _MAX_ROUTES:
            self._routes.clear()
        self._routes[there] = route
        return route

    def _through(self, proxy: URL, direct: _Route, there: str, host_and_port: str) -> _Route:
        """Return the route through a proxy to an authority, given the direct route."""
        server = direct.way.server
        login = ""
        if proxy.user or proxy.password:
            secret = f"{proxy.user or ''}:{proxy.password or ''}".encode()
            login = f"Proxy-Authorization: Basic {base64.b64encode(secret).decode()}\r\n"
        way = Way(server, Server(proxy.raw_host or "", proxy.port or 0, proxy.scheme == "https"))
        if not server.tls:
            return direct._replace(way=way, target=there, login=login)
        agent = f"User-Agent: {self._headers['User-Agent']}\r\n"
        request = f"CONNECT {host_and_port} HTTP/1.1\r\n{direct.host}{agent}{login}\r\n"
        return direct._replace(way=way._replace(tunnel=request.encode()))

    async def _ask(
        self, route: _Route, request: bytes, max_bytes: int | None
    ) -> tuple[Answer, str | None]:
        """Return the response, and the address of the server; None if a proxy sent it."""
        deadline = self._loop.time() + self._fetch.timeout_s
        way, connections = route.way, self._connections
        while True:  # ends, because each turn uses up one of the kept connections
            protocol = connections.take(way) or await self._connect(way)
            if way.proxy is None and not self._addresses.answered(way.server.host, protocol.peer):
                protocol.close()  # a kept connection, to an address that the host no longer uses
                continue
            answer = None
            try:
                answer = await protocol.exchange(request, deadline, max_bytes)
            except LostConnectionError:
                if not self._resends:
                    raise MovedError(way.server.host) from None
            finally:
                connections.give_back(way, protocol)
            if answer is not None:
                return answer, protocol.peer if way.proxy is None else None

    async def _connect(self, way: Way) -> WireProtocol:
        try:
            return await self._connections.open(way)
        except FetchError as error:
            host = way.server.host
            unanswered = error.failure in _UNANSWERED and way.proxy is None
            if unanswered and self._addresses.next_address(host):
                raise MovedError(host) from None
            raise

    def _check_address(self, address: str) -> None:
        allows_private = self._fetch.allow_private_addresses
        public = is_public(address)
        if not (public or allows_private):
            raise FetchError(Failure.PRIVATE_ADDRESS, address, address=address)
        # With private addresses allowed, fetch.contact may be unset: such crawls are local.
        if public and allows_private and not self._fetch.contact:
            raise FetchError(Failure.NO_CONTACT, address, address=address)


def _is_server_name(host: str) -> bool:
    """Whether Python's TLS accepts a host as the name of a server.

    If it doesn't, uvloop closes the connection, but leaves its descriptor to a socket object. When
    that object is freed, it closes whatever has got the descriptor by then.
    """
    name = host.rstrip(".")
    return len(name) < 256 and all(0 < len(label) < 64 for label in name.split("."))


def _head_end(headers: Mapping[str, str], further: Mapping[str, str] | None = None) -> str:
    """Return the request head after the line Host; `further` replaces headers of the same name."""
    merged = CIMultiDict(headers)
    merged.update(further or {})
    return "".join(f"{name}: {value}\r\n" for name, value in merged.items()) + "\r\n"


def _with_cookie(headers: Mapping[str, str], cookie: str) -> Mapping[str, str]:
    """Return the headers with a cookie added to those that they have."""
    configured = [value for name, value in headers.items() if name.lower() == "cookie"]
    others = {name: value for name, value in headers.items() if name.lower() != "cookie"}
    return {**others, "Cookie": join_cookies("; ".join(configured), cookie)}


def _label(head: Head) -> str:
    """Return the value of the first line Content-Encoding, in lower case."""
    lines = (value for name, value in head.headers if name.lower() == b"content-encoding")
    return next(lines, b"").strip().lower().decode("latin-1")


def _conditions(validators: Validators | None) -> dict[str, str]:
    if validators is None:
        return {}
    conditions = (
        ("If-None-Match", validators.etag),
        ("If-Modified-Since", validators.last_modified),
    )
    # A value that isn't printable ASCII can't be sent back unchanged.
    return {name: v for name, v in conditions if v and v.isascii() and v.isprintable()}


async def in_turns(steps: Generator[None, None, _T]) -> _T:
    """Do all steps and return their result; other tasks run between two steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: _T = end.value
            return result
        await asyncio.sleep(0)


_TRUNCATED: Final = {
    Failure.TOO_LARGE: "length",
    Failure.TIMEOUT: "time",
    Failure.DISCONNECTED: "disconnect",
    Failure.BAD_HTTP: "disconnect",
    Failure.BAD_ENCODING: "disconnect",
    Failure.INTERNAL: "unspecified",
}
_UNANSWERED: Final = frozenset(
    (Failure.REFUSED, Failure.CONNECT_TIMEOUT, Failure.UNREACHABLE, Failure.DISCONNECTED)
)
