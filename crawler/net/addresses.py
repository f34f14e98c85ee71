"""Which addresses of a host are connected to, and in which order."""

from collections.abc import Callable, Sequence
from socket import AF_INET, AF_INET6, IPPROTO_TCP, SOCK_STREAM
from typing import Final

from aiohappyeyeballs import AddrInfoType

from crawler.ports import FetchError, Resolver

# One address is tried each quarter of a second, so 40 are tried within the default
# connect_timeout_s. The limit keeps a name server from making us try thousands.
_MAX_ADDRESSES: Final = 40
_MAX_HOSTS: Final = 10_000  # hosts whose addresses are remembered, about 300 bytes each


class _Host:
    """A host with several addresses."""

    __slots__ = ("failed", "first", "known")

    def __init__(self, first: str) -> None:
        self.first = first  # the address that is tried before the others
        self.known: frozenset[str] = frozenset()
        self.failed: set[str] = set()  # used only with `one_address`


class AddressBook:
    """Which addresses of a host are connected to, and in which order.

    The address of a host that answered last is tried first. With `one_address` the host's other
    addresses aren't used, so that the clock of an address covers all requests to the host. When the
    address fails, `next_address` changes to another one.
    """

    def __init__(
        self, resolver: Resolver, check: Callable[[str], None], *, one_address: bool = False
    ) -> None:
        """`check` raises a FetchError for an address that we may not connect to."""
        self._resolver = resolver
        self._check = check
        self._one_address = one_address
        self._hosts: dict[str, _Host] = {}

    async def locate(self, host: str) -> str:
        """Return the address of a host that is tried first. Raises FetchError."""
        return (await self._addresses(host))[0][0]

    async def resolve(self, host: str, port: int) -> list[AddrInfoType]:
        """Return the addresses that a connection to a host may try, in this order.

        Each has the form that `getaddrinfo` returns. Raises FetchError if there is none.
        """
        addresses = await self._addresses(host)
        return [
            (AF_INET6, SOCK_STREAM, IPPROTO_TCP, "", (address, own_port or port, 0, 0))
            if ":" in address
            else (AF_INET, SOCK_STREAM, IPPROTO_TCP, "", (address, own_port or port))
            for address, own_port in addresses[: 1 if self._one_address else _MAX_ADDRESSES]
        ]

    def answered(self, host: str, address: str | None) -> bool:
        """Note that a connection of a host goes to an address; return whether it may be used."""
        its = self._hosts.get(host)
        if its is None or address is None or its.first == address:
            return True
        if self._one_address:
            return False
        its.first = address
        return True

    def next_address(self, host: str) -> bool:
        """Replace the address of a host, which has failed, by the next one, with `one_address`.

        Returns False if all addresses have failed. Then all may be tried again.
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

    async def _addresses(self, host: str) -> Sequence[tuple[str, int | None]]:
        """Return the addresses that we may connect to, in the order of tries.

        Raises FetchError if there is none.
        """
        if _is_address(host):
            return self._allowed([(host, None)])
        addresses = self._allowed(await self._resolver.resolve(host))
        if len(addresses) == 1:
            self._hosts.pop(host, None)
            return addresses
        known = frozenset(address for address, _ in addresses)
        its = self._hosts.get(host)
        if its is None:
            if len(self._hosts) >= _MAX_HOSTS:
                self._hosts.clear()
            # Name servers change the order of addresses; `one_address` needs the same each time.
            first = min(known) if self._one_address else addresses[0][0]
            its = self._hosts[host] = _Host(first)
        its.known = known
        if its.first not in known:
            its.failed &= known
            its.first = min(known - its.failed or known)
        return sorted(addresses, key=lambda each: each[0] != its.first)

    def _allowed(
        self, addresses: Sequence[tuple[str, int | None]]
    ) -> Sequence[tuple[str, int | None]]:
        allowed = []
        refusal: FetchError | None = None
        for each in addresses:
            try:
                self._check(each[0])
                allowed.append(each)
            except FetchError as error:
                refusal = refusal or error
        if refusal and not allowed:
            raise refusal
        return allowed


def _is_address(host: str) -> bool:
    """Whether the host of a normalised URL is an IP address."""
    return ":" in host or host.replace(".", "").isdigit()
