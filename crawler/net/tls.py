"""The TLS context: which servers are trusted, and what a handshake offers.

The rules are those of curl and browsers. docs/decisions/net.md says which rule comes from which
program, and which rules are left out.
"""

import asyncio
import ssl
from typing import Final

from crawler import config
from crawler.ports import UserError

# Python's own list of cipher suites lacks some that curl and browsers offer, such as
# AES128-GCM-SHA256. curl takes OpenSSL's list, which follows the policy of the system.
_SUITES: Final = "DEFAULT"
_LEGACY_SERVER_CONNECT: Final = 0x4  # ssl.OP_LEGACY_SERVER_CONNECT, since Python 3.12


class TlsContext:
    """The context for all connections of a fetcher. It is made when the first of them needs it.

    Reading the certificates of the system takes 29 ms. A thread does it, so that the event loop
    goes on. Raises UserError if a file of `fetch.ca_files` can't be used.
    """

    def __init__(self, fetch: config.Fetch) -> None:
        self._fetch = fetch
        self._made = make_context(fetch) if fetch.ca_files else None  # mistakes are told at once
        self._making = asyncio.Lock()

    async def get(self) -> ssl.SSLContext:
        """Return the context."""
        async with self._making:
            if self._made is None:
                self._made = await asyncio.to_thread(make_context, self._fetch)
        return self._made


def make_context(fetch: config.Fetch) -> ssl.SSLContext:
    """Return a new context.

    Raises UserError if a file of `fetch.ca_files` can't be used.
    """
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_SUITES)
    context.set_alpn_protocols(["http/1.1"])
    # Some servers can't renegotiate safely. Browsers connect to them, because they never
    # renegotiate.
    context.options |= _LEGACY_SERVER_CONNECT
    # With this flag, Python 3.13 is stricter about certificates than curl and browsers.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    # An intermediate or a server's own certificate in `ca_files` is enough, as with curl.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    for file in fetch.ca_files:
        try:
            context.load_verify_locations(file)
        except OSError as error:  # an SSLError is one
            raise UserError(f"fetch.ca_files: {file}: {error}; expected a PEM file") from None
    if not fetch.verify_tls:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
