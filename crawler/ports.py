"""What crosses the floors: values, errors, and the protocols of the outside world.

The deciding part of an agent knows the outside only through these protocols. `crawler.net`,
`crawler.mpi` and `crawler.session` implement them for real, `tests/fakes.py` implements them for
tests.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, Protocol, TypeVar

import msgspec

T = TypeVar("T")

# Flags of a link, as stored in the column `flags` of the table `links`.
NOFOLLOW: Final = 1
REDIRECT: Final = 2  # the target of a Location header
CANONICAL: Final = 4
NEXT: Final = 8
PREV: Final = 16
ALTERNATE: Final = 32
FRAME: Final = 64
OUT_OF_SCOPE: Final = 128  # recorded, never followed

COOKIES_LOST: Final = 256  # never stored: the target needs cookies that a resume no longer has

# A value of `Fetched.judged_with`: no link of the page is followed, as too many pages are the same.
NEVER_FOLLOWED: Final = -1


EXIT_INTERNAL: Final = 3  # the crawl is done, but this program failed on at least one page
EXIT_STOPPED: Final = 75  # EX_TEMPFAIL: the same command resumes the crawl


# Authorities whose robots.txt names a sitemap. Mostly there is one; several are sorted.
Names = str | tuple[str, ...]


def names_of(names: Names | None) -> tuple[str, ...]:
    """Return the authorities one by one."""
    if names is None:
        return ()
    return (names,) if isinstance(names, str) else tuple(names)


def joined_names(names: Names | None, more: Names) -> Names:
    """Return the authorities of both, each once."""
    both = sorted({*names_of(names), *names_of(more)})
    return both[0] if len(both) == 1 else tuple(both)


class Link(NamedTuple):
    """A link that is normalised and has its key; its flags say whether it is out of scope."""

    key: int  # URL key of the target
    url: str
    site: str
    flags: int


# A mark in a chain of redirects. A resume has lost the chain's cookies, so the redirects behind the
# mark are followed once more. No key is negative.
ANEW: Final = -1


def walked(chain: tuple[int, ...]) -> tuple[int, ...]:
    """Return the redirects of a chain since it was last begun: those behind the last ANEW."""
    if ANEW not in chain:
        return chain
    return chain[len(chain) - chain[::-1].index(ANEW) :]


def begun_anew(chain: tuple[int, ...]) -> tuple[int, ...]:
    """Return the chain with the mark ANEW at its end: all its redirects may be followed again."""
    return chain if chain[-1] == ANEW else (*chain, ANEW)


class Found(NamedTuple):
    """A URL on its way into a frontier: that of its own rank, or that of its owner by a batch."""

    key: int
    url: str
    site: str
    hops: int  # links followed from a seed; a redirect isn't one
    chain: tuple[int, ...] = ()  # keys of the redirects that led here, oldest first; and ANEW

    @property
    def is_errand(self) -> bool:
        """Whether this is no page, but a file that another site needs: see `errand`."""
        return _ERRAND in self.url


_ERRAND: Final = "#"  # no normalised URL contains this


def errand(url: str, number: int) -> str:
    """Return the name under which an errand waits in a frontier.

    An errand is a file that another site needs: the target to which its robots.txt redirects. It
    has a name of its own, because the same URL may also wait as a page, or as an earlier errand.
    """
    return f"{url}{_ERRAND}{number}"


def without_errand(name: str) -> str:
    """Return the URL of an errand."""
    return name.partition(_ERRAND)[0]


# A Link or a Found in code that only looks up its key, which it takes by index. With the named
# field, a compiled module would convert the int to a machine number and back, once for each link.
Fields = tuple[Any, ...]


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
    """A rank has died, and the others are to go on."""


class NoRoomError(UserError):
    """A file can't grow for now: the disk or quota is full, or the file system is read-only."""


def has_page(status: int | None) -> bool:
    """Whether a status says success (2xx). Then the body, if there is one, is a page."""
    return status is not None and 200 <= status < 300


@dataclass(frozen=True, slots=True)
class Response:
    """One HTTP exchange as it was on the wire, but with the transfer coding undone.

    If the body is incomplete, `failure` is set, and `truncated` says why with a word of
    WARC-Truncated: length, time, disconnect or unspecified. Then the payload is incomplete, its
    content coding ends early, or the coding was undone only up to a limit.
    """

    url: str
    started: float  # seconds since the epoch
    seconds: float
    address: str | None  # of the server; None behind a proxy
    request_head: bytes  # request line and headers as sent (secrets withheld), with the empty line
    version: str  # "1.1" or "1.0"
    status: int
    reason: str
    headers: Sequence[tuple[bytes, bytes]]
    payload: bytes  # still content-coded
    body: bytes  # content coding undone
    truncated: str | None = None
    failure: Failure | None = None
    payload_whole: bool = True
    readable: bool = True  # the payload has no content coding, or one that every reader undoes
    # Results that are needed several times, kept when they are first computed.
    types: list[tuple[str, str | None]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )  # see `media.types_of`
    _by_name: dict[bytes, list[bytes]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def stored(self) -> bytes:
        """The content of a WARC record: the payload if readers undo its coding, else the body."""
        return self.payload if self.readable else self.body

    def header(self, name: bytes) -> bytes | None:
        """Return the first value of a header, given by its lower-case name, or None."""
        values = self.raw_values(name)
        return values[0].strip() if values else None

    def raw_values(self, name: bytes) -> Sequence[bytes]:
        """Return all values of a header as they came, given by its lower-case name."""
        found = self._by_name
        if not found:
            for field_name, value in self.headers:
                found.setdefault(field_name.lower(), []).append(value)
        return found.get(name, ())

    def values(self, name: bytes) -> list[str]:
        """Return all values of a header as text, given by its lower-case name."""
        return [value.strip().decode("latin-1") for value in self.raw_values(name)]

    @property
    def content_type(self) -> str | None:
        """The values of all Content-Type lines, joined by commas; None if there is none."""
        return ", ".join(values) if (values := self.values(b"content-type")) else None

    @property
    def nosniff(self) -> bool:
        """Whether X-Content-Type-Options forbids browsers to guess the type of the body."""
        values = self.values(b"x-content-type-options")
        return bool(values) and values[0].partition(",")[0].strip().lower() == "nosniff"

    @property
    def has_page(self) -> bool:
        """Whether the status says success. Then the body is what was asked for."""
        return has_page(self.status)


class PageRow(msgspec.Struct, array_like=True, frozen=True):
    """One row of the table `pages`: a URL that was fetched, or the reason why it wasn't."""

    url: str
    key: int
    site: str
    part: int
    rank: int
    hops: int
    time: float  # start of the fetch, seconds since the epoch
    seconds: float
    address: str | None = None
    status: int | None = None
    error: str | None = None  # a Failure
    truncated: str | None = None
    bytes: int = 0  # of the payload, as received
    content_type: str | None = None
    digest: str | None = None  # of the payload: "sha1:" and base 32
    duplicate: bool = False  # this rank stored the same digest before; its record is a revisit
    warc_file: str | None = None
    warc_offset: int | None = None
    retries: int = 0  # requests for this URL that had failed before
    etag: str | None = None
    last_modified: str | None = None
    noindex: bool = False  # the page asks not to be indexed (meta robots, X-Robots-Tag)
    alike: bool = False  # was compared with pages of other hosts (reading.hosts), and is like them
    media_type: str | None = None  # of the body, as browsers sniff it; None in rows of old logs


class Asked(msgspec.Struct, array_like=True, frozen=True):
    """A request that was made to a site: for a page, for robots.txt, or to try one of them again.

    A connection that couldn't be made counts as a request. Times are by the wall clock.
    """

    started: float  # seconds since the epoch
    seconds: float
    site: str
    authority: str  # scheme://host[:port]
    kind: str  # "page" or "robots"
    key: int  # of the URL
    status: int | None = None
    error: str | None = None  # a Failure, "moved" or "cancelled", if there was no answer
    address: str | None = None  # of the server, if known
    retry_after_s: float | None = None  # what the server asked for

    @property
    def passing(self) -> bool:
        """Whether the request failed, and may succeed in a while."""
        return self.error in PASSING


class CrawlDelay(msgspec.Struct, array_like=True, frozen=True):
    """The crawl-delay that the robots.txt of an authority asks for, known since `time`."""

    time: float
    authority: str
    crawl_delay_s: float  # 0: the robots.txt asks for no delay


class Original(NamedTuple):
    """The record that holds a payload, as a revisit record names it."""

    url: str
    date: str
    record_id: str


@dataclass(frozen=True, slots=True)
class Earlier:
    """What the previous session (`session.previous`) stored about a URL."""

    row: PageRow
    links: Sequence[tuple[str, int]]  # URLs and flags
    warc_path: Path  # of the file that the row names
    original: Original | None = field(default=None, compare=False)  # the record, once it is read


@dataclass(slots=True)
class Fetched:
    """The result of a visit, on its way from the fetch stage to the repository."""

    found: Found
    time: float
    response: Response | None = None
    failure: Failure | None = None
    address: str | None = None
    links: list[Link] = field(default_factory=list)
    retries: int = 0  # requests that had failed before
    noindex: bool = False  # the page asks not to be indexed
    earlier: Earlier | None = None  # the earlier fetch, if the request was conditional
    sitemaps_of: Names | None = None  # the links are sitemaps that the robots.txt there names
    lastmods: dict[int, str] = field(
        default_factory=dict
    )  # by index in `links`: the lastmod that a sitemap gives
    judged_with: int = 0  # how many sites had joined the scope when the links were judged
    joins: tuple[str, str] | None = None  # a site that this page brings into the scope; the seed
    gives_cookies: bool = False  # a redirect whose target must be fetched with cookies
    alike: bool = False  # as in PageRow
    notice: str = ""  # a message about this page for the user


class Clock(Protocol):
    """The time, in seconds."""

    def now(self) -> float:
        """Return the time of a clock that never goes back; its zero is arbitrary."""
        ...

    def time(self) -> float:
        """Return the seconds since the epoch."""
        ...


class Resolver(Protocol):
    """Finds the addresses of hosts."""

    async def resolve(self, host: str) -> Sequence[tuple[str, int | None]]:
        """Return the addresses of a host, each with a port that replaces the URL's, or None.

        Raises FetchError (DNS_NOT_FOUND, DNS_FAILED, PRIVATE_ADDRESS).
        """
        ...


class Validators(NamedTuple):
    """The validators of a stored page; with them, a request asks for the page only if changed."""

    etag: str | None  # as If-None-Match
    last_modified: str | None  # as If-Modified-Since


class Fetcher(Protocol):
    """Makes HTTP requests."""

    async def locate(self, url: str) -> str:
        """Return the server of a normalised URL; the answer is the same every time.

        The server is an address of the URL's host. Where a proxy resolves the name, it is the
        authority. Raises FetchError like a Resolver.
        """
        ...

    async def fetch(
        self,
        url: str,
        validators: Validators | None = None,
        max_bytes: int | None = None,
        cookie: str = "",
    ) -> Response:
        """Make one exchange for a normalised URL, and return the response.

        Redirects aren't followed. With `validators` the request is conditional, and the status may
        be 304. `max_bytes` replaces the usual limit on the body. `cookie` is sent in addition to
        the configured cookies. Raises FetchError, and MovedError if the URL must be located again.
        """
        ...


class Repository(Protocol):
    """Where a rank stores what it fetched."""

    def append(self, fetched: Fetched, part: int, follows: Callable[[PageRow], bool]) -> PageRow:
        """Store a fetch: first its WARC records, then its row with its links in one write.

        `follows` says whether the links of a row are followed. If not, the links are stored with
        the flag OUT_OF_SCOPE. Raises NoRoomError; then the next call must be with the same fetch.
        """
        ...

    def introduce(self, authority: str, sitemaps: Sequence[Link]) -> None:
        """Store the sitemaps that the robots.txt of an authority names. Raises NoRoomError."""
        ...

    def keep(self, url: str, response: Response) -> None:
        """Store a robots.txt that couldn't be read, without a row. Raises NoRoomError."""
        ...

    def note(self, what: Asked | CrawlDelay) -> None:
        """Store a request that was made, or the crawl-delay of a robots.txt.

        If the disk is full, the row waits in memory.
        """
        ...


class Spill(Protocol):
    """A place on disk for data that don't fit in memory. Nothing of it outlives the run."""

    def put(self, chunk: bytes) -> int:
        """Write a chunk, and return its number. Raises NoRoomError; then nothing is written."""
        ...

    def take(self, number: int) -> bytes:
        """Return a chunk, and free its place; a chunk can be taken once."""
        ...


class Transport(Protocol):
    """Messages between ranks. Nothing here blocks; `wait` is the only coroutine."""

    rank: int
    size: int

    def send(self, rank: int, message: bytes) -> None:
        """Queue a message. It is sent as soon as the receiver's window has room."""
        ...

    def receive(self) -> list[tuple[int, bytes]]:
        """Return the messages that arrived since the last call, as (sender, message)."""
        ...

    def backlog(self, rank: int) -> int:
        """Return the number of bytes that are queued for a rank or in flight to it."""
        ...

    def remote(self, rank: int) -> bool:
        """Whether a rank runs on another host, so that compression pays."""
        ...

    async def wait(self, timeout: float) -> None:
        """Wait until a message may have come or left, at most `timeout` seconds."""
        ...

    async def close(self) -> None:
        """Deliver all queued messages, and leave together with all other ranks."""
        ...

    def abandon(self) -> None:
        """Leave at once, because a rank was lost, and tell all other ranks."""
        ...


class Group(Protocol):
    """The ranks of a crawl, and what they do together.

    All ranks call these methods in the same order; each method but `abort` waits for the other
    ranks. All methods but `all_done` and `survive` may raise LostRankError, on some of the ranks or
    on all.
    """

    rank: int
    size: int

    async def connect(self) -> Transport:
        """Return a transport between all ranks, for one crawl."""
        ...

    async def bcast(self, value: T) -> T:
        """Return the value of rank 0, on every rank."""
        ...

    async def gather(self, value: T) -> list[T]:
        """Return all ranks' values in the order of ranks on rank 0, an empty list elsewhere."""
        ...

    async def alltoall(self, values: Sequence[T]) -> list[T]:
        """Give each rank the value at its index; return the value that each rank gave this one."""
        ...

    async def all_done(self, done: bool) -> bool:
        """Whether all remaining ranks say that they are done.

        The answer is the same on all of them, even if a rank dies meanwhile. A rank that has heard
        of a loss calls this with False. That interrupts the methods in which other ranks wait.
        """
        ...

    async def survive(self) -> None:
        """Go on without the ranks that were lost.

        `rank` and `size` change: the remaining ranks are numbered anew in the old order.
        """
        ...

    def abort(self, code: int, message: str) -> NoReturn:
        """End all ranks at once with this exit code, and say why on standard error."""
        ...
