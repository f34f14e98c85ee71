"""The outside world of an agent, as protocols."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NoReturn, Protocol, TypeVar

from crawler.ports.errors import FetchError
from crawler.ports.fetches import Asked, CrawlDelay, Fetched, PageRow, Response, Validators
from crawler.ports.links import Link

T = TypeVar("T")


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

    def hash(self, fetched: Fetched) -> None:
        """Set the digest of a fetch that has a response."""
        ...

    def archive(self, fetched: Fetched, part: int, follows: Callable[[PageRow], bool]) -> PageRow:
        """Let the WARC records of a fetch wait for `log`. Returns the row that names them.

        `follows` says whether the links of a row are followed. If not, the links get the flag
        OUT_OF_SCOPE. Raises NoRoomError; then nothing waits.
        """
        ...

    def log(self, pages: Sequence[Fetched], rows: list[PageRow]) -> None:
        """Write the WARC records that wait, then the rows of fetches with their links.

        A row that can't be written is replaced by one that can, also in the list. Raises
        NoRoomError; then no row is written, and records still wait.
        """
        ...

    def flush(self) -> None:
        """Write the WARC records that wait. Raises NoRoomError; then they still wait."""
        ...

    def introduce(self, authority: str, sitemaps: Sequence[Link]) -> None:
        """Store the sitemaps that the robots.txt of an authority names. Raises NoRoomError."""
        ...

    def keep(self, url: str, response: Response) -> None:
        """Let the records of a response for a robots.txt wait for `flush`. They have no row.

        Raises NoRoomError; then nothing waits.
        """
        ...

    def keep_failure(self, url: str, started: float, seconds: float, error: FetchError) -> None:
        """Let a record wait for `flush` that says that a request got no response. It has no row.

        Raises NoRoomError; then nothing waits.
        """
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

    def read(self, number: int) -> bytes:
        """Return a chunk, which keeps its place."""
        ...

    def take(self, number: int) -> bytes:
        """Return a chunk, and free its place; a chunk can be taken once."""
        ...


class Transport(Protocol):
    """Messages between ranks. No method blocks the thread; `wait` and `close` are coroutines.

    `lost`: the ranks without which the others go on. Messages to them and from them are dropped.
    The other ranks keep their numbers, and no message between them is lost.
    """

    rank: int
    size: int
    lost: set[int]

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
        """Wait until a message may have come or left, at most `timeout` seconds.

        Raises LostRankError if ranks are lost. Then call `forgo` or `abandon`.
        """
        ...

    async def close(self) -> None:
        """Deliver all queued messages, and leave together with all other ranks.

        Raises LostRankError if a rank is lost meanwhile. Then call `abandon`.
        """
        ...

    def forgo(self, ranks: Iterable[int]) -> None:
        """Go on without these lost ranks. Every other rank must do the same, or call `abandon`."""
        ...

    def abandon(self) -> None:
        """Leave at once, because a rank was lost, and tell all other ranks."""
        ...


class Peers(Protocol):
    """The processes that do something together, and how they exchange values.

    All of them call these methods in the same order; each method waits for the other processes.
    """

    rank: int
    size: int

    async def bcast(self, value: T) -> T:
        """Return the value of rank 0, on every rank."""
        ...

    async def gather(self, value: T) -> list[T]:
        """Return all ranks' values in the order of ranks on rank 0, an empty list elsewhere."""
        ...

    async def alltoall(self, values: Sequence[T]) -> list[T]:
        """Give each rank the value at its index; return the value that each rank gave this one."""
        ...


class Group(Peers, Protocol):
    """The ranks of a crawl, and what they do together.

    All ranks call these methods in the same order; each method but `abort` waits for the other
    ranks. All methods but `all_done` and `survive` may raise LostRankError, on some of the ranks or
    on all.
    """

    async def connect(self) -> Transport:
        """Return a transport between all ranks, for one crawl."""
        ...

    async def all_done(self, done: bool, lost: Collection[int] = ()) -> bool:
        """Whether all remaining ranks say that they are done.

        The answer is the same on all of them, even if a rank dies meanwhile. A rank that has heard
        of a loss calls this with False. That interrupts the methods in which other ranks wait. Once
        the answer is no, it stays no until `survive`, and no rank is asked any more.

        `lost`: ranks that don't count any more. Their loss is no reason to say no.
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
