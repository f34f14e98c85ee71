"""The HTTP server of rank 0."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from crawler.dashboard.metrics import exposition
from crawler.ports import UserError
from crawler.session import Status

_GRACE_S: Final = 1.0  # for answers under way, when the crawl ends


@asynccontextmanager
async def serving(listen: str, latest: Callable[[], Status]) -> AsyncIterator[None]:
    """Answer requests at an address, `host:port`, while the context lasts.

    `latest` returns the present status. Raises UserError if the address can't be used.
    """

    async def metrics(_: web.Request) -> web.Response:
        # In a thread, because 64 ranks take some milliseconds.
        body = await asyncio.to_thread(exposition, latest())
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_GRACE_S)
    await runner.setup()
    try:
        host, port = _split(listen)
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise _unusable(listen, error) from None
        yield
    finally:
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
