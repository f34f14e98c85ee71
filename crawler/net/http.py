"""URLs to responses, through aiohttp, of which nothing leaves this file."""

import asyncio
import errno
import ssl
import time
from functools import partial
from socket import AF_INET, AF_INET6, AF_UNSPEC, AddressFamily, socket
from typing import Final, Self

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from yarl import URL

from crawler import config
from crawler.net.codings import undo
from crawler.net.dns import is_public
from crawler.ports import Failure, Fetcher, FetchError, Resolver, Response, UserError

_ADDRESSES_TRIED: Final = 2  # of each family


class _AiohttpResolver(AbstractResolver):
    """Our resolver as aiohttp asks for it."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver

    async def resolve(
        self, host: str, port: int = 0, family: AddressFamily = AF_UNSPEC
    ) -> list[ResolveResult]:
        by_family: dict[AddressFamily, list[ResolveResult]] = {AF_INET6: [], AF_INET: []}
        for address, own_port in await self._resolver.resolve(host):
            its_family = AF_INET6 if ":" in address else AF_INET
            by_family[its_family].append(
                ResolveResult(
                    hostname=host,
                    host=address,
                    port=own_port or port,
                    family=its_family,
                    proto=0,
                    flags=0,
                )
            )
        return [each for group in by_family.values() for each in group[:_ADDRESSES_TRIED]]

    async def close(self) -> None:
        """Whoever made the resolver closes it."""


class _AiohttpResponse(aiohttp.ClientResponse):
    """Knows its peer: aiohttp lets go of the connection as soon as the body is there."""

    peer: str | None = None

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        if connection.transport:
            peername = connection.transport.get_extra_info("peername")
            self.peer = peername[0] if peername else None
        return await super().start(connection)


class _AiohttpProtocol(ResponseHandler):
    """Tells whoever reads a body that there won't be more.

    aiohttp 3.14 forgets to when chunked coding turns to garbage, and one waits for `timeout_s`.
    """

    def connection_lost(self, exc: BaseException | None) -> None:
        content = self._payload
        super().connection_lost(exc)
        if content is not None and not content.is_eof() and content.exception() is None:
            content.set_exception(aiohttp.ClientPayloadError("broken transfer coding"))


class HttpFetcher(Fetcher):
    """One GET for one URL. An async context manager; no limit on fetches at a time.

    aiohttp repeats a request once when the connection is lost before any answer, as happens when a
    server drops an idle connection just then. Raises UserError for unusable `ca_files` or headers.
    """

    def __init__(self, fetch: config.Fetch, resolver: Resolver) -> None:
        self._fetch = fetch
        self._resolver = resolver
        self._tls = _tls_context(fetch)
        agent = fetch.user_agent + (f" (+{fetch.contact})" if fetch.contact else "")
        if not (agent.isascii() and agent.isprintable()):
            raise UserError(f"fetch.user_agent, fetch.contact: {agent!r}: must be printable ASCII")
        self._headers = {
            "User-Agent": agent,
            "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            "Accept-Encoding": "gzip, deflate, br, zstd",
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in self._headers.items())
        self._head_end = f"\r\n{lines}\r\n"
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(
            resolver=_AiohttpResolver(self._resolver),
            use_dns_cache=False,
            limit=0,
            ssl=self._tls,
            socket_factory=self._socket,
        )
        connector._factory = partial(  # type: ignore[assignment]  # a subclass will do
            _AiohttpProtocol, asyncio.get_running_loop()
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                total=self._fetch.timeout_s,
                connect=self._fetch.connect_timeout_s,
                sock_read=self._fetch.idle_timeout_s,
            ),
            auto_decompress=False,
            response_class=_AiohttpResponse,
            max_line_size=32 << 10,
            max_field_size=32 << 10,
            max_headers=256,  # 8 MB of headers at worst
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def fetch(self, url: str) -> Response:
        started, start = time.time(), time.perf_counter()
        try:
            target = URL(url, encoded=True)
            answer = await self._session.get(target, allow_redirects=False)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _translated(error) from error
        assert isinstance(answer, _AiohttpResponse)
        try:
            payload, failure = await self._read(answer.content)
        finally:
            answer.close()  # drops the connection unless the body came whole
        truncated = _TRUNCATED[failure] if failure else None
        body = payload
        if "Content-Encoding" in answer.headers:
            codings = ",".join(answer.headers.getall("Content-Encoding")).lower().split(",")
            body, undone = undo(
                [coding.strip() for coding in codings], payload, self._fetch.max_bytes
            )
            failure = failure or undone
        reason = answer.reason or ""
        if not reason.isascii():
            reason = reason.encode("utf-8", "surrogateescape").decode("latin-1")  # bytes as sent
        return Response(
            url=url,
            started=started,
            seconds=time.perf_counter() - start,
            address=answer.peer,
            request_head=(
                f"GET {target.raw_path_qs} HTTP/1.1\r\n"
                f"Host: {target.host_port_subcomponent}{self._head_end}"
            ).encode(),
            version="1.0" if answer.version and answer.version.minor == 0 else "1.1",
            status=answer.status,
            reason=reason,
            headers=answer.raw_headers,
            payload=payload,
            body=body,
            truncated=truncated,
            failure=failure,
        )

    async def _read(self, content: aiohttp.StreamReader) -> tuple[bytes, Failure | None]:
        chunks: list[bytes] = []
        size, limit = 0, self._fetch.max_bytes
        failure: Failure | None = None
        try:
            while size <= limit:
                chunk = await content.readany()
                if not chunk:
                    return b"".join(chunks), None
                chunks.append(chunk)
                size += len(chunk)
            failure = Failure.TOO_LARGE
        except TimeoutError:
            failure = Failure.TIMEOUT
        except (aiohttp.ClientError, OSError):
            failure = Failure.DISCONNECTED
        # After an error aiohttp won't hand over what it had already received.
        chunks.extend(content._buffer)
        return b"".join(chunks)[:limit], failure

    def _socket(self, info: aiohttp.AddrInfoType) -> socket:
        family, kind, protocol, _, address = info
        if not (self._fetch.allow_private_addresses or is_public(str(address[0]))):
            raise FetchError(Failure.PRIVATE_ADDRESS, str(address[0]), address=str(address[0]))
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


_TRUNCATED: Final = {
    Failure.TOO_LARGE: "length",
    Failure.TIMEOUT: "time",
    Failure.DISCONNECTED: "disconnect",
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
        if isinstance(cause, ConnectionRefusedError):
            return FetchError(Failure.REFUSED)
        if isinstance(cause, ConnectionError):
            return FetchError(Failure.DISCONNECTED, str(cause))
        if isinstance(cause, TimeoutError):
            return FetchError(Failure.CONNECT_TIMEOUT)
        return FetchError(Failure.UNREACHABLE, str(cause))
    if isinstance(error, aiohttp.ClientResponseError):
        return FetchError(Failure.BAD_HTTP, " ".join(error.message.split()))
    if isinstance(error, aiohttp.NonHttpUrlClientError | ValueError):  # InvalidURL is one too
        return FetchError(Failure.BAD_URL, str(error))
    return FetchError(Failure.DISCONNECTED, str(error))
