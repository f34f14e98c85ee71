"""Which proxy a request goes through, if any."""

from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final, NamedTuple

from yarl import URL

from crawler.net.dns import is_public
from crawler.ports import UserError

_ENVIRONMENT: Final = "environment"


class Proxies:
    """The proxies that `fetch.proxy` names: one proxy, or those of the environment.

    A proxy resolves the host names itself, so only the proxy can refuse names with a private
    address. `is_private` refuses what the URL shows: private addresses, and localhost. Raises
    UserError for a malformed proxy; the message shows no password.
    """

    def __init__(self, setting: str) -> None:
        self._by_scheme: dict[str, URL] = {}
        self._direct = NoProxy("")
        if setting == _ENVIRONMENT:
            from urllib.request import getproxies_environment  # noqa: PLC0415  a while to import

            proxies = getproxies_environment()
            self._direct = NoProxy(proxies.get("no", ""))
            for scheme in ("http", "https"):
                if address := proxies.get(scheme) or proxies.get("all"):
                    source = f"the environment's {scheme}_proxy"
                    self._by_scheme[scheme] = _parse(address, source)
        elif setting:
            proxy = _parse(setting, "fetch.proxy")
            self._by_scheme = {"http": proxy, "https": proxy}

    def __bool__(self) -> bool:
        return bool(self._by_scheme)

    def choose(self, target: URL) -> URL | None:
        """Return the proxy for a target; None if the target is asked directly."""
        proxy = self._by_scheme.get(target.scheme)
        if proxy is None or self._direct.holds(target.raw_host or "", target.port):
            return None
        return proxy


class _Entry(NamedTuple):
    """An entry of `no_proxy`: the hosts of a network, or those of a domain."""

    network: IPv4Network | IPv6Network | None
    domain: str  # holds this host, and all hosts below it
    port: int | None  # None: any port


class NoProxy:
    """The hosts in the variable `no_proxy`, by the rules of curl, with ports as in Python.

    `*` alone holds all hosts. Otherwise commas or blanks separate entries. A domain, with or
    without a dot in front, holds itself and all hosts below it. An address holds itself, and a
    network like 10.0.0.0/8 its addresses. A port behind an entry limits it to that port, as in
    `a.example:8080` and `[::1]:8080`. Entries of another form hold no host.
    """

    def __init__(self, text: str) -> None:
        self._everything = text.strip() == "*"
        self._entries = [_entry(word.lower()) for word in text.replace(",", " ").split()]

    def holds(self, host: str, port: int | None) -> bool:
        """Whether a host is asked without a proxy. An IPv6 address is given without brackets."""
        if self._everything:
            return True
        host = host.lower().removesuffix(".")
        try:
            address = ip_address(host)
        except ValueError:
            address = None
        for entry in self._entries:
            if entry.port is not None and entry.port != port:
                continue
            if entry.network is not None:
                if address is not None and address in entry.network:
                    return True
            elif address is None and (host == entry.domain or host.endswith("." + entry.domain)):
                return True
        return False


def _entry(word: str) -> _Entry:
    name, port = word, None
    if word.startswith("["):  # an IPv6 address in brackets
        name, _, rest = word[1:].partition("]")
        digits = rest.removeprefix(":")
    else:
        before, _, digits = word.rpartition(":")
        if ":" in before:  # without brackets there is no port
            digits = ""
        elif before:
            name = before
    if digits.isdecimal():
        port = int(digits)
    try:
        return _Entry(ip_network(name, strict=False), "", port)
    except ValueError:
        # The name "/" matches no host.
        return _Entry(None, name.removeprefix(".").removesuffix(".") or "/", port)


def is_private(target: URL) -> bool:
    """Whether the host of a target is localhost or a private address."""
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
        raise UserError(
            f'{source}: expected "http[s]://[user:password@]host:port"; SOCKS isn\'t supported'
        )
    return proxy
