"""aiohttp with a response reader of our own in place of its parser, and with our addresses.

The only file that knows aiohttp's insides; tests/test_net.py would notice if they changed. What
we take from aiohttp: requests, the pool of connections, TLS, proxies, time limits.
"""

import asyncio
from collections.abc import Callable, Collection
from socket import AF_INET, AF_INET6, AF_UNSPEC, AddressFamily
from ssl import SSLError
from typing import Any, Final, NamedTuple

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.helpers import BaseTimerContext
from aiohttp.http_writer import HttpVersion, HttpVersion11
from aiohttp.resolver import ThreadedResolver
from multidict import CIMultiDict, CIMultiDictProxy

from crawler.net.reader import End, Event, Head, ResponseReader
from crawler.ports import Failure, FetchError, Resolver

_ADDRESSES_TRIED: Final = 2  # of each family
_FAILURES: Final = {
    End.WHOLE: None,
    End.CUT: Failure.DISCONNECTED,
    End.BROKEN: Failure.BAD_HTTP,
}


class LostConnectionError(Exception):
    """A connection that had served before broke ahead of an answer: ask again on another one."""


class Body:
    """The body of a response while it comes, in place of aiohttp's StreamReader.

    It keeps all it gets, up to a limit, and wakes its reader once: nobody wants half a page.
    """

    __slots__ = ("_ended", "_loop", "_pieces", "_room", "_waiter", "_when_whole", "failure")

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int) -> None:
        self.failure: Failure | None = None
        self._loop = loop
        self._pieces: list[bytes] = []
        self._room = limit
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None
        self._when_whole: Callable[[], None] | None = None

    async def read(self, timer: BaseTimerContext) -> bytes:
        """What came of it, in the end; `failure` says why that isn't all."""
        if not self._ended:
            self._waiter = self._loop.create_future()
            try:
                with timer:
                    await self._waiter
            except TimeoutError:
                self.end(Failure.TIMEOUT)
        return b"".join(self._pieces)

    def feed(self, piece: bytes) -> None:
        if self._ended:
            return
        self._room -= len(piece)
        if self._room < 0:
            self._pieces.append(piece[: self._room])
            self.end(Failure.TOO_LARGE)
        else:
            self._pieces.append(piece)

    def end(self, failure: Failure | None = None) -> None:
        """No more will be taken. Only the first call counts."""
        if self._ended:
            return
        self._ended = True
        self.failure = failure
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        if failure is None and self._when_whole is not None:
            self._when_whole()

    # What aiohttp asks of a payload

    def on_eof(self, callback: Callable[[], None]) -> None:
        """aiohttp gives the connection back then."""
        if self.is_eof():
            callback()
        else:
            self._when_whole = callback

    def is_eof(self) -> bool:
        return self._ended and self.failure is None

    def exception(self) -> BaseException | None:
        return None

    def set_exception(self, error: BaseException, _cause: BaseException | None = None) -> None:
        self.end(Failure.TIMEOUT if isinstance(error, TimeoutError) else Failure.DISCONNECTED)


class AddressBook(AbstractResolver):
    """Our resolver as aiohttp asks for it; the system's for our proxies, which may be private."""

    def __init__(self, resolver: Resolver, proxies: Collection[tuple[str, int]]) -> None:
        """`proxies`: their hosts and ports."""
        self.trusted: set[tuple[str, int]] = set(proxies)  # and their addresses, as they get known
        self._resolver = resolver
        self._proxies = proxies

    async def resolve(
        self, host: str, port: int = 0, family: AddressFamily = AF_UNSPEC
    ) -> list[ResolveResult]:
        if (host, port) in self._proxies:
            found = await ThreadedResolver().resolve(host, port)
            self.trusted.update((each["host"], port) for each in found)
            return found
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


class _Message(NamedTuple):
    """As much of a head as aiohttp looks at; it has no need of the headers."""

    code: int
    reason: str
    version: HttpVersion = HttpVersion11
    headers: "CIMultiDictProxy[str]" = CIMultiDictProxy(CIMultiDict[str]())
    raw_headers: tuple[tuple[bytes, bytes], ...] = ()


class _NoParser:
    """Stands where aiohttp's parser would."""

    @staticmethod
    def pause_reading() -> None:
        """The transport does it."""

    @staticmethod
    def feed_eof() -> None:
        """`WireProtocol.connection_lost` does it."""


class WireProtocol(ResponseHandler):
    """A connection whose responses a ResponseReader reads."""

    head: Head  # of the response that has last begun

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        new_reader: Callable[[], ResponseReader],
        max_body_bytes: int,
    ) -> None:
        super().__init__(loop)
        self.requests = 0
        self.peer: str | None = None  # its address
        self._new_reader = new_reader
        self._max_body_bytes = max_body_bytes
        self._reader: ResponseReader | None = None  # while a response is to come
        self._body: Body  # of that response, once its head is there

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peername = transport.get_extra_info("peername")
        self.peer = peername[0] if peername else None

    def set_response_params(self, **params: Any) -> None:
        """A request is about to be sent."""
        self.requests += 1
        self._reader = self._new_reader()
        self._parser: Any = _NoParser
        self._read_timeout = params.get("read_timeout")
        self._timeout_ceil_threshold = params.get("timeout_ceil_threshold", 5)
        self._drain_tail()

    def data_received(self, data: bytes) -> None:
        if self._reader is None:
            if not self.requests:
                super().data_received(data)  # which keeps it
            elif data and self.transport is not None:
                self.transport.close()  # nobody asked for this
            return
        try:
            self._take(self._reader.feed(data))
        except FetchError as error:
            self._give_up(error)
        if self._reader is None:
            return
        if data:
            self._reschedule_timeout()
        if self._reader.behind:
            self._pause_transport_reading()
            self._loop.call_soon(self._catch_up)

    def _catch_up(self) -> None:
        """Go on with what has come, as others have had the CPU meanwhile."""
        self.data_received(b"")
        if self._reader is None or not self._reader.behind:
            self._resume_transport_reading()

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._reader is not None:
            try:
                events = self._reader.close()
                self._take([End.CUT if exc and isinstance(e, End) else e for e in events])
            except FetchError as error:
                self._give_up(error)
            self._reader = None
        super().connection_lost(exc)

    def _take(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, bytes):
                self._body.feed(event)
            elif isinstance(event, Head):
                self.head = event
                body: Any = Body(self._loop, self._max_body_bytes)
                self._body = self._payload = body
                self.feed_data((_Message(event.status, event.reason), body))  # type: ignore[arg-type]
            else:
                self._end(event)

    def _end(self, end: End) -> None:
        reader, self._reader = self._reader, None
        assert reader is not None
        if not reader.reusable:
            self.force_close()
        self._drop_timeout()
        self._body.end(_FAILURES[end])  # may give the connection back

    def _give_up(self, error: FetchError) -> None:
        self._reader = None
        self.set_exception(error)
        if self.transport is not None:
            self.transport.close()


class WireRequest(aiohttp.ClientRequest):
    """Tells apart what a loss means on a kept connection and on a new one."""

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        """Raises FetchError or LostConnectionError."""
        try:
            return await super().send(conn)
        except aiohttp.ClientConnectionResetError as error:
            raise _loss(conn.protocol, error) from error


class WireResponse(aiohttp.ClientResponse):
    """A head and a body. aiohttp lets go of the connection as soon as the body is there."""

    head: Head
    body: Body
    peer: str | None  # the address of the other end

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        """Wait for the head. Raises FetchError, LostConnectionError, or a TimeoutError."""
        protocol = connection.protocol
        assert isinstance(protocol, WireProtocol)
        try:
            await super().start(connection)
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError, FetchError) as error:
            raise _loss(protocol, error) from error
        self.head = protocol.head
        self.peer = protocol.peer
        assert isinstance(self.content, Body)
        self.body = self.content
        return self

    async def payload(self) -> bytes:
        """All that comes of the body; `body.failure` then says why that isn't all of it."""
        return await self.body.read(self._timer)


def _loss(protocol: ResponseHandler | None, error: Exception) -> Exception:
    """What to raise where a response couldn't begin: never an error at which aiohttp asks again."""
    assert isinstance(protocol, WireProtocol)
    if protocol.requests > 1:
        return LostConnectionError()
    if isinstance(error, FetchError):
        return FetchError(error.failure, error.detail, address=protocol.peer)
    cause = error.__cause__
    failure = Failure.TLS if isinstance(cause, SSLError) else Failure.DISCONNECTED
    return FetchError(failure, str(cause or error), address=protocol.peer)
