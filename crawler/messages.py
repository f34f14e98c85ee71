"""The messages between ranks, and their bytes.

A *batch* carries URLs to their owner, and small messages beside them: cookies of chains, claims of
sites, answers to claims, page quota, clocks of sites. Batches are counted, because the end of the
crawl depends on their arrival. The other messages aren't counted.
"""

import msgspec
import zstandard


class RestTerms(msgspec.Struct, array_like=True, frozen=True):
    """What a rank has learned about a site: `leases.Rest`, with its time as seconds to wait."""

    wait_s: float
    delay_s: float
    failures: dict[str, int]


class ClockTerms(msgspec.Struct, array_like=True, frozen=True):
    """A clock on its way: from its home to a rank (a grant), or back to its home (a return)."""

    key: str  # the site, or the address
    serial: int  # of the grant
    wait_s: float  # no request before
    since_s: float  # the latest request started so long ago (told of several connections)
    turn_s: float  # a grant: how long a turn may last; a return: how long the sender had the clock
    free: int  # connections that come along
    more: bool  # a grant: other ranks want it, too; a return: the sender wants it again
    rests: dict[str, RestTerms]  # by site


class FreedConnections(msgspec.Struct, array_like=True, frozen=True):
    """Connections that follow a clock, to its home or from there to its holder."""

    key: str
    count: int
    serial: int  # from the home: of the grant that they belong to
    rests: dict[str, RestTerms]


class CookieTerms(msgspec.Struct, array_like=True, frozen=True):
    """A `cookies.Cookie`. What the server has sent is bytes, as it may be no text."""

    name: bytes
    value: bytes
    domain: str
    below: bool
    path: bytes
    secure: bool


class Batch(msgspec.Struct, tag="b", array_like=True):
    """URLs, each once and with the number of links to it (Cho: [URL, back-link count])."""

    urls: list[str] = []
    counts: list[int] = []
    hops: list[int] = []
    chains: dict[int, tuple[int, ...]] = {}  # by index: keys of the redirects that led to a URL
    claims: list[str] = []  # sites that the sender wants to own
    grants: dict[str, int] = {}  # sites and the parts they were given to
    load: int = 0  # URLs that the sender has had to fetch so far
    ask: bool = False  # for page quota, to rank 0
    allow: int = 0  # page quota, from rank 0
    returned: int = 0  # page quota not needed, to rank 0
    stop: bool = False  # a limit or a signal ends the crawl: fetch nothing more
    number: int = 0  # of the batches from this sender to this receiver
    named_by: dict[int, list[str]] = {}  # by key of a sitemap: whose robots.txt names it
    joined: list[tuple[str, str, str]] = []  # sites that join the scope: site, seed, end
    # Clocks that ranks share (`crawler.core.clocks`).
    wants: list[str] = []  # sites, or addresses, whose clocks the sender wants
    clocks: list[ClockTerms] = []
    recalls: list[tuple[str, int]] = []  # with the serials of their grants
    freed: list[FreedConnections] = []
    cookies: dict[int, tuple[CookieTerms, ...]] = {}  # by key of a URL: of its chain


class Report(msgspec.Struct, tag="r", array_like=True):
    """A passive rank's batch counts, to rank 0 (see Termination)."""

    wave: int
    sent: int
    received: int


class Sums(msgspec.Struct, tag="s", array_like=True):
    """The counts of all ranks in a wave, from rank 0."""

    wave: int
    sent: int
    received: int


class Note(msgspec.Struct, tag="n", array_like=True):
    """Progress and warnings for rank 0 to show; nothing depends on it."""

    pages: int
    bytes: int
    waiting: int
    errors: int
    warnings: list[str] = []


Message = Batch | Report | Sums | Note

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Message)
_compressor = zstandard.ZstdCompressor(level=1)
_decompressor = zstandard.ZstdDecompressor()
_RAW, _ZSTD = b"\x00", b"\x01"
_WORTH_COMPRESSING = 512  # bytes


def encode(message: Message, *, compress: bool) -> bytes:
    """A message as bytes; compression pays between hosts only."""
    raw = _encoder.encode(message)
    if compress and len(raw) >= _WORTH_COMPRESSING:
        return _ZSTD + _compressor.compress(raw)
    return _RAW + raw


def decode(data: bytes) -> Message:
    body: bytes | memoryview = memoryview(data)[1:]
    if data[:1] == _ZSTD:
        body = _decompressor.decompress(body)
    message: Message = _decoder.decode(body)
    return message
