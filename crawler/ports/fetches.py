"""The results of requests, and the rows in which they are logged."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from crawler.ports.errors import PASSING, Failure
from crawler.ports.links import Anchor, CrawlUrl, Link, Names, requisite

# The values of `PageRow.role`.
PAGE: Final = "page"
REQUISITE: Final = "requisite"  # fetched because a page needs it to be shown


def has_page(status: int | None) -> bool:
    """Whether a status says success (2xx). Then the body, if there is one, is a page."""
    return status is not None and 200 <= status < 300


class Response(msgspec.Struct, frozen=True, eq=False):
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
    types: list[tuple[str, str | None]] = []  # see `media.types_of`
    by_name: dict[bytes, list[bytes]] = {}  # see `raw_values`

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
        by_name = self.by_name
        if not by_name:
            for field_name, value in self.headers:
                by_name.setdefault(field_name.lower(), []).append(value)
        return by_name.get(name, ())

    def values(self, name: bytes) -> list[str]:
        """Return all values of a header as text, given by its lower-case name."""
        return [value.strip().decode("latin-1") for value in self.raw_values(name)]

    @property
    def content_type(self) -> str | None:
        """The values of all Content-Type lines, joined by commas; None if there is none."""
        values = self.raw_values(b"content-type")
        return b", ".join(map(bytes.strip, values)).decode("latin-1") if values else None

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
    duplicate: bool = False  # this rank stored the same digest before, so the record is a revisit
    warc_file: str | None = None
    warc_offset: int | None = None
    retries: int = 0  # requests for this URL that had failed before
    etag: str | None = None
    last_modified: str | None = None
    noindex: bool = False  # the page asks not to be indexed (meta robots, X-Robots-Tag)
    alike: bool = False  # like pages of other hosts, by the comparison of reading.hosts
    media_type: str | None = None  # of the body, as browsers sniff it; None in rows of old logs
    title: str | None = None  # None also in rows of old logs
    language: str | None = None  # a language tag in lower case; None also in rows of old logs
    role: str = PAGE  # or REQUISITE

    @property
    def name(self) -> str:
        """The URL, or the name of the requisite, from which the key is made."""
        return requisite(self.url) if self.role == REQUISITE else self.url


class Asked(msgspec.Struct, array_like=True, frozen=True):
    """A request that was made to a site: for a page, for robots.txt, or to try one of them again.

    A connection that couldn't be made counts as a request. Times are by the wall clock.
    """

    started: float  # seconds since the epoch
    seconds: float
    site: str
    authority: str  # scheme://host[:port]
    kind: str  # "page" or "robots"
    key: int  # key of the URL
    status: int | None = None
    error: str | None = None  # a Failure, "moved" or "cancelled"; None for an answer
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


class Earlier(msgspec.Struct, frozen=True):
    """What the previous session (`session.previous`) stored about a URL."""

    row: PageRow
    links: Sequence[tuple[str, int]]  # URLs and flags
    warc_path: Path  # of the file that the row names
    original: Original | None = None  # the record, once it is read
    anchors: Sequence[Anchor] = ()  # of `links`, if they are known
    requisites: Sequence[str] = ()  # URLs


class Fetched(msgspec.Struct):
    """The result of a visit, on its way from the fetch stage to the repository."""

    found: CrawlUrl
    time: float
    response: Response | None = None
    failure: Failure | None = None
    address: str | None = None
    links: list[Link] = []
    requisites: list[Link] = []  # by their names
    retries: int = 0  # requests that had failed before
    noindex: bool = False  # the page asks not to be indexed
    title: str | None = None
    language: str | None = None
    earlier: Earlier | None = None  # the earlier fetch, if the request was conditional
    sitemaps_of: Names | None = None  # the links are sitemaps that the robots.txt there names
    lastmods: dict[int, str] = {}  # by index in `links`: the lastmod that a sitemap gives
    anchors: Sequence[Anchor] = ()  # of `links`, if they are wanted
    judged_with: int = 0  # how many sites had joined the scope when the links were judged
    joins: tuple[str, str] | None = None  # a site that this page brings into the scope; the seed
    gives_cookies: bool = False  # a redirect whose target must be fetched with cookies
    alike: bool = False  # as in PageRow
    notice: str = ""  # a message about this page for the user
    detail: str = ""  # more about the failure than its class, if that is known
    rows: dict[str, bytes] = {}  # by handler: lines of JSON
    digest: str | None = None  # of the payload, once it is known

    @property
    def followed(self) -> list[Link]:
        """The links that may be followed. `links` may also name the URL where a loop begins."""
        return [] if self.failure is Failure.REDIRECT_LOOP else self.links


class Validators(NamedTuple):
    """The validators of a stored page; with them, a request asks for the page only if changed."""

    etag: str | None  # as If-None-Match
    last_modified: str | None  # as If-Modified-Since
