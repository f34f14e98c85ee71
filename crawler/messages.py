"""The messages between ranks, and their bytes.

A *batch* carries URLs to their owner, and small messages beside them: cookies of chains, claims of
sites, answers to claims, page quota, clocks of sites. Batches are counted, because the end of the
crawl depends on their arrival. The other messages aren't counted. Of these, notes, questions and
answers (`ForPeople`) are only for people: if one is lost, the crawl is the same.
"""

from enum import StrEnum

import msgspec
import zstandard


class RestTerms(msgspec.Struct, array_like=True, frozen=True):
    """What a rank has learned about a site: `leases.Rest`, with its time as seconds to wait."""

    wait_s: float
    delay_s: float
    failures: dict[str, int]


class ClockTerms(msgspec.Struct, array_like=True, frozen=True):
    """A clock that moves: from its home to a rank (a grant), or back to its home (a return)."""

    key: str  # the site, or the address
    serial: int  # of the grant
    wait_s: float  # until the next request may start
    since_s: float  # since the latest request started; used if a site has several connections
    turn_s: float  # a grant: how long a turn may last; a return: how long the sender had the clock
    free: int  # connections that move with the clock
    more: bool  # a grant: other ranks want the clock, too; a return: the sender wants it again
    rests: dict[str, RestTerms]  # what is known about each site


class FreedConnections(msgspec.Struct, array_like=True, frozen=True):
    """Connections that follow a clock, to its home or from there to its holder."""

    key: str
    count: int
    serial: int  # of the grant that they belong to; set by the home only
    rests: dict[str, RestTerms]


class CookieTerms(msgspec.Struct, array_like=True, frozen=True):
    """A `cookies.Cookie`. The server's strings are bytes, because they may be no valid text."""

    name: bytes
    value: bytes
    domain: str
    below: bool
    path: bytes
    secure: bool


class Batch(msgspec.Struct, tag="b", array_like=True):
    """URLs, each once, with the number of links to it (Cho: [URL, back-link count])."""

    urls: list[str] = []
    counts: list[int] = []
    hops: list[int] = []
    chains: dict[int, tuple[int, ...]] = {}  # by index in urls: keys of redirects that led there
    claims: list[str] = []  # sites that the sender wants to own
    grants: dict[str, int] = {}  # by site: the part that it was given to
    load: int = 0  # URLs that the sender has had to fetch so far
    ask: bool = False  # to rank 0: the sender asks for page quota
    allow: int = 0  # from rank 0: page quota for the receiver
    returned: int = 0  # to rank 0: page quota that the sender doesn't need
    stop: bool = False  # a limit or a signal ends the crawl: fetch nothing more
    paused: int = 0  # from rank 0: the number of its latest order; if odd, begin no fetch
    seeds: list[str] = []  # from rank 0: further seeds, normalised and in scope
    number: int = 0  # of the batches from this sender to this receiver
    declared_by: dict[int, list[str]] = {}  # by key of a sitemap: authorities that name it
    joined: list[tuple[str, str, str]] = []  # (site that joins the scope, seed, end of its chain)
    # Clocks that ranks share (`crawler.core.clocks`).
    wants: list[str] = []  # sites, or addresses, whose clocks the sender wants
    clocks: list[ClockTerms] = []
    recalls: list[tuple[str, int]] = []  # with the serials of their grants
    freed: list[FreedConnections] = []
    cookies: dict[int, tuple[CookieTerms, ...]] = {}  # by key of a URL: cookies of its chain
    # Between a seed server and its clients (`crawler.core.dynamic`). Keys are packed as u64.
    keys: bytes = b""  # of the urls: a server would spend much of its time on computing them
    heard: int = 0  # from a server that hands out URLs: how many batches of the client it has got
    scores: bytes = b""  # from a server: of the urls that it hands out, as f64
    # By the server that takes care of them: keys of linked URLs whose texts were sent before, and
    # the number of links to each, as u32.
    known: dict[int, tuple[bytes, bytes]] = {}
    pages: list[
        tuple[int, bytes]
    ] = []  # if the order wants links: pages, and the keys they link to
    ended: bytes = b""  # keys of URLs that were handed to the sender, and are dealt with
    unanswered: list[int] = []  # of these, URLs without a response
    returned_urls: list[int] = []  # keys of handed URLs that the sender won't fetch
    poor: list[int] = []  # keys of sent URLs that are to be fetched last (docs/traps.md)
    stock: int | None = None  # from a client: URLs that it wants at hand; 0: none, as it leaves
    resting: int = 0  # with a stock: URLs at hand beside it, of sites that must rest
    connections: int = 0  # from a client: that it uses; from its server: that it should use
    # Orders to a server or its client, by the client's rank: true: it comes, false: it leaves.
    members: dict[int, bool] = {}
    lost: dict[int, int] = {}  # clients that are gone without a word: the pages that each had
    # Units (`core.tree.Tree.unit`) that move, with the keys that were met there, as u64.
    moved: dict[str, bytes] = {}
    wanted_back: list[str] = []  # from a server: units that the client is to return
    replayed: bool = False  # from a client: it has sent all links that it has read in earlier logs


class Report(msgspec.Struct, tag="r", array_like=True):
    """Batch counts of a passive rank, for rank 0 (see Termination)."""

    wave: int
    sent: int
    received: int
    losses: int = 0  # lost ranks that the sender knows of, whose batches it doesn't count


class Sums(msgspec.Struct, tag="s", array_like=True):
    """The sums of all ranks' counts in a wave, from rank 0."""

    wave: int
    sent: int
    received: int
    losses: int = 0  # lost ranks, whose batches no rank has counted


class Trouble(msgspec.Struct, frozen=True):
    """A URL that gave no page, for the user."""

    time: float  # start of the fetch, in seconds since 1970
    url: str
    error: str  # a Failure, or "status 404"
    why: str = ""  # in a few words


class SitePages(msgspec.Struct, array_like=True, frozen=True):
    """What a rank has fetched of a site in this run."""

    site: str
    pages: int  # responses
    bytes: int
    seconds: float  # of all these requests together


class Note(msgspec.Struct, tag="n", array_like=True):
    """Progress, warnings and the state of a rank, for rank 0 to show. No decision depends on it.

    All counts are those of the run. `Note` is what a rank sends each second (`agent.figures`).
    """

    pages: int
    bytes: int
    waiting: int
    errors: int
    warnings: list[str] = []
    good: int = 0  # responses of success (2xx, 304), and redirects
    requests: int = 0
    statuses: list[int] = []  # responses of status 1xx, 2xx, 3xx, 4xx, 5xx
    by_failure: dict[str, int] = {}  # URLs without a good response, by error class or status
    early: int = 0  # requests that came earlier than promised (`session.courtesy`)
    sites_ready: int = 0  # of this moment, as are the numbers that follow; see SiteCounts
    sites_resting: int = 0
    hosts_failing: int = 0
    fetching: int = 0  # visits under way
    connections: int = 0  # that may be used at a time; 0: this rank fetches nothing
    cpu_s: float = 0.0  # CPU time of the process since its start
    lag_s: float = 0.0  # how late the event loop came to send this note
    memory: int = 0  # bytes in RAM
    backlog: int = 0  # bytes that wait to be sent to the slowest rank
    urls_to: dict[int, int] = {}  # URLs sent in this run, by receiving rank
    no_room: bool = False  # whether the rank waits for room on the disk
    troubles: list[Trouble] = []  # the latest since the last note
    messages: int = 0  # sent to other ranks
    sites: list[SitePages] = []  # those with the most pages, and the slowest
    plugin_errors: dict[str, int] = {}  # by name of the plug-in
    requisites: int = 0  # responses for requisites, which `pages` leaves out
    longest_break_s: float = 0.0  # of the event loop in this run (`agent.timing.LoopWatch`)


class Question(msgspec.Struct, tag="q", array_like=True, frozen=True):
    """What rank 0 asks all ranks for the user: about a site, or about a URL and its site."""

    number: int
    site: str
    url: str = ""  # normalised; empty: only about the site


class UrlState(StrEnum):
    """What a rank knows of a URL. Whether it was fetched stands in the log."""

    UNDER_WAY = "under way"
    MET = "met"  # it waits here, or it was dealt with
    HANDED_OUT = "handed out"  # by a seed server
    LEAVING = "leaving"  # it waits to be sent to its owner
    CLAIMED = "claimed"  # the rank has asked who owns its site
    UNTOLD = "untold"  # the store of URL-seen answers late
    UNKNOWN = "unknown"


class RobotsFacts(msgspec.Struct, array_like=True, frozen=True):
    """What a rank knows of the robots.txt of an authority."""

    authority: str
    unreachable: str = ""  # the Failure, if the file couldn't be had
    crawl_delay_s: float = 0.0
    allowed: bool | None = None  # whether it allows the URL that was asked about
    line: str = ""  # the line that decides about that URL, if one does
    obeyed: bool = True


class SiteFacts(msgspec.Struct, array_like=True):
    """What a rank knows of a site, at this moment."""

    waiting: int  # URLs
    under_way: int  # visits; at a seed server: URLs that are handed out
    phase: str = ""  # see core.visits.Phase; empty at a seed server
    wait_s: float = 0.0  # until the next request may begin
    delay_s: float = 0.0  # between two requests
    connections: int = 1  # requests at a time
    clock_home: int | None = None  # the rank that lends the clock, if ranks share it
    client: int | None = None  # at a seed server: the client at which the site is
    failures: dict[str, int] = {}  # requests that failed in a row, by authority
    given_up: list[str] = []  # of these, the authorities that are asked no more


class Answer(msgspec.Struct, tag="a", array_like=True):
    """What a rank knows of what a Question asks."""

    number: int  # of the question
    state: UrlState = UrlState.UNKNOWN
    owner: int | None = None  # the rank that owns the URL, as far as this rank knows
    site: SiteFacts | None = None  # None: the rank has no URL of the site, nor failures there
    robots: list[RobotsFacts] = []  # of the site


ForPeople = Note | Question | Answer


class Relay(msgspec.Struct, tag="y", array_like=True):
    """A message that servers pass on, because its sender and receiver are no neighbours."""

    sender: int
    receiver: int
    message: Batch | Report | Note | Question | Answer


Message = Batch | Report | Sums | Note | Question | Answer | Relay

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Message)
_compressor = zstandard.ZstdCompressor(level=1)
_decompressor = zstandard.ZstdDecompressor()
_RAW, _ZSTD = b"\x00", b"\x01"
_WORTH_COMPRESSING = 512  # bytes


def encode(message: Message, *, compress: bool) -> bytes:
    """Return a message as bytes. `compress`: the receiver is on another host, so it pays."""
    raw = _encoder.encode(message)
    if compress and len(raw) >= _WORTH_COMPRESSING:
        return _ZSTD + _compressor.compress(raw)
    return _RAW + raw


def decode(data: bytes) -> Message:
    """Return the message that `encode` made these bytes of."""
    body: bytes | memoryview = memoryview(data)[1:]
    if data[:1] == _ZSTD:
        body = _decompressor.decompress(body)
    message: Message = _decoder.decode(body)
    return message
