"""Connections that serve one exchange after another.

A request is a few lines of text. A response is gathered in one place, and its waiter wakes once,
when the whole response has arrived. One timer watches over the time limits of all exchanges.
"""

import asyncio
from math import inf
from ssl import SSLError
from typing import Final, NamedTuple, cast

from crawler.faults import is_fault
from crawler.net.response import End, Event, Head, ResponseReader
from crawler.ports import Failure, FetchError

_MAX_EARLY: Final = 64 << 10  # bytes that a server may send before a request
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


class Watch:
    """Ends exchanges whose time is over. One timer serves all of them.

    A timer for each exchange would take longer than to read the response's head.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._exchanges: set[WireProtocol] = set()
        self._due = inf  # when `_look` is called
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, protocol: "WireProtocol", due: float) -> None:
        """Call the `look` of a protocol at a time, and then at the times that it returns."""
        self._exchanges.add(protocol)
        if due < self._due:
            self._look_at(due)

    def end(self, protocol: "WireProtocol") -> None:
        """Watch over an exchange no more."""
        self._exchanges.discard(protocol)

    def close(self) -> None:
        """Watch over nothing more."""
        self._exchanges.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _look_at(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = due
        self._timer = self._loop.call_at(due, self._look)

    def _look(self) -> None:
        self._due, now = inf, self._loop.time()
        due = min((protocol.look(now) for protocol in tuple(self._exchanges)), default=inf)
        if due < inf:
            self._look_at(due)


class WireProtocol(asyncio.Protocol):
    """A connection that serves one exchange after another."""

    reusable = False  # whether the latest exchange ended well, so that another one may follow
    idle_since = 0.0  # a time of the loop's clock, for the owner of the connection

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: Limits, watch: Watch) -> None:
        self.peer: str | None = None  # the address of the server
        self.lost: asyncio.Future[None] = loop.create_future()  # set once the connection is closed
        self._loop = loop
        self._limits = limits
        self._watch = watch
        self._transport: asyncio.Transport | None = None
        self._early = b""  # bytes that came before the first request
        self._exchanges = 0
        self._reader: ResponseReader | None = None  # while there is an exchange
        self._answer: asyncio.Future[Answer]
        self._head: Head | None = None
        self._pieces: list[bytes] = []
        self._room = 0  # bytes that the payload may still grow
        self._heard = self._deadline = 0.0

    @property
    def is_open(self) -> bool:
        """Whether an exchange may begin here."""
        return self._transport is not None and not self._transport.is_closing()

    def close(self) -> None:
        """Close the connection, after what was written has left."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    async def exchange(
        self, request: bytes, deadline: float, max_bytes: int | None = None
    ) -> Answer:
        """Send a request and return the answer, which is cut off at the deadline.

        `deadline` is a time of the loop's clock. `max_bytes` replaces the usual limit on the
        payload. Raises FetchError if no whole head has arrived. Raises LostConnectionError if a
        kept connection was lost before an answer.
        """
        self._exchanges += 1
        if self._transport is None:
            raise self._loss(None)
        self.reusable = False
        self._reader = ResponseReader(self._limits.head_bytes, self._limits.headers)
        self._head = None
        self._pieces = []
        self._room = self._limits.payload_bytes if max_bytes is None else max_bytes
        self._answer = self._loop.create_future()
        self._deadline = deadline
        self._heard = self._loop.time()
        self._watch.begin(self, min(deadline, self._heard + self._limits.idle_s))
        try:
            self._transport.write(request)
            if self._early:
                early, self._early = self._early, b""
                self._transport.resume_reading()
                self.data_received(early)
            return await self._answer
        finally:
            self._watch.end(self)
            self._reader = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the address of the server. The loop calls this."""
        self._transport = cast("asyncio.Transport", transport)
        peername = transport.get_extra_info("peername")
        self.peer = peername[0] if peername else None

    def data_received(self, data: bytes) -> None:
        """Read bytes that have arrived. The loop calls this."""
        reader = self._reader
        if reader is None:
            self._take_unasked(data)
            return
        self._heard = self._loop.time()
        try:
            self._handle(reader.feed(data))
        except FetchError as error:
            self._fail(self._loss(error))
        except BaseException as error:
            self._give_up(error)
        if reader.behind and self._reader is reader and self.is_open:
            assert self._transport is not None
            self._transport.pause_reading()
            self._loop.call_soon(self._catch_up, reader)

    def _take_unasked(self, data: bytes) -> None:
        """Keep bytes that come before the first request. Later ones answer no request."""
        if self._exchanges:
            self.close()
            return
        self._early += data
        if len(self._early) > _MAX_EARLY and self._transport is not None:
            self._transport.pause_reading()

    def _catch_up(self, reader: ResponseReader) -> None:
        """Read the remaining bytes, after other tasks have run."""
        if self._reader is reader:
            self.data_received(b"")
        if (self._reader is not reader or not reader.behind) and self.is_open:
            assert self._transport is not None
            self._transport.resume_reading()

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
        self._transport = None
        self.reusable = False
        if not self.lost.done():
            self.lost.set_result(None)

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
                self.reusable = self._reader.reusable
                self._end(_FAILURES[event])

    def look(self, now: float) -> float:
        """End the exchange if its time is over. Returns when to look again."""
        if self._reader is None:
            return inf
        due = min(self._deadline, self._heard + self._limits.idle_s)
        if now < due:
            return due
        if self._head is None:
            self._fail(FetchError(Failure.TIMEOUT, address=self.peer))
        else:
            self._end(Failure.TIMEOUT)
        return inf

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
        self.close()
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
