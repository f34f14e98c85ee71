"""The fetcher: makes one GET request for a URL, over a connection of aiohttp's connector."""

import asyncio
import errno
import time
from collections.abc import Generator, Mapping, Sequence
from socket import socket
from typing import Final, NamedTuple, Self, TypeVar

import aiohttp
from aiohttp.connector import Connection
from multidict import CIMultiDict
from yarl import URL

from crawler import config
from crawler.faults import Faults
from crawler.net.addresses import AddressBook, through_proxy
from crawler.net.credentials import Credentials
from crawler.net.dns import is_public
from crawler.net.proxies import Proxies, is_private
from crawler.net.response import Head
from crawler.net.tls import make_context
from crawler.net.wire import Answer, Connector, Limits, LostConnectionError, WireProtocol
from crawler.ports import (
    Failure,
    Fetcher,
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
_MAX_ROUTES: Final = 2000  # about 3 kB each


class _Route(NamedTuple):
    """How to connect to an authority, and the first lines of requests to it."""

    way: aiohttp.ClientRequest  # the form in which aiohttp's connector takes the destination
    name: str  # of the host
    proxied: bool
    target: str  # what the request line has before the path: nothing, or the authority for a proxy
    host: str  # the line Host
    login: str  # the line Proxy-Authorization, if a proxy reads the request


class _RefusedAddressError(OSError):
    """We may not connect to an address. An OSError, because aiohttp passes on no other errors."""

    def __init__(self, refusal: FetchError) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


class HttpFetcher(Fetcher):
    """Makes one GET request for each URL. An async context manager, with no limit on parallelism.

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
        self._tls = make_context(fetch)
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
        self._addresses = AddressBook(
            resolver, self._proxies.addresses, self._check_address, one_address=one_address
        )
        self._routes: dict[str, _Route] = {}
        self._timeout = aiohttp.ClientTimeout(
            total=fetch.timeout_s, connect=min(fetch.connect_timeout_s, fetch.timeout_s)
        )
        self._connector: Connector
        self._loop: asyncio.AbstractEventLoop

    async def __aenter__(self) -> Self:
        fetch = self._fetch
        self._loop = asyncio.get_running_loop()
        limits = Limits(
            fetch.max_header_bytes, fetch.max_headers, fetch.max_bytes, fetch.idle_timeout_s
        )
        self._connector = Connector(
            limits, resolver=self._addresses, ssl=self._tls, socket_factory=self._socket
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connector.close()

    async def locate(self, url: str) -> str:
        """Return the address that a URL is fetched from, or its authority behind a proxy."""
        route = self._route(url)
        if route.proxied:
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
        except (ValueError, aiohttp.InvalidURL) as error:
            raise FetchError(Failure.BAD_URL, str(error)) from None

    def _new_route(self, there: str) -> _Route:
        target = URL(there + "/", encoded=True)
        if target.scheme not in {"http", "https"}:
            raise FetchError(Failure.BAD_URL, target.scheme)
        if target.scheme == "https" and not _is_server_name(target.raw_host or ""):
            raise FetchError(Failure.BAD_URL, "the host can't be the name of a server in TLS")
        proxy = self._proxies.choose(target) if self._proxies else None
        if proxy and is_private(target) and not self._fetch.allow_private_addresses:
            raise FetchError(Failure.PRIVATE_ADDRESS, str(target.raw_host))
        login = ""
        if proxy and target.scheme == "http" and (proxy.user or proxy.password):
            basic = aiohttp.encode_basic_auth(proxy.user or "", proxy.password or "")
            login = f"Proxy-Authorization: {basic}\r\n"
        route = _Route(
            aiohttp.ClientRequest("GET", target, loop=self._loop, proxy=proxy),
            name=target.raw_host or "",
            proxied=proxy is not None,
            target=there if proxy and target.scheme == "http" else "",
            host=f"Host: {target.host_port_subcomponent}\r\n",
            login=login,
        )
        if len(self._routes) >= _MAX_ROUTES:
            self._routes.clear()
        self._routes[there] = route
        return route

    async def _ask(
        self, route: _Route, request: bytes, max_bytes: int | None
    ) -> tuple[Answer, str | None]:
        """Return the response, and the address of the server; None if a proxy sent it."""
        deadline = self._loop.time() + self._fetch.timeout_s
        through_proxy.set(route.proxied)
        while True:  # ends, because each turn uses up one of the kept connections
            connection = await self._connect(route)
            protocol = connection.protocol
            assert isinstance(protocol, WireProtocol)
            if not (route.proxied or self._addresses.answered(route.name, protocol.peer)):
                connection.close()  # a kept connection, to an address that the host no longer uses
                continue
            try:
                answer = await protocol.exchange(request, deadline, max_bytes)
            except LostConnectionError:
                if not self._resends:
                    raise MovedError(route.name) from None
                continue
            finally:
                connection.release()  # keeps the connection only if the exchange ended well
            return answer, None if route.proxied else protocol.peer

    async def _connect(self, route: _Route) -> Connection:
        try:
            return await self._connector.connect(route.way, [], self._timeout)
        except TimeoutError:
            error: Exception = FetchError(Failure.CONNECT_TIMEOUT)
        except (aiohttp.ClientError, OSError) as caught:
            error = _translated(caught)
            error.__cause__ = caught
        unanswered = isinstance(error, FetchError) and error.failure in _UNANSWERED
        if unanswered and not route.proxied and self._addresses.next_address(route.name):
            raise MovedError(route.name)
        raise error

    def _socket(self, info: aiohttp.AddrInfoType) -> socket:
        family, kind, protocol, _, address = info
        host, port = str(address[0]), int(address[1])
        if not (through_proxy.get() and (host, port) in self._addresses.trusted):
            try:
                self._check_address(host)
            except FetchError as error:
                raise _RefusedAddressError(error) from error
        return socket(family, kind, protocol)

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
_TLS_ERRORS: Final = (aiohttp.ClientConnectorSSLError, aiohttp.ClientConnectorCertificateError)


def _translated(error: Exception) -> Exception:
    """Return our error for an error of aiohttp while a connection was made."""
    if isinstance(error, _TLS_ERRORS):
        return FetchError(Failure.TLS, str(error))
    if isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
        if isinstance(cause, _RefusedAddressError):
            return cause.refusal
        if cause.errno in (errno.EMFILE, errno.ENFILE):
            return OSError(cause.errno, cause.strerror)  # this machine's problem, not the server's
        if isinstance(error, aiohttp.ClientProxyConnectionError):
            return FetchError(Failure.UNREACHABLE, f"the proxy: {cause}")
        if isinstance(cause, ConnectionRefusedError):
            return FetchError(Failure.REFUSED)
        if isinstance(cause, ConnectionError):
            return FetchError(Failure.DISCONNECTED, str(cause))
        if isinstance(cause, TimeoutError):
            return FetchError(Failure.CONNECT_TIMEOUT)
        return FetchError(Failure.UNREACHABLE, str(cause))
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return FetchError(Failure.UNREACHABLE, f"the proxy: {error.status} {error.message}")
    return FetchError(Failure.DISCONNECTED, str(error))
