"""The request log of a rank: each request that it made to a site, and its promises to sites.

The report takes the smallest gaps from this log, and `verify` checks politeness with it. The files
are in SESSION/rank-00000/requests. Each has the number of a file of the page log:

    header   8 bytes "ABC-REQS", u32 format version
    frame    u32 length of the body, u32 CRC-32 of the body, body
    body     a byte for its kind, "M" for Manners, "Q" for an Asked, "D" for a CrawlDelay; then the
             object as a MessagePack array

All integers are little-endian. A row is written when its request has ended, by a single write. So
the row survives a kill, and a request that was under way at the kill has no row. A file ends at the
first frame that is incomplete or fails its checksum. Times are by the steady clock of the rank's
host, which can't be set. The offset in Manners turns them into seconds since the epoch.
"""

import os
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from isal import isal_zlib
from msgspec.structs import replace

from crawler import config
from crawler.names import NamePatterns
from crawler.ports import Asked, Clock, CrawlDelay, NoRoomError, UserError
from crawler.session.files import AppendFile
from crawler.session.gaps import Requests
from crawler.session.log import Torn, rank_directories
from crawler.session.timeline import Promise

_MAGIC: Final = b"ABC-REQS"
_VERSION: Final = 1
_HEADER: Final = struct.Struct("<8sI")
_FRAME: Final = struct.Struct("<II")
_MANNERS: Final = b"M"
_REQUEST: Final = b"Q"
_DELAY: Final = b"D"
_SITE_DELAY: Final = "delay_s in [[sites]]"
_SITE_CONNECTIONS: Final = "connections in [[sites]]"


class SiteManners(msgspec.Struct, array_like=True, frozen=True):
    """What a rank promises to some sites, in place of what it promises to others, by [[sites]]."""

    match: list[str]  # patterns of `names`
    delay_s: float | None
    connections: int | None


class Manners(msgspec.Struct, array_like=True, frozen=True):
    """What a rank promises in a run, by [politeness], [retry] and [[sites]].

    It is the first row of a file.
    """

    run: int  # the number of the run
    rank: int
    host: str
    boot: str  # names one start of the host's system; its ranks have the same steady clock
    offset: float  # the wall clock minus the steady clock, when the run began here
    per: str
    delay_s: float
    connections: int
    max_crawl_delay_s: float
    base_s: float
    busy_base_s: float
    max_rest_s: float
    give_up_after: int
    sites: list[SiteManners] = []  # logs of earlier versions have none

    def time(self, steady: float) -> float:
        """Return the time of a row, in seconds since the epoch, by the steady clock of the rank."""
        return self.offset + steady

    def now(self, clock: Clock) -> float:
        """Return the time now, by the clock of these rows.

        It is exact on the host that wrote the rows, until that host starts again.
        """
        return self.time(clock.now()) if self.boot and self.boot == _boot() else clock.time()

    @property
    def promise(self) -> Promise:
        """Return the promise by which the requests of this file are judged."""
        return Promise(
            run=self.run,
            rank=self.rank,
            host=self.host,
            boot=self.boot,
            offset=self.offset,
            by_address=self.per == "address",
            delay_s=self.delay_s,
            connections=self.connections,
            max_crawl_delay_s=self.max_crawl_delay_s,
            base_s=self.base_s,
            busy_base_s=self.busy_base_s,
            max_rest_s=self.max_rest_s,
            give_up_after=self.give_up_after,
        )

    def promises(self) -> Callable[[str], Promise]:
        """Return a function from a site to the promise by which its requests are judged."""
        usual = self.promise
        if not self.sites:
            return lambda site: usual
        patterns = NamePatterns([site.match for site in self.sites])
        promises: dict[tuple[int, ...], Promise] = {(): usual}

        def promise_to(site: str) -> Promise:
            numbers = patterns.matching(site)
            if numbers not in promises:
                promises[numbers] = self._promise_by([self.sites[at] for at in numbers])
            return promises[numbers]

        return promise_to

    def _promise_by(self, tables: Sequence[SiteManners]) -> Promise:
        """Return the promise to a site that these tables match."""
        promise = self.promise
        for table in reversed(tables):  # the first one counts
            if table.delay_s is not None:
                promise = replace(promise, delay_s=table.delay_s, delay_key=_SITE_DELAY)
            if table.connections is not None:
                promise = replace(
                    promise, connections=table.connections, connections_key=_SITE_CONNECTIONS
                )
        return promise

    @property
    def longest_delay_s(self) -> float:
        """Return the longest delay between requests to any site, before any Crawl-delay."""
        return max([self.delay_s, *(site.delay_s or 0.0 for site in self.sites)])

    @classmethod
    def of(cls, settings: config.Config, run: int, rank: int, clock: Clock) -> "Manners":
        """Return the promises that the settings make, for a run on this host that begins now."""
        politeness, retry = settings.politeness, settings.retry
        return cls(
            run=run,
            rank=rank,
            host=socket.gethostname(),
            boot=_boot(),
            offset=clock.time() - clock.now(),
            per=politeness.per,
            delay_s=politeness.delay_s,
            connections=politeness.connections_per_site,
            max_crawl_delay_s=politeness.max_crawl_delay_s,
            base_s=retry.base_s,
            busy_base_s=retry.busy_base_s,
            max_rest_s=retry.max_s,
            give_up_after=retry.give_up_after,
            sites=[
                SiteManners(list(site.names), site.delay_s, site.connections)
                for site in settings.sites
                if site.delay_s is not None or site.connections is not None
            ],
        )


def _boot() -> str:
    """Return the name of the system's present start, which only Linux gives; empty elsewhere."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


Row = Manners | Asked | CrawlDelay | Torn


class RequestLog:
    """Writes one new file. If the disk is full, rows wait in memory until a write succeeds."""

    def __init__(self, path: Path, manners: Manners) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = AppendFile(path)
        self._file.append(_HEADER.pack(_MAGIC, _VERSION))
        self._waiting: deque[bytes] = deque()
        self._encode = msgspec.msgpack.Encoder().encode
        self._append(_MANNERS + self._encode(manners))

    def note(self, what: Asked | CrawlDelay) -> None:
        """Append a row."""
        kind = _REQUEST if isinstance(what, Asked) else _DELAY
        self._append(kind + self._encode(what))

    def _append(self, body: bytes) -> None:
        frame = _FRAME.pack(len(body), isal_zlib.crc32(body)) + body
        if self._waiting:
            self._waiting.append(frame)
            self._write_waiting()
            return
        try:
            self._file.append(frame)
        except NoRoomError:  # the page log will meet the same error, and pause the rank
            self._waiting.append(frame)

    def _write_waiting(self) -> None:
        try:
            while self._waiting:
                self._file.append(self._waiting[0])
                self._waiting.popleft()
        except NoRoomError:
            return

    def sync(self) -> None:
        """Force the file to disk."""
        self._file.sync()

    def close(self) -> int:
        """Sync and close. Returns how many rows are lost because there is no room."""
        self._write_waiting()
        self._file.close()
        return len(self._waiting)


def request_files(session: Path) -> list[Path]:
    """Return the request logs of all ranks, by rank, then oldest first. Old sessions have none."""
    return [path for directory in rank_directories(session) for path in requests_of(directory)]


def requests_of(directory: Path) -> list[Path]:
    """Return the request logs in the directory of a rank, oldest first."""
    return sorted((directory / "requests").glob("*.log"))


_DECODERS: Final[Mapping[bytes, Callable[[memoryview], Manners | Asked | CrawlDelay]]] = {
    _MANNERS: msgspec.msgpack.Decoder(Manners).decode,
    _REQUEST: msgspec.msgpack.Decoder(Asked).decode,
    _DELAY: msgspec.msgpack.Decoder(CrawlDelay).decode,
}


def read_requests(path: Path) -> Iterator[Row]:
    """Yield the rows of a file, in the order of writing.

    If the file has a torn or damaged tail, the last row is a Torn. Raises UserError for an unknown
    format version.
    """
    with path.open("rb", buffering=1 << 20) as file:
        size = os.fstat(file.fileno()).st_size
        header = file.read(_HEADER.size)
        if len(header) < _HEADER.size or not header.startswith(_MAGIC):
            if size:
                yield Torn(path, 0, size)
            return
        _, version = _HEADER.unpack(header)
        if version != _VERSION:
            raise UserError(f"{path}: request log format {version}; this program reads {_VERSION}")
        offset = _HEADER.size
        while offset < size:
            head = file.read(_FRAME.size)
            body = b""
            if len(head) == _FRAME.size:
                length, checksum = _FRAME.unpack(head)
                if 0 < length <= size - offset - _FRAME.size:
                    body = file.read(length)
            row = _row(body) if body and isal_zlib.crc32(body) == checksum else None
            if row is None:
                yield Torn(path, offset, size - offset)
                return
            yield row
            offset += _FRAME.size + len(body)


def _row(body: bytes) -> Manners | Asked | CrawlDelay | None:
    """Return the row in the body of a frame, or None if the body isn't a known row."""
    decode = _DECODERS.get(body[:1])
    if decode is None:
        return None
    try:
        return decode(memoryview(body)[1:])
    except msgspec.DecodeError:
        return None


def read_promised(
    path: Path, tears: Callable[[Torn], None]
) -> Iterator[tuple[Asked | CrawlDelay, Promise]]:
    """Yield the requests and the Crawl-delays of a file, with the promises that hold for them.

    `tears` is called with a torn tail. A file that doesn't begin with manners is one as a whole.
    """
    promise, promise_to = None, None
    for row in read_requests(path):
        if isinstance(row, Manners):
            promise, promise_to = row.promise, row.promises()
        elif isinstance(row, Torn):
            tears(row)
        elif promise is None or promise_to is None:
            tears(Torn(path, 0, path.stat().st_size))
            return
        else:
            yield row, promise_to(row.site) if isinstance(row, Asked) else promise


def read_rests(files: Sequence[Path], clock: Clock, *, killed: bool) -> dict[str, float]:
    """Return the seconds that each site or address must still rest after the requests in files.

    After a kill (`killed`), the last requests may be missing in a log. So each site whose
    robots.txt asks for a longer delay than the configured one rests for that delay.
    """
    rests: dict[str, float] = {}
    for path in files:
        for name, seconds in _rests_after(path, clock, killed=killed).items():
            if seconds > 0:
                rests[name] = max(rests.get(name, 0.0), seconds)
    return rests


def _rests_after(path: Path, clock: Clock, *, killed: bool) -> dict[str, float]:
    """Return the seconds of rest by site after the requests in one file.

    A value is negative or missing if the rest is over.
    """
    rows = read_requests(path)
    manners = next(rows, None)
    if not isinstance(manners, Manners):
        return {}
    promise, now = manners.promise, manners.now(clock)
    promise_to = manners.promises()
    since = now - max(manners.longest_delay_s, promise.max_crawl_delay_s, promise.max_rest_s)
    if clock.time() - path.stat().st_mtime > now - since:
        return {}
    requests, sites, delays = Requests(), dict[str, str](), dict[str, float]()
    for row in rows:
        if isinstance(row, Asked):
            if row.started + row.seconds > since:
                requests.add(row, promise_to(row.site))
                sites[row.authority] = row.site
        elif isinstance(row, CrawlDelay):
            requests.add_delay(row, promise)
            delays[row.authority] = min(row.crawl_delay_s, promise.max_crawl_delay_s)
    rests = {name: until - now for name, until in requests.resting().items()}
    for authority, delay_s in delays.items() if killed else ():
        site = sites.get(authority)
        if site is not None and delay_s > promise_to(site).delay_s:
            rests[site] = max(rests.get(site, 0.0), delay_s)
    return rests


def is_cut(torn: Torn) -> bool:
    """Whether a torn tail may come from a kill, because it holds no whole frame."""
    with torn.path.open("rb") as file:
        file.seek(torn.offset)
        rest = file.read(_SEARCHED)
    for start in range(1, len(rest) - _FRAME.size):
        length, checksum = _FRAME.unpack_from(rest, start)
        body = rest[start + _FRAME.size :][:length] if 0 < length < _LONGEST else b""
        if len(body) == length and body[:1] in _DECODERS and isal_zlib.crc32(body) == checksum:
            return False
    return True


_SEARCHED: Final = 1 << 20  # bytes of a torn tail that are searched for whole frames
_LONGEST: Final = 1 << 16  # the most bytes of a row
