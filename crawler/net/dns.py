"""The resolver: from host names to addresses."""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from crawler import config
from crawler.ports import Clock, Failure, FetchError, Resolver, UserError
from crawler.url import BadUrlError, normalise
from crawler.url import host as host_of

if TYPE_CHECKING:
    from crawler.net.name_servers import NameServers

_Address = tuple[str, int | None]  # an address, and a port that replaces the URL's

_MIN_TTL_S: Final = 30.0
_SLOW_LOOKUP_S: Final = 1.0  # a look-up that takes longer no longer counts in dns.concurrency
_MAX_NAMES: Final = 50_000  # in the cache
_NAME_BYTES: Final = 400  # of a name in the cache, about
_ADDRESS_AND_PORT: Final = re.compile(r"(?:\[(?P<v6>.+)\]|(?P<v4>[^:]+)):(?P<port>[0-9]{1,5})")
_NAT64: Final = IPv6Network("64:ff9b::/96")


@lru_cache(1 << 14)  # without the cache, each visit would take 15 microseconds more
def is_public(address: str) -> bool:
    """Whether an address is one of the public Internet."""
    ip = ip_address(address)
    if isinstance(ip, IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour
        if ip in _NAT64:
            inner = IPv4Address(ip.packed[12:])
        if inner:
            return is_public(str(inner))
        if ip.is_site_local:
            return False
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


def _is_address(host: str) -> bool:
    """Whether a host of a normalised URL is an address and not a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


class _Answer(NamedTuple):
    addresses: Sequence[_Address]
    failure: Failure | None
    detail: str
    expires: float


class DnsResolver(Resolver):
    """Finds addresses in the table `dns.hosts`, in its cache, or by asking name servers.

    The answer that a name doesn't exist is cached. A failed query isn't: the site rests, and the
    next visit asks again. An async context manager. Raises UserError for a malformed table or name
    server.
    """

    def __init__(self, dns: config.Dns, allow_private: bool, clock: Clock) -> None:
        self._dns = dns
        self._allow_private = allow_private
        self._clock = clock
        self._fixed = {
            _table_name(host): self._answer([_parse_address(host, value)], inf)
            for host, value in dns.hosts.items()
        }
        self._cache: OrderedDict[str, _Answer] = OrderedDict()
        self._asking: dict[str, asyncio.Task[_Answer]] = {}
        self._room = asyncio.Semaphore(dns.concurrency)
        self._servers: NameServers | None = None  # made when the first name is looked up

    def nbytes(self) -> int:
        """About how many bytes of memory the cached answers take."""
        return _NAME_BYTES * len(self._cache)

    async def __aenter__(self) -> Self:
        if self._dns.nameservers:  # mistakes are told at once
            self._servers = self._name_servers()
        return self

    async def __aexit__(self, *_: object) -> None:
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        if self._servers:
            await self._servers.close()

    async def resolve(self, host: str) -> Sequence[_Address]:
        """Return the addresses of a host, as the protocol says."""
        host = host.removesuffix(".")  # all our names are complete
        answer = self._fixed.get(host) or self._cache.get(host)
        if answer is None or answer.expires <= self._clock.now():
            answer = await self._ask(host)
        if answer.failure:
            raise FetchError(answer.failure, answer.detail)
        return answer.addresses

    async def _ask(self, host: str) -> _Answer:
        """Look a name up. All callers with the same name share one query.

        If a caller is cancelled, the query continues for the others.
        """
        task = self._asking.get(host)
        if task is None:
            task = self._asking[host] = asyncio.create_task(self._look_up(host))
        return await asyncio.shield(task)

    async def _look_up(self, host: str) -> _Answer:
        query = None
        try:
            async with self._room:
                query = asyncio.create_task(self._query(host))
                await asyncio.wait([query], timeout=_SLOW_LOOKUP_S)
            answer = await query  # without the semaphore, so that a dead server blocks no others
        finally:
            if query:
                query.cancel()
            del self._asking[host]
        if answer.failure is not Failure.DNS_FAILED:
            self._cache[host] = answer
            self._cache.move_to_end(host)
            if len(self._cache) > _MAX_NAMES:
                self._cache.popitem(last=False)
        return answer

    async def _query(self, host: str) -> _Answer:
        """Ask the hosts file and the name servers. An address is its own answer."""
        now = self._clock.now
        negative_ttl_s = self._dns.negative_ttl_s
        if not host or host.endswith("."):  # c-ares would remove one more dot
            detail = f'"{host}" is no host name'
            return _Answer((), Failure.DNS_NOT_FOUND, detail, now() + negative_ttl_s)
        if _is_address(host):
            return self._answer([(host, None)], inf)
        self._servers = self._servers or self._name_servers()
        try:
            addresses, ttl_s = await self._servers.addresses(host)
        except FetchError as error:
            lasts_s = negative_ttl_s if error.failure is Failure.DNS_NOT_FOUND else 0
            return _Answer((), error.failure, error.detail, now() + lasts_s)
        ttl_s = min(max(ttl_s, _MIN_TTL_S), self._dns.max_ttl_s)
        return self._answer([(address, None) for address in addresses], now() + ttl_s)

    def _name_servers(self) -> "NameServers":
        from crawler.net.name_servers import NameServers  # noqa: PLC0415  not always needed

        return NameServers(self._dns)

    def _answer(self, addresses: list[_Address], expires: float) -> _Answer:
        usable = [each for each in addresses if self._allow_private or is_public(each[0])]
        if usable:
            return _Answer(usable, None, "", expires)
        detail = ", ".join(address for address, _ in addresses)
        return _Answer((), Failure.PRIVATE_ADDRESS, detail, expires)


def _table_name(host: str) -> str:
    """Return a host name of the table `dns.hosts` as it is written in normalised URLs."""
    try:
        return host_of(normalise(f"http://{host}/")).removesuffix(".")
    except BadUrlError:
        raise UserError(f'dns.hosts: "{host}" is no host name') from None


def _parse_address(host: str, value: str) -> _Address:
    """Return the address, and the port if any, of "10.0.0.1", "10.0.0.1:80" or "[::1]:80"."""
    match = _ADDRESS_AND_PORT.fullmatch(value)
    port = int(match["port"]) if match and match["port"] else None
    try:
        if match and port in range(1, 65536):
            return str(ip_address(match["v4"] or match["v6"])), port
        return str(ip_address(value.removeprefix("[").removesuffix("]"))), None
    except ValueError:
        raise UserError(
            f'dns.hosts: "{host}" = "{value}": expected an address or address:port'
        ) from None
