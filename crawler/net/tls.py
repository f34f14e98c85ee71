"""The TLS context: which servers are trusted, and what a handshake offers, as in curl and browsers.

docs/decisions/net.md says which rule comes from which program, and what is left out.
"""

import ssl
from typing import Final

from crawler import config
from crawler.ports import UserError

# Python's own list lacks suites that curl and browsers offer, such as AES128-GCM-SHA256. OpenSSL's
# list is the one that curl takes, and it follows the policy of the system.
_SUITES: Final = "DEFAULT"
_LEGACY_SERVER_CONNECT: Final = 0x4  # ssl.OP_LEGACY_SERVER_CONNECT, since Python 3.12


def make_context(fetch: config.Fetch) -> ssl.SSLContext:
    """The context for all connections of a fetcher. Raises UserError for unusable `ca_files`."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_SUITES)
    context.set_alpn_protocols(["http/1.1"])
    # Browsers connect to servers that can't renegotiate safely, as nothing is renegotiated.
    context.options |= _LEGACY_SERVER_CONNECT
    # Python 3.13 is stricter with certificates than curl and browsers.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    # An intermediate or a server's own certificate in `ca_files` is enough, as with curl.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    for file in fetch.ca_files:
        try:
            context.load_verify_locations(file)
        except OSError as error:  # an SSLError is one
            raise UserError(f"fetch.ca_files: {file}: {error}; a PEM file is needed") from None
    if not fetch.verify_tls:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
