"""URLs that this rank finds and other ranks own.

What becomes of them is `session.mode` (Cho and Garcia-Molina 2002, section 3): in `exchange` they
are sent to their owners, in `firewall` dropped. In `cross-over` a rank sets them aside, and follows
them, oldest first, while it has dealt with everything of its own. `independent` knows none: each
rank owns what it finds.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from crawler import config
from crawler.core.outboxes import Outboxes
from crawler.core.seen import UrlSeen, sent_memory
from crawler.core.workbench import Workbench
from crawler.ports import Found, Link, Names, names_of
from crawler.reading.cookies import NO_COOKIES, Jar, Jars


@dataclass(slots=True)
class Traffic:
    """What this rank has sent, by the words of DESIGN: the models' messages aren't MPI's."""

    inter_part_links: int = 0  # links found whose page belongs to another rank
    dropped_links: int = 0  # of them those that a firewall stopped
    inter_part_pages: int = 0  # pages of other ranks that this one has crossed over to
    inter_part_urls: int = 0  # URLs sent
    transmissions_target_part: int = 0  # of them those not sent before, as far as is remembered
    messages_page_part: int = 0  # (page, other rank) pairs with a link
    site_part: set[tuple[str, int]] = field(default_factory=set)  # (source site, other rank) pairs
    claims: int = 0
    batches_sent: int = 0
    batches_received: int = 0


class Origin:
    """Where links were found."""

    __slots__ = ("again", "chain", "hops", "jar", "others", "source")

    # By hand, as mypyc compiles no method that `dataclass` makes, and there is one for each page.
    def __init__(
        self,
        source: Found | None,
        hops: int,
        chain: tuple[int, ...] = (),
        jar: Jar = NO_COOKIES,
        *,
        again: bool = False,
    ) -> None:
        self.source = source  # None: they are seeds
        self.hops = hops  # of the links
        self.chain = chain  # of the links; a link to a URL of the chain is to be asked for again
        self.jar = jar  # of the chain
        self.others: tuple[int, ...] = ()  # the ranks that own some of them
        self.again = again  # found in an earlier run, which has counted them


class Foreign:
    """`meet` takes each link to a URL of another rank, with its owner, and does what the mode says.

    In cross-over mode URLs wait `aside`; `taken_up` are the keys of those that have gone to the
    workbench and aren't dealt with.
    """

    def __init__(
        self,
        settings: config.Config,
        seen: UrlSeen,
        takes_in: Callable[[Found, Found | None], bool],
        bench: Workbench,
        outboxes: Outboxes,
        named_by: Mapping[int, Names],
        jars: Jars,
    ) -> None:
        """`takes_in` says whether the rules on traps let a URL in, given the page with the link.

        `named_by` gives for the key of a sitemap the authorities whose robots.txt names it. The
        owner of the sitemap is told. `jars` get the cookies of URLs that are set aside.
        """
        self.traffic = Traffic()
        # Keys. Who sends nothing has seen what others have fetched, and doesn't cross over to it.
        sends = self._sends = settings.session.mode == "exchange"
        self.sent = sent_memory(settings.exchange, seen) if sends else seen
        self.left: set[int] = set()  # keys of URLs that their owners are told by others
        self.aside: deque[Found] = deque()  # oldest first
        self.taken_up: set[int] = set()
        self._most_taken_up = settings.fetch.concurrency
        self._recounted = Traffic()  # what earlier runs have counted
        self._seen = seen
        self._takes_in = takes_in
        self._bench = bench
        self._outboxes = outboxes
        self._named_by = named_by
        self._jars = jars
        self._told: set[tuple[int, str]] = set()  # keys of sitemaps, and who names them
        ways: dict[str, Callable[[int, Link, Origin, float], None]]
        ways = {"firewall": self._drop, "cross-over": self._set_aside}
        self.meet = ways.get(settings.session.mode, self._send)

    def remember_sent(self, keys: Iterable[int]) -> None:
        """Links to these URLs were found in earlier runs, and they are fetched."""
        self.sent.update(keys)

    def leave_to_others(self, keys: Iterable[int]) -> None:
        """Links to these URLs were found in earlier runs, and other ranks admit them."""
        # Some are this rank's own, and mustn't be among the seen ones before they come.
        (self.left if self.sent is self._seen else self.sent).update(keys)

    def tell_names(self, owner: int, key: int, now: float) -> None:
        """Tell the owner of a sitemap whose robots.txt names it, each authority once.

        The URL itself may have been sent before, found as a plain link.
        """
        if not self._sends:
            return
        for authority in names_of(self._named_by.get(key)):
            if (key, authority) not in self._told:
                self._told.add((key, authority))
                late = key in self.sent  # the sitemap may be read any moment
                names = self._outboxes.open(owner, now, urgent=late).named_by
                names.setdefault(key, []).append(authority)

    def take_up(self, visiting: int, now: float) -> None:
        """Cross over: enqueue URLs set aside until one can be fetched now.

        Only while all of this rank's own pages are dealt with (`visiting` are under way), and few
        at a time: own pages may turn up with any of them.
        """
        bench, taken_up = self._bench, self.taken_up
        while self.aside and bench.waiting + visiting == len(taken_up) < self._most_taken_up:
            due = bench.next_time()
            if due is not None and due <= now:
                return
            found = self.aside.popleft()
            taken_up.add(found.key)
            bench.enqueue(found)

    def _drop(self, owner: int, link: Link, origin: Origin, now: float) -> None:
        traffic = self._recounted if origin.again else self.traffic
        traffic.inter_part_links += 1
        traffic.dropped_links += 1

    def _set_aside(self, owner: int, link: Link, origin: Origin, now: float) -> None:
        traffic = self._recounted if origin.again else self.traffic
        traffic.inter_part_links += 1
        again = link.key in origin.chain  # the rules on traps have let it in
        if again or link.key not in self._seen:
            self._seen.add(link.key)
            found = Found(link.key, link.url, link.site, origin.hops, origin.chain)
            if again or self._takes_in(found, origin.source):
                self._jars.put(link.key, origin.jar)
                self.aside.append(found)

    def _send(self, owner: int, link: Link, origin: Origin, now: float) -> None:
        traffic = self._recounted if origin.again else self.traffic
        traffic.inter_part_links += 1
        if origin.source is not None and owner not in origin.others:
            origin.others += (owner,)
            traffic.messages_page_part += 1
            traffic.site_part.add((origin.source.site, owner))
        key = link.key
        if self._named_by:
            self.tell_names(owner, key, now)
        # To be asked again: the owner is told even if it has been told of the URL before. That
        # counts as nothing sent, because the owner has the URL.
        returns = key in origin.chain
        if self._outboxes.count_again(owner, key):
            if returns:
                self._put(owner, link, origin, now)
            return
        new = key not in self.sent and key not in self.left
        self.sent.add(key)
        if new:
            traffic.transmissions_target_part += 1
        if new or self._bench.order.counts:  # its owner wants to know of every back-link
            self._put(owner, link, origin, now)
            traffic.inter_part_urls += 1
        elif returns:
            self._put(owner, link, origin, now)

    def _put(self, owner: int, link: Link, origin: Origin, now: float) -> None:
        found = Found(link.key, link.url, link.site, origin.hops, origin.chain)
        box = self._outboxes.add(owner, found, now)
        box.cookies.pop(link.key, None)
        if origin.jar.cookies:
            box.cookies[link.key] = origin.jar.terms()
