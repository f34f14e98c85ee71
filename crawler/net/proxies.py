"""Which proxy a request goes through, if any."""

from ipaddress import ip_address
from typing import Final
from urllib.request import getproxies_environment, proxy_bypass

from yarl import URL

from crawler.net.dns import is_public
from crawler.ports import UserError

_ENVIRONMENT: Final = "environment"


class Proxies:
    """By `fetch.proxy`. Raises UserError for what is no proxy; the message shows no password.

    A proxy resolves the names of targets, and so decides alone whether to connect to a private
    address. What can be seen here is refused: literal private addresses, and localhost.
    """

    def __init__(self, setting: str) -> None:
        self._by_scheme: dict[str, URL] = {}
        self._no_proxy: dict[str, str] | None = None
        if setting == _ENVIRONMENT:
            found = self._no_proxy = getproxies_environment()
            for scheme in ("http", "https"):
                if address := found.get(scheme) or found.get("all"):
                    source = f"the environment's {scheme}_proxy"
                    self._by_scheme[scheme] = _parse(address, source)
        elif setting:
            proxy = _parse(setting, "fetch.proxy")
            self._by_scheme = {"http": proxy, "https": proxy}
        self.addresses = frozenset(
            (proxy.raw_host or "", proxy.port or 0) for proxy in self._by_scheme.values()
        )

    def __bool__(self) -> bool:
        return bool(self._by_scheme)

    def choose(self, target: URL) -> URL | None:
        """The proxy for a target."""
        proxy = self._by_scheme.get(target.scheme)
        if proxy is None or self._no_proxy is None:
            return proxy
        netloc = target.host_port_subcomponent or ""
        return None if proxy_bypass(netloc, self._no_proxy) else proxy


def is_private(target: URL) -> bool:
    """Whether a target is private by its name alone."""
    host = (target.raw_host or "").rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        ip_address(host)
    except ValueError:
        return False
    return not is_public(host)


def _parse(address: str, source: str) -> URL:
    try:
        proxy = URL(address if "://" in address else f"http://{address}")
    except ValueError:
        proxy = URL()
    if proxy.scheme not in {"http", "https"} or not proxy.raw_host:
        raise UserError(f'{source}: must be "http[s]://[user:password@]host:port"; no SOCKS')
    return proxy
