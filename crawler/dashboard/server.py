"""The HTTP server of rank 0: the page, its events, the orders of its buttons, and the metrics."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from crawler import pages, session, steering
from crawler.dashboard.asker import Asker
from crawler.dashboard.first import look_first
from crawler.dashboard.guard import HEADERS, Guard
from crawler.dashboard.metrics import exposition
from crawler.ports import UserError
from crawler.report.findings import BALANCE
from crawler.session import Status
from crawler.watch.words import head

_GRACE_S: Final = 1.0  # for answers under way, when the crawl ends
_INTERVAL_S: Final = 1.0  # between two events, and between two points of a curve
_POINTS: Final = 600  # of a curve, at most
_ORDER_BYTES: Final = 1 << 20
_PAGE: Final = Path(__file__).parent / "page"
_STYLE: Final = Path(pages.__file__).parent / "style.css"
_KINDS: Final = {".css": "text/css", ".js": "text/javascript"}
# Seconds since the start; pages and failed URLs a second; waiting URLs; messages a second.
_Point = tuple[float, float, float, int, float]
_encode = msgspec.json.Encoder().encode


class _Server:
    """Answers requests about one crawl."""

    def __init__(self, directory: Path, host: str, latest: Callable[[], Status]) -> None:
        self._directory = directory
        self._guard = Guard(host)
        self._latest = latest
        self._points: list[_Point] = []
        self._asker = Asker(directory)
        self._asking = asyncio.Lock()  # one question at a time
        self._over = asyncio.Event()  # set when the server ends

    def app(self) -> web.Application:
        """Return the application with all routes."""
        app = web.Application(client_max_size=_ORDER_BYTES, middlewares=[self._guarded])
        app.on_shutdown.append(self._end)
        app.router.add_get("/", self._page)
        for name in ("dashboard.css", "dashboard.js"):
            app.router.add_get(f"/{name}", self._file(_PAGE / name))
        app.router.add_get("/style.css", self._file(_STYLE))
        app.router.add_get("/events", self._events)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_post("/ask", self._ask)
        app.router.add_post("/{order:pause|continue|stop|add-seeds}", self._order)
        return app

    async def sample(self) -> None:
        """Take a point of the curves every second, and more rarely in a long crawl."""
        every = 1
        for second in range(1 << 62):
            if second % every == 0:
                self._points.append(_point(self._latest()))
            if len(self._points) >= _POINTS:
                del self._points[1::2]
                every *= 2
            await asyncio.sleep(_INTERVAL_S)

    async def _end(self, _: web.Application) -> None:
        self._over.set()
        self._asker.close()

    @web.middleware
    async def _guarded(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        if request.path != "/metrics":  # Prometheus knows this server by any name
            self._guard.check(request)
        return await handler(request)

    async def _page(self, _: web.Request) -> web.Response:
        text = (_PAGE / "index.html").read_text("utf-8")
        text = text.replace("TOKEN", self._guard.token).replace("BALANCE", str(BALANCE))
        return web.Response(text=text, content_type="text/html", headers=HEADERS)

    def _file(self, file: Path) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def send(_: web.Request) -> web.Response:
            text, kind = file.read_text("utf-8"), _KINDS[file.suffix]
            return web.Response(text=text, content_type=kind, headers=HEADERS)

        return send

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """Send the curves so far, and then the status every second, as server-sent events."""
        answer = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
        await answer.prepare(request)
        with suppress(ConnectionResetError):  # the page was closed
            await answer.write(b"event: series\ndata: " + _encode(self._points) + b"\n\n")
            while not self._over.is_set():
                status = self._latest()
                event = {
                    "status": status,
                    "head": head(status),
                    "first": look_first(status),
                    "point": _point(status),
                }
                await answer.write(b"data: " + _encode(event) + b"\n\n")
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._over.wait(), _INTERVAL_S)
        return answer

    async def _metrics(self, _: web.Request) -> web.Response:
        # In a thread, because 64 ranks take some milliseconds.
        body = await asyncio.to_thread(exposition, self._latest())
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _order(self, request: web.Request) -> web.Response:
        order, body = request.match_info["order"], await request.read()
        try:
            with session.mistakes_told(str(self._directory)):
                said = await asyncio.to_thread(self._obey, order, body)
        except UserError as error:
            return web.Response(status=400, text=str(error), headers=HEADERS)
        return web.Response(text=said, headers=HEADERS)

    async def _ask(self, request: web.Request) -> web.Response:
        """Say what the session knows of a URL or a site, as the command `ask` does."""
        body = await request.read()
        try:
            about = str(json.loads(body)["about"]).strip()
        except (ValueError, KeyError, TypeError):
            why = 'a question must be {"about": "URL or site"}'
            return web.Response(status=400, text=why, headers=HEADERS)
        try:
            async with self._asking:
                said = await asyncio.to_thread(self._asker.ask, about)
        except UserError as error:
            return web.Response(status=400, text=str(error), headers=HEADERS)
        return web.Response(text=said, content_type="application/json", headers=HEADERS)

    def _obey(self, order: str, body: bytes) -> str:
        """Give an order as the commands do. Returns what the user is told. Raises UserError."""
        match order:
            case "pause":
                return steering.pause(self._directory)
            case "continue":
                return steering.go_on(self._directory)
            case "stop":
                return steering.stop(self._directory)
        try:
            seeds = str(json.loads(body)["seeds"]).split()
        except (ValueError, KeyError, TypeError):
            raise UserError('an order to add seeds must be {"seeds": "URL URL ..."}') from None
        return steering.add_seeds(self._directory, seeds, None)


def _point(status: Status) -> _Point:
    return (
        status.seconds,
        status.pages_per_second,
        status.failed_per_second,
        status.waiting,
        status.messages_per_second,
    )


@asynccontextmanager
async def serving(
    listen: str, directory: Path, latest: Callable[[], Status]
) -> AsyncIterator[None]:
    """Answer requests at an address, `host:port`, while the context lasts.

    `directory`: of the session. `latest` returns the present status. Raises UserError if the
    address can't be used.
    """
    host, port = _split(listen)
    server = _Server(directory, host, latest)
    runner = web.AppRunner(server.app(), access_log=None, shutdown_timeout=_GRACE_S)
    await runner.setup()
    sampling = asyncio.ensure_future(server.sample())
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise _unusable(listen, error) from None
        yield
    finally:
        sampling.cancel()
        await runner.cleanup()


def check_address(listen: str) -> None:
    """Raise UserError if nobody can listen at an address now."""
    host, port = _split(listen)
    try:
        for family, kind, _, _, address in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            with socket.socket(family, kind) as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                one.bind(address)
    except (OSError, OverflowError) as error:
        raise _unusable(listen, error) from None


def _split(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    return host.strip("[]"), int(port)


def _unusable(listen: str, error: Exception) -> UserError:
    why = error.strerror if isinstance(error, OSError) else str(error)
    return UserError(
        f"dashboard.listen = {listen!r}: {why}; name a free port of the machine of rank 0"
    )
