"""What crosses the floors: values, errors, and the protocols of the outside world.

The deciding part of an agent knows the outside only through these; `crawler.net`, `crawler.mpi` and
`crawler.session` implement the protocols for real, `tests/fakes.py` for tests.
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

COOKIES_LOST: Final = 256  # never stored: the target was to get cookies, and a resume has none

NEVER_FOLLOWED: Final = -1  # as `Fetched.judged_with`: the page is the same as too many others


EXIT_INTERNAL: Final = 3  # done, but this program failed on a page or more
EXIT_STOPPED: Final = 75  # EX_TEMPFAIL: resume with the same command


# Authorities whose robots.txt names a sitemap: mostly one, else several, sorted.
Names = str | tuple[str, ...]


def names_of(names: Names | None) -> tuple[str, ...]:
    """The authorities one by one."""
    if names is None:
        return ()
    return (names,) if isinstance(names, str) else tuple(names)


def joined_names(names: Names | None, more: Names) -> Names:
    """All authorities of both."""
    both = sorted({*names_of(names), *names_of(more)})
    return both[0] if len(both) == 1 else tuple(both)


class Link(NamedTuple):
    """A link that has been normalised, keyed and held against the scope."""

    key: int  # URL key of the target
    url: str
    site: str
    flags: int


# In a chain of redirects: a resume has lost the cookies, and the chain is walked anew from here on.
ANEW: Final = -1  # no key is negative


def walked(chain: tuple[int, ...]) -> tuple[int, ...]:
    """The redirects of a chain since it was last begun."""
    if ANEW not in chain:
        return chain
    return chain[len(chain) - chain[::-1].index(ANEW) :]


def begun_anew(chain: tuple[int, ...]) -> tuple[int, ...]:
    """A chain whose redirects may all be walked once more."""
    return chain if chain[-1] == ANEW else (*chain, ANEW)


class Found(NamedTuple):
    """A URL on its way into a frontier: own, or in a batch to its owner."""

    key: int
    url: str
    site: str
    hops: int  # links followed from a seed; a redirect isn't one
    chain: tuple[int, ...] = ()  # keys of the redirects that led here, oldest first; and ANEW

    @property
    def is_errand(self) -> bool:
        """Whether this is a file that another site needs, no page: see `errand`."""
        return _ERRAND in self.url


_ERRAND: Final = "#"  # No normalised URL has it.


def errand(url: str, number: int) -> str:
    """The name under which a file waits in a frontier that another site needs: a robots.txt to
    which it redirects. The same URL may wait there as a page, or as an earlier errand."""
    return f"{url}{_ERRAND}{number}"


def without_errand(name: str) -> str:
    """The URL of an errand."""
    return name.partition(_ERRAND)[0]


# A Link or a Found for who takes its key, by index, only to look it up. Of each int out of a named
# tuple a compiled module would make a number, and an object again, once for each link.
Fields = tuple[Any, ...]


class Failure(StrEnum):
    """Error classes: why a URL gave no page, or not a whole one."""

    BAD_URL = "bad-url"
    DNS_NOT_FOUND = "dns-not-found"
    DNS_FAILED = "dns-failed"
    PRIVATE_ADDRESS = "private-address"
    NO_CONTACT = "no-contact"  # a public address, while fetch.contact is unset
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
    UNAVAILABLE = "unavailable"  # 429 or 503, to the last try
    SITE_GIVEN_UP = "site-given-up"  # it kept failing, and isn't asked any more in this session
    SITE_FULL = "site-full"  # it has sent traps.max_bytes_per_site
    TOO_MANY_HOSTS = "too-many-hosts"  # traps.max_barren_hosts of the domain, or at the address
    INTERNAL = "internal"  # this program failed on it, see crawler.faults


# What may be otherwise in a while. The other failures are answers of a kind.
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
# What is known without a request.
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
    """A fetch, or the resolution before it, that gave no response."""

    def __init__(self, failure: Failure, detail: str = "", *, address: str | None = None) -> None:
        super().__init__(f"{failure}: {detail}" if detail else str(failure))
        self.failure = failure
        self.detail = detail
        self.address = address


class MovedError(Exception):
    """A URL must be located again, and asked for when its site allows.

    Either the address of its host failed, and the host has another address; or a kept connection
    was lost.
    """


class UserError(Exception):
    """A user's mistake: one line that says what, where, and what is allowed. Exit code 2."""


class LostRankError(Exception):
    """A rank has died, and the others are to go on."""


class NoRoomError(UserError):
    """A file can't grow for now: no space, no quota, or a file system that is read-only."""


def has_page(status: int | None) -> bool:
    """Whether a status says success (2xx). Then the body, if there is one, is a page."""
    return status is not None and 200 <= status < 300


@dataclass(frozen=True, slots=True)
class Response:
    """One HTTP exchange as it was on the wire, transfer coding removed.

    If the body is only a part, `failure` is set, and `truncated` says why. Either the payload isn't
    whole, or its content coding ends early or is undone only up to a limit. `truncated` is a word
    of WARC-Truncated: length, time, disconnect, unspecified.
    """

    url: str
    started: float  # seconds since the epoch
    seconds: float
    address: str | None  # that the connection went to
    request_head: bytes  # request line and headers as sent, with the empty line
    version: str  # "1.1" or "1.0"
    status: int
    reason: str
    headers: Sequence[tuple[bytes, bytes]]
    payload: bytes  # still content-coded
    body: bytes  # content coding undone
    truncated: str | None = None
    failure: Failure | None = None
    payload_whole: bool = True
    readable: bool = True  # every reader undoes the content coding of the payload, if it has one
    # What is asked for again and again, once it has been found.
    types: list[tuple[str, str | None]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )  # see `media.types_of`
    _by_name: dict[bytes, list[bytes]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def stored(self) -> bytes:
        """The content of a record: the payload if readers undo its coding, else the body."""
        return self.payload if self.readable else self.body

    def header(self, name: bytes) -> bytes | None:
        """The first value of a header, given by its lower-case name."""
        values = self.raw_values(name)
        return values[0].strip() if values else None

    def raw_values(self, name: bytes) -> Sequence[bytes]:
        """All values of a header as they came, given by its lower-case name."""
        found = self._by_name
        if not found:
            for field_name, value in self.headers:
                found.setdefault(field_name.lower(), []).append(value)
        return found.get(name, ())

    def values(self, name: bytes) -> list[str]:
        """All values of a header, given by its lower-case name."""
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
        """Whether the status says that the body is what was asked for."""
        return has_page(self.status)


class PageRow(msgspec.Struct, array_like=True, frozen=True):
    """One row of the table `pages`: a URL that was fetched, or wasn't and why."""

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
    retries: int = 0  # requests for it that had failed before
    etag: str | None = None
    last_modified: str | None = None
    noindex: bool = False  # the page asks not to be indexed (meta robots, X-Robots-Tag)
    alike: bool = False  # resembles pages of other hosts (crawler.reading.hosts), if that was asked
    media_type: str | None = None  # of the body, as browsers sniff it; rows of old logs have none


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
    error: str | None = None  # a Failure, or why else there was no answer
    address: str | None = None  # of the server, if known
    retry_after_s: float | None = None  # what the server asked for

    @property
    def passing(self) -> bool:
        """Whether it failed in a way that may be otherwise in a while."""
        return self.error in PASSING


class CrawlDelay(msgspec.Struct, array_like=True, frozen=True):
    """What a robots.txt asks for, known from a time on."""

    time: float
    authority: str
    crawl_delay_s: float  # 0: it asks for nothing


class Original(NamedTuple):
    """What a revisit record says of the record that holds the payload."""

    url: str
    date: str
    record_id: str


@dataclass(frozen=True, slots=True)
class Earlier:
    """What the previous session says of a URL (`session.previous`)."""

    row: PageRow
    links: Sequence[tuple[str, int]]  # URLs and flags
    warc_path: Path  # of the file that the row names
    original: Original | None = field(default=None, compare=False)  # the record, if it is read


@dataclass(slots=True)
class Fetched:
    """What a visit brought, on its way from the fetch stage to the repository."""

    found: Found
    time: float
    response: Response | None = None
    failure: Failure | None = None
    address: str | None = None
    links: list[Link] = field(default_factory=list)
    retries: int = 0  # requests that had failed before
    noindex: bool = False  # the page asks not to be indexed
    earlier: Earlier | None = None  # what a conditional request was made with
    sitemaps_of: Names | None = None  # the links are sitemaps that the robots.txt there names
    lastmods: dict[int, str] = field(
        default_factory=dict
    )  # by place in `links`: what a sitemap says
    judged_with: int = 0  # how many sites had joined the scope when the links were judged
    joins: tuple[str, str] | None = None  # a site that this page brings into the scope; the seed
    gives_cookies: bool = False  # it is a redirect, whose target is to be asked with cookies
    alike: bool = False  # as in the row
    notice: str = ""  # what the user is to be told about this page


class Clock(Protocol):
    def now(self) -> float:
        """Seconds on a clock that never goes back."""
        ...

    def time(self) -> float:
        """Seconds since the epoch."""
        ...


class Resolver(Protocol):
    async def resolve(self, host: str) -> Sequence[tuple[str, int | None]]:
        """Addresses of a host, each with the port to use instead of the URL's own, if any.

        Raises FetchError (DNS_NOT_FOUND, DNS_FAILED, PRIVATE_ADDRESS).
        """
        ...


class Validators(NamedTuple):
    """What a page had when it was stored, to ask for it only if it has changed."""

    etag: str | None  # as If-None-Match
    last_modified: str | None  # as If-Modified-Since


class Fetcher(Protocol):
    async def locate(self, url: str) -> str:
        """The server of a normalised URL, the same every time: an address of its host or, where a
        proxy goes there and resolves the name, the authority. Raises FetchError like a Resolver."""
        ...

    async def fetch(
        self,
        url: str,
        validators: Validators | None = None,
        max_bytes: int | None = None,
        cookie: str = "",
    ) -> Response:
        """One exchange for a normalised URL; redirects aren't followed. Raises FetchError, and
        MovedError if the URL is to be located again.

        With `validators` the request is conditional, and the status may be 304. `max_bytes`: the
        limit on the body, if it isn't that of all pages. `cookie` is sent beside the configured
        cookies.
        """
        ...


class Repository(Protocol):
    def append(self, fetched: Fetched, part: int, follows: Callable[[PageRow], bool]) -> PageRow:
        """Store a fetch: WARC records first, then its row with its links, in one piece.

        `follows` says of the row whether its links are; else they are flagged OUT_OF_SCOPE. After
        a NoRoomError, the next call must be with the same fetch.
        """
        ...

    def introduce(self, authority: str, sitemaps: Sequence[Link]) -> None:
        """Store which sitemaps the robots.txt of an authority names. Raises NoRoomError."""
        ...

    def keep(self, url: str, response: Response) -> None:
        """Store a robots.txt that nobody could read, without a row. Raises NoRoomError."""
        ...

    def note(self, what: Asked | CrawlDelay) -> None:
        """Store that a request was made, or the crawl-delay of a robots.txt.

        If there is no room on disk, the row waits in memory.
        """
        ...


class Spill(Protocol):
    """A place on disk for what doesn't fit in memory. Nothing of it outlives the run."""

    def put(self, chunk: bytes) -> int:
        """Write a chunk and return its number. Raises NoRoomError; then the chunk isn't written."""
        ...

    def take(self, number: int) -> bytes:
        """Read a chunk back, once: its place is free then."""
        ...


class Transport(Protocol):
    """Messages between ranks. Nothing here blocks; `wait` is the only coroutine."""

    rank: int
    size: int

    def send(self, rank: int, message: bytes) -> None:
        """Queue a message; it leaves as soon as the window of that rank has room."""
        ...

    def receive(self) -> list[tuple[int, bytes]]:
        """The messages that have come since the last call, with their senders."""
        ...

    def backlog(self, rank: int) -> int:
        """Bytes queued or in flight to a rank."""
        ...

    def remote(self, rank: int) -> bool:
        """Whether the rank lives on another host, so that compression pays."""
        ...

    async def wait(self, timeout: float) -> None:
        """Return when something may have come or gone, or after `timeout` seconds."""
        ...

    async def close(self) -> None:
        """Deliver what is queued, and leave together with all other ranks."""
        ...

    def abandon(self) -> None:
        """Leave after the loss of a rank, at once, and let all other ranks know."""
        ...


class Group(Protocol):
    """The ranks of a crawl, and what they do together.

    All ranks call these methods in the same order; each method but `abort` waits for the other
    ranks. Any of them may raise LostRankError, on some of the ranks or on all; only `all_done` and
    `survive` don't.
    """

    rank: int
    size: int

    async def connect(self) -> Transport:
        """A transport between all ranks, for one crawl."""
        ...

    async def bcast(self, value: T) -> T:
        """Rank 0's value, on every rank."""
        ...

    async def gather(self, value: T) -> list[T]:
        """On rank 0 the values of all ranks, in their order; elsewhere an empty list."""
        ...

    async def alltoall(self, values: Sequence[T]) -> list[T]:
        """Give each rank the value at its index. Returns what each rank has given to this one."""
        ...

    async def all_done(self, done: bool) -> bool:
        """Whether all ranks that are left say that they are done.

        The answer is the same on all of them, whichever dies meanwhile. A rank that has heard of a
        loss isn't done; it comes here, and so breaks off what the others wait for.
        """
        ...

    async def survive(self) -> None:
        """Go on without the ranks that were lost.

        `rank` and `size` change: the ranks that are left are counted through in the old order.
        """
        ...

    def abort(self, code: int, message: str) -> NoReturn:
        """End all ranks at once with this exit code, and say why on standard error."""
        ...
