"""Error classes of URLs, the exceptions that cross the floors, and the exit codes."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERNAL: Final = 3
EXIT_STOPPED: Final = 75  # EX_TEMPFAIL

EXIT_CODES: Final[Mapping[int, str]] = MappingProxyType(
    {
        0: "done, because no URL is left or max_pages is reached",
        EXIT_FAILED: "failed, nothing fetched, or all seeds failed",
        EXIT_USAGE: "wrong usage or configuration, or a disk that is full before the first page",
        EXIT_INTERNAL: "done, but this program failed on at least one page (error class internal)",
        EXIT_STOPPED: "stopped before the end, or no room for the tables; resume continues",
    }
)


class Failure(StrEnum):
    """Error classes: why a URL gave no page, or only a part of a page."""

    BAD_URL = "bad-url"
    DNS_NOT_FOUND = "dns-not-found"
    DNS_FAILED = "dns-failed"
    PRIVATE_ADDRESS = "private-address"
    NO_CONTACT = "no-contact"  # the address is public, and fetch.contact is unset
    UNREACHABLE = "unreachable"
    REFUSED = "connection-refused"
    CONNECT_TIMEOUT = "connect-timeout"
    DISCONNECTED = "disconnected"
    TIMEOUT = "timeout"
    TLS = "tls"
    BAD_HTTP = "bad-http"
    BAD_ENCODING = "bad-encoding"
    TOO_LARGE = "too-large"
    BAD_REDIRECT = "bad-redirect"
    REDIRECT_LOOP = "redirect-loop"
    TOO_MANY_REDIRECTS = "too-many-redirects"
    ROBOTS_DENIED = "robots-denied"
    ROBOTS_UNREACHABLE = "robots-unreachable"
    UNAVAILABLE = "unavailable"  # the last try was answered with 429 or 503
    SITE_GIVEN_UP = "site-given-up"  # the site kept failing, and this session asks it no more
    SITE_FULL = "site-full"  # the site has sent traps.max_bytes_per_site
    TOO_MANY_HOSTS = "too-many-hosts"  # traps.max_barren_hosts of the domain, or at the address
    INTERNAL = "internal"  # this program failed on the page, see crawler.faults


# What each class means, in a few words for a user who sees it during a crawl.
MEANINGS: Final[Mapping[Failure, str]] = MappingProxyType(
    {
        Failure.BAD_URL: "the URL can't be requested",
        Failure.DNS_NOT_FOUND: "there is no host of this name",
        Failure.DNS_FAILED: "the name servers gave no answer",
        Failure.PRIVATE_ADDRESS: "the host has a private address (fetch.allow_private_addresses)",
        Failure.NO_CONTACT: "the address is public, and fetch.contact is unset",
        Failure.UNREACHABLE: "no way leads to the server",
        Failure.REFUSED: "the server refused the connection",
        Failure.CONNECT_TIMEOUT: "the server didn't answer the connection in time",
        Failure.DISCONNECTED: "the connection ended before the response",
        Failure.TIMEOUT: "the response didn't come in time",
        Failure.TLS: "no secure connection",
        Failure.BAD_HTTP: "the response is no HTTP",
        Failure.BAD_ENCODING: "the content coding of the response is damaged",
        Failure.TOO_LARGE: "the response is larger than fetch.max_bytes",
        Failure.BAD_REDIRECT: "the redirect leads to no URL",
        Failure.REDIRECT_LOOP: "the redirects lead in a circle",
        Failure.TOO_MANY_REDIRECTS: "too many redirects in a row",
        Failure.ROBOTS_DENIED: "robots.txt forbids this URL",
        Failure.ROBOTS_UNREACHABLE: "the site gave no robots.txt",
        Failure.UNAVAILABLE: "the server was too busy (429 or 503) each time",
        Failure.SITE_GIVEN_UP: "the site failed too often in a row (retry.give_up_after)",
        Failure.SITE_FULL: "the site has sent traps.max_bytes_per_site",
        Failure.TOO_MANY_HOSTS: "too many hosts that bring nothing new (traps.max_barren_hosts)",
        Failure.INTERNAL: "this program failed on the page; agent.log says how",
    }
)

# Failures that may pass: the same request may succeed in a while. The other failures are final.
PASSING: Final = frozenset(
    (
        Failure.DNS_FAILED,
        Failure.UNREACHABLE,
        Failure.REFUSED,
        Failure.CONNECT_TIMEOUT,
        Failure.DISCONNECTED,
        Failure.TIMEOUT,
        Failure.TLS,
        Failure.ROBOTS_UNREACHABLE,
        Failure.UNAVAILABLE,
    )
)
# Failures of https after which a seed that was given without a scheme is asked for by http.
NO_HTTPS: Final = frozenset(
    (
        Failure.UNREACHABLE,
        Failure.REFUSED,
        Failure.CONNECT_TIMEOUT,
        Failure.DISCONNECTED,
        Failure.TLS,
        Failure.SITE_GIVEN_UP,
    )
)
# Failures that are known without a request.
UNASKED: Final = frozenset(
    (
        Failure.BAD_URL,
        Failure.DNS_NOT_FOUND,
        Failure.PRIVATE_ADDRESS,
        Failure.NO_CONTACT,
        Failure.ROBOTS_DENIED,
        Failure.SITE_GIVEN_UP,
        Failure.SITE_FULL,
        Failure.TOO_MANY_HOSTS,
    )
)


class FetchError(Exception):
    """A fetch gave no response, or the resolution of the host name before it failed."""

    def __init__(self, failure: Failure, detail: str = "", *, address: str | None = None) -> None:
        super().__init__(f"{failure}: {detail}" if detail else str(failure))
        self.failure = failure
        self.detail = detail
        self.address = address


class MovedError(Exception):
    """A URL must be located again, and fetched when its site next allows a request.

    Either the address of the host failed, and the host has another one; or a kept connection was
    lost.
    """


class UserError(Exception):
    """A user's mistake. One line says what is wrong, where, and what is allowed. Exit code 2."""


class LostRankError(Exception):
    """A rank has died, and the others are to go on.

    `ranks`: the ranks that have died, if the transport may go on without them
    (`ports.Transport.forgo`). It is empty where all ranks must begin again.
    """

    def __init__(self, ranks: Iterable[int] = ()) -> None:
        super().__init__()
        self.ranks = frozenset(ranks)


class NoRoomError(UserError):
    """A file can't grow for now: the disk or quota is full, or the file system is read-only."""
