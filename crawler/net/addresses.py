"""Which addresses of a host are connected to, and in which order."""

from collections.abc import Callable, Collection, Sequence
from contextvars import ContextVar
from socket import AF_INET, AF_INET6, AF_UNSPEC, AddressFamily
from typing import Final

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from crawler.ports import FetchError, Resolver

# As many as are begun within the default connect_timeout_s, one each quarter of a second. No name
# server can make us knock at thousands of doors.
_MAX_ADDRESSES: Final = 40
_MAX_HOSTS: Final = 10_000  # whose addresses are remembered, about 300 bytes each

# Whether the connection that is made goes to one of our proxies. Tasks inherit it.
through_proxy: ContextVar[bool] = ContextVar("through_proxy", default=False)


class _Host:
    """A host with several addresses."""

    __slots__ = ("failed", "first", "known")

    def __init__(self, first: str) -> None:
        self.first = first  # the one to connect to before the others
        self.known: frozenset[str] = frozenset()
        self.failed: set[str] = set()  # only with `one_address`


class AddressBook(AbstractResolver):
    """Our resolver as aiohttp asks for it. The system's resolver finds our proxies.

    The address that answered last is the first one of its host. With `one_address`, no other
    address of the host is connected to, so that a clock for that address is kept. When the address
    fails, `next_address` moves the host on.
    """

    def __init__(
        self,
        resolver: Resolver,
        proxies: Collection[tuple[str, int]],
        check: Callable[[str], None],
        *,
        one_address: bool = False,
    ) -> None:
        """`proxies`: their hosts and ports. `check` raises a FetchError for an address that we may
        not connect to."""
        self.trusted: set[tuple[str, int]] = set(proxies)  # and their addresses, as they get known
        self._resolver = resolver
        self._proxies = proxies
        self._check = check
        self._one_address = one_address
        self._hosts: dict[str, _Host] = {}

    async def locate(self, host: str) -> str:
        """The address that a host is connected to first. Raises FetchError."""
        return (await self._addresses(host))[0][0]

    async def resolve(
        self, host: str, port: int = 0, family: AddressFamily = AF_UNSPEC
    ) -> list[ResolveResult]:
        if through_proxy.get() and (host, port) in self._proxies:
            found = await ThreadedResolver().resolve(host, port)
            self.trusted.update((each["host"], port) for each in found)
            return found
        addresses = await self._addresses(host)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=own_port or port,
                family=AF_INET6 if ":" in address else AF_INET,
                proto=0,
                flags=0,
            )
            for address, own_port in addresses[: 1 if self._one_address else _MAX_ADDRESSES]
        ]

    def answered(self, host: str, address: str | None) -> bool:
        """Note that a connection goes to an address; whether it may be used for the host."""
        its = self._hosts.get(host)
        if its is None or address is None or its.first == address:
            return True
        if self._one_address:
            return False
        its.first = address
        return True

    def next_address(self, host: str) -> bool:
        """With `one_address`: move a host on from its address, which has failed, to the next one.

        Returns False if there is none. Then all addresses have their turn again.
        """
        its = self._hosts.get(host)
        if its is None or not self._one_address:
            return False
        its.failed.add(its.first)
        left = its.known - its.failed
        if not left:
            its.failed.clear()
        its.first = min(left or its.known)
        return bool(left)

    async def close(self) -> None:
        """Do nothing: the resolver is closed by the code that made it."""

    async def _addresses(self, host: str) -> Sequence[tuple[str, int | None]]:
        """The addresses that we may connect to, in order. Raises FetchError if there is none."""
        found = self._allowed(await self._resolver.resolve(host))
        if len(found) == 1:
            self._hosts.pop(host, None)
            return found
        known = frozenset(address for address, _ in found)
        its = self._hosts.get(host)
        if its is None:
            if len(self._hosts) >= _MAX_HOSTS:
                self._hosts.clear()
            # Answers come in any order, but one address shall be the same every time.
            first = min(known) if self._one_address else found[0][0]
            its = self._hosts[host] = _Host(first)
        its.known = known
        if its.first not in known:
            its.failed &= known
            its.first = min(known - its.failed or known)
        return sorted(found, key=lambda each: each[0] != its.first)

    def _allowed(self, found: Sequence[tuple[str, int | None]]) -> Sequence[tuple[str, int | None]]:
        allowed = []
        refusal: FetchError | None = None
        for each in found:
            try:
                self._check(each[0])
                allowed.append(each)
            except FetchError as error:
                refusal = refusal or error
        if refusal and not allowed:
            raise refusal
        return allowed
