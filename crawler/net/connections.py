"""Makes connections to servers, directly or through proxies, and keeps them between exchanges."""

import asyncio
import errno
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from socket import SOCK_STREAM
from typing import Final, NamedTuple, TypeVar

from aiohappyeyeballs import AddrInfoType, start_connection

from crawler.net.addresses import AddressBook
from crawler.net.response import Head, ResponseReader
from crawler.net.tls import TlsContext
from crawler.net.wire import Limits, Watch, WireProtocol
from crawler.ports import Failure, FetchError

_P = TypeVar("_P", bound=asyncio.Protocol)

_NEXT_TRY_S: Final = 0.25  # until the next address is tried, too (RFC 8305)
MAX_IDLE: Final = 256  # connections; one with TLS takes about 45 kB
_KEPT_S: Final = 15.0  # an idle connection is kept so long; many servers close it sooner
_FAREWELL_S: Final = 1.0


class Server(NamedTuple):
    """What a connection leads to."""

    host: str  # an IPv6 address has no brackets
    port: int
    tls: bool


class Way(NamedTuple):
    """How a server is connected to: directly, or by a proxy."""

    server: Server
    proxy: Server | None = None
    tunnel: bytes = b""  # the request for a tunnel; empty if the proxy itself reads our requests


class Connections:
    """The connections of a fetcher, by way. Any number may be open.

    Idle connections are kept for `_KEPT_S`, but at most `MAX_IDLE` of them. The one that was used
    last is taken first, so those that aren't needed any more are closed.
    """

    def __init__(
        self, limits: Limits, addresses: AddressBook, tls: TlsContext, connect_timeout_s: float
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._addresses = addresses
        self._tls = tls
        self._connect_timeout_s = connect_timeout_s
        self._watch = Watch(self._loop)
        self._new = partial(WireProtocol, self._loop, limits, self._watch)
        self._head_limits = limits.head_bytes, limits.headers
        self._open: set[WireProtocol] = set()
        self._idle: dict[Way, list[WireProtocol]] = {}  # no list is empty
        self._kept: dict[WireProtocol, Way] = {}  # all that are idle, the longest first
        self._sweeper: asyncio.TimerHandle | None = None

    def take(self, way: Way) -> WireProtocol | None:
        """Return a kept connection, which is kept no more, or None if there is none."""
        while idle := self._idle.get(way):
            protocol = idle[-1]
            self._forget(protocol)
            if protocol.is_open:
                return protocol
        return None

    def give_back(self, way: Way, protocol: WireProtocol) -> None:
        """Keep a connection if its latest exchange ended well. Otherwise close it."""
        if not protocol.reusable:
            protocol.close()
            return
        if len(self._kept) >= MAX_IDLE:
            oldest = next(iter(self._kept))
            self._forget(oldest)
            oldest.close()
        protocol.idle_since = self._loop.time()
        self._idle.setdefault(way, []).append(protocol)
        self._kept[protocol] = way
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(_KEPT_S, self._sweep)

    def _forget(self, protocol: WireProtocol) -> None:
        """Keep an idle connection no more."""
        way = self._kept.pop(protocol)
        idle = self._idle[way]
        idle.remove(protocol)
        if not idle:
            del self._idle[way]

    def _sweep(self) -> None:
        """Close the connections that have been idle for too long."""
        self._sweeper = None
        latest = self._loop.time() - _KEPT_S
        for protocol in tuple(self._kept):
            if protocol.idle_since > latest:
                self._sweeper = self._loop.call_later(_KEPT_S, self._sweep)
                return
            self._forget(protocol)
            protocol.close()

    async def open(self, way: Way) -> WireProtocol:
        """Make a connection. Raises FetchError, and OSError if this process has too many files."""
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                protocol = await self._reach(way)
        except OSError as error:
            raise _translated(error) from error
        self._open.add(protocol)
        protocol.lost.add_done_callback(lambda _: self._lose(protocol))
        return protocol

    def _lose(self, protocol: WireProtocol) -> None:
        self._open.discard(protocol)
        if protocol in self._kept:
            self._forget(protocol)

    async def close(self) -> None:
        """Close all connections."""
        self._watch.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._idle.clear()
        self._kept.clear()
        lost = [protocol.lost for protocol in self._open]
        for protocol in tuple(self._open):
            protocol.abort()
        if lost:
            await asyncio.wait(lost, timeout=_FAREWELL_S)

    # --- how a connection is made -----------------------------------------------------------------

    async def _reach(self, way: Way) -> WireProtocol:
        server, proxy = way.server, way.proxy
        if proxy is None:
            addresses: Sequence[AddrInfoType]
            addresses = await self._addresses.resolve(server.host, server.port)
            _, protocol = await self._connect(addresses, server, self._new)
            return protocol
        try:
            # The system finds our proxies. They may have private addresses.
            addresses = await self._loop.getaddrinfo(proxy.host, proxy.port, type=SOCK_STREAM)
            if not way.tunnel:
                _, protocol = await self._connect(addresses, proxy, self._new)
                return protocol
            context = await self._tls.get()  # now, because the proxy may close later
            reader = ResponseReader(*self._head_limits)
            outer, answer = await self._connect(
                addresses, proxy, partial(_TunnelAnswer, self._loop, reader)
            )
        except OSError as error:
            raise _translated(error, of_proxy=True) from error
        try:
            outer.write(way.tunnel)
            await answer.granted
            protocol = self._new()
            inner = await self._loop.start_tls(
                outer, protocol, context, server_hostname=_name_in_tls(server)
            )
        except BaseException:
            outer.close()
            raise
        if inner is None:
            raise ConnectionError("the proxy closed")
        protocol.connection_made(inner)
        return protocol

    async def _connect(
        self, addresses: Sequence[AddrInfoType], server: Server, new: Callable[[], _P]
    ) -> tuple[asyncio.Transport, _P]:
        """Connect to the first address that answers. The next one is tried after `_NEXT_TRY_S`."""
        context = await self._tls.get() if server.tls else None
        socket = await start_connection(
            addresses, happy_eyeballs_delay=_NEXT_TRY_S, loop=self._loop
        )
        return await self._loop.create_connection(
            new,
            sock=socket,
            ssl=context,
            server_hostname=_name_in_tls(server) if server.tls else None,
        )


class _TunnelAnswer(asyncio.Protocol):
    """Reads the head of a proxy's answer to the request for a tunnel."""

    def __init__(self, loop: asyncio.AbstractEventLoop, reader: ResponseReader) -> None:
        self.granted: asyncio.Future[None] = loop.create_future()  # or raises FetchError
        self._reader = reader

    def data_received(self, data: bytes) -> None:
        """Read bytes that have arrived. The loop calls this."""
        if self.granted.done():
            return
        try:
            events = self._reader.feed(data)
        except FetchError as error:
            self._refuse(error.detail)
            return
        for head in events[:1]:
            assert isinstance(head, Head)
            if head.status == 200:
                self.granted.set_result(None)
            else:
                self._refuse(f"{head.status} {head.reason}")

    def connection_lost(self, exc: BaseException | None) -> None:
        """Note that there is no answer. The loop calls this."""
        if not self.granted.done():
            self._refuse(str(exc or "it closed the connection"))

    def _refuse(self, why: str) -> None:
        self.granted.set_exception(FetchError(Failure.UNREACHABLE, f"the proxy: {why}"))


def _name_in_tls(server: Server) -> str:
    return server.host.rstrip(".")  # certificates hold no dot at the end


def _translated(error: OSError, *, of_proxy: bool = False) -> Exception:
    """Return our error for an error that came while a connection was made."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return OSError(error.errno, error.strerror)  # this machine's problem, not the server's
    if isinstance(error, ssl.SSLError):
        return FetchError(Failure.TLS, str(error))
    if of_proxy:
        return FetchError(Failure.UNREACHABLE, f"the proxy: {error}")
    if isinstance(error, ConnectionRefusedError):
        return FetchError(Failure.REFUSED)
    if isinstance(error, ConnectionError):
        return FetchError(Failure.DISCONNECTED, str(error))
    if isinstance(error, TimeoutError):
        return FetchError(Failure.CONNECT_TIMEOUT)
    return FetchError(Failure.UNREACHABLE, str(error))
