"""Connections of aiohttp's pool, read by our own response reader.

We use aiohttp's connector: it pools connections, tries addresses in turn, and does TLS and tunnels
through proxies. Requests and responses are ours. A request is a few lines of text. A response is
gathered in one place, and its waiter wakes once, when the whole response has arrived.

Only this file uses private names of aiohttp. `PRIVATE_NAMES` lists them, and
tests/test_privates.py says which one has changed (docs/decisions/net.md).
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

# The undocumented attributes of aiohttp that this file uses, by class.
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
    """A kept connection was lost before an answer. The request must be made on another one."""


class Answer(NamedTuple):
    """A response as it came. If its payload is incomplete, `failure` says why."""

    head: Head
    payload: bytes
    failure: Failure | None
    fault: BaseException | None = None  # what our reader raised, if failure is INTERNAL


class Limits(NamedTuple):
    """The limits on a response."""

    head_bytes: int  # of everything before the body
    headers: int  # lines
    payload_bytes: int
    idle_s: float  # between two pieces


class WireProtocol(ResponseHandler):
    """A connection that serves one exchange after another.

    When aiohttp gets the connection back, it reads `should_close`. When a proxy is asked for a
    tunnel, aiohttp itself reads the answer, outside our exchanges.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: Limits) -> None:
        super().__init__(loop)
        self.peer: str | None = None  # the address of the server
        self._limits = limits
        self._exchanges = 0
        self._reader: ResponseReader | None = None  # while there is an exchange
        self._answer: asyncio.Future[Answer]
        self._head: Head | None = None
        self._pieces: list[bytes] = []
        self._room = 0  # bytes that the payload may still grow
        self._heard = self._deadline = 0.0
        self._look: asyncio.TimerHandle

    async def exchange(
        self, request: bytes, deadline: float, max_bytes: int | None = None
    ) -> Answer:
        """Send a request and return the answer, which is cut off at the deadline.

        `deadline` is a time of the loop's clock. `max_bytes` replaces the usual limit on the
        payload. Raises FetchError if no whole head has arrived. Raises LostConnectionError if a
        kept connection was lost before an answer.
        """
        self._exchanges += 1
        if self.transport is None:
            raise self._loss(None)
        self._should_close = True  # set to False if the exchange ends well
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
            if early:  # the server sent bytes before our request
                self._resume_reading_for_buffer()
                self.data_received(early)
            return await self._answer
        finally:
            self._look.cancel()
            self._reader = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the address of the server. The loop calls this."""
        super().connection_made(transport)
        peername = transport.get_extra_info("peername")
        self.peer = peername[0] if peername else None

    def data_received(self, data: bytes) -> None:
        """Read bytes that have arrived. The loop calls this."""
        reader = self._reader
        if reader is None:
            if not self._exchanges:
                # aiohttp reads the answer of a proxy, and keeps other bytes in `_tail`.
                super().data_received(data)
            elif data and self.transport is not None:
                self.transport.close()  # these bytes answer no request
            return
        self._heard = self._loop.time()
        try:
            self._handle(reader.feed(data))
        except FetchError as error:
            self._fail(self._loss(error))
        except BaseException as error:
            self._give_up(error)
        if reader.behind and self._reader is reader:
            self._pause_transport_reading()
            self._loop.call_soon(self._catch_up, reader)

    def _catch_up(self, reader: ResponseReader) -> None:
        """Read the remaining bytes, after other tasks have run."""
        if self._reader is reader:
            self.data_received(b"")
        if self._reader is not reader or not reader.behind:
            self._resume_transport_reading()

    def connection_lost(self, exc: BaseException | None) -> None:
        """End the exchange, if there is one. The loop calls this."""
        if self._reader is not None:
            try:
                events = self._reader.close()
                self._handle([End.CUT if exc and isinstance(e, End) else e for e in events])
            except FetchError as error:
                self._fail(self._loss(error))
            except BaseException as error:
                self._give_up(error)
            self._fail(self._loss(exc))  # does nothing if the answer is there
        super().connection_lost(exc)

    def _handle(self, events: list[Event]) -> None:
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
        """End the exchange after an error of our reader.

        If the head has arrived, the answer is the part read so far. Otherwise the exchange fails.
        """
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
        """Return the error for an exchange that ended before a whole head."""
        if self._exchanges > 1:
            return LostConnectionError()
        if isinstance(error, FetchError):
            return FetchError(error.failure, error.detail, address=self.peer)
        failure = Failure.TLS if isinstance(error, SSLError) else Failure.DISCONNECTED
        return FetchError(failure, str(error or "the server closed"), address=self.peer)


class Connector(aiohttp.TCPConnector):
    """aiohttp's connector, which makes our connections and tries each address of a host once.

    Addresses are tried side by side, each a quarter of a second after the one before (RFC 8305).
    Without this class, aiohttp would try failed addresses repeatedly, one fewer in each round.
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
            addr_infos.clear()  # all were tried, and the caller would try those in the list again
            raise
