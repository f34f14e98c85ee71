"""The outboxes, in which URLs wait to be sent to their owners, and the batches that arrived."""

from array import array
from math import inf
from typing import Final

from crawler import config
from crawler.messages import Batch, ClockTerms, CookieTerms, FreedConnections
from crawler.ports import CrawlUrl

_URL_BYTES: Final = 230  # of a URL in an outbox, besides its text
_COUNT_BYTES: Final = 100  # of a number by key
_COOKIES_BYTES: Final = 600  # of the cookies of a URL


class Outbox:
    """All that waits to be sent to one rank, as the next batch."""

    __slots__ = (
        "allow",
        "ask",
        "born",
        "born_page",
        "claims",
        "clocks",
        "connections",
        "cookies",
        "declared_by",
        "ended",
        "found",
        "freed",
        "grants",
        "heard",
        "joined",
        "known",
        "lost",
        "members",
        "more",
        "moved",
        "number",
        "pages",
        "paused",
        "poor",
        "recalls",
        "replayed",
        "resting",
        "returned",
        "returned_urls",
        "scores",
        "seeds",
        "size",
        "stock",
        "stop",
        "unanswered",
        "wanted_back",
        "wants",
    )

    # Written by hand, because mypyc doesn't compile the methods that `dataclass` makes.
    def __init__(self, number: int = 0) -> None:
        self.found: dict[int, CrawlUrl] = {}  # the URLs, by key
        self.more: dict[int, int] = {}  # further links to these URLs, by key
        self.size = 0  # bytes of the URLs
        self.claims: list[str] = []
        self.grants: dict[str, int] = {}
        self.declared_by: dict[int, list[str]] = {}  # by key of a sitemap of that rank
        self.joined: list[tuple[str, str, str]] = []  # sites that join the scope
        self.ask = False
        self.allow = 0
        self.returned = 0
        self.stop = False
        self.paused = 0
        self.seeds: list[str] = []
        self.wants: list[str] = []
        self.clocks: list[ClockTerms] = []
        self.recalls: list[tuple[str, int]] = []
        self.freed: list[FreedConnections] = []
        self.cookies: dict[int, tuple[CookieTerms, ...]] = {}  # of the chains of URLs, by key
        # Links to URLs sent before, by the server that takes care of them, and by key.
        self.known: dict[int, dict[int, int]] = {}
        self.pages: list[tuple[int, bytes]] = []
        self.poor: list[int] = []
        self.scores: dict[int, float] = {}  # of URLs that a server hands out, by key
        self.heard = 0
        self.ended: list[int] = []
        self.unanswered: list[int] = []
        self.returned_urls: list[int] = []
        self.stock: int | None = None
        self.resting = 0
        self.connections = 0
        self.members: dict[int, bool] = {}
        self.lost: dict[int, int] = {}
        self.moved: dict[str, bytes] = {}
        self.wanted_back: list[str] = []
        self.replayed = False
        self.number = number
        self.born: float | None = None  # when the outbox got its first content
        self.born_page = 0  # pages that this rank had fetched by then

    def nbytes(self) -> int:
        """About how many bytes of memory the URLs take, with what is told about URLs by key."""
        counts = len(self.more) + len(self.scores) + sum(map(len, self.known.values()))
        urls = self.size + _URL_BYTES * len(self.found)
        return urls + _COUNT_BYTES * counts + _COOKIES_BYTES * len(self.cookies)

    def batch(self, load: int, *, with_keys: bool = False) -> Batch:
        """The content as a batch. `load`, and `keys` if `with_keys`: see `Batch`."""
        entries, more = self.found.values(), self.more
        return Batch(
            urls=[found.url for found in entries],
            counts=[1 + more.get(key, 0) for key in self.found] if more else [1] * len(entries),
            hops=[found.hops for found in entries],
            chains={i: found.chain for i, found in enumerate(entries) if found.chain},
            claims=self.claims,
            grants=self.grants,
            load=load,
            ask=self.ask,
            allow=self.allow,
            returned=self.returned,
            stop=self.stop,
            paused=self.paused,
            seeds=self.seeds,
            number=self.number,
            declared_by=self.declared_by,
            joined=self.joined,
            wants=self.wants,
            clocks=self.clocks,
            recalls=self.recalls,
            freed=self.freed,
            cookies=self.cookies,
            keys=array("Q", self.found).tobytes() if with_keys else b"",
            heard=self.heard,
            scores=array("d", map(self.scores.__getitem__, self.found)).tobytes()
            if self.scores
            else b"",
            known={
                owner: (array("Q", counts).tobytes(), array("I", counts.values()).tobytes())
                for owner, counts in self.known.items()
            },
            pages=self.pages,
            poor=self.poor,
            ended=array("Q", self.ended).tobytes(),
            unanswered=self.unanswered,
            returned_urls=self.returned_urls,
            stock=self.stock,
            resting=self.resting,
            connections=self.connections,
            members=self.members,
            lost=self.lost,
            moved=self.moved,
            wanted_back=self.wanted_back,
            replayed=self.replayed,
        )


class Outboxes:
    """One outbox for each rank. Decides when its batch must leave (`config.Exchange`).

    `pages`: the number of pages that this rank has fetched so far. The owner of the outboxes keeps
    it up to date, because batches also leave after a number of pages.
    """

    def __init__(self, ranks: int, exchange: config.Exchange) -> None:
        self.pages = 0
        self._exchange = exchange
        self._boxes = [Outbox() for _ in range(ranks)]
        self._filled: dict[int, Outbox] = {}  # outboxes with content by rank, the oldest first
        self._full: dict[int, Outbox] = {}  # outboxes whose batch leaves at once
        # When the oldest outbox is due, by time and by pages. They are read after every event.
        self._due_time = self._due_page = inf

    def open(self, rank: int, now: float, *, urgent: bool = False) -> Outbox:
        """The outbox of a rank, to put something in.

        `urgent`: the batch leaves at once, because a rank would otherwise be idle.
        """
        box = self._boxes[rank]
        if box.born is None:
            box.born, box.born_page = now, self.pages
            self._filled[rank] = box
            if len(self._filled) == 1:
                self._look()
        if urgent:
            self._full[rank] = box
        return box

    def add(self, rank: int, found: CrawlUrl, now: float) -> Outbox:
        """Put in a URL, and return the outbox. The same URL that waits there is replaced."""
        box = self.open(rank, now)
        box.found[found.key] = found
        box.size += len(found.url) + 1
        if box.size >= self._exchange.batch_bytes:
            self._full[rank] = box
        return box

    def count_again(self, rank: int, key: int, links: int = 1) -> bool:
        """Count more links to a URL, if it waits in the outbox of that rank."""
        box = self._boxes[rank]
        if key not in box.found:
            return False
        box.more[key] = box.more.get(key, 0) + links
        return True

    def __len__(self) -> int:
        return len(self._filled)

    def holds(self, key: int) -> bool:
        """Whether a URL waits in any outbox."""
        return any(key in box.found for box in self._filled.values())

    def nbytes(self) -> int:
        """About how many bytes of memory all of them take."""
        return sum(box.nbytes() for box in self._filled.values())

    def sent(self, rank: int) -> int:
        """The number of batches that have left for a rank."""
        return self._boxes[rank].number

    def due(self, now: float, *, everything: bool) -> list[tuple[int, Outbox]]:
        """Take out the boxes whose batch must leave now."""
        ready = self._filled if everything else self._full
        if not ready and now < self._due_time and self.pages < self._due_page:
            return []  # this is so after most events
        leaving = dict(ready)
        for rank, box in self._filled.items():
            if now < self._too_old(box) and self.pages < self._too_many(box):
                break
            leaving[rank] = box
        for rank, box in leaving.items():
            del self._filled[rank]
            self._boxes[rank] = Outbox(box.number + 1)
        self._full.clear()
        self._look()
        return list(leaving.items())

    def next_time(self) -> float | None:
        """The time at which the oldest batch gets too old, or None."""
        return self._due_time if self._filled else None

    def _look(self) -> None:
        """Compute when the oldest outbox is due."""
        oldest = next(iter(self._filled.values()), None)
        self._due_time = inf if oldest is None else self._too_old(oldest)
        self._due_page = inf if oldest is None else self._too_many(oldest)

    def _too_old(self, box: Outbox) -> float:
        assert box.born is not None
        return box.born + self._exchange.max_delay_s

    def _too_many(self, box: Outbox) -> int:
        return box.born_page + self._exchange.batch_pages


class Arrivals:
    """The batches of one sender that have arrived, in any order. A batch may arrive twice."""

    def __init__(self) -> None:
        self.opened = 0  # batches that `take` has returned
        self._before = 0  # all batches with lower numbers have arrived
        self._beyond: set[int] = set()  # higher numbers that have arrived

    def take(self, batch: Batch) -> list[Batch]:
        """Take a batch that arrives. Returns the batches that are to be opened now."""
        if not self._is_new(batch.number):
            return []
        self.opened += 1
        return [batch]

    def _is_new(self, number: int) -> bool:
        if number == self._before and not self._beyond:  # nearly always, batches arrive in order
            self._before += 1
            return True
        if number < self._before or number in self._beyond:
            return False
        self._beyond.add(number)
        while self._before in self._beyond:
            self._beyond.remove(self._before)
            self._before += 1
        return True


class OrderedArrivals(Arrivals):
    """Batches that are opened in the order in which they were sent.

    Where sites move between ranks, the order matters: what a batch says of a site depends on what
    the batches before it have said.
    """

    def __init__(self) -> None:
        super().__init__()
        self._early: dict[int, Batch] = {}  # batches that have overtaken others, by number

    def take(self, batch: Batch) -> list[Batch]:
        """See Arrivals."""
        if batch.number < self.opened:
            return []
        self._early[batch.number] = batch
        ready = []
        while (following := self._early.pop(self.opened, None)) is not None:
            ready.append(following)
            self.opened += 1
        return ready
