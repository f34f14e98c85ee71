"""Who may give orders by HTTP: only the page that this server has sent.

There is no password. But a page of another site, which the user's browser has open, must not give
orders, nor read what is here. So the Host must be an address or the configured name, or else
another site's name could lead here (DNS rebinding). An order also needs the Origin of this server,
and a token that only the page knows.
"""

import ipaddress
import secrets
from typing import Final

from aiohttp import web

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Guard:
    """Checks the requests to one server."""

    def __init__(self, host: str) -> None:
        """`host`: where the server listens, by configuration."""
        self.token = secrets.token_urlsafe(32)
        self._host = host.lower()

    def check(self, request: web.Request) -> None:
        """Raise HTTPForbidden for a request that may come from another site's page."""
        if not self._is_here(request.host):
            raise web.HTTPForbidden(text=f"the Host {request.host!r} isn't this server")
        if request.method in {"GET", "HEAD"}:
            return
        if request.headers.get("Origin") != f"http://{request.host}":
            raise web.HTTPForbidden(text="an order must come from the page of this server")
        if not secrets.compare_digest(
            request.headers.get("X-Token", "").encode(), self.token.encode()
        ):
            raise web.HTTPForbidden(text="this page is of an earlier crawl: load it again")

    def _is_here(self, host: str) -> bool:
        name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
        name = name.strip("[]").lower()
        if name in {"localhost", self._host}:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True
