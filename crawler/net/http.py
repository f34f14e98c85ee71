"""URLs to responses: one GET each, by aiohttp's client with a response reader of our own."""

import asyncio
import errno
import ssl
import time
from collections.abc import Generator, Mapping
from functools import partial
from socket import socket
from typing import Final, Self, TypeVar

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from crawler import config
from crawler.net.codings import undoing
from crawler.net.credentials import Credentials, withhold
from crawler.net.dns import is_public
from crawler.net.proxies import Proxies, is_private
from crawler.net.reader import ResponseReader
from crawler.net.wire import (
    AddressBook,
    LostConnectionError,
    WireProtocol,
    WireRequest,
    WireResponse,
)
from crawler.ports import (
    Failure,
    Fetcher,
    FetchError,
    Resolver,
    Response,
    UserError,
    Validators,
)

_T = TypeVar("_T")


class HttpFetcher(Fetcher):
    """One GET for one URL. An async context manager; no limit on fetches at a time.

    When a kept connection turns out to be lost, the request is made again on another one; a new
    connection is asked once. Raises UserError for settings that can't be used.
    """

    def __init__(self, fetch: config.Fetch, resolver: Resolver) -> None:
        self._fetch = fetch
        self._tls = _tls_context(fetch)
        agent = fetch.user_agent_header
        if not (agent.isascii() and agent.isprintable()):
            raise UserError(f"fetch.user_agent, fetch.contact: {agent!r}: must be printable ASCII")
        self._headers = {
            "User-Agent": agent,
            "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            "Accept-Encoding": "gzip, deflate, br, zstd",
        }
        self._head_end = _head_end(self._headers)
        self._credentials = Credentials(fetch)
        self._proxies = Proxies(fetch.proxy)
        self._addresses = AddressBook(resolver, self._proxies.addresses)
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        fetch = self._fetch
        connector = aiohttp.TCPConnector(
            resolver=self._addresses,
            use_dns_cache=False,
            limit=0,
            ssl=self._tls,
            socket_factory=self._socket,
        )
        new_reader = partial(ResponseReader, fetch.max_header_bytes, fetch.max_headers)
        connector._factory = partial(  # type: ignore[assignment]  # a subclass will do
            WireProtocol, asyncio.get_running_loop(), new_reader, fetch.max_bytes
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                total=fetch.timeout_s,
                connect=fetch.connect_timeout_s,
                sock_read=fetch.idle_timeout_s,
            ),
            request_class=WireRequest,
            response_class=WireResponse,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def fetch(self, url: str, validators: Validators | None = None) -> Response:
        started, start = time.time(), time.perf_counter()
        try:
            target = URL(url, encoded=True)
            further = self._credentials.headers(url) if self._credentials else {}
            if validators:
                further = {**further, **_conditions(validators)}
            answer = await self._ask(target, further)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _translated(error) from error
        try:
            payload = await answer.payload()
        finally:
            answer.close()  # drops the connection unless the body came whole
        head, failure = answer.head, answer.body.failure
        truncated = _TRUNCATED[failure] if failure else None
        if head.flawed:
            failure = failure or Failure.BAD_HTTP
        body = payload
        # Chunked is undone already; of other transfer codings the payload is free, too.
        for codings in (head.transfer_codings, head.content_codings):
            payload = body
            if codings:
                body, wrong = await _in_turns(undoing(codings, payload, self._fetch.max_bytes))
                failure = failure or wrong
                if wrong and body is not payload:
                    truncated = truncated or _TRUNCATED[wrong]
        return Response(
            url=url,
            started=started,
            seconds=time.perf_counter() - start,
            address=answer.peer,
            request_head=(
                f"GET {target.raw_path_qs} HTTP/1.1\r\nHost: {target.host_port_subcomponent}\r\n"
                f"{_head_end(self._headers, further) if further else self._head_end}"
            ).encode(),
            version=head.version,
            status=head.status,
            reason=head.reason,
            headers=head.headers,
            payload=payload,
            body=body,
            truncated=truncated,
            failure=failure,
        )

    async def _ask(self, target: URL, further: Mapping[str, str]) -> WireResponse:
        """The answer, as soon as its head is there."""
        proxy = self._proxies.choose(target) if self._proxies else None
        if proxy and is_private(target) and not self._fetch.allow_private_addresses:
            raise FetchError(Failure.PRIVATE_ADDRESS, str(target.raw_host))
        while True:  # each time round there is one kept connection less
            try:
                answer = await self._session.get(
                    target, allow_redirects=False, headers=further or None, proxy=proxy
                )
            except LostConnectionError:
                continue
            assert isinstance(answer, WireResponse)
            if proxy:
                answer.peer = None  # that was the proxy
            return answer

    def _socket(self, info: aiohttp.AddrInfoType) -> socket:
        family, kind, protocol, _, address = info
        host, port = str(address[0]), int(address[1])
        if not (
            self._fetch.allow_private_addresses
            or is_public(host)
            or (host, port) in self._addresses.trusted
        ):
            raise FetchError(Failure.PRIVATE_ADDRESS, host, address=host)
        return socket(family, kind, protocol)


def _tls_context(fetch: config.Fetch) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    for file in fetch.ca_files:
        try:
            context.load_verify_locations(file)
        except OSError as error:  # an SSLError is one
            raise UserError(f"fetch.ca_files: {file}: {error}; a PEM file is needed") from None
    if not fetch.verify_tls:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _head_end(headers: Mapping[str, str], further: Mapping[str, str] | None = None) -> str:
    """A request head behind Host as records show it: as sent, but without what is secret."""
    merged = CIMultiDict(headers)
    for name, value in (further or {}).items():
        merged[name] = withhold(name, value)
    return "".join(f"{name}: {value}\r\n" for name, value in merged.items()) + "\r\n"


def _conditions(validators: Validators) -> dict[str, str]:
    conditions = (
        ("If-None-Match", validators.etag),
        ("If-Modified-Since", validators.last_modified),
    )
    # What isn't printable ASCII can't be sent back as it came.
    return {name: v for name, v in conditions if v and v.isascii() and v.isprintable()}


async def _in_turns(steps: Generator[None, None, _T]) -> _T:
    """Do them all, and let others have the CPU at each pause."""
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
}
_TLS_ERRORS: Final = (aiohttp.ClientConnectorSSLError, aiohttp.ClientConnectorCertificateError)


def _translated(error: Exception) -> Exception:
    """What became of a request that got no response."""
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return FetchError(Failure.CONNECT_TIMEOUT)
    if isinstance(error, TimeoutError):
        return FetchError(Failure.TIMEOUT)
    if isinstance(error, _TLS_ERRORS):
        return FetchError(Failure.TLS, str(error))
    if isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
        if cause.errno in (errno.EMFILE, errno.ENFILE):
            return OSError(cause.errno, cause.strerror)  # our trouble, not the server's
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
    if isinstance(error, aiohttp.NonHttpUrlClientError | ValueError):  # InvalidURL is one too
        return FetchError(Failure.BAD_URL, str(error))
    return FetchError(Failure.DISCONNECTED, str(error))
