"""Connections of aiohttp's pool with a response reader of our own behind them, and our addresses.

The only file that knows aiohttp's insides; tests/test_net.py would notice if they changed. What
we take from aiohttp is its connector: the pool, addresses tried in turn, TLS, tunnels through
proxies. Requests and responses are ours: a request is a few lines of text, and a response is
gathered in one place and wakes who waits for it once, as nobody wants half a page.
"""

import asyncio
from collections.abc import Collection
from socket import AF_INET, AF_INET6, AF_UNSPEC, AddressFamily
from ssl import SSLError
from typing import Final, NamedTuple

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.resolver import ThreadedResolver

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


class Answer(NamedTuple):
    """A response as it came; `failure` says why that isn't all of its payload."""

    head: Head
    payload: bytes
    failure: Failure | None


class Limits(NamedTuple):
    head_bytes: int  # of all before the body
    headers: int  # lines
    payload_bytes: int
    idle_s: float  # between two pieces


class WireProtocol(ResponseHandler):
    """A connection, which serves one exchange after another.

    aiohttp asks `should_close` when it gets the connection back. Where a proxy is asked for a
    tunnel, there is no exchange of ours, and aiohttp reads the answer.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: Limits) -> None:
        super().__init__(loop)
        self.peer: str | None = None  # its address
        self._limits = limits
        self._exchanges = 0
        self._reader: ResponseReader | None = None  # while there is an exchange
        self._answer: asyncio.Future[Answer]
        self._head: Head | None = None
        self._pieces: list[bytes] = []
        self._room = 0  # for more of them
        self._heard = self._deadline = 0.0
        self._look: asyncio.TimerHandle

    async def exchange(self, request: bytes, deadline: float) -> Answer:
        """Send a request and wait for what comes of it, until a time of the loop's clock.

        Raises FetchError where that isn't even a head, and LostConnectionError.
        """
        self._exchanges += 1
        if self.transport is None:
            raise self._loss(None)
        self._should_close = True  # until it turns out well
        self._reader = ResponseReader(self._limits.head_bytes, self._limits.headers)
        self._head = None
        self._pieces = []
        self._room = self._limits.payload_bytes
        self._answer = self._loop.create_future()
        self._deadline = deadline
        self._heard = self._loop.time()
        self._look = self._loop.call_at(
            min(deadline, self._heard + self._limits.idle_s), self._look_at_the_clock
        )
        try:
            self.transport.write(request)
            early, self._tail = self._tail, b""
            if early:  # the server spoke first
                self._resume_reading_for_buffer()
                self.data_received(early)
            return await self._answer
        finally:
            self._look.cancel()
            self._reader = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peername = transport.get_extra_info("peername")
        self.peer = peername[0] if peername else None

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        if reader is None:
            if not self._exchanges:
                super().data_received(data)  # which keeps it, or knows that it is a proxy's
            elif data and self.transport is not None:
                self.transport.close()  # nobody asked for this
            return
        self._heard = self._loop.time()
        try:
            self._take(reader.feed(data))
        except FetchError as error:
            self._fail(self._loss(error))
        if reader.behind and self._reader is reader:
            self._pause_transport_reading()
            self._loop.call_soon(self._catch_up, reader)

    def _catch_up(self, reader: ResponseReader) -> None:
        """Go on with what has come, as others have had the CPU meanwhile."""
        if self._reader is reader:
            self.data_received(b"")
        if self._reader is not reader or not reader.behind:
            self._resume_transport_reading()

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._reader is not None:
            try:
                events = self._reader.close()
                self._take([End.CUT if exc and isinstance(e, End) else e for e in events])
            except FetchError as error:
                self._fail(self._loss(error))
            self._fail(self._loss(exc))  # unless all has come to an end
        super().connection_lost(exc)

    def _take(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, bytes):
                self._room -= len(event)
                if self._room < 0:
                    self._pieces.append(event[: self._room])
                    self._end(Failure.TOO_LARGE)
                    return
                self._pieces.append(event)
            elif isinstance(event, Head):
                self._head = event
            else:
                assert self._reader is not None
                self._should_close = not self._reader.reusable
                self._end(_FAILURES[event])

    def _look_at_the_clock(self) -> None:
        now, due = self._loop.time(), min(self._deadline, self._heard + self._limits.idle_s)
        if now < due:
            self._look = self._loop.call_at(due, self._look_at_the_clock)
        elif self._head is None:
            self._fail(FetchError(Failure.TIMEOUT, address=self.peer))
        else:
            self._end(Failure.TIMEOUT)

    def _end(self, failure: Failure | None) -> None:
        assert self._head is not None
        self._reader = None
        if not self._answer.done():
            self._answer.set_result(Answer(self._head, b"".join(self._pieces), failure))

    def _fail(self, error: Exception) -> None:
        self._reader = None
        if not self._answer.done():
            self._answer.set_exception(error)

    def _loss(self, error: BaseException | None) -> Exception:
        """What it means that no response has begun."""
        if self._exchanges > 1:
            return LostConnectionError()
        if isinstance(error, FetchError):
            return FetchError(error.failure, error.detail, address=self.peer)
        failure = Failure.TLS if isinstance(error, SSLError) else Failure.DISCONNECTED
        return FetchError(failure, str(error or "the server closed"), address=self.peer)


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
