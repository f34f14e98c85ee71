"""What ranks say to each other, and its bytes.

A *batch* carries URLs to their owner, with everything small that has the same way: claims of sites,
answers to claims, page quota. Batches are counted, because the end of the crawl depends on their
arrival; the other messages aren't.
"""

import msgspec
import zstandard


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
    named_by: dict[int, str] = {}  # by index: whose robots.txt names the sitemap there
    joined: list[tuple[str, str, str]] = []  # sites that join the scope: site, seed, end


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
