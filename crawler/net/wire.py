"""Connections of aiohttp's pool with a response reader of our own behind them.

The only file that knows aiohttp's insides. `PRIVATE_NAMES` lists them, and tests/test_privates.py
says which one has changed (docs/decisions/net.md). We take aiohttp's connector: the pool, addresses
tried in turn, TLS, tunnels through proxies. Requests and responses are ours: a request is a few
lines of text. A response is gathered in one place and wakes its reader once.
"""

import asyncio
from functools import partial
from ssl import SSLError
from typing import Any, Final, NamedTuple

import aiohttp
from aiohttp.client_proto import ResponseHandler

from crawler.faults import is_fault
from crawler.net.response import End, Event, Head, ResponseReader
from crawler.ports import Failure, FetchError

# What this file uses of aiohttp and isn't documented, by class.
PRIVATE_NAMES: Final = {
    aiohttp.TCPConnector: ("_factory", "_wrap_create_connection"),
    ResponseHandler: (
        "_loop",
        "_pause_transport_reading",
        "_resume_reading_for_buffer",
        "_resume_transport_reading",
        "_should_close",
        "_tail",
        "transport",
    ),
}
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
    fault: BaseException | None = None  # what our reader raised, if failure is INTERNAL


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

    async def exchange(
        self, request: bytes, deadline: float, max_bytes: int | None = None
    ) -> Answer:
        """Send a request and wait for what comes of it, until a time of the loop's clock.

        `max_bytes` is the limit on the payload, if it isn't the usual one. Raises FetchError if
        not even a head has come, and LostConnectionError.
        """
        self._exchanges += 1
        if self.transport is None:
            raise self._loss(None)
        self._should_close = True  # until it turns out well
        self._reader = ResponseReader(self._limits.head_bytes, self._limits.headers)
        self._head = None
        self._pieces = []
        self._room = self._limits.payload_bytes if max_bytes is None else max_bytes
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
        except BaseException as error:
            self._give_up(error)
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
            except BaseException as error:
                self._give_up(error)
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

    def _end(self, failure: Failure | None, fault: BaseException | None = None) -> None:
        assert self._head is not None
        self._reader = None
        if not self._answer.done():
            self._answer.set_result(Answer(self._head, b"".join(self._pieces), failure, fault))

    def _fail(self, error: BaseException) -> None:
        self._reader = None
        if not self._answer.done():
            self._answer.set_exception(error)

    def _give_up(self, error: BaseException) -> None:
        """End the response after an error of the reader, with what has come, if that has a head."""
        if not is_fault(error):
            raise error
        if self.transport is not None:
            self.transport.close()
        if self._head is None:
            # A future takes any exception but StopIteration.
            self._fail(RuntimeError(repr(error)) if isinstance(error, StopIteration) else error)
        else:
            self._end(Failure.INTERNAL, error)

    def _loss(self, error: BaseException | None) -> Exception:
        """What it means that no response has begun."""
        if self._exchanges > 1:
            return LostConnectionError()
        if isinstance(error, FetchError):
            return FetchError(error.failure, error.detail, address=self.peer)
        failure = Failure.TLS if isinstance(error, SSLError) else Failure.DISCONNECTED
        return FetchError(failure, str(error or "the server closed"), address=self.peer)


class Connector(aiohttp.TCPConnector):
    """aiohttp's connector, with our connections, and each address of a host tried once.

    Addresses are tried side by side, each a quarter of a second after the one before (RFC 8305).
    aiohttp would try those that have failed again and again, one less each time.
    """

    def __init__(self, limits: Limits, **settings: Any) -> None:
        super().__init__(use_dns_cache=False, limit=0, **settings)
        loop = asyncio.get_running_loop()
        self._factory = partial(WireProtocol, loop, limits)  # type: ignore[assignment]  # a subclass will do

    async def _wrap_create_connection(
        self, *args: Any, addr_infos: list[Any], **settings: Any
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        try:
            return await super()._wrap_create_connection(*args, addr_infos=addr_infos, **settings)
        except (aiohttp.ClientConnectorError, TimeoutError):
            addr_infos.clear()  # all were tried; the caller goes on with those that are left
            raise
