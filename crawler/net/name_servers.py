"""Asks the hosts file and name servers for addresses, by the library c-ares.

Importing this module takes 15 ms. Crawls without names to look up do without it.
"""

from collections.abc import Sequence
from socket import SOCK_STREAM
from typing import Final

import aiodns
import pycares

from crawler import config
from crawler.ports import Failure, FetchError, UserError

_NO_SUCH_NAME: Final = frozenset(
    (pycares.errno.ARES_ENOTFOUND, pycares.errno.ARES_ENODATA, pycares.errno.ARES_EBADNAME)
)


class NameServers:
    """The name servers of `dns.nameservers`, or those of the system.

    Raises UserError for a malformed address.
    """

    def __init__(self, dns: config.Dns) -> None:
        # The search domains of resolv.conf aren't used, because our names are complete.
        flags = pycares.ARES_FLAG_NOSEARCH | pycares.ARES_FLAG_EDNS
        try:
            self._channel = aiodns.DNSResolver(
                dns.nameservers, timeout=dns.timeout_s, tries=dns.tries, flags=flags
            )
        except (pycares.AresError, UnicodeError):
            raise UserError(
                f"dns.nameservers = {list(dns.nameservers)}:"
                " expected addresses like 10.0.0.1, 10.0.0.1:53 or [::1]:53"
            ) from None

    async def addresses(self, host: str) -> tuple[Sequence[str], float]:
        """Return the addresses in A and AAAA records, and for how many seconds they hold.

        Raises FetchError (DNS_NOT_FOUND, DNS_FAILED).
        """
        try:
            result = await self._channel.getaddrinfo(host, type=SOCK_STREAM)
        except aiodns.error.DNSError as error:
            code, text = error.args
            failure = Failure.DNS_NOT_FOUND if code in _NO_SUCH_NAME else Failure.DNS_FAILED
            raise FetchError(failure, f"{host}: {text}") from None
        ttl_s = min((node.ttl for node in result.nodes), default=0)
        return [node.addr[0].decode() for node in result.nodes], ttl_s

    async def close(self) -> None:
        """Give up all questions."""
        await self._channel.close()
